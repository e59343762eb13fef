//! Makes random scenarios and runs them.

pub(crate) mod both;
pub(crate) mod graphs;
pub(crate) mod traces;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::ops::Range;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::Timeline;

/// A configuration with `usual` cases, or with the number in `PROPTEST_CASES`.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { usual };
    ProptestConfig { cases, ..default }
}

/// A number from the range; or one of a few if `round`, so that many events happen at the same time.
pub(crate) fn number(round: bool, few: &'static [u32], range: Range<u32>) -> BoxedStrategy<u32> {
    if round { prop::sample::select(few).boxed() } else { range.boxed() }
}

pub(crate) fn dimension(round: bool) -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec!["ring", "fully_connected", "switch"]),
        1u32..8,
        1u32..3,
        any::<[bool; 2]>(),
        number(round, &[25, 50, 100], 1..100),
        number(round, &[500, 700, 0], 0..2000),
    )
        .prop_map(|(shape, size, count, [one_way, pair], rate, latency)| {
            let mut dim = json!({"shape": shape, "size": size, "count": count,
                "rate": format!("{rate}GB/s"), "latency": format!("{latency}ns")});
            if one_way && shape == "ring" {
                dim["direction"] = json!("one-way");
            }
            if pair && shape == "switch" {
                dim["spread"] = json!("pair");
            }
            dim
        })
}

pub(crate) fn collectives(round: bool) -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec![
            "baseline",
            "enhanced",
            "hierarchical_2n",
            "hierarchical_2n_merged",
            "hierarchical",
            "hierarchical_optimal",
        ]),
        1u32..9,
        prop::sample::select(vec!["fifo", "lifo", "priority"]),
        prop::sample::select(vec!["per_group", "per_rank"]),
        (0u32..4, 0u32..4, 0u32..3, 0u32..3, 0u32..3, 0u32..3),
        (number(round, &[0, 50], 0..50), number(round, &[0, 50], 0..50), any::<bool>()),
    )
        .prop_map(|(composition, chunks, order, schedulers, limits, delays)| {
            let (threshold, batch, active, outstanding, concurrent, queues) = limits;
            let mut spec = json!({"all_reduce": composition, "chunks": chunks, "order": order, "min_chunk": "1B",
                "schedulers": schedulers,
                "issue_threshold": threshold, "issue_batch": batch, "active_chunks": active,
                "outstanding": outstanding, "concurrent": concurrent, "queues": queues,
                "endpoint_delay": format!("{}ns", delays.0), "injection_latency": format!("{}ns", delays.1)});
            if delays.2 {
                spec["reduction_rate"] = json!("100GB/s");
            }
            spec
        })
}

fn layer(round: bool) -> impl Strategy<Value = Value> {
    let sharding = prop::sample::select(vec!["gather", "column", "row", "divided", "replicated"]);
    let parameters = number(round, &[1024, 12_288, 0], 0..20_000);
    let outputs = number(round, &[256, 1024, 0], 0..2_000);
    (number(round, &[0, 1, 10], 0..30), parameters, outputs, sharding).prop_map(
        |(time, parameters, outputs, sharding)| {
            let time = json!({"time": format!("{time}us")});
            json!({"forward": time, "input_grad": time, "weight_grad": time, "update": {"time": "1us"},
            "parameters": parameters, "inputs": outputs, "outputs": outputs, "sharding": sharding})
        },
    )
}

/// Dimensions with names.
pub(crate) fn dimensions(round: bool, count: Range<usize>) -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(dimension(round), count).prop_map(|mut dims| {
        for (index, dim) in dims.iter_mut().enumerate() {
            dim["name"] = json!(format!("d{index}"));
        }
        dims
    })
}

pub(crate) fn models() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["analytical", "queued", "flow"])
}

/// A random scenario. In half of them, sizes, rates and times are a few round numbers, so that many events happen at
/// the same time.
pub(crate) fn scenario() -> impl Strategy<Value = Value> {
    any::<bool>().prop_flat_map(scenario_of)
}

fn scenario_of(round: bool) -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "all_to_all",
        "broadcast",
        "reduce",
    ]);
    let bytes = number(round, &[1024, 3072, 36_864], 1..100_000);
    let bare = prop::collection::vec((kinds, bytes), 1..4).prop_map(|list| {
        let list: Vec<Value> = list
            .into_iter()
            .map(|(kind, bytes)| json!({"kind": kind, "bytes": format!("{bytes}B")}))
            .collect();
        json!({"source": "collectives", "collectives": list, "iterations": 2})
    });
    let training = (
        prop::collection::vec(layer(round), 1..5),
        prop::sample::select(vec!["data", "model", "none"]),
        1u32..4,
        // Mostly one iteration.
        (0u32..6).prop_map(|number| number.saturating_sub(2).max(1)),
        // The layer that needs the first one's exchange, if there is one.
        0usize..10,
    )
        .prop_map(|(mut layers, parallel, iterations, micro_batches, needed_by)| {
            for (index, layer) in layers.iter_mut().enumerate() {
                layer["name"] = json!(format!("l{index}"));
            }
            if parallel == "data" && (1..layers.len()).contains(&needed_by) {
                layers[0]["sharding"] = json!("exchange");
                layers[0]["needed_by"] = json!(format!("l{needed_by}"));
            }
            let parallel = match parallel {
                "data" => json!({"data": "all"}),
                "model" => json!({"tensor": "all", "data": "none"}),
                _ => json!({"tensor": {"dims": ["d0"]}}),
            };
            json!({"source": "layers", "layers": layers, "parallel": parallel, "iterations": iterations,
                "micro_batches": micro_batches})
        });
    let algorithms = prop::collection::vec(
        prop::sample::select(vec!["", "ring", "direct", "halving_doubling", "double_binary_tree", "tree"]),
        3,
    );
    let logical = prop::sample::select(vec![0, 0, 0, 1, 2]);
    let workload = prop_oneof![bare, training];
    (dimensions(round, 1..4), collectives(round), workload, models(), algorithms, logical).prop_map(
        |(dims, mut collectives, workload, network, algorithms, logical)| {
            let named = dims.iter().zip(algorithms).filter(|(_, algorithm)| !algorithm.is_empty());
            let named = named
                .map(|(dim, name)| (dim["name"].as_str().unwrap().to_owned(), json!({"all_reduce": name})));
            let named: serde_json::Map<String, Value> = named.collect();
            // A tree needs a composition in which its dimension has an all-reduce.
            let tree = |of: &Value| of["all_reduce"].as_str().is_some_and(|name| name.contains("tree"));
            if named.values().any(tree) {
                collectives["all_reduce"] = json!("auto");
            }
            collectives["algorithms"] = Value::Object(named);
            let sizes: Vec<u64> = dims.iter().map(|dim| dim["size"].as_u64().unwrap()).collect();
            // The axes of a logical topology have their own names.
            match if workload["parallel"]["tensor"].is_object() { 0 } else { logical } {
                1 => collectives["logical"] = json!([sizes.iter().product::<u64>()]),
                2 => collectives["logical"] = sizes.iter().rev().copied().collect(),
                _ => {}
            }
            json!({"schema": "syncline/1", "workload": workload, "fabric": {"dims": dims},
                "collectives": collectives, "network": {"model": network}})
        },
    )
}

pub(crate) fn simulate(value: &Value) -> Timeline {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}\n{value}")).timeline
}
