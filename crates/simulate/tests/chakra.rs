//! Chakra traces on syncline's fabrics.

use std::path::{Path, PathBuf};
use syncline_formats::chakra::{CollectiveType, IoInfo, Metadata, Node, NodeKind, write_file};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};
use syncline_timeline::Data;

const FC4: &str =
    r#"{"name": "a", "shape": "fully_connected", "size": 4, "rate": "50GB/s", "latency": "500ns"}"#;
const GRID: &str = r#"
    {"name": "a", "shape": "ring", "size": 2, "rate": "50GB/s", "latency": "500ns"},
    {"name": "b", "shape": "switch", "size": 4, "rate": "25GB/s", "latency": "500ns"}"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn prefix(&self) -> PathBuf {
        self.0.path().join("trace")
    }
    fn ranks(&self, ranks: u32, nodes: impl Fn(u32) -> Vec<Node>) -> &Self {
        for rank in 0..ranks {
            write_file(&self.0.path().join(format!("trace.{rank}.et")), &Metadata::astra(), &nodes(rank))
                .unwrap();
        }
        self
    }
    fn groups(&self, text: &str) -> PathBuf {
        let path = self.0.path().join("groups.json");
        std::fs::write(&path, text).unwrap();
        path
    }
    fn run(&self, dims: &str, groups: Option<&Path>, more: &str) -> syncline_diagnostics::Result<Run> {
        self.run_with(dims, groups, more, "")
    }
    /// As [`Self::run`], with further keys of `collectives`.
    fn run_with(
        &self,
        dims: &str,
        groups: Option<&Path>,
        more: &str,
        limits: &str,
    ) -> syncline_diagnostics::Result<Run> {
        let text = |path: &Path| serde_json::to_string(&path.display().to_string()).unwrap();
        let groups = groups.map_or("null".to_owned(), text);
        let json = format!(
            r#"{{"schema": "syncline/1", "fabric": {{"dims": [{dims}]}}, "collectives": {{"chunks": 1{limits}}}, {more}
                "workload": {{"source": "chakra", "prefix": {}, "groups": {groups}}}}}"#,
            text(&self.prefix())
        );
        let scenario: Scenario = serde_json::from_str(&json).unwrap();
        run(&scenario, Control::default())
    }
    fn refused(&self, dims: &str, groups: Option<&Path>) -> String {
        self.run(dims, groups, "").expect_err("this is refused").to_string()
    }
}

fn total_ps(run: &Run) -> u64 {
    (run.timeline.summary.total_time_s * 1e12).round() as u64
}

fn reduce(id: u64, bytes: i64) -> Node {
    Node::collective(id, "reduce", CollectiveType::AllReduce, bytes)
}

#[test]
fn compute_and_collectives_run_in_order() {
    let folder = Folder::new();
    folder.ranks(4, |_| {
        vec![Node::compute(7, "a", 3), reduce(8, 4_000_000).after(&[7]), Node::compute(9, "b", 2).after(&[8])]
    });
    let run = folder.run(FC4, None, "").unwrap();
    // Direct on full connection: two rounds of 1 MB at 50 GB/s.
    assert_eq!(total_ps(&run), 5_000_000 + 2 * (20_000_000 + 500_000));
    assert_eq!(run.timeline.table("collectives").unwrap().rows(), 1);
}

#[test]
fn an_all_gather_is_given_by_its_shard() {
    let folder = Folder::new();
    folder.ranks(4, |_| vec![Node::collective(1, "gather", CollectiveType::AllGather, 1_000_000)]);
    let run = folder.run(FC4, None, "").unwrap();
    let table = run.timeline.table("collectives").unwrap();
    assert_eq!(table.column("size_bytes").unwrap().data, Data::Int(vec![4_000_000]));
    assert_eq!(total_ps(&run), 20_000_000 + 500_000);
}

