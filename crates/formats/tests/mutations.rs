//! Good files with random changes: no reader may panic, hang, or use disproportionate memory.
//!
//! Cases are numbered and the same on every machine. `SYNCLINE_FUZZ=100000` runs that many for each reader, and
//! `SYNCLINE_FUZZ_FROM=7` starts at another case.

use peak_alloc::PeakAlloc;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use syncline_formats::astra1::TextWorkload;
use syncline_formats::astra2::{Groups, Memory, NetworkFile, Source, System};
use syncline_formats::chakra::{CollectiveType, Graph, IoInfo, Metadata, Node, NodeKind, Reader, write_file};
use syncline_formats::msccl;
use syncline_plan::{Custom, PlanFile, by_name};
use syncline_units::CollectiveKind;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;
/// Readers run one at a time, because otherwise the memory of one would be counted for another.
static ALONE: Mutex<()> = Mutex::new(());

/// Number of cases for each reader.
const CASES: u64 = 20_000;
/// Longer than any of these small files should take, on a slow machine and without optimisation.
const LONG: Duration = Duration::from_secs(5);
/// Memory that a reader may use for any file, however short: tables, buffers, messages.
const FREE: usize = 1 << 20;
/// As [`FREE`], for readers that prove plans.
const FREE_FOR_PROOFS: usize = 64 << 20;
/// Memory that it may use in addition, per byte of the file. A byte may represent a node of a graph.
const PER_BYTE: usize = 64;

/// A generator of numbers that depend only on their seed: xorshift* (Vigna 2016).
struct Random(u64);

impl Random {
    fn new(case: u64) -> Self {
        // Similar seeds must not give similar numbers.
        let mut random = Self((case ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1);
        for _ in 0..4 {
            random.next();
        }
        random
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
    fn of<'a>(&mut self, all: &'a [&'a [u8]]) -> &'a [u8] {
        all[self.below(all.len())]
    }
}

/// Byte strings that are significant to some reader: large and odd numbers, brackets, quotes, varints, lengths.
const PIECES: &[&[u8]] = &[
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"4294967295",
    b"18446744073709551616",
    b"999999999",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"<",
    b"/>",
    b"&amp;",
    b"&x;",
    b"<!--",
    b"*a",
    b"&a ",
    b": ",
    b",",
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x20",
    b"\x1f\x8b\x08",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
];

/// Returns a file with a few changes.
fn changed(good: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(24)).min(bytes.len());
        match random.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, random.of(PIECES).iter().copied())),
            3 => drop(bytes.splice(at..end, random.of(PIECES).iter().copied())),
            4 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            5 if at < bytes.len() => bytes[at] = random.next() as u8,
            6 => {
                // Repeats a piece, up to some hundred times.
                let piece = bytes[at..end].repeat(1 + random.below(100));
                drop(bytes.splice(at..at, piece));
            }
            7 => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(200)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            _ => {
                // Changes a digit.
                if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + digit] = b'0' + random.below(10) as u8;
                }
            }
        }
    }
    bytes
}

/// Reads a number from the environment.
fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Reads many changed files. `read` returns whether a file was good, and may use `free` bytes of memory for a short
/// file.
fn torment(name: &str, seeds: &[Vec<u8>], free: usize, read: impl Fn(&[u8]) -> bool) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for good in seeds {
        assert!(read(good), "{name}: the file is wrong before it is changed");
    }
    let (from, cases) = (variable("SYNCLINE_FUZZ_FROM", 0), variable("SYNCLINE_FUZZ", CASES));
    let mut accepted = 0;
    for case in from..from.saturating_add(cases) {
        let mut random = Random::new(case);
        let good = &seeds[random.below(seeds.len())];
        let other = &seeds[random.below(seeds.len())];
        let bytes = changed(good, other, &mut random);
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
        let took = started.elapsed();
        let memory = ALLOCATOR.peak_usage().saturating_sub(before);
        let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(4000)]).into_owned();
        match outcome {
            Ok(good) => accepted += u64::from(good),
            Err(_) => panic!("{name}: case {case} panics:\n{}", shown()),
        }
        assert!(took < LONG, "{name}: case {case} takes {took:?}:\n{}", shown());
        let most = free + PER_BYTE * bytes.len();
        assert!(memory <= most, "{name}: case {case}: {memory} bytes for {}:\n{}", bytes.len(), shown());
    }
    // Changes that are never accepted would test only the first check.
    assert!(accepted > 0 || cases < 1000, "{name}: no changed file was accepted");
}

/// Reads a text; bytes that are not UTF-8 count as refused.
fn as_text(bytes: &[u8], read: impl Fn(Source) -> bool) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| read(Source::new("file", text)))
}

