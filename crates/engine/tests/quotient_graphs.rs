//! One rank represents many on graphs: tables and summary are the same as with every rank simulated.

use crate::support::both::{compare, even, longer};
use crate::support::cases;
use crate::support::graphs::graph_scenario;
use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::check;

/// Whether the scenario can run: degrees may not fit nodes, and halving-doubling does not offer every collective.
fn is_possible(value: &Value) -> bool {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    !check(&scenario).has_errors()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn the_quotient_is_exact_on_graphs(value in graph_scenario().prop_filter("possible", is_possible)) {
        compare(&value);
    }

    #[test]
    fn the_quotient_is_exact_on_graphs_for_sizes_that_divide_evenly(
        value in graph_scenario().prop_filter("possible", is_possible), iterations in 1u32..12,
    ) {
        compare(&longer(even(value), iterations));
    }
}

/// 64 nodes of 8 NPUs or fewer, each on a rail.
fn rails(nodes: u32, npus: u32, model: &str) -> Value {
    json!({"schema": "syncline/1", "network": {"model": model}, "collectives": {"chunks": 4},
        "fabric": {"built": {
            "network": {"leaf_spine": {"leaves": npus, "hosts_per_leaf": nodes, "spines": 2, "rate": "400Gb/s", "latency": "500ns"}},
            "nodes": {"npus": npus, "rate_per_npu": "450GB/s", "latency": "250ns", "rails": true}}},
        "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "16MiB"}]}})
}

/// Messages that stay on their rail do not share links with other rails, in any network model.
#[test]
fn rails_are_simulated_once() {
    for model in ["analytical", "queued", "flow"] {
        assert_eq!(compare(&rails(8, 4, model)), 1, "{model}");
    }
}

/// For pipelines over nodes on rails, one rank of each stage is simulated.
#[test]
fn stages_on_rails_are_simulated_once() {
    let layer = |name: String| {
        let time = json!({"time": "20us"});
        json!({"name": name, "forward": time, "input_grad": time, "weight_grad": time, "sharding": "column",
            "parameters": 1 << 22, "inputs": 1 << 14, "outputs": 1 << 14})
    };
    for model in ["analytical", "queued", "flow"] {
        let mut value = rails(16, 4, model);
        value["workload"] = json!({"source": "layers", "layers": (0..4).map(|i| layer(format!("l{i}"))).collect::<Vec<_>>(),
            "parallel": {"tensor": {"degree": 4}, "pipeline": {"degree": 4}, "data": "rest"}, "micro_batches": 6});
        assert_eq!(compare(&value), 4, "{model}");
    }
}

/// A ring over the hosts of four leaves: leaves can be turned, hosts of a leaf cannot, because the last one sends to
/// the next leaf.
#[test]
fn rings_over_leaves_turn_by_leaves() {
    let ring = |model: &str, routing: Value| {
        let mut value = rails(1, 1, model);
        value["fabric"]["built"] = json!({"routing": routing, "network": {
            "leaf_spine": {"leaves": 4, "hosts_per_leaf": 4, "spines": 3, "rate": "400Gb/s", "latency": "500ns"}}});
        compare(&value)
    };
    // All ties go to one spine, to which each leaf has its own links.
    for model in ["analytical", "queued", "flow"] {
        assert_eq!(ring(model, json!("shortest")), 4, "{model}");
    }
    // No message waits inside the network, so hashes do not matter.
    assert_eq!(ring("analytical", json!({"ecmp": {"seed": 3}})), 4);
}

/// Exchanges of all with all over a leaf-spine network: the table has a row for each inner link, with the bytes that
/// hashing gives it.
#[test]
fn hashed_links_have_their_own_rows() {
    let all = |model: &str| {
        let mut value = rails(1, 1, model);
        value["fabric"]["built"] = json!({"network": {
            "leaf_spine": {"leaves": 4, "hosts_per_leaf": 2, "spines": 3, "rate": "400Gb/s", "latency": "500ns"}}});
        value["workload"]["collectives"] = json!([{"kind": "all_to_all", "bytes": "16MiB"}]);
        compare(&value)
    };
    assert_eq!(all("analytical"), 2);
    assert_eq!(all("flow"), 8);
}

/// Groups that cover part of a switch dimension are turned like any other.
#[test]
fn parts_of_a_dimension_are_turned() {
    let layer = |name: String| {
        let time = json!({"time": "20us"});
        json!({"name": name, "forward": time, "input_grad": time, "weight_grad": time, "sharding": "column",
            "parameters": 1 << 22, "inputs": 1 << 14, "outputs": 1 << 14})
    };
    let mut value = rails(1, 1, "queued");
    value["fabric"] = json!({"dims": [
        {"name": "node", "shape": "switch", "size": 4, "rate": "100GB/s", "latency": "500ns"},
        {"name": "rail", "shape": "switch", "size": 16, "rate": "50GB/s", "latency": "500ns"}]});
    value["workload"] = json!({"source": "layers", "layers": (0..4).map(|i| layer(format!("l{i}"))).collect::<Vec<_>>(),
        "parallel": {"tensor": {"degree": 4}, "pipeline": {"degree": 4}, "data": "rest"}, "micro_batches": 6});
    assert_eq!(compare(&value), 4);
}
