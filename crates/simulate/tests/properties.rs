//! What holds for every scenario, on random ones.

use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_simulate::{Control, Scenario, run};
use syncline_timeline::{Data, Timeline};

fn dimension() -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec!["ring", "fully_connected", "switch"]),
        1u32..5,
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

fn scenario() -> impl Strategy<Value = Value> {
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
    (dims, collectives(), prop_oneof![bare, training], prop::sample::select(vec!["analytical", "queued"]))
        .prop_map(|(dims, collectives, workload, network)| {
            json!({"schema": "syncline/1", "workload": workload, "fabric": {"dims": dims},
                "collectives": collectives, "network": {"model": network}})
        })
}

fn simulate(value: &Value) -> Timeline {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}\n{value}")).timeline
}

fn floats<'a>(timeline: &'a Timeline, table: &str, column: &str) -> &'a [f64] {
    match &timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Float(values) => values,
        other => panic!("{other:?}"),
    }
}
fn ints<'a>(timeline: &'a Timeline, table: &str, column: &str) -> &'a [i64] {
    match &timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Int(values) => values,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Every valid scenario finishes, the same way each time, and its accounts balance.
    #[test]
    fn runs_finish_and_balance(value in scenario()) {
        let timeline = simulate(&value);
        prop_assert_eq!(&timeline, &simulate(&value));

        let summary = &timeline.summary;
        let finish = floats(&timeline, "ranks", "finish_s");
        let compute = floats(&timeline, "ranks", "compute_s");
        let exposed = floats(&timeline, "ranks", "exposed_communication_s");
        for rank in 0..finish.len() {
            prop_assert!((compute[rank] + exposed[rank] - finish[rank]).abs() < 1e-12, "rank {rank}");
            prop_assert!(finish[rank] <= summary.total_time_s);
        }
        let sent: i64 = ints(&timeline, "ranks", "sent_bytes").iter().sum();
        let received: i64 = ints(&timeline, "ranks", "received_bytes").iter().sum();
        let messages: i64 = ints(&timeline, "phases", "message_bytes").iter().sum();
        prop_assert_eq!(sent, received);
        prop_assert_eq!(sent, messages);
        prop_assert_eq!(sent as u64, summary.bytes);
        for &busy in floats(&timeline, "links", "utilization") {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&busy));
        }
        for dim in &summary.dims {
            prop_assert!(dim.utilization <= 1.0 + 1e-12 && dim.utilization_while_busy <= 1.0 + 1e-12);
        }
        let durations = floats(&timeline, "collectives", "duration_s");
        for (duration, bound) in durations.iter().zip(floats(&timeline, "collectives", "bound_s")) {
            prop_assert!(duration >= bound);
        }
    }

    /// Half the rate and twice the latency make everything take exactly twice as long.
    #[test]
    fn a_unit_of_time_is_only_a_unit(kind in prop::sample::select(vec!["all_reduce", "all_gather", "all_to_all"]), size in 2u32..9, kib in 1u64..64) {
        let at = |rate: u64, latency: u64| {
            let value = json!({"schema": "syncline/1",
                "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": format!("{}B", kib * 1024 * 840)}]},
                "fabric": {"dims": [{"name": "d", "shape": "ring", "size": size, "rate": format!("{rate}GB/s"), "latency": format!("{latency}ns")}]},
                "collectives": {"chunks": 1, "element": "1B"}});
            (simulate(&value).summary.total_time_s * 1e12).round() as i64
        };
        // 840 is a multiple of 2 to 8, so that blocks and times divide evenly.
        prop_assert_eq!(at(8, 400), 2 * at(16, 200));
    }
}
