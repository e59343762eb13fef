//! The time of a collective along a tree, or along a chain of ranks.
//!
//! A broadcast is simulated rank by rank for one chunk: a rank forwards the chunk once it has it, to one child after
//! the other if they share a link. Further chunks follow as fast as the busiest link allows. A reduce is a broadcast
//! backwards. An all-reduce along a tree is a reduce followed by a broadcast.

use super::estimate::{Case, Cost};
use super::{Candidate, MAX_PEERS, Wiring};
use crate::program::{Op, Seat, program};
use std::collections::VecDeque;
use syncline_units::{CollectiveKind, Time};

/// Most ranks for which a tree is followed rank by rank.
const FOLLOWED: u32 = 1 << 14;

/// The ranks that a broadcast of one chunk reaches over one link of rank 0.
#[derive(Clone, Debug)]
struct Branch {
    stream: u32,
    /// The link of rank 0.
    link: u32,
    /// When the first and the last rank have the chunk.
    earliest: u64,
    latest: u64,
    /// Ranks that send, and in which direction.
    senders: Vec<(u32, usize)>,
}

/// Times of a branch for one chunk: until the first and the last rank have it, and how long it keeps the link of rank
/// 0 (`root`) and the busiest link behind that (`inner`) busy. One message keeps a link busy for `message`.
#[derive(Clone, Copy, Debug)]
struct BranchTimes {
    earliest: u64,
    latest: u64,
    root: u64,
    inner: u64,
    message: u64,
}

/// Messages on the link behind each rank, by direction. In a ring, a message to a distant rank passes several links.
struct Loads {
    ranks: u32,
    /// Messages on each link minus those on the link before it.
    more: [Vec<i64>; 2],
}

impl Loads {
    fn new(ranks: u32) -> Self {
        Self { ranks, more: [vec![0; ranks as usize], vec![0; ranks as usize]] }
    }

    /// The index of a rank in the order in which messages of a direction pass ranks.
    fn place(&self, rank: u32, direction: usize) -> usize {
        (if direction == 0 { rank } else { (self.ranks - rank) % self.ranks }) as usize
    }

    fn add(&mut self, rank: u32, direction: usize, links: u32) {
        let place = self.place(rank, direction);
        let end = place + links as usize;
        let more = &mut self.more[direction];
        more[place] += 1;
        if let Some(next) = more.get_mut(end) {
            *next -= 1;
        } else if end > more.len() {
            let end = end - more.len();
            more[0] += 1;
            more[end] -= 1;
        }
    }

    /// Messages on the first link of a rank, for every rank and direction.
    fn count(mut self) -> impl Fn(u32, usize) -> u64 {
        for more in &mut self.more {
            let mut sum = 0;
            more.iter_mut().for_each(|link| {
                sum += *link;
                *link = sum;
            });
        }
        move |rank, direction| self.more[direction][self.place(rank, direction)] as u64
    }
}

