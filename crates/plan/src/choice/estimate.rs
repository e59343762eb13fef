//! Closed forms for the time of a collective by each candidate.
//!
//! One chunk goes through *rounds*. A round keeps the busiest link *busy* for some time, and the round's last message
//! arrives a *latency* later. With `j` chunks in flight, a round takes `max(j busy, busy + latency)`: either the link
//! is never idle, or it waits for the next round of the first chunk. Chunks run in waves, each of as many chunks as
//! may be in flight on a lane; the total is the sum over waves and rounds. For a single chunk these are the formulas
//! of Thakur, Rabenseifner and Gropp (IJHPCA 2005).
//!
//! [`super::tree`] has the times along trees and chains.

use super::{Candidate, GroupNetwork, Pieces, Wiring, Work};
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

/// The time of a collective whose ranks all begin at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time until all chunks are done.
    pub whole: Time,
    /// Time until the first chunk is done, with others in flight.
    pub first: Time,
    /// Time of a chunk with no others in flight.
    pub alone: Time,
    /// Time for which a chunk keeps the busiest link busy.
    pub each: Time,
    /// Chunks that follow each other over the same links.
    pub chunks: u64,
    /// Chunks that finish at about the same time.
    pub burst: u64,
}

impl Cost {
    /// Time for which all chunks together keep the busiest link busy.
    pub fn busy(&self) -> Time {
        Time(self.each.0.saturating_mul(self.chunks))
    }
}

/// Several equal rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    times: u64,
    /// Time for which a chunk keeps the busiest link busy, in picoseconds.
    busy: u64,
    /// Time from then until the last message has arrived and is combined, in picoseconds.
    latency: u64,
}

/// Most rounds of different distances in a ring that are added up one by one.
const DISTANCES: u32 = 1 << 13;

/// Longest time of a message, in picoseconds: sums of a few such times do not overflow.
pub(super) const LONGEST: u64 = u64::MAX >> 8;

/// The cost of a phase by a candidate. `None` if the candidate does not offer the collective, if its cost is not
/// known there, as for [`Candidate::HalvingDoubling`] in a ring, or if it equals another candidate.
pub fn estimate(candidate: Candidate, work: &Work<'_>) -> Option<Cost> {
    let &Work { kind, ranks, bytes, network, .. } = work;
    let pieces = work.pieces(candidate);
    candidate.algorithm().offers(kind, ranks).ok()?;
    if ranks < 2 {
        return Some(Cost::default());
    }
    let case = Case { kind, ranks, chunk: bytes.0.div_ceil(pieces.chunks.max(1).into()), pieces, network };
    if candidate.is_tree() || kind.has_root() {
        case.along_tree(candidate)
    } else {
        Some(case.waves(candidate, &case.rounds(candidate)?))
    }
}

/// One chunk of a collective.
pub(super) struct Case<'a> {
    pub(super) kind: CollectiveKind,
    pub(super) ranks: u32,
    /// Bytes of a chunk.
    pub(super) chunk: u64,
    pub(super) pieces: Pieces,
    pub(super) network: &'a GroupNetwork,
}

/// Transfer time of `bytes` at `rate`, in picoseconds; 0 at a rate of zero, which other checks refuse.
pub(super) fn at(rate: Rate, bytes: u64) -> u64 {
    rate.transfer_time(Bytes(bytes)).map_or(0, |time| time.0).min(LONGEST)
}

