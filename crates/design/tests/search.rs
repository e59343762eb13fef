//! Searches for strategies: against every strategy, on any number of threads, within memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use syncline_compute::{ComputeModel, Power, Timing};
use syncline_design::joint::{
    ChainSettings, Cluster, DirectLinks, Found, Improvement, Model, RoutedLinks, SearchControl, exhaustive,
    greedy, improve, search,
};
use syncline_design::topology::{AllReduceLinks, RingSelection};
use syncline_diagnostics::{Code, Result};
use syncline_fabric::build;
use syncline_units::{Bytes, Rate, Time};
use syncline_workload::Work;
use syncline_workload::operators::{Choice, Operator, OperatorGraph, Reads, Server};

fn operator(
    name: &str,
    inputs: &[u32],
    output: u64,
    parameters: u64,
    forward_us: u64,
    splits: &[(u32, u32)],
) -> Operator {
    let choice = |&(samples, parts): &(u32, u32)| {
        let time = |us: u64| Work::Time(Time(us * 1_000_000 / u64::from(samples * parts)));
        Choice {
            samples,
            parameters: parts,
            forward: time(forward_us),
            backward: time(2 * forward_us),
            memory: Bytes(parameters / u64::from(parts)),
        }
    };
    Operator {
        name: name.to_owned(),
        kind: String::new(),
        inputs: inputs.to_vec(),
        output: Bytes(output),
        parameters: Bytes(parameters),
        copied: true,
        reads: Reads::All,
        choices: splits.iter().map(choice).collect(),
    }
}

/// Two embedding tables, a dense operator beside them, a concatenation, and a dense operator on top.
fn recommender(memory: Option<Bytes>) -> Model {
    let by_samples = [(1, 1), (2, 1), (4, 1), (8, 1)];
    let operators = vec![
        operator("table 0", &[], 2_000, 400_000_000, 500, &[(1, 1)]),
        operator("table 1", &[], 2_000, 400_000_000, 500, &[(1, 1)]),
        operator("bottom", &[], 2_000, 4_000_000, 4_000, &by_samples),
        operator("join", &[0, 1, 2], 6_000, 0, 800, &by_samples),
        operator("top", &[3], 100, 40_000_000, 24_000, &by_samples),
    ];
    let graph = OperatorGraph {
        model: "recommender".to_owned(),
        samples: 8192,
        operators,
        server: Server { accelerators: 1, rate: None, memory },
    };
    graph.check(8).unwrap();
    Model::new(graph, &ComputeModel { timing: Timing::Given, power: Power::new(1.0).unwrap() }).unwrap()
}

fn switch(rate: &str) -> Cluster {
    let spec: build::BuiltSpec = serde_json::from_value(serde_json::json!({
        "network": { "switch": { "hosts": 8, "rate": rate, "latency": "1us" } }
    }))
    .unwrap();
    Cluster::Fixed(Arc::new(RoutedLinks::of_fabric(&build::build(&spec, 0).unwrap())))
}

fn direct(degree: u32) -> Cluster {
    Cluster::Direct(DirectLinks {
        servers: 8,
        degree,
        rate: Rate::from_bytes_per_s(3_000_000_000),
        latency: Time::from_ns(1000),
        rings: RingSelection::Hops,
        all_reduce: AllReduceLinks::Rings,
    })
}

fn control(cancel: &AtomicBool) -> SearchControl<'_> {
    SearchControl { cancel, progress: &|_| {}, threads: 1 }
}

/// Searches on some threads.
fn run(model: &Model, cluster: &Cluster, settings: ChainSettings, threads: usize) -> Result<Found> {
    let cancel = AtomicBool::new(false);
    search(model, cluster, settings, SearchControl { cancel: &cancel, progress: &|_| {}, threads })
}

fn settings(proposals: u32, chains: u32, seed: u64) -> ChainSettings {
    ChainSettings { proposals, chains, seed, ..ChainSettings::default() }
}

#[test]
fn a_search_is_within_two_per_cent_of_the_best_of_all_strategies() {
    let cancel = AtomicBool::new(false);
    let model = recommender(None);
    for rate in ["1GB/s", "10GB/s", "100GB/s"] {
        let cluster = switch(rate);
        let best = exhaustive(&model, &cluster, control(&cancel)).unwrap();
        assert!(best.time <= best.start);
        for seed in 0..5 {
            let found = run(&model, &cluster, settings(4000, 2, seed), 1).unwrap();
            assert!(found.time >= best.time);
            let apart = found.time.as_s() / best.time.as_s() - 1.0;
            assert!(apart <= 0.02, "{rate}, seed {seed}: {apart}");
        }
        // The greedy search needs no luck, and ends in a local optimum.
        let local = greedy(&model, &cluster, control(&cancel)).unwrap();
        assert!(local.time >= best.time && local.time <= local.start);
        // A given network has no topologies to choose.
        assert_eq!((best.topologies, local.topologies), (0, 0));
    }
}