impl Case<'_> {
    /// The cost of all chunks along a tree.
    pub(super) fn along_tree(&self, candidate: Candidate) -> Option<Cost> {
        if let Some(tree) = self.network.paths.as_ref().and_then(|paths| paths.tree(candidate)) {
            return Some(self.routed(candidate, tree));
        }
        let branches = match candidate {
            // Has the same plan as direct.
            Candidate::Pairwise => return None,
            Candidate::Ring => vec![self.chain()],
            _ => self.branches(candidate)?,
        };
        branches.iter().map(|times| self.all_chunks(candidate, *times)).max_by_key(|cost| cost.whole)
    }

    /// The times of a chain through all ranks.
    fn chain(&self) -> BranchTimes {
        let combine = self.reduction(self.kind != CollectiveKind::Broadcast, self.chunk);
        let busy = self.sends(self.network.rate, self.chunk, 1).max(combine);
        let hop = busy.saturating_add(self.latency(1)).saturating_add(combine);
        BranchTimes {
            earliest: hop,
            latest: hop.saturating_mul(u64::from(self.ranks - 1)),
            root: busy,
            inner: busy,
            message: busy,
        }
    }

    /// The times of a broadcast's branches, one for each link of rank 0.
    fn branches(&self, candidate: Candidate) -> Option<Vec<BranchTimes>> {
        let kind = CollectiveKind::Broadcast;
        let full = self.network.wiring == Wiring::Full;
        if self.ranks > FOLLOWED || candidate == Candidate::Direct && !full && self.ranks > MAX_PEERS {
            return None;
        }
        let algorithm = candidate.algorithm();
        let streams = algorithm.streams(kind, self.ranks);
        let message = self.chunk.div_ceil(streams.into());
        let combine = self.reduction(self.kind != kind, message);
        let busy = self.sends(self.far(), message, 1).max(combine);
        let mut loads = Loads::new(self.ranks);
        let mut branches: Vec<Branch> = Vec::new();
        for stream in 0..streams {
            let mut queue = VecDeque::from([(0u32, 0u64, None)]);
            while let Some((index, has, branch)) = queue.pop_front() {
                let mut free = [has; 2];
                for op in
                    program(&*algorithm, Seat { kind, ranks: self.ranks, index, stream, reverse: false })
                {
                    let Op::Send { to, .. } = op else { continue };
                    let distance = (to + self.ranks - index) % self.ranks;
                    let (direction, links) = self.passes_links(distance);
                    let leaves = if full { has } else { free[direction] }.saturating_add(busy);
                    free[direction] = leaves;
                    loads.add(index, direction, links);
                    let arrives = leaves.saturating_add(self.latency(distance)).saturating_add(combine);
                    let link = if full { to } else { direction as u32 };
                    let of_root = || branches.iter().position(|b| (b.stream, b.link) == (stream, link));
                    let own = branch.or_else(of_root).unwrap_or(branches.len());
                    if own == branches.len() {
                        let senders = Vec::new();
                        branches.push(Branch { stream, link, earliest: arrives, latest: arrives, senders });
                    }
                    let branch = &mut branches[own];
                    branch.latest = branch.latest.max(arrives);
                    branch.earliest = branch.earliest.min(arrives);
                    branch.senders.push((index, direction));
                    queue.push_back((to, arrives, Some(own)));
                }
            }
        }
        let messages = loads.count();
        let busiest = |branch: &Branch, of_root: bool| {
            let senders = branch.senders.iter().filter(|sender| (sender.0 == 0) == of_root);
            let load = |&(rank, direction): &(u32, usize)| if full { 1 } else { messages(rank, direction) };
            busy.saturating_mul(senders.map(load).max().unwrap_or(0))
        };
        let times = |branch: &Branch| {
            let (root, inner) = (busiest(branch, true), busiest(branch, false));
            BranchTimes { earliest: branch.earliest, latest: branch.latest, root, inner, message: busy }
        };
        Some(branches.iter().map(times).collect())
    }

    /// The direction of a message to the rank `distance` places on, and the number of links of a ring that it uses.
    fn passes_links(&self, distance: u32) -> (usize, u32) {
        match self.network.wiring {
            Wiring::Ring { both: true } if distance * 2 > self.ranks => (1, self.ranks - distance),
            Wiring::Ring { .. } => (0, distance),
            _ => (0, 1),
        }
    }

    /// The cost of all chunks along a branch. In a broadcast they follow each other as fast as the busiest link
    /// allows. In a reduce the leaves send all their chunks at once, and the link of rank 0 is busy from the first
    /// arrival on. In an all-reduce each chunk comes back; only then has a rank finished it and begins the next wave.
    fn all_chunks(&self, candidate: Candidate, times: BranchTimes) -> Cost {
        let (chunks, active) = self.lane(candidate);
        let waves_after_first = chunks.div_ceil(active) - 1;
        let BranchTimes { earliest, latest, root, inner, message } = times;
        let behind = |busy: u64| busy.saturating_mul(chunks - 1);
        let whole = match self.kind {
            CollectiveKind::Reduce => {
                // The first arrival ends one of the messages that the link of rank 0 carries for each chunk.
                let others = root - root.min(inner.max(message));
                let at_root = earliest.saturating_add(behind(root)).saturating_add(others);
                let both = latest.saturating_add(behind(inner)).max(at_root);
                both.saturating_add(self.between_waves(candidate, inner).saturating_mul(waves_after_first))
            }
            CollectiveKind::AllReduce => {
                let waves = latest.saturating_mul(2 * waves_after_first);
                latest.saturating_mul(2).saturating_add(behind(root.max(inner).saturating_mul(2)).max(waves))
            }
            _ => latest.saturating_add(behind(root.max(inner))),
        };
        let passes = if self.kind == CollectiveKind::AllReduce { 2 } else { 1 };
        let alone = Time(latest.saturating_mul(passes));
        let each = Time(root.max(inner).saturating_mul(passes));
        Cost { whole: Time(whole), first: alone, alone, each, chunks, burst: 1 }
    }

    /// How long a wave of chunks of a reduce waits for the previous one. In a double tree a rank is a leaf of one
    /// tree and combines data in the other: it finishes a chunk, and begins the next, only when it has received that
    /// data. Simulations show waits of 0.7 to 1.5 times a chunk's time, and at least a latency with an odd number of
    /// ranks. There is no such wait if each pair of ranks has a link of its own.
    pub(super) fn between_waves(&self, candidate: Candidate, inner: u64) -> u64 {
        if candidate != Candidate::DoubleBinaryTree {
            return 0;
        }
        let latency = if self.ranks % 2 == 1 { self.latency(1) } else { 0 };
        let busy = if self.network.wiring == Wiring::Full { 0 } else { inner / 3 * 2 };
        busy.max(latency)
    }
}
