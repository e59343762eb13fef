//! The `flow` model with whole jobs: times of messages that share links, worked out by hand, and the report of which
//! messages waited for which.

use serde_json::{Value, json};
use syncline_diagnostics::{Code, Diagnostics};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};

fn simulate(value: &Value) -> Run {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn picoseconds(run: &Run) -> u64 {
    (run.timeline.summary.total_time_s * 1e12).round() as u64
}

/// An all-to-all among four, each block 1 MB, sent directly.
fn all_to_all(fabric: &Value, network: &Value) -> Value {
    json!({"schema": "syncline/1", "fabric": fabric, "network": network,
        "workload": {"source": "collectives", "collectives": [{"kind": "all_to_all", "bytes": "4MB"}]},
        "collectives": {"chunks": 1, "algorithms": {"default": {"all_to_all": "direct"}}}})
}

fn ring() -> Value {
    json!({"dims": [{"name": "d", "shape": "ring", "size": 4, "direction": "one-way", "rate": "10GB/s", "latency": "1us"}]})
}

/// Time of 1 MB at 10 GB/s.
const MB: u64 = 100_000_000;

/// Messages to the next, second and third rank load each link of a one-way ring with 1 + 2 + 3 messages, each of which
/// gets a sixth of its rate. The longest path has three links.
#[test]
fn messages_on_a_ring_share_its_links() {
    let whole = simulate(&all_to_all(&ring(), &json!({"model": "flow"})));
    // The sixth of a rate is rounded down.
    assert_eq!(picoseconds(&whole), 6 * MB + 3_000_000 + 1);
    assert_eq!(whole.timeline.summary.simulated_ranks, 1);
    let dim = &whole.timeline.summary.dims[0];
    assert_eq!((dim.name.as_str(), dim.carried_bytes), ("d", 4 * 6_000_000));
    assert!(dim.busiest_link_busy.is_some_and(|busy| busy > 0.99 && busy <= 1.0));
    // Each of three messages took six times as long as alone.
    let table = whole.timeline.tables.iter().find(|table| table.name == "contention").unwrap();
    assert!(format!("{:?}", table.columns).contains(&format!("{:?}", 3.0 * 5e-4)), "{table:?}");
    let reason = &whole.timeline.summary.reason;
    assert!(reason.contains("waited for each other most at NPU 0 -> NPU 1: "), "{reason}");
    // A model without sharing inside the network is faster than is physically possible.
    assert!(picoseconds(&simulate(&all_to_all(&ring(), &json!({"model": "analytical"})))) < 6 * MB);
}

/// Messages between the same NPUs arrive one after the other, so the next NPU passes the first one on while the second
/// comes: a broadcast of K chunks down a chain of N takes as long as K + N - 2 chunks on a link, and a latency for each
/// link.
#[test]
fn chunks_of_a_chain_follow_each_other() {
    for (size, chunks) in [(8, 64), (8, 5), (4, 1), (2, 16)] {
        let mut value = all_to_all(&ring(), &json!({"model": "flow"}));
        value["fabric"]["dims"][0]["size"] = json!(size);
        value["workload"]["collectives"] = json!([{"kind": "broadcast", "bytes": "64MB"}]);
        value["collectives"] = json!({"chunks": chunks, "active_chunks": 0,
            "algorithms": {"default": {"broadcast": "ring"}}});
        let expected = (chunks + size - 2) * 64 * MB / chunks + (size - 1) * 1_000_000;
        let took = picoseconds(&simulate(&value));
        assert!(
            took.abs_diff(expected) <= chunks + size,
            "{size} ranks, {chunks} chunks: {took}, not {expected}"
        );
    }
}

/// Two messages to one rank take longer than one by the transfer time of one message, whatever the latency: the latency
/// of a message passes while the next one is sent.
#[test]
fn latency_does_not_occupy_the_link() {
    let mut value = all_to_all(&ring(), &json!({"model": "flow"}));
    value["fabric"]["dims"][0]["size"] = json!(2);
    for latency in [0u64, 1, 1_000] {
        value["fabric"]["dims"][0]["latency"] = json!(format!("{latency}us"));
        value["workload"]["collectives"] = json!([{"kind": "broadcast", "bytes": "2MB"}]);
        value["collectives"] = json!({"chunks": 2});
        assert_eq!(picoseconds(&simulate(&value)), 2 * MB + latency * 1_000_000);
    }
}

/// Two rings: two equal paths that share no link, but the NPU sends by one of them.
#[test]
fn one_rank_gives_the_same_times_as_all() {
    let mut value = all_to_all(&ring(), &json!({"model": "flow"}));
    let one = picoseconds(&simulate(&value));
    value["symmetry"] = json!(false);
    let all = simulate(&value);
    assert_eq!((picoseconds(&all), all.timeline.summary.simulated_ranks), (one, 4));
}

/// Four hosts below each of two leaves, and two spines: two equal paths between leaves.
fn leaf_spine() -> Value {
    let mut links = Vec::new();
    let mut duplex = |a: u32, b: u32| {
        for (from, to) in [(a, b), (b, a)] {
            links.push(json!({"from": from, "to": to, "rate": "10GB/s", "latency": "1us"}));
        }
    };
    (0..4).for_each(|host| duplex(host, 4 + host / 2));
    (0..2).for_each(|leaf| (0..2).for_each(|spine| duplex(4 + leaf, 6 + spine)));
    json!({"graph": {"npus": 4, "switches": 4, "links": links, "routing": {"ecmp": {"seed": 1}}}})
}

/// If messages use both paths in equal parts, no link between leaves is fuller than the links of the hosts, which carry
/// three messages each.
#[test]
fn several_paths_share_evenly() {
    let split = simulate(&all_to_all(&leaf_spine(), &json!({"model": "flow", "paths": 2})));
    // The messages within a leaf finish first and leave the hosts' links to the two others: all links are full to the
    // end.
    assert_eq!(picoseconds(&split), 3 * MB + 4_000_000 + 1);
    let single = simulate(&all_to_all(&leaf_spine(), &json!({"model": "flow"})));
    assert!(picoseconds(&single) >= picoseconds(&split));
    let near = simulate(&all_to_all(&leaf_spine(), &json!({"model": "flow", "precision": 0.001})));
    assert!((picoseconds(&near) as f64 / picoseconds(&single) as f64 - 1.0).abs() < 0.001);
}

#[test]
fn impossible_settings_are_refused() {
    for (network, key) in [
        (json!({"model": "flow", "precision": 0.5}), "network.precision"),
        (json!({"model": "flow", "paths": 0}), "network.paths"),
        (json!({"model": "flow", "weights": {"all_to_all": 0}}), "network.weights.all_to_all"),
        (json!({"model": "flow", "priority": ["reduce", "reduce"]}), "network.priority.1"),
    ] {
        let scenario: Scenario = serde_json::from_value(all_to_all(&ring(), &network)).unwrap();
        let refused = run(&scenario, Control::default()).expect_err("it is refused");
        assert!(refused.0.iter().any(|each| each.key.as_deref() == Some(key)), "{refused}");
    }
    let mut fast = ring();
    fast["dims"][0]["rate"] = json!("1000000GB/s");
    let scenario: Scenario = serde_json::from_value(all_to_all(&fast, &json!({"model": "flow"}))).unwrap();
    let refused = run(&scenario, Control::default()).expect_err("it is refused").to_string();
    assert!(refused.contains("faster than the model supports"), "{refused}");
}

/// An all-to-all of bytes on links of 1 b/s, each of which six flows share.
fn slow(bytes: &str, weight: u32) -> Value {
    let mut value = all_to_all(&ring(), &json!({"model": "flow", "weights": {"all_to_all": weight}}));
    value["fabric"]["dims"][0]["rate"] = json!("1b/s");
    value["workload"]["collectives"][0]["bytes"] = json!(bytes);
    value
}

fn refused(value: &Value) -> Diagnostics {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).expect_err("the model cannot do that")
}

/// Shares are multiples of 2^-12 b/s for each unit of weight, so on 1 b/s, flows may have a total weight of 4096.
#[test]
fn weights_that_leave_no_rate_are_refused_by_name() {
    let most = 4096 / 6;
    assert!(simulate(&slow("4B", most)).timeline.summary.total_time_s > 6.0 * 8.0);
    let found = refused(&slow("4B", most + 1));
    let [error] = &found.0[..] else { panic!("{found}") };
    assert_eq!((error.code, error.key.as_deref()), (Code::BadValue, Some("network.weights.all_to_all")));
    let said = format!("{found}");
    for part in ["1b/s", "weight 683", "sum to 4098", "sum to at most 4096", "smaller weights"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Flows that would take years are not reported as a deadlock.
#[test]
fn flows_that_end_beyond_the_clock_are_reported_as_such() {
    let found = refused(&slow("4MB", 1));
    assert_eq!(found.0[0].code, Code::Overflow, "{found}");
}
