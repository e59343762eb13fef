//! Runs that are stopped: the results that they keep, and the time that counts.

use crate::support::{cases, scenario as random, simulate};
use proptest::prelude::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Progress, run};
use syncline_timeline::Data;

const LAYERS: &str = r#"[
    {"name": "a", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000},
    {"name": "b", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000}]"#;

const RING8: &str = r#"{"name": "d", "shape": "ring", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;

fn scenario(json: &str) -> Scenario {
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"))
}

#[test]
fn limits_keep_the_results_so_far() {
    let mut limited = scenario(&format!(
        r#"{{"schema": "syncline/1", "workload": {{"source": "layers", "layers": {LAYERS}, "iterations": 50}},
            "fabric": {{"dims": [{RING8}]}}, "limits": {{"events": 20000}}}}"#
    ));
    let by_events = run(&limited, Control::default()).unwrap();
    assert_eq!(by_events.timeline.summary.events, 20_000);
    assert_eq!(by_events.timeline.summary.ended, syncline_timeline::Ended::LimitReached);
    let sent = match &by_events.timeline.table("ranks").unwrap().column("sent_bytes").unwrap().data {
        syncline_timeline::Data::Int(values) => values.iter().sum::<i64>() as u64,
        other => panic!("{other:?}"),
    };
    assert_eq!(sent, by_events.timeline.summary.bytes, "what was under way is booked");
    // The step time is the same as in the whole run, except for the iteration that was cut.
    let whole = Scenario { limits: Default::default(), ..limited.clone() };
    let whole = run(&whole, Control::default()).unwrap().timeline.summary;
    let part = &by_events.timeline.summary;
    assert!(part.iterations > 0 && part.iterations < whole.iterations, "{}", part.iterations);
    let completed = part.iterations as f64;
    assert!(
        part.step_time_s >= whole.step_time_s * 0.99
            && part.step_time_s <= whole.step_time_s * (1.0 + 1.0 / completed)
    );
    assert!(part.notes[0].contains("of 50 iterations"), "{:?}", part.notes);
    assert!(by_events.diagnostics.to_string().contains("limit on events"));
    limited.limits = serde_json::from_str(r#"{"sim_time": "100us"}"#).unwrap();
    let by_time = run(&limited, Control::default()).unwrap();
    assert!(by_time.timeline.summary.total_time_s <= 100e-6);
    assert!(by_time.timeline.summary.compute_s > 0.0);
}

#[test]
fn cancelling_a_run_keeps_the_results_so_far() {
    let long = scenario(&format!(
        r#"{{"schema": "syncline/1", "workload": {{"source": "layers", "layers": {LAYERS}, "iterations": 4000000}},
            "fabric": {{"dims": [{RING8}]}}}}"#
    ));
    let cancel = AtomicBool::new(false);
    let mut stop = |_| cancel.store(true, Ordering::Relaxed);
    let control = Control { cancel: Some(&cancel), progress: Some(&mut stop), ..Control::default() };
    let cancelled = run(&long, control).unwrap();
    assert_eq!(cancelled.timeline.summary.ended, syncline_timeline::Ended::Interrupted);
    assert!(cancelled.timeline.summary.events > 0);
    // Before the first event there is nothing to keep.
    let error = run(&long, Control { cancel: Some(&cancel), ..Control::default() }).unwrap_err();
    assert!(error.to_string().contains("interrupted while building the fabric"), "{error}");
}

#[test]
fn wall_time_counts_from_the_start_of_the_command() {
    let mut limited = scenario(&format!(
        r#"{{"schema": "syncline/1", "workload": {{"source": "layers", "layers": {LAYERS}, "iterations": 4000000}},
            "fabric": {{"dims": [{RING8}]}}, "limits": {{"wall": "3600.2s"}}}}"#
    ));
    let spent = |seconds| Control { spent: Duration::from_secs(seconds), ..Control::default() };
    let started = Instant::now();
    let stopped = run(&limited, spent(3600)).unwrap();
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(stopped.timeline.summary.ended, syncline_timeline::Ended::LimitReached);
    assert!(stopped.diagnostics.to_string().contains("limit on wall time"));
    // If the time is used up before the first event, there are no results.
    let error = run(&limited, spent(4000)).unwrap_err();
    assert_eq!(error.exit(), syncline_diagnostics::ExitStatus::Limit);
    assert!(error.to_string().contains("while building the fabric"), "{error}");
    // A limit too large to represent counts as no limit.
    limited.limits = serde_json::from_str(r#"{"wall": "18000000s", "events": 100}"#).unwrap();
    assert_eq!(run(&limited, spent(1)).unwrap().timeline.summary.events, 100);
}

