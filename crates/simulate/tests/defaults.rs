//! Compares the algorithms chosen by default with simulations of every algorithm of the library.
//!
//! `cargo test -p syncline-simulate --test all defaults:: -- --ignored` tries every size and number of ranks.

use crate::support::library::{Case, dim};
use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_units::CollectiveKind;

/// A default may take at most this many times as long as the best of the library.
const WORSE: f64 = 1.05;
/// The same limit on graphs, where only trees and chains are routed for their estimates.
const WORSE_ON_GRAPHS: f64 = 1.1;

/// In one dimension, estimates are less accurate for reduces, and for rings in which each message passes many NPUs.
/// There, this many of a hundred cases may take longer, but at most this many times as long as the best.
const FEW: usize = 2;
const WORST: f64 = 1.25;

/// Panics with a list of the cases whose default takes longer than `most` times the best.
fn none_is_worse(most: f64, cases: impl Iterator<Item = Case>) {
    few_are_worse(most, 0, most, cases);
}

/// Panics if the default takes longer than `most` times the best in more than `few` of a hundred cases, or longer than
/// `worst` times in any.
fn few_are_worse(most: f64, few: usize, worst: f64, cases: impl Iterator<Item = Case>) {
    let mut count = 0;
    let mut far = false;
    let mut worse = Vec::new();
    for case in cases {
        let (best, how) = case.best();
        let chosen = case.default_time();
        count += 1;
        far |= chosen > best * worst;
        if chosen > best * most {
            worse.push(format!(
                "{:.3} {case}: {how} takes {best:e} s, the default {chosen:e} s",
                chosen / best
            ));
        }
    }
    assert!(!far && worse.len() * 100 <= few * count, "{} of {count}\n{}", worse.len(), worse.join("\n"));
}

/// Every collective over one dimension.
fn in_one_dimension(ranks: &[u32], sizes: &[u64]) -> impl Iterator<Item = Case> {
    let shapes = ["switch", "fully_connected", "ring"].into_iter();
    shapes.flat_map(move |shape| {
        let cases = ranks.iter().flat_map(move |&ranks| sizes.iter().map(move |&bytes| (ranks, bytes)));
        cases.flat_map(move |(ranks, bytes)| {
            CollectiveKind::ALL.iter().map(move |&kind| Case {
                model: model(shape),
                ..Case::new(kind, bytes, json!({"dims": [dim("d", shape, ranks, "50GB/s")]}))
            })
        })
    })
}

/// The network model for the comparison. In a ring, one in which messages wait for busy links but are not stored
/// completely at each hop, just as packets are not.
fn model(shape: &str) -> Value {
    json!({"model": if shape == "ring" { "flow" } else { "analytical" }})
}

#[test]
fn a_default_is_as_good_as_the_best_of_the_library() {
    few_are_worse(
        WORSE,
        FEW,
        WORST,
        in_one_dimension(&[3, 6, 8, 13, 16, 24], &[1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 26]),
    );
}

#[test]
#[ignore = "takes minutes"]
fn every_default_is_as_good_as_the_best_of_the_library() {
    let ranks: Vec<u32> = (2..=33).chain([48, 64]).collect();
    let sizes: Vec<u64> = [2, 10, 12, 14, 16, 18, 20, 22, 23, 24, 25, 26, 30].map(|power| 1 << power).into();
    few_are_worse(WORSE, FEW, WORST, in_one_dimension(&ranks, &sizes));
}

/// Two rings, two links to each NPU, or two switches.
#[test]
fn a_default_over_several_links_is_as_good_as_the_best() {
    let shapes = [("ring", 4), ("ring", 7), ("fully_connected", 5), ("switch", 4), ("switch", 9)];
    let cases = shapes.into_iter().flat_map(|(shape, ranks)| {
        [1 << 12, 1 << 17, 1 << 20, 1 << 23, 1 << 27].into_iter().flat_map(move |bytes| {
            let mut dim = dim("d", shape, ranks, "50GB/s");
            dim["count"] = json!(2);
            let fabric = json!({"dims": [dim]});
            CollectiveKind::ALL
                .iter()
                .map(move |&kind| Case { model: model(shape), ..Case::new(kind, bytes, fabric.clone()) })
        })
    });
    // Broadcasts and reduces are up to 11 % slower than the best.
    few_are_worse(WORSE, 10, 1.12, cases);
}

