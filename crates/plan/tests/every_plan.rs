//! Every algorithm of the registry is, for every collective and every number of ranks from 1 to 64, either proved or
//! refused by name. The same holds for compositions on grids, vectors that do not divide evenly, and the materialised
//! form.

use std::sync::Arc;
use syncline_diagnostics::Code;
use syncline_plan::compose::{Composition, Grid};
use syncline_plan::program::{Algorithm, Op, Seat, program};
use syncline_plan::registry::{ENTRIES, by_name, for_dimension};
use syncline_plan::verify::{verify, verify_composition, verify_cut};
use syncline_units::{CollectiveKind, DimKind, Turn};

fn examples() -> impl Iterator<Item = Arc<dyn Algorithm>> {
    ENTRIES.iter().flat_map(|entry| entry.examples).map(|example| by_name(example).unwrap())
}

/// Whether an algorithm offers a collective for a number of ranks, as `docs/reference/collectives.md` says.
fn is_documented(name: &str, kind: CollectiveKind, ranks: u32) -> bool {
    use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let powers = |base: u32| std::iter::successors(Some(1), move |power| Some(power * base)).take(8);
    let (kinds, sizes): (&[CollectiveKind], bool) = match name {
        _ if name == "ring" || name.starts_with("direct") => (CollectiveKind::ALL, true),
        "halving_doubling" => (&[AllReduce, ReduceScatter, AllGather], true),
        "double_binary_tree" => (&[AllReduce, Broadcast, Reduce], true),
        "double_binary_tree(strides=1+3)" => (&[AllReduce, Broadcast, Reduce], !ranks.is_multiple_of(3)),
        _ if name.starts_with("tree") => (&[AllReduce, Broadcast, Reduce], true),
        _ if name.starts_with("bcube") => {
            // If the name has no parameter, the base is 4.
            let base = name
                .strip_prefix("bcube(base=")
                .map_or(4, |rest| rest.trim_end_matches(')').parse().unwrap());
            (&[AllReduce, ReduceScatter, AllGather], powers(base).any(|power| power == ranks))
        }
        "multi_ring(strides=1+5+7)" => (&[AllReduce], !ranks.is_multiple_of(5) && !ranks.is_multiple_of(7)),
        "multi_ring(strides=1+1+3)" => (&[AllReduce], !ranks.is_multiple_of(3)),
        // Each of three hubs needs a rank.
        "parameter_server(placement=CS, hubs=3)" => (&[AllReduce], ranks >= 3),
        _ => (&[AllReduce], true),
    };
    sizes && kinds.contains(&kind)
}

#[test]
fn every_algorithm_is_proved_or_refused() {
    for algorithm in examples() {
        for &kind in CollectiveKind::ALL {
            for ranks in 1..=64 {
                match algorithm.offers(kind, ranks) {
                    Ok(()) => {
                        let result = verify(&*algorithm, kind, ranks);
                        assert!(result.is_ok(), "{} {kind} {ranks}: {result:?}", algorithm.name());
                        assert!(
                            is_documented(algorithm.name(), kind, ranks),
                            "{} {kind} {ranks}",
                            algorithm.name()
                        );
                    }
                    Err(refusal) => {
                        assert!(!is_documented(algorithm.name(), kind, ranks), "{refusal}");
                        let refused = verify(&*algorithm, kind, ranks).unwrap_err();
                        let [diagnostic] = &refused.0[..] else { panic!("{refused}") };
                        assert_eq!(diagnostic.code, Code::NoPlan, "{diagnostic}");
                        // A refusal names the algorithm in the message, and the collective separately.
                        assert!(diagnostic.message.contains(algorithm.name()), "{diagnostic}");
                        let found = diagnostic.found.as_deref().unwrap_or_default();
                        assert_eq!(found, format!("{kind} on {ranks} ranks"));
                    }
                }
            }
        }
    }
}

