//! What a collective takes by each candidate, in closed form.
//!
//! One chunk goes through *rounds*. In a round it keeps the busiest link *busy* for some time, and its last message
//! arrives a *latency* after that. With `j` chunks in flight, a round takes `max(j busy, busy + latency)`: the link is
//! either never idle, or waits for what comes back. Chunks run in waves of as many as may be under way on a lane, so the
//! whole takes the sum over waves and rounds.
//!
//! A broadcast (and a reduce, which is one backwards) follows its tree rank by rank: a rank sends on when it has received,
//! one child after the other where these share a link. Further chunks follow as fast as the busiest link lets them.

use super::{Candidate, Network, Pieces, Wiring};
use crate::program::{Algorithm, Op, Seat, program};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use syncline_units::{Bytes, CollectiveKind, Rate, Time};

/// Rounds that are alike.
#[derive(Clone, Copy, Debug)]
struct Round {
    times: u64,
    /// Time of the busiest link, in picoseconds.
    busy: u64,
    /// From then until the last message is there and combined.
    latency: u64,
}

/// What follows one link of rank 0 in a broadcast of one chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Branch {
    /// When the first and the last rank have the chunk.
    earliest: u64,
    latest: u64,
    /// Time of rank 0's link, and of the busiest one behind it.
    root: u64,
    inner: u64,
}

/// Longest time of a message, in picoseconds: so that no sum of a few overflows.
const LONGEST: u64 = u64::MAX >> 8;
/// Most ranks of which a tree is followed rank by rank.
const FOLLOWED: u32 = 1 << 14;

/// The time of `kind` over `ranks` ranks on a vector of `bytes` by a candidate, where all ranks begin at once. `None`
/// where the candidate does not offer the collective, or would take links of ranks between two others for most messages
/// ([`Candidate::HalvingDoubling`] in a ring).
pub fn estimate(
    candidate: Candidate,
    kind: CollectiveKind,
    ranks: u32,
    bytes: Bytes,
    pieces: Pieces,
    network: &Network,
) -> Option<Time> {
    use CollectiveKind::{Broadcast, Reduce};
    let algorithm = candidate.algorithm();
    algorithm.offers(kind, ranks).ok()?;
    if ranks < 2 {
        return Some(Time::ZERO);
    }
    let case = Case { kind, ranks, chunk: bytes.0.div_ceil(pieces.chunks.max(1).into()), pieces, network };
    let rooted = matches!(kind, Broadcast | Reduce);
    // One peer at a time is the same plan as all at once there.
    if rooted && candidate == Candidate::Pairwise {
        return None;
    }
    if rooted || candidate.is_tree() {
        // Of an odd number of ranks each is an inner one of one of the two trees. In a reduce it has then done with a chunk
        // only when another's part has come, and waits for that in every wave.
        let waits = kind == Reduce && candidate == Candidate::DoubleBinaryTree && ranks % 2 == 1;
        let time = |branch: &Branch| {
            let again = if waits { case.latency(1) + branch.inner / 2 } else { 0 };
            let whole = case.follow(candidate, branch, kind);
            whole.saturating_add(Time(again.saturating_mul(case.gaps(candidate))))
        };
        return case.tree(candidate, &*algorithm)?.iter().map(time).max();
    }
    Some(case.waves(candidate, &case.rounds(candidate)?))
}

/// One chunk of a collective.
struct Case<'a> {
    kind: CollectiveKind,
    ranks: u32,
    /// Bytes of a chunk.
    chunk: u64,
    pieces: Pieces,
    network: &'a Network,
}

/// How long `bytes` take at `rate`, in picoseconds; no time at a rate of zero, which is refused elsewhere.
fn at(rate: Rate, bytes: u64) -> u64 {
    rate.transfer_time(Bytes(bytes)).map_or(0, |time| time.0).min(LONGEST)
}

