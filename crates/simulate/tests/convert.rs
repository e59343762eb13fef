//! Converts files to another format, and back.

use crate::support::shared::shared;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syncline_astra_compat::{Inputs, Options as AstraOptions};
use syncline_convert::{Converted, Options, to_chakra};
use syncline_formats::chakra::{
    CollectiveType, Metadata, Node, Reader, Traces, Writer, load::Loading, write_file,
};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
    /// A scenario whose workload is the traces of a prefix.
    fn of_traces(&self, name: &str, prefix: &str, dims: &str) -> PathBuf {
        let groups = self.path(&format!("{prefix}.groups.json"));
        let text = |path: &Path| serde_json::to_string(&path.display().to_string()).unwrap();
        let groups = if groups.exists() { text(&groups) } else { "null".to_owned() };
        let prefix = text(&self.path(prefix));
        let workload = format!(r#"{{"source": "chakra", "prefix": {prefix}, "groups": {groups}}}"#);
        self.file(name, &scenario(&workload, dims))
    }
    /// The bytes of all files of a prefix, by the part of the name after the prefix.
    fn bytes(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap());
        entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                let rest = name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned();
                (rest.ends_with("et") || rest.ends_with("groups.json"))
                    .then(|| (rest, fs::read(entry.path()).unwrap()))
            })
            .collect()
    }
}

fn scenario(workload: &str, dims: &str) -> String {
    format!(r#"{{"schema": "syncline/1", "workload": {workload}, "fabric": {{"dims": [{dims}]}}}}"#)
}

fn dims(sizes: &[u32]) -> String {
    let dim = |(index, size): (usize, &u32)| {
        format!(
            r#"{{"name": "d{index}", "shape": "ring", "size": {size}, "rate": "50GB/s", "latency": "500ns"}}"#
        )
    };
    sizes.iter().enumerate().map(dim).collect::<Vec<_>>().join(", ")
}

fn converted(input: &Path, output: &Path, options: &Options) -> Converted {
    to_chakra(input, output, options).unwrap_or_else(|errors| panic!("{}: {errors}", input.display()))
}

fn total_ps(scenario: &str) -> u64 {
    let scenario: Scenario = serde_json::from_str(scenario).unwrap();
    let run = run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}"));
    (run.timeline.summary.total_time_s * 1e12).round() as u64
}

/// A text workload whose times are whole microseconds.
fn text(policy: &str, layer_policy: [&str; 3]) -> String {
    let [a, b, c] = layer_policy;
    format!(
        "{policy}\n3\n\
         a -1 3000 ALLREDUCE 64000 2000 NONE 0 4000 ALLREDUCE 1000000 1000 {a}\n\
         b -1 5000 ALLGATHER 8000 2000 ALLREDUCE 32000 4000 REDUCESCATTER 640000 0 {b}\n\
         c -1 3000 NONE 0 6000 ALLTOALL 64000 1000 ALLREDUCE 320000 2000 {c}\n"
    )
}

const POLICIES: [(&str, [&str; 3], &[u32]); 6] = [
    ("HYBRID_DATA_MODEL", [""; 3], &[2, 4]),
    ("HYBRID_MODEL_DATA", [""; 3], &[2, 2, 3]),
    ("HYBRID_TRANSFORMER model_parallel_NPU_group: 4", [""; 3], &[2, 4, 2]),
    ("HYBRID_TRANSFORMER model_parallel_NPU_group: 2", [""; 3], &[4]),
    ("HYBRID_TRANSFORMER", [""; 3], &[2, 2, 2]),
    ("HYBRID_CUSTOMIZED", ["HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_DATA_MODEL"], &[2, 4]),
];