/// The progress of a single collective is the share of its messages that are delivered.
#[test]
fn a_single_collective_shows_progress() {
    for network in ["queued", "flow"] {
        let text = format!(
            r#"{{"schema": "syncline/1", "symmetry": false, "network": {{"model": "{network}"}},
                "fabric": {{"dims": [{{"name": "d", "shape": "ring", "size": 64, "rate": "1GB/s", "latency": "1us"}}]}},
                "collectives": {{"chunks": 128, "min_chunk": "1B", "algorithms": {{"d": {{"all_reduce": "ring"}}}}}},
                "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "64MB"}}]}}}}"#
        );
        let mut seen: Vec<f64> = Vec::new();
        let mut tell = |progress: Progress| seen.push(progress.done);
        let control = Control { progress: Some(&mut tell), ..Control::default() };
        run(&serde_json::from_str(&text).unwrap(), control).unwrap();
        assert!(seen.is_sorted() && seen.iter().all(|done| (0.0..=1.0).contains(done)), "{network} {seen:?}");
        assert!(seen.iter().any(|done| (0.1..0.9).contains(done)), "{network} {seen:?}");
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// Whenever a run is cut off, no link has carried more than it can in the time until then.
    #[test]
    fn a_run_that_is_cut_off_is_still_possible(mut value in random(), part in 1u32..100, queued: bool) {
        value["network"] = json!({"model": if queued { "queued" } else { "analytical" }});
        let whole = simulate(&value).summary;
        let until = whole.total_time_s * f64::from(part) / 100.0;
        prop_assume!(until > 1e-9);
        value["limits"] = json!({"sim_time": format!("{}ps", (until * 1e12) as u64)});
        let cut = simulate(&value);
        let links = cut.table("links").unwrap();
        let floats = |name: &str| match &links.column(name).unwrap().data {
            Data::Float(values) => values.clone(),
            Data::Int(values) => values.iter().map(|&value| value as f64).collect(),
            Data::OptionalFloat(values) => values.iter().map(|value| value.unwrap_or(0.0)).collect(),
            other => panic!("{other:?}"),
        };
        let total = cut.summary.total_time_s;
        for (busy, share) in floats("busy_s").iter().zip(floats("utilization")) {
            prop_assert!(*busy <= total * (1.0 + 1e-9) && share <= 1.0 + 1e-9, "{busy} of {total}");
        }
        if queued {
            for (bytes, rate) in floats("carried_bytes").iter().zip(floats("rate_bytes_per_s")) {
                prop_assert!(*bytes <= rate * total * (1.0 + 1e-9) + 1.0, "{bytes} of {}", rate * total);
            }
        }
        for dim in &cut.summary.dims {
            prop_assert!(dim.busiest_link_busy.is_none_or(|busy| busy <= 1.0 + 1e-9) && dim.utilization <= 1.0 + 1e-9, "{dim:?}");
        }
        prop_assert!(!cut.summary.notes.iter().any(|note| note.contains("messages share links")));
    }
}

#[test]
fn scenarios_that_are_too_large_are_refused_by_name() {
    let base = || {
        json!({
            "schema": "syncline/1",
            "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1MB"}]},
            "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 8, "rate": "1GB/s", "latency": "1us"}]},
        })
    };
    let cases = [
        (
            "/workload/collectives/0",
            "bytes",
            json!("18446744073709551615B"),
            "more bytes than can be counted",
        ),
        ("/collectives", "queues", json!(70_000), "collectives.queues"),
        ("/collectives", "queues", json!(u32::MAX), "collectives.queues"),
        ("/fabric/dims/0", "count", json!(u32::MAX), "fabric.dims.0.count"),
        ("/fabric/dims/0", "latency", json!("10000000s"), "exceeds what 64-bit picoseconds can hold"),
    ];
    for shape in ["ring", "switch", "fully_connected"] {
        for (parent, key, number, said) in &cases {
            let mut value = base();
            value["collectives"] = json!({});
            value["fabric"]["dims"][0]["shape"] = json!(shape);
            value.pointer_mut(parent).unwrap()[*key] = number.clone();
            let found = run(&serde_json::from_value(value).unwrap(), Control::default()).unwrap_err();
            assert!(found.to_string().contains(said), "{shape} {key}: {found}");
        }
    }
    let mut value = base();
    value["workload"]["collectives"][0]["bytes"] = json!("1TB");
    value["collectives"] = json!({"chunks": u32::MAX, "min_chunk": "0B"});
    let found = run(&serde_json::from_value(value).unwrap(), Control::default()).unwrap_err();
    assert!(found.to_string().contains("too many chunks"), "{found}");
    let mut value = base();
    value["fabric"]["dims"][0] =
        json!({"name": "d", "shape": "fully_connected", "size": 20_000, "rate": "1GB/s", "latency": "1us"});
    value["symmetry"] = json!(false);
    let found = run(&serde_json::from_value(value).unwrap(), Control::default()).unwrap_err();
    assert!(found.to_string().contains("SL0506") && found.to_string().contains("limits.memory"), "{found}");
}

#[test]
fn the_highest_rate_and_largest_size_run_or_are_refused() {
    for kind in ["reduce_scatter", "broadcast", "all_reduce"] {
        let value = json!({
            "schema": "syncline/1",
            "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": "1152921504606846975B"}]},
            "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 2, "rate": format!("{}b/s", u64::MAX),
                                 "latency": "0s"}]},
        });
        let found = run(&serde_json::from_value(value).unwrap(), Control::default());
        let text = found.err().map_or(String::new(), |found| found.to_string());
        assert!(text.is_empty() || text.contains("more bytes than can be counted"), "{kind}: {text}");
    }
}
