//! The `packet` model on whole jobs: it agrees with the others if nothing is lost or shared, and reports losses.

use crate::support::simulate;
use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::Control;

fn star(hosts: u32, bytes: &str, network: Value) -> Value {
    json!({
        "schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": bytes}]},
        "fabric": {"dims": [{"name": "star", "shape": "switch", "size": hosts, "rate": "100Gb/s", "latency": "500ns"}]},
        "collectives": {
            "algorithms": {"star": {"all_reduce": "direct", "reduce_scatter": "direct", "all_gather": "direct"}},
            "chunks": 1, "active_chunks": 0, "issue_threshold": 0, "issue_batch": 0,
        },
        "network": network,
    })
}

/// ns-3 3.37 and 3.48, the same network and the same messages: 0.3279 ms.
#[test]
fn an_all_reduce_through_the_engine_takes_as_long_as_in_ns3() {
    let network = json!({"model": "packet", "framing": "point_to_point", "buffer": "16MiB"});
    let summary = simulate(&star(32, "2MB", network)).summary;
    let time = summary.total_time_s * 1e3;
    assert!(summary.dims[0].busiest_link_busy.is_some_and(|busy| busy <= 1.0 && busy > 0.9));
    let packets = summary.packets.as_ref().unwrap();
    // To each of 31 others, twice: 44 segments of 1448 bytes, and the acknowledgements that arrive before the end.
    let segments = 32 * 31 * 2 * 44;
    assert!(packets.sent > segments && packets.sent <= 2 * segments, "{packets:?}");
    assert_eq!((packets.dropped, packets.retransmissions, packets.timeouts), (0, 0, 0));
    assert!((time / 0.3279 - 1.0).abs() < 0.02, "{time} ms");
}

/// If nothing is shared, the models differ only by headers.
#[test]
fn models_agree_on_a_single_transfer() {
    for megabytes in [1, 4, 16] {
        let time = |network: Value| {
            let value = json!({
                "schema": "syncline/1",
                "workload": {"source": "collectives", "collectives": [{"kind": "broadcast", "bytes": format!("{megabytes}MB")}]},
                "fabric": {"dims": [{"name": "d", "shape": "fully_connected", "size": 2, "rate": "100Gb/s", "latency": "500ns"}]},
                "collectives": {"chunks": 1},
                "network": network,
            });
            simulate(&value).summary.total_time_s
        };
        let (packet, queued) = (time(json!({"model": "packet"})), time(json!({"model": "queued"})));
        let headers = 1538.0 / 1448.0;
        assert!((packet / (queued * headers) - 1.0).abs() < 0.03, "{megabytes} MB: {packet} {queued}");
    }
}

/// A run may be cut off at any time.
#[test]
fn a_run_that_is_cut_off_ends_at_its_limit() {
    let mut value = star(16, "8MB", json!({"model": "packet", "buffer": "16MiB"}));
    value["limits"] = json!({"sim_time": "100us"});
    let summary = simulate(&value).summary;
    assert_eq!(summary.ended, syncline_timeline::Ended::LimitReached);
    assert!((summary.total_time_s - 100e-6).abs() < 5e-6, "{}", summary.total_time_s);
    assert!(summary.dims[0].busiest_link_busy.unwrap() <= 1.0);
}

/// All ranks send to one at the same time through small buffers: packets are lost, and time-outs make the step long.
#[test]
fn incast_through_small_buffers_causes_time_outs() {
    let time = |buffer: &str| {
        let network = json!({"model": "packet", "buffer": buffer, "initial_window": 100});
        let mut value = star(16, "200kB", network);
        value["collectives"]["algorithms"] =
            json!({"star": {"all_reduce": "parameter_server(placement=CC)"}});
        value["collectives"]["all_reduce"] = json!("baseline");
        simulate(&value).summary.total_time_s
    };
    let (large, small) = (time("1GiB"), time("512KiB"));
    assert!(large < 1e-3, "{large}");
    assert!(small > 50e-3, "{small}");
}

/// Many chunks on a torus take longer than a single one.
#[test]
fn more_chunks_take_longer_than_one_alone() {
    let time = |bytes: u64, chunks: u32| {
        let dim = |name: &str, size: u32, direction: &str, rate: &str, latency: &str| {
            json!({"name": name, "shape": "ring", "size": size, "count": 2, "direction": direction, "rate": rate,
                   "latency": latency})
        };
        simulate(&json!({
            "schema": "syncline/1",
            "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": format!("{bytes}B")}]},
            "fabric": {"dims": [dim("local", 2, "one-way", "188GB/s", "90ns"),
                                dim("vertical", 4, "both", "23GB/s", "200ns"),
                                dim("horizontal", 4, "both", "23GB/s", "200ns")]},
            "collectives": {"chunks": chunks, "all_reduce": "enhanced", "order": "lifo", "endpoint_delay": "10ns"},
            "network": {"model": "packet"},
        }))
        .summary
        .total_time_s
    };
    let (one, many) = (time(4128, 1), time(132_096, 64));
    assert!(many > 1.3 * one, "{many} {one}");
}

