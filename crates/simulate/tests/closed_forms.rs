//! Simulated times against closed forms, by hand.

use syncline_simulate::scenario::Scenario;
use syncline_simulate::{Control, Run, run};

fn scenario(json: &str) -> Scenario {
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"))
}

fn simulate(json: &str) -> Run {
    run(&scenario(json), Control::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// One collective over dimensions, with the given settings of collectives. Total time in picoseconds.
fn collective(kind: &str, bytes: &str, dims: &str, collectives: &str, network: &str) -> u64 {
    let run = simulate(&format!(
        r#"{{"schema": "syncline/1",
            "workload": {{"source": "collectives", "collectives": [{{"kind": "{kind}", "bytes": "{bytes}"}}]}},
            "fabric": {{"dims": [{dims}]}},
            "collectives": {collectives},
            "network": {{"model": "{network}"}}}}"#
    ));
    (run.timeline.summary.total_time_s * 1e12).round() as u64
}

const RING8: &str = r#"{"name": "d", "shape": "ring", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;
const SWITCH8: &str = r#"{"name": "d", "shape": "switch", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;
const FC8: &str =
    r#"{"name": "d", "shape": "fully_connected", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;

/// Time of `bytes` at 50 GB/s.
const fn at_50(bytes: u64) -> u64 {
    bytes * 20
}
const NS: u64 = 1_000;

#[test]
fn ring_all_reduce_is_two_passes_around() {
    for network in ["analytical", "queued"] {
        let chunk = at_50(1_000_000) + 500 * NS + 10 * NS;
        let one = r#"{"chunks": 1, "endpoint_delay": "10ns"}"#;
        assert_eq!(collective("all_reduce", "8MB", RING8, one, network), 14 * chunk);
        assert_eq!(collective("reduce_scatter", "8MB", RING8, one, network), 7 * chunk);
        assert_eq!(collective("all_gather", "8MB", RING8, one, network), 7 * chunk);
    }
}

#[test]
fn two_chunks_use_both_ways_round() {
    let both = r#"{"chunks": 2, "endpoint_delay": "10ns"}"#;
    let step = at_50(500_000) + 510 * NS;
    assert_eq!(collective("all_reduce", "8MB", RING8, both, "analytical"), 14 * step);
}

