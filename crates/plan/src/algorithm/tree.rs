//! Tree: the whole vector is reduced on the way to rank 0 and broadcast on the way back.
//!
//! Two shapes. *Fan-out `k`*: the children of rank `i` are `ki + 1` to `ki + k`, so that the tree is full except for
//! its last level. *Binomial*: the parent of rank `i` is `i` without its lowest set bit; children with larger
//! subtrees are served first.
//!
//! Source: luo2020 1.1.5 "Tree" and Table 4.1 (fan-out `C`).
//!
//! | collective | rounds, depth `d` | bytes on the wire |
//! |---|---|---|
//! | all-reduce | `2d` | `2 S (N-1)` |
//! | broadcast, reduce | `d` | `S (N-1)` |
//!
//! `d` is `ceil(log_k((k-1)N + 1)) - 1` for fan-out `k > 1`, `N - 1` for `k = 1`, and the largest number of set bits
//! of a rank for the binomial shape. A parent sends `S` to each child.

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use std::num::NonZeroU32;
use syncline_units::CollectiveKind;

/// The shape of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every rank has this many children, except the last ranks.
    FanOut(NonZeroU32),
    /// A binomial tree.
    Binomial,
}

/// The tree algorithm.
#[derive(Clone, Debug)]
pub struct Tree {
    shape: Shape,
    name: String,
}

const OFFERED: &[CollectiveKind] =
    &[CollectiveKind::AllReduce, CollectiveKind::Reduce, CollectiveKind::Broadcast];

impl Tree {
    /// The default fan-out.
    pub const FAN_OUT: NonZeroU32 = NonZeroU32::new(2).expect("not zero");

    /// A tree of this shape.
    pub fn new(shape: Shape) -> Self {
        let name = match shape {
            Shape::FanOut(Self::FAN_OUT) => "tree".to_owned(),
            Shape::FanOut(fan_out) => format!("tree(fan_out={fan_out})"),
            Shape::Binomial => "tree(shape=binomial)".to_owned(),
        };
        Self { shape, name }
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::new(Shape::FanOut(Self::FAN_OUT))
    }
}

impl Algorithm for Tree {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(&self.name, OFFERED, kind, ranks)
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let (depth, children, busiest) = match self.shape {
            // The deepest rank is the one whose number has the most ones; the root has a child for each binary digit.
            Shape::Binomial => {
                let digits = ranks.next_power_of_two().ilog2();
                (ranks.ilog2(), digits, digits)
            }
            Shape::FanOut(fan_out) => {
                let children = fan_out.get().min(ranks - 1);
                // If rank 1 has all its children, it sends to its parent as well; else the root is busiest.
                let inner = ranks > fan_out.get().saturating_mul(2);
                (depth(fan_out.get(), ranks), children, children + u32::from(inner))
            }
        };
        let twice = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
        let sent = match kind {
            CollectiveKind::Reduce => 1,
            CollectiveKind::AllReduce => busiest,
            _ => children,
        };
        let wire = f64::from(twice) * (f64::from(ranks) - 1.0);
        Some(ClosedForm { rounds: twice * depth, wire, sent: f64::from(sent) })
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let me = seat.index;
        match self.shape {
            Shape::FanOut(fan_out) => {
                let fan_out = fan_out.get();
                let parent = (me > 0).then(|| (me - 1) / fan_out);
                let first = u64::from(me) * u64::from(fan_out) + 1;
                let children = u64::from(seat.ranks).saturating_sub(first).min(u64::from(fan_out));
                walk(seat.kind, parent, children as u32, |child| first as u32 + child, pc)
            }
            Shape::Binomial => {
                let parent = (me > 0).then(|| me & (me - 1));
                // A child adds a bit below the lowest one (rank 0: any bit) and stays below the number of ranks.
                let bits = if me > 0 { me.trailing_zeros() } else { u32::BITS };
                let room = seat.ranks - 1 - me;
                let children = bits.min(u32::BITS - room.leading_zeros());
                walk(seat.kind, parent, children, |child| me + (1 << (children - 1 - child)), pc)
            }
        }
    }
}

/// Instruction `pc` of a rank with this parent and these children: reduce from the children to the parent, broadcast
/// from the parent to the children, or both in turn.
#[inline]
pub(super) fn walk(
    kind: CollectiveKind,
    parent: Option<u32>,
    children: u32,
    child: impl Fn(u32) -> u32,
    mut pc: u32,
) -> Option<Op> {
    let blocks = Blocks::WHOLE;
    if kind != CollectiveKind::Broadcast {
        if pc < children {
            return Some(Op::Receive { from: child(pc), blocks, reduce: true });
        }
        pc -= children;
        if children > 0 {
            if pc == 0 {
                return Some(Op::Wait);
            }
            pc -= 1;
        }
        if let Some(to) = parent {
            if pc == 0 {
                return Some(Op::Send { to, blocks });
            }
            pc -= 1;
        }
    }
    if kind == CollectiveKind::Reduce {
        return None;
    }
    if let Some(from) = parent {
        match pc {
            0 => return Some(Op::Receive { from, blocks, reduce: false }),
            1 => return Some(Op::Wait),
            _ => pc -= 2,
        }
    }
    (pc < children).then(|| Op::Send { to: child(pc), blocks })
}

/// Number of levels below the root of a tree with this fan-out: the least `d` with `1 + k + .. + k^d >= ranks`.
fn depth(fan_out: u32, ranks: u32) -> u32 {
    let (mut depth, mut level, mut total) = (0, 1u64, 1u64);
    while total < u64::from(ranks) {
        level = level.saturating_mul(u64::from(fan_out));
        total = total.saturating_add(level);
        depth += 1;
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    fn to(tree: &Tree, ranks: u32, rank: u32) -> Vec<u32> {
        sends(tree, CollectiveKind::Broadcast, ranks, rank, 0).iter().map(|sent| sent.0).collect()
    }

    #[test]
    fn a_tree_is_as_deep_as_its_ranks_need() {
        for (fan_out, ranks, levels) in
            [(2, 1, 0), (2, 2, 1), (2, 3, 1), (2, 4, 2), (4, 16, 2), (4, 22, 3), (1, 9, 8)]
        {
            assert_eq!(depth(fan_out, ranks), levels);
        }
    }

    #[test]
    fn a_parent_has_at_most_as_many_children_as_the_fan_out() {
        let tree = Tree::new(Shape::FanOut(NonZeroU32::new(4).unwrap()));
        assert_eq!(to(&tree, 7, 0), [1, 2, 3, 4]);
        assert_eq!(to(&tree, 7, 1), [5, 6]);
        assert!(to(&tree, 7, 2).is_empty());
    }

    #[test]
    fn binomial_serves_the_largest_subtree_first() {
        let tree = Tree::new(Shape::Binomial);
        assert_eq!(to(&tree, 16, 0), [8, 4, 2, 1]);
        assert_eq!(to(&tree, 11, 8), [10, 9]);
        assert_eq!(to(&tree, 12, 8), [10, 9]);
        assert_eq!(to(&tree, 13, 8), [12, 10, 9]);
    }

    #[test]
    fn plans_are_proved_for_every_number_of_ranks() {
        for shape in [1, 2, 3, 4, 7, u32::MAX].map(|k| Shape::FanOut(NonZeroU32::new(k).unwrap())) {
            for &kind in OFFERED {
                assert_eq!(proves(&Tree::new(shape), kind, 20), 20);
            }
        }
        for &kind in OFFERED {
            assert_eq!(proves(&Tree::new(Shape::Binomial), kind, 40), 40);
        }
    }
}
