//! The training loop of recommendation models (dlrm2020 Fig. 3), compared with times computed by hand.

use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Data, Timeline};

/// An embedding whose outputs are exchanged, a bottom layer and a top layer, on two NPUs over 1 GB/s: a byte takes a
/// nanosecond, and half of every collective's data is sent. Forward passes take 4, 2 and 3 us. The gradients of the top
/// layer take 2 us (weights) and 1 us (input), that of the bottom layer 2 us. The embedding's gradient takes 1 us, and
/// its update another 1 us.
fn recommendation(outputs: u32, parameters: [u32; 2], iterations: u32) -> Value {
    let us = |time: u32| json!({"time": format!("{time}us")});
    json!({
        "schema": "syncline/1",
        "workload": {
            "source": "layers",
            "layers": [
                {"name": "embedding", "forward": us(4), "weight_grad": us(1), "update": us(1), "parameters": 1_000_000,
                 "outputs": outputs, "sharding": "exchange", "needed_by": "top"},
                {"name": "bottom", "forward": us(2), "weight_grad": us(2), "parameters": parameters[0]},
                {"name": "top", "forward": us(3), "input_grad": us(1), "weight_grad": us(2),
                 "parameters": parameters[1]},
            ],
            "parallel": {"data": "all"}, "iterations": iterations, "types": "int8",
        },
        "fabric": {"dims": [{"name": "d", "shape": "fully_connected", "size": 2, "rate": "1GB/s"}]},
        "collectives": {"chunks": 1, "element": "1B", "min_chunk": "1B"},
    })
}

fn simulate(value: &Value) -> Timeline {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}")).timeline
}

fn us(timeline: &Timeline) -> f64 {
    timeline.summary.total_time_s * 1e6
}

fn column<'a>(timeline: &'a Timeline, table: &str, column: &str) -> &'a Data {
    &timeline.table(table).unwrap().column(column).unwrap().data
}

/// Microseconds of a column of the table of layers.
fn layers(timeline: &Timeline, name: &str) -> Vec<f64> {
    match column(timeline, "layers", name) {
        Data::Float(values) => values.iter().map(|second| (second * 1e9).round() / 1e3).collect(),
        other => panic!("{other:?}"),
    }
}

fn is(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found} us, expected {expected} us");
}

#[test]
fn the_bottom_layer_hides_both_exchanges() {
    // Exchanges of 2 us. Lookup until 4, exchange and bottom until 6, top until 9, its gradients until 12; exchange and
    // the bottom gradient until 14, table until 16.
    let timeline = simulate(&recommendation(4_000, [0, 0], 1));
    is(us(&timeline), 16.0);
    is(timeline.summary.exposed_communication_s * 1e6, 0.0);
    assert_eq!(layers(&timeline, "communication_s"), [4.0, 0.0, 0.0]);
}

#[test]
fn a_longer_exchange_is_waited_for_before_the_top_layer_and_before_the_table() {
    // Exchanges of 6 us: 4 us longer than what hides each.
    let timeline = simulate(&recommendation(12_000, [0, 0], 1));
    is(us(&timeline), 16.0 + 2.0 * 4.0);
    is(timeline.summary.exposed_communication_s * 1e6, 8.0);
    assert_eq!(layers(&timeline, "exposed_communication_s"), [8.0, 0.0, 0.0]);
    // The bottom layer has run at once, and the table's gradient has waited.
    assert_eq!(layers(&timeline, "forward_communication_s"), [6.0, 0.0, 0.0]);
    assert_eq!(layers(&timeline, "input_grad_communication_s"), [6.0, 0.0, 0.0]);
}

#[test]
fn a_layer_waits_for_its_own_gradients_of_the_iteration_before() {
    // The top layer's gradients are ready at 11 and reduced in two rounds of 20 us until 51. Nothing is exchanged. The
    // iteration ends at 16; lookup and bottom layer follow until 22, the top layer waits until 51.
    let timeline = simulate(&recommendation(0, [0, 40_000], 2));
    let second = 51.0 + 3.0 + 2.0;
    // No task waits for the reduction of the last iteration, but the run ends with it.
    is(us(&timeline), second + 40.0);
    let at_end = second + 40.0 - (second + 1.0 + 2.0 + 2.0);
    is(timeline.summary.exposed_communication_s * 1e6, 51.0 - 22.0 + at_end);
    // In the table of layers, over two iterations.
    assert_eq!(layers(&timeline, "exposed_communication_s"), [0.0, 0.0, (51.0 - 22.0 + at_end) / 2.0]);
    assert_eq!(layers(&timeline, "exposed_at_end_s"), [0.0, 0.0, at_end / 2.0]);
    let Data::Float(ranks) = column(&timeline, "ranks", "exposed_at_end_s") else { unreachable!() };
    is(ranks[0] * 1e6, at_end);

    // The bottom layer's gradients are ready at 14 and reduced until 54; the lookup runs meanwhile, from 16 to 20.
    let timeline = simulate(&recommendation(0, [40_000, 0], 2));
    is(us(&timeline), 54.0 + 2.0 + 3.0 + 3.0 + 2.0 + 40.0);
}

#[test]
fn the_exchange_overtakes_reductions_only_by_priority() {
    // The top layer's gradients (two rounds of 10 us) are issued at 11, the backward exchange at 12. One chunk at a
    // time.
    let with = |order: &str| {
        let mut scenario = recommendation(12_000, [0, 20_000], 1);
        scenario["collectives"] = json!({"chunks": 10, "element": "1B", "min_chunk": "1B", "order": order, "issue_threshold": 0, "outstanding": 1});
        let timeline = simulate(&scenario);
        let Data::Float(finish) = column(&timeline, "collectives", "finish_s").clone() else {
            unreachable!()
        };
        finish.iter().map(|second| (second * 1e9).round() / 1e3).collect::<Vec<_>>()
    };
    // Forward exchange 4 to 10, top layer until 13; its gradients until 15, exchange issued at 16.
    // In order of issue: the reduction runs until 35, then the exchange.
    assert_eq!(with("fifo"), [10.0, 35.0, 41.0]);
    // By priority: the chunk in progress at 16 ends at 17; then comes all of the exchange, then the other nine chunks.
    assert_eq!(with("priority"), [10.0, 23.0, 41.0]);
}

#[test]
fn exchanges_are_exact_with_and_without_the_quotient() {
    for network in ["analytical", "queued"] {
        let mut scenario = recommendation(64_000, [24_000, 40_000], 3);
        scenario["network"] = json!({"model": network});
        scenario["fabric"] = json!({"dims": [
            {"name": "local", "shape": "fully_connected", "size": 4, "rate": "4GB/s", "latency": "100ns"},
            {"name": "global", "shape": "ring", "size": 4, "rate": "1GB/s", "latency": "500ns"}]});
        let quotient = simulate(&scenario);
        scenario["symmetry"] = json!(false);
        let full = simulate(&scenario);
        assert!(quotient.summary.simulated_ranks < full.summary.simulated_ranks);
        for table in ["layers", "collectives", "phases", "links", "ranks"] {
            assert_eq!(quotient.table(table), full.table(table), "{table}");
        }
    }
}
