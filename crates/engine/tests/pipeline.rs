//! Pipelines, ZeRO, recomputation and sequence parallelism: times and bytes against closed forms.

use crate::support::{cases, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_diagnostics::Code;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Data, PathKind, Timeline, Track};

/// Layers of `forward` and `backward` microseconds, each in its own block, that pass on one element.
fn layers(number: u32, forward: f64, backward: f64) -> Vec<Value> {
    let layer = |index| {
        json!({"name": format!("l{index}"), "forward": {"time": format!("{forward}us")},
            "weight_grad": {"time": format!("{backward}us")}, "inputs": 1, "outputs": 1, "block": index,
            "sharding": "divided"})
    };
    (0..number).map(layer).collect()
}

/// A job on one dimension, over which messages take next to no time.
fn job(layers: Vec<Value>, ranks: u32, parallel: Value, micro_batches: u32) -> Value {
    json!({
        "schema": "syncline/1",
        "workload": {"source": "layers", "layers": layers, "parallel": parallel, "micro_batches": micro_batches,
            "types": "fp16"},
        "fabric": {"dims": [{"name": "d", "shape": "switch", "size": ranks, "rate": "100TB/s", "latency": "0s"}]},
        "collectives": {"chunks": 1},
    })
}

fn scenario(value: &Value) -> Scenario {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn ints<'a>(timeline: &'a Timeline, table: &str, column: &str) -> &'a [i64] {
    match &timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Int(values) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_bubble_is_p_minus_1_of_m_and_virtual_stages_divide_it() {
    // Narayanan et al. 2021, 2.2: a step takes (m + (p - 1) / v) (f + b), f and b a stage's forward and backward time.
    for (schedule, p, v, m) in [
        ("gpipe", 4, 1, 8),
        ("1f1b", 4, 1, 8),
        ("1f1b", 8, 1, 3),
        ("gpipe", 2, 1, 1),
        ("interleaved", 4, 2, 8),
        ("interleaved", 4, 5, 4),
        ("interleaved", 2, 3, 16),
    ] {
        let parallel = json!({"data": "none", "pipeline": "all", "schedule": schedule, "virtual_stages": v});
        let (f, b) = (120.0, 240.0);
        let of = layers(p * v, f / f64::from(v), b / f64::from(v));
        let summary = simulate(&job(of, p, parallel, m)).summary;
        let expected = (f64::from(m) + f64::from(p - 1) / f64::from(v)) * (f + b) * 1e-6;
        // Messages of two bytes take a picosecond over each of two links.
        let slack = 4e-12 * f64::from(2 * p * v * (m + p));
        let found = summary.step_time_s;
        assert!((expected..expected + slack).contains(&(found + 1e-13)), "{schedule} {found} {expected}");
        assert!((summary.compute_s - f64::from(m) * (f + b) * 1e-6).abs() < 1e-12);
        let bubble = 1.0 - summary.compute_s / found;
        let closed = f64::from(p - 1) / (f64::from(m * v) + f64::from(p - 1));
        assert!((bubble - closed).abs() < 1e-6, "{schedule}: {bubble}, expected {closed}");
        let ratio = summary.bubble_s / summary.compute_s;
        let closed = f64::from(p - 1) / f64::from(m * v);
        assert!((ratio - closed).abs() < 1e-6, "{schedule}: bubble {ratio} of compute, expected {closed}");
        assert!(summary.skew_s == 0.0 && summary.exposed_communication_s < 1e-9, "{summary:?}");
        // The critical path agrees.
        let of = |kind| {
            summary.critical_path.iter().find(|part| part.kind == kind).map_or(0.0, |part| part.time_s)
        };
        let ratio = of(PathKind::Bubble) / of(PathKind::Compute);
        assert!(
            (ratio - closed).abs() < 1e-6,
            "{schedule}: bubble {ratio} of compute on the path, expected {closed}"
        );
        assert_eq!(summary.micro_batches, Some(u64::from(m)).filter(|&m| m > 1));
    }
}

