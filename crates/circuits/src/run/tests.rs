//! Against times that follow from the rules by hand.

use super::*;
use crate::Discount;
use proptest::prelude::{ProptestConfig, prop, prop_assert, proptest};
use syncline_units::{RankId, Rate};
use syncline_workload::role::Axis;
use syncline_workload::{ClassRun, GraphBuilder, Part, Peer, Role, Source, Task, Work};

/// Picoseconds of a millisecond.
const MS: u64 = 1_000_000_000;

fn circuits(degree: u32, period: u64, pause: u64) -> Circuits {
    Circuits {
        degree,
        rate: Rate::from_bytes_per_s(1_000_000),
        latency: Time(MS / 1000),
        pause: Time(pause * MS),
        period: Time(period * MS),
        discount: Discount::Halving,
    }
}

fn task(kind: TaskKind) -> Task {
    Task { kind, layer: None, part: Part::Forward, name: String::new() }
}

/// A job whose ranks send the given messages at once: sender, receiver, bytes.
fn messages(ranks: u32, messages: &[(u32, u32, u64)]) -> Workload {
    let mut graphs: Vec<GraphBuilder> = (0..ranks).map(|_| GraphBuilder::new()).collect();
    for (tag, &(from, to, bytes)) in (0u32..).zip(messages) {
        let bytes = Bytes(bytes);
        graphs[from as usize].task(task(TaskKind::Send { to: Peer::Rank(RankId(to)), bytes, tag }));
        graphs[to as usize].task(task(TaskKind::Receive { from: Peer::Rank(RankId(from)), bytes, tag }));
    }
    job(ranks, graphs, Vec::new())
}

fn job(ranks: u32, graphs: Vec<GraphBuilder>, roles: Vec<Role>) -> Workload {
    Workload {
        name: String::new(),
        ranks,
        classes: graphs.into_iter().map(|graph| graph.build(1).unwrap()).collect(),
        class_runs: (0..ranks).map(|rank| ClassRun { first: rank, class: rank }).collect(),
        roles,
        axes: Vec::new(),
        layers: Vec::new(),
        iterations: 1,
        source: Source::Built,
    }
}

/// The times that tasks give.
fn durations(workload: &Workload) -> Vec<Vec<Time>> {
    let time = |task: &Task| match task.kind {
        TaskKind::Compute(Work::Time(time)) => time,
        _ => Time(0),
    };
    workload.classes.iter().map(|graph| graph.tasks.iter().map(time).collect()).collect()
}

fn ends(workload: &Workload, circuits: &Circuits, steps: u32) -> Vec<u64> {
    run(workload, &durations(workload), circuits, steps, &AtomicBool::new(false))
        .unwrap()
        .into_iter()
        .map(|time| time.0)
        .collect()
}

#[test]
fn the_first_step_waits_for_its_circuits_and_the_next_has_them() {
    // 100 kB over two circuits of 1 MB/s.
    let job = messages(2, &[(0, 1, 100_000)]);
    let expected = [20 + 50, 20 + 50 + 50].map(|ms| ms * MS);
    let latency = MS / 1000;
    assert_eq!(ends(&job, &circuits(2, 100, 20), 2), [expected[0] + latency, expected[1] + 2 * latency]);
}

#[test]
fn senders_to_one_interface_take_turns_of_a_period() {
    let job = messages(4, &[(0, 3, 50_000), (1, 3, 50_000), (2, 3, 50_000)]);
    // Each gets the interface at a measurement, waits for the pause, and sends for 50 ms.
    assert_eq!(ends(&job, &circuits(1, 100, 25), 1), [(200 + 25 + 50) * MS + MS / 1000]);
}

#[test]
fn a_transfer_longer_than_a_period_goes_on_after_a_change() {
    // In the first period, the larger one sends 75 ms and the smaller one nothing. At 100 ms, 65 kB of 140 kB are left,
    // less than 70 kB; the smaller one is done at 125 + 70 = 195 ms; the larger one sends again from 225 to 290 ms.
    let job = messages(3, &[(0, 2, 140_000), (1, 2, 70_000)]);
    assert_eq!(ends(&job, &circuits(1, 100, 25), 1), [290 * MS + MS / 1000]);
}

