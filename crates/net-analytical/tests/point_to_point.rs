//! Sends and receives on both models, compared with calculations by hand: times, matching, deadlocks.

use syncline_engine::Ended;
use syncline_engine::{Engine, Job, Lanes, Record, Schedule, StepOutcome};
use syncline_fabric::{Dimension, Direction, Fabric, Graph, GraphLink, Routing, Symmetry};
use syncline_net_analytical::{Links, Model};
use syncline_net_api::Measurements;
use syncline_units::{Bytes, DimKind, NpuId, RankId, Rate, Time};
use syncline_workload::{ClassRun, GraphBuilder, Part, Peer, Task, TaskGraph, TaskKind, Workload};

/// Tasks of one rank, each after the previous one.
fn chain(kinds: &[TaskKind]) -> TaskGraph {
    let mut builder = GraphBuilder::new();
    for (index, kind) in kinds.iter().enumerate() {
        let task = builder.task(Task {
            kind: kind.clone(),
            layer: None,
            part: Part::Other,
            name: format!("t{index}"),
        });
        if task > 0 {
            builder.after(task, task - 1);
        }
    }
    builder.build(1).unwrap()
}

fn send(to: u32, bytes: u64) -> TaskKind {
    TaskKind::Send { to: Peer::Rank(RankId(to)), bytes: Bytes(bytes), tag: 7 }
}
fn receive(from: u32, bytes: u64) -> TaskKind {
    TaskKind::Receive { from: Peer::Rank(RankId(from)), bytes: Bytes(bytes), tag: 7 }
}

fn simulate(fabric: &Fabric, model: Model, ranks: Vec<TaskGraph>) -> Result<Record, String> {
    simulate_with(fabric, model, ranks).map(|done| done.0)
}

fn simulate_with(
    fabric: &Fabric,
    model: Model,
    ranks: Vec<TaskGraph>,
) -> Result<(Record, Links<'_>), String> {
    let workload = Workload {
        name: String::new(),
        ranks: ranks.len() as u32,
        class_runs: (0..ranks.len() as u32).map(|rank| ClassRun { first: rank, class: rank }).collect(),
        classes: ranks,
        axes: Vec::new(),
        roles: Vec::new(),
        layers: Vec::new(),
        iterations: 1,
        source: Default::default(),
    };
    let job = Job {
        slow: Default::default(),
        jitter: Default::default(),
        durations: workload.classes.iter().map(|g| vec![Time::ZERO; g.tasks.len()]).collect(),
        plan_of: workload.classes.iter().map(|g| vec![None; g.tasks.len()]).collect(),
        workload: &workload,
        plans: Vec::new(),
        symmetry: Symmetry::none(fabric),
        repeat: true,
        send_pace: None,
        placement: Vec::new(),
        starts: Vec::new(),
        jobs: Vec::new(),
        schedule: Schedule::default(),
        dims: vec![Lanes::of_all(1, 1); fabric.dims().len() + 1],
        traced: Vec::new(),
        max_spans: 0,
    };
    let mut engine = Engine::new(&job, Links::new(fabric, Symmetry::none(fabric), model));
    loop {
        match engine.step(10, Time::MAX).map_err(|e| e.to_string())? {
            StepOutcome::Finished => return engine.finish(Ended::Finished).map_err(|e| e.to_string()),
            _ => continue,
        }
    }
}

/// A ring of `size` with links of 1 GB/s (1 ns per byte) and 100 ns.
fn ring(size: u32) -> Fabric {
    let dim = Dimension::new("d".to_owned(), DimKind::Ring, size)
        .with_direction(Direction::Both)
        .with_rate(Rate(8_000_000_000))
        .with_latency(Time::from_ns(100));
    Fabric::regular(vec![dim]).unwrap()
}

fn finish_ns(record: &Record) -> Vec<u64> {
    record.ranks.iter().map(|rank| rank.finish.0 / 1000).collect()
}

#[test]
fn models_differ_on_long_paths_only() {
    let path = |to: usize| {
        let mut ranks = vec![chain(&[]); 8];
        ranks[0] = chain(&[send(to as u32, 1000)]);
        ranks[to] = chain(&[receive(0, 1000)]);
        ranks
    };
    for (to, analytical, queued) in [(1, 1100, 1100), (3, 1300, 3300)] {
        for (model, expected) in [(Model::Analytical, analytical), (Model::Queued, queued)] {
            let record = simulate(&ring(8), model, path(to)).unwrap();
            assert_eq!(record.finish.0 / 1000, expected);
            assert_eq!(finish_ns(&record)[0], 1000, "a send is done when it has left");
        }
    }
}