#[test]
fn the_trace_distinguishes_bubble_from_exposed_communication() {
    // Two stages of 100 us forward and 200 us backward, one micro-batch, and messages of 2 us. The second stage begins
    // 102 us late, of which 100 us are bubble. The first stage waits for the second one's message until 404 us; then
    // the second waits for the first one's end.
    let mut of = layers(2, 100.0, 200.0);
    of[0]["outputs"] = json!(100_000);
    let mut value = job(of, 2, json!({"data": "none", "pipeline": "all"}), 1);
    value["fabric"]["dims"][0]["rate"] = json!("100GB/s");
    value["trace"] = json!({"ranks": [0, 1]});
    let timeline = simulate(&value);
    let waits: Vec<_> = (timeline.spans.spans.iter())
        .filter(|span| matches!(span.track, Track::Exposed | Track::Bubble | Track::Skew))
        .map(|span| (span.rank.0, span.track, span.start.0 / 1_000_000, span.end.0 / 1_000_000))
        .collect();
    let expected = [
        (1, Track::Bubble, 0, 100),
        (1, Track::Exposed, 100, 102),
        (0, Track::Bubble, 100, 402),
        (0, Track::Exposed, 402, 404),
        (1, Track::Exposed, 402, 404),
        (1, Track::Bubble, 404, 604),
    ];
    let sorted = |mut all: Vec<_>| {
        all.sort();
        all
    };
    assert_eq!(sorted(waits), sorted(expected.to_vec()));
}

#[test]
fn parts_are_sent_forward_and_their_gradients_back() {
    // Ten micro-batches over three cuts, both ways, of 300 elements of two bytes; each stage is a class.
    let mut of = layers(8, 10.0, 20.0);
    of.iter_mut().for_each(|layer| layer["outputs"] = json!(300));
    let value = job(of.clone(), 4, json!({"data": "none", "pipeline": "all"}), 10);
    let summary = simulate(&value).summary;
    assert_eq!((summary.bytes, summary.messages), (10 * 3 * 2 * 600, 60));
    assert_eq!(summary.parallelism, "pipeline 4");
    // Two chunks in each stage make seven cuts.
    let parallel = json!({"data": "none", "pipeline": "all", "schedule": "interleaved", "virtual_stages": 2});
    assert_eq!(simulate(&job(of.clone(), 4, parallel, 12)).summary.messages, 12 * 7 * 2);
    // Ranks that divide a sequence send their own tokens.
    let parallel =
        json!({"tensor": {"degree": 2}, "data": "none", "pipeline": {"degree": 4}, "sequence": true});
    assert_eq!(simulate(&job(of, 8, parallel, 10)).summary.bytes, 10 * 3 * 2 * 600);
}

#[test]
fn both_stages_sum_the_gradients_of_a_table_that_they_share() {
    let mut of = layers(4, 10.0, 20.0);
    of[0]["parameters"] = json!(1000);
    let last =
        json!({"name": "head", "forward": {"time": "1us"}, "weight_grad": {"time": "1us"}, "shares": "l0"});
    of.push(last);
    let value = job(of, 8, json!({"data": {"degree": 2}, "pipeline": {"degree": 4}}), 1);
    let timeline = simulate(&value);
    // Three cuts in both directions on each of two copies; 2,000 bytes in both directions; and an all-reduce of these
    // on both stages.
    let reduces = ints(&timeline, "collectives", "size_bytes");
    assert_eq!(reduces, [2000, 2000]);
    assert_eq!(timeline.summary.bytes, 2 * (3 * 2 * 2 + 2 * 2000) + 2 * 2 * 2000);
}

/// Bytes that collectives over `role` move in a step, as multiples of the parameters' bytes, by their kind.
fn collectives(value: &Value) -> Vec<(String, i64)> {
    let timeline = simulate(value);
    let Data::Text(kinds) = &timeline.table("collectives").unwrap().column("kind").unwrap().data else {
        panic!("kinds are text")
    };
    let kinds = kinds.iter().map(ToString::to_string);
    kinds.zip(ints(&timeline, "collectives", "size_bytes").iter().copied()).collect()
}

#[test]
fn stages_of_zero_move_the_bytes_that_rajbhandari_gives() {
    // 7.1, 7.2: stages 1 and 2 move as much as an all-reduce, in its two parts; stage 3 moves half as much again.
    let with = |zero: u8, micro_batches: u32| {
        let mut of = layers(1, 10.0, 20.0);
        of[0]["parameters"] = json!(6000);
        of[0]["update"] = json!({"time": "9us"});
        let value = job(of, 3, json!({"zero": zero}), micro_batches);
        (collectives(&value), simulate(&value).summary)
    };
    let names = |found: Vec<(String, i64)>| {
        let short = found.iter().map(|(kind, bytes)| format!("{kind} {bytes}"));
        short.collect::<Vec<_>>().join(", ")
    };
    let plain = with(0, 1);
    assert_eq!(names(plain.0), "all_reduce 12000");
    for zero in [1, 2] {
        let found = with(zero, 1);
        assert_eq!(names(found.0), "reduce_scatter 12000, all_gather 12000");
        assert_eq!(found.1.bytes, plain.1.bytes);
        // The update takes a third of its time.
        assert!((found.1.compute_s - 33e-6).abs() < 1e-12);
    }
    let found = with(3, 1);
    assert_eq!(names(found.0), "all_gather 12000, all_gather 12000, reduce_scatter 12000");
    assert_eq!(2 * found.1.bytes, 3 * plain.1.bytes);
    // Divided gradients are reduced in each micro-batch.
    let count = |zero| with(zero, 4).0.len();
    assert_eq!([0, 1, 2, 3].map(count), [1, 2, 5, 12]);
}

