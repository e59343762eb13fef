//! Bounds of collectives: no run is quicker, and plans that are known to be optimal reach them.

#[allow(dead_code)]
mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{cases, simulate};
use syncline_timeline::{Data, Timeline};

fn column(timeline: &Timeline, name: &str) -> Vec<f64> {
    match &timeline.table("collectives").unwrap().column(name).unwrap().data {
        Data::Float(values) => values.clone(),
        other => panic!("{other:?}"),
    }
}

/// Bound over duration of the first collective.
fn reached(value: &Value) -> f64 {
    let timeline = simulate(value);
    column(&timeline, "bound_s")[0] / column(&timeline, "duration_s")[0]
}

fn job(kind: &str, bytes: u64, fabric: &Value, settings: Value, network: Value) -> Value {
    json!({"schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": format!("{bytes}B")}]},
        "fabric": fabric, "collectives": settings, "network": network})
}

fn dim(shape: &str, size: u32) -> Value {
    json!({"dims": [{"name": "d", "shape": shape, "size": size, "rate": "50GB/s", "latency": "500ns"}]})
}

/// Nodes of four NPUs with a network card each, behind leaves of their rail.
fn rails() -> Value {
    json!({"built": {
        "network": {"leaf_spine": {"leaves": 4, "hosts_per_leaf": 4, "spines": 2, "cables": 2, "rate": "400Gb/s",
            "latency": "500ns"}},
        "nodes": {"npus": 4, "rate_per_npu": "450GB/s", "latency": "250ns", "rails": true}}})
}

/// Hosts of three racks behind one switch with slow uplinks.
fn racks() -> Value {
    let mut links = Vec::new();
    for host in 0..12 {
        links.push((host, 12 + host / 4, "100Gb/s"));
    }
    (12..15).for_each(|rack| links.push((rack, 15, "200Gb/s")));
    let both = |&(a, b, rate): &(u32, u32, &str)| {
        [(a, b), (b, a)].map(|(from, to)| json!({"from": from, "to": to, "rate": rate, "latency": "500ns"}))
    };
    json!({"graph": {"npus": 12, "switches": 4, "links": links.iter().flat_map(both).collect::<Vec<_>>()}})
}

#[test]
fn optimal_plans_reach_their_bounds() {
    let name = |kind: &str, name: &str| json!({"algorithms": {"default": {kind: name}}, "chunks": 64});
    let analytical = || json!({"model": "analytical"});
    let cases = [
        (
            "a ring in a ring",
            job("all_reduce", 1 << 30, &dim("ring", 8), name("all_reduce", "ring"), analytical()),
        ),
        (
            "direct, fully connected",
            job(
                "all_reduce",
                1 << 30,
                &dim("fully_connected", 8),
                name("all_reduce", "direct"),
                analytical(),
            ),
        ),
        (
            "an all-to-all on a switch",
            job("all_to_all", 1 << 30, &dim("switch", 16), json!({}), analytical()),
        ),
        (
            "an all-gather on a switch of 6",
            job("all_gather", 1 << 30, &dim("switch", 6), json!({}), analytical()),
        ),
        (
            "a reduce with incast",
            job("reduce", 1 << 28, &racks(), name("reduce", "direct"), json!({"model": "flow"})),
        ),
        (
            "two levels on rails",
            job("all_reduce", 1 << 32, &rails(), json!({"chunks": 512}), json!({"model": "queued"})),
        ),
        (
            "one chunk round a ring",
            job(
                "all_reduce",
                1 << 20,
                &dim("ring", 8),
                json!({"chunks": 1, "algorithms": {"default": {"all_reduce": "ring"}}}),
                analytical(),
            ),
        ),
    ];
    let found: Vec<_> = cases.iter().map(|(what, value)| (what, reached(value))).collect();
    assert!(found.iter().all(|&(_, reached)| (0.99..=1.0).contains(&reached)), "{found:#?}");
}