#[test]
fn groups_that_share_a_partition_are_one_role() {
    let folder = Folder::new();
    folder.ranks(8, |rank| {
        vec![
            reduce(1, 4_000_000).in_group(&(1 + rank / 4).to_string()),
            reduce(2, 8_000_000).in_group(&(3 + rank % 4).to_string()).after(&[1]),
            reduce(3, 8_000_000).in_group("9").after(&[2]),
        ]
    });
    let groups = folder.groups(
        r#"{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7], "3": [0, 4], "4": [1, 5], "5": [6, 2], "6": [3, 7],
            "9": [7, 6, 5, 4, 3, 2, 1, 0]}"#,
    );
    let run = folder.run(GRID, Some(&groups), "").unwrap();
    let table = run.timeline.table("collectives").unwrap();
    let Data::Text(names) = &table.column("group").unwrap().data else { panic!() };
    let mut names: Vec<&str> = names.iter().map(|name| name.rsplit_once('.').unwrap().0).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["all", "group 1, 2", "group 3, 4, 5, 6"]);
    assert_eq!(table.rows(), 2 + 4 + 1);
}

#[test]
fn involved_dimensions_are_a_grid() {
    let folder = Folder::new();
    folder.ranks(8, |_| vec![reduce(1, 4_000_000).in_dims(&[false, true, true, true])]);
    let run = folder.run(GRID, None, "").unwrap();
    let table = run.timeline.table("collectives").unwrap();
    assert_eq!(table.column("group_ranks").unwrap().data, Data::Int(vec![4, 4]));
}

#[test]
fn sends_and_receives_are_matched_or_refused() {
    let folder = Folder::new();
    folder.ranks(4, |rank| match rank {
        1 => vec![Node::send(1, "s", 1, 2, 1_000_000, 5)],
        2 => vec![Node::receive(1, "r", 1, 2, 1_000_000, 5)],
        _ => vec![Node::compute(1, "idle", 0)],
    });
    assert_eq!(total_ps(&folder.run(FC4, None, "").unwrap()), 20_500_000);
    folder.ranks(4, |rank| match rank {
        1 => vec![Node::send(1, "s", 1, 2, 8, 5)],
        _ => vec![Node::compute(1, "idle", 0)],
    });
    assert!(folder.refused(FC4, None).contains("rank 1 and rank 2 disagree on their messages"));
    folder.ranks(4, |_| vec![Node::send(1, "s", 1, 2, 8, 5)]);
    assert!(folder.refused(FC4, None).contains("rank 0 sends a message as rank 1"));
}

#[test]
fn operations_need_a_compute_model() {
    let folder = Folder::new();
    folder.ranks(4, |_| vec![Node::roofline(1, "gemm", 1_000_000_000, 8)]);
    assert!(folder.refused(FC4, None).contains("no compute model converts them to time"));
    let roofline = r#""compute": {"model": "roofline", "peak": "100TFLOP/s", "memory": "1TB/s"},"#;
    assert_eq!(total_ps(&folder.run(FC4, None, roofline).unwrap()), 10_000_000);
    // If the node gives a duration, that counts.
    folder.ranks(4, |_| vec![Node { duration_micros: 3, ..Node::roofline(1, "gemm", 1_000_000_000, 8) }]);
    assert_eq!(total_ps(&folder.run(FC4, None, roofline).unwrap()), 3_000_000);
}

#[test]
fn memory_nodes_need_a_duration() {
    let folder = Folder::new();
    let load = || Node::memory(1, "load", NodeKind::MemLoad, 1 << 20);
    folder.ranks(4, |_| vec![load()]);
    assert!(folder.refused(FC4, None).contains("remote memory is not modelled"));
    folder.ranks(4, |_| vec![Node { duration_micros: 4, ..load() }]);
    assert_eq!(total_ps(&folder.run(FC4, None, "").unwrap()), 4_000_000);
}

