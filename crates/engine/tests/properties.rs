//! Properties of all scenarios, checked on random ones.

use crate::support::{cases, scenario, simulate};
use proptest::prelude::*;
use serde_json::json;
use syncline_timeline::{Data, Timeline};

fn floats<'a>(timeline: &'a Timeline, table: &str, column: &str) -> &'a [f64] {
    match &timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Float(values) => values,
        other => panic!("{other:?}"),
    }
}
/// The share of the run in which each link was sending, if known.
fn shares(timeline: &Timeline) -> &[Option<f64>] {
    match &timeline.table("links").unwrap().column("utilization").unwrap().data {
        Data::OptionalFloat(values) => values,
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
    #![proptest_config(cases(1000))]

    /// Every valid scenario finishes, the same way each time, and its accounts balance.
    #[test]
    fn runs_finish_and_balance(value in scenario()) {
        let timeline = simulate(&value);
        prop_assert_eq!(&timeline, &simulate(&value));

        let summary = &timeline.summary;
        let finish = floats(&timeline, "ranks", "finish_s");
        let parts = ["compute_s", "exposed_communication_s", "bubble_s", "skew_s"];
        let parts = parts.map(|column| floats(&timeline, "ranks", column));
        for rank in 0..finish.len() {
            let all: f64 = parts.iter().map(|part| part[rank]).sum();
            prop_assert!((all - finish[rank]).abs() < 1e-12, "rank {rank}");
            prop_assert!(finish[rank] <= summary.total_time_s);
        }
        let sent: i64 = ints(&timeline, "ranks", "sent_bytes").iter().sum();
        let received: i64 = ints(&timeline, "ranks", "received_bytes").iter().sum();
        let messages: i64 = ints(&timeline, "phases", "message_bytes").iter().sum();
        prop_assert_eq!(sent, received);
        prop_assert_eq!(sent, messages);
        prop_assert_eq!(sent as u64, summary.bytes);
        for busy in shares(&timeline) {
            prop_assert!(busy.is_none_or(|busy| (0.0..=1.0 + 1e-12).contains(&busy)));
        }
        for dim in &summary.dims {
            prop_assert!(dim.utilization <= 1.0 + 1e-12 && dim.utilization_while_busy <= 1.0 + 1e-12);
            // The busiest link, if known, is busier than the mean.
            let least = dim.utilization * (1.0 - 1e-9) - 1e-9;
            prop_assert!(dim.busiest_link_busy.is_none_or(|busy| busy >= least), "{dim:?}");
            prop_assert!(dim.busiest_link_busy.is_some() || value["network"]["model"] == "analytical", "{dim:?}");
        }
        let durations = floats(&timeline, "collectives", "duration_s");
        for (duration, bound) in durations.iter().zip(floats(&timeline, "collectives", "bound_s")) {
            prop_assert!(duration >= bound);
        }
    }

    /// Half the rate and twice the latency make everything take exactly twice as long.
    #[test]
    fn scaling_rates_and_latencies_scales_time(kind in prop::sample::select(vec!["all_reduce", "all_gather", "all_to_all"]), size in 2u32..9, kib in 1u64..64) {
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
