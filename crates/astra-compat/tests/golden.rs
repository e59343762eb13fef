//! Numbers that ASTRA-sim 2 printed, on inputs written here. They need no reference folder.

mod common;

use common::{Case, collective};
use std::sync::atomic::AtomicBool;
use syncline_astra_compat::{Backend, Ended, Options};
use syncline_diagnostics::Code;
use syncline_formats::chakra::{CollectiveType, Node, NodeKind};

const UNAWARE: Options<'static> = Options {
    backend: Backend::Unaware,
    queues_per_dim: 1,
    injection_scale: 1.0,
    rendezvous: false,
    max_events: None,
    max_time_ns: None,
    cancel: None,
};
const AWARE: Options<'static> = Options { backend: Backend::Aware, ..UNAWARE };

/// Runs a job of equal ranks on one dimension with both backends, and returns the last rank's cycles.
fn both(case: &Case) -> (u64, u64) {
    let last = |options| case.cycles(options).into_iter().max().expect("there are ranks");
    (last(&UNAWARE), last(&AWARE))
}

#[test]
fn collectives_in_one_dimension_take_as_long_as_in_astra_sim() {
    // Network; AR ring, AR direct, AR halvingDoubling, AR doubleBinaryTree, AG ring, RS ring, A2A direct.
    let table: [(&str, [(u64, u64); 7]); 3] = [
        (
            "Ring",
            [
                (64440, 64440),
                (21240, 57160),
                (63168, 87568),
                (139052, 309892),
                (151016, 151016),
                (33080, 33080),
                (10520, 28480),
            ],
        ),
        (
            "FullyConnected",
            [
                (64440, 64440),
                (9240, 9240),
                (47168, 47168),
                (123052, 137668),
                (151016, 151016),
                (33080, 33080),
                (4520, 4520),
            ],
        ),
        (
            "Switch",
            [
                (92440, 126600),
                (13240, 47400),
                (59168, 93336),
                (133552, 299510),
                (165016, 301712),
                (47080, 64160),
                (6520, 23600),
            ],
        ),
    ];
    let columns = [
        (CollectiveType::AllReduce, "ring"),
        (CollectiveType::AllReduce, "direct"),
        (CollectiveType::AllReduce, "halvingDoubling"),
        (CollectiveType::AllReduce, "doubleBinaryTree"),
        (CollectiveType::AllGather, "ring"),
        (CollectiveType::ReduceScatter, "ring"),
        (CollectiveType::AllToAll, "direct"),
    ];
    for (topology, cycles) in table {
        for ((kind, algorithm), want) in columns.into_iter().zip(cycles) {
            let case = Case::new(&[collective(1, kind)])
                .on(&[(topology, 8, 50.0, 500.0)])
                .algorithms(&format!("[\"{algorithm}\"]"));
            assert_eq!(both(&case), want, "{topology} {kind} {algorithm}");
        }
    }
}

#[test]
fn collectives_over_several_dimensions_take_as_long_as_in_astra_sim() {
    let two = [("Ring", 4, 100.0, 500.0), ("Switch", 4, 25.0, 1000.0)];
    let three = [("Ring", 4, 200.0, 50.0), ("FullyConnected", 4, 100.0, 500.0), ("Switch", 4, 50.0, 2000.0)];
    let kinds = [
        CollectiveType::AllReduce,
        CollectiveType::AllGather,
        CollectiveType::ReduceScatter,
        CollectiveType::AllToAll,
    ];
    for (kind, want) in kinds.into_iter().zip([54060, 164_139, 27290, 31381]) {
        let case = Case::new(&[collective(1, kind)])
            .on(&two)
            .algorithms("[\"ring\", \"halvingDoubling\"]")
            .set("all-to-all-implementation", "[\"ring\", \"direct\"]");
        assert_eq!(case.cycles(&UNAWARE), [want; 16], "{kind}");
    }
    for (kind, want) in kinds.into_iter().zip([69992, 268_094, 35223, 24290]) {
        let case = Case::new(&[collective(1, kind)])
            .on(&three)
            .algorithms("[\"ring\", \"direct\", \"halvingDoubling\"]")
            .set("all-to-all-implementation", "[\"ring\", \"direct\", \"direct\"]");
        assert_eq!(case.cycles(&UNAWARE), [want; 64], "{kind}");
    }
}