#[test]
fn the_host_does_one_thing_at_a_time_beside_the_accelerator() {
    let folder = Folder::new();
    let host = |id, micros| Node::compute(id, "host", micros).on_cpu();
    // The host takes 5 us and 3 us; at the same time the accelerator takes 7 us.
    folder.ranks(4, |_| vec![host(1, 5), host(2, 3), Node::compute(3, "gemm", 7)]);
    let run = folder.run(FC4, None, "").unwrap();
    assert_eq!(total_ps(&run), 8_000_000);
    // The accelerator waits for the host. That wait is booked as memory.
    folder.ranks(4, |_| vec![host(1, 5), host(2, 0).after(&[1]), Node::compute(3, "gemm", 7).after(&[2])]);
    let run = folder.run(FC4, None, "").unwrap();
    assert_eq!(total_ps(&run), 12_000_000);
    assert!((run.timeline.summary.exposed_memory_s - 5e-6).abs() < 1e-15);
    assert!((run.timeline.summary.compute_s - 7e-6).abs() < 1e-15);
    // The ready node with the smallest id goes first, as in ASTRA-sim 2, even if another has waited longer.
    folder.ranks(4, |_| {
        let gemm = Node::compute(4, "gemm", 10).after(&[2]);
        vec![host(2, 4).after(&[5]), host(3, 6).after(&[5]), gemm, host(5, 1)]
    });
    assert_eq!(total_ps(&folder.run(FC4, None, "").unwrap()), 15_000_000);
    // A host operation without duration does not occupy the host, so it may occur together with memory nodes.
    let load = |micros| Node { duration_micros: micros, ..Node::memory(9, "load", NodeKind::MemLoad, 8) };
    folder.ranks(4, |_| vec![host(1, 0), load(4)]);
    assert_eq!(total_ps(&folder.run(FC4, None, "").unwrap()), 4_000_000);
    folder.ranks(4, |_| vec![host(1, 1), load(4)]);
    assert!(folder.refused(FC4, None).contains("memory nodes, such as node 9"));
}

/// Time in picoseconds of a single collective.
fn alone(dims: &str, kind: &str, bytes: u64) -> u64 {
    let json = format!(
        r#"{{"schema": "syncline/1", "fabric": {{"dims": [{dims}]}}, "collectives": {{"chunks": 1}},
            "workload": {{"source": "collectives", "collectives": [{{"kind": "{kind}", "bytes": "{bytes}B"}}]}}}}"#
    );
    total_ps(&run(&serde_json::from_str(&json).unwrap(), Control::default()).unwrap())
}

#[test]
fn a_rank_of_each_class_is_traced() {
    let folder = Folder::new();
    folder.ranks(4, |rank| match rank {
        1 => vec![Node::send(1, "s", 1, 2, 1_000_000, 5)],
        2 => vec![Node::receive(1, "r", 1, 2, 1_000_000, 5)],
        _ => vec![Node::compute(1, "a", 3)],
    });
    let spans = folder.run(FC4, None, "").unwrap().timeline.spans;
    let mut ranks: Vec<u32> = spans.spans.iter().map(|span| span.rank.0).collect();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks, [0, 1, 2], "ranks 0 and 3 do the same");
    let rank = |at: u32| spans.spans[at as usize].rank.0;
    assert!(spans.flows.iter().any(|flow| (rank(flow.from), rank(flow.to)) == (1, 2)), "{:?}", spans.flows);
}

#[test]
fn a_broadcast_starts_at_the_first_rank() {
    let folder = Folder::new();
    for dims in [FC4, GRID] {
        let ranks = if dims == FC4 { 4 } else { 8 };
        folder.ranks(ranks, |_| vec![Node::collective(1, "b", CollectiveType::Broadcast, 1_000_000)]);
        let run = folder.run(dims, None, "").unwrap();
        assert_eq!(total_ps(&run), alone(dims, "broadcast", 1_000_000));
        let table = run.timeline.table("collectives").unwrap();
        assert_eq!(table.column("kind").unwrap().data, Data::Text(vec!["broadcast".to_owned()]));
    }
}

