//! Runs that are stopped: what they keep, and what the clock counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use syncline_simulate::scenario::Scenario;
use syncline_simulate::{Control, run};

const LAYERS: &str = r#"[
    {"name": "a", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000},
    {"name": "b", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000}]"#;

const RING8: &str = r#"{"name": "d", "shape": "ring", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;

fn scenario(json: &str) -> Scenario {
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"))
}

#[test]
fn limits_keep_what_was_done() {
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
    // A step takes as long in the part as in the whole, but for the iteration that was cut.
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
fn whoever_stops_a_run_keeps_what_was_done() {
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
    // What is used up before the first event leaves nothing.
    let error = run(&limited, spent(4000)).unwrap_err();
    assert_eq!(error.exit(), syncline_diagnostics::ExitStatus::Limit);
    assert!(error.to_string().contains("while building the fabric"), "{error}");
    // A limit too far to be counted is none.
    limited.limits = serde_json::from_str(r#"{"wall": "18000000s", "events": 100}"#).unwrap();
    assert_eq!(run(&limited, spent(1)).unwrap().timeline.summary.events, 100);
}
