//! Tests of MSCCL programs.

use super::program::StepKind;
use super::*;
use proptest::prelude::*;
use syncline_diagnostics::Code;
use syncline_plan::custom::{OpEntry, StreamEntry};
use syncline_plan::{Buffer, by_name, registry::ENTRIES, verify::verify};
use syncline_units::CollectiveKind;

/// Ring all-reduce on three GPUs, in place.
const RING: &str = include_str!("testdata/ring_all_reduce.xml");
/// All-to-all on two nodes of two GPUs: data for the other GPU of the other node is forwarded by the neighbour.
const TWO_STEPS: &str = include_str!("testdata/two_step_all_to_all.xml");

fn read_text(text: &str) -> Result<PlanFile> {
    parse(&Source::new("p.xml", text)).map(|(plan, _)| plan)
}

fn refused(text: &str) -> Diagnostic {
    read_text(text).expect_err("this is refused").0.remove(0)
}

#[test]
fn handwritten_programs_are_correct_and_round_trip() {
    for (text, kind, ranks) in
        [(RING, CollectiveKind::AllReduce, 3), (TWO_STEPS, CollectiveKind::AllToAll, 4)]
    {
        let plan = read_text(text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!((plan.kind, plan.ranks), (kind, ranks));
        assert_eq!(write(&plan).unwrap(), text);
    }
}

#[test]
fn steps_of_a_program_become_instructions() {
    let ring = read_text(RING).unwrap();
    let ops = &ring.seats[1].streams[0].ops;
    assert_eq!(ops.len(), 1 + 3 + 3 + 3 + 2);
    let receive =
        OpEntry::Receive { from: 0, block: 0, count: 1, of: None, buffer: Buffer::Data, reduce: true };
    assert_eq!(ops[1..3], [receive, OpEntry::Wait {}]);
    let exchange = read_text(TWO_STEPS).unwrap();
    assert_eq!(exchange.seats[0].streams[2].ops[1], OpEntry::After { stream: 1, ops: 4 });
    assert_eq!(exchange.seats[0].streams[2].channel, Some(0));
}

#[test]
fn data_that_is_not_kept_passes_through_scratch() {
    // The partial sums of the first round need not be kept.
    let text = RING.replace(r#"<step s="1" type="rrcs""#, r#"<step s="1" type="rrs""#);
    let plan = read_text(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let slot = OpEntry::Send { to: 1, block: 0, count: 1, of: None, buffer: Buffer::Scratch };
    assert_eq!(plan.seats[0].streams[0].ops[4], slot);
    let again = write(&plan).unwrap();
    assert!(again.contains("s_chunks=\"1\""));
    assert_eq!(read_text(&again).unwrap(), plan);
}

#[test]
fn shares_and_placement_are_respected() {
    let gather = |coll: &str, inplace: u8, steps: [&str; 2]| {
        let gpu = |id: u32| {
            let steps = steps[id as usize];
            format!(
                r#"<gpu id="{id}" i_chunks="1" o_chunks="2" s_chunks="0"><tb id="0" send="{}" recv="{}" chan="0">{steps}</tb></gpu>"#,
                1 - id,
                1 - id
            )
        };
        format!(
            r#"<algo name="x" nchannels="1" nchunksperloop="2" ngpus="2" coll="{coll}" inplace="{inplace}">{}{}</algo>"#,
            gpu(0),
            gpu(1)
        )
    };
    // Out of place, GPU 1's only input chunk is block 1 of the result.
    let steps = |own: u32, other: u32| {
        format!(
            r#"<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{own}" cnt="1"/>
               <step s="1" type="s" srcbuf="i" srcoff="0" cnt="1"/>
               <step s="2" type="r" dstbuf="o" dstoff="{other}" cnt="1"/>"#
        )
    };
    let text = gather("allgather", 0, [&steps(0, 1), &steps(1, 0)]);
    let plan = read_text(&text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.result, Some(Buffer::Output));
    assert_eq!(read_text(&write(&plan).unwrap()).unwrap(), plan);
    // In place, there is nothing to copy.
    let steps = |other: u32| {
        format!(
            r#"<step s="0" type="s" srcbuf="i" srcoff="0" cnt="1"/><step s="1" type="r" dstbuf="o" dstoff="{other}" cnt="1"/>"#
        )
    };
    let plan = read_text(&gather("allgather", 1, [&steps(1), &steps(0)]))
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.result, None);
    assert_eq!(read_text(&write(&plan).unwrap()).unwrap(), plan);
    // Reduce-scatter out of place: the output is one chunk.
    let steps = |own: u32, other: u32| {
        format!(
            r#"<step s="0" type="s" srcbuf="i" srcoff="{other}" cnt="1"/>
               <step s="1" type="rrc" srcbuf="i" srcoff="{own}" dstbuf="o" dstoff="0" cnt="1"/>"#
        )
    };
    for coll in ["reduce_scatter", "reducescatter"] {
        let plan = read_text(&gather(coll, 0, [&steps(0, 1), &steps(1, 0)]))
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(read_text(&write(&plan).unwrap()).unwrap(), plan);
    }
}

/// Checks that the plan is proved after a round trip, and that every step has the peer that it needs.
fn survives(plan: &PlanFile) -> PlanFile {
    let name = format!("{} {} {}", plan.name, plan.kind, plan.ranks);
    let text = write(plan).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    loads_in_the_runtimes(&text);
    let read = read_text(&text).unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"));
    assert_eq!((read.kind, read.ranks, &read.name), (plan.kind, plan.ranks, &plan.name));
    verify(&Custom::new(&read).unwrap(), plan.kind, plan.ranks).unwrap_or_else(|e| panic!("{name}: {e}"));
    // The plan that is read has one peer per stream. Some steps may be merged when it is written; after that it no
    // longer changes.
    let again = write(&read).unwrap();
    let settled = read_text(&again).unwrap_or_else(|errors| panic!("{name}: {errors}\n{again}"));
    assert_eq!(write(&settled).unwrap(), again, "{name}");
    read
}

#[test]
fn every_algorithm_and_collective_round_trips() {
    let mut written = 0;
    for entry in ENTRIES {
        for example in entry.examples {
            let algorithm = by_name(example).unwrap();
            for &kind in CollectiveKind::ALL {
                for ranks in 1..10 {
                    // Skips what the library does not offer, and plans with their own hubs.
                    let Ok(plan) = PlanFile::of(&*algorithm, kind, ranks) else { continue };
                    if plan.helpers == 0 {
                        survives(&plan);
                        written += 1;
                    }
                }
            }
        }
    }
    assert!(written > 450, "{written}");
}

#[test]
fn a_stream_with_several_peers_is_spread() {
    let direct = by_name("direct").unwrap();
    let read = survives(&PlanFile::of(&*direct, CollectiveKind::AllReduce, 4).unwrap());
    // One thread block for each peer, on one channel.
    assert_eq!(read.seats[0].streams.len(), 3);
    assert!(read.seats[0].streams[1..].iter().all(|stream| stream.channel == Some(0)));
    let program = from_plan::program(&PlanFile::of(&*direct, CollectiveKind::AllReduce, 4).unwrap()).unwrap();
    for block in program.gpus.iter().flat_map(|gpu| &gpu.blocks) {
        assert_eq!(block.send, block.recv);
    }
    // Receives that reduce into the same chunk follow each other: each but the first waits for another.
    let blocks = &program.gpus[0].blocks;
    let reduces: Vec<_> = (0u32..)
        .zip(blocks)
        .map(|(block, steps)| {
            let kinds = steps.steps.iter().map(|step| step.kind);
            (block, kinds.take_while(|kind| *kind != StepKind::ReceiveReduceCopy).count() as u32)
        })
        .collect();
    let after = |&(block, step): &(u32, u32)| blocks[block as usize].steps[step as usize].after;
    assert_eq!(reduces.iter().filter(|at| after(at).is_none()).count(), 1);
    let mut others: Vec<_> = reduces.iter().filter_map(after).collect();
    others.sort_unstable();
    others.dedup();
    assert!(others.len() == 2 && others.iter().all(|at| reduces.contains(at)), "{others:?}");
}

#[test]
fn streams_that_wait_for_each_other_may_be_spread() {
    // Reduce-scatter in one stream, all-gather in another that waits for it, part by part.
    let direct = by_name("direct(window=1)").unwrap();
    for (ranks, early) in [(3, false), (4, false), (4, true)] {
        let mut plan = PlanFile::of(&*direct, CollectiveKind::AllReduce, ranks).unwrap();
        for seat in &mut plan.seats {
            let mut gather = seat.streams[0].ops.split_off(3 * (ranks as usize - 1));
            if early {
                // A dependency on zero instructions, and one in the middle.
                gather.insert(0, OpEntry::After { stream: 0, ops: 0 });
                gather.insert(1, OpEntry::After { stream: 0, ops: 4 });
            }
            gather.insert(0, OpEntry::After { stream: 0, ops: 3 * (ranks - 1) });
            seat.streams.push(StreamEntry { channel: None, ops: gather });
        }
        let read = survives(&plan);
        assert_eq!(read.seats[0].streams.len() as u32, 2 * (ranks - 1));
    }
}

#[test]
fn plans_that_msccl_cannot_express_are_refused() {
    let refused = |name: &str, message: &str| {
        let plan = PlanFile::of(&*by_name(name).unwrap(), CollectiveKind::AllReduce, 4).unwrap();
        let error = write(&plan).unwrap_err().0.remove(0);
        assert_eq!(error.code, Code::NotMsccl, "{error}");
        assert!(error.message.contains(message), "{error}");
    };
    for entry in ENTRIES.iter().flat_map(|entry| entry.examples) {
        let algorithm = by_name(entry).unwrap();
        if algorithm.seats(4) > 4 {
            refused(entry, "MSCCL has no seats that are not ranks");
        }
    }
    refused("parameter_server(placement=NCC)", "MSCCL has no seats that are not ranks");
    let mut plan = read_text(RING).unwrap();
    plan.seats[0].streams[0].ops.clear();
    assert_eq!(write(&plan).unwrap_err().0[0].code, Code::WrongPlan);
}

#[test]
fn wrong_programs_are_refused_with_the_reason() {
    let error =
        refused(&RING.replace(r#"type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1""#, r#"type="nop""#));
    assert_eq!(error.code, Code::WrongPlan);
    assert!(error.place.is_some() && error.key.is_some() || error.message.contains("rank"), "{error}");
}

#[test]
fn errors_name_line_and_attribute() {
    for (from, to, code, line, message) in [
        ("<algo ", "<aglo ", Code::BadMsccl, 1, "an element is not allowed here"),
        ("coll=\"allreduce\"", "coll=\"alreduce\"", Code::BadMsccl, 1, "unsupported collective"),
        ("coll=\"allreduce\"", "", Code::BadMsccl, 1, "an attribute is missing"),
        ("ngpus=\"3\"", "ngpus=\"4\"", Code::BadMsccl, 1, "there are fewer GPUs"),
        ("ngpus=\"3\"", "ngpus=\"2\"", Code::BadMsccl, 20, "there are more GPUs"),
        ("ngpus=\"3\"", "ngpus=\"0\"", Code::BadMsccl, 1, "must be at least 1"),
        ("ngpus=\"3\"", "ngpus=\"99999999999\"", Code::BadMsccl, 1, "a whole number is expected"),
        ("proto=\"Simple\"", "proto=\"LL64\"", Code::BadMsccl, 1, "unknown protocol"),
        ("minBytes=\"0\"", "minBytes=\"-1\"", Code::BadMsccl, 1, "a whole number is expected"),
        (
            "minBytes=\"0\" maxBytes=\"0\"",
            "minBytes=\"9\" maxBytes=\"8\"",
            Code::BadMsccl,
            1,
            "never be chosen",
        ),
        ("inplace=\"1\"", "inplace=\"yes\"", Code::BadMsccl, 1, "0 or 1 is expected"),
        ("<gpu id=\"1\"", "<gpu id=\"2\"", Code::BadMsccl, 11, "there is no GPU 1"),
        ("<tb id=\"0\"", "<tb id=\"1\"", Code::BadMsccl, 3, "there is no block 0"),
        ("<step s=\"1\"", "<step s=\"2\"", Code::BadMsccl, 5, "steps are not numbered in order"),
        ("type=\"rcs\"", "type=\"rsc\"", Code::BadMsccl, 7, "unknown type of step"),
        ("srcbuf=\"i\" srcoff=\"0\"", "srcbuf=\"x\" srcoff=\"0\"", Code::BadMsccl, 4, "unknown buffer"),
        ("srcoff=\"0\"", "srcoff=\"3\"", Code::BadMsccl, 4, "chunks beyond the end of its buffer"),
        ("cnt=\"1\"", "cnt=\"0\"", Code::BadMsccl, 4, "at least 1 chunk"),
        ("send=\"1\"", "send=\"-1\"", Code::BadMsccl, 4, "a step sends, but"),
        ("recv=\"2\"", "recv=\"-1\"", Code::BadMsccl, 5, "a step receives, but"),
        ("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"0\"", Code::BadMsccl, 4, "its own thread block"),
        ("depid=\"-1\" deps=\"-1\"", "depid=\"1\" deps=\"0\"", Code::BadMsccl, 4, "which does not exist"),
        ("</algo>", "", Code::BadSyntax, 30, "the file ends within an element"),
        ("</algo>", "</algo><algo/>", Code::BadMsccl, 29, "an element is not allowed here"),
        ("</gpu>", "</tb>", Code::BadSyntax, 10, "not well-formed XML"),
        ("<gpu ", "hello<gpu ", Code::BadSyntax, 2, "text between elements"),
        ("<algo ", "<!DOCTYPE algo []><algo ", Code::BadSyntax, 1, "a document type is not allowed"),
        ("name=\"ring", "name=\"&x;ring", Code::BadSyntax, 1, "is malformed"),
        ("<gpu ", "&amp;<gpu ", Code::BadSyntax, 2, "an entity is not allowed"),
        (
            "hasdep=\"0\"/>",
            "hasdep=\"0\"><step/></step>",
            Code::BadMsccl,
            4,
            "an element is not allowed here",
        ),
    ] {
        let changed = RING.replacen(from, to, 1);
        assert_ne!(changed, RING, "{from}");
        let error = refused(&changed);
        let at = error.place.as_ref().map(|place| place.line);
        assert!(error.message.contains(message), "{to}: {error}");
        assert_eq!((error.code, at), (code, Some(line)), "{to}: {error}");
    }
    assert_eq!(refused("").code, Code::BadSyntax);
    let waited = TWO_STEPS.replacen("hasdep=\"1\"", "hasdep=\"0\"", 1);
    assert!(refused(&waited).message.contains("has hasdep 0"));
    let coll = refused(&RING.replace("allreduce", "alreduce"));
    assert_eq!(coll.nearest.as_deref(), Some("allreduce"));
}

#[test]
fn ignored_attributes_and_elements_are_warnings() {
    let text = RING
        .replace("nchannels=\"1\"", "nchannels=\"1\" maxcount=\"4\"")
        .replace("<step ", "<step algostep=\"7\" ")
        .replace("<tb ", "<note><tb id=\"x\"/></note><tb ");
    let (plan, warnings) = parse(&Source::new("p.xml", text)).unwrap();
    assert_eq!(plan, read_text(RING).unwrap());
    let told: Vec<_> =
        warnings.0.iter().map(|warning| (warning.code, warning.key.clone().unwrap())).collect();
    assert_eq!(told, ["maxcount", "note", "algostep"].map(|key| (Code::MscclIgnored, key.to_owned())));
    assert_eq!(warnings.0[2].notes, ["14 more of this kind"]);
    assert_eq!(warnings.0[0].place.as_ref().unwrap().line, 1);
    // If a missing attribute makes the program wrong, the misspelt attribute is named too.
    let errors = read_text(&RING.replace("inplace", "inplaze")).unwrap_err().0;
    assert_eq!(errors[0].code, Code::WrongPlan);
    assert_eq!(errors.last().unwrap().nearest.as_deref(), Some("inplace"));
}

#[test]
fn attributes_for_choosing_programs_are_kept() {
    let text = RING.replace(
        "proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"3\" ngpus=\"3\" coll=\"allreduce\" inplace=\"1\" \
         outofplace=\"0\" minBytes=\"0\" maxBytes=\"0\"",
        "proto=\"LL128\" nchannels=\"1\" nchunksperloop=\"3\" ngpus=\"3\" coll=\"allreduce\" inplace=\"1\" \
         outofplace=\"1\" minBytes=\"1024\" maxBytes=\"1099511627776\"",
    );
    assert_ne!(text, RING);
    let plan = read_text(&text).unwrap();
    assert_eq!(write(&plan).unwrap(), text);
    // Also through a plan file.
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(PlanFile::from_json(&json, "plan.json").unwrap(), plan);
}

/// Checks the requirements of the parsers in Azure/msccl-executor-nccl and ROCm/rccl
/// (`src/misc/msccl/msccl_parser.cc`).
fn loads_in_the_runtimes(text: &str) {
    let attributes = |line: &str| -> std::collections::BTreeMap<String, String> {
        let fields = line.split_once(' ').map_or("", |(_, rest)| rest);
        let mut found = std::collections::BTreeMap::new();
        for field in fields.trim_end_matches(['>', '/']).split("\" ") {
            if let Some((key, value)) = field.split_once("=\"") {
                found.insert(key.trim().to_owned(), value.trim_end_matches('"').to_owned());
            }
        }
        found
    };
    let has = |line: &str, keys: &[&str]| {
        let found = attributes(line);
        keys.iter().for_each(|key| assert!(found.contains_key(*key), "no {key} in {line}"));
        found
    };
    let number =
        |found: &std::collections::BTreeMap<String, String>, key: &str| found[key].parse::<i64>().unwrap();
    let mut buffers = [0; 3];
    let mut waits = 0;
    // Steps that wait for others, and steps that others wait for, by thread block.
    let (mut awaited, mut real) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        match line.split([' ', '>']).next().unwrap() {
            "<algo" => {
                let keys = [
                    "nchunksperloop",
                    "nchannels",
                    "ngpus",
                    "proto",
                    "coll",
                    "minBytes",
                    "maxBytes",
                    "inplace",
                    "outofplace",
                ];
                let found = has(line, &keys);
                let known = ["allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce"];
                assert!(known.contains(&found["coll"].as_str()), "{line}");
                assert!(found.len() <= 16);
            }
            "<gpu" => {
                let found = has(line, &["id", "i_chunks", "o_chunks", "s_chunks"]);
                buffers = ["i_chunks", "o_chunks", "s_chunks"].map(|key| number(&found, key));
                (awaited, real) = (Vec::new(), Vec::new());
            }
            "<tb" => {
                has(line, &["id", "send", "recv", "chan"]);
                real.push(Vec::new());
                waits = 0;
            }
            "<step" => {
                let keys =
                    ["s", "type", "srcoff", "srcbuf", "dstoff", "dstbuf", "cnt", "depid", "deps", "hasdep"];
                let found = has(line, &keys);
                for (buffer, offset) in [("srcbuf", "srcoff"), ("dstbuf", "dstoff")] {
                    let space = ["i", "o", "s"].iter().position(|name| *name == found[buffer]).unwrap();
                    let least = if found["type"] == "nop" { -1 } else { 0 };
                    let offset = number(&found, offset);
                    assert!(offset >= least && (offset < buffers[space] || least < 0), "{line}");
                }
                let depends = number(&found, "depid") >= 0;
                if depends {
                    awaited.push((number(&found, "depid"), number(&found, "deps")));
                }
                let nop = found["type"] == "nop";
                if nop {
                    assert!(depends && found["hasdep"] == "0", "{line}");
                    waits += 1;
                } else {
                    assert!(
                        waits == 0 || depends,
                        "the step behind a chain of waits must wait itself: {line}"
                    );
                    waits = 0;
                }
                real.last_mut().unwrap().push(!nop && found["hasdep"] == "1");
            }
            "</tb>" => assert_eq!(waits, 0, "nothing comes after a wait"),
            "</gpu>" => {
                for &(block, step) in &awaited {
                    assert!(real[block as usize][step as usize], "nobody may wait for {block}, {step}");
                }
            }
            _ => {}
        }
    }
}

#[test]
fn initial_copies_are_done_first() {
    // All-gather of two GPUs. Each GPU's own share is in its output before any step.
    let program = |inplace: u8, copies: [&str; 2]| {
        let gpu = |id: u32| {
            format!(
                r#"<gpu id="{id}" i_chunks="1" o_chunks="2" s_chunks="0">{}<tb id="0" send="{}" recv="{}" chan="0"><step s="0" type="s" srcbuf="o" srcoff="{id}" cnt="1"/><step s="1" type="r" dstbuf="o" dstoff="{}" cnt="1"/></tb></gpu>"#,
                copies[id as usize],
                1 - id,
                1 - id,
                1 - id
            )
        };
        format!(
            r#"<algo name="x" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="{inplace}">{}{}</algo>"#,
            gpu(0),
            gpu(1)
        )
    };
    let own = [r#"<copy i_off="0" o_off="0"/>"#, r#"<copy i_off="0" o_off="1"/>"#];
    let plan = read_text(&program(0, own)).unwrap_or_else(|errors| panic!("{errors}"));
    let ops = &plan.seats[1].streams;
    assert_eq!((ops.len(), &ops[0].ops[0]), (2, &OpEntry::After { stream: 1, ops: 1 }));
    assert!(matches!(ops[1].ops[..], [OpEntry::Copy { .. }]));
    assert_eq!(read_text(&write(&plan).unwrap()).unwrap(), plan);
    // In place, the share is there already.
    let plan = read_text(&program(1, own)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((plan.seats[1].streams.len(), plan.seats[1].streams[0].ops.len()), (1, 2 + 1));
    // Without the copies, or with a wrong one, the program is wrong.
    assert_eq!(refused(&program(0, ["", ""])).code, Code::WrongPlan);
    let beyond = refused(&program(0, [own[0], r#"<copy i_off="1" o_off="1"/>"#]));
    assert_eq!((beyond.code, beyond.key.as_deref()), (Code::BadMsccl, Some("i_off")));
    assert!(refused(&program(0, [own[0], r#"<copy i_off="0"/>"#])).message.contains("is missing"));
}

#[test]
fn files_with_a_fifth_level_are_refused() {
    let deep = "<algo>".repeat(100_000);
    assert!(matches!(refused(&deep).code, Code::BadMsccl | Code::BadSyntax));
}

#[test]
fn names_with_special_characters_round_trip() {
    let mut plan = read_text(RING).unwrap();
    plan.name = "a \"b\" <c> & 'd' \u{e9}".to_owned();
    assert_eq!(read_text(&write(&plan).unwrap()).unwrap().name, plan.name);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        text in "\\PC*|(<(/?)(algo|gpu|tb|step)( [a-z]{1,6}=\"[0-9a-z-]{0,4}\"){0,4}(/?)>){0,8}",
    ) {
        let _ = read_text(&text);
    }

    #[test]
    fn no_change_of_a_good_program_panics(
        at in 0usize..4000,
        put in "\\PC{0,4}|[0-9]{1,9}|-1|rrs|rrc|cpy|nop|re|[ios]",
        take in 0usize..4,
        second: bool,
    ) {
        let good = if second { TWO_STEPS } else { RING };
        let start = at % good.len();
        let text = format!("{}{put}{}", &good[..start], &good[(start + take).min(good.len())..]);
        if let Ok(plan) = read_text(&text) {
            let again = write(&plan).unwrap();
            prop_assert_eq!(write(&read_text(&again).unwrap()).unwrap(), again);
        }
    }
}
