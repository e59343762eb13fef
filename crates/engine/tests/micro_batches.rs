//! Training steps of several micro-batches: the order of work, the reported numbers, and the iterations that are left
//! out.

use crate::support::{cases, scenario, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_diagnostics::Code;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Data, Timeline};

/// All-reduce of `MEGABYTES` between two NPUs over 100 GB/s and 500 ns: two rounds of half of it, in microseconds.
const MEGABYTES: u32 = 4;
const ALL_REDUCE: f64 = 2.0 * (20.0 + 0.5);

/// Two layers whose passes take 10 us each, with these numbers of parameters, on two NPUs.
fn two_ranks(parameters: [u32; 2], iterations: u32, micro_batches: u32) -> Value {
    let layer = |name: &str, parameters: u32| {
        let time = json!({"time": "10us"});
        json!({"name": name, "forward": time, "input_grad": time, "weight_grad": time, "parameters": parameters})
    };
    json!({
        "schema": "syncline/1",
        "workload": {"source": "layers", "layers": [layer("x", parameters[0]), layer("y", parameters[1])],
            "parallel": {"data": "all"}, "iterations": iterations, "micro_batches": micro_batches},
        "fabric": {"dims": [{"name": "d", "shape": "fully_connected", "size": 2, "rate": "100GB/s", "latency": "500ns"}]},
        "collectives": {"chunks": 1},
    })
}

const PARAMETERS: u32 = MEGABYTES * 1_000_000 / 4;

fn is(found: f64, expected_us: f64) {
    assert!((found * 1e6 - expected_us).abs() < 1e-6, "{} us, expected {expected_us} us", found * 1e6);
}

fn ints<'a>(timeline: &'a Timeline, table: &str, column: &str) -> &'a [i64] {
    match &timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Int(values) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn gradients_of_four_micro_batches_are_reduced_once() {
    // A micro-batch is x and y forward, y's gradients, x's weight gradient: 50 us. x is reduced after all
    // micro-batches, and its next forward pass waits for that.
    let timeline = simulate(&two_ranks([PARAMETERS, 0], 3, 4));
    let summary = &timeline.summary;
    is(summary.step_time_s, 4.0 * 50.0 + ALL_REDUCE);
    is(summary.compute_s, 3.0 * 4.0 * 50.0);
    is(summary.exposed_communication_s, 3.0 * ALL_REDUCE);
    assert_eq!(ints(&timeline, "collectives", "iteration"), [0, 1, 2]);
    assert_eq!(ints(&timeline, "layers", "collective_bytes"), [4_000_000, 0]);
    assert_eq!((summary.iterations, summary.micro_batches), (3, Some(4)));

    // y is reduced from 180 us on, during the last 20 us of the backward pass and the 10 us of the next forward pass of
    // x.
    let summary = simulate(&two_ranks([0, PARAMETERS], 3, 4)).summary;
    is(summary.total_time_s, 10.0 + 3.0 * (170.0 + ALL_REDUCE));
    is(summary.exposed_communication_s, 2.0 * (ALL_REDUCE - 30.0) + (ALL_REDUCE - 20.0));
}

#[test]
fn the_update_comes_once_and_activations_in_every_micro_batch() {
    let mut value = two_ranks([PARAMETERS, 0], 2, 3);
    value["workload"]["layers"][0]["update"] = json!({"time": "5us"});
    let summary = simulate(&value).summary;
    is(summary.step_time_s, 3.0 * 50.0 + ALL_REDUCE + 5.0);
    is(summary.compute_s, 2.0 * (3.0 * 50.0 + 5.0));

    // Row-parallel: outputs are all-reduced after every forward pass, and halves of the work remain.
    let mut value = two_ranks([PARAMETERS, 0], 2, 3);
    value["workload"]["parallel"] = json!({"tensor": "all", "data": "none"});
    value["workload"]["layers"][0]["sharding"] = json!("row");
    value["workload"]["layers"][0]["outputs"] = json!(PARAMETERS);
    let timeline = simulate(&value);
    is(timeline.summary.step_time_s, 3.0 * (25.0 + ALL_REDUCE));
    assert_eq!(ints(&timeline, "collectives", "iteration"), [0, 0, 0, 1, 1, 1]);
}

#[test]
fn of_ten_thousand_micro_batches_only_a_few_are_simulated() {
    let timeline = simulate(&two_ranks([PARAMETERS; 2], 1_000, 10_000));
    let summary = &timeline.summary;
    assert_eq!((summary.iterations, summary.micro_batches), (1_000, Some(10_000)));
    is(summary.compute_s, 1_000.0 * 10_000.0 * 50.0);
    let (simulated, steps) = (summary.simulated_micro_batches.unwrap(), summary.simulated_iterations);
    assert!(simulated < 200 && steps < 12, "{simulated} in {steps}");
    assert!(summary.events < 4_000, "{}", summary.events);
    assert_eq!(timeline.table("collectives").unwrap().rows(), 2_000);
    assert!(summary.notes.iter().any(|note| note.contains("the first 64 of 10000")), "{:?}", summary.notes);
}

