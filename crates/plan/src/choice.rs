//! The algorithm that is chosen where none is named: the one that costs the least time on the network at hand.
//!
//! [`choose`] estimates what each candidate takes ([`estimate`]) and picks the quickest. Among those within 2 % of the
//! quickest it takes the one with the fewest messages, then the one with the fewest peers: on a switch and for large
//! vectors, halving-doubling or a ring in place of direct, which is as fast there and has more messages.
//!
//! Two candidates are left out where they are dangerous. A rank talks to [`MOST_PEERS`] others at once and no more,
//! unless each has a link of its own. Where a network loses what its buffers do not hold ([`Network::burst`]), no more
//! than two ranks send to one at a time, unless all that they can have under way fits the buffer: many senders to one
//! receiver overflow its port, and then wait for time-outs (incast; Phanishayee et al., FAST 2008).

mod estimate;

use crate::algorithm::{Direct, DoubleBinaryTree, HalvingDoubling, Ring, Shape, Tree};
use crate::program::Algorithm;
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

pub use estimate::estimate;

/// Most ranks that one rank exchanges messages with at a time over shared links.
pub const MOST_PEERS: u32 = 64;
/// Candidates that take at most this much longer than the quickest, in parts of 1,000, are as good.
const ALIKE: u64 = 20;
/// Fan-out of the wider tree.
const WIDE: NonZeroU32 = NonZeroU32::new(4).expect("not zero");
/// Ranks that may send to one at a time whatever its buffer holds.
const FEW_SENDERS: u32 = 2;

/// How the ranks of a group are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// In rings; `both` where each ring runs both ways. Messages between ranks that are no neighbours pass others.
    Ring {
        /// Whether rings run both ways.
        both: bool,
    },
    /// Every two ranks have links of their own.
    Full,
    /// Behind switches that are never the bottleneck.
    Switch,
    /// By a network in which neighbours have other rates and latencies than ranks far apart.
    Graph {
        /// What each rank can send while all send far.
        far: Rate,
        /// Latency to the farthest rank.
        far_latency: Time,
    },
}

/// What must be known of the network between the ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// How ranks are joined.
    pub wiring: Wiring,
    /// Rate of one link; on a graph, what each rank can send to the next one while all do.
    pub rate: Rate,
    /// Parallel links, rings or switches.
    pub count: u32,
    /// What a message takes besides its bytes: in rings over one link, else in all.
    pub latency: Time,
    /// What it takes at both ends besides, whatever the distance.
    pub overhead: Time,
    /// Rate at which a rank combines what it receives with its own data; `None` costs no time.
    pub reduction: Option<Rate>,
    /// Bytes that a port's buffer holds, where more are lost; `None` where nothing is.
    pub burst: Option<Bytes>,
}

/// How a vector is cut, and how many pieces are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Chunks, each of which runs the whole algorithm.
    pub chunks: u32,
    /// Chunks that run at a time on each lane; 0 means no limit.
    pub active: u32,
    /// Lanes that chunks take in turn: rings by direction, parallel links or switches.
    pub lanes: u32,
}

impl Pieces {
    /// One piece.
    pub const ONE: Self = Self { chunks: 1, active: 0, lanes: 1 };
}

/// An algorithm of which the cost is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            Self::DoubleBinaryTree => Arc::new(DoubleBinaryTree),
            Self::Pairwise => Arc::new(Direct::new(Some(NonZeroU32::MIN))),
            Self::Direct => Arc::new(Direct::default()),
        }
    }

    /// Whether the whole vector goes along a tree.
    fn is_tree(self) -> bool {
        matches!(self, Self::Tree | Self::WideTree | Self::Binomial | Self::DoubleBinaryTree)
    }

    /// Messages that the ranks send on average for one chunk, for comparison.
    fn messages(self, kind: CollectiveKind, ranks: u32) -> u32 {
        use CollectiveKind::{AllReduce, Broadcast, Reduce};
        let passes = if kind == AllReduce { 2 } else { 1 };
        match (self, kind) {
            (_, Broadcast | Reduce) => passes,
            _ if self.is_tree() => passes,
            (Self::HalvingDoubling, _) => passes * ranks.ilog2(),
            _ => passes * (ranks - 1),
        }
    }

    /// The most ranks that send to one at a time.
    fn senders(self, kind: CollectiveKind, ranks: u32) -> u32 {
        match (self, kind) {
            (_, CollectiveKind::Broadcast) | (Self::Ring | Self::HalvingDoubling | Self::Pairwise, _) => 1,
            (Self::Binomial, _) => ranks.ilog2() + 1,
            (Self::Tree | Self::DoubleBinaryTree, _) => 2,
            (Self::WideTree, _) => WIDE.get(),
            (Self::Direct, _) => ranks - 1,
        }
    }

    /// The most ranks that one exchanges messages with at a time.
    fn peers(self, ranks: u32) -> u32 {
        if self == Self::Direct { ranks - 1 } else { 2 }
    }

    /// Whether the network can be trusted to carry what would be under way at a time.
    fn is_safe(
        self,
        kind: CollectiveKind,
        ranks: u32,
        bytes: Bytes,
        pieces: Pieces,
        network: &Network,
    ) -> bool {
        if network.wiring == Wiring::Full {
            return true;
        }
        if self.peers(ranks) > MOST_PEERS && kind != CollectiveKind::AllToAll {
            return false;
        }
        let senders = self.senders(kind, ranks);
        let Some(burst) = network.burst.filter(|_| senders > FEW_SENDERS) else { return true };
        let whole = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce) || self.is_tree();
        let message = if whole { bytes.0 } else { bytes.0.div_ceil(u64::from(ranks)) };
        let under_way = match pieces.active {
            0 => pieces.chunks,
            active => active.saturating_mul(pieces.lanes).min(pieces.chunks),
        };
        let piece = message.div_ceil(u64::from(pieces.chunks.max(1)));
        u64::from(senders).saturating_mul(piece).saturating_mul(under_way.into()) <= burst.0
    }
}

