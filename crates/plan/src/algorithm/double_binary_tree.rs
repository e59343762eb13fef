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
//! With strides, ranks are relabelled, and each pair of trees carries an equal part of the vector: with stride `p`, the
//! rank with label `l` is rank `p l` modulo `N`, for which `p` and `N` must be coprime. Pairs of trees with different
//! strides join other ranks, so that a fabric of direct links can carry several (topoopt2022 Appendix A).
//!
//! Source: luo2020 1.1.5 "Tree" ("a pair of complementary binary trees, each sending and receiving S/2"); dlrm2020
//! Table II "DBT"; Sanders, Speck, Traeff (2009).
//!
//! | collective | rounds, `N` a power of two | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | `2 log2 N` | `2S` (at most; rank 0: `S`) |
//! | broadcast, reduce | `log2 N` | `S` (at most) |

use super::{inverse, offers_only, tree::walk};
use crate::program::{Algorithm, ClosedForm, Op, Refusal, Seat};
use std::num::NonZeroU32;
use syncline_units::CollectiveKind;

/// The double binary tree algorithm, for any number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubleBinaryTree {
    name: String,
    strides: Vec<NonZeroU32>,
}

impl DoubleBinaryTree {
    /// A pair of trees for each of `strides`, which are at least one.
    pub fn new(strides: Vec<NonZeroU32>) -> Self {
        if strides == [NonZeroU32::MIN] {
            return Self::default();
        }
        let listed: Vec<String> = strides.iter().map(NonZeroU32::to_string).collect();
        Self { name: format!("double_binary_tree(strides={})", listed.join("+")), strides }
    }
}

impl Default for DoubleBinaryTree {
    /// One pair of trees, whose labels are the ranks.
    fn default() -> Self {
        Self { name: "double_binary_tree".to_owned(), strides: vec![NonZeroU32::MIN] }
    }
}

/// The links of the pairs of trees with these strides among `ranks` ranks, from child to parent; each is also used from
/// parent to child. A link that several trees use is listed several times.
pub fn links(ranks: u32, strides: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    strides.iter().flat_map(move |&stride| {
        let rank = move |label: u32| (u64::from(label) * u64::from(stride) % u64::from(ranks.max(1))) as u32;
        [false, true].into_iter().flat_map(move |second| {
            let tree = Numbering { ranks, second };
            (0..ranks).filter_map(move |position| {
                parent(position, ranks).map(|above| (rank(tree.rank(position)), rank(tree.rank(above))))
            })
        })
    })
}

/// The number of links from the deepest rank of a tree to its root.
pub fn depth(ranks: u32) -> u32 {
    (0..ranks)
        .map(|at| std::iter::successors(Some(at), |&at| parent(at, ranks)).count() as u32 - 1)
        .max()
        .unwrap_or(0)
}

const OFFERED: &[CollectiveKind] =
    &[CollectiveKind::AllReduce, CollectiveKind::Reduce, CollectiveKind::Broadcast];