#[test]
fn a_limit_on_time_holds_within_a_step() {
    let mut value = two_ranks([PARAMETERS, 0], 2, 1_000);
    value["limits"] = json!({"sim_time": "75041us"});
    let summary = simulate(&value).summary;
    assert_eq!(summary.iterations, 1);
    is(summary.compute_s, 75_000.0);
    assert!(summary.simulated_micro_batches.unwrap() < 200);
    // The first step is not over.
    value["limits"] = json!({"sim_time": "20ms"});
    let summary = simulate(&value).summary;
    assert_eq!((summary.iterations, summary.simulated_iterations), (0, 0));
    is(summary.compute_s, 20_000.0);
}

#[test]
fn the_critical_path_is_that_of_steps() {
    let ends = |iterations: u32, micro_batches: u32| {
        let timeline = simulate(&two_ranks([PARAMETERS, 0], iterations, micro_batches));
        match &timeline.table("critical_path").unwrap().column("end_s").unwrap().data {
            Data::Float(ends) => ends.iter().copied().fold(0.0, f64::max),
            other => panic!("{other:?}"),
        }
    };
    // The path covers two steps, or one step if that has more than 32 micro-batches.
    is(ends(5, 32), 2.0 * (32.0 * 50.0 + ALL_REDUCE));
    is(ends(5, 33), 33.0 * 50.0 + ALL_REDUCE);
    is(ends(5, 65), 65.0 * 50.0 + ALL_REDUCE);
    is(ends(5, 10_000), 10_000.0 * 50.0 + ALL_REDUCE);
}

#[test]
fn impossible_numbers_are_refused() {
    let error = |value: &Value| {
        let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
        let found = run(&scenario, Control::default()).unwrap_err();
        (found.0[0].code, found.0[0].key.clone().unwrap())
    };
    let expected = (Code::BadValue, "workload.micro_batches".to_owned());
    assert_eq!(error(&two_ranks([0, 0], 2, 0)), expected);
    assert_eq!(error(&two_ranks([0, 0], 2, 1 << 31)), expected);
    for workload in [
        json!({"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1MB"}], "micro_batches": 2}),
        json!({"source": "chakra", "prefix": "job", "micro_batches": 2}),
        json!({"source": "astra_text", "file": "job.txt", "micro_batches": 2}),
    ] {
        let mut value = two_ranks([0, 0], 1, 1);
        value["workload"] = workload;
        let error = serde_json::from_value::<Scenario>(value).unwrap_err();
        assert!(error.to_string().contains("unknown field `micro_batches`"), "{error}");
    }
}

fn is_training(value: &Value) -> bool {
    value["workload"]["source"] == "layers"
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn one_micro_batch_equals_none(mut value in scenario().prop_filter("training", is_training)) {
        value["workload"]["micro_batches"] = json!(1);
        let one = simulate(&value);
        value["workload"].as_object_mut().unwrap().remove("micro_batches");
        let none = simulate(&value);
        prop_assert_eq!(none.summary, one.summary);
        prop_assert_eq!(none.tables, one.tables);
    }

    /// A step's compute is that of its micro-batches, and its gradients are reduced once.
    #[test]
    fn micro_batches_add_up(mut value in scenario().prop_filter("training", is_training), number in 1u32..9) {
        value["workload"]["iterations"] = json!(2);
        value["workload"]["micro_batches"] = json!(1);
        let one = simulate(&value);
        value["workload"]["micro_batches"] = json!(number);
        let several = simulate(&value);
        let rows = |timeline: &Timeline, part: &str| {
            match &timeline.table("collectives").unwrap().column("part").unwrap().data {
                Data::Text(parts) => parts.iter().filter(|&found| found == part).count(),
                other => panic!("{other:?}"),
            }
        };
        for (part, times) in [("forward", number), ("input grad", number), ("weight grad", 1)] {
            prop_assert_eq!(rows(&several, part), rows(&one, part) * times as usize);
        }
        let updates = 2e-6 * value["workload"]["layers"].as_array().unwrap().len() as f64;
        let passes = |summary: &syncline_timeline::Summary| summary.compute_s - updates;
        if value["workload"]["parallel"]["tensor"].is_null() {
            let expected = passes(&one.summary) * f64::from(number);
            prop_assert!((passes(&several.summary) - expected).abs() < 1e-9);
        }
    }
}