impl Case<'_> {
    /// Messages over a link of a ring if every rank sends one to each other rank: in the busier direction, and the
    /// mean of both directions.
    fn hops(&self, both: bool) -> (u64, u64) {
        let n = u64::from(self.ranks);
        if !both {
            return (n * (n - 1) / 2, n * (n - 1) / 2);
        }
        let (forward, backward) = (n / 2 * (n / 2 + 1) / 2, (n - 1) / 2 * ((n - 1) / 2 + 1) / 2);
        (forward, (forward + backward).div_ceil(2))
    }

    /// Latency of a message to the rank `distance` places on.
    pub(super) fn latency(&self, distance: u32) -> u64 {
        let GroupNetwork { latency, overhead, .. } = self.network;
        let links = match self.network.wiring {
            Wiring::Ring { both: true } => distance.min(self.ranks - distance),
            Wiring::Ring { both: false } => distance,
            Wiring::Graph { far_latency, .. } if distance > 1 => {
                return far_latency.0.saturating_add(overhead.0).min(LONGEST);
            }
            _ => 1,
        };
        latency.0.saturating_mul(links.into()).saturating_add(overhead.0).min(LONGEST)
    }

    /// Time for a rank to combine `bytes` with its own data; 0 in a round that does not reduce.
    pub(super) fn reduction(&self, reduces: bool, bytes: u64) -> u64 {
        self.network.reduction.filter(|_| reduces).map_or(0, |rate| at(rate, bytes))
    }

    /// Time for which `messages` messages with `bytes` bytes together keep a link busy at `rate`.
    pub(super) fn sends(&self, rate: Rate, bytes: u64, messages: u64) -> u64 {
        at(rate, bytes).saturating_add(self.network.gap.0.saturating_mul(messages)).min(LONGEST)
    }

    /// Rate at which each rank sends to distant ones, over one link.
    pub(super) fn far(&self) -> Rate {
        match self.network.wiring {
            Wiring::Graph { far, .. } => far,
            _ => self.network.rate,
        }
    }

    /// Distance to the farthest rank.
    fn farthest(&self) -> u32 {
        match self.network.wiring {
            Wiring::Ring { both: true } => self.ranks / 2,
            _ => self.ranks - 1,
        }
    }

    /// The passes of a collective over all blocks; `true` for those that reduce.
    fn passes(&self) -> &'static [bool] {
        match self.kind {
            CollectiveKind::AllReduce => &[true, false],
            CollectiveKind::ReduceScatter => &[true],
            _ => &[false],
        }
    }

    fn rounds(&self, candidate: Candidate) -> Option<Vec<Round>> {
        let passes = self.passes().iter();
        match candidate {
            Candidate::Ring if self.kind == CollectiveKind::AllToAll => Some(self.one_by_one()),
            Candidate::Pairwise => Some(passes.flat_map(|_| self.one_by_one()).collect()),
            Candidate::Ring => Some(passes.map(|&reduces| self.around(reduces)).collect()),
            Candidate::Direct => Some(passes.map(|&reduces| self.at_once(reduces)).collect()),
            Candidate::HalvingDoubling if matches!(self.network.wiring, Wiring::Ring { .. }) => None,
            Candidate::HalvingDoubling => Some(self.halving()),
            Candidate::Tree | Candidate::WideTree | Candidate::Binomial | Candidate::DoubleBinaryTree => None,
        }
    }

    /// `N - 1` rounds round a ring of ranks.
    fn around(&self, reduces: bool) -> Round {
        let block = self.chunk.div_ceil(self.ranks.into());
        let combine = self.reduction(reduces, block);
        let busy = self.sends(self.network.rate, block, 1);
        Round {
            times: u64::from(self.ranks - 1),
            busy: busy.max(combine),
            latency: self.latency(1) + combine,
        }
    }

    /// One round, in which each rank sends to all others at once.
    fn at_once(&self, reduces: bool) -> Round {
        let block = self.chunk.div_ceil(self.ranks.into());
        let peers = u64::from(self.ranks - 1);
        let count = u64::from(self.network.count.max(1));
        let several = self.pieces.chunks > 1;
        let rate = self.network.rate;
        let busy = match self.network.wiring {
            Wiring::Full => self.sends(rate, block, 1),
            Wiring::Ring { both } => {
                let (busiest, mean) = self.hops(both);
                at(rate, block.saturating_mul(if several { mean } else { busiest }))
            }
            Wiring::Switch if several => self.sends(rate, block.saturating_mul(peers) / count, peers / count),
            Wiring::Switch => {
                let most = peers.div_ceil(count);
                self.sends(rate, block.saturating_mul(most), most)
            }
            Wiring::Graph { all, .. } => self.sends(all, block.saturating_mul(peers), peers),
        };
        let combine = self.reduction(reduces, block);
        let busy = busy.max(self.reduction(reduces, block.saturating_mul(peers)));
        Round { times: 1, busy, latency: self.latency(self.farthest()) + combine }
    }

    /// `N - 1` rounds: in round `i` each rank sends to the rank `i` places on.
    fn one_by_one(&self) -> Vec<Round> {
        let block = self.chunk.div_ceil(self.ranks.into());
        let combine = self.reduction(self.kind != CollectiveKind::AllToAll, block);
        let round = |distance: u32, times: u64| {
            let links = match self.network.wiring {
                Wiring::Ring { both: true } => distance.min(self.ranks - distance),
                Wiring::Ring { both: false } => distance,
                _ => 1,
            };
            let busy = self.sends(self.far(), block.saturating_mul(links.into()), 1);
            Round { times, busy: busy.max(combine), latency: self.latency(distance) + combine }
        };
        match self.network.wiring {
            Wiring::Ring { .. } => {
                // With more rounds than that, the middle round represents its neighbours.
                let together = (self.ranks - 1).div_ceil(DISTANCES);
                let of = |first: u32| {
                    let count = together.min(self.ranks - first);
                    round(first + (count - 1) / 2, count.into())
                };
                (1..self.ranks).step_by(together as usize).map(of).collect()
            }
            _ => vec![round(2.min(self.ranks - 1), u64::from(self.ranks - 1))],
        }
    }

    /// Halving, then doubling.
    fn halving(&self) -> Vec<Round> {
        let steps = self.ranks.ilog2();
        let even = self.ranks.is_power_of_two();
        let whole = self.chunk;
        let latency = self.latency(self.farthest());
        let round = |bytes: u64, reduces: bool| {
            let combine = self.reduction(reduces, bytes);
            Round {
                times: 1,
                busy: self.sends(self.far(), bytes, 1).max(combine),
                latency: latency + combine,
            }
        };
        let mut rounds = Vec::new();
        // A rank that acts for another sends the blocks of both: at most three quarters of what it holds.
        let held = |step: u32| if even { whole >> step } else { (whole >> step) + (whole >> (step + 1)) };
        for &reduces in self.passes() {
            if !even && reduces {
                rounds.push(round(whole, true));
            }
            rounds.extend((1..=steps).map(|step| round(held(step), reduces)));
            if !even && (!reduces || self.kind == CollectiveKind::ReduceScatter) {
                rounds.push(round(whole, false));
            }
        }
        rounds
    }

    /// Chunks of a lane, and how many of them are in flight at a time. Lanes that use the same links count as one.
    pub(super) fn lane(&self, candidate: Candidate) -> (u64, u64) {
        let Pieces { chunks, active, lanes } = self.pieces;
        let (chunks, lanes) = (u64::from(chunks.max(1)), u64::from(lanes.max(1)));
        let own = self.lanes_with_own_links(candidate).min(lanes);
        let of_lane = chunks.div_ceil(own);
        let most = if active == 0 { of_lane } else { u64::from(active).saturating_mul(lanes / own) };
        (of_lane, most.clamp(1, of_lane))
    }

    /// The number of lanes that have their own links. A plan round a ring uses the links of one ring in one
    /// direction; other plans use both directions, and an exchange among all ranks uses all links to all switches.
    fn lanes_with_own_links(&self, candidate: Candidate) -> u64 {
        let count = u64::from(self.network.count.max(1));
        match self.network.wiring {
            Wiring::Full | Wiring::Ring { .. } if candidate == Candidate::Ring => u64::MAX,
            Wiring::Full | Wiring::Ring { .. } => count,
            Wiring::Switch if candidate == Candidate::Direct => 1,
            Wiring::Switch => u64::MAX,
            Wiring::Graph { .. } => 1,
        }
    }

    fn waves(&self, candidate: Candidate, rounds: &[Round]) -> Cost {
        let (chunks, active) = self.lane(candidate);
        let wave = |chunks: u64, rounds: &[Round]| {
            let round = |round: &Round| {
                let time = (round.busy.saturating_mul(chunks)).max(round.busy + round.latency);
                time.saturating_mul(round.times)
            };
            rounds.iter().map(round).fold(0, u64::saturating_add)
        };
        let rest = (chunks - 1) % active + 1;
        let waves = wave(active, rounds).saturating_mul((chunks - rest) / active);
        let last = rounds.last().copied().unwrap_or_default();
        // The last round ends a latency after the last chunk has left the busiest link; `wave` counts the longer of
        // the two only.
        let tail = last.latency.min(last.busy.saturating_mul(rest - 1));
        let whole = waves.saturating_add(wave(rest, rounds)).saturating_add(tail);
        // In its last round the first chunk does not wait for others.
        let own = Round { times: 1, ..last };
        let first = wave(active, rounds).saturating_sub(wave(active, &[own])).saturating_add(wave(1, &[own]));
        let busy = rounds.iter().map(|round| round.busy.saturating_mul(round.times));
        let is_one_round = rounds.len() == 1 && last.times == 1;
        Cost {
            whole: Time(whole),
            first: Time(first),
            alone: Time(wave(1, rounds)),
            each: Time(busy.fold(0, u64::saturating_add)),
            chunks,
            burst: if is_one_round { 1 } else { active },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Chunking;

    /// The rounds of a ring of millions of ranks are taken together; their sum is close to that of the closed form.
    #[test]
    fn a_large_ring_has_few_rounds() {
        let network = GroupNetwork {
            wiring: Wiring::Ring { both: false },
            rate: Rate::from_bytes_per_s(1_000_000_000_000),
            count: 1,
            latency: Time::from_ns(1),
            overhead: Time::ZERO,
            gap: Time::ZERO,
            reduction: None,
            buffer: None,
            paths: None,
        };
        for ranks in [2u32, 3, DISTANCES, DISTANCES + 1, DISTANCES + 2, 100_000, (1 << 24) - 1, 1 << 24] {
            let bytes = Bytes(u64::from(ranks));
            let (kind, chunking) = (CollectiveKind::AllToAll, Chunking::Fixed(Pieces::ONE));
            let work = Work { kind, ranks, bytes, chunking, network: &network };
            let case = Case { kind, ranks, chunk: bytes.0, pieces: Pieces::ONE, network: &network };
            assert!(case.one_by_one().len() <= DISTANCES as usize, "{ranks}");
            assert_eq!(case.one_by_one().iter().map(|round| round.times).sum::<u64>(), u64::from(ranks - 1));
            // One byte to each rank, over as many links as its distance: 1 ns and 1 ps for each link.
            let links = u64::from(ranks) * u64::from(ranks - 1) / 2;
            let (found, closed) = (estimate(Candidate::Ring, &work).unwrap().whole.0, links * 1001);
            assert!(found.abs_diff(closed) <= closed / 1000, "{ranks}: {found} and {closed}");
        }
    }

    /// Thakur, Rabenseifner and Gropp (2005), sections 4.1 to 4.5, for a single chunk: `alpha` per message, `beta`
    /// per byte, `gamma` per byte combined.
    #[test]
    fn one_chunk_takes_as_long_as_in_the_literature() {
        use CollectiveKind::{AllGather, AllReduce, Broadcast, ReduceScatter};
        let (alpha, beta, gamma) = (1_000_000, 20, 10);
        let network = GroupNetwork {
            wiring: Wiring::Switch,
            rate: Rate::from_bytes_per_s(1_000_000_000_000 / beta),
            count: 1,
            latency: Time(alpha),
            overhead: Time::ZERO,
            gap: Time::ZERO,
            reduction: Some(Rate::from_bytes_per_s(1_000_000_000_000 / gamma)),
            buffer: None,
            paths: None,
        };
        for p in [2u64, 4, 8, 16, 64] {
            let n = p * 1000;
            let of = |candidate, kind| {
                let chunking = Chunking::Fixed(Pieces::ONE);
                let work = Work { kind, ranks: p as u32, bytes: Bytes(n), chunking, network: &network };
                estimate(candidate, &work).unwrap().whole.0
            };
            let (lg, moved) = (u64::from(p.ilog2()), (p - 1) * n / p);
            assert_eq!(of(Candidate::Ring, AllGather), (p - 1) * alpha + moved * beta);
            assert_eq!(of(Candidate::Ring, ReduceScatter), (p - 1) * alpha + moved * (beta + gamma));
            assert_eq!(of(Candidate::HalvingDoubling, AllGather), lg * alpha + moved * beta);
            assert_eq!(of(Candidate::HalvingDoubling, ReduceScatter), lg * alpha + moved * (beta + gamma));
            assert_eq!(
                of(Candidate::HalvingDoubling, AllReduce),
                2 * (lg * alpha + moved * beta) + moved * gamma
            );
            assert_eq!(of(Candidate::Ring, AllReduce), 2 * ((p - 1) * alpha + moved * beta) + moved * gamma);
            assert_eq!(of(Candidate::Binomial, Broadcast), lg * (alpha + n * beta));
            assert_eq!(of(Candidate::Ring, Broadcast), (p - 1) * (alpha + n * beta));
        }
    }
}
