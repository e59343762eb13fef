//! Double binary tree: two binary trees, one for each half of the vector. A rank that is an inner node of one tree,
//! and so is busy, is a leaf of the other.
//!
//! Rank 0 is the root of both trees and has one child in each. The other ranks have positions `1..N` in a tree. The
//! parent of position `p` is found by moving its lowest set bit one place up (`xx01` and `xx11` below `xx10`), or, if
//! that position does not exist, by clearing that bit; so odd positions are leaves. In the first tree a rank's
//! position is the rank. In the second tree, if `N` is odd, it is `N - rank`, which turns odd into even. If `N` is
//! even, it is `rank - 1` (rank 1 has the last position), which does so for all but one rank: `N - 1` positions have
//! one more leaf than inner nodes, so some rank must be a leaf twice.
//!
//! Each tree is a stream with its own half of the vector.
//!
//! Source: luo2020 1.1.5 "Tree" ("a pair of complementary binary trees, each sending and receiving S/2"); dlrm2020
//! Table II "DBT"; Sanders, Speck, Traeff (2009).
//!
//! | collective | rounds, `N` a power of two | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | `2 log2 N` | `2S` (at most; rank 0: `S`) |
//! | broadcast, reduce | `log2 N` | `S` (at most) |

use super::{offers_only, tree::walk};
use crate::program::{Algorithm, ClosedForm, Op, Refusal, Seat};
use syncline_units::CollectiveKind;

/// The double binary tree algorithm, for any number of ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoubleBinaryTree;

const OFFERED: &[CollectiveKind] =
    &[CollectiveKind::AllReduce, CollectiveKind::Reduce, CollectiveKind::Broadcast];

impl Algorithm for DoubleBinaryTree {
    fn name(&self) -> &str {
        "double_binary_tree"
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(self.name(), OFFERED, kind, ranks)
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        // Trees that are not full have no simple form.
        let depth = ranks.is_power_of_two().then(|| ranks.ilog2())?;
        let twice = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
        // An inner node of one tree sends to two children (and to its parent), and is a leaf of the other tree.
        let sent = if twice == 2 && ranks > 2 { 2.0 } else { 1.0 };
        Some(ClosedForm { rounds: twice * depth, wire: f64::from(twice) * (f64::from(ranks) - 1.0), sent })
    }

    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        2
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let tree = Numbering { ranks: seat.ranks, second: seat.stream == 1 };
        let me = tree.position(seat.index);
        let (lower, upper) = children(me, seat.ranks);
        let count = u32::from(lower.is_some()) + u32::from(upper.is_some());
        let child = |index: u32| {
            let position = if index == 0 { lower.or(upper) } else { upper };
            tree.rank(position.unwrap_or_default())
        };
        walk(seat.kind, parent(me, seat.ranks).map(|p| tree.rank(p)), count, child, pc)
    }
}

/// The positions of ranks in a tree.
#[derive(Clone, Copy)]
struct Numbering {
    ranks: u32,
    second: bool,
}

impl Numbering {
    #[inline]
    fn position(self, rank: u32) -> u32 {
        if !self.second || rank == 0 {
            rank
        } else if self.ranks % 2 == 1 {
            self.ranks - rank
        } else if rank == 1 {
            self.ranks - 1
        } else {
            rank - 1
        }
    }
    #[inline]
    fn rank(self, position: u32) -> u32 {
        if !self.second || position == 0 {
            position
        } else if self.ranks % 2 == 1 {
            self.ranks - position
        } else if position == self.ranks - 1 {
            1
        } else {
            position + 1
        }
    }
}

/// The parent of a position.
#[inline]
fn parent(position: u32, ranks: u32) -> Option<u32> {
    if position == 0 {
        return None;
    }
    let bit = position & position.wrapping_neg();
    let up = (position ^ bit) | (bit << 1);
    Some(if up < ranks { up } else { position ^ bit })
}

/// The children of a position: the smaller and the larger one.
#[inline]
fn children(position: u32, ranks: u32) -> (Option<u32>, Option<u32>) {
    let room = ranks - 1 - position;
    if position == 0 {
        return (None, (room > 0).then(|| 1 << room.ilog2()));
    }
    let half = (position & position.wrapping_neg()) >> 1;
    if half == 0 {
        return (None, None);
    }
    (Some(position - half), (room > 0).then(|| position + half.min(1 << room.ilog2())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    #[test]
    fn both_trees_of_sixteen_ranks_have_the_expected_edges() {
        let below = |rank, stream| -> Vec<u32> {
            let sent = sends(&DoubleBinaryTree, CollectiveKind::Broadcast, 16, rank, stream);
            sent.iter().map(|sent| sent.0).collect()
        };
        assert_eq!(below(0, 0), [8]);
        assert_eq!(below(8, 0), [4, 12]);
        assert_eq!(below(12, 0), [10, 14]);
        assert!(below(13, 0).is_empty());
        assert_eq!(below(0, 1), [9]);
        assert_eq!(below(9, 1), [5, 13]);
        assert!(below(8, 1).is_empty());
    }

    #[test]
    fn inner_in_one_tree_is_leaf_in_the_other() {
        for ranks in 2..100 {
            let inner = |rank, stream| {
                let position = Numbering { ranks, second: stream == 1 }.position(rank);
                children(position, ranks) != (None, None)
            };
            let count = |f: &dyn Fn(u32) -> bool| (1..ranks).filter(|&rank| f(rank)).count() as u32;
            assert_eq!(count(&|rank| inner(rank, 0) && inner(rank, 1)), 0, "{ranks}");
            let leaf_twice = count(&|rank| !inner(rank, 0) && !inner(rank, 1));
            assert_eq!(leaf_twice, u32::from(ranks % 2 == 0), "{ranks}");
        }
    }

    #[test]
    fn parents_and_children_agree() {
        for ranks in 1..200 {
            for position in 0..ranks {
                let (lower, upper) = children(position, ranks);
                for child in [lower, upper].into_iter().flatten() {
                    assert_eq!(parent(child, ranks), Some(position), "{child} of {ranks}");
                }
            }
        }
    }

    #[test]
    fn plans_are_proved_for_every_number_of_ranks() {
        for &kind in OFFERED {
            assert_eq!(proves(&DoubleBinaryTree, kind, 40), 40);
        }
    }
}