#[test]
fn direct_on_full_connection_takes_two_rounds() {
    for network in ["analytical", "queued"] {
        let round = at_50(1_000_000) + 500 * NS;
        assert_eq!(collective("all_reduce", "8MB", FC8, r#"{"chunks": 1}"#, network), 2 * round);
    }
}

#[test]
fn no_result_beats_a_network_interface() {
    // Direct all-reduce on a switch: 7 messages leave by one port. ASTRA-sim without congestion says 2 hops + 1 message.
    let direct = r#"{"chunks": 1, "algorithms": {"default": {"all_reduce": "direct", "reduce_scatter": "direct", "all_gather": "direct"}}}"#;
    let analytical = collective("all_reduce", "8MB", SWITCH8, direct, "analytical");
    assert_eq!(analytical, 2 * (7 * at_50(1_000_000) + 1_000 * NS));
    let queued = collective("all_reduce", "8MB", SWITCH8, direct, "queued");
    assert_eq!(queued, 2 * (8 * at_50(1_000_000) + 1_000 * NS));
}

#[test]
fn halving_doubling_on_a_switch_halves_its_messages() {
    // Rounds of 4, 2 and 1 MB, there and back; two hops of latency each.
    let bytes = 2 * 7 * 1_000_000;
    let expected = at_50(bytes) + 6 * 1_000 * NS;
    assert_eq!(collective("all_reduce", "8MB", SWITCH8, r#"{"chunks": 1}"#, "analytical"), expected);
}

#[test]
fn reduction_and_injection_cost_what_they_say() {
    let one = r#"{"chunks": 1, "reduction_rate": "100GB/s", "injection_latency": "1us"}"#;
    let step = at_50(1_000_000) + 500 * NS + 2_000 * NS;
    let reduce = 1_000_000 * 10;
    assert_eq!(collective("all_reduce", "8MB", RING8, one, "analytical"), 14 * step + 7 * reduce);
}

#[test]
fn phases_shrink_with_the_composition() {
    let dims = r#"{"name": "local", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"},
                  {"name": "rack", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"}"#;
    let time = |composition: &str| {
        collective(
            "all_reduce",
            "16MB",
            dims,
            &format!(r#"{{"chunks": 1, "all_reduce": "{composition}"}}"#),
            "analytical",
        )
    };
    assert_eq!(time("baseline"), at_50(2 * 6 * 4_000_000));
    assert_eq!(time("enhanced"), at_50(6 * 4_000_000 + 6 * 1_000_000));
    assert_eq!(time("hierarchical_2n"), at_50(6 * 4_000_000 + 6 * 1_000_000));
}

#[test]
fn chunks_overlap_phases_of_different_dimensions() {
    let dims = r#"{"name": "local", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"},
                  {"name": "rack", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"}"#;
    let time = |chunks: u32| {
        let collectives = format!(r#"{{"chunks": {chunks}, "all_reduce": "baseline", "active_chunks": 1}}"#);
        collective("all_reduce", "16MB", dims, &collectives, "analytical")
    };
    // With k chunks: k + 1 chunk times in a pipeline of two stages.
    let whole = at_50(6 * 4_000_000);
    for chunks in [1, 2, 4, 8] {
        assert_eq!(time(chunks), whole / u64::from(chunks) * u64::from(chunks + 1));
    }
}

const LAYERS: &str = r#"[
    {"name": "a", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000},
    {"name": "b", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000}]"#;

fn training(parallel: &str, iterations: u32) -> Run {
    simulate(&format!(
        r#"{{"schema": "syncline/1",
            "workload": {{"source": "layers", "layers": {LAYERS}, "parallel": {parallel}, "iterations": {iterations}}},
            "fabric": {{"dims": [{RING8}]}},
            "collectives": {{"chunks": 1}}}}"#
    ))
}

#[test]
fn data_parallel_training_exposes_what_the_dependencies_say() {
    // Compute per iteration: 2 forward, 2 weight and 1 input gradient. The all-reduces of 8 MB run on one ring way,
    // one after the other or side by side; the last iteration ends with the last of them.
    let one = training(r#"{"data": "all"}"#, 1).timeline;
    let all_reduce = (14 * (at_50(1_000_000) + 500 * NS)) as f64 / 1e12;
    let summary = &one.summary;
    assert!((summary.compute_s - 50e-6).abs() < 1e-12);
    // b's all-reduce starts at 30 us and a's at 50 us, in the other direction: a's ends last.
    assert!((summary.total_time_s - (50e-6 + all_reduce)).abs() < 1e-9, "{}", summary.total_time_s);
    assert!((summary.exposed_communication_s - all_reduce).abs() < 1e-9);
    assert!((summary.compute_s + summary.exposed_communication_s - summary.total_time_s).abs() < 1e-12);
    let two = training(r#"{"data": "all"}"#, 2).timeline.summary;
    assert!((two.total_time_s - 2.0 * summary.total_time_s).abs() < 20e-6);
    assert!((two.step_time_s - two.total_time_s / 2.0).abs() < 1e-15);
}

#[test]
fn accounting_adds_up_for_every_rank() {
    for parallel in
        [r#"{"data": "all"}"#, r#"{"model": "all", "data": "none"}"#, r#"{"model": {"degree": 2}}"#]
    {
        let run = training(parallel, 3);
        let table = run.timeline.table("ranks").unwrap();
        let column = |name: &str| match &table.column(name).unwrap().data {
            syncline_timeline::Data::Float(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        let (finish, compute, exposed) =
            (column("finish_s"), column("compute_s"), column("exposed_communication_s"));
        for rank in 0..8 {
            assert!((compute[rank] + exposed[rank] - finish[rank]).abs() < 1e-12, "{parallel} rank {rank}");
        }
    }
}

#[test]
fn limits_keep_what_was_done() {
    let mut limited = scenario(&format!(
        r#"{{"schema": "syncline/1", "workload": {{"source": "layers", "layers": {LAYERS}, "iterations": 50}},
            "fabric": {{"dims": [{RING8}]}}, "limits": {{"events": 1000}}}}"#
    ));
    let by_events = run(&limited, Control::default()).unwrap();
    assert_eq!(by_events.timeline.summary.events, 1000);
    assert_eq!(by_events.timeline.summary.ended, syncline_timeline::Ended::LimitReached);
    assert!(by_events.diagnostics.to_string().contains("limit on events"));
    limited.limits = serde_json::from_str(r#"{"sim_time": "100us"}"#).unwrap();
    let by_time = run(&limited, Control::default()).unwrap();
    assert!(by_time.timeline.summary.total_time_s <= 100e-6);
    assert!(by_time.timeline.summary.compute_s > 0.0);
    let cancel = std::sync::atomic::AtomicBool::new(true);
    limited.limits = Default::default();
    let cancelled = run(&limited, Control { cancel: Some(&cancel), progress: None }).unwrap();
    assert_eq!(cancelled.timeline.summary.ended, syncline_timeline::Ended::Interrupted);
}
