//! Chooses algorithms that the user does not name: the quickest on the given network.
//!
//! - [`Candidate`]: the algorithms to choose from, and which of them risk packet loss on a lossy network;
//! - [`estimate`]: the time of a candidate, in closed form;
//! - [`Paths`]: the links that the messages of trees take on a graph, which decide their time there;
//! - [`choose`]: the quickest candidate for each phase of a collective.
//!
//! Phases work on different chunks at the same time ([`pipeline`]). Among candidates within 2 % of the quickest
//! ([`SLACK`]), `choose` takes the one with the fewest messages, then the one with the fewest peers. For a large
//! vector behind a switch that is halving-doubling or a ring: direct is as fast there, but sends more messages.

mod candidate;
mod estimate;
mod paths;
mod pipeline;
mod routed;
mod tree;

use crate::program::Algorithm;
use std::sync::Arc;
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

pub use candidate::{Candidate, MAX_PEERS};
pub use estimate::{Cost, estimate};
pub use paths::{Groups, Paths, Route};

/// Choices count as equally quick if they differ by at most one part in this many: 2 %.
pub const SLACK: u64 = 50;
/// Most passes over the phases of a collective to improve their algorithms one by one.
const PASSES: usize = 4;

/// How the ranks of a group are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// In rings. Messages between ranks that are not neighbours pass through the ranks between them.
    Ring {
        /// Whether rings run both ways.
        both: bool,
    },
    /// Each pair of ranks has its own links.
    Full,
    /// Behind switches that are never a bottleneck.
    Switch,
    /// By a graph in which rate and latency depend on the distance between ranks.
    Graph {
        /// Rate at which each rank sends while all ranks send to one distant rank each.
        far: Rate,
        /// Rate at which each rank sends while all ranks send to all others at once.
        all: Rate,
        /// Latency to the farthest rank.
        far_latency: Time,
    },
}

/// The network between the ranks of a group, as far as estimates depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNetwork {
    /// How ranks are connected.
    pub wiring: Wiring,
    /// Rate of one link; on a graph, the rate at which each rank sends to the next one while all ranks do.
    pub rate: Rate,
    /// Parallel links, rings or switches.
    pub count: u32,
    /// Latency of a message: in rings per link, on a graph the mean of messages to the next rank, otherwise end to end.
    pub latency: Time,
    /// Further latency of a message at its two ends, independent of the distance.
    pub overhead: Time,
    /// Time for which each message keeps its sender busy, besides its bytes (the gap of LogGP).
    pub gap: Time,
    /// Rate at which a rank combines received data with its own; with `None` that takes no time.
    pub reduction: Option<Rate>,
    /// Buffer of a switch port, which drops packets when it is full; `None` if the network drops none.
    pub buffer: Option<Bytes>,
    /// The paths of trees, where they were routed on a graph.
    pub paths: Option<Arc<Paths>>,
}

impl GroupNetwork {
    /// Ranks that each send to the next one at rate `near`, and to any other at rate `far`. `gap` and `buffer` are as in
    /// the fields of these names.
    pub const fn near_far(near: Rate, far: Rate, latency: Time, gap: Time, buffer: Bytes) -> Self {
        Self {
            wiring: Wiring::Graph { far, all: far, far_latency: latency },
            rate: near,
            count: 1,
            latency,
            overhead: Time::ZERO,
            gap,
            reduction: None,
            buffer: Some(buffer),
            paths: None,
        }
    }
}

/// How many chunks a vector is cut into, and how many of them are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Chunks, each of which runs the whole algorithm.
    pub chunks: u32,
    /// Chunks that run at a time on each lane; 0 means no limit.
    pub active: u32,
    /// Lanes to which chunks are dealt in turn: rings by direction, parallel links or switches.
    pub lanes: u32,
}

impl Pieces {
    /// One chunk.
    pub const ONE: Self = Self { chunks: 1, active: 0, lanes: 1 };
}

/// How the chunks of a vector are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// The same chunks for every algorithm.
    Fixed(Pieces),
    /// The fewest chunks whose messages have at most `message` bytes each. Chunks run at the same time until their
    /// messages fill `window`, and at least two.
    ByMessage {
        /// Most bytes of a message.
        message: Bytes,
        /// Bytes of messages in flight.
        window: Bytes,
    },
}

impl Work<'_> {
    /// The pieces for a candidate.
    fn pieces(&self, candidate: Candidate) -> Pieces {
        match self.chunking {
            Chunking::Fixed(pieces) => pieces,
            Chunking::ByMessage { message, window } => {
                let message = message.0.max(1);
                let chunks = self.bytes.0.div_ceil(candidate.parts(self.kind, self.ranks)).div_ceil(message);
                let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
                Pieces {
                    chunks: narrow(chunks.max(1)),
                    active: narrow((window.0 / message).max(2)),
                    lanes: 1,
                }
            }
        }
    }
}