/// What was chosen, and what for.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Arc<dyn Algorithm>,
    /// Every candidate that could be chosen, with what it is estimated to take, in the order of [`Candidate::ALL`].
    pub estimates: Vec<(Candidate, Time)>,
}

/// The algorithm for `kind` over `ranks` ranks on a vector of `bytes`.
pub fn choose(kind: CollectiveKind, ranks: u32, bytes: Bytes, pieces: Pieces, network: &Network) -> Choice {
    let candidates = || {
        let takes = |candidate: Candidate| {
            Some((candidate, estimate(candidate, kind, ranks, bytes, pieces, network)?))
        };
        Candidate::ALL.into_iter().filter_map(takes)
    };
    let is_safe = |candidate: Candidate| candidate.is_safe(kind, ranks, bytes, pieces, network);
    let mut estimates: Vec<_> = candidates().filter(|&(candidate, _)| is_safe(candidate)).collect();
    if estimates.is_empty() {
        estimates = candidates().collect();
    }
    // One after the other, no message of an all-to-all is there earlier than all at once.
    if kind == CollectiveKind::AllToAll && is_safe(Candidate::Direct) {
        estimates.retain(|estimate| estimate.0 == Candidate::Direct);
    }
    let least = estimates.iter().map(|estimate| estimate.1.0).min().unwrap_or(0);
    let alike = least.saturating_add((u128::from(least) * u128::from(ALIKE) / 1000) as u64);
    let best = estimates
        .iter()
        .enumerate()
        .filter(|(_, estimate)| estimate.1.0 <= alike)
        .min_by_key(|&(index, estimate)| (estimate.0.messages(kind, ranks.max(2)), index));
    let candidate = best.map_or(Candidate::Direct, |(_, estimate)| estimate.0);
    Choice { algorithm: candidate.algorithm(), estimates }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::check;

    fn switch(burst: Option<Bytes>) -> Network {
        Network {
            wiring: Wiring::Switch,
            rate: Rate::from_bytes_per_s(50_000_000_000),
            count: 1,
            latency: Time::from_ns(1000),
            overhead: Time::ZERO,
            reduction: None,
            burst,
        }
    }

    fn name(kind: CollectiveKind, ranks: u32, bytes: u64, network: &Network) -> String {
        let pieces = Pieces { chunks: (bytes / 4096).clamp(1, 16) as u32, active: 4, lanes: 1 };
        choose(kind, ranks, Bytes(bytes), pieces, network).algorithm.name().to_owned()
    }

    #[test]
    fn what_is_chosen_offers_its_collective() {
        let wirings = [
            Wiring::Ring { both: true },
            Wiring::Ring { both: false },
            Wiring::Full,
            Wiring::Switch,
            Wiring::Graph { far: Rate::from_bytes_per_s(1_000_000_000), far_latency: Time::from_ns(3000) },
        ];
        for wiring in wirings {
            for burst in [None, Some(Bytes(0)), Some(Bytes(1 << 20))] {
                let network = Network { wiring, ..switch(burst) };
                for &kind in CollectiveKind::ALL {
                    for ranks in (1..=20).chain([31, 32, 33, 64, 65, 66, 100, 128, 130]) {
                        for bytes in [0, 4, 1 << 14, 1 << 26, u64::MAX] {
                            let pieces = Pieces { chunks: 16, active: 4, lanes: 2 };
                            let choice = choose(kind, ranks, Bytes(bytes), pieces, &network);
                            check(&*choice.algorithm, kind, ranks).unwrap();
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_decide() {
        use CollectiveKind::{AllReduce, AllToAll, Broadcast};
        let of = |kind, ranks, bytes| name(kind, ranks, bytes, &switch(None));
        assert_eq!(of(AllReduce, 8, 4), "direct");
        assert_eq!(of(AllReduce, 8, 1 << 30), "halving_doubling");
        assert_eq!(of(AllReduce, 6, 1 << 30), "ring");
        assert_eq!(of(AllReduce, 256, 4), "tree(fan_out=4)");
        assert_eq!(of(AllToAll, 256, 1 << 20), "direct");
        assert_eq!(of(Broadcast, 8, 4), "direct");
        assert!(of(Broadcast, 256, 4).starts_with("tree"));
        let full = Network { wiring: Wiring::Full, ..switch(None) };
        assert_eq!(name(AllReduce, 8, 1 << 30, &full), "direct");
        let ring = Network { wiring: Wiring::Ring { both: true }, ..switch(None) };
        assert_eq!(name(AllReduce, 16, 1 << 30, &ring), "ring");
    }

    /// Many senders to one receiver overflow a buffer that does not hold what they have under way.
    #[test]
    fn a_lossy_network_gets_no_incast() {
        use CollectiveKind::{AllReduce, AllToAll, Reduce};
        let lossy = switch(Some(Bytes(1 << 20)));
        for kind in [AllReduce, AllToAll, Reduce] {
            for ranks in [8, 12, 48] {
                let large = name(kind, ranks, 1 << 26, &lossy);
                assert_ne!(large, "direct", "{kind} {ranks}");
            }
        }
        assert_eq!(name(AllToAll, 12, 1 << 26, &lossy), "ring", "in its steps each rank has one sender");
        assert_eq!(name(AllReduce, 48, 4, &lossy), "direct", "4 bytes overflow nothing");
    }
}
