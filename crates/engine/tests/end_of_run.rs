//! Communication exposed at the end of a run, which no further iteration hides, compared with times computed by hand.

use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Data, Timeline};

fn simulate(value: &Value) -> Timeline {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}")).timeline
}

/// Two layers whose passes take 10 us each, and whose gradients take 40 us to reduce between two NPUs at 100 GB/s (two
/// rounds of 2 MB, without latency), with and without parameter updates of 1 us.
fn job(update: bool, iterations: u32) -> Value {
    let pass = json!({"time": "10us"});
    let layer = |name: &str| {
        let mut layer = json!({"name": name, "forward": pass, "input_grad": pass, "weight_grad": pass,
            "parameters": 1_000_000});
        if update {
            layer["update"] = json!({"time": "1us"});
        }
        layer
    };
    json!({
        "schema": "syncline/1",
        "workload": {"source": "layers", "layers": [layer("x"), layer("y")], "parallel": {"data": "all"},
            "iterations": iterations},
        "fabric": {"dims": [{"name": "d", "shape": "fully_connected", "size": 2, "rate": "100GB/s"}]},
        "collectives": {"chunks": 1},
    })
}

/// The values of a column in microseconds, times the number of iterations if they are means over iterations.
fn us(timeline: &Timeline, table: &str, column: &str, times: u32) -> Vec<f64> {
    match &timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Float(values) => {
            values.iter().map(|value| (value * f64::from(times) * 1e9).round() / 1e3).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn updates_do_not_hide_that_a_run_ends_with_reductions() {
    // Passes end at 50 us: x and y forward, y's weight and input gradient, x's weight gradient. y is reduced from 30 to
    // 70 us, and x, whose gradients are ready at 50 us, behind it on the same link until 110 us.
    for iterations in [1, 3] {
        let timeline = simulate(&job(false, iterations));
        assert_eq!(us(&timeline, "ranks", "exposed_at_end_s", 1)[0], 60.0);
        // The whole wait is booked to the collective that ends it.
        assert_eq!(us(&timeline, "layers", "exposed_at_end_s", iterations), [60.0, 0.0]);

        // y's update of 1 us runs while x is reduced; x's begins at 110 us. So 1 us less is exposed.
        let timeline = simulate(&job(true, iterations));
        assert_eq!(us(&timeline, "ranks", "exposed_at_end_s", 1)[0], 59.0);
        assert_eq!(us(&timeline, "layers", "exposed_at_end_s", iterations), [39.0, 20.0]);
    }
}

#[test]
fn waits_of_later_iterations_are_not_exposed_at_the_end() {
    // Of three iterations, the waits before the last iteration count as exposed, but not as exposed at the end.
    let timeline = simulate(&job(true, 3));
    let [exposed, at_end] =
        ["exposed_communication_s", "exposed_at_end_s"].map(|column| us(&timeline, "ranks", column, 1)[0]);
    assert_eq!(at_end, 59.0);
    assert!(exposed > 2.0 * at_end, "{exposed} us");
}