#[test]
fn the_update_of_zero_waits_for_its_gradients_and_the_next_pass_for_its_parameters() {
    let time = |zero: u8| {
        let mut of = layers(1, 10.0, 20.0);
        of[0]["parameters"] = json!(1_000_000);
        of[0]["update"] = json!({"time": "8us"});
        let mut value = job(of, 2, json!({"zero": zero}), 1);
        value["fabric"]["dims"][0] = json!({"name": "d", "shape": "fully_connected", "size": 2, "rate": "100GB/s", "latency": "500ns"});
        simulate(&value).summary.step_time_s * 1e6
    };
    // 2 MB between two NPUs: 10.5 us to scatter, the same to gather.
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    close(time(0), 30.0 + 21.0 + 8.0);
    close(time(1), 30.0 + 10.5 + 4.0 + 10.5);
    close(time(3), 10.5 + 10.0 + 10.5 + 20.0 + 10.5 + 4.0);
}

#[test]
fn blocks_are_gathered_while_the_previous_one_is_computed() {
    // Four blocks of 30 us forward and 40 us backward, whose parameters take 10.5 us to gather. Compute waits for the
    // first gathering; at the turn to the backward pass, for that of the block whose parameters were just freed; and
    // for the last reduction.
    let mut of = layers(4, 30.0, 40.0);
    of.iter_mut().for_each(|layer| layer["parameters"] = json!(1_000_000));
    let mut value = job(of, 2, json!({"zero": 3}), 1);
    value["fabric"]["dims"][0] =
        json!({"name": "d", "shape": "fully_connected", "size": 2, "rate": "100GB/s", "latency": "500ns"});
    let summary = simulate(&value).summary;
    let expected = 10.5 + 4.0 * 70.0 + 10.5 + 10.5;
    assert!((summary.step_time_s * 1e6 - expected).abs() < 1e-6, "{}", summary.step_time_s * 1e6);
}

/// A block with a column layer and a row layer between replicated layers, as in a transformer's perceptron.
fn perceptron(block: u32) -> Vec<Value> {
    let layer = |name: &str, sharding: &str, selective: bool| {
        json!({"name": format!("{name}{block}"), "forward": {"time": "8us"}, "input_grad": {"time": "8us"},
            "weight_grad": {"time": "8us"}, "parameters": 100, "inputs": 1000, "outputs": 1000, "sharding": sharding,
            "block": block, "selective": selective})
    };
    vec![
        layer("norm", "replicated", false),
        layer("up", "column", false),
        layer("act", "divided", true),
        layer("down", "row", false),
    ]
}

fn blocks(number: u32) -> Vec<Value> {
    (0..number).flat_map(perceptron).collect()
}

#[test]
fn recomputation_repeats_forward_work_and_exchanges() {
    let with = |parallel: Value| {
        let mut parallel = parallel;
        parallel["tensor"] = json!("all");
        parallel["data"] = json!("none");
        let value = job(blocks(2), 4, parallel, 1);
        let mut counts = std::collections::BTreeMap::<String, i64>::new();
        collectives(&value).into_iter().for_each(|(kind, bytes)| *counts.entry(kind).or_default() += bytes);
        (counts.into_iter().collect::<Vec<_>>(), simulate(&value).summary.compute_s * 1e6)
    };
    let kinds = |found: &[(String, i64)]| {
        found.iter().map(|(kind, bytes)| format!("{kind} {bytes}")).collect::<Vec<_>>().join(", ")
    };
    // Forward: 8 and three times 2; backward twice that, except for the first layer's input gradient.
    let plain = with(json!({}));
    assert_eq!((kinds(&plain.0), plain.1), ("all_reduce 8000".to_owned(), 3.0 * 28.0 - 8.0));
    // The divided layer again: 2 us a block, nothing exchanged.
    let selective = with(json!({"recompute": "selective"}));
    assert_eq!((kinds(&selective.0), selective.1), ("all_reduce 8000".to_owned(), 80.0));
    // All of forward again, with its exchange: hier2021's two more all-reduces of a block's perceptron and attention.
    let full = with(json!({"recompute": "full"}));
    assert_eq!((kinds(&full.0), full.1), ("all_reduce 12000".to_owned(), 104.0));
    let divided = with(json!({"recompute": "full", "divided_checkpoints": true}));
    assert_eq!((kinds(&divided.0), divided.1), ("all_gather 4000, all_reduce 12000".to_owned(), 104.0));
}

