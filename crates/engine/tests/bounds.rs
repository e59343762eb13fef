//! Bounds of collectives: no run takes less time, and plans known to be optimal reach them.

use crate::support::{cases, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};
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

fn one_way_ring(size: u32) -> Value {
    json!({"dims": [{"name": "d", "shape": "ring", "size": size, "direction": "one-way", "rate": "50GB/s",
        "latency": "10ns"}]})
}

/// Nodes of four NPUs. Each NPU has its own network card, connected to the leaves of its rail.
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
            "an all-to-all in a ring, over its middle",
            job(
                "all_to_all",
                1 << 28,
                &dim("ring", 8),
                name("all_to_all", "direct"),
                json!({"model": "flow"}),
            ),
        ),
        (
            "a pipelined broadcast along a ring",
            job(
                "broadcast",
                1 << 28,
                &one_way_ring(8),
                json!({"algorithms": {"default": {"broadcast": "ring"}}, "chunks": 2048, "queues": 1,
                    "active_chunks": 0, "issue_threshold": 0}),
                json!({"model": "queued"}),
            ),
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

/// A group with one NPU of each node: NVLinks do not lead to the next node, so only the network card counts.
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

/// All messages of eleven hosts to one host must pass its port.
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

/// The rates of many quick links add up to more than a `Rate` can represent: such a cut gives no bound.
#[test]
fn rates_whose_sum_overflows_give_no_bound() {
    let dim = |name: &str, shape: &str, size: u32| json!({"name": name, "shape": shape, "size": size, "rate_per_npu": "100PB/s", "latency": "1ps"});
    let exchange =
        json!({"when": "after_weight_grad", "axes": ["data"], "kind": "all_reduce", "bytes": "18MiB"});
    let timeline = simulate(&json!({"schema": "syncline/1",
        "workload": {"source": "layers", "types": "bf16",
            "layers": [{"name": "probe", "exchanges": [exchange]}],
            "parallel": {"tensor": {"degree": 16}, "data": "rest", "overlap": "none"}},
        "fabric": {"dims": [dim("a", "ring", 8), dim("b", "switch", 2), dim("c", "switch", 64)]},
        "collectives": {"all_reduce": "hierarchical_2n", "chunks": 48, "order": "lifo", "active_chunks": 1,
            "algorithms": {"default": {"reduce_scatter": "halving_doubling", "all_gather": "halving_doubling"}}}}));
    assert!(column(&timeline, "bound_s")[0] <= column(&timeline, "duration_s")[0]);
}

fn fabrics() -> impl Strategy<Value = Value> {
    let links = prop::collection::vec((0u32..9, 0u32..9, 1u32..50, 0u32..900), 0..12);
    let graph = links.prop_map(|more| {
        // A ring of six hosts and three switches, plus random links.
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
    let dims = crate::support::dimensions(false, 1..3).prop_map(|dims| json!({"dims": dims}));
    prop_oneof![graph, dims, Just(rails()), Just(racks())]
}

/// Endpoint settings, faults and placement of a scenario.
fn circumstances() -> impl Strategy<Value = (Value, Value, Option<Vec<u32>>)> {
    let endpoints =
        (0u32..3, 0u32..3, 0u32..3, prop::sample::select(vec!["baseline", "enhanced", "hierarchical_2n"]));
    let endpoints = endpoints.prop_map(|(delay, injection, reduction, composition)| {
        let mut spec = json!({"endpoint_delay": format!("{}ns", 100 * delay), "all_reduce": composition,
            "injection_latency": format!("{}ns", 100 * injection)});
        if reduction > 0 {
            spec["reduction_rate"] = json!(format!("{}GB/s", 20 * reduction));
        }
        spec
    });
    let faults = prop_oneof![
        2 => Just(json!([])),
        1 => (2u32..9).prop_map(|factor| json!([{"random_links": 2, "factor": f64::from(factor)}])),
        1 => (1u32..3).prop_map(|dead| json!([{"random_links": dead, "dead": true}])),
    ];
    let order: Vec<u32> = (0..24).collect();
    let placement = prop::option::of((Just(order).prop_shuffle(), 2u32..9).prop_map(|(mut order, ranks)| {
        // Numbers outside of the fabric are removed once the fabric is known.
        order.push(ranks);
        order
    }));
    (endpoints, faults, placement)
}

/// Number of NPUs of a fabric.
fn npus(fabric: &Value) -> u32 {
    let size = |dim: &Value| dim["size"].as_u64().unwrap() as u32;
    match (&fabric["graph"], &fabric["dims"]) {
        (graph @ Value::Object(_), _) => graph["npus"].as_u64().unwrap() as u32,
        (_, Value::Array(dims)) => dims.iter().map(size).product(),
        _ => 16,
    }
}

fn own_plan() -> String {
    format!("{}/../../examples/custom-plan/plan.json", env!("CARGO_MANIFEST_DIR"))
}

/// Holds for any fabric, faults, placement, plan and network model.
#[test]
fn no_run_is_quicker_than_its_bound() {
    const KINDS: [&str; 6] =
        ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"];
    const NAMES: [&str; 9] = [
        "",
        "",
        "ring",
        "direct",
        "direct(window=2)",
        "halving_doubling",
        "tree",
        "double_binary_tree",
        "own",
    ];
    let networks = vec![
        json!({"model": "analytical"}),
        json!({"model": "queued"}),
        json!({"model": "flow"}),
        json!({"model": "flow", "paths": 3}),
        json!({"model": "packet"}),
        json!({"model": "packet", "transport": "rdma", "congestion": "none"}),
        json!({"model": "packet", "spray": 3}),
    ];
    let sizes = prop_oneof![1u64..100, 1u64..300_000];
    let plan = (prop::sample::select(&KINDS[..]), prop::sample::select(&NAMES[..]), sizes, 1u32..7, 0u32..4);
    let scenarios = (fabrics(), circumstances(), prop::sample::select(networks), plan);
    let mut ran = 0;
    let tested = std::cell::RefCell::new(&mut ran);
    let mut runner = proptest::test_runner::TestRunner::new(cases(400));
    let result = runner.run(&scenarios, |(fabric, (endpoints, faults, placement), network, plan)| {
        let (kind, name, bytes, chunks, queues) = plan;
        let mut settings = endpoints;
        let more = json!({"chunks": chunks, "min_chunk": "1B", "queues": queues});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match name {
            "" => {}
            "own" => settings["plans"] = json!({"all_reduce": own_plan()}),
            _ => {
                settings["algorithms"] = json!({"default": {kind: name}});
                settings["all_reduce"] = json!("auto");
            }
        }
        let mut value = job(kind, bytes, &fabric, settings, network);
        value["faults"] = faults;
        if let Some(mut order) = placement {
            let ranks = if name == "own" { 4 } else { order.pop().unwrap() };
            order.retain(|&npu| npu < npus(&fabric));
            order.truncate(ranks as usize);
            value["placement"] = json!({"npus": order});
        }
        let scenario: syncline_scenario::Scenario = serde_json::from_value(value.clone()).unwrap();
        let run = match syncline_simulate::run(&scenario, syncline_simulate::Control::default()) {
            Ok(run) => run,
            // Not every algorithm offers every collective, and dead links may leave no path.
            Err(errors) => {
                let impossible =
                    errors.0.iter().any(|error| error.code == syncline_diagnostics::Code::Impossible);
                prop_assert!(!impossible, "{errors}\n{value}");
                return Ok(());
            }
        };
        **tested.borrow_mut() += 1;
        let (durations, bounds) = (column(&run.timeline, "duration_s"), column(&run.timeline, "bound_s"));
        for (duration, bound) in durations.iter().zip(&bounds) {
            prop_assert!(duration >= bound, "{duration} s, bound {bound} s: {value}");
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(ran >= 150, "only {ran} scenarios ran");
}

/// A number from which a parent is drawn, and the rate of the cable to it in GB/s.
type Branch = (u32, u32);

/// In a tree of switches the links are the only minimal cuts. So the bound of an exchange between all ranks is the time
/// of its busiest link, which this test computes from the tree alone.
#[test]
fn in_a_tree_the_busiest_link_decides() {
    let trees = (
        prop::collection::vec((0u32..100, 10u32..60), 4..9),
        prop::collection::vec((0u32..100, 10u32..60), 3..12),
        prop::sample::select(vec!["all_to_all", "reduce", "broadcast"]),
        any::<u32>(),
    );
    let check = |(switches, hosts, kind, shift): (Vec<Branch>, Vec<Branch>, &str, u32)| {
        // The parent of each switch is an earlier switch; that of a host is any switch.
        let (ranks, count) = (hosts.len() as u32, switches.len() as u32);
        let mut cables: Vec<(u32, u32, u32)> = Vec::new();
        for (at, &(below, rate)) in (1..count).zip(&switches[1..]) {
            cables.push((ranks + at, ranks + below % at, rate));
        }
        for (at, &(below, rate)) in (0..ranks).zip(&hosts) {
            cables.push((at, ranks + below % count, rate));
        }
        let links: Vec<Value> = cables
            .iter()
            .flat_map(|&(a, b, rate)| [(a, b, rate), (b, a, rate)])
            .map(|(from, to, rate)| json!({"from": from, "to": to, "rate": format!("{rate}GB/s"), "latency": "0ns"}))
            .collect();
        let fabric = json!({"graph": {"npus": ranks, "switches": count, "links": links}});
        let bytes = u64::from(ranks) * 40_000_000;
        let direct = json!({"algorithms": {"default": {kind: "direct"}}});
        let mut value = job(kind, bytes, &fabric, direct, json!({"model": "flow"}));
        let order: Vec<u32> = (0..ranks).map(|rank| (rank + shift % ranks) % ranks).collect();
        value["placement"] = json!({"npus": order});
        // The hosts below each cable, found by going up from each host.
        let up: std::collections::BTreeMap<u32, u32> =
            cables.iter().map(|&(below, above, _)| (below, above)).collect();
        let below = |cable: u32| {
            let on = |rank: &u32| {
                std::iter::successors(Some(order[*rank as usize]), |at| up.get(at).copied())
                    .any(|at| at == cable)
            };
            (0..ranks).filter(on).collect::<Vec<u32>>()
        };
        let busiest = cables.iter().map(|&(at, _, rate)| {
            let inside = below(at);
            let (inside, root) = (inside.len() as u64, inside.contains(&0));
            let outside = u64::from(ranks) - inside;
            let crossing = match kind {
                "all_to_all" => inside * outside * (bytes / u64::from(ranks)),
                // In a reduce or broadcast, the root exchanges `bytes` with each host on the other side of the cable.
                _ => bytes * if root { outside } else { inside },
            };
            crossing as f64 / (f64::from(rate) * 1e9)
        });
        let busiest = busiest.fold(0.0, f64::max);
        let timeline = simulate(&value);
        let (bound, duration) = (column(&timeline, "bound_s")[0], column(&timeline, "duration_s")[0]);
        prop_assert!((bound / busiest - 1.0).abs() < 1e-6, "{bound} s, busiest link {busiest} s: {value}");
        prop_assert!(duration >= bound, "{duration} s, bound {bound} s: {value}");
        Ok(())
    };
    let mut runner = proptest::test_runner::TestRunner::new(cases(60));
    runner.run(&trees, check).unwrap_or_else(|failure| panic!("{failure}"));
}