#[test]
fn traces_run_as_the_text_does_and_are_a_fixed_point() {
    for (policy, own, sizes) in POLICIES {
        let folder = Folder::new();
        let input = folder.file("w.txt", &text(policy, own));
        let options = Options { dims: sizes.to_vec(), iterations: 2 };
        let summary = converted(&input, &folder.path("once"), &options);
        assert_eq!(summary.ranks, sizes.iter().product::<u32>());
        assert!(summary.warnings.0.is_empty(), "{policy}: {}", summary.warnings);

        let file = serde_json::to_string(&input.display().to_string()).unwrap();
        let workload = format!(r#"{{"source": "astra_text", "file": {file}, "iterations": 2}}"#);
        let direct = total_ps(&scenario(&workload, &dims(sizes)));
        let again = folder.of_traces("again.json", "once", &dims(sizes));
        let read = total_ps(&fs::read_to_string(&again).unwrap());
        // A group that is not a whole dimension is one flat axis in a trace, so its time differs.
        let split = policy.ends_with("group: 4") || policy.ends_with("group: 2");
        assert_eq!(
            (summary.groups > 0, split || read == direct),
            (split, true),
            "{policy}: {read}, not {direct}"
        );

        converted(&again, &folder.path("twice"), &Options::default());
        let (once, twice) = (folder.bytes("once"), folder.bytes("twice"));
        assert!(once.len() as u32 >= summary.ranks);
        assert!(once == twice, "{policy}: written again, the traces differ");
    }
}

/// Reads every node and writes it again.
fn rewritten(path: &Path) -> Vec<u8> {
    let mut reader = Reader::open(path).unwrap();
    let mut writer = Writer::new(Vec::new(), reader.metadata()).unwrap();
    while let Some(node) = reader.next_node().unwrap() {
        writer.write(&node).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn written_traces_read_back() {
    let folder = Folder::new();
    let input = folder.file("w.txt", &text("HYBRID_TRANSFORMER model_parallel_NPU_group: 4", [""; 3]));
    let options = Options { dims: vec![2, 4, 2], iterations: 3 };
    let summary = converted(&input, &folder.path("t"), &options);
    assert_eq!(summary.files.len(), 17);
    let traces = Traces::load(&folder.path("t"), 16, Loading::default()).unwrap();
    let nodes: usize = (0..16).map(|rank| traces.graph(rank).len()).sum();
    assert_eq!(nodes as u64, summary.nodes);
    for file in summary.files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "et")) {
        assert_eq!(rewritten(file), fs::read(file).unwrap());
    }
    // 4 model groups of 4 ranks, 4 data groups of 4 ranks; traces are equal if both groups are equal.
    assert_eq!(summary.groups, 8);
    let groups: BTreeMap<String, Vec<u32>> =
        serde_json::from_slice(&folder.bytes("t")["groups.json"]).unwrap();
    assert_eq!(groups["1"], [0, 1, 2, 3]);
    assert_eq!(groups["2"], [0, 4, 8, 12]);
}

#[test]
fn whole_dimensions_need_no_groups() {
    let folder = Folder::new();
    let input = folder.file("w.txt", &text("HYBRID_DATA_MODEL", [""; 3]));
    let options = Options { dims: vec![2, 4], iterations: 1 };
    let summary = converted(&input, &folder.path("t"), &options);
    assert_eq!((summary.groups, summary.files.len()), (0, 8));
    let traces = Traces::load(&folder.path("t"), 8, Loading::default()).unwrap();
    assert_eq!(traces.graphs().len(), 1);
    assert_eq!(traces.graphs()[0].involved(0), [true, false]);
}

#[test]
fn compute_is_rounded_to_microseconds_with_a_warning() {
    let folder = Folder::new();
    let input = folder.file(
        "w.txt",
        "DATA\n2\na -1 1499 NONE 0 1500 NONE 0 400 NONE 0 0\nb -1 0 NONE 0 2500 NONE 0 7000 NONE 0 0\n",
    );
    let summary = converted(&input, &folder.path("t"), &Options { dims: vec![2], iterations: 10 });
    let warning = summary.warnings.to_string();
    // 1499 + 7000 + 2500 + 400 become 1, 7, 3 and 0 microseconds.
    assert!(warning.contains("3 of 4 compute tasks"), "{warning}");
    assert!(warning.contains("from 113.99us to 110us; the changes add up to 13.99us"), "{warning}");
    assert!(warning.contains("1 of them become 0"), "{warning}");
    let traces = Traces::load(&folder.path("t"), 2, Loading::default()).unwrap();
    let micros: Vec<u64> = traces.graphs()[0].ops().iter().take(4).map(|op| op.duration_micros).collect();
    assert_eq!(micros, [1, 7, 3, 0]);
}

#[test]
fn published_workloads_are_converted() {
    let Some(folder) = shared("data/astra1/workload") else { return };
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let input = entry.unwrap().path();
        let out = Folder::new();
        match to_chakra(&input, &out.path("once"), &Options { dims: vec![2, 4, 4], iterations: 2 }) {
            Err(errors) => assert!(errors.to_string().contains("FWD_IN_BCKWD"), "{errors}"),
            Ok(_) => {
                let again = out.of_traces("again.json", "once", &dims(&[2, 4, 4]));
                converted(&again, &out.path("twice"), &Options::default());
                assert!(out.bytes("once") == out.bytes("twice"), "{}", input.display());
                count += 1;
            }
        }
    }
    assert_eq!(count, 9);
}

