//! Many phases and many chunks: event keys distinguish all of them.

use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Ended, Summary};

fn summary(kind: &str, bytes: &str, shapes: &[(&str, u32)], collectives: Value) -> Summary {
    let dim = |(index, (shape, size)): (usize, &(&str, u32))| json!({"name": format!("d{index}"), "shape": shape, "size": size, "rate": "50GB/s", "latency": "500ns"});
    let dims: Vec<Value> = shapes.iter().enumerate().map(dim).collect();
    let value = json!({"schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": bytes}]},
        "fabric": {"dims": dims}, "collectives": collectives});
    let scenario: Scenario = serde_json::from_value(value).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}")).timeline.summary
}

/// 17 dimensions of two NPUs have 34 phases.
#[test]
fn a_collective_over_seventeen_dimensions_runs() {
    let summary = summary("all_reduce", "64MB", &[("ring", 2); 17], json!({}));
    // Half of the vector passes the links of the lowest dimension in each direction, a quarter those of the next, and
    // so on.
    let least = 64e6 / 2.0 / 50e9;
    assert!(summary.total_time_s > least && summary.total_time_s < 3.0 * least, "{}", summary.total_time_s);
    assert_eq!(summary.ended, Ended::Finished);
}

/// With more than 4,096 chunks, the time is still bytes over rate: no chunk is confused with another.
#[test]
fn more_than_4096_chunks_are_distinguished() {
    let settings = json!({"chunks": 10_000, "min_chunk": "4B", "active_chunks": 0, "issue_threshold": 0,
        "algorithms": {"default": {"all_gather": "ring"}}});
    let found = summary("all_gather", "40MB", &[("ring", 2)], settings).total_time_s;
    let bytes = 20e6 / 2.0 / 50e9;
    assert!(found > bytes && found < 1.02 * bytes + 5e-6, "{found} s, {bytes} s of bytes");
}
