//! The algorithms to choose from.
//!
//! Two rules exclude candidates. First, a rank exchanges messages with at most [`MAX_PEERS`] others at once, unless
//! it has a link to each. Second, on a network that drops packets ([`GroupNetwork::buffer`](super::GroupNetwork::buffer)),
//! several ranks send to one rank at the same time only if the buffer holds everything that they can have in flight.
//! Otherwise they overflow the receiver's port and wait for retransmission time-outs (incast; Phanishayee et al.,
//! FAST 2008).

use super::{Wiring, Work};
use crate::algorithm::{Direct, DoubleBinaryTree, HalvingDoubling, Ring, Shape, Tree};
use crate::program::Algorithm;
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_units::CollectiveKind;

/// Most ranks that one rank exchanges messages with at a time over shared links.
pub const MAX_PEERS: u32 = 64;
/// Fan-out of the wider tree.
const WIDE: NonZeroU32 = NonZeroU32::new(4).expect("not zero");

/// An algorithm whose cost has a closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Candidate {
    /// [`crate::algorithm::ring`].
    Ring,
    /// [`crate::algorithm::halving_doubling`].
    HalvingDoubling,
    /// [`crate::algorithm::tree`], binomial.
    Binomial,
    /// [`crate::algorithm::tree`] of fan-out 2.
    Tree,
    /// [`crate::algorithm::tree`] of fan-out 4.
    WideTree,
    /// [`crate::algorithm::double_binary_tree`].
    DoubleBinaryTree,
    /// [`crate::algorithm::direct`] with one peer at a time.
    Pairwise,
    /// [`crate::algorithm::direct`].
    Direct,
}

impl Candidate {
    /// Every candidate, those with the fewest peers first.
    pub const ALL: [Self; 8] = [
        Self::Ring,
        Self::HalvingDoubling,
        Self::Tree,
        Self::WideTree,
        Self::Binomial,
        Self::DoubleBinaryTree,
        Self::Pairwise,
        Self::Direct,
    ];

    /// The algorithm.
    pub fn algorithm(self) -> Arc<dyn Algorithm> {
        match self {
            Self::Ring => Arc::new(Ring),
            Self::HalvingDoubling => Arc::new(HalvingDoubling),
            Self::Tree => Arc::new(Tree::default()),
            Self::WideTree => Arc::new(Tree::new(Shape::FanOut(WIDE))),
            Self::Binomial => Arc::new(Tree::new(Shape::Binomial)),
            Self::DoubleBinaryTree => Arc::new(DoubleBinaryTree::default()),
            Self::Pairwise => Arc::new(Direct::new(Some(NonZeroU32::MIN))),
            Self::Direct => Arc::new(Direct::default()),
        }
    }

    /// Whether it sends whole chunks along a tree.
    pub(super) fn is_tree(self) -> bool {
        matches!(self, Self::Tree | Self::WideTree | Self::Binomial | Self::DoubleBinaryTree)
    }

    /// Mean number of messages that a rank sends for one chunk; used to compare candidates.
    pub(super) fn messages(self, kind: CollectiveKind, ranks: u32) -> u32 {
        use CollectiveKind::{AllReduce, Broadcast, Reduce};
        let passes = if kind == AllReduce { 2 } else { 1 };
        match (self, kind) {
            (_, Broadcast | Reduce) => passes,
            _ if self.is_tree() => passes,
            (Self::HalvingDoubling, _) => passes * ranks.ilog2(),
            _ => passes * (ranks - 1),
        }
    }

    /// The size of a chunk divided by the size of the largest message.
    pub(super) fn parts(self, kind: CollectiveKind, ranks: u32) -> u64 {
        match (self, kind) {
            (Self::DoubleBinaryTree, _) => 2,
            (_, kind) if kind.has_root() => 1,
            (Self::HalvingDoubling, _) if ranks.is_power_of_two() => 2,
            // A rank that acts for another receives the other's whole chunk.
            (Self::HalvingDoubling, _) => 1,
            _ if self.is_tree() => 1,
            _ => u64::from(ranks.max(1)),
        }
    }

    /// The largest number of ranks that send to one rank at the same time. In an all-reduce along a tree, that
    /// includes the parent, which sends the result back.
    fn senders(self, kind: CollectiveKind, ranks: u32) -> u32 {
        use CollectiveKind::{AllReduce, Broadcast};
        let parent = u32::from(kind == AllReduce);
        match (self, kind) {
            (Self::Ring | Self::HalvingDoubling | Self::Pairwise, _) => 1,
            // Each rank has a parent in each of the two trees.
            (Self::DoubleBinaryTree, _) => 2 + 2 * parent,
            (_, Broadcast) => 1,
            (Self::Binomial, _) => ranks.ilog2() + 1,
            (Self::Tree, _) => 2 + parent,
            (Self::WideTree, _) => WIDE.get() + parent,
            (Self::Direct, _) => ranks - 1,
        }
    }

    /// The largest number of ranks with which one rank exchanges messages at the same time.
    fn peers(self, ranks: u32) -> u32 {
        if self == Self::Direct { ranks - 1 } else { 2 }
    }

    /// Whether the rules of this module allow the candidate for `work`.
    pub(super) fn is_safe(self, work: &Work<'_>) -> bool {
        let &Work { kind, ranks, bytes, network, .. } = work;
        let pieces = work.pieces(self);
        if network.wiring == Wiring::Full || ranks < 2 {
            return true;
        }
        if self.peers(ranks) > MAX_PEERS && kind != CollectiveKind::AllToAll {
            return false;
        }
        let senders = self.senders(kind, ranks);
        let Some(buffer) = network.buffer.filter(|_| senders > 1) else { return true };
        let message = bytes.0.div_ceil(self.parts(kind, ranks));
        let in_flight = match pieces.active {
            0 => pieces.chunks,
            active => active.saturating_mul(pieces.lanes).min(pieces.chunks),
        };
        let piece = message.div_ceil(u64::from(pieces.chunks.max(1)));
        u64::from(senders).saturating_mul(piece).saturating_mul(in_flight.into()) <= buffer.0
    }
}
