//! Checks every family against known properties.

use super::*;
use crate::measure::Method;
use crate::parts::{LinkKind, VertexKind};
use proptest::prelude::*;
use syncline_units::{LinkId, NpuId};

const RATE: Rate = Rate(100_000_000_000);

/// A fabric from the keys of a resolved scenario.
pub(crate) fn built(json: &str) -> Fabric {
    build(&serde_json::from_str(json).unwrap(), 7).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn family(json: &str) -> Fabric {
    built(&format!("{{\"network\": {json}}}"))
}

fn refused(json: &str) -> Diagnostic {
    let spec = serde_json::from_str(json).unwrap();
    build(&spec, 7).expect_err(json).0.remove(0)
}

/// Returns hosts, switches, cables, diameter, and bisection in links.
fn shape(fabric: &Fabric) -> (u32, u32, u32, Option<u32>, Option<u64>) {
    let half = fabric.bisection().map(|found| {
        assert_ne!(found.method, Method::OneHalf);
        found.rate.0 / RATE.0
    });
    (fabric.npus(), fabric.vertices() - fabric.npus(), fabric.links() / 2, fabric.diameter(), half)
}

/// Returns the degree of every level; all vertices of a level have the same.
fn degrees(fabric: &Fabric) -> Vec<(String, u32)> {
    let equal = |each: crate::measure::Degree| {
        assert_eq!(each.least, each.most, "{}", each.level);
        (each.level, each.most)
    };
    fabric.degrees().into_iter().map(equal).collect()
}

fn hops(fabric: &Fabric, from: u32, to: u32) -> Option<Vec<String>> {
    let mut path = Vec::new();
    let found = fabric.route(NpuId(from), NpuId(to), 0, &mut path);
    found.then(|| path.iter().map(|&id| fabric.vertex_name(fabric.link(id).to)).collect())
}

/// Returns the same fabric without its formulas.
fn forgotten(fabric: &Fabric) -> Fabric {
    let links = (0..fabric.links()).map(|id| {
        let link = fabric.link(LinkId(id));
        crate::GraphLink { from: link.from, to: link.to, rate: link.rate, latency: link.latency }
    });
    let switches = fabric.vertices() - fabric.npus();
    let graph =
        crate::Graph::new(fabric.npus(), switches, links.collect(), crate::Routing::Shortest).unwrap();
    let graph =
        if fabric.passages().is_empty() { graph } else { graph.with_passages(fabric.passages().to_vec()) };
    Fabric::graph(if fabric.nodes().is_empty() { graph } else { graph.with_nodes(fabric.nodes().to_vec()) })
}

/// Al-Fares et al. 2008: k³/4 hosts, 5k²/4 switches of k ports, three links per host, full bisection, six
/// links between pods.
#[test]
fn fat_trees_have_the_numbers_of_al_fares() {
    for k in [2u32, 4, 6, 8, 16] {
        let tree = family(&format!(r#"{{"fat_tree": {{"k": {k}, "rate": "100Gb/s"}}}}"#));
        let hosts = k * k * k / 4;
        let expected = (hosts, 5 * k * k / 4, 3 * hosts, Some(6), Some(u64::from(hosts / 2)));
        assert_eq!(shape(&tree), expected, "{k}");
        let names = [("NPU", 1), ("edge", k), ("aggregation", k), ("core", k)];
        assert_eq!(degrees(&tree), names.map(|(name, degree)| (name.to_owned(), degree)));
        let bisection = tree.bisection().unwrap();
        assert_eq!((bisection.method, bisection.rate), (Method::Formula, bisection.ideal));
    }
}

/// Oversubscription by fewer uplinks, which also removes unused switches; or by slower uplinks.
#[test]
fn fat_trees_are_oversubscribed_at_the_edge() {
    let tree = family(r#"{"fat_tree": {"k": 8, "oversubscription": 2, "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&tree), (128, 32 + 16 + 8, 128 + 64 + 64, Some(6), Some(32)));
    let degree = [("NPU", 1), ("edge", 4 + 2), ("aggregation", 8), ("core", 8)];
    assert_eq!(degrees(&tree), degree.map(|(name, degree)| (name.to_owned(), degree)));
    let slow = family(r#"{"fat_tree": {"k": 8, "rate": "100Gb/s", "uplink_rate": "25Gb/s"}}"#);
    assert_eq!(shape(&slow), (128, 80, 384, Some(6), Some(16)));
}

#[test]
fn leaf_spines_have_two_levels_or_three() {
    let two =
        r#"{"leaf_spine": {"leaves": 4, "hosts_per_leaf": 8, "spines": 2, "cables": 2, "rate": "100Gb/s"}}"#;
    assert_eq!(shape(&family(two)), (32, 6, 32 + 16, Some(4), Some(8)));
    let three = r#"{"leaf_spine":
        {"leaves": 2, "hosts_per_leaf": 4, "spines": 2, "pods": 4, "cores": 4, "rate": "100Gb/s", "core_rate": "50Gb/s"}}"#;
    let three = family(three);
    // A pod has four links to cores, at half the rate.
    assert_eq!(shape(&three), (32, 8 + 8 + 4, 32 + 16 + 16, Some(6), Some(4)));
    let degree = [("NPU", 1), ("leaf", 6), ("spine", 4), ("core", 4)];
    assert_eq!(degrees(&three), degree.map(|(name, degree)| (name.to_owned(), degree)));
    // A core is in one plane: spine 1 of each pod reaches cores 2 and 3.
    let cores: Vec<u32> = (0..three.links())
        .map(|id| three.link(LinkId(id)))
        .filter(|link| {
            three.vertex_name(link.from) == "spine 5" && three.vertex_name(link.to).starts_with("core")
        })
        .map(|link| link.to - 48)
        .collect();
    assert_eq!(cores, [2, 3]);
    let one = family(r#"{"leaf_spine": {"leaves": 1, "hosts_per_leaf": 8, "spines": 0, "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&one), (8, 1, 8, Some(2), Some(4)));
}

/// Kim et al. 2008: the canonical dragonfly has a·h + 1 groups, one link between any two, and routers of p +
/// a − 1 + h ports.
#[test]
fn dragonflies_have_the_numbers_of_kim() {
    for (p, a, h) in [(1u32, 2u32, 1u32), (2, 4, 2), (3, 6, 3)] {
        let fly = family(&format!(r#"{{"dragonfly": {{"p": {p}, "a": {a}, "h": {h}, "rate": "100Gb/s"}}}}"#));
        let groups = a * h + 1;
        let cables = groups * (a * p + a * (a - 1) / 2) + groups * (groups - 1) / 2;
        assert_eq!((fly.npus(), fly.links() / 2), (groups * a * p, cables));
        assert_eq!(degrees(&fly)[1], ("router".to_owned(), p + a - 1 + h));
        assert_eq!(fly.diameter(), Some(5), "two links to hosts, local, global, local");
        let group = |vertex: u32| (vertex - fly.npus()) / a;
        let mut pairs = std::collections::BTreeSet::new();
        for link in (0..fly.links()).map(|id| fly.link(LinkId(id))) {
            if link.from >= fly.npus() && link.to >= fly.npus() && group(link.from) != group(link.to) {
                assert!(pairs.insert((group(link.from), group(link.to))));
            }
        }
        assert_eq!(pairs.len() as u32, groups * (groups - 1));
    }
}

/// With fewer groups, as many global ports are used as give all pairs of groups equally many links.
#[test]
fn dragonflies_may_have_fewer_groups() {
    for (groups, between) in [(2u32, 8u32), (3, 4), (4, 2), (5, 2), (9, 1), (1, 0)] {
        let fly = family(&format!(
            r#"{{"dragonfly": {{"p": 2, "a": 4, "h": 2, "groups": {groups}, "rate": "100Gb/s"}}}}"#
        ));
        let global =
            fly.parts().tiers.iter().find(|tier| tier.name == "global").map_or(0, |tier| tier.links / 2);
        assert_eq!(global, between * groups * (groups - 1) / 2, "{groups}");
        assert!(fly.degrees()[1].most <= 2 + 3 + 2);
        assert!(fly.diameter() <= Some(5));
    }
}

#[test]
fn expanders_are_regular_and_connected() {
    let switches =
        r#"{"expander": {"switches": 20, "hosts_per_switch": 3, "degree": 5, "seed": 1, "rate": "100Gb/s"}}"#;
    let switches = family(switches);
    assert_eq!(degrees(&switches), [("NPU".to_owned(), 1), ("switch".to_owned(), 8)]);
    assert!(switches.diameter().is_some_and(|diameter| (4..=6).contains(&diameter)));
    let hosts = family(r#"{"expander": {"hosts": 12, "degree": 4, "rate": "100Gb/s"}}"#);
    assert_eq!(degrees(&hosts), [("NPU".to_owned(), 4)]);
    let half = hosts.bisection().unwrap();
    assert_eq!(half.method, Method::AllHalves);
    // No half has fewer links out than connectivity of a regular graph of this size requires, nor more than a
    // random half.
    assert!((4..=12).contains(&(half.rate.0 / RATE.0)), "{half:?}");
    let seeded = |seed: u64| {
        let spec =
            serde_json::from_str(r#"{"network": {"expander": {"hosts": 30, "degree": 3, "rate": "1Gb/s"}}}"#);
        let fabric = build(&spec.unwrap(), seed).unwrap();
        (0..fabric.links()).map(|id| fabric.link(LinkId(id)).to).collect::<Vec<_>>()
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
}

#[test]
fn meshes_and_hypercubes_have_their_textbook_numbers() {
    let mesh = family(r#"{"mesh": {"sizes": [4, 3, 2], "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&mesh), (24, 0, 3 * 6 + 2 * 8 + 12, Some(3 + 2 + 1), Some(6)));
    let wide = family(r#"{"mesh": {"sizes": [8, 8], "cables": 2, "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&wide), (64, 0, 2 * 2 * 56, Some(14), Some(16)));
    let cube = family(r#"{"hypercube": {"dimensions": 4, "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&cube), (16, 0, 32, Some(4), Some(8)));
    assert_eq!(degrees(&cube), [("NPU".to_owned(), 4)]);
    let torus = family(r#"{"torus": {"sizes": [4, 4, 4, 4], "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&torus), (256, 0, 4 * 256, Some(8), Some(128)));
    let small = family(r#"{"torus": {"sizes": [1, 2, 3], "rate": "100Gb/s"}}"#);
    // Rings of two have two cables, as in `dims`.
    assert_eq!(shape(&small), (6, 0, 6 + 6, Some(2), Some(6)));
    let one = family(r#"{"switch": {"hosts": 9, "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&one), (9, 1, 9, Some(2), Some(4)));
}

/// Routes correct one coordinate after the other, the lowest first; other routes can be requested.
#[test]
fn meshes_are_crossed_dimension_by_dimension() {
    let mesh = r#"{"mesh": {"sizes": [3, 3], "rate": "100Gb/s"}}"#;
    let fabric = family(mesh);
    let numbers = |from, to| hops(&fabric, from, to).unwrap().join(" ").replace("NPU ", "");
    assert_eq!([numbers(0, 8), numbers(8, 0), numbers(6, 2)], ["1 2 5 8", "7 6 3 0", "7 8 5 2"]);
    assert!(fabric.in_dimension_order());
    assert_eq!(fabric.routes(NpuId(0), NpuId(8), 0, 9).len(), 1);
    let hashed = built(&format!(r#"{{"network": {mesh}, "routing": {{"ecmp": {{"seed": 3}}}}}}"#));
    assert_eq!(hashed.ecmp(), Some(3));
    assert_eq!(hashed.routes(NpuId(0), NpuId(8), 0, 9).iter().map(Vec::len).collect::<Vec<_>>(), [4; 3]);
    let dead = fabric.damaged(Default::default(), [LinkId(0)].into());
    assert_eq!(hops(&dead, 0, 8).unwrap().len(), 4);
}

/// NPUs of a node communicate over its switches, and with other nodes over the network, never through other
/// NPUs or shared cards.
#[test]
fn npus_reach_their_node_over_its_switches_and_others_over_the_network() {
    let outer =
        r#""network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 8, "spines": 2, "rate": "100Gb/s"}}"#;
    let own = built(&format!(r#"{{{outer}, "nodes": {{"npus": 4, "rate": "450GB/s"}}}}"#));
    assert_eq!((own.npus(), own.vertices()), (16, 16 + 4 + 4));
    assert_eq!(own.axes(), [("node".to_owned(), 4), ("network".to_owned(), 4)]);
    assert_eq!(hops(&own, 0, 3).unwrap(), ["NVSwitch 0", "NPU 3"]);
    assert_eq!(hops(&own, 4, 11).unwrap()[..1], ["leaf 0"]);
    assert_eq!(own.diameter(), Some(4));
    let shared = built(&format!(
        r#"{{{outer}, "nodes": {{"npus": 4, "nics": 2, "rate_per_npu": "450GB/s", "switches": 3, "pcie_rate": "64GB/s"}}}}"#
    ));
    assert_eq!((shared.npus(), shared.vertices()), (32, 32 + 24 + 16 + 4));
    assert!(hops(&shared, 0, 1).unwrap()[0].starts_with("NVSwitch"), "two links, as over the card");
    assert_eq!(hops(&shared, 0, 9).unwrap(), ["NIC 0", "leaf 0", "NIC 4", "NPU 9"]);
    assert_eq!(shared.diameter(), Some(6));
    let parts = shared.parts();
    assert_eq!(parts.level(shared.npus()).kind, VertexKind::Switch);
    let kinds: Vec<(LinkKind, u32)> = parts.tiers.iter().map(|tier| (tier.kind, tier.links / 2)).collect();
    assert_eq!(
        kinds,
        [(LinkKind::ScaleUp, 96), (LinkKind::Pcie, 32), (LinkKind::Host, 16), (LinkKind::Uplink, 4)]
    );
    assert_eq!(shared.link(LinkId(0)).rate, Rate(150 * 8_000_000_000));
}

/// NPUs of a node use its switches even if a path over a leaf, a switch or a router is no longer. They use
/// the network only if the links inside are cut.
#[test]
fn messages_within_a_node_stay_inside() {
    let node = r#""nodes": {"npus": 4, "rate": "450GB/s", "switches": 2}"#;
    for network in [
        r#"{"leaf_spine": {"leaves": 2, "hosts_per_leaf": 8, "spines": 2, "rate": "100Gb/s"}}"#,
        r#"{"switch": {"hosts": 16, "rate": "100Gb/s"}}"#,
        r#"{"fat_tree": {"k": 4, "rate": "100Gb/s"}}"#,
        r#"{"torus": {"sizes": [4, 4], "rate": "100Gb/s"}}"#,
        r#"{"hypercube": {"dimensions": 4, "rate": "100Gb/s"}}"#,
    ] {
        let fabric = built(&format!(r#"{{"network": {network}, {node}}}"#));
        let inside = |from: u32, to: u32| from != to && from / 4 == to / 4;
        for (from, to) in
            (0..16).flat_map(|from| (0..16).map(move |to| (from, to))).filter(|&(a, b)| inside(a, b))
        {
            let routes = (0..8).map(|lane| {
                let mut path = Vec::new();
                assert!(fabric.route(NpuId(from), NpuId(to), lane, &mut path));
                path
            });
            for path in routes.chain(fabric.routes(NpuId(from), NpuId(to), 0, 9)) {
                let over: Vec<String> =
                    path.iter().map(|&id| fabric.vertex_name(fabric.link(id).to)).collect();
                assert!(
                    over.len() == 2 && over[0].starts_with("NVSwitch"),
                    "{network}: {from} to {to} over {over:?}"
                );
            }
        }
        let cut = (0..fabric.links()).map(LinkId).filter(|&id| {
            let link = fabric.link(id);
            link.from == 0 && fabric.vertex_name(link.to).starts_with("NVSwitch")
        });
        let cut = cut.collect();
        let fabric = fabric.damaged(Default::default(), cut);
        let over = hops(&fabric, 0, 1).unwrap();
        assert!(!over[0].starts_with("NVSwitch"), "{network}: {over:?}");
        assert!(hops(&fabric, 2, 1).unwrap()[0].starts_with("NVSwitch"));
    }
}

/// Card i of every node is on leaf i: NPUs with the same number are two links apart, all others cross a
/// spine.
#[test]
fn rails_join_cards_of_one_number() {
    let rails = |spines: u32, forward: bool| {
        built(&format!(
            r#"{{"network": {{"leaf_spine": {{"leaves": 8, "hosts_per_leaf": 3, "spines": {spines}, "rate": "100Gb/s"}}}},
                "nodes": {{"npus": 4, "rate": "450GB/s", "rails": true, "forward": {forward}}}}}"#
        ))
    };
    let fabric = rails(2, false);
    assert_eq!(fabric.npus(), 24);
    for npu in 0..4 {
        assert_eq!(hops(&fabric, npu, 8 + npu).unwrap(), [format!("leaf {npu}"), format!("NPU {}", 8 + npu)]);
    }
    // Nodes 0 to 2 have leaves 0 to 3, nodes 3 to 5 the others.
    assert_eq!(hops(&fabric, 12, 20).unwrap()[0], "leaf 4");
    let over = hops(&fabric, 0, 9).unwrap();
    assert!(over[1].starts_with("spine") && over.len() == 4, "{over:?}");
    // Without spines, NPUs of other rails are reachable only if NPUs forward (Wang et al. 2023), inside
    // either node.
    let apart = rails(0, false);
    assert_eq!((hops(&apart, 0, 9), apart.reach(NpuId(0), false).unwrap()[9]), (None, false));
    let only = built(
        r#"{"network": {"leaf_spine": {"leaves": 4, "hosts_per_leaf": 3, "spines": 0, "rate": "100Gb/s"}},
            "nodes": {"npus": 4, "rate": "450GB/s", "rails": true, "forward": true}, "routing": "shortest"}"#,
    );
    assert_eq!(hops(&only, 0, 9).unwrap(), ["NVSwitch 0", "NPU 1", "leaf 1", "NPU 9"]);
    assert_eq!(only.diameter(), Some(4));
}

/// Any family may join nodes, and a torus of cards uses all paths except those through NPUs.
#[test]
fn nodes_are_joined_by_every_family() {
    for (network, npus) in [
        (r#"{"fat_tree": {"k": 4, "rate": "1Gb/s"}}"#, 16),
        (r#"{"dragonfly": {"p": 2, "a": 2, "h": 1, "rate": "1Gb/s"}}"#, 12),
        (r#"{"expander": {"switches": 6, "hosts_per_switch": 2, "degree": 3, "rate": "1Gb/s"}}"#, 12),
        (r#"{"expander": {"hosts": 8, "degree": 3, "rate": "1Gb/s"}}"#, 8),
        (r#"{"torus": {"sizes": [4, 3], "rate": "1Gb/s"}}"#, 12),
        (r#"{"mesh": {"sizes": [4, 3], "rate": "1Gb/s"}}"#, 12),
        (r#"{"hypercube": {"dimensions": 4, "rate": "1Gb/s"}}"#, 16),
        (r#"{"switch": {"hosts": 8, "rate": "1Gb/s"}}"#, 8),
    ] {
        for (nodes, times) in [
            (r#"{"npus": 2, "rate": "8Gb/s"}"#, 1),
            (r#"{"npus": 4, "nics": 2, "rate": "8Gb/s", "pcie_rate": "4Gb/s"}"#, 2),
            (r#"{"npus": 1, "nics": 2, "rate": "8Gb/s", "pcie_rate": "4Gb/s"}"#, 0),
        ] {
            let fabric = built(&format!(r#"{{"network": {network}, "nodes": {nodes}}}"#));
            let expected = if times == 0 { npus / 2 } else { npus * times };
            assert_eq!(fabric.npus(), expected, "{network} {nodes}");
            for npu in 0..fabric.npus() {
                let path = hops(&fabric, 0, npu);
                assert!(path.is_some(), "{network} {nodes}: to {npu}");
                let inner = times > 0 && npu > 0 && npu < 2 * times;
                // Routers of one node may also be neighbours.
                let path = path.unwrap();
                assert!(
                    !inner || path.len() < 2 || path[0].starts_with("NVSwitch"),
                    "{network} {nodes}: to {npu}"
                );
            }
        }
    }
}

/// Formulas for diameter and bisection agree with a search of the graph and with maximum flows between all
/// halves.
#[test]
fn formulas_agree_with_the_graph() {
    for json in [
        r#"{"fat_tree": {"k": 2, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 2, "hosts_per_leaf": 5, "spines": 3, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 4, "hosts_per_leaf": 3, "spines": 2, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 4, "hosts_per_leaf": 3, "spines": 1, "cables": 4, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 1, "hosts_per_leaf": 9, "spines": 1, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 2, "hosts_per_leaf": 3, "spines": 2, "pods": 2, "cores": 2, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 3, "hosts_per_leaf": 2, "spines": 1, "pods": 2, "cores": 5, "rate": "100Gb/s"}}"#,
        r#"{"leaf_spine": {"leaves": 1, "hosts_per_leaf": 3, "spines": 1, "pods": 4, "cores": 2, "rate": "100Gb/s"}}"#,
        r#"{"mesh": {"sizes": [4, 3], "rate": "100Gb/s"}}"#,
        r#"{"mesh": {"sizes": [2, 6], "rate": "100Gb/s"}}"#,
        r#"{"torus": {"sizes": [4, 3], "rate": "100Gb/s"}}"#,
        r#"{"torus": {"sizes": [6, 2], "rate": "100Gb/s"}}"#,
        r#"{"hypercube": {"dimensions": 3, "rate": "100Gb/s"}}"#,
        r#"{"switch": {"hosts": 7, "rate": "100Gb/s"}}"#,
    ] {
        let fabric = family(json);
        let plain = forgotten(&fabric);
        assert_eq!(fabric.diameter(), plain.diameter(), "{json}");
        let (formula, searched) = (fabric.bisection().unwrap(), plain.bisection().unwrap());
        assert_eq!((formula.method, searched.method), (Method::Formula, Method::AllHalves), "{json}");
        assert_eq!(formula.rate, searched.rate, "{json}");
    }
}

/// 65,536 hosts: routes are stored per switch, not per host.
#[test]
fn large_fat_trees_are_built_and_routed() {
    let tree = family(r#"{"fat_tree": {"k": 64, "rate": "100Gb/s"}}"#);
    assert_eq!(shape(&tree), (65_536, 5_120, 196_608, Some(6), Some(32_768)));
    let mut path = Vec::new();
    for host in (0..65_536).step_by(512) {
        path.clear();
        assert!(tree.route(NpuId(host), NpuId((host + 40_000) % 65_536), 0, &mut path));
        assert_eq!(path.len(), 6);
    }
}

#[test]
fn impossible_fabrics_name_their_key() {
    let cases = [
        (r#"{"network": {"fat_tree": {"k": 5, "rate": "1Gb/s"}}}"#, "network.fat_tree.k", "even number"),
        (r#"{"network": {"fat_tree": {"k": 0, "rate": "1Gb/s"}}}"#, "network.fat_tree.k", "even number"),
        (
            r#"{"network": {"fat_tree": {"k": 8, "oversubscription": 3, "rate": "1Gb/s"}}}"#,
            "network.fat_tree.oversubscription",
            "4 uplinks",
        ),
        (r#"{"network": {"fat_tree": {"k": 8, "rate": "0Gb/s"}}}"#, "network.fat_tree.rate", "above zero"),
        (r#"{"network": {"fat_tree": {"k": 4294967294, "rate": "1Gb/s"}}}"#, "network.fat_tree", "too large"),
        (
            r#"{"network": {"leaf_spine": {"leaves": 4294967295, "hosts_per_leaf": 4294967295, "spines": 4294967295,
                "pods": 4294967295, "cores": 4294967295, "cables": 4294967295, "rate": "1Gb/s"}}}"#,
            "network.leaf_spine",
            "too large",
        ),
        (
            r#"{"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 2, "spines": 2, "cores": 2, "rate": "1Gb/s"}}}"#,
            "network.leaf_spine.cores",
            "one pod",
        ),
        (
            r#"{"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 2, "spines": 2, "pods": 2, "cores": 3,
                "rate": "1Gb/s"}}}"#,
            "network.leaf_spine.cores",
            "planes",
        ),
        (
            r#"{"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 0, "spines": 2, "rate": "1Gb/s"}}}"#,
            "network.leaf_spine.hosts_per_leaf",
            "too small",
        ),
        (
            r#"{"network": {"dragonfly": {"p": 2, "a": 4, "h": 2, "groups": 10, "rate": "1Gb/s"}}}"#,
            "network.dragonfly.groups",
            "8 global links",
        ),
        (
            r#"{"network": {"dragonfly": {"p": 4294967295, "a": 4294967295, "h": 4294967295, "rate": "1Gb/s"}}}"#,
            "network.dragonfly",
            "too large",
        ),
        (
            r#"{"network": {"expander": {"hosts": 7, "degree": 3, "rate": "1Gb/s"}}}"#,
            "network.expander.degree",
            "odd",
        ),
        (
            r#"{"network": {"expander": {"hosts": 8, "degree": 8, "rate": "1Gb/s"}}}"#,
            "network.expander.degree",
            "7 others",
        ),
        (
            r#"{"network": {"expander": {"hosts": 8, "degree": 1, "rate": "1Gb/s"}}}"#,
            "network.expander.degree",
            "joined",
        ),
        (
            r#"{"network": {"expander": {"hosts": 8, "switches": 2, "degree": 1, "rate": "1Gb/s"}}}"#,
            "network.expander.hosts",
            "either",
        ),
        (r#"{"network": {"mesh": {"sizes": [], "rate": "1Gb/s"}}}"#, "network.mesh.sizes", "at least one"),
        (r#"{"network": {"mesh": {"sizes": [70000, 70000], "rate": "1Gb/s"}}}"#, "network.mesh", "too large"),
        (
            r#"{"network": {"hypercube": {"dimensions": 25, "rate": "1Gb/s"}}}"#,
            "network.hypercube.dimensions",
            "hypercube",
        ),
        (r#"{"network": {"switch": {"hosts": 0, "rate": "1Gb/s"}}}"#, "network.switch.hosts", "too small"),
        (
            r#"{"network": {"switch": {"hosts": 9, "rate": "1Gb/s"}}, "nodes": {"npus": 4, "rate": "1Gb/s"}}"#,
            "nodes.nics",
            "whole number of nodes",
        ),
        (
            r#"{"network": {"switch": {"hosts": 8, "rate": "1Gb/s"}}, "nodes": {"npus": 4, "nics": 3, "rate": "1Gb/s"}}"#,
            "nodes.nics",
            "evenly",
        ),
        (
            r#"{"network": {"switch": {"hosts": 8, "rate": "1Gb/s"}}, "nodes": {"npus": 4, "nics": 2, "rate": "1Gb/s"}}"#,
            "nodes.pcie_rate",
            "share",
        ),
        (
            r#"{"network": {"torus": {"sizes": [8], "rate": "1Gb/s"}}, "nodes": {"npus": 1, "nics": 2, "rate": "1Gb/s"}}"#,
            "nodes.nics",
            "are routers",
        ),
        (
            r#"{"network": {"switch": {"hosts": 8, "rate": "1Gb/s"}}, "nodes": {"npus": 4}}"#,
            "nodes.rate",
            "given once",
        ),
        (
            r#"{"network": {"switch": {"hosts": 8, "rate": "1Gb/s"}}, "nodes": {"npus": 4, "rate": "1Gb/s", "rails": true}}"#,
            "nodes.rails",
            "a leaf of its own",
        ),
        (
            r#"{"network": {"torus": {"sizes": [8], "rate": "1Gb/s"}}, "nodes": {"npus": 4, "rate": "1Gb/s", "rails": true}}"#,
            "nodes.rails",
            "need leaves",
        ),
        (
            r#"{"network": {"switch": {"hosts": 8, "rate": "1Gb/s"}}, "routing": "dimension_order"}"#,
            "routing",
            "dimension-order routing",
        ),
        (
            r#"{"network": {"switch": {"hosts": 8, "rate": "1Gb/s"}}, "routing": {"explicit": [["NPU 0", "leaf 0", "NPU 1"]]}}"#,
            "routing.explicit.0.1",
            "no such vertex",
        ),
    ];
    for (json, key, message) in cases {
        let error = refused(json);
        assert_eq!(error.key.as_deref(), Some(&*format!("fabric.built.{key}")), "{json}");
        assert!(error.message.contains(message), "{json}: {}", error.message);
        assert!(error.help.is_some() || error.allowed.is_some() || error.found.is_some(), "{json}");
    }
}

#[test]
fn explicit_paths_use_vertex_names() {
    let fabric = built(
        r#"{"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 1, "spines": 2, "rate": "1Gb/s"}},
            "routing": {"explicit": [["NPU 0", "leaf 0", "spine 1", "3", "NPU 1"]]}}"#,
    );
    assert_eq!(hops(&fabric, 0, 1).unwrap(), ["leaf 0", "spine 1", "leaf 1", "NPU 1"]);
    assert_eq!(hops(&fabric, 1, 0).unwrap()[1], "spine 0");
}

proptest! {
    /// With nodes on any family, the walk agrees with the routes of flows: the longest is the diameter, no
    /// NPU is on the way, and no shared card joins two NPUs.
    #[test]
    fn routes_of_nodes_are_shortest(
        which in 0usize..5, npus in 1u32..5, share in 0u32..3, rails: bool, hashed: bool, switches in 1u32..3
    ) {
        let network = [
            r#"{"leaf_spine": {"leaves": 4, "hosts_per_leaf": 4, "spines": 2, "rate": "1Gb/s"}}"#,
            r#"{"dragonfly": {"p": 2, "a": 4, "h": 1, "rate": "1Gb/s"}}"#,
            r#"{"torus": {"sizes": [4, 4], "rate": "1Gb/s"}}"#,
            r#"{"hypercube": {"dimensions": 4, "rate": "1Gb/s"}}"#,
            r#"{"fat_tree": {"k": 4, "rate": "1Gb/s"}}"#,
        ][which];
        let nics = [npus, 2 * npus, npus.div_ceil(2)][share as usize];
        let pcie = if nics < npus { r#", "pcie_rate": "4Gb/s""# } else { "" };
        let routing = if hashed { r#"{"ecmp": {"seed": 5}}"# } else { r#""shortest""# };
        let json = format!(
            r#"{{"network": {network}, "routing": {routing},
                "nodes": {{"npus": {npus}, "nics": {nics}, "switches": {switches}, "rate": "8Gb/s", "rails": {rails}{pcie}}}}}"#
        );
        let Ok(fabric) = build(&serde_json::from_str(&json).unwrap(), 1) else { return Ok(()) };
        let mut longest = 0;
        for (from, to) in (0..fabric.npus()).flat_map(|a| (0..fabric.npus()).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let mut path = Vec::new();
            prop_assert!(fabric.route(NpuId(from), NpuId(to), 3, &mut path));
            longest = longest.max(path.len());
            let over: Vec<u32> = path[..path.len() - 1].iter().map(|&id| fabric.link(id).to).collect();
            let direct = [2, 3].contains(&which) && pcie.is_empty();
            prop_assert!(direct || over.iter().all(|&vertex| vertex >= fabric.npus()), "{:?}", over);
            prop_assert!(over.len() != 1 || pcie.is_empty() || fabric.vertex_name(over[0]).starts_with("NVSwitch"));
            for other in fabric.routes(NpuId(from), NpuId(to), 3, 8) {
                prop_assert_eq!(other.len(), path.len());
            }
        }
        if fabric.npus() > 1 {
            prop_assert_eq!(fabric.diameter(), Some(longest as u32));
        }
    }
}

#[test]
fn tiers_have_efficiencies_of_their_own() {
    let of = |efficiencies: &str, nodes: &str| {
        built(&format!(
            r#"{{"network": {{"leaf_spine": {{"leaves": 2, "hosts_per_leaf": 2, "spines": 2, "pods": 2, "cores": 2,
            "rate": "100Gb/s", "uplink_rate": "200Gb/s"{efficiencies}}}}},
            "nodes": {{"npus": 2, "rate": "400Gb/s", "nics": 1, "pcie_rate": "500Gb/s"{nodes}}}}}"#
        ))
    };
    let rates = |fabric: &Fabric| {
        let tiers = fabric.parts().into_owned().tiers;
        let of = |tier: &crate::parts::Tier| {
            let gigabits = |rate: Rate| rate.0 / 1_000_000_000;
            (gigabits(fabric.link(LinkId(tier.first)).rate), gigabits(tier.wire_rate.unwrap()))
        };
        tiers.iter().map(of).collect::<Vec<_>>()
    };
    let whole = [(400, 400), (500, 500), (100, 100), (200, 200), (200, 200)];
    assert_eq!(rates(&of("", "")), whole);
    // Higher tiers inherit the efficiency of the tier below, as they inherit its rate.
    let half = [(400, 400), (500, 500), (50, 100), (100, 200), (100, 200)];
    assert_eq!(rates(&of(r#", "efficiency": 0.5"#, "")), half);
    let each = r#", "efficiency": 0.9, "uplink_efficiency": 0.8, "core_efficiency": 0.7"#;
    let inside = r#", "efficiency": 0.6, "pcie_efficiency": 0.5"#;
    assert_eq!(rates(&of(each, inside)), [(240, 400), (250, 500), (90, 100), (160, 200), (140, 200)]);
    for wrong in ["0.0", "1.1", "-1.0"] {
        let spec =
            format!(r#"{{"network": {{"switch": {{"hosts": 2, "rate": "1Gb/s", "efficiency": {wrong}}}}}}}"#);
        assert!(serde_json::from_str::<BuiltSpec>(&spec).is_err(), "{wrong}");
    }
}