/// No all-reduce behind a switch takes less than 2 S (N - 1) / (N B) (Patarasuk and Yuan, JPDC 2009); a ring reaches
/// that plus its latency.
#[test]
fn large_all_reduces_reach_the_bound_of_a_switch() {
    for ranks in 2..=33u32 {
        let bytes = 64_000_000;
        let fabric = json!({"dims": [dim("d", "switch", ranks, "50GB/s")]});
        let time = Case::new(CollectiveKind::AllReduce, bytes, fabric).default_time();
        let least = 2.0 * bytes as f64 * f64::from(ranks - 1) / f64::from(ranks) / 50e9;
        assert!(time >= least && time < least * WORSE, "{ranks}: {time:e} s, the bound is {least:e} s");
    }
}

/// Shapes of several dimensions, with every composition and every combination of algorithms.
fn in_several_dimensions(sizes: &[u64], algorithms: &'static [&'static str]) -> impl Iterator<Item = Case> {
    let shapes = [
        [("switch", 3, "50GB/s"), ("switch", 5, "50GB/s")].as_slice(),
        &[("switch", 8, "200GB/s"), ("switch", 6, "25GB/s")],
        &[("fully_connected", 4, "100GB/s"), ("switch", 7, "25GB/s")],
        &[("ring", 4, "100GB/s"), ("switch", 6, "50GB/s")],
        &[("ring", 4, "50GB/s"), ("ring", 6, "50GB/s")],
        &[("ring", 4, "100GB/s"), ("fully_connected", 3, "50GB/s"), ("switch", 5, "25GB/s")],
    ];
    shapes.into_iter().flat_map(move |shape| {
        let dims: Vec<Value> = (0..)
            .zip(shape)
            .map(|(i, &(kind, size, rate))| dim(&format!("d{i}"), kind, size, rate))
            .collect();
        let fabric = json!({"dims": dims});
        let has_ring = shape.iter().any(|dim| dim.0 == "ring");
        sizes.iter().flat_map(move |&bytes| {
            let fabric = fabric.clone();
            CollectiveKind::ALL.iter().map(move |&kind| Case {
                algorithms: Some(algorithms),
                model: model(if has_ring { "ring" } else { "switch" }),
                ..Case::new(kind, bytes, fabric.clone())
            })
        })
    })
}

#[test]
fn defaults_over_several_dimensions_are_as_good_as_the_best() {
    none_is_worse(WORSE, in_several_dimensions(&[1 << 16, 1 << 26], &["ring", "direct", "halving_doubling"]));
}

#[test]
#[ignore = "takes minutes"]
fn every_default_over_several_dimensions_is_as_good_as_the_best() {
    let algorithms = &[
        "ring",
        "direct",
        "direct(window=1)",
        "halving_doubling",
        "tree(shape=binomial)",
        "double_binary_tree",
    ];
    none_is_worse(
        WORSE,
        in_several_dimensions(&[1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 26, 1 << 30], algorithms),
    );
}

/// Nodes of several NPUs on rails, and below the leaves of one network with half as many uplinks as hosts.
fn on_graphs(sizes: &[u64]) -> impl Iterator<Item = Case> {
    let graph = |leaves: u32, hosts: u32, spines: u32, rails: bool| {
        json!({"built": {
            "network": {"leaf_spine": {"leaves": leaves, "hosts_per_leaf": hosts, "spines": spines, "rate": "400Gb/s",
                "latency": "500ns"}},
            "nodes": {"npus": 4, "rate_per_npu": "450GB/s", "latency": "250ns", "rails": rails}}})
    };
    let plain = json!({"built": {"network": {"leaf_spine": {"leaves": 3, "hosts_per_leaf": 4, "spines": 2, "rate": "100Gb/s",
        "latency": "500ns"}}}});
    let graphs = [graph(4, 6, 2, true), graph(4, 6, 6, false), graph(4, 6, 3, false), plain];
    graphs.into_iter().flat_map(move |fabric| {
        let kinds = CollectiveKind::ALL.iter().copied().filter(|&kind| kind != CollectiveKind::AllToAll);
        sizes.iter().flat_map(move |&bytes| {
            let fabric = fabric.clone();
            kinds.clone().map(move |kind| Case {
                model: json!({"model": "flow"}),
                ..Case::new(kind, bytes, fabric.clone())
            })
        })
    })
}

#[test]
fn defaults_on_graphs_are_as_good_as_the_best() {
    none_is_worse(WORSE_ON_GRAPHS, on_graphs(&[1 << 16, 1 << 26]));
}