#[test]
fn sequence_parallelism_moves_as_many_bytes_in_other_collectives() {
    let value = |sequence: bool, layers: Vec<Value>| {
        job(layers, 4, json!({"tensor": "all", "data": "none", "sequence": sequence}), 1)
    };
    let [plain, sequence] = [false, true].map(|on| simulate(&value(on, blocks(2))));
    // Korthikanti et al. 2022, 4.2.2: a reduce-scatter and an all-gather replace each all-reduce, and inputs are
    // gathered again for the weight gradient. In addition, the norms' gradients are summed.
    let once = 2 * 3 * 2000 / 4 * 4;
    assert_eq!(plain.summary.bytes, 2 * 2 * once);
    let again = once;
    let norms = 2 * (2 * 3 * 200 / 4 * 4);
    assert_eq!(sequence.summary.bytes, 2 * 2 * once + again + norms);
    // Norms are divided: 8 us become 2 us in each of the three passes of a block, except for the first input gradient.
    let saved = plain.summary.compute_s - sequence.summary.compute_s;
    assert!((saved * 1e6 - 30.0).abs() < 1e-6, "{saved}");
}

#[test]
fn impossible_divisions_are_refused_by_name() {
    let mut heads = blocks(6);
    heads[1]["heads"] = json!(12);
    heads[0]["tokens"] = json!(30);
    let model = |degree: u32| json!({"degree": degree});
    for (parallel, ranks, micro_batches, key, message) in [
        (
            json!({"tensor": model(16)}),
            16,
            1,
            "parallel.tensor",
            "there are more tensor-parallel ranks than the 12 heads",
        ),
        (
            json!({"tensor": model(8)}),
            8,
            1,
            "parallel.tensor",
            "ranks do not divide the 12 heads of layer `up0`",
        ),
        (
            json!({"tensor": model(4), "sequence": true}),
            4,
            1,
            "parallel.sequence",
            "the 30 tokens of layer `norm0`",
        ),
        (
            json!({"pipeline": model(4)}),
            4,
            8,
            "parallel.pipeline",
            "6 blocks do not divide into 4 equal parts",
        ),
        (
            json!({"pipeline": model(2), "schedule": "interleaved", "virtual_stages": 2}),
            2,
            8,
            "parallel.pipeline",
            "6 blocks do not divide into 4 equal parts",
        ),
        (
            json!({"pipeline": model(2), "schedule": "interleaved", "virtual_stages": 3}),
            2,
            7,
            "micro_batches",
            "must be a multiple of the stages",
        ),
        (
            json!({"virtual_stages": 2}),
            2,
            1,
            "parallel.virtual_stages",
            "does not allow this number of virtual stages",
        ),
        (json!({"zero": 4}), 2, 1, "parallel.zero", "no such stage of ZeRO"),
        (
            json!({"divided_checkpoints": true}),
            2,
            1,
            "parallel.divided_checkpoints",
            "only full recomputation",
        ),
        (json!({"pipeline": model(2)}), 2, 1 << 20, "micro_batches", "has too many tasks"),
    ] {
        let error = run(&scenario(&job(heads.clone(), ranks, parallel, micro_batches)), Control::default());
        let error = error.unwrap_err();
        let first = &error.0[0];
        assert_eq!(first.code, Code::BadWorkload, "{error}");
        assert_eq!(first.key.as_deref(), Some(&*format!("workload.{key}")), "{error}");
        assert!(first.message.contains(message), "{error}");
    }
    let refused = |layers: Vec<Value>, parallel: Value| {
        run(&scenario(&job(layers, 2, parallel, 1)), Control::default()).unwrap_err().to_string()
    };
    let mut silent = layers(2, 1.0, 1.0);
    silent[0]["outputs"] = json!(0);
    let two = json!({"data": "none", "pipeline": "all"});
    assert!(refused(silent, two.clone()).contains("layer `l0` ends a stage but has no `outputs`"));
    let mut lost = layers(2, 1.0, 1.0);
    lost[1]["shares"] = json!("lo");
    assert!(refused(lost, two).contains("no other layer has this name"));
    let mut plain = layers(2, 1.0, 1.0);
    plain.iter_mut().for_each(|layer| layer["block"] = Value::Null);
    assert!(refused(plain.clone(), json!({"recompute": "full"})).contains("no layer belongs to a `block`"));
    assert!(refused(plain, json!({"recompute": "selective"})).contains("no layer is marked `selective`"));
}