/// The network, system and groups of README 3.6 of the reference: a ring of 8, 50 GB/s, 500 ns, 4 chunks.
fn cycles(folder: &Folder, prefix: &str, npus: &str, algorithms: &str) -> Vec<u64> {
    let dims = npus.split(',').count();
    let repeat = |word: &str| vec![word; dims].join(", ");
    let network = format!(
        "topology: [ {} ]\nnpus_count: [ {npus} ]\nbandwidth: [ {} ]\nlatency: [ {} ]\n",
        repeat("Ring"),
        repeat("50.0"),
        repeat("500.0")
    );
    let system = format!(
        r#"{{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
            "preferred-dataset-splits": 4, "all-reduce-implementation": [{algorithms}],
            "all-gather-implementation": [{algorithms}], "reduce-scatter-implementation": [{algorithms}],
            "all-to-all-implementation": [{algorithms}], "collective-optimization": "localBWAware",
            "local-mem-bw": 1600}}"#
    );
    let groups = folder.path(&format!("{prefix}.groups.json"));
    let inputs = Inputs {
        workload: folder.path(prefix),
        system: folder.file("system.json", &system),
        network: folder.file("network.yml", &network),
        memory: None,
        groups: groups.exists().then_some(groups),
    };
    let outcome = syncline_astra_compat::run(&inputs, &AstraOptions::default())
        .unwrap_or_else(|errors| panic!("{prefix}: {errors}"));
    let mut ranks: Vec<(u32, u64)> = outcome.ranks.iter().map(|rank| (rank.rank, rank.cycles)).collect();
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, cycles)| cycles).collect()
}

#[test]
fn a_scenario_takes_astra_sim_as_long_as_it_should() {
    let folder = Folder::new();
    let comm = |kind: &str, bytes: &str| {
        let workload = format!(
            r#"{{"source": "collectives", "collectives": [{{"kind": "{kind}", "bytes": "{bytes}"}}]}}"#
        );
        let input = folder.file("s.json", &scenario(&workload, &dims(&[8])));
        converted(&input, &folder.path(kind), &Options::default());
        cycles(&folder, kind, "8", "\"ring\"")
    };
    // Measured with ASTRA-sim 2.
    assert_eq!(comm("all_reduce", "1MiB"), [64_440; 8]);
    for (kind, full, written) in [
        (CollectiveType::AllGather, "8MiB", 1 << 20),
        (CollectiveType::ReduceScatter, "1MiB", 1 << 20),
        (CollectiveType::AllToAll, "1MiB", 1 << 20),
    ] {
        let name = kind.name().to_lowercase();
        for rank in 0..8 {
            let node = Node::collective(3, "c", kind, written);
            write_file(&folder.path(&format!("hand.{rank}.et")), &Metadata::astra(), &[node]).unwrap();
        }
        assert_eq!(comm(&name, full), cycles(&folder, "hand", "8", "\"ring\""), "{name}");
    }
}