#[test]
fn strategies_of_another_network_are_improved() {
    let model = recommender(None);
    let cancel = AtomicBool::new(false);
    let elsewhere = run(&model, &switch("100GB/s"), settings(500, 2, 3), 1).unwrap().strategy;
    let plain = run(&model, &direct(3), settings(0, 1, 3), 1).unwrap().strategy;
    let from = [elsewhere.clone(), plain];
    let of = |threads| {
        let control = SearchControl { cancel: &cancel, progress: &|_| {}, threads };
        improve(&model, &direct(3), settings(500, 1, 3), &from, control).unwrap()
    };
    let found = of(1);
    // Never worse than where it starts, whatever the number of threads.
    let start = improve(&model, &direct(3), settings(0, 1, 3), &[elsewhere], control(&cancel)).unwrap().start;
    assert!(found.time <= start);
    assert_eq!(
        (found.time, &found.strategy, found.proposals),
        (of(2).time, &of(2).strategy, of(2).proposals)
    );
    // What the other chain found is kept, too, and is not faster.
    assert!(found.runners_up.len() <= 1 && found.runners_up.iter().all(|other| other.time >= found.time));
    let none = improve(&model, &direct(3), settings(1, 1, 0), &[], control(&cancel)).unwrap_err();
    assert!(none.to_string().contains("no strategy to improve"));
}

#[test]
fn a_search_gives_the_same_result_on_any_number_of_threads() {
    let model = recommender(None);
    let of = |threads| run(&model, &direct(3), settings(500, 4, 7), threads).unwrap();
    let (one, four) = (of(1), of(4));
    assert_eq!(
        (one.strategy, one.topology, one.time, one.trace),
        (four.strategy, four.topology, four.time, four.trace)
    );
    assert_eq!(
        (one.proposals, one.accepted, one.topologies),
        (four.proposals, four.accepted, four.topologies)
    );
    // 500 of each chain, and those of the greedy search that two begin with.
    assert!(one.proposals > 2000);
    assert!(one.topologies > 4);
}

#[test]
fn the_found_time_is_that_of_the_strategy_on_its_topology() {
    let model = recommender(None);
    let Cluster::Direct(links) = direct(3) else { unreachable!() };
    let found = run(&model, &direct(3), settings(800, 1, 1), 1).unwrap();
    let network = syncline_design::joint::RoutedLinks::direct(
        found.topology.as_ref().unwrap(),
        links.rate,
        links.latency,
    );
    let timer = syncline_design::joint::StepTimer::new(&model, Arc::new(network), found.strategy.clone());
    assert_eq!(timer.time(), found.time);
    assert!(found.time < found.start);
    assert_eq!(found.trace.last().unwrap().time, found.time);
    let improves =
        |pair: &[Improvement]| pair[0].proposals < pair[1].proposals && pair[0].time > pair[1].time;
    assert!(found.trace.windows(2).all(improves));
}

#[test]
fn strategies_fit_into_memory() {
    // Tables of 400 MB, 44 MB of other parameters: two tables on one server are too much.
    let model = recommender(Some(Bytes(450_000_000)));
    let found = run(&model, &direct(3), settings(1500, 2, 3), 2).unwrap();
    found.strategy.check(&model.graph, 8).unwrap();
    // Where the start does not fit, the search begins elsewhere: a table and the top do not fit on one server here.
    let model = recommender(Some(Bytes(420_000_000)));
    let found = run(&model, &direct(3), settings(1500, 2, 3), 2).unwrap();
    found.strategy.check(&model.graph, 8).unwrap();
    let model = recommender(Some(Bytes(399_999_999)));
    let error = run(&model, &direct(3), settings(10, 1, 0), 1).unwrap_err();
    assert_eq!(error.0[0].code, Code::DoesNotFit);
    assert!(error.0[0].message.contains("memory"), "{error}");
}

#[test]
fn searches_can_be_stopped() {
    let cancel = AtomicBool::new(true);
    let proposals = AtomicU64::new(0);
    let progress = |number| {
        proposals.fetch_max(number, Ordering::Relaxed);
    };
    let control = SearchControl { cancel: &cancel, progress: &progress, threads: 2 };
    let error = search(&recommender(None), &direct(2), settings(100_000, 2, 0), control).unwrap_err();
    assert_eq!(error.0[0].code, Code::LimitReached);
    assert!((64..=128).contains(&proposals.load(Ordering::Relaxed)));
}