#[test]
#[ignore = "takes minutes"]
fn every_default_on_graphs_is_as_good_as_the_best() {
    none_is_worse(WORSE_ON_GRAPHS, on_graphs(&[1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 26, 1 << 30]));
}

/// Ranks placed in an order different from that of NPUs, so that messages to the next rank cross the fabric too.
#[test]
fn defaults_of_permuted_ranks_are_near_the_best() {
    let graphs = [
        json!({"built": {"network": {"leaf_spine": {"leaves": 4, "hosts_per_leaf": 4, "spines": 4, "rate": "100Gb/s",
            "latency": "500ns"}}}}),
        json!({"built": {"network": {"fat_tree": {"k": 4, "rate": "100Gb/s", "latency": "500ns"}}}}),
    ];
    // Steps of 7 visit all 16 NPUs: the numbers have no divisor in common.
    let cases = graphs.into_iter().flat_map(|fabric| {
        [1 << 20, 1 << 26].into_iter().flat_map(move |bytes| {
            let fabric = fabric.clone();
            CollectiveKind::ALL.iter().map(move |&kind| Case {
                model: json!({"model": "flow"}),
                placement: Some((0..16).map(|rank| rank * 7 % 16).collect()),
                ..Case::new(kind, bytes, fabric.clone())
            })
        })
    });
    none_is_worse(WORSE_ON_GRAPHS, cases);
}

/// Behind 2:1 leaves, a chain of 32 hosts takes a third longer than a double tree, whose messages meet on the way up.
#[test]
fn a_large_broadcast_on_a_leaf_spine_goes_along_the_tree_that_packets_prefer() {
    let fabric = json!({"built": {"network": {"leaf_spine": {"leaves": 4, "hosts_per_leaf": 8, "spines": 4,
        "rate": "100Gb/s", "latency": "500ns"}}}});
    for kind in [CollectiveKind::Broadcast, CollectiveKind::Reduce] {
        let model = json!({"model": "packet", "transport": "rdma", "buffer": "64MiB"});
        let case = Case { model, ..Case::new(kind, 1 << 21, fabric.clone()) };
        let time = |name| case.run(&case.uniform(name)).unwrap().timeline.summary.total_time_s;
        let best = time(Some("ring")).min(time(Some("double_binary_tree")));
        assert!(time(None) <= best * WORSE, "{kind}: {:e} s, the best {best:e} s", time(None));
    }
}

/// On a network that drops packets, no default makes a connection wait for a time-out.
#[test]
fn defaults_do_not_collapse_if_packets_are_lost() {
    let star = json!({"dims": [dim("d", "switch", 16, "100Gb/s")]});
    let timeouts = |kind, name| {
        let model = json!({"model": "packet", "buffer": "2MiB"});
        let case = Case { model, ..Case::new(kind, 4_000_000, star.clone()) };
        case.run(&case.uniform(name)).unwrap().timeline.summary.packets.map_or(0, |packets| packets.timeouts)
    };
    for &kind in CollectiveKind::ALL {
        assert_eq!(timeouts(kind, None), 0, "{kind}");
    }
    let lost = timeouts(CollectiveKind::Reduce, Some("direct"));
    assert!(lost > 0, "the buffer is small enough for incast to overflow it");
}

/// Direct is quickest for small collectives, halving-doubling for medium ones, a ring for large ones. All algorithms of
/// a job along an axis share one turn, so that one rank represents all.
#[test]
fn one_rank_represents_all_if_algorithms_are_defaults() {
    // Each of four chunks has a whole number of elements for each rank.
    let reduce = |units: u64| json!({"kind": "all_reduce", "bytes": format!("{}B", units * 24_576)});
    for (shape, size) in [("switch", 8), ("switch", 24), ("ring", 16), ("switch", 128)] {
        let value = json!({
            "schema": "syncline/1",
            "workload": {"source": "collectives",
                "collectives": [reduce(1), reduce(40), reduce(43_690), reduce(43_690)]},
            "collectives": {"chunks": 4},
            "fabric": {"dims": [dim("d", shape, size, "50GB/s")]},
        });
        let scenario: Scenario = serde_json::from_value(value).unwrap();
        let summary = run(&scenario, Control::default()).unwrap().timeline.summary;
        assert_eq!(summary.simulated_ranks, 1, "{shape} of {size}");
    }
}