fn bytes_of(nodes: &[Node]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.et");
    write_file(&path, &Metadata::astra(), nodes).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn chakra_traces_with_changed_bytes_are_read_or_refused() {
    let job = [
        Node::compute(1, "forward", 5),
        Node::roofline(2, "gemm", 1 << 30, 1 << 20).after(&[1]),
        Node::collective(3, "reduce", CollectiveType::AllReduce, 1 << 20).after(&[2]).in_group("1"),
        Node::collective(4, "gather", CollectiveType::AllGather, 64).after(&[1, 3]).in_dims(&[true, false]),
        Node::send(5, "s", 0, 1, 4096, 7).after(&[4]),
        Node::receive(6, "r", 1, 0, 4096, 7).after(&[4]),
        Node::memory(7, "load", NodeKind::MemLoad, 1 << 20),
    ];
    let long: Vec<Node> = (1..60)
        .map(|id| Node::compute(id, "x", id).after(&[id.saturating_sub(1)][usize::from(id < 2)..]))
        .collect();
    let mut groups = Node::new(1, "## process_group:init ##", NodeKind::Metadata);
    groups.inputs = Some(IoInfo {
        values: r#"['[{"pg_name": "0", "ranks": []}, {"pg_name": "dp", "ranks": [0, 2, 1]}]']"#.to_owned(),
        ..IoInfo::default()
    });
    let reduce = Node::collective(2, "reduce", CollectiveType::AllReduce, 64).in_group("dp").after(&[1]);
    let seeds = [bytes_of(&job), bytes_of(&long), bytes_of(&[groups, reduce])];
    for replay in [false, true] {
        torment("chakra", &seeds, FREE, |bytes| {
            Reader::new(bytes, "t.0.et").and_then(|mut reader| Graph::read(&mut reader, replay)).is_ok()
        });
    }
}

#[test]
fn astra_text_with_changed_bytes_is_read_or_refused() {
    let layer = "conv1 -1 5 NONE 0 6 ALLTOALL 8 7 ALLREDUCE 1048576 9\n";
    let seeds: Vec<Vec<u8>> = [
        format!("DATA\n1\n{layer}"),
        format!("HYBRID_DLRM 0\n3\n{layer}{layer}{layer}"),
        format!("HYBRID_TRANSFORMER model_parallel_NPU_group: 4\n2\n{layer}{layer}"),
    ]
    .map(String::into_bytes)
    .to_vec();
    torment("text workload", &seeds, FREE, |bytes| {
        as_text(bytes, |source| TextWorkload::parse(source).is_ok())
    });
}

#[test]
fn astra_configuration_with_changed_bytes_is_read_or_refused() {
    let network = "# speeds\ntopology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 8, 4, 2 ]\n\
                   bandwidth: [ 200, 100.5, 5e1 ]  # GB/s\nlatency: [ 0, 0.5, 2000.0 ]\n";
    torment("network", &[network.into()], FREE, |bytes| {
        as_text(bytes, |source| NetworkFile::parse(source).is_ok())
    });
    let system = r#"{"scheduling-policy": "LIFO", "endpoint-delay": 12, "active-chunks-per-dimension": 2,
        "preferred-dataset-splits": 64, "all-reduce-implementation": ["ring", "direct"],
        "all-gather-implementation": ["ring", "oneDirect12"], "collective-optimization": "localBWAware",
        "local-mem-bw": 1555.5, "peak-perf": 312, "roofline-enabled": 1}"#;
    let more = r#"{"model-shared-bus": 1, "L": 5, "o": 2, "g": 3, "G": 0.01, "local-reduction-delay": 2,
        "all-reduce-implementation-custom": ["folder/ring"], "track-local-mem": 1, "boost-mode": 0, "splits": 3}"#;
    torment("system", &[system.into(), more.into()], FREE, |bytes| {
        as_text(bytes, |source| System::parse(source).is_ok())
    });
    let memory = r#"{"memory-type": "NO_MEMORY_EXPANSION"}"#;
    torment("memory", &[memory.into()], FREE, |bytes| as_text(bytes, |source| Memory::parse(source).is_ok()));
    let groups = r#"{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7], "30": [0, 4]}"#;
    torment("groups", &[groups.into()], FREE, |bytes| as_text(bytes, |source| Groups::parse(source).is_ok()));
}

/// All-gather of two GPUs, as TE-CCL writes it.
const COPIES: &str = r#"<algo name="x" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0" redop="nop">
<gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0"><copy i_off="0" o_off="0"/><tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="0" cnt="1"/><step s="1" type="r" dstbuf="o" dstoff="1" cnt="1"/></tb></gpu>
<gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0"><copy i_off="0" o_off="1"/><tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="1" cnt="1"/><step s="1" type="r" dstbuf="o" dstoff="0" cnt="1"/></tb></gpu>
</algo>
"#;

#[test]
fn msccl_programs_with_changed_bytes_are_read_or_refused() {
    let seeds = [
        include_bytes!("../src/msccl/testdata/ring_all_reduce.xml").to_vec(),
        include_bytes!("../src/msccl/testdata/two_step_all_to_all.xml").to_vec(),
        COPIES.as_bytes().to_vec(),
    ];
    torment("msccl", &seeds, FREE_FOR_PROOFS, |bytes| {
        as_text(bytes, |source| {
            let Ok((plan, _)) = msccl::parse(&source) else { return false };
            // What is read can be written.
            msccl::write(&plan).unwrap();
            true
        })
    });
}

#[test]
fn plan_files_with_changed_bytes_are_read_or_refused() {
    let plan = |name: &str, kind, ranks| {
        let plan = PlanFile::of(&*by_name(name).unwrap(), kind, ranks).unwrap();
        serde_json::to_string(&plan).unwrap().into_bytes()
    };
    let seeds = [
        plan("direct", CollectiveKind::AllToAll, 3),
        plan("halving_doubling", CollectiveKind::AllReduce, 4),
        plan("double_binary_tree", CollectiveKind::Broadcast, 3),
        plan("parameter_server(placement=NCC)", CollectiveKind::AllReduce, 2),
    ];
    torment("plan", &seeds, FREE_FOR_PROOFS, |bytes| {
        std::str::from_utf8(bytes).is_ok_and(|text| {
            let Ok(plan) = PlanFile::from_json(text, "plan.json") else { return false };
            let good = Custom::new(&plan).is_ok();
            // Plans that MSCCL cannot express are reported as errors, not panics.
            let _ = msccl::write(&plan);
            good
        })
    });
}