#[test]
fn an_all_reduce_uses_all_interfaces_of_its_ring() {
    let members: Vec<u32> = (0..4).collect();
    let axis = Axis { size: 4, stride: 0, dim: None };
    let role = Role::lists("all", vec![members], vec![axis], 4).unwrap();
    let graphs = (0..4)
        .map(|_| {
            let mut graph = GraphBuilder::new();
            let computed = graph.task(task(TaskKind::Compute(Work::Time(Time(30 * MS)))));
            let inside = graph.task(task(TaskKind::Memory(Time(10 * MS))));
            let reduced = graph.task(task(TaskKind::Collective {
                role: RoleId(0),
                kind: CollectiveKind::AllReduce,
                bytes: Bytes(200_000),
                blocking: false,
                when: None,
            }));
            graph.after(inside, computed);
            graph.after(reduced, inside);
            graph
        })
        .collect();
    let job = job(4, graphs, vec![role]);
    // 2 * 3 / 4 of 200 kB over two circuits of 1 MB/s.
    let step = (30 + 10 + 150) * MS + 6 * MS / 1000;
    let ends = ends(&job, &circuits(2, 1000, 20), 3);
    assert_eq!(ends[2] - ends[1], step);
    // The demand of the first step arises at 40 ms and is measured at 1 s.
    assert_eq!(ends[0], (1000 + 20 + 150) * MS + 6 * MS / 1000);
}

#[test]
fn a_cancelled_run_begins_no_further_step() {
    let job = messages(2, &[(0, 1, 100_000)]);
    let ends = run(&job, &durations(&job), &circuits(2, 100, 20), 5, &AtomicBool::new(true)).unwrap();
    assert!(ends.is_empty());
}

#[test]
fn what_cannot_be_run_is_named() {
    let job = messages(2, &[(0, 1, 10)]);
    let error = |job: &Workload, circuits: &Circuits| {
        run(job, &durations(job), circuits, 1, &AtomicBool::new(false)).unwrap_err().to_string()
    };
    assert!(error(&job, &circuits(1, 10, 10)).contains("the period must be longer than the pause"));
    assert!(error(&job, &circuits(0, 10, 1)).contains("a rate above 0"));
    let mut lonely = GraphBuilder::new();
    let from = Peer::Rank(RankId(0));
    lonely.task(task(TaskKind::Receive { from, bytes: Bytes(1), tag: 0 }));
    let job = super::tests::job(2, vec![GraphBuilder::new(), lonely], Vec::new());
    assert!(error(&job, &circuits(1, 10, 1)).contains("the job deadlocks: 1 tasks never start or finish"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    /// No step is faster than the interfaces of its busiest server, nor slower than one transfer after the other, each
    /// with a period to wait for its circuit and cut into periods.
    #[test]
    fn steps_are_within_bounds(
        sent in prop::collection::vec((0u32..5, 0u32..5, 1u64..300_000), 1..12),
        degree in 1u32..4,
        halving: bool,
    ) {
        let sent: Vec<_> = sent.into_iter().filter(|(from, to, _)| from != to).collect();
        let job = messages(5, &sent);
        let mut circuits = circuits(degree, 50, 10);
        circuits.discount = if halving { Discount::Halving } else { Discount::None };
        let end = ends(&job, &circuits, 1)[0];
        // A byte takes a microsecond on a circuit.
        let busiest = (0..5).map(|server| {
            let out: u64 = sent.iter().filter(|each| each.0 == server).map(|each| each.2).sum();
            let back: u64 = sent.iter().filter(|each| each.1 == server).map(|each| each.2).sum();
            out.max(back)
        }).max().unwrap();
        prop_assert!(end >= busiest * 1_000_000 / u64::from(degree));
        let total: u64 = sent.iter().map(|each| each.2).sum();
        let periods = total.div_ceil(40_000) + 12;
        prop_assert!(end <= periods * 2 * 50 * MS + total * 1_000_000);
    }
}
