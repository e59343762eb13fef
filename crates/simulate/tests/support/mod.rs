//! Random scenarios, and running them.

use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_simulate::{Control, Scenario, run};
use syncline_timeline::Timeline;

fn dimension() -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec!["ring", "fully_connected", "switch"]),
        1u32..8,
        1u32..3,
        any::<bool>(),
        1u32..100,
        0u32..2000,
    )
        .prop_map(|(shape, size, count, one_way, rate, latency)| {
            let mut dim = json!({"shape": shape, "size": size, "count": count,
                "rate": format!("{rate}GB/s"), "latency": format!("{latency}ns")});
            if one_way && shape == "ring" {
                dim["direction"] = json!("one-way");
            }
            dim
        })
}

fn collectives() -> impl Strategy<Value = Value> {
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
        (0u32..4, 0u32..4, 0u32..3, 0u32..3, 0u32..3, 0u32..3),
        (0u32..50, 0u32..50, any::<bool>()),
    )
        .prop_map(|(composition, chunks, order, (threshold, batch, active, outstanding, concurrent, queues), delays)| {
            let mut spec = json!({"all_reduce": composition, "chunks": chunks, "order": order, "min_chunk": "1B",
                "issue_threshold": threshold, "issue_batch": batch, "active_chunks": active,
                "outstanding": outstanding, "concurrent": concurrent, "queues": queues,
                "endpoint_delay": format!("{}ns", delays.0), "injection_latency": format!("{}ns", delays.1)});
            if delays.2 {
                spec["reduction_rate"] = json!("100GB/s");
            }
            spec
        })
}

fn layer() -> impl Strategy<Value = Value> {
    let sharding = prop::sample::select(vec!["gather", "column", "row", "divided", "replicated"]);
    (0u32..30, 0u32..20_000, 0u32..2_000, sharding).prop_map(|(time, parameters, outputs, sharding)| {
        let time = json!({"time": format!("{time}us")});
        json!({"forward": time, "input_grad": time, "weight_grad": time, "update": {"time": "1us"},
            "parameters": parameters, "inputs": outputs, "outputs": outputs, "sharding": sharding})
    })
}

pub(crate) fn scenario() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "all_to_all",
        "broadcast",
        "reduce",
    ]);
    let bare = prop::collection::vec((kinds, 1u64..100_000), 1..4).prop_map(|list| {
        let list: Vec<Value> = list
            .into_iter()
            .map(|(kind, bytes)| json!({"kind": kind, "bytes": format!("{bytes}B")}))
            .collect();
        json!({"source": "collectives", "collectives": list, "iterations": 2})
    });
    let training =
        (prop::collection::vec(layer(), 1..5), prop::sample::select(vec!["data", "model", "none"]), 1u32..4)
            .prop_map(|(mut layers, parallel, iterations)| {
                for (index, layer) in layers.iter_mut().enumerate() {
                    layer["name"] = json!(format!("l{index}"));
                }
                let parallel = match parallel {
                    "data" => json!({"data": "all"}),
                    "model" => json!({"model": "all", "data": "none"}),
                    _ => json!({"model": {"dims": ["d0"]}}),
                };
                json!({"source": "layers", "layers": layers, "parallel": parallel, "iterations": iterations})
            });
    let dims = prop::collection::vec(dimension(), 1..4).prop_map(|mut dims| {
        for (index, dim) in dims.iter_mut().enumerate() {
            dim["name"] = json!(format!("d{index}"));
        }
        dims
    });
    let algorithms = prop::collection::vec(
        prop::sample::select(vec!["", "ring", "direct", "halving_doubling", "double_binary_tree", "tree"]),
        3,
    );
    let models = prop::sample::select(vec!["analytical", "queued"]);
    let logical = prop::sample::select(vec![0, 0, 0, 1, 2]);
    (dims, collectives(), prop_oneof![bare, training], models, algorithms, logical).prop_map(
        |(dims, mut collectives, workload, network, algorithms, logical)| {
            let named = dims.iter().zip(algorithms).filter(|(_, algorithm)| !algorithm.is_empty());
            let named = named
                .map(|(dim, name)| (dim["name"].as_str().unwrap().to_owned(), json!({"all_reduce": name})));
            collectives["algorithms"] = Value::Object(named.collect());
            let sizes: Vec<u64> = dims.iter().map(|dim| dim["size"].as_u64().unwrap()).collect();
            // A logical topology has axes of its own names.
            match if workload["parallel"]["model"].is_object() { 0 } else { logical } {
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