#[test]
fn options_of_the_system_layer_change_times_as_in_astra_sim() {
    let with = |options: Options<'_>, case: Case| case.cycles(&options)[0];
    assert_eq!(with(UNAWARE, Case::all_reduce().set("endpoint-delay", "100")), 69840);
    assert_eq!(with(Options { injection_scale: 3.0, ..UNAWARE }, Case::all_reduce()), 65640);
    assert_eq!(with(UNAWARE, Case::all_reduce().set("local-mem-bw", "100")), 90228);
    assert_eq!(with(UNAWARE, Case::all_reduce().without("local-mem-bw")), 62760);
    assert_eq!(with(Options { rendezvous: true, ..UNAWARE }, Case::all_reduce()), 100_952);
    assert_eq!(with(UNAWARE, Case::all_reduce().set("local-reduction-delay", "100")), 64440);
    let queues = || {
        let reduce = Node::collective(1, "all_reduce", CollectiveType::AllReduce, 16 << 20);
        Case::new(&[reduce]).set("active-chunks-per-dimension", "4").set("preferred-dataset-splits", "64")
    };
    assert_eq!(with(Options { queues_per_dim: 2, ..UNAWARE }, queues()), 515_520);
    assert_eq!(with(Options { queues_per_dim: 4, ..UNAWARE }, queues()), 515_520);
    assert_eq!(with(Options { queues_per_dim: 2, ..AWARE }, queues()), 547_080);
    let windows = Case::all_reduce().on(&[("FullyConnected", 8, 50.0, 500.0)]).algorithms("[\"direct2\"]");
    assert_eq!(with(UNAWARE, windows), 36360);
}

#[test]
fn ranks_of_a_tree_finish_one_after_the_other() {
    let case = Case::all_reduce().on(&[("Switch", 8, 50.0, 500.0)]).algorithms("[\"doubleBinaryTree\"]");
    let want = [114_898, 133_552, 127_660, 133_552, 121_279, 133_552, 127_660, 133_552];
    assert_eq!(case.cycles(&UNAWARE), want);
    let want = [256_446, 289_746, 278_972, 294_628, 267_709, 294_628, 283_854, 299_510];
    assert_eq!(case.cycles(&AWARE), want);
}

/// A send of 1 MiB on one rank, a receive on another, 1 us of computation on all others.
fn message(src: usize, dst: usize) -> Case {
    let (from, to) = (src as i32, dst as i32);
    Case::new(&[Node::compute(1, "idle", 1)])
        .rank(src, &[Node::send(1, "send", from, to, 1 << 20, 0)])
        .rank(dst, &[Node::receive(1, "recv", from, to, 1 << 20, 0)])
}

#[test]
fn messages_between_ranks_take_as_long_as_in_astra_sim() {
    let near = message(0, 3);
    let cycles = |ends: u64| [ends, 1000, 1000, ends, 1000, 1000, 1000, 1000];
    assert_eq!(near.cycles(&UNAWARE), cycles(21031));
    assert_eq!(near.cycles(&AWARE), cycles(60093));
    let far = message(0, 4);
    assert_eq!(far.cycles(&UNAWARE)[0], 21531);
    assert_eq!(far.cycles(&AWARE)[4], 80124);
    let outcome = near.run(&AWARE).unwrap_or_else(|errors| panic!("{errors}"));
    let idle = &outcome.ranks[0];
    assert_eq!((idle.rank, idle.cycles, idle.exposed, idle.gpu, idle.comm), (1, 1000, 0, Some(1000), None));
    let last: Vec<u32> = outcome.ranks.iter().map(|rank| rank.rank).rev().take(2).collect();
    assert_eq!(last, [3, 0], "the sender is notified before the receiver");
}

#[test]
fn groups_are_rings_of_their_own() {
    let in_group = |name: &str| [collective(1, CollectiveType::AllReduce).in_group(name)];
    let mut case = Case::all_reduce().groups("{\"1\": [0, 1, 2, 3], \"2\": [4, 5, 6, 7]}");
    for rank in 0..8 {
        case = case.rank(rank, &in_group(if rank < 4 { "1" } else { "2" }));
    }
    assert_eq!(case.cycles(&UNAWARE), [49000; 8]);
    assert_eq!(case.cycles(&AWARE), [63640; 8]);
    // A group of all ranks counts as no group.
    let all = Case::new(&in_group("5")).groups("{\"5\": [7, 6, 5, 4, 3, 2, 1, 0]}");
    assert_eq!(all.cycles(&UNAWARE), [64440; 8]);
}

#[test]
fn a_collective_uses_only_the_involved_dimensions() {
    let three = [("Ring", 4, 200.0, 50.0), ("FullyConnected", 4, 100.0, 500.0), ("Switch", 4, 50.0, 2000.0)];
    let run = |dims: &[bool]| {
        Case::new(&[collective(1, CollectiveType::AllReduce).in_dims(dims)])
            .on(&three)
            .algorithms("[\"ring\", \"direct\", \"halvingDoubling\"]")
            .cycles(&UNAWARE)[63]
    };
    assert_eq!(run(&[false, true, false]), 9480);
    assert_eq!(run(&[true, true, true]), 69992);
    assert_eq!(run(&[true, true, true, true]), 69992);
}