impl Algorithm for DoubleBinaryTree {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(self.name(), OFFERED, kind, ranks)?;
        match self.strides.iter().find(|stride| ranks > 1 && inverse(stride.get() % ranks, ranks).is_none()) {
            None => Ok(()),
            Some(stride) => Err(Refusal(format!(
                "`{}` needs strides that are coprime with the number of ranks, and {stride} and {ranks} are not",
                self.name
            ))),
        }
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        // Trees that are not full have no simple form.
        let depth = ranks.is_power_of_two().then(|| ranks.ilog2())?;
        let twice = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
        // An inner node of one tree sends to two children (and to its parent), and is a leaf of the other tree.
        // One rank is a leaf of both. It is another one in each pair, so with fewer pairs than such ranks one has this most
        // in all of them.
        if ranks > 2 && self.strides.len() as u32 >= ranks - 1 {
            return None;
        }
        let sent = if twice == 2 && ranks > 2 { 2.0 } else { 1.0 };
        Some(ClosedForm { rounds: twice * depth, wire: f64::from(twice) * (f64::from(ranks) - 1.0), sent })
    }

    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        2 * self.strides.len() as u32
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let tree = Numbering { ranks: seat.ranks, second: seat.stream % 2 == 1 };
        let stride = self.strides[(seat.stream / 2) as usize].get() % seat.ranks.max(1);
        let times = |factor: u32, label: u32| {
            (u64::from(label) * u64::from(factor) % u64::from(seat.ranks.max(1))) as u32
        };
        let label = if stride <= 1 { seat.index } else { times(inverse(stride, seat.ranks)?, seat.index) };
        let rank = |position: u32| {
            let label = tree.rank(position);
            if stride <= 1 { label } else { times(stride, label) }
        };
        let me = tree.position(label);
        let (lower, upper) = children(me, seat.ranks);
        let count = u32::from(lower.is_some()) + u32::from(upper.is_some());
        let child = |index: u32| {
            let position = if index == 0 { lower.or(upper) } else { upper };
            rank(position.unwrap_or_default())
        };
        walk(seat.kind, parent(me, seat.ranks).map(rank), count, child, pc)
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
            let sent = sends(&DoubleBinaryTree::default(), CollectiveKind::Broadcast, 16, rank, stream);
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

    fn permuted(strides: &[u32]) -> DoubleBinaryTree {
        DoubleBinaryTree::new(strides.iter().map(|&stride| NonZeroU32::new(stride).unwrap()).collect())
    }

    #[test]
    fn strides_relabel_the_ranks() {
        // topoopt2022 Figure 21 relabels ranks of 16. With stride 3, rank 3 l has the place of rank l.
        let sent = |tree: &DoubleBinaryTree, rank, stream| -> Vec<u32> {
            let all = sends(tree, CollectiveKind::AllReduce, 16, rank, stream);
            all.iter().map(|sent| sent.0).collect()
        };
        let (plain, three) = (DoubleBinaryTree::default(), permuted(&[1, 3]));
        for label in 0..16 {
            for stream in 0..2 {
                assert_eq!(sent(&three, label, stream), sent(&plain, label, stream));
                let relabelled: Vec<u32> =
                    sent(&plain, label, stream).iter().map(|peer| 3 * peer % 16).collect();
                assert_eq!(sent(&three, 3 * label % 16, 2 + stream), relabelled);
            }
        }
        assert_eq!(permuted(&[1]).name(), "double_binary_tree");
    }

    #[test]
    fn links_are_those_that_the_plan_uses() {
        for (ranks, strides) in [(2, vec![1]), (9, vec![2, 7]), (16, vec![1, 3, 15])] {
            let tree = permuted(&strides);
            let mut used = Vec::new();
            for (stream, rank) in
                (0..2 * strides.len() as u32).flat_map(|stream| (0..ranks).map(move |rank| (stream, rank)))
            {
                used.extend(
                    sends(&tree, CollectiveKind::Reduce, ranks, rank, stream)
                        .iter()
                        .map(|sent| (rank, sent.0)),
                );
            }
            let mut listed: Vec<(u32, u32)> = links(ranks, &strides).collect();
            used.sort_unstable();
            listed.sort_unstable();
            assert_eq!(used, listed, "{ranks} {strides:?}");
            // Every rank but the root has one parent in each tree.
            assert_eq!(listed.len(), 2 * strides.len() * (ranks as usize - 1));
        }
        assert_eq!([1, 2, 8, 16, 9].map(depth), [0, 1, 3, 4, 4]);
    }

    #[test]
    fn strides_that_share_a_factor_are_refused() {
        let refused = permuted(&[1, 4]).offers(CollectiveKind::AllReduce, 6).unwrap_err();
        assert!(refused.0.contains("4 and 6 are not"), "{}", refused.0);
        assert!(permuted(&[5]).offers(CollectiveKind::AllReduce, 6).is_ok());
    }

    #[test]
    fn plans_are_proved_for_every_number_of_ranks() {
        for &kind in OFFERED {
            assert_eq!(proves(&DoubleBinaryTree::default(), kind, 40), 40);
            // Odd numbers alone are coprime with 2.
            assert_eq!(proves(&permuted(&[1, 2]), kind, 40), 20);
        }
    }
}