#[test]
fn vectors_that_do_not_divide_evenly_are_proved() {
    for algorithm in examples() {
        for &kind in CollectiveKind::ALL {
            for ranks in [1, 2, 3, 4, 6, 7, 8, 9, 16, 23] {
                if algorithm.offers(kind, ranks).is_err() {
                    continue;
                }
                for elements in [1, 2, 5, 17, 64, 101] {
                    for reverse in [false, true] {
                        let result = verify_cut(&*algorithm, kind, ranks, elements, reverse);
                        assert!(result.is_ok(), "{} {kind} {ranks}: {result:?}", algorithm.name());
                    }
                }
            }
        }
    }
}

#[test]
fn zero_ranks_are_refused() {
    for algorithm in examples() {
        for &kind in CollectiveKind::ALL {
            assert!(algorithm.offers(kind, 0).is_err(), "{}", algorithm.name());
        }
    }
}

#[test]
fn a_single_rank_sends_nothing_unless_hubs_have_their_own_seats() {
    for algorithm in examples() {
        for &kind in CollectiveKind::ALL.iter().filter(|&&kind| algorithm.offers(kind, 1).is_ok()) {
            let seat = Seat { kind, ranks: 1, index: 0, stream: 0, reverse: false };
            let alone = program(&*algorithm, seat).all(|op| matches!(op, Op::Copy { .. }));
            assert_eq!(alone, algorithm.seats(1) == 1, "{} {kind}", algorithm.name());
        }
    }
}

/// Programs of distant ranks in very large collectives: no overflow, and peers and blocks exist.
#[test]
fn programs_of_many_ranks_name_existing_peers_and_blocks() {
    for algorithm in examples() {
        for &kind in CollectiveKind::ALL {
            for ranks in [4096, 6561, 16_384, 65_537, 1 << 20, (1 << 20) + 1] {
                if algorithm.offers(kind, ranks).is_err() {
                    continue;
                }
                let seats = algorithm.seats(ranks);
                for index in [0, 1, ranks / 2, ranks - 1, seats - 1] {
                    let seat = Seat { kind, ranks, index, stream: 0, reverse: false };
                    let late = (0..22).map(|bit| (1u32 << bit) + 1);
                    for op in (0..300).chain(late).filter_map(|pc| algorithm.op(&seat, pc)) {
                        if let Op::Send { to: peer, blocks } | Op::Receive { from: peer, blocks, .. } = op {
                            assert!(peer < seats && peer != index, "{} {kind} {ranks}", algorithm.name());
                            assert!(blocks.count > 0 && blocks.first + blocks.count <= blocks.of);
                        }
                    }
                }
            }
        }
    }
}

fn grids() -> impl Iterator<Item = Grid> {
    [&[4][..], &[2, 2], &[3, 4], &[4, 2, 3], &[2, 3, 2, 2], &[1, 3, 2], &[4, 1, 3], &[1, 1]]
        .into_iter()
        .map(|sizes| Grid::new(sizes).unwrap())
}