#[test]
fn every_link_of_a_path_is_booked() {
    // Two messages side by side over the same three links.
    let mut ranks = vec![chain(&[]); 8];
    ranks[0] = chain(&[send(3, 1000)]);
    ranks[1] = chain(&[send(4, 500)]);
    ranks[3] = chain(&[receive(0, 1000)]);
    ranks[4] = chain(&[receive(1, 500)]);
    let fabric = ring(8);
    for (model, busy_ns) in
        [(Model::Analytical, [1000, 500, 1000, 500]), (Model::Queued, [1000, 1500, 1500, 500])]
    {
        let (record, links) = simulate_with(&fabric, model, ranks.clone()).unwrap();
        assert_eq!(record.sent, 1500);
        let mut path = Vec::new();
        fabric.route(NpuId(0), NpuId(4), 0, &mut path);
        let used = path.iter().map(|&link| links.link_use(link));
        let booked: Vec<_> = used.clone().map(|used| (used.bytes, used.messages)).collect();
        assert_eq!(booked, [(1000, 1), (1500, 2), (1500, 2), (500, 1)]);
        let busy: Vec<_> = used.map(|used| used.busy.0 / 1000).collect();
        // Link 1 -> 2 is the second message's first link, and link 2 -> 3 the first message's last link.
        assert_eq!(busy, busy_ns);
    }
}

#[test]
fn receivers_are_busy_too() {
    // Seven senders to one receiver behind a switch: the receiver's port takes them one after the other.
    let dim = Dimension::new("d".to_owned(), DimKind::Switch, 8)
        .with_rate(Rate(8_000_000_000))
        .with_latency(Time::from_ns(100));
    let fabric = Fabric::regular(vec![dim]).unwrap();
    let ranks = || {
        let receives: Vec<_> = (1..8).map(|from| receive(from, 1000)).collect();
        std::iter::once(chain(&receives)).chain((1..8).map(|_| chain(&[send(0, 1000)]))).collect::<Vec<_>>()
    };
    assert_eq!(simulate(&fabric, Model::Analytical, ranks()).unwrap().finish.0 / 1000, 7000 + 200);
    assert_eq!(simulate(&fabric, Model::Queued, ranks()).unwrap().finish.0 / 1000, 8000 + 200);
}

#[test]
fn a_slow_link_in_the_middle_counts() {
    // 0 - s - 1, with a second hop at a tenth of the rate.
    let link =
        |from, to, rate: u64| GraphLink { from, to, rate: Rate(rate * 8), latency: Time::from_ns(100) };
    let links = vec![link(0, 2, 1_000_000_000), link(2, 3, 100_000_000), link(3, 1, 1_000_000_000)];
    let fabric = Fabric::graph(Graph::new(2, 2, links, Routing::Shortest).unwrap());
    let ranks = || vec![chain(&[send(1, 1000)]), chain(&[receive(0, 1000)])];
    assert_eq!(simulate(&fabric, Model::Analytical, ranks()).unwrap().finish.0 / 1000, 10_000 + 300);
    assert_eq!(simulate(&fabric, Model::Queued, ranks()).unwrap().finish.0 / 1000, 12_000 + 300);
}

#[test]
fn a_missing_path_is_reported() {
    let fabric = Fabric::graph(Graph::new(2, 0, vec![], Routing::Shortest).unwrap());
    let error =
        simulate(&fabric, Model::Queued, vec![chain(&[send(1, 8)]), chain(&[receive(0, 8)])]).unwrap_err();
    assert!(error.contains("not connected") && error.contains("NPU 0"), "{error}");
}

#[test]
fn circular_waiting_is_reported() {
    let ranks = vec![chain(&[receive(1, 8), send(1, 8)]), chain(&[receive(0, 8), send(0, 8)]), chain(&[])];
    let error = simulate(&ring(3), Model::Analytical, ranks).unwrap_err();
    assert!(error.contains("SL0501") && error.contains("2 of 3 ranks"), "{error}");
    assert!(error.contains("rank 0: `t0` waits for a message from rank 1 (tag 7)"), "{error}");
    assert!(error.contains("rank 1: `t0` waits for a message from rank 0 (tag 7)"), "{error}");
}