fn random() -> impl Strategy<Value = Value> {
    (
        (1u32..3, 1u32..4, 1u32..4, 1u32..3),
        prop::sample::select(vec![
            ["tensor", "data", "pipeline"],
            ["tensor", "pipeline", "data"],
            ["pipeline", "data", "tensor"],
        ]),
        prop::sample::select(vec!["gpipe", "1f1b", "interleaved"]),
        (0u8..4, prop::sample::select(vec!["none", "selective", "full"]), any::<[bool; 4]>()),
        (1u32..5, 1u32..3, prop::sample::select(vec!["analytical", "queued"])),
    )
        .prop_map(|((tensor, data, stages, scale), order, schedule, memory, (rounds, iterations, network))| {
            let (zero, recompute, [divided, sequence, input_first, overlaps]) = memory;
            let interleaved = schedule == "interleaved" && stages > 1;
            let virtual_stages = if interleaved { 2 } else { 1 };
            let schedule = if schedule == "interleaved" && !interleaved { "1f1b" } else { schedule };
            let sizes = order.map(|kind| match kind {
                "tensor" => tensor,
                "data" => data,
                _ => stages,
            });
            let dims: Vec<Value> = sizes
                .iter()
                .enumerate()
                .map(|(at, size)| {
                    json!({"name": format!("d{at}"), "shape": if at == 1 { "ring" } else { "switch" }, "size": size,
                        "rate": "100GB/s", "latency": "500ns"})
                })
                .collect();
            let micro_batches = if interleaved { stages * rounds } else { rounds };
            json!({
                "schema": "syncline/1",
                "workload": {
                    "source": "layers",
                    "layers": blocks(stages * virtual_stages * scale),
                    "parallel": {
                        "tensor": {"degree": tensor}, "data": "rest", "pipeline": {"degree": stages}, "order": order,
                        "schedule": schedule, "virtual_stages": virtual_stages, "zero": zero, "recompute": recompute,
                        "divided_checkpoints": divided && recompute == "full", "sequence": sequence,
                        "backward": if input_first { "input_first" } else { "weight_first" },
                        "overlap": if overlaps { "gradients" } else { "none" },
                    },
                    "micro_batches": micro_batches, "iterations": iterations, "types": "fp16",
                },
                "fabric": {"dims": dims},
                "collectives": {"chunks": 2, "min_chunk": "1B"},
                "network": {"model": network},
            })
        })
}

proptest! {
    #![proptest_config(cases(60))]
    #[test]
    fn any_mixture_finishes_the_same_with_the_quotient_and_without(value in random()) {
        let quotient = simulate(&value);
        let mut all = value.clone();
        all["symmetry"] = json!(false);
        let full = simulate(&all);
        let same = |timeline: &Timeline| {
            let s = &timeline.summary;
            (s.total_time_s, s.step_time_s, s.compute_s, s.exposed_communication_s, s.messages, s.bytes)
        };
        prop_assert_eq!(same(&quotient), same(&full), "{}", value);
        for table in ["layers", "ranks", "links"] {
            prop_assert!(quotient.table(table) == full.table(table), "{table} {value}");
        }
    }
}

/// Without overlap, a step is the sum of its compute and its exchanges, whatever ZeRO divides.
#[test]
fn without_overlap_a_step_is_the_sum_of_its_parts() {
    for zero in 0..4 {
        for recompute in ["none", "full"] {
            let timeline = simulate(&json!({
                "schema": "syncline/1",
                "workload": {
                    "source": "layers", "layers": blocks(3), "types": "fp16",
                    "parallel": {
                        "tensor": {"degree": 2}, "data": "rest", "zero": zero, "recompute": recompute, "overlap": "none"
                    },
                },
                "fabric": {"dims": [
                    {"name": "a", "shape": "switch", "size": 2, "rate": "1GB/s", "latency": "500ns"},
                    {"name": "b", "shape": "switch", "size": 4, "rate": "1GB/s", "latency": "500ns"},
                ]},
                "collectives": {"chunks": 1},
            }));
            let s = &timeline.summary;
            // Means over ranks, some of which end a few nanoseconds earlier.
            let sum = s.compute_s + s.communication_s;
            assert!((s.total_time_s - sum).abs() < 1e-4 * sum, "{zero} {recompute} {s:?}");
        }
    }
}