#[test]
fn at_a_barrier_everyone_waits_for_the_last() {
    let folder = Folder::new();
    for (dims, ranks) in [(FC4, 4), (GRID, 8)] {
        let barrier = |sized: bool| {
            let node = Node::collective(2, "barrier", CollectiveType::Barrier, 1 << 40).after(&[1]);
            // PyTorch writes some barriers without a size.
            let attrs = node.attrs.iter().filter(|attr| sized || attr.name != "comm_size").cloned().collect();
            Node { attrs, ..node }
        };
        folder.ranks(ranks, |rank| {
            let late = if rank == ranks - 1 { 100 } else { 1 };
            vec![Node::compute(1, "a", late), barrier(rank > 0), Node::compute(3, "b", 1).after(&[2])]
        });
        let run = folder.run(dims, None, "").unwrap();
        let took = alone(dims, "all_reduce", u64::from(ranks));
        assert!(took < 10_000_000, "a barrier has no payload: {took} ps");
        // The messages of the others have arrived before the last rank reaches the barrier.
        assert!(total_ps(&run) > 101_000_000 && total_ps(&run) <= 101_000_000 + took);
        let Data::Float(finish) = &run.timeline.table("ranks").unwrap().column("finish_s").unwrap().data
        else {
            panic!()
        };
        assert!(finish.iter().all(|&finish| finish > 101e-6), "{finish:?}");
    }
}

