//! Random graphs as fabrics of scenarios.

use crate::support::{number, scenario};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Rate and latency of links.
fn wire(round: bool) -> impl Strategy<Value = (String, String)> {
    (number(round, &[25, 50, 100], 1..100), number(round, &[500, 700, 0], 0..2000))
        .prop_map(|(rate, latency)| (format!("{rate}GB/s"), format!("{latency}ns")))
}

/// A network of some family, its number of hosts, and the number of leaves; `None` if hosts are routers.
fn network(round: bool) -> impl Strategy<Value = (Value, u32, Option<u32>)> {
    let sizes = (1u32..5, 1u32..6, 1u32..4, 1u32..3, 1u32..3);
    (0u32..8, sizes, wire(round), wire(round)).prop_map(|(family, (a, b, c, d, pods), host, up)| {
        let (rate, latency) = host;
        let wires = json!({"rate": rate, "latency": latency, "uplink_rate": up.0, "uplink_latency": up.1});
        let with = |mut own: Value, wires: &Value| {
            own.as_object_mut().unwrap().extend(wires.as_object().unwrap().clone());
            own
        };
        let plain = json!({"rate": rate, "latency": latency});
        match family {
            0 | 1 => {
                let spec = json!({"leaves": a, "hosts_per_leaf": b, "spines": c, "cables": d});
                (json!({"leaf_spine": with(spec, &wires)}), a * b, Some(a))
            }
            2 => {
                let cores = if pods > 1 { c * d } else { 0 };
                let spec =
                    json!({"leaves": a, "hosts_per_leaf": b, "spines": c, "pods": pods, "cores": cores});
                (json!({"leaf_spine": with(spec, &wires)}), a * b * pods, Some(a * pods))
            }
            3 => {
                let k = [2, 4][a as usize % 2];
                (json!({"fat_tree": with(json!({"k": k}), &wires)}), k * k * k / 4, Some(k * k / 2))
            }
            4 | 5 => (json!({"switch": with(json!({"hosts": a * b}), &plain)}), a * b, Some(1)),
            6 => (json!({"torus": with(json!({"sizes": [a, b]}), &plain)}), a * b, None),
            _ => (json!({"hypercube": with(json!({"dimensions": a}), &plain)}), 1 << a, None),
        }
    })
}

/// A fabric of some family, and its number of NPUs.
fn built(round: bool) -> impl Strategy<Value = (Value, u32)> {
    let nodes = (1u32..5, 0u32..4, any::<[bool; 4]>(), 1u32..3, wire(round));
    let routing =
        prop::sample::select(vec![None, Some(json!("shortest")), Some(json!({"ecmp": {"seed": 7}}))]);
    (network(round), nodes, routing).prop_map(
        |((network, hosts, leaves), (npus, nics, flags, switches, wire), routing)| {
            let [has_nodes, rails, forward, pcie] = flags;
            let mut built = json!({"network": network});
            let mut all = hosts;
            // One card for each NPU, one for two NPUs, or two for each NPU.
            let nics = match nics {
                1 if npus % 2 == 0 => npus / 2,
                2 if leaves.is_some() => npus * 2,
                _ => npus,
            };
            if has_nodes && hosts % nics == 0 {
                let rails = rails && leaves.is_some_and(|leaves| leaves % nics == 0);
                let mut nodes = json!({"npus": npus, "switches": switches, "rate": wire.0, "latency": wire.1,
                    "nics": nics, "rails": rails, "forward": forward && rails});
                if pcie || nics != npus {
                    nodes["pcie_rate"] = json!("60GB/s");
                    nodes["pcie_latency"] = json!("300ns");
                }
                built["nodes"] = nodes;
                all = hosts / nics * npus;
            }
            if let Some(routing) = routing {
                built["routing"] = routing;
            }
            (json!({"built": built}), all)
        },
    )
}

/// Hosts below two switches, given link by link.
fn listed(round: bool) -> impl Strategy<Value = (Value, u32)> {
    (1u32..4, 1u32..4, wire(round), any::<bool>()).prop_map(|(hosts, between, (rate, latency), ecmp)| {
        let npus = 2 * hosts;
        let down = (0..npus).map(|npu| (npu, npus + npu / hosts));
        let ends = down.chain((0..between).map(|_| (npus, npus + 1))).flat_map(|(a, b)| [(a, b), (b, a)]);
        let links: Vec<Value> = ends
            .map(|(from, to)| json!({"from": from, "to": to, "rate": rate, "latency": latency}))
            .collect();
        let routing = if ecmp { json!({"ecmp": {}}) } else { json!("shortest") };
        (json!({"graph": {"npus": npus, "switches": 2, "links": links, "routing": routing}}), npus)
    })
}

/// A random scenario as from [`scenario`], on a graph.
pub(crate) fn graph_scenario() -> impl Strategy<Value = Value> {
    let fabric = any::<bool>()
        .prop_flat_map(|round| prop_oneof![5 => built(round).boxed(), 1 => listed(round).boxed()]);
    let algorithms = prop::sample::select(vec!["", "ring", "direct", "halving_doubling", "tree"]);
    (scenario(), fabric, any::<prop::sample::Index>(), algorithms).prop_map(
        |(mut value, (fabric, npus), degree, algorithm)| {
            value["fabric"] = fabric;
            let collectives = value["collectives"].as_object_mut().unwrap();
            collectives.remove("logical");
            let named = if algorithm.is_empty() { json!({}) } else { json!({"all_reduce": algorithm}) };
            collectives.insert("algorithms".to_owned(), json!({"default": named}));
            if value["workload"]["parallel"]["tensor"].is_object() {
                let divisors: Vec<u32> = (1..=npus).filter(|degree| npus % degree == 0).collect();
                value["workload"]["parallel"]["tensor"] =
                    json!({"degree": divisors[degree.index(divisors.len())]});
            }
            value
        },
    )
}