#[test]
fn compositions_on_grids_are_proved() {
    for grid in grids() {
        for composition in Composition::ALL {
            for &kind in CollectiveKind::ALL {
                for dim in [&[DimKind::Ring][..], &[DimKind::Switch, DimKind::FullyConnected, DimKind::Ring]]
                {
                    let algorithm = |axis: usize, kind| for_dimension(kind, dim[axis % dim.len()]);
                    for elements in [None, Some(1), Some(37), Some(101)] {
                        for reverse in [false, true] {
                            verify_composition(composition, kind, &grid, algorithm, elements, reverse)
                                .unwrap_or_else(|e| panic!("{composition} {kind} {:?}: {e}", grid.sizes()));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn all_reduce_phases_take_every_algorithm() {
    let grid = Grid::new(&[4, 3, 2]).unwrap();
    for algorithm in examples() {
        for composition in [Composition::Baseline, Composition::Hierarchical] {
            let pick = |_, _| Arc::clone(&algorithm);
            let result = verify_composition(composition, CollectiveKind::AllReduce, &grid, pick, None, false);
            let offered = [4, 3, 2].iter().all(|&n| algorithm.offers(CollectiveKind::AllReduce, n).is_ok());
            assert_eq!(result.is_ok(), offered, "{} {result:?}", algorithm.name());
        }
    }
}

/// The super-nodes of dlrm2020: every number of super-nodes and of nodes in each, up to 64 nodes in total.
fn super_nodes() -> impl Iterator<Item = Grid> {
    let sizes = (1..=64u32).flat_map(|nodes| (1..=64 / nodes).map(move |groups| [nodes, groups]));
    sizes.map(|sizes| Grid::new(&sizes).unwrap())
}

#[test]
fn all_reduces_of_super_nodes_are_proved() {
    let [direct, tree] = ["direct", "double_binary_tree"].map(|name| by_name(name).unwrap());
    // dlrm2020 Table III: direct among the nodes of a super-node, a double binary tree between super-nodes.
    let algorithm = |axis: usize, _| Arc::clone(if axis == 0 { &direct } else { &tree });
    for grid in super_nodes() {
        for composition in [Composition::Hierarchical, Composition::HierarchicalOptimal] {
            verify_composition(composition, CollectiveKind::AllReduce, &grid, algorithm, None, false)
                .unwrap_or_else(|e| panic!("{composition} {:?}: {e}", grid.sizes()));
        }
    }
}

/// dlrm2020 Table II: all communication from one super-node to the i-th node of any other goes through its own i-th
/// node.
#[test]
fn all_to_alls_of_super_nodes_are_proved() {
    let direct = by_name("direct").unwrap();
    for grid in super_nodes() {
        let pick = |_, _| Arc::clone(&direct);
        let phases = Composition::Hierarchical.phases(CollectiveKind::AllToAll, &grid);
        verify_composition(Composition::Hierarchical, CollectiveKind::AllToAll, &grid, pick, None, false)
            .unwrap_or_else(|e| panic!("{:?}: {e}", grid.sizes()));
        // First among the nodes of a super-node, then only between nodes with the same number.
        let axes: Vec<usize> = phases.iter().map(|phase| phase.axis).collect();
        let expected: Vec<usize> = (0..2).filter(|&axis| grid.sizes()[axis] > 1).collect();
        assert_eq!(axes, expected);
        for position in 0..grid.positions() {
            let number = grid.coordinate(position, 0);
            assert!(grid.group(position, 1).all(|other| grid.coordinate(other, 0) == number));
        }
    }
}

/// An instruction of a seat as rank 0 would see it, without block numbers.
fn turned(op: Op, seat: &Seat, turn: Turn) -> (u8, u32, u32, u32, bool) {
    let peer = |peer| turn.seen_from(peer, seat.index, seat.ranks);
    match op {
        Op::Send { to, blocks } => (0, peer(to), blocks.count, blocks.of, false),
        Op::Receive { from, blocks, reduce } => (1, peer(from), blocks.count, blocks.of, reduce),
        Op::Copy { from, to, reduce } => (2, from.count, to.count, from.of, reduce),
        Op::Wait => (3, 0, 0, 0, false),
        Op::After { stream, ops } => (4, stream, ops, 0, false),
    }
}

#[test]
fn programs_are_translations_of_rank_0_where_guaranteed() {
    let mut promised = 0;
    for algorithm in examples() {
        for &kind in CollectiveKind::ALL {
            for ranks in (1..=64).filter(|&ranks| algorithm.offers(kind, ranks).is_ok()) {
                let Some(turn) = algorithm.turn(kind, ranks) else { continue };
                promised += 1;
                for (stream, reverse) in
                    (0..algorithm.streams(kind, ranks)).flat_map(|s| [(s, false), (s, true)])
                {
                    let of = |index| {
                        let seat = Seat { kind, ranks, index, stream, reverse };
                        program(&*algorithm, seat).map(|op| turned(op, &seat, turn)).collect::<Vec<_>>()
                    };
                    let first = of(0);
                    for index in 1..ranks {
                        assert_eq!(of(index), first, "{} {kind} {ranks}: rank {index}", algorithm.name());
                    }
                    assert!(first.iter().all(|op| op.0 > 2 || op.3 == ranks), "{}", algorithm.name());
                }
            }
        }
    }
    // Ring and direct (in three forms) for four collectives each, halving-doubling for powers of two, multi-ring where
    // 1; 5 and 7; or 3 are coprime with the number of ranks.
    assert_eq!(promised, 4 * 4 * 64 + 3 * 7 + 64 + 44 + 43);
}
