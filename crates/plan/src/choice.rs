//! The algorithms that are chosen where none is named: those that cost the least time on the network at hand.
//!
//! - [`Candidate`]: the algorithms to choose from, and which of them are dangerous where packets are lost;
//! - [`estimate`]: what a candidate takes, in closed form;
//! - [`choose`]: the quickest for each of the phases of a collective.
//!
//! Phases work at the same time on different chunks ([`pipeline`]). Among candidates with which it takes at most 2 %
//! longer than with the quickest, the one with the fewest messages is chosen, then the one with the fewest peers: behind a switch
//! and for large vectors halving-doubling or a ring in place of direct, which is as fast there and has more messages.

mod candidate;
mod estimate;
mod pipeline;
mod tree;

use crate::program::Algorithm;
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

pub use candidate::{Candidate, MOST_PEERS};
pub use estimate::{Cost, estimate};

/// Candidates with which a collective takes at most this much longer than with the quickest, in parts of 1,000, are as good.
const ALIKE: u64 = 20;
/// Looks at all phases again, after what was chosen for others has changed.
const LOOKS: usize = 4;

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
        /// What each rank can send while all send far, each to one other.
        far: Rate,
        /// What each rank can send while all send to all others at once.
        all: Rate,
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
    /// What each message keeps its sender busy besides its bytes (the gap of LogGP).
    pub gap: Time,
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

/// By what a vector is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Into the same pieces, whatever the algorithm.
    Into(Pieces),
    /// So that no message has more bytes than `message`; as many chunks run as send `window` bytes, two at least.
    Messages {
        /// Most bytes of a message.
        message: Bytes,
        /// Bytes of messages under way.
        window: Bytes,
    },
}

impl Work<'_> {
    /// The pieces for a candidate.
    fn pieces(&self, candidate: Candidate) -> Pieces {
        match self.cut {
            Cut::Into(pieces) => pieces,
            Cut::Messages { message, window } => {
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

/// A phase of a collective: what is to be done, and where.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The collective of the phase.
    pub kind: CollectiveKind,
    /// Ranks of a group.
    pub ranks: u32,
    /// Bytes of the vector, of all chunks.
    pub bytes: Bytes,
    /// How the vector is cut.
    pub cut: Cut,
    /// The network between the ranks.
    pub network: &'a Network,
}

/// A phase whose algorithm is to be chosen, or known.
#[derive(Clone, Copy, Debug)]
pub struct Phase<'a> {
    /// What is to be done.
    pub work: Work<'a>,
    /// Phases on the same line keep the same links busy.
    pub line: usize,
    /// What may be chosen.
    pub from: &'a [Candidate],
    /// The algorithm that is named for it. One without a closed form counts as if it took no time.
    pub named: Option<&'a dyn Algorithm>,
}

/// What was chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm of each phase; `None` where one is named.
    pub candidates: Vec<Option<Candidate>>,
    /// What all phases take together, by the estimates.
    pub time: Time,
}