/// The collectives of dlrm2020, on small versions of its two systems. If nothing is lost, packets take about as long as
/// messages. Headers are 6 % of packets; trees of four ranks send unevenly, and TCP shares links differently than a
/// FIFO.
#[test]
fn collectives_of_super_nodes_take_about_as_long_as_with_messages() {
    let systems = [("hierarchical", 4, 4), ("hierarchical_optimal", 4, 4), ("hierarchical_optimal", 1, 16)];
    for (composition, nodes, groups) in systems {
        for (kind, tree) in
            [("all_reduce", "double_binary_tree"), ("all_reduce", "direct"), ("all_to_all", "direct")]
        {
            let time = |network: Value| {
                let direct =
                    json!({"all_reduce": "direct", "reduce_scatter": "direct", "all_gather": "direct"});
                let mut dims = vec![
                    json!({"name": "local", "shape": "switch", "size": nodes, "count": 3, "rate_per_npu": "1200Gb/s",
                        "latency": "500ns"}),
                    json!({"name": "global", "shape": "switch", "size": groups, "rate": "100Gb/s",
                        "latency": "500ns"}),
                ];
                let mut algorithms = json!({"local": direct, "global": {"all_reduce": tree}});
                if nodes == 1 {
                    dims.remove(0);
                    algorithms.as_object_mut().unwrap().remove("local");
                }
                simulate(&json!({
                    "schema": "syncline/1",
                    "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": "8MB"}]},
                    "fabric": {"dims": dims},
                    "collectives": {"all_reduce": composition, "algorithms": algorithms, "chunks": 64,
                        "active_chunks": 0, "issue_threshold": 0, "outstanding": 64, "injection_latency": "10ns"},
                    "network": network,
                }))
                .summary
            };
            let messages = time(json!({"model": "analytical"})).total_time_s;
            let packets = time(json!({"model": "packet", "buffer": "1GiB"}));
            let ratio = packets.total_time_s / messages;
            assert_eq!(packets.packets.unwrap().dropped, 0);
            assert!((0.95..1.3).contains(&ratio), "{composition} {kind} {tree} on {nodes}x{groups}: {ratio}");
        }
    }
}

/// Settings that are too slow or too far give an error, not a wrong number.
#[test]
fn extreme_settings_are_refused() {
    let run = |fabric: Value, network: Value| {
        let scenario: Scenario = serde_json::from_value(json!({
            "schema": "syncline/1",
            "workload": {"source": "collectives", "collectives": [{"kind": "broadcast", "bytes": "8MB"}]},
            "fabric": {"dims": [fabric]},
            "collectives": {"chunks": 1, "algorithms": {"d": {"broadcast": "direct"}}},
            "network": network,
        }))
        .unwrap();
        syncline_simulate::run(&scenario, Control::default()).map(|run| run.timeline.summary.total_time_s)
    };
    let ring = |size: u32, rate: &str| json!({"name": "d", "shape": "ring", "size": size, "rate": rate, "latency": "1us"});
    let packet = json!({"model": "packet"});
    let told = |fabric: Value| run(fabric, packet.clone()).unwrap_err().to_string();
    assert!(told(ring(2, "1b/s")).contains("SL0504"));
    assert!(told(ring(600, "100Gb/s")).contains("more links than `packet` can count"));
    // A time-out of zero, and one longer than RFC 6298 asks for.
    for timeout in ["0s", "90s"] {
        let network = json!({"model": "packet", "min_timeout": timeout, "initial_timeout": timeout});
        assert!(run(ring(2, "100Gb/s"), network).unwrap() < 2e-3, "{timeout}");
    }
}

/// Six senders send a packet to one receiver at the same time, and the buffer has room for four. A connection that
/// loses its first packet has not measured a round trip, so it waits for the initial time-out, whatever `min_timeout`
/// is. The report names this time-out and its cost.
#[test]
fn the_most_expensive_time_out_is_named() {
    let run = |initial: &str| {
        let network = json!({"model": "packet", "buffer": "43064B", "initial_window": 1, "min_timeout": "5ms",
            "initial_timeout": initial});
        let mut value = star(7, "10MB", network);
        value["workload"]["collectives"][0]["kind"] = json!("reduce");
        value["collectives"]["algorithms"] = json!({"star": {"reduce": "direct"}});
        simulate(&value)
    };
    let slow = run("1s");
    let packets = slow.summary.packets.as_ref().unwrap();
    assert!(packets.initial_timeouts > 0 && packets.initial_timeouts <= packets.timeouts);
    assert_eq!(slow.summary.bottleneck.name(), "timeout");
    let reason = &slow.summary.reason;
    assert!(
        reason.contains("waited 1s for its first retransmission time-out (`network.initial_timeout`)"),
        "{reason}"
    );
    // The run ends soon after the time-out. Without the time-out, it would have taken a few ms.
    let total = slow.summary.total_time_s;
    assert!(total > 1.0 && total < 1.1, "{total}");
    assert!(packets.stalled_s > 0.9 && packets.stalled_s < total, "{}", packets.stalled_s);
    let fast = run("5ms").summary;
    assert!(fast.total_time_s < total - packets.stalled_s + 0.06, "{} {total}", fast.total_time_s);
    let table = slow.table("timeouts").unwrap();
    assert!(table.columns.iter().any(|column| column.name == "initial"));
}
