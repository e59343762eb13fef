//! Closed forms against counting, and the papers' numbers against both.

use std::sync::Arc;
use syncline_plan::compose::{Composition, Grid};
use syncline_plan::cost::{
    chain, closed_form, count, least_bytes, lower_bound, phase_bytes, synchronous_time,
};
use syncline_plan::program::Algorithm;
use syncline_plan::registry::{ENTRIES, by_name};
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

/// The names of the library, with parameters that change costs.
fn library() -> Vec<&'static str> {
    let more = [
        "tree(fan_out=1)",
        "tree(fan_out=4)",
        "bcube(base=3)",
        "parameter_server(hubs=3)",
        "parameter_server(placement=NCS, hubs=2)",
        "two_level(group=3)",
    ];
    ENTRIES.iter().flat_map(|entry| entry.examples).copied().chain(more).collect()
}

#[test]
fn closed_forms_equal_counts() {
    let mut total = 0;
    for name in library() {
        let algorithm = by_name(name).unwrap();
        for &kind in CollectiveKind::ALL {
            let mut compared = 0;
            for ranks in 1..=40 {
                let Some(form) = closed_form(&*algorithm, kind, ranks) else { continue };
                let vector = Bytes(u64::from(ranks) * 6 * 32);
                let counted = count(&*algorithm, kind, ranks, vector, |_| 0).unwrap();
                let times = |factor: f64| Bytes((factor * vector.0 as f64).round() as u64);
                let what = format!("{name} {kind} {ranks}");
                assert_eq!(counted.rounds, form.rounds, "{what}");
                assert_eq!(counted.wire, times(form.wire), "{what}");
                assert_eq!(counted.sent.iter().max(), Some(&times(form.sent)), "{what}");
                compared += 1;
            }
            let offered = (1..=40).filter(|&ranks| algorithm.offers(kind, ranks).is_ok()).count();
            assert!(compared > 1 || offered <= 1, "{name} declares no closed form of {kind}");
            total += compared;
        }
    }
    // Forms that become `None` for most numbers of ranks would go unnoticed above.
    assert!(total > 1400, "{total}");
}

