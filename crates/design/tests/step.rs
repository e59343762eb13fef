//! The time of a step: closed forms, and proposals against a fresh timer.

use proptest::prelude::{Just, ProptestConfig, prop, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;
use std::sync::Arc;
use syncline_compute::{ComputeModel, Power, Timing};
use syncline_design::joint::{Model, RoutedLinks, StepTimer};
use syncline_design::topology::{AllReduceLinks, Demand, Preference, find};
use syncline_fabric::build;
use syncline_units::{Bytes, Rate, Time};
use syncline_workload::Work;
use syncline_workload::operators::{Choice, Operator, OperatorGraph, Placed, Reads, Server, Strategy};

const SERVERS: u32 = 8;
/// One byte in 1 ns.
const RATE: Rate = Rate::from_bytes_per_s(1_000_000_000);
const LATENCY: Time = Time::from_ns(1000);

fn given() -> ComputeModel {
    ComputeModel { timing: Timing::Given, power: Power::new(1.0).unwrap() }
}

fn choice(samples: u32, parameters: u32) -> Choice {
    let parts = u64::from(samples * parameters);
    Choice {
        samples,
        parameters,
        forward: Work::Time(Time::from_ns(8_000_000 / parts)),
        backward: Work::Time(Time::from_ns(16_000_000 / parts)),
        memory: Bytes(0),
    }
}

/// Operators in a chain, each of which also reads the one three places before it.
fn model(operators: u32) -> Model {
    let inputs = |at: u32| [1, 3].into_iter().filter_map(|back| at.checked_sub(back)).collect();
    let operator = |at: u32| Operator {
        name: format!("op{at}"),
        kind: String::new(),
        inputs: inputs(at),
        output: Bytes(1000 + 10 * u64::from(at)),
        copied: true,
        parameters: Bytes(if at % 3 == 2 { 0 } else { 800_000 }),
        reads: if at.is_multiple_of(2) { Reads::All } else { Reads::Own },
        choices: vec![choice(1, 1), choice(2, 1), choice(8, 1), choice(2, 2), choice(1, 4)],
    };
    let operators = (0..operators).map(operator).collect();
    let server =
        Server { accelerators: 4, rate: Some(Rate::from_bytes_per_s(100_000_000_000)), memory: None };
    let graph = OperatorGraph { model: "m".to_owned(), samples: 64, operators, server };
    graph.check(SERVERS).unwrap();
    Model::new(graph, &given()).unwrap()
}

fn direct() -> Arc<RoutedLinks> {
    let mut demand = Demand::new(SERVERS);
    demand.all_reduce((0..SERVERS).collect(), 1_000_000);
    demand.all_reduce(vec![0, 2, 5], 600_000);
    demand.transfers.add(1, 6, 3_000_000);
    Arc::new(RoutedLinks::direct(&find(&demand, 3, Preference::default()).unwrap(), RATE, LATENCY))
}

fn on_switch() -> Arc<RoutedLinks> {
    let spec: build::BuiltSpec = serde_json::from_value(serde_json::json!({
        "network": { "switch": { "hosts": SERVERS, "rate": "1GB/s", "latency": "1us" } }
    }))
    .unwrap();
    Arc::new(RoutedLinks::of_fabric(&build::build(&spec, 0).unwrap()))
}

fn everywhere(operators: usize) -> Strategy {
    Strategy { placed: vec![Placed { choice: 2, servers: (0..SERVERS).collect() }; operators] }
}

#[test]
fn data_parallelism_takes_the_time_of_the_closed_form() {
    // 3 operators of 1 ms forward and 2 ms backward. The gradients of the second one are ready at 3 + 4 ms, those of the
    // first one at 3 + 6 ms: 4 us inside the servers, then 2 · 7/8 · 800 kB at 1 GB/s, and 14 steps over 2 links of 1 us.
    let (model, network) = (model(3), on_switch());
    let timer = StepTimer::new(&model, network.clone(), everywhere(3));
    assert_eq!(timer.time(), Time::from_ns(9_000_000 + 4_000 + 1_400_000 + 28_000));
}

#[test]
fn transfers_take_the_time_of_the_closed_form() {
    // 8 ms, 64 · 1000 bytes over 2 links of 1 us, 8 ms; back 16 ms, the same transfer, 16 ms; 4 us inside the server.
    let (model, network) = (model(2), on_switch());
    let on = |server| Placed { choice: 0, servers: vec![server] };
    let timer = StepTimer::new(&model, network.clone(), Strategy { placed: vec![on(0), on(1)] });
    assert_eq!(timer.time(), Time::from_ns(48_000_000 + 2 * (64_000 + 2_000) + 4_000));
    // On one server, nothing is sent.
    let timer = StepTimer::new(&model, network.clone(), Strategy { placed: vec![on(3), on(3)] });
    assert_eq!(timer.time(), Time::from_ns(48_000_000 + 4_000));
}

#[test]
fn all_reduces_share_links_with_transfers() {
    // Servers 0 and 1 have the second operator, whose gradients of 800 kB they reduce from 8 + 4 + 8 ms, over 2 · 1/2 ·
    // 800 us of each link, while the gradients of its input, 32 kB each, go to server 2 in 32 us.
    let (model, network) = (model(2), on_switch());
    let placed = vec![Placed { choice: 0, servers: vec![2] }, Placed { choice: 1, servers: vec![0, 1] }];
    let timer = StepTimer::new(&model, network.clone(), Strategy { placed });
    // Forward 8 ms; both pieces leave server 2 one after the other; 4 ms; 8 ms backward of the later one; back 32 us.
    let second = 8_000_000 + 2 * 32_000 + 2_000 + 4_000_000 + 8_000_000;
    assert_eq!(timer.time(), Time::from_ns(second + 32_000 + 2_000 + 16_000_000 + 4_000));
}

#[test]
fn reductions_inside_a_server_follow_each_other() {
    // Two operators on one server, whose gradients take 2/4 of 800 kB at 20 MB/s inside it: 20 ms each. Those of the
    // second operator are there after 8 + 8 + 16 ms, those of the first one after 48.
    let mut graph = model(2).graph;
    graph.server.rate = Some(Rate::from_bytes_per_s(20_000_000));
    let slow = Model::new(graph, &given()).unwrap();
    let on = || Placed { choice: 0, servers: vec![0] };
    let timer = StepTimer::new(&slow, on_switch(), Strategy { placed: vec![on(), on()] });
    // 32 + 20 + 20 ms.
    assert_eq!(timer.time(), Time::from_ns(72_000_000));
}

/// Strategies of `operators` operators.
fn strategies(operators: usize) -> impl proptest::strategy::Strategy<Value = Vec<Placed>> {
    let servers = Just((0..SERVERS).collect::<Vec<u32>>()).prop_shuffle();
    let placed = (0u32..5, servers).prop_map(|(choice, mut servers)| {
        servers.truncate([1, 2, 8, 4, 4][choice as usize]);
        Placed { choice, servers }
    });
    prop::collection::vec(placed, operators)
}

/// What every server computes, and what every link has to send, in picoseconds: lower bounds of the step.
fn busiest(model: &Model, strategy: &Strategy, topology: &syncline_design::topology::Topology) -> u64 {
    let graph = &model.graph;
    let mut computed = [0u64; SERVERS as usize];
    let mut sent = std::collections::BTreeMap::new();
    let mut add = |from: u32, to: u32, bytes: f64| {
        for pair in topology.route(from, to).windows(2) {
            *sent.entry((pair[0], pair[1])).or_insert(0.0) += bytes;
        }
    };
    for (at, (operator, placed)) in graph.operators.iter().zip(&strategy.placed).enumerate() {
        let choice = &operator.choices[placed.choice as usize];
        for &server in &placed.servers {
            for work in [&choice.forward, &choice.backward] {
                let Work::Time(time) = work else { unreachable!() };
                computed[server as usize] += time.0;
            }
        }
        for &input in &operator.inputs {
            for piece in strategy.pieces(graph, input as usize, at) {
                let source = strategy.placed[input as usize].servers[piece.source as usize];
                let reader = placed.servers[piece.reader as usize];
                add(source, reader, piece.bytes as f64);
                add(reader, source, piece.bytes as f64);
            }
        }
    }
    for (members, bytes) in strategy.reductions(graph) {
        if let Some(trees) =
            topology.group(&members).filter(|own| own.pattern == AllReduceLinks::DoubleBinaryTrees)
        {
            // Each tree carries its part once up and once down.
            let part = bytes as f64 / (2.0 * trees.strides.len() as f64);
            trees.links().into_iter().for_each(|(from, to)| add(from, to, part));
            continue;
        }
        let own = topology.strides(&members).to_vec();
        let steps = if own.is_empty() { vec![1] } else { own };
        let size = members.len();
        let each = 2.0 * (size as f64 - 1.0) / size as f64 * bytes as f64 / steps.len() as f64;
        for step in &steps {
            for (i, &member) in members.iter().enumerate() {
                add(member, members[(i + *step as usize) % size], each);
            }
        }
    }
    let counts: std::collections::BTreeMap<_, _> =
        topology.links.iter().map(|link| ((link.from, link.to), f64::from(link.count))).collect();
    let longest = sent.iter().map(|(link, bytes)| (bytes / counts[link] * 1000.0) as u64).max().unwrap_or(0);
    longest.max(computed.into_iter().max().unwrap_or(0))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// A proposal costs the same as evaluating it afresh, to the picosecond; rejecting one leaves no trace.
    #[test]
    fn proposals_equal_full_evaluations(
        start in strategies(11),
        moves in prop::collection::vec((prop::collection::btree_map(0usize..11, 0usize..11, 1..4), prop::bool::ANY), 1..20),
        pool in strategies(11),
        switch: bool,
    ) {
        let (model, network) = (model(11), if switch { on_switch() } else { direct() });
        let mut timer = StepTimer::new(&model, network.clone(), Strategy { placed: start });
        for (changes, accept) in moves {
            let changes: Vec<(usize, Placed)> = changes.into_iter().map(|(at, new)| (at, pool[new].clone())).collect();
            let mut changed = timer.strategy().clone();
            for (at, placed) in &changes {
                changed.placed[*at] = placed.clone();
            }
            let fresh = StepTimer::new(&model, network.clone(), changed).time();
            let before = timer.time();
            prop_assert_eq!(timer.propose(changes), fresh);
            if accept { timer.accept() } else { timer.reject() }
            prop_assert_eq!(timer.time(), if accept { fresh } else { before });
            let again = StepTimer::new(&model, network.clone(), timer.strategy().clone()).time();
            prop_assert_eq!(timer.time(), again);
        }
    }

    /// No step is shorter than what its busiest server computes or its busiest link sends.
    #[test]
    fn no_resource_works_longer_than_the_step(placed in strategies(11), trees in prop::bool::ANY) {
        let all_reduce = if trees { AllReduceLinks::DoubleBinaryTrees } else { AllReduceLinks::Rings };
        let model = model(11);
        let strategy = Strategy { placed };
        let mut demand = Demand::new(SERVERS);
        for (members, bytes) in strategy.reductions(&model.graph) {
            demand.all_reduce(members, bytes);
        }
        demand.transfers.add(3, 4, 1_000_000);
        let topology = find(&demand, 4, Preference { all_reduce, ..Preference::default() }).unwrap();
        let network = Arc::new(RoutedLinks::direct(&topology, RATE, LATENCY));
        let time = StepTimer::new(&model, network.clone(), strategy.clone()).time();
        // Each piece is rounded down to a picosecond.
        let rounded = time.0 + 100_000;
        prop_assert_eq!(rounded.max(busiest(&model, &strategy, &topology)), rounded);
    }
}