impl Case<'_> {
    /// Messages over a link of a ring, where every rank sends one to each other rank: by the busier direction, and on
    /// average of both.
    fn hops(&self, both: bool) -> (u64, u64) {
        let n = u64::from(self.ranks);
        if !both {
            return (n * (n - 1) / 2, n * (n - 1) / 2);
        }
        let (forward, backward) = (n / 2 * (n / 2 + 1) / 2, (n - 1) / 2 * ((n - 1) / 2 + 1) / 2);
        (forward, (forward + backward).div_ceil(2))
    }

    /// Latency of a message to the rank `distance` places on.
    fn latency(&self, distance: u32) -> u64 {
        let Network { latency, overhead, .. } = self.network;
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

    /// The time in which a rank combines `bytes` with its own data, in a round that reduces.
    fn reduction(&self, reduces: bool, bytes: u64) -> u64 {
        self.network.reduction.filter(|_| reduces).map_or(0, |rate| at(rate, bytes))
    }

    /// What each rank can send far, over one link.
    fn far(&self) -> Rate {
        match self.network.wiring {
            Wiring::Graph { far, .. } => far,
            _ => self.network.rate,
        }
    }

    /// The farthest rank.
    fn farthest(&self) -> u32 {
        match self.network.wiring {
            Wiring::Ring { both: true } => self.ranks / 2,
            _ => self.ranks - 1,
        }
    }

    /// The passes of a collective over all blocks: whether each reduces.
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
        let busy = at(self.network.rate, block);
        Round {
            times: u64::from(self.ranks - 1),
            busy: busy.max(combine),
            latency: self.latency(1) + combine,
        }
    }

    /// One round with all others.
    fn at_once(&self, reduces: bool) -> Round {
        let block = self.chunk.div_ceil(self.ranks.into());
        let peers = u64::from(self.ranks - 1);
        let count = u64::from(self.network.count.max(1));
        let several = self.pieces.chunks > 1;
        let rate = self.network.rate;
        let busy = match self.network.wiring {
            Wiring::Full => at(rate, block),
            Wiring::Ring { both } => {
                let (busiest, mean) = self.hops(both);
                at(rate, block.saturating_mul(if several { mean } else { busiest }))
            }
            Wiring::Switch if several => at(rate, block.saturating_mul(peers) / count),
            Wiring::Switch => at(rate, block.saturating_mul(peers.div_ceil(count))),
            Wiring::Graph { far, .. } => at(far, block.saturating_mul(peers)),
        };
        let combine = self.reduction(reduces, block);
        let busy = busy.max(self.reduction(reduces, block.saturating_mul(peers)));
        Round { times: 1, busy, latency: self.latency(self.farthest()) + combine }
    }

    /// `N - 1` rounds, each with the rank that is one place farther on.
    fn one_by_one(&self) -> Vec<Round> {
        let block = self.chunk.div_ceil(self.ranks.into());
        let combine = self.reduction(self.kind != CollectiveKind::AllToAll, block);
        let round = |distance: u32, times: u64| {
            let links = match self.network.wiring {
                Wiring::Ring { both: true } => distance.min(self.ranks - distance),
                Wiring::Ring { both: false } => distance,
                _ => 1,
            };
            let busy = at(self.far(), block.saturating_mul(links.into()));
            Round { times, busy: busy.max(combine), latency: self.latency(distance) + combine }
        };
        match self.network.wiring {
            Wiring::Ring { .. } => (1..self.ranks).map(|distance| round(distance, 1)).collect(),
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
            Round { times: 1, busy: at(self.far(), bytes).max(combine), latency: latency + combine }
        };
        let mut rounds = Vec::new();
        // A rank that acts for two hands on the blocks of both: at most three quarters of what it holds.
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

    /// Chunks of a lane, those of them that are under way at a time, where `shared` lanes have the same links.
    fn lane(&self, shared: bool) -> (u64, u64) {
        let Pieces { chunks, active, lanes } = self.pieces;
        let (chunks, lanes) = (u64::from(chunks.max(1)), u64::from(lanes.max(1)));
        let own = if shared { 1 } else { lanes };
        let of_lane = chunks.div_ceil(own);
        let most = if active == 0 { of_lane } else { u64::from(active).saturating_mul(lanes / own) };
        (of_lane, most.clamp(1, of_lane))
    }

    /// Whether lanes share links: whatever is sent to all others at once takes those of all lanes.
    fn shares(&self, candidate: Candidate) -> bool {
        match self.network.wiring {
            Wiring::Full => candidate != Candidate::Ring && self.pieces.lanes > self.network.count,
            Wiring::Ring { .. } => candidate != Candidate::Ring && self.network.count == 1,
            Wiring::Switch => candidate == Candidate::Direct,
            Wiring::Graph { .. } => true,
        }
    }

    fn waves(&self, candidate: Candidate, rounds: &[Round]) -> Time {
        let (chunks, active) = self.lane(self.shares(candidate));
        let wave = |chunks: u64| {
            let round = |round: &Round| {
                let time = (round.busy.saturating_mul(chunks)).max(round.busy + round.latency);
                time.saturating_mul(round.times)
            };
            rounds.iter().map(round).fold(0, u64::saturating_add)
        };
        let rest = (chunks - 1) % active + 1;
        let waves = wave(active).saturating_mul((chunks - rest) / active).saturating_add(wave(rest));
        let last = rounds.last().copied().unwrap_or(Round { times: 0, busy: 0, latency: 0 });
        // What comes after the last round of the first chunk: the others, or the latency, whichever that does not hold.
        let tail = last.latency.min(last.busy.saturating_mul(rest - 1));
        Time(waves.saturating_add(tail))
    }

    /// The branches of a broadcast, by the links of rank 0.
    fn tree(&self, candidate: Candidate, algorithm: &dyn Algorithm) -> Option<Vec<Branch>> {
        let kind = CollectiveKind::Broadcast;
        let streams = algorithm.streams(kind, self.ranks);
        let message = self.chunk.div_ceil(streams.into());
        let combine = self.reduction(self.kind != kind, message);
        // A chain is as long as its ranks are many.
        if candidate == Candidate::Ring {
            let busy = at(self.network.rate, message).max(combine);
            let hop = busy.saturating_add(self.latency(1)).saturating_add(combine);
            let latest = hop.saturating_mul(u64::from(self.ranks - 1));
            return Some(vec![Branch { earliest: hop, latest, root: busy, inner: busy }]);
        }
        // The ways of these trees cross each other in a ring.
        let crosses =
            matches!(candidate, Candidate::Tree | Candidate::WideTree | Candidate::DoubleBinaryTree);
        let in_ring = matches!(self.network.wiring, Wiring::Ring { .. });
        let too_many = candidate == Candidate::Direct && self.ranks > super::MOST_PEERS;
        if crosses && in_ring || too_many || self.ranks > FOLLOWED {
            return None;
        }
        let busy = at(self.far(), message).max(combine);
        let mut used: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        // Of each stream and link of rank 0: the first and the last time, and the links on the way.
        let mut branches: BTreeMap<(u32, u32), (Branch, BTreeSet<(u32, u32)>)> = BTreeMap::new();
        for stream in 0..streams {
            let mut queue = VecDeque::from([(0u32, 0u64, None)]);
            while let Some((index, has, branch)) = queue.pop_front() {
                let seat = Seat { kind, ranks: self.ranks, index, stream, reverse: false };
                let mut free: BTreeMap<u32, u64> = BTreeMap::new();
                for op in program(algorithm, seat) {
                    let Op::Send { to, .. } = op else { continue };
                    let distance = (to + self.ranks - index) % self.ranks;
                    let port = match self.network.wiring {
                        Wiring::Full => to,
                        Wiring::Ring { both: true } => u32::from(distance * 2 > self.ranks),
                        _ => 0,
                    };
                    let leaves = free.entry(port).or_insert(has);
                    *leaves = leaves.saturating_add(busy);
                    let arrives = leaves.saturating_add(self.latency(distance)).saturating_add(combine);
                    let carries = used.entry((index, port)).or_default();
                    *carries = carries.saturating_add(busy);
                    let own = branch.unwrap_or(port);
                    let (branch, links) = branches.entry((stream, own)).or_default();
                    branch.latest = branch.latest.max(arrives);
                    branch.earliest = if links.is_empty() { arrives } else { branch.earliest.min(arrives) };
                    links.insert((index, port));
                    queue.push_back((to, arrives, Some(own)));
                }
            }
        }
        let busiest = |links: &BTreeSet<(u32, u32)>, of_root: bool| {
            links.iter().filter(|link| (link.0 == 0) == of_root).map(|link| used[link]).max().unwrap_or(0)
        };
        let whole = |(branch, links): &(Branch, BTreeSet<_>)| Branch {
            root: busiest(links, true),
            inner: busiest(links, false),
            ..*branch
        };
        Some(branches.values().map(whole).collect())
    }

    /// Waves after the first.
    fn gaps(&self, candidate: Candidate) -> u64 {
        let (chunks, active) = self.lane(self.shares(candidate));
        chunks.div_ceil(active) - 1
    }

    /// The time of all chunks along a branch. In a broadcast they follow each other as fast as the busiest link lets them. In
    /// a reduce, which is one backwards, ranks at the ends send all of theirs at once, and the link of rank 0 is busy from
    /// the first on. In an all-reduce a chunk comes back: a rank has done with it only then, and begins the next wave.
    fn follow(&self, candidate: Candidate, branch: &Branch, kind: CollectiveKind) -> Time {
        let (chunks, _) = self.lane(self.shares(candidate));
        let Branch { earliest, latest, root, inner } = *branch;
        let behind = |busy: u64| busy.saturating_mul(chunks - 1);
        Time(match kind {
            CollectiveKind::Reduce => {
                let at_root = earliest.saturating_add(behind(root)).saturating_add(root - root.min(inner));
                latest.saturating_add(behind(inner)).max(at_root)
            }
            CollectiveKind::AllReduce => {
                let waves = latest.saturating_mul(2 * self.gaps(candidate));
                latest.saturating_mul(2).saturating_add(behind(2 * root.max(inner)).max(waves))
            }
            _ => latest.saturating_add(behind(root.max(inner))),
        })
    }
}