/// If ranks are alike, the program of one rank determines the rounds of all.
#[test]
fn chains_of_alike_ranks_equal_counted_rounds() {
    let mut compared = 0;
    for name in library() {
        let algorithm = by_name(name).unwrap();
        for &kind in CollectiveKind::ALL {
            for ranks in 2..=40 {
                if algorithm.offers(kind, ranks).is_err() {
                    continue;
                }
                let Some(rounds) = chain(&*algorithm, kind, ranks, 1 << 20, 1, |_| 1) else { continue };
                let counted = count(&*algorithm, kind, ranks, Bytes(1 << 20), |_| 0).unwrap();
                assert_eq!(rounds, u64::from(counted.rounds), "{name} {kind} {ranks}");
                // A rank cannot have sent or received more on the chain than in total.
                let bytes = chain(&*algorithm, kind, ranks, 1 << 20, 1, |bytes| bytes.0).unwrap();
                assert!(bytes > 0 && bytes <= counted.busiest().0, "{name} {kind} {ranks}");
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

/// A row of luo2020 Table 4.1: rounds, and bytes on the wire and between racks as multiples of the vector.
struct Printed {
    rounds: f64,
    wire: f64,
    across: f64,
}

/// luo2020 Table 4.1 as printed, for racks ("C") of nodes ("N"): sharded parameter server, halving doubling, ring, tree,
/// two levels.
fn luo2020_table_4_1(nodes: u32, racks: u32) -> [Printed; 5] {
    let (n, c) = (f64::from(nodes), f64::from(racks));
    let row = |rounds, wire, across| Printed { rounds, wire, across };
    [
        row(2.0, 2.0 * (n * c - 1.0), 2.0 * n * (c - 1.0)),
        row(2.0 * (n * c).log2(), 2.0 * n * c, 2.0 * c * (n - 1.0) / n),
        row(2.0 * n * c - 1.0, 2.0 * n * c - 1.0, 2.0 * c - 1.0),
        row(2.0 * (n.log(c) + 1.0), 2.0 * c * (c * n - 1.0) / (c - 1.0), 2.0 * c * (n - 1.0) / (c - 1.0)),
        row(4.0, 2.0 * (n * c - 1.0), 2.0 * (c - 1.0)),
    ]
}

/// claims.csv luo-02: the printed table next to the plans, for racks numbered one after another.
#[test]
fn luo2020_table_4_1_agrees_with_the_plans() {
    for (nodes, racks) in [(2, 2), (4, 2), (4, 4), (8, 4), (2, 8), (16, 4)] {
        let ranks = nodes * racks;
        let vector = Bytes(u64::from(ranks) * 1000);
        let counted = |name: &str| {
            let algorithm = by_name(name).unwrap();
            let found =
                count(&*algorithm, CollectiveKind::AllReduce, ranks, vector, |rank| rank / nodes).unwrap();
            let share = |bytes: Bytes| bytes.0 as f64 / vector.0 as f64;
            (f64::from(found.rounds), share(found.wire), share(found.across))
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let [server, halving, ring, tree, two_level] = luo2020_table_4_1(nodes, racks);
        let (n, c) = (f64::from(nodes), f64::from(racks));
        let all = n * c;

        let (rounds, wire, across) = counted("parameter_server(placement=CS)");
        assert!(close(rounds, server.rounds) && close(wire, server.wire) && close(across, server.across));

        let (rounds, wire, across) = counted(&format!("two_level(group={nodes})"));
        assert!(close(rounds, two_level.rounds) && close(wire, two_level.wire));
        assert!(close(across, two_level.across));

        // Bytes on wire are rounded up in print; between racks, print and plan agree for N = C only.
        let (rounds, wire, across) = counted("halving_doubling");
        assert!(close(rounds, halving.rounds));
        assert!(close(wire, 2.0 * (all - 1.0)) && close(halving.wire, wire + 2.0));
        assert!(close(across, 2.0 * (c - 1.0)));
        assert_eq!(close(across, halving.across), nodes == racks);

        // One round more in print.
        let (rounds, wire, across) = counted("ring");
        assert!(close(rounds, 2.0 * (all - 1.0)) && close(ring.rounds, rounds + 1.0));
        assert!(close(wire, 2.0 * (all - 1.0)) && close(ring.wire, wire + 1.0));
        assert!(close(across, 2.0 * (all - 1.0) / n));
        assert!(close(ring.across - across, 2.0 / n - 1.0));

        // Any tree has NC - 1 edges, at least C - 1 of them between racks; the printed bytes are estimates, too high on
        // the wire, and too low for any tree between racks where C(N-1) < (C-1)^2.
        let (rounds, wire, across) = counted(&format!("tree(fan_out={racks})"));
        assert!(close(wire, 2.0 * (all - 1.0)) && close(tree.wire, wire * c / (c - 1.0)));
        assert!(across >= 2.0 * (c - 1.0));
        let too_low = racks * (nodes - 1) < (racks - 1).pow(2);
        assert_eq!(tree.across < 2.0 * (c - 1.0), too_low);
        let power_of_racks = racks.pow(nodes.ilog(racks)) == nodes;
        assert_eq!(close(rounds, tree.rounds), power_of_racks, "{nodes} {racks}");
    }
}

fn ring(_: usize, _: CollectiveKind) -> Arc<dyn Algorithm> {
    by_name("ring").unwrap()
}

/// Bytes that a position sends over all phases on the axes for which `of` is true, as a multiple of the vector.
fn sent(composition: Composition, sizes: &[u32], of: impl Fn(usize) -> bool) -> f64 {
    let grid = Grid::new(sizes).unwrap();
    let vector = Bytes(u64::from(grid.positions()) * 1024);
    let phases = composition.phases(CollectiveKind::AllReduce, &grid);
    let bytes = phase_bytes(&phases, &grid, grid.positions() - 1, vector, ring);
    let chosen = phases.iter().zip(bytes).filter(|(phase, _)| of(phase.axis)).map(|(_, bytes)| bytes.0);
    chosen.sum::<u64>() as f64 / vector.0 as f64
}

/// claims.csv astra-03: bytes sent per NPU in baseline all-reduce over 64 packages.
#[test]
fn bytes_per_npu_match_astra2020() {
    let baseline = |sizes: &[u32]| sent(Composition::Baseline, sizes, |_| true);
    assert_eq!(baseline(&[1, 64, 1]), 126.0 / 64.0);
    assert_eq!(baseline(&[1, 8, 8]), 28.0 / 8.0);
    assert_eq!(baseline(&[4, 4, 4]), 36.0 / 8.0);
    // The text gives no number for 2x8x4; the same sum is (1/2 + 7/8 + 3/4) * 2.
    assert_eq!(baseline(&[2, 8, 4]), 34.0 / 8.0);
}

/// claims.csv astra-07: enhanced sends a quarter of baseline's bytes between packages of 4.
#[test]
fn enhanced_sends_a_quarter_of_the_bytes_between_packages() {
    let between = |composition| sent(composition, &[4, 4, 4], |axis| axis > 0);
    assert_eq!(between(Composition::Baseline) / between(Composition::Enhanced), 4.0);
}

/// claims.csv dlrm-14: steps of an all-reduce, flat and with a direct local dimension.
#[test]
fn steps_of_an_all_reduce_match_dlrm2020() {
    let rounds = |name: &str, kind, ranks| {
        count(&*by_name(name).unwrap(), kind, ranks, Bytes(1 << 20), |_| 0).unwrap().rounds
    };
    assert_eq!(rounds("double_binary_tree", CollectiveKind::AllReduce, 128), 14);
    let grid = Grid::new(&[8, 16]).unwrap();
    for composition in [Composition::Hierarchical, Composition::HierarchicalOptimal] {
        let steps: u32 = composition
            .phases(CollectiveKind::AllReduce, &grid)
            .into_iter()
            .map(|phase| rounds(["direct", "double_binary_tree"][phase.axis], phase.kind, phase.size))
            .sum();
        assert_eq!(steps, 10);
    }
}

#[test]
fn no_plan_needs_less_than_least_bytes() {
    for algorithm in ENTRIES.iter().flat_map(|entry| entry.examples).map(|name| by_name(name).unwrap()) {
        for &kind in CollectiveKind::ALL {
            for ranks in (1..=32).filter(|&ranks| algorithm.offers(kind, ranks).is_ok()) {
                let vector = Bytes(u64::from(ranks) * 840);
                let counted = count(&*algorithm, kind, ranks, vector, |_| 0).unwrap();
                let least = least_bytes(kind, ranks, algorithm.seats(ranks) > ranks, vector);
                assert!(counted.busiest() >= least, "{} {kind} {ranks}", algorithm.name());
            }
        }
    }
}

#[test]
fn a_ring_takes_its_rounds_and_bytes_and_has_a_lower_bound() {
    let (alpha, rate, vector) =
        (Time::from_ns(500), Rate::from_bytes_per_s(25_000_000_000), Bytes(8_000_000));
    let counted = count(&*ring(0, CollectiveKind::AllReduce), CollectiveKind::AllReduce, 8, vector, |_| 0);
    let counted = counted.unwrap();
    let time = synchronous_time(counted.rounds, counted.sent[0], alpha, rate).unwrap();
    assert_eq!(time, Time::from_ns(14 * 500 + 560_000));
    let bound = lower_bound(CollectiveKind::AllReduce, 8, false, vector, alpha, rate).unwrap();
    assert_eq!(bound, Time::from_ns(500 + 560_000));
    assert_eq!(lower_bound(CollectiveKind::AllReduce, 1, false, vector, alpha, rate), Some(Time::ZERO));
    assert_eq!(lower_bound(CollectiveKind::AllReduce, 2, false, vector, alpha, Rate(0)), None);
}