/// One NPU of each node: its NVLinks lead nowhere that the ring goes, so that its card alone counts.
#[test]
fn ranks_of_one_rail_have_a_card_each() {
    let mut value = job("all_reduce", 1_000_000_000, &rails(), json!({}), json!({"model": "analytical"}));
    value["placement"] = json!({"npus": [0, 4, 8, 12]});
    let timeline = simulate(&value);
    let card = 2.0 * 3.0 / 4.0 * 1e9 / 50e9;
    let bound = column(&timeline, "bound_s")[0];
    assert!((bound / card - 1.0).abs() < 1e-3, "{bound} s, {card} s");
    assert!(column(&timeline, "duration_s")[0] < 1.01 * card);
}

/// What eleven hosts send to one must pass its port.
#[test]
fn a_receiver_has_one_port() {
    let value = job(
        "reduce",
        4_000_000,
        &racks(),
        json!({"algorithms": {"default": {"reduce": "direct"}}}),
        json!({"model": "flow"}),
    );
    let bound = column(&simulate(&value), "bound_s")[0];
    let port = 11.0 * 4e6 / 12.5e9;
    assert!((bound / port - 1.0).abs() < 1e-3, "{bound} s, {port} s");
}

fn fabrics() -> impl Strategy<Value = Value> {
    let links = prop::collection::vec((0u32..9, 0u32..9, 1u32..50, 0u32..900), 0..12);
    let graph = links.prop_map(|more| {
        // A ring of six hosts and three switches, and what else there is.
        let ring = (0..9).map(|vertex| (vertex, (vertex + 1) % 9, 10, 300));
        let both = |(a, b, rate, latency): (u32, u32, u32, u32)| {
            [(a, b), (b, a)].map(|(from, to)| {
                json!({"from": from, "to": to, "rate": format!("{rate}GB/s"), "latency": format!("{latency}ns")})
            })
        };
        let links: Vec<Value> =
            ring.chain(more).filter(|(a, b, ..)| a != b).flat_map(both).collect();
        json!({"graph": {"npus": 6, "switches": 3, "links": links, "routing": {"ecmp": {}}}})
    });
    let dims = support::dimensions(false, 1..3).prop_map(|dims| json!({"dims": dims}));
    prop_oneof![graph, dims, Just(rails()), Just(racks())]
}

proptest! {
    #![proptest_config(cases(200))]

    /// Whatever the fabric, the plan and the network model.
    #[test]
    fn no_run_is_quicker_than_its_bound(
        fabric in fabrics(),
        kind in prop::sample::select(vec!["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"]),
        name in prop::sample::select(vec!["", "ring", "direct", "direct(window=2)", "halving_doubling", "tree", "double_binary_tree"]),
        network in prop::sample::select(vec![
            json!({"model": "analytical"}), json!({"model": "queued"}), json!({"model": "flow"}),
            json!({"model": "flow", "paths": 3}), json!({"model": "packet"}),
            json!({"model": "packet", "transport": "rdma", "congestion": "none"}),
        ]),
        bytes in 1u64..300_000, chunks in 1u32..7, queues in 0u32..4,
    ) {
        let mut settings = json!({"chunks": chunks, "min_chunk": "1B", "queues": queues});
        if !name.is_empty() {
            settings["algorithms"] = json!({"default": {kind: name}});
        }
        let value = job(kind, bytes, &fabric, settings, network);
        let scenario: syncline_simulate::Scenario = serde_json::from_value(value.clone()).unwrap();
        // Not every algorithm offers every collective.
        let Ok(run) = syncline_simulate::run(&scenario, syncline_simulate::Control::default()) else {
            return Ok(());
        };
        let (durations, bounds) = (column(&run.timeline, "duration_s"), column(&run.timeline, "bound_s"));
        for (duration, bound) in durations.iter().zip(&bounds) {
            prop_assert!(duration >= bound, "{duration} s, bound {bound} s: {value}");
        }
    }
}