#[test]
fn unsupported_nodes_are_refused_by_name() {
    let folder = Folder::new();
    for (node, message) in [
        (Node::new(1, "x", NodeKind::Invalid), "a node of type INVALID_NODE"),
        (Node::collective(1, "x", CollectiveType::Gather, 8), "the collective GATHER"),
        (Node::collective(1, "x", CollectiveType::Scatter, 8), "the collective SCATTER"),
        (Node::collective(1, "x", CollectiveType::Broadcast, 0), "a comm_size above 0"),
        (reduce(1, 0), "a comm_size above 0"),
        (reduce(1, 8).in_dims(&[]), "involved_dim has 0 entries, the fabric 1 dimensions"),
        (reduce(1, 8).in_dims(&[false, true]), "no dimension takes part"),
        (reduce(1, 8).in_group("dp"), "must be a whole number"),
        (reduce(1, 8).in_group("7"), "no such process group"),
        (Node::roofline(1, "x", 5, 5).on_cpu(), "compute of the host (is_cpu_op) is given by operations"),
        (Node::compute(1, "x", u64::MAX).on_cpu(), "longer than can be simulated"),
        (Node::compute(1, "x", u64::MAX), "longer than can be simulated"),
        (Node::collective(1, "x", CollectiveType::AllGather, i64::MAX), "more than 2^64 bytes"),
    ] {
        folder.ranks(4, |_| vec![node.clone()]);
        let text = folder.refused(FC4, None);
        assert!(text.contains(message), "{message}: {text}");
    }
    folder.ranks(4, |_| vec![reduce(1, 8).in_group("1")]);
    let groups = folder.groups(r#"{"1": [0, 1]}"#);
    assert!(folder.refused(FC4, Some(&groups)).contains("rank 2 uses process group 1"));
    let groups = folder.groups(r#"{"1": [0, 1, 2, 3, 9]}"#);
    let text = folder.refused(FC4, Some(&groups));
    assert!(text.contains("rank 9 of process group 1 does not exist"), "{text}");
}

#[test]
fn process_groups_of_the_trace_count() {
    let groups = r#"['[{"pg_name": "0", "pg_desc": "default_pg", "ranks": []},
        {"pg_name": "dp", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [2, 3]}]']"#;
    let describe = |values: &str| {
        let mut node = Node::new(1, "## process_group:init ##", NodeKind::Metadata);
        node.inputs = Some(IoInfo { values: values.to_owned(), ..IoInfo::default() });
        node
    };
    let all = |group: &'static str| {
        move |rank: u32| {
            let name = match (group, rank / 2) {
                ("own", 0) => "dp",
                ("own", _) => "2",
                _ => group,
            };
            vec![describe(groups), reduce(2, 4_000_000).in_group(name).after(&[1])]
        }
    };
    let folder = Folder::new();
    folder.ranks(4, all("own"));
    let run = folder.run(FC4, None, "").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(run.timeline.table("collectives").unwrap().rows(), 2);
    // Two ranks on one link of 50 GB/s exchange halves of 4 MB twice; a group without ranks means all ranks.
    assert_eq!(total_ps(&run), 2 * (40_000_000 + 500_000));
    folder.ranks(4, all("0"));
    let run = folder.run(FC4, None, "").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(total_ps(&run), 2 * (20_000_000 + 500_000));
    // They take precedence over those of a file of groups.
    let file = folder.groups(r#"{"2": [0, 1, 2, 3]}"#);
    folder.ranks(4, all("own"));
    assert_eq!(folder.run(FC4, Some(&file), "").unwrap().timeline.table("collectives").unwrap().rows(), 2);
    folder.ranks(4, all("3"));
    assert!(folder.refused(FC4, None).contains("no such process group"));
    folder.ranks(4, |_| vec![describe(r#"['[{"pg_name": "1"}]']"#)]);
    let text = folder.refused(FC4, None);
    assert!(
        text.contains("process groups of a METADATA_NODE cannot be read") && text.contains("node 1"),
        "{text}"
    );
}

#[test]
fn traces_without_durations_give_a_warning() {
    let warns = |nodes: Vec<Node>| {
        let folder = Folder::new();
        folder.ranks(4, |_| nodes.clone());
        let run = folder.run(FC4, None, "").unwrap_or_else(|errors| panic!("{errors}"));
        run.diagnostics.0.iter().any(|found| found.message.contains("do not say how long computation takes"))
    };
    assert!(warns(vec![Node::compute(1, "a", 0), reduce(2, 4096).after(&[1])]));
    assert!(!warns(vec![Node::compute(1, "a", 0), Node::compute(2, "b", 1), reduce(3, 4096)]));
    assert!(!warns(vec![reduce(2, 4096)]));
}

#[test]
fn collectives_with_unique_names_are_paired_by_name() {
    // Rank 3 has the two in the other order. If paired by position, an all-reduce would meet an all-gather.
    let gather = |id: u64| Node::collective(id, "gather", CollectiveType::AllGather, 1_000_000);
    let folder = Folder::new();
    let nodes = |rank: u32| match rank {
        3 => vec![gather(1).after(&[2]), reduce(2, 4_000_000)],
        _ => vec![reduce(1, 4_000_000), gather(2).after(&[1])],
    };
    folder.ranks(4, nodes);
    let run = folder.run(FC4, None, "").unwrap_or_else(|errors| panic!("{errors}"));
    let table = run.timeline.table("collectives").unwrap();
    assert_eq!(table.rows(), 2);
    assert_eq!(total_ps(&run), 3 * (20_000_000 + 500_000));
    // If both have the same name, only their position can pair them.
    let alike = |mut node: Node| {
        node.name = "same".to_owned();
        node
    };
    folder.ranks(4, |rank| nodes(rank).into_iter().map(alike).collect());
    assert!(folder.refused(FC4, None).contains("SL0303"));
}

#[test]
fn a_limit_on_chunks_does_not_cause_a_deadlock() {
    // Ranks 0 and 2 begin the collectives that they share with ranks 1 and 3, which come later: after a message that
    // follows the collective that 0 and 2 share. On both of them, that collective waits behind the limit of one chunk,
    // though both have reached it.
    let folder = Folder::new();
    let groups = folder.groups(r#"{"1": [0, 1], "2": [2, 3], "3": [0, 2]}"#);
    folder.ranks(4, |rank| {
        let (own, peer) = (rank as i32, rank as i32 ^ 1);
        let pair = if rank < 2 { "1" } else { "2" };
        if rank % 2 == 0 {
            let across = Node::collective(2, "across", CollectiveType::AllReduce, 4_000_000).in_group("3");
            vec![
                reduce(1, 4_000_000).in_group(pair),
                across,
                Node::send(3, "go", own, peer, 0, 7).after(&[2]),
            ]
        } else {
            vec![Node::receive(1, "go", peer, own, 0, 7), reduce(2, 4_000_000).in_group(pair).after(&[1])]
        }
    });
    let limited = |limits: &str| {
        let folder_run = folder.run_with(FC4, Some(&groups), "", limits);
        total_ps(&folder_run.unwrap_or_else(|errors| panic!("{errors}")))
    };
    // Two pairs exchange 2 MB twice over separate links, after a message and another such exchange.
    let (half, message) = (40_000_000 + 500_000, 500_000);
    assert_eq!(limited(""), 2 * half + message + 2 * half);
    // The limits hold until no other event is left: until the messages of ranks 0 and 2 to the late ones have arrived.
    for limit in ["active_chunks", "concurrent", "issue_threshold"] {
        assert_eq!(
            limited(&format!(r#", "schedulers": "per_rank", "{limit}": 1"#)),
            half + 2 * half + message + 2 * half,
            "{limit}"
        );
    }
}

#[test]
fn groups_are_read_whatever_the_name_of_their_file() {
    // ASTRA-sim ignores a file whose path contains `empty`. That rule applies only to its flags.
    let folder = Folder::new();
    folder.ranks(4, |rank| vec![reduce(1, 4_000_000).in_group(&(1 + rank / 2).to_string())]);
    let path = folder.0.path().join("nonempty.json");
    std::fs::write(&path, r#"{"1": [0, 1], "2": [2, 3]}"#).unwrap();
    let run = folder.run(FC4, Some(&path), "").unwrap();
    assert_eq!(run.timeline.table("collectives").unwrap().rows(), 2);
}

#[test]
fn a_deadlock_names_tasks_and_files() {
    let folder = Folder::new();
    // Each even rank and its neighbour first receive, then send. All messages match, but both ranks wait forever.
    folder.ranks(4, |rank| {
        let (rank, peer) = (rank as i32, (rank ^ 1) as i32);
        vec![
            Node::receive(1, "wait", peer, rank, 64, 5),
            Node::send(2, "answer", rank, peer, 64, 5).after(&[1]),
        ]
    });
    let error = folder.run(FC4, None, "").expect_err("this deadlocks");
    assert_eq!(error.exit(), syncline_diagnostics::ExitStatus::Deadlock);
    let text = error.to_string();
    for part in [
        "SL0501",
        "4 of 4 ranks wait forever",
        "rank 2: `wait` waits for a message from rank 3 (tag 5), to be sent by `answer` [",
        "trace.2.et",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn a_disagreement_of_ranks_is_reported_once_with_its_file() {
    let folder = Folder::new();
    folder.ranks(4, |rank| vec![reduce(2, if rank == 0 { 4096 } else { 8192 })]);
    let text = folder.refused(FC4, None);
    assert!(text.contains("rank 0: all_reduce of 4KiB, `reduce` ("), "{text}");
    assert!(text.contains("trace.1.et"), "{text}");
    assert!(text.contains("ranks 1-3 all issue the same collectives"), "{text}");
    assert_eq!(text.matches("SL0303").count(), 1, "{text}");
}

#[test]
fn messages_are_drawn_from_send_to_receive() {
    let folder = Folder::new();
    folder.ranks(4, |rank| match rank {
        1 => vec![Node::compute(0, "work", 3), Node::send(1, "s", 1, 2, 1_000_000, 5).after(&[0])],
        2 => vec![Node::receive(1, "r", 1, 2, 1_000_000, 5)],
        _ => vec![Node::compute(0, "work", 1)],
    });
    let run = folder.run(FC4, None, r#""trace": {"ranks": [1, 2]},"#).unwrap();
    let spans = &run.timeline.spans;
    let [flow] = spans.flows[..] else { panic!("one message, one arrow: {spans:?}") };
    let (from, to) = (&spans.spans[flow.from as usize], &spans.spans[flow.to as usize]);
    let name = |label: u32| spans.labels[label as usize].as_str();
    assert_eq!((from.rank.0, name(from.label), from.start.0), (1, "s", 3_000_000));
    assert_eq!(from.end.0, 3_000_000 + 20_000_000);
    assert_eq!((to.rank.0, name(to.label), to.start.0), (2, "r", 0));
    assert_eq!(to.end.0, 3_000_000 + 20_500_000);
}
