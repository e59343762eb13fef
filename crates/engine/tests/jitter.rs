//! Seeded jitter on whole jobs: it sets the start of ranks and the time of compute, and the same seed gives the same
//! results.

use crate::support::simulate;
use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::Control;

/// Training steps on a ring of eight.
fn training(network: Value, jitter: Value) -> Value {
    json!({
        "schema": "syncline/1",
        "seed": 3,
        "workload": {"source": "layers", "iterations": 4, "layers": [{
            "name": "layer",
            "forward": {"time": "100us"}, "input_grad": {"time": "100us"}, "weight_grad": {"time": "100us"},
            "exchanges": [{"when": "after_weight_grad", "axes": ["data"], "kind": "all_reduce", "bytes": "1MB"}],
        }]},
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 8, "rate": "100Gb/s", "latency": "500ns"}]},
        "network": network,
        "jitter": jitter,
    })
}

fn column(run: &syncline_timeline::Timeline, table: &str, column: &str) -> Vec<f64> {
    let table = run.table(table).unwrap();
    let found = table.columns.iter().find(|each| each.name == column).unwrap();
    match &found.data {
        syncline_timeline::Data::Float(values) => values.clone(),
        syncline_timeline::Data::OptionalFloat(values) => values.iter().flatten().copied().collect(),
        syncline_timeline::Data::Int(values) => values.iter().map(|&value| value as f64).collect(),
        _ => panic!("{column} is no number"),
    }
}

#[test]
fn jitter_works_with_every_network_model_and_follows_its_seed() {
    for model in ["analytical", "queued", "flow", "packet"] {
        let time = |seed: u64| {
            let mut value = training(json!({"model": model}), json!({"start": "20us", "compute": 0.05}));
            value["seed"] = json!(seed);
            simulate(&value)
        };
        let (one, again, other) = (time(1), time(1), time(2));
        assert_eq!(one.tables, again.tables, "{model}");
        assert_ne!(one.summary.total_time_s, other.summary.total_time_s, "{model}");
        assert_eq!(one.summary.simulated_ranks, 8, "{model}");
        // The jitter's own seed replaces the scenario's.
        let mut own = training(json!({"model": model}), json!({"start": "20us", "compute": 0.05, "seed": 1}));
        own["seed"] = json!(2);
        assert_eq!(simulate(&own).summary.total_time_s, one.summary.total_time_s, "{model}");
    }
}

/// Without jitter, one rank and one iteration represent all; the results are the same as with every rank simulated.
#[test]
fn without_jitter_nothing_changes() {
    let none = simulate(&training(json!({"model": "queued"}), json!({})));
    assert_eq!(none.summary.simulated_ranks, 1);
    assert!(none.summary.notes.iter().all(|note| !note.contains("drawn")));
}

/// A job of only compute: a step takes as long as the slowest rank, and the mean over ranks does not change.
#[test]
fn compute_times_have_the_given_mean() {
    let value = training(json!({"model": "queued"}), json!({"compute": 0.1}));
    let run = simulate(&value);
    let compute = column(&run, "ranks", "compute_s");
    let mean = compute.iter().sum::<f64>() / 8.0;
    // Forward and weight gradient, 100 us each, of four iterations; the standard error of the mean of 64 factors is
    // 1.25 %.
    assert!((mean / 0.8e-3 - 1.0).abs() < 0.05, "{mean}");
    assert!(compute.iter().any(|&time| time != compute[0]));
    // Each rank's own task of an iteration takes the same under another network model.
    let mut other = value;
    other["network"] = json!({"model": "flow"});
    assert_eq!(column(&simulate(&other), "ranks", "compute_s"), compute);
}

/// A single broadcast over a star: it begins when the last rank that it waits for has begun.
#[test]
fn ranks_begin_when_jitter_says() {
    let value = |start: &str| {
        json!({
            "schema": "syncline/1",
            "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "8B"}]},
            "fabric": {"dims": [{"name": "d", "shape": "switch", "size": 16, "rate": "100Gb/s", "latency": "500ns"}]},
            "network": {"model": "analytical"},
            "jitter": {"start": start},
        })
    };
    let time = |start: &str| simulate(&value(start)).summary.total_time_s;
    let (without, with) = (time("0s"), time("1ms"));
    // The last of 16 begins within the last tenth of a millisecond in four of five draws, and never later than at its
    // end.
    assert!(with > 0.7e-3 && with <= 1e-3 + without, "{with} {without}");
    let started = column(&simulate(&value("1ms")), "collectives", "issue_s");
    assert!(started[0] < 0.3e-3, "the first rank begins early: {started:?}");
}

/// Repeated iterations are left out with start skew too, which does not change the results.
#[test]
fn iterations_with_start_skew_alone_are_left_out() {
    let long = |quotient: bool| {
        let mut value = training(json!({"model": "queued"}), json!({"start": "50us"}));
        value["workload"]["iterations"] = json!(60);
        value["symmetry"] = json!(quotient);
        simulate(&value).summary
    };
    let (short, whole) = (long(true), long(false));
    assert!(short.simulated_iterations < 60, "{}", short.simulated_iterations);
    assert_eq!((short.simulated_ranks, whole.simulated_iterations), (8, 60));
    assert_eq!(short.total_time_s, whole.total_time_s);
    assert_eq!(short.exposed_communication_s, whole.exposed_communication_s);
}

#[test]
fn a_variation_out_of_range_is_refused() {
    let value = training(json!({"model": "queued"}), json!({"compute": 3.0}));
    let scenario: Scenario = serde_json::from_value(value).unwrap();
    let told = syncline_simulate::run(&scenario, Control::default()).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("jitter.compute") && told.contains("0 to 2"), "{told}");
}

/// Jobs that share no link take as long together as alone, with any jitter; equal jobs draw different values.
#[test]
fn jobs_draw_the_same_numbers_alone_and_together() {
    let mut value = training(json!({"model": "queued"}), json!({"start": "50us", "compute": 0.2}));
    let one = value["workload"].clone();
    let job =
        |name: &str, placement: Value| json!({"name": name, "workload": one.clone(), "placement": placement});
    value["fabric"]["dims"] = json!([
        {"name": "d", "shape": "switch", "size": 4, "rate": "100Gb/s", "latency": "500ns"},
        {"name": "e", "shape": "switch", "size": 2, "rate": "100Gb/s", "latency": "500ns"},
    ]);
    value["workload"] = json!({"source": "jobs", "jobs": [job("a", json!({"npus": [0, 1, 2, 3]})), job("b", json!({"npus": [4, 5, 6, 7]}))]});
    let run = simulate(&value);
    let (slowdown, times) = (column(&run, "jobs", "slowdown"), column(&run, "jobs", "step_time_s"));
    assert_eq!(slowdown, [1.0, 1.0], "{times:?}");
    assert_ne!(times[0], times[1]);
    // A job's values depend on its name, not on its position.
    value["workload"]["jobs"].as_array_mut().unwrap().swap(0, 1);
    let swapped = column(&simulate(&value), "jobs", "step_time_s");
    assert_eq!([swapped[1], swapped[0]], times[..]);
}