/// The work of one phase of a collective.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The collective of the phase.
    pub kind: CollectiveKind,
    /// Ranks of a group.
    pub ranks: u32,
    /// Bytes of the vector, all chunks together.
    pub bytes: Bytes,
    /// How the vector is cut into chunks.
    pub chunking: Chunking,
    /// The network between the ranks.
    pub network: &'a GroupNetwork,
}

/// A phase of a collective, with the algorithms that may run it.
#[derive(Clone, Copy, Debug)]
pub struct Phase<'a> {
    /// The work.
    pub work: Work<'a>,
    /// Axis of the group. Phases along the same axis compete for the same links.
    pub axis: usize,
    /// The algorithms to choose from. If the cost of none of them is known here, any may be chosen.
    pub candidates: &'a [Candidate],
    /// The algorithm that the user names for the phase. It is assumed to take no time if it has no closed form.
    pub named: Option<&'a dyn Algorithm>,
}

/// The algorithms chosen for the phases of a collective.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm of each phase; `None` if the user names one.
    pub candidates: Vec<Option<Candidate>>,
    /// Estimated time of all phases together.
    pub time: Time,
}

/// Chooses the algorithms of the phases of a collective. Each chunk runs the phases in the given order.
pub fn choose(phases: &[Phase<'_>]) -> Choice {
    let options: Vec<_> = phases.iter().map(options).collect();
    let time = |picks: &[usize]| {
        let costs = options.iter().zip(picks).map(|(options, &pick)| options[pick].1);
        pipeline::time(&phases.iter().map(|phase| phase.axis).zip(costs).collect::<Vec<_>>())
    };
    // Two starting points: the candidate that is quickest for each phase by itself, and the one that finishes its first
    // chunk soonest. Both are then improved phase by phase.
    let whole: fn(&Cost) -> Time = |cost| cost.whole;
    let first: fn(&Cost) -> Time = |cost| cost.first;
    let start = |part: fn(&Cost) -> Time| {
        let alone = |options: &Vec<(Candidate, Cost)>| {
            (0..options.len()).min_by_key(|&option| part(&options[option].1)).unwrap_or(0)
        };
        improved(options.iter().map(alone).collect(), &options, &time)
    };
    let mut picks = [whole, first].map(start).into_iter().min_by_key(|picks| time(picks)).unwrap_or_default();
    let least = time(&picks).0;
    let most = least.saturating_add(least / SLACK);
    for (at, phase) in phases.iter().enumerate() {
        let messages =
            |option: usize| options[at][option].0.messages(phase.work.kind, phase.work.ranks.max(2));
        let is_quick = |&option: &usize| time(&with(&picks, at, option)).0 <= most;
        let fewest = (0..options[at].len()).filter(is_quick).min_by_key(|&option| messages(option));
        picks[at] = fewest.unwrap_or(picks[at]);
    }
    let chosen = |(at, phase): (usize, &Phase<'_>)| phase.named.is_none().then(|| options[at][picks[at]].0);
    let candidates = phases.iter().enumerate().map(chosen).collect();
    Choice { candidates, time: time(&picks) }
}

/// `picks` with the pick of one phase replaced by `option`.
fn with(picks: &[usize], phase: usize, option: usize) -> Vec<usize> {
    let mut picks = picks.to_vec();
    picks[phase] = option;
    picks
}

/// Gives each phase in turn the option that is best together with the picks of the others, until no pick changes.
fn improved(
    mut picks: Vec<usize>,
    options: &[Vec<(Candidate, Cost)>],
    time: &impl Fn(&[usize]) -> Time,
) -> Vec<usize> {
    for _ in 0..PASSES * usize::from(picks.len() > 1) {
        let before = picks.clone();
        for at in 0..picks.len() {
            let best = (0..options[at].len()).min_by_key(|&option| time(&with(&picks, at, option)));
            picks[at] = best.unwrap_or(0);
        }
        if picks == before {
            break;
        }
    }
    picks
}

/// The candidates for a phase, with their costs.
fn options(phase: &Phase<'_>) -> Vec<(Candidate, Cost)> {
    let work = &phase.work;
    if let Some(named) = phase.named {
        let known = Candidate::ALL.into_iter().find(|candidate| candidate.algorithm().name() == named.name());
        let cost = known.and_then(|candidate| estimate(candidate, work)).unwrap_or_default();
        return vec![(Candidate::Direct, cost)];
    }
    let takes = |candidate: Candidate| Some((candidate, estimate(candidate, work)?));
    let candidates = || phase.candidates.iter().copied();
    // In an all-to-all, sending the messages one after the other delivers none of them earlier than sending all at
    // once.
    let at_once = candidates().find(|&candidate| candidate == Candidate::Direct && candidate.is_safe(work));
    if let Some(direct) = at_once.filter(|_| work.kind == CollectiveKind::AllToAll) {
        return takes(direct).into_iter().collect();
    }
    // Safe candidates; else any of the candidates; else, if none of those has a known cost, any algorithm.
    let safe: Vec<_> = candidates().filter(|candidate| candidate.is_safe(work)).filter_map(takes).collect();
    let or = |options: Vec<_>, others: &[Candidate]| match options.is_empty() {
        true => others.iter().copied().filter_map(takes).collect(),
        false => options,
    };
    or(or(safe, phase.candidates), &Candidate::ALL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::check;

    fn switch(buffer: Option<Bytes>) -> GroupNetwork {
        GroupNetwork {
            wiring: Wiring::Switch,
            rate: Rate::from_bytes_per_s(50_000_000_000),
            count: 1,
            latency: Time::from_ns(1000),
            overhead: Time::ZERO,
            gap: Time::ZERO,
            reduction: None,
            buffer,
            paths: None,
        }
    }

    fn alone(work: Work<'_>) -> Candidate {
        choose(&[Phase { work, axis: 0, candidates: &Candidate::ALL, named: None }]).candidates[0].unwrap()
    }

    #[test]
    fn candidates_of_unknown_cost_are_not_chosen() {
        let ring = GroupNetwork { wiring: Wiring::Ring { both: true }, ..switch(None) };
        for kind in [CollectiveKind::AllToAll, CollectiveKind::AllReduce] {
            let chunking = Chunking::Fixed(Pieces::ONE);
            let work = Work { kind, ranks: 8, bytes: Bytes(1000), chunking, network: &ring };
            let candidates = &[Candidate::HalvingDoubling];
            let chosen = choose(&[Phase { work, axis: 0, candidates, named: None }]).candidates[0];
            assert!(chosen.is_some_and(|chosen| chosen != Candidate::HalvingDoubling), "{kind}");
        }
    }

    fn name(kind: CollectiveKind, ranks: u32, bytes: u64, network: &GroupNetwork) -> String {
        let pieces = Pieces { chunks: (bytes / 4096).clamp(1, 16) as u32, active: 4, lanes: 1 };
        alone(Work { kind, ranks, bytes: Bytes(bytes), chunking: Chunking::Fixed(pieces), network })
            .algorithm()
            .name()
            .to_owned()
    }

    #[test]
    fn chosen_algorithms_offer_their_collective() {
        let wirings = [
            Wiring::Ring { both: true },
            Wiring::Ring { both: false },
            Wiring::Full,
            Wiring::Switch,
            Wiring::Graph {
                far: Rate::from_bytes_per_s(1_000_000_000),
                all: Rate::from_bytes_per_s(2_000_000_000),
                far_latency: Time::from_ns(3000),
            },
        ];
        for wiring in wirings {
            for buffer in [None, Some(Bytes(0)), Some(Bytes(1 << 20))] {
                let network = GroupNetwork { wiring, ..switch(buffer) };
                for &kind in CollectiveKind::ALL {
                    for ranks in (1..=20).chain([31, 32, 33, 64, 65, 66, 100, 128, 130]) {
                        for bytes in [0, 4, 1 << 14, 1 << 26, u64::MAX] {
                            let pieces = Pieces { chunks: 16, active: 4, lanes: 2 };
                            let work = Work {
                                kind,
                                ranks,
                                bytes: Bytes(bytes),
                                chunking: Chunking::Fixed(pieces),
                                network: &network,
                            };
                            check(&*alone(work).algorithm(), kind, ranks).unwrap();
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_choice_depends_on_size_and_wiring() {
        use CollectiveKind::{AllReduce, AllToAll, Broadcast};
        let of = |kind, ranks, bytes| name(kind, ranks, bytes, &switch(None));
        assert_eq!(of(AllReduce, 8, 4), "direct");
        assert_eq!(of(AllReduce, 8, 1 << 30), "halving_doubling");
        assert_eq!(of(AllReduce, 6, 1 << 30), "ring");
        assert_eq!(of(AllReduce, 256, 4), "tree(fan_out=4)");
        assert_eq!(of(AllToAll, 256, 1 << 20), "direct");
        assert_eq!(of(Broadcast, 8, 4), "direct");
        assert!(of(Broadcast, 256, 4).starts_with("tree"));
        let full = GroupNetwork { wiring: Wiring::Full, ..switch(None) };
        assert_eq!(name(AllReduce, 8, 1 << 30, &full), "direct");
        let ring = GroupNetwork { wiring: Wiring::Ring { both: true }, ..switch(None) };
        assert_eq!(name(AllReduce, 16, 1 << 30, &ring), "ring");
    }

    /// Several senders to one receiver overflow its port if the buffer does not hold everything that they have in
    /// flight.
    #[test]
    fn direct_is_not_chosen_on_a_lossy_network_if_incast_overflows_a_port() {
        use CollectiveKind::{AllReduce, AllToAll, Reduce};
        let lossy = switch(Some(Bytes(1 << 20)));
        for kind in [AllReduce, AllToAll, Reduce] {
            for ranks in [3, 8, 12, 48] {
                let large = name(kind, ranks, 1 << 26, &lossy);
                assert_ne!(large, "direct", "{kind} {ranks}");
            }
        }
        assert_eq!(name(AllToAll, 12, 1 << 26, &lossy), "ring", "in its steps each rank has one sender");
        assert_eq!(name(AllReduce, 48, 4, &lossy), "direct", "4 bytes overflow nothing");
    }
}