/// The algorithms for the phases of a collective that run one after the other, chunk by chunk.
pub fn choose(phases: &[Phase<'_>]) -> Choice {
    let options: Vec<_> = phases.iter().map(options).collect();
    let time = |picks: &[usize]| {
        let costs = options.iter().zip(picks).map(|(options, &pick)| options[pick].1);
        pipeline::time(&phases.iter().map(|phase| phase.line).zip(costs).collect::<Vec<_>>())
    };
    // What is quickest for each phase alone, or hands on its first chunk soonest, then beside what the others have.
    let whole: fn(&Cost) -> Time = |cost| cost.whole;
    let first: fn(&Cost) -> Time = |cost| cost.first;
    let from = |part: fn(&Cost) -> Time| {
        let alone = |options: &Vec<(Candidate, Cost)>| {
            (0..options.len()).min_by_key(|&option| part(&options[option].1)).unwrap_or(0)
        };
        improved(options.iter().map(alone).collect(), &options, &time)
    };
    let mut picks = [whole, first].map(from).into_iter().min_by_key(|picks| time(picks)).unwrap_or_default();
    let least = time(&picks).0;
    let alike = least.saturating_add((u128::from(least) * u128::from(ALIKE) / 1000) as u64);
    for (at, phase) in phases.iter().enumerate() {
        let messages =
            |option: usize| options[at][option].0.messages(phase.work.kind, phase.work.ranks.max(2));
        let is_alike = |&option: &usize| time(&with(&picks, at, option)).0 <= alike;
        let fewest = (0..options[at].len()).filter(is_alike).min_by_key(|&option| messages(option));
        picks[at] = fewest.unwrap_or(picks[at]);
    }
    let chosen = |(at, phase): (usize, &Phase<'_>)| phase.named.is_none().then(|| options[at][picks[at]].0);
    let candidates = phases.iter().enumerate().map(chosen).collect();
    Choice { candidates, time: time(&picks) }
}

/// The picks with another one for a phase.
fn with(picks: &[usize], phase: usize, option: usize) -> Vec<usize> {
    let mut picks = picks.to_vec();
    picks[phase] = option;
    picks
}

/// The picks after each phase in turn has got what is best beside the others, until none changes.
fn improved(
    mut picks: Vec<usize>,
    options: &[Vec<(Candidate, Cost)>],
    time: &impl Fn(&[usize]) -> Time,
) -> Vec<usize> {
    for _ in 0..LOOKS * usize::from(picks.len() > 1) {
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

/// What may run a phase, with its cost.
fn options(phase: &Phase<'_>) -> Vec<(Candidate, Cost)> {
    let work = &phase.work;
    if let Some(named) = phase.named {
        let known = Candidate::ALL.into_iter().find(|candidate| candidate.algorithm().name() == named.name());
        let cost = known.and_then(|candidate| estimate(candidate, work)).unwrap_or_default();
        return vec![(Candidate::Direct, cost)];
    }
    let takes = |candidate: Candidate| Some((candidate, estimate(candidate, work)?));
    let from = || phase.from.iter().copied();
    // One after the other, no message of an all-to-all is there earlier than all at once.
    let at_once = from().find(|&candidate| candidate == Candidate::Direct && candidate.is_safe(work));
    if let Some(direct) = at_once.filter(|_| work.kind == CollectiveKind::AllToAll) {
        return takes(direct).into_iter().collect();
    }
    let options: Vec<_> = from().filter(|candidate| candidate.is_safe(work)).filter_map(takes).collect();
    if options.is_empty() { from().filter_map(takes).collect() } else { options }
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
            gap: Time::ZERO,
            reduction: None,
            burst,
        }
    }

    fn alone(work: Work<'_>) -> Candidate {
        choose(&[Phase { work, line: 0, from: &Candidate::ALL, named: None }]).candidates[0].unwrap()
    }

    fn name(kind: CollectiveKind, ranks: u32, bytes: u64, network: &Network) -> String {
        let pieces = Pieces { chunks: (bytes / 4096).clamp(1, 16) as u32, active: 4, lanes: 1 };
        alone(Work { kind, ranks, bytes: Bytes(bytes), cut: Cut::Into(pieces), network })
            .algorithm()
            .name()
            .to_owned()
    }

    #[test]
    fn what_is_chosen_offers_its_collective() {
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
            for burst in [None, Some(Bytes(0)), Some(Bytes(1 << 20))] {
                let network = Network { wiring, ..switch(burst) };
                for &kind in CollectiveKind::ALL {
                    for ranks in (1..=20).chain([31, 32, 33, 64, 65, 66, 100, 128, 130]) {
                        for bytes in [0, 4, 1 << 14, 1 << 26, u64::MAX] {
                            let pieces = Pieces { chunks: 16, active: 4, lanes: 2 };
                            let work = Work {
                                kind,
                                ranks,
                                bytes: Bytes(bytes),
                                cut: Cut::Into(pieces),
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
            for ranks in [3, 8, 12, 48] {
                let large = name(kind, ranks, 1 << 26, &lossy);
                assert_ne!(large, "direct", "{kind} {ranks}");
            }
        }
        assert_eq!(name(AllToAll, 12, 1 << 26, &lossy), "ring", "in its steps each rank has one sender");
        assert_eq!(name(AllReduce, 48, 4, &lossy), "direct", "4 bytes overflow nothing");
    }
}