#[test]
fn converted_traces_take_astra_sim_as_long_as_the_originals() {
    let folder = Folder::new();
    for rank in 0..8u32 {
        let half = (1 + rank / 4).to_string();
        let next = (rank + 1) % 8;
        let before = (rank + 7) % 8;
        let nodes = [
            Node::compute(10, "a", 5),
            Node::collective(20, "b", CollectiveType::AllReduce, 1 << 20).after(&[10]).in_group(&half),
            Node::compute(30, "c", 7).after(&[10]),
            Node::collective(40, "d", CollectiveType::AllGather, 1 << 16).after(&[20, 30]),
            Node::collective(50, "e", CollectiveType::AllReduce, 1 << 18)
                .after(&[40])
                .in_dims(&[false, true, true, true]),
            Node::send(60, "f", rank as i32, next as i32, 4096, 1).after(&[50]),
            Node::receive(70, "g", before as i32, rank as i32, 4096, 1).after(&[50]),
            Node::compute(80, "h", 0).after(&[60, 70]),
        ];
        write_file(&folder.path(&format!("hand.{rank}.et")), &Metadata::astra(), &nodes).unwrap();
    }
    folder.file("hand.groups.json", r#"{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}"#);
    let input = folder.of_traces("s.json", "hand", &dims(&[2, 4]));
    let summary = converted(&input, &folder.path("written"), &Options::default());
    assert_eq!((summary.nodes, summary.groups), (64, 2));
    let algorithms = "\"ring\", \"ring\"";
    let original = cycles(&folder, "hand", "2, 4", algorithms);
    assert_eq!(cycles(&folder, "written", "2, 4", algorithms), original);
    assert!(original.iter().all(|&cycles| cycles > 12_000));
}

#[test]
fn iterations_are_written_one_after_the_other() {
    let folder = Folder::new();
    let workload = r#"{"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1MiB"}], "iterations": 3}"#;
    let input = folder.file("s.json", &scenario(workload, &dims(&[8])));
    let summary = converted(&input, &folder.path("t"), &Options::default());
    assert_eq!(summary.nodes, 24);
    assert_eq!(cycles(&folder, "t", "8", "\"ring\""), [3 * 64_440; 8]);
}

#[test]
fn an_idle_rank_has_a_node() {
    let folder = Folder::new();
    let input = folder.file("w.txt", "DATA\n1\na -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n");
    let summary = converted(&input, &folder.path("t"), &Options { dims: vec![2], iterations: 2 });
    assert_eq!(summary.nodes, 2);
    assert_eq!(total_ps(&fs::read_to_string(folder.of_traces("s.json", "t", &dims(&[2]))).unwrap()), 0);
}

#[test]
fn unsupported_inputs_are_refused() {
    let folder = Folder::new();
    let refused = |input: &Path, options: &Options| {
        to_chakra(input, &folder.path("out"), options).expect_err("this is refused").to_string()
    };
    let two = Options { dims: vec![2], iterations: 1 };
    let layer = "DATA\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n";
    for (name, content, options, message) in [
        ("w.txt", layer, &Options::default(), "give the sizes of the dimensions"),
        ("w.txt", layer, &Options { dims: vec![2, 0], iterations: 1 }, "give the sizes of the dimensions"),
        ("w.txt", layer, &Options { dims: vec![2], iterations: 0 }, "must be at least 1"),
        ("w.txt", "DATA\n", &two, "the file ends too early"),
        ("w.csv", "", &two, "cannot convert a file with this ending"),
        ("w.json", "{", &two, "EOF while parsing"),
        ("w.json", "{}", &two, "not a resolved scenario"),
        ("w.json", r#"{"schema": "syncline/1"}"#, &two, "missing field `workload`"),
    ] {
        let text = refused(&folder.file(name, content), options);
        assert!(text.contains(message), "{name} {content}: {text}");
    }
    let broadcast = r#"{"source": "collectives", "collectives": [{"kind": "broadcast", "bytes": "1MiB"}]}"#;
    let text = refused(&folder.file("s.json", &scenario(broadcast, &dims(&[4]))), &two);
    assert!(text.contains("ASTRA-sim 2 cannot simulate broadcast"), "{text}");
    // Readers would take the files of more ranks for part of the job.
    folder.file("out.2.et", "");
    let text = refused(&folder.file("w.txt", layer), &two);
    assert!(text.contains("a trace of more ranks already exists"), "{text}");
    assert!(refused(&folder.path("none.txt"), &two).contains("cannot be read"));
}
