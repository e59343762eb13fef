//! The lazy and the materialised form of a plan are the same plan: the same messages and copies in the same order,
//! and a node depends, directly or indirectly, on exactly what the program waits for ahead of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use syncline_plan::Plan;
use syncline_plan::dag::{Action, Node};
use syncline_plan::program::{Algorithm, Op, Seat, program};
use syncline_plan::registry::{ENTRIES, by_name};
use syncline_units::CollectiveKind;

fn offered(ranks: u32) -> impl Iterator<Item = (Arc<dyn Algorithm>, CollectiveKind)> {
    ENTRIES
        .iter()
        .flat_map(|entry| entry.examples)
        .map(|example| by_name(example).unwrap())
        .flat_map(|algorithm| CollectiveKind::ALL.iter().map(move |&kind| (Arc::clone(&algorithm), kind)))
        .filter(move |(algorithm, kind)| algorithm.offers(*kind, ranks).is_ok())
}

/// The instruction that a node comes from.
fn op(node: &Node) -> Option<Op> {
    match node.action {
        Action::Send { to, blocks, .. } => Some(Op::Send { to, blocks }),
        Action::Receive { from, blocks, reduce, .. } => Some(Op::Receive { from, blocks, reduce }),
        Action::Copy { from, to, reduce } => Some(Op::Copy { from, to, reduce }),
        Action::Fetch | Action::Join | Action::Deliver => None,
    }
}

#[test]
fn both_forms_have_the_same_instructions_in_the_same_order() {
    for ranks in [1, 2, 3, 4, 7, 8, 9, 16, 27] {
        for (algorithm, kind) in offered(ranks) {
            for reverse in [false, true] {
                let plan = Plan::of(&*algorithm, kind, ranks, reverse).unwrap();
                assert_eq!(plan.seats.len(), algorithm.seats(ranks) as usize);
                for (index, seat_plan) in (0..).zip(&plan.seats) {
                    for stream in 0..plan.streams {
                        let seat = Seat { kind, ranks, index, stream, reverse };
                        let lazy = program(&*algorithm, seat)
                            .filter(|op| !matches!(op, Op::Wait | Op::After { .. }));
                        let woven =
                            seat_plan.nodes.iter().filter(|node| node.stream == stream).filter_map(op);
                        assert!(lazy.eq(woven), "{} {kind} {ranks}", algorithm.name());
                    }
                }
            }
        }
    }
}

/// For each node, all nodes that are done before it starts.
fn before(nodes: &[Node]) -> Vec<BTreeSet<usize>> {
    let mut before: Vec<BTreeSet<usize>> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let mut all = BTreeSet::new();
        for &dependency in &node.after {
            assert!((dependency as usize) < number, "edges point backwards");
            all.insert(dependency as usize);
            all.extend(&before[dependency as usize]);
        }
        before.push(all);
    }
    before
}

#[test]
fn dependencies_are_those_of_the_waits() {
    for ranks in [2, 3, 5, 8, 9, 16] {
        for (algorithm, kind) in offered(ranks) {
            let plan = Plan::of(&*algorithm, kind, ranks, false).unwrap();
            for (index, seat_plan) in (0..).zip(&plan.seats) {
                let before = before(&seat_plan.nodes);
                for stream in 0..plan.streams {
                    let mut numbers = seat_plan
                        .nodes
                        .iter()
                        .enumerate()
                        .filter(|(_, node)| node.stream == stream && op(node).is_some())
                        .map(|(number, _)| number);
                    let (mut open, mut waited) = (BTreeSet::new(), BTreeSet::new());
                    for op in program(&*algorithm, Seat { kind, ranks, index, stream, reverse: false }) {
                        if op == Op::Wait {
                            waited.append(&mut open);
                            continue;
                        }
                        let number = numbers.next().unwrap();
                        let found: BTreeSet<usize> = before[number]
                            .iter()
                            .copied()
                            .filter(|&b| !matches!(seat_plan.nodes[b].action, Action::Fetch | Action::Join))
                            .collect();
                        assert_eq!(found, waited, "{} {kind} {ranks}: node {number}", algorithm.name());
                        match op {
                            Op::Receive { .. } => _ = open.insert(number),
                            Op::Copy { .. } => _ = waited.insert(number),
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn written_plans_are_proved_like_lazy_ones() {
    for ranks in 1..=17 {
        for (algorithm, kind) in offered(ranks) {
            let plan = Plan::of(&*algorithm, kind, ranks, ranks % 2 == 0).unwrap();
            let result = plan.verify();
            assert!(result.is_ok(), "{} {kind} {ranks}: {result:?}", algorithm.name());
        }
    }
}