#[test]
fn ranks_use_shared_remote_memory_one_at_a_time() {
    let nodes =
        [Node::memory(1, "load", NodeKind::MemLoad, 1 << 20), Node::compute(2, "compute", 10).after(&[1])];
    let run = |kind: &str| {
        let mut case = Case::new(&nodes);
        case.memory =
            format!("{{\"memory-type\": \"{kind}\", \"remote-mem-latency\": 100, \"remote-mem-bw\": 50");
        case.memory +=
            if kind.contains("NODE") { ", \"num-nodes\": 2, \"num-npus-per-node\": 4}" } else { "}" };
        case.cycles(&UNAWARE)
    };
    assert_eq!(run("PER_NPU_MEMORY_EXPANSION"), [31071; 8]);
    let half = [31071, 52142, 73213, 94284];
    assert_eq!(run("PER_NODE_MEMORY_EXPANSION"), [half, half].concat());
    assert_eq!(run("MEMORY_POOL")[4..], [115_355, 136_426, 157_497, 178_568]);
}

#[test]
fn computations_take_the_time_of_the_roofline_or_of_the_trace() {
    let roofline = |operations: i64| {
        Case::new(&[Node::roofline(1, "comp", operations, 1_000_000_000)])
            .set("peak-perf", "100")
            .set("roofline-enabled", "1")
    };
    assert_eq!(roofline(1_000_000_000_000).cycles(&UNAWARE), [10_000_000; 8]);
    let bound = roofline(1_000_000_000);
    assert_eq!(bound.cycles(&UNAWARE), [625_000; 8]);
    let text = bound.run(&UNAWARE).unwrap_or_else(|errors| panic!("{errors}")).astra_text();
    assert!(text.contains("[statistics] [info] sys[3], Average memory utilization: 100.000%\n"), "{text}");
    assert!(text.contains("[statistics] [info] sys[3], Average operation intensity: 1.000\n"), "{text}");
    let mut replayed = collective(1, CollectiveType::AllReduce);
    replayed.duration_micros = 77;
    assert_eq!(Case::new(&[replayed]).set("replay-only", "1").cycles(&UNAWARE), [77_000; 8]);
}

#[test]
fn the_output_is_that_of_astra_sim() {
    let nodes = [
        Node::compute(1, "comp", 50),
        collective(2, CollectiveType::AllReduce),
        Node::compute(3, "comp", 50).after(&[1]),
    ];
    let text = Case::new(&nodes).run(&UNAWARE).unwrap_or_else(|errors| panic!("{errors}")).astra_text();
    let of_rank_0 = "\
[workload] [info] sys[0] finished, 100000 cycles, exposed communication 0 cycles.
[statistics] [info] sys[0]. Post statistics processing start.
[statistics] [info] sys[0]. Post statistics processing end.
[statistics] [info] sys[0], Wall time: 100000
[statistics] [info] sys[0], GPU time: 100000
[statistics] [info] sys[0], Comm time: 64440
[statistics] [info] sys[0], Total compute-communication overlap: 64440
";
    assert!(text.starts_with(of_rank_0), "{text}");
    assert!(text.ends_with("[system] [warning] Exiting\n"));
    assert_eq!(text.lines().filter(|line| line.contains("finished")).count(), 8);
    // An operation on the host ends the statistics early.
    let nodes = [Node::compute(1, "host", 10).on_cpu(), collective(2, CollectiveType::AllReduce).after(&[1])];
    let text = Case::new(&nodes).run(&UNAWARE).unwrap_or_else(|errors| panic!("{errors}")).astra_text();
    let of_rank_0 = "\
[workload] [info] sys[0] finished, 74440 cycles, exposed communication 74440 cycles.
[statistics] [info] sys[0]. Post statistics processing start.
[workload] [info] sys[1] finished";
    assert!(text.starts_with(of_rank_0), "{text}");
}

#[test]
fn collectives_are_recorded_once_for_all_ranks() {
    let nodes =
        [collective(1, CollectiveType::AllReduce), collective(2, CollectiveType::ReduceScatter).after(&[1])];
    let outcome = Case::new(&nodes).run(&UNAWARE).unwrap_or_else(|errors| panic!("{errors}"));
    let records: Vec<_> = outcome
        .collectives
        .iter()
        .map(|record| (record.name.as_str(), record.bytes, record.start, record.finish, record.ranks))
        .collect();
    let want = [("all_reduce", 1 << 20, 0, 64440, 8), ("reduce_scatter", 1 << 20, 64440, 97520, 8)];
    assert_eq!(records, want);
}

#[test]
fn a_limit_keeps_what_was_finished() {
    let case = message(0, 3);
    let outcome = case.run(&Options { max_time_ns: Some(5000), ..UNAWARE }).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((outcome.ended, outcome.ranks.len(), outcome.cycles()), (Ended::TimeLimit, 6, None));
    assert_eq!(outcome.limit().map(|limit| limit.code), Some(Code::LimitReached));
    let outcome = case.run(&Options { max_events: Some(3), ..UNAWARE }).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((outcome.ended, outcome.events), (Ended::EventLimit, 3));
    let cancelled = AtomicBool::new(true);
    let outcome =
        case.run(&Options { cancel: Some(&cancelled), ..UNAWARE }).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((outcome.ended, outcome.ranks.len()), (Ended::Cancelled, 0));
}

#[test]
fn the_same_input_gives_the_same_outcome() {
    let case = message(0, 3);
    let run = || case.run(&AWARE).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(run(), run());
}
