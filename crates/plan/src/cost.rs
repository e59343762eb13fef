//! The cost of a plan: counted from the plan, in closed form, and the lower bound for any plan.
//!
//! - [`count`] walks a plan: rounds, messages, bytes, bytes between groups of seats;
//! - [`closed_form`] gives the same numbers for the library's algorithms without a walk; tests keep the two equal;
//! - [`luo2020_table_4_1`] is the dissertation's table as printed, for comparison;
//! - [`lower_bound`] is the least time of any plan on a network with latency `alpha` and one port of `rate` per rank;
//!   [`synchronous_time`] is the time there of a plan whose rounds are alike for all ranks;
//! - [`chain`] finds the longest chain of messages of a plan whose ranks are alike;
//! - [`phase_bytes`] is what a position of a grid sends in each phase of a composition.
//!
//! Messages that wait for each other form a chain. The number of *rounds* of a plan is the length of its longest
//! chain.

mod chain;

pub use chain::chain;

use crate::algorithm::{BCube, ParameterServer, Placement, TwoLevel};
use crate::compose::{Grid, Phase};
use crate::program::{Algorithm, Blocks, Op, Seat, program};
use crate::verify::diagnostics;
use crate::walk::{Fault, Order, Received, Site, Visit, walk};
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_diagnostics::Diagnostics;
use syncline_units::{Bytes, CollectiveKind, Extent, Rate, Time};

/// The cost of one collective.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Length of the longest chain of messages.
    pub rounds: u32,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of all messages.
    pub wire: Bytes,
    /// Bytes of the messages between seats of different groups.
    pub across: Bytes,
    /// Bytes that each seat sends.
    pub sent: Vec<Bytes>,
    /// Bytes that each seat receives.
    pub received: Vec<Bytes>,
}

impl Count {
    /// The most bytes that a seat sends or receives.
    pub fn busiest(&self) -> Bytes {
        self.sent.iter().chain(&self.received).copied().max().unwrap_or(Bytes::ZERO)
    }
}

/// Counts the plan of `kind` on `ranks` ranks for a vector of `vector` bytes. `group` returns the group (rack,
/// supernode) of a seat.
///
/// # Errors
/// If the algorithm does not offer the collective, or its programs never end.
pub fn count(
    algorithm: &dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    vector: Bytes,
    group: impl Fn(u32) -> u32,
) -> Result<Count, Diagnostics> {
    crate::registry::check(algorithm, kind, ranks)?;
    let (seats, streams) = (algorithm.seats(ranks) as usize, algorithm.streams(kind, ranks));
    let mut counter = Counter {
        algorithm,
        kind,
        ranks,
        whole: Extent::whole(vector.0),
        group,
        streams,
        clocks: vec![0; seats * streams as usize],
        found: Count {
            sent: vec![Bytes::ZERO; seats],
            received: vec![Bytes::ZERO; seats],
            ..Count::default()
        },
    };
    walk(algorithm, kind, ranks, false, Order::First, &mut counter).map_err(|f| diagnostics(&f))?;
    Ok(counter.found)
}

struct Counter<'a, G> {
    algorithm: &'a dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    whole: Extent,
    group: G,
    streams: u32,
    /// For each seat and stream, the rounds so far.
    clocks: Vec<u32>,
    found: Count,
}

impl<G: Fn(u32) -> u32> Counter<'_, G> {
    fn clock(&mut self, seat: u32, stream: u32) -> &mut u32 {
        &mut self.clocks[(seat * self.streams + stream) as usize]
    }
}

impl<G: Fn(u32) -> u32> Visit for Counter<'_, G> {
    /// The round in which it travels.
    type Message = u32;

    fn send(&mut self, at: Site, to: u32, blocks: Blocks) -> Result<u32, String> {
        let Site { seat: index, stream, .. } = at;
        let seat = Seat { kind: self.kind, ranks: self.ranks, index, stream, reverse: false };
        let bytes = message_bytes(self.algorithm, &seat, blocks, self.whole);
        self.found.messages += 1;
        self.found.wire += bytes;
        self.found.sent[index as usize] += bytes;
        self.found.received[to as usize] += bytes;
        if (self.group)(index) != (self.group)(to) {
            self.found.across += bytes;
        }
        let round = *self.clock(index, stream) + 1;
        self.found.rounds = self.found.rounds.max(round);
        Ok(round)
    }

    fn receive(&mut self, done: Received, round: u32) -> Result<(), Fault> {
        let clock = self.clock(done.at.seat, done.at.stream);
        *clock = round.max(*clock);
        Ok(())
    }

    fn after(&mut self, at: Site, stream: u32, _: u32) {
        let other = *self.clock(at.seat, stream);
        let clock = self.clock(at.seat, at.stream);
        *clock = other.max(*clock);
    }
}

/// The size of the message that sends `blocks`.
fn message_bytes(algorithm: &dyn Algorithm, seat: &Seat, blocks: Blocks, whole: Extent) -> Bytes {
    let part = algorithm.part(seat.kind, seat.ranks, seat.stream, whole);
    Bytes(blocks.extent(seat.space(blocks.buffer, part)).len())
}

/// The bytes that the position sends in each phase, for a vector of `vector` bytes, if `algorithm(axis, kind)` runs
/// on each axis.
pub fn phase_bytes(
    phases: &[Phase],
    grid: &Grid,
    position: u32,
    vector: Bytes,
    algorithm: impl Fn(usize, CollectiveKind) -> Arc<dyn Algorithm>,
) -> Vec<Bytes> {
    let of_phase = |phase: &Phase| {
        let Some(whole) = phase.extent(grid, position, Extent::whole(vector.0)) else { return Bytes::ZERO };
        let algorithm = algorithm(phase.axis, phase.kind);
        let index = grid.coordinate(position, phase.axis);
        (0..algorithm.streams(phase.kind, phase.size))
            .map(|stream| {
                let seat = Seat { kind: phase.kind, ranks: phase.size, index, stream, reverse: false };
                program(&*algorithm, seat)
                    .filter_map(|op| match op {
                        Op::Send { blocks, .. } => Some(message_bytes(&*algorithm, &seat, blocks, whole)),
                        _ => None,
                    })
                    .sum()
            })
            .sum()
    };
    phases.iter().map(of_phase).collect()
}

/// Rounds and bytes of an algorithm of the library, if every cut is even.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedForm {
    /// Length of the longest chain of messages.
    pub rounds: u32,
    /// Bytes of all messages, as a multiple of the vector's.
    pub wire: f64,
    /// Bytes that the busiest seat sends, as a multiple of the vector's.
    pub sent: f64,
}

/// An algorithm with the parameters on which its cost depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costed {
    /// [`crate::algorithm::ring`].
    Ring,
    /// [`crate::algorithm::direct`], with its window.
    Direct(Option<NonZeroU32>),
    /// [`crate::algorithm::halving_doubling`].
    HalvingDoubling,
    /// [`crate::algorithm::double_binary_tree`].
    DoubleBinaryTree,
    /// [`crate::algorithm::tree`] of that fan-out.
    Tree(NonZeroU32),
    /// [`crate::algorithm::bcube`] of that base.
    BCube(u32),
    /// [`crate::algorithm::parameter_server`], with its number of hubs if that is not the default.
    ParameterServer(Placement, Option<NonZeroU32>),
    /// [`crate::algorithm::two_level`] with groups of that size.
    TwoLevel(NonZeroU32),
}

/// The cost of `kind` on `ranks` ranks, as the documentation of each algorithm states it. `None` if the algorithm
/// does not offer it, or if no simple form is known: tree-like shapes that are not full (double binary tree: `ranks`
/// not a power of two), groups or shards of unequal size.
pub fn closed_form(algorithm: Costed, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
    if ranks == 0 {
        return None;
    }
    let both = kind == AllReduce;
    let one_way = matches!(kind, ReduceScatter | AllGather);
    let rooted = matches!(kind, Broadcast | Reduce);
    let offered = match algorithm {
        Costed::Ring | Costed::Direct(_) => true,
        Costed::HalvingDoubling | Costed::BCube(_) => both || one_way,
        Costed::DoubleBinaryTree | Costed::Tree(_) => both || rooted,
        Costed::ParameterServer(..) | Costed::TwoLevel(_) => both,
    };
    if !offered {
        return None;
    }
    let n = f64::from(ranks);
    let form = |rounds, wire, sent| Some(ClosedForm { rounds, wire, sent });
    let none = (ranks == 1).then_some(ClosedForm { rounds: 0, wire: 0.0, sent: 0.0 });
    let share = (n - 1.0) / n;
    let factor = if both { 2.0 } else { 1.0 };
    match algorithm {
        Costed::ParameterServer(placement, hubs) => {
            let server = ParameterServer::new(placement, hubs)?;
            server.offers(kind, ranks).ok()?;
            let hubs = f64::from(server.hubs(ranks));
            if !placement.colocated() {
                return form(2, 2.0 * n, (n / hubs).max(1.0));
            }
            none.or_else(|| form(2, 2.0 * (n - 1.0), (hubs - 1.0) / hubs + (n - 1.0) / hubs))
        }
        Costed::Ring | Costed::Direct(_) if none.is_some() => none,
        Costed::Ring => match kind {
            AllReduce => form(2 * (ranks - 1), 2.0 * (n - 1.0), 2.0 * share),
            ReduceScatter | AllGather => form(ranks - 1, n - 1.0, share),
            // Its peers are far apart in the ring, but no chain is longer than one message per step.
            AllToAll => form(ranks - 1, n - 1.0, share),
            Broadcast | Reduce => form(ranks - 1, n - 1.0, 1.0),
        },
        Costed::Direct(window) => {
            let batches = window.map_or(1, |window| (ranks - 1).div_ceil(window.get()));
            match kind {
                AllReduce => form(2 * batches, 2.0 * (n - 1.0), 2.0 * share),
                ReduceScatter | AllGather | AllToAll => form(batches, n - 1.0, share),
                Broadcast => form(1, n - 1.0, n - 1.0),
                Reduce => form(1, n - 1.0, 1.0),
            }
        }
        Costed::HalvingDoubling => {
            let steps = ranks.ilog2();
            let (p, surplus) = (f64::from(1 << steps), ranks - (1 << steps));
            let steps = if both { 2 * steps } else { steps };
            if surplus == 0 {
                return form(steps, factor * (n - 1.0), factor * share);
            }
            // Folding in and out sends two vectors for each surplus rank. The closed form for blocks that represent
            // two ranks is not simple.
            both.then(|| ClosedForm {
                rounds: steps + 2,
                wire: 2.0 * (p - 1.0) + 2.0 * f64::from(surplus),
                sent: 2.0 * (p - 1.0) / p + 1.0,
            })
        }
        Costed::BCube(base) => {
            BCube::new(base)?.offers(kind, ranks).ok()?;
            form(ranks.ilog(base) * if both { 2 } else { 1 }, factor * (n - 1.0), factor * share)
        }
        Costed::DoubleBinaryTree => {
            let depth = ranks.is_power_of_two().then(|| ranks.ilog2())?;
            // An inner node of one tree sends to two children (and to its parent), and is a leaf of the other tree.
            let sent = if both && ranks > 2 { 2.0 } else { 1.0 };
            none.or_else(|| form(if both { 2 * depth } else { depth }, factor * (n - 1.0), sent))
        }
        Costed::Tree(fan_out) => {
            let fan_out = fan_out.get();
            let depth = tree_depth(fan_out, ranks);
            let children = f64::from(fan_out.min(ranks - 1));
            let sent = match kind {
                Reduce => 1.0,
                // If rank 1 has all its children, it sends to its parent as well; else the root is busiest.
                AllReduce if ranks > fan_out.saturating_mul(2) => children + 1.0,
                _ => children,
            };
            none.or_else(|| form(if both { 2 * depth } else { depth }, factor * (n - 1.0), sent))
        }
        Costed::TwoLevel(group) => {
            TwoLevel::new(group).offers(kind, ranks).ok()?;
            let group = group.get().min(ranks);
            let levels = u32::from(group > 1) + u32::from(group < ranks);
            ranks.is_multiple_of(group).then_some(())?;
            form(2 * levels, 2.0 * (n - 1.0), 2.0 * share)
        }
    }
}

/// Number of levels below the root of a tree with this fan-out: the least `d` with `1 + k + .. + k^d >= ranks`.
pub fn tree_depth(fan_out: u32, ranks: u32) -> u32 {
    let (mut depth, mut level, mut total) = (0, 1u64, 1u64);
    while total < u64::from(ranks) {
        level = level.saturating_mul(u64::from(fan_out));
        total = total.saturating_add(level);
        depth += 1;
    }
    depth
}

/// A row of luo2020 Table 4.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Characteristics {
    /// Name of the algorithm in the table.
    pub name: &'static str,
    /// "Rounds/Hops".
    pub rounds: f64,
    /// "Bytes on Wire", as a multiple of `S`.
    pub wire: f64,
    /// "XR Bytes" (between racks), as a multiple of `S`.
    pub across: f64,
}

/// luo2020 Table 4.1 as printed, for `racks` racks of `nodes` nodes ("C" and "N").
///
/// The table does not always agree with the plans. With ranks numbered rack by rack, counting gives:
///
/// - *PS (fully sharded)* and *2-level hierarchical*: as printed.
/// - *Halving doubling*: rounds as printed. On the wire `2(NC-1)S`; the printed `2NCS` is rounded up by `2S`. Between
///   racks `2(C-1)S`; the printed `2C(N-1)/N S` equals it for `N = C` only.
/// - *Ring-Chunked*: `2(NC-1)` rounds; the printed `2NC-1` has one more, and with it `S` more on the wire than
///   `2(NC-1)S`. Between racks `2(NC-1)S/N`: `C` links between racks carry `S/NC` each in every round. The printed
///   `(2C-1)S` differs from it by `(2/N - 1)S`: it seems to let a chunk cross `2C-1` times on its `2NC-1` hops,
///   where it crosses `2(C - 1/N)` times on average.
/// - *Tree (fan out = C)*: rounds as printed where `N` is a power of `C`. On the wire `2(NC-1)S`, as for any tree; the
///   printed estimate is `C/(C-1)` times as much. Between racks any tree needs `2(C-1)S`; the plan has more, as its
///   ranks are numbered level by level and not rack by rack. The printed estimate is below what any tree needs where
///   `C(N-1) < (C-1)^2`.
pub fn luo2020_table_4_1(nodes: u32, racks: u32) -> [Characteristics; 5] {
    let (n, c) = (f64::from(nodes), f64::from(racks));
    let row = |name, rounds, wire, across| Characteristics { name, rounds, wire, across };
    [
        row("PS (fully sharded)", 2.0, 2.0 * (n * c - 1.0), 2.0 * n * (c - 1.0)),
        row("Halving doubling", 2.0 * (n * c).log2(), 2.0 * n * c, 2.0 * c * (n - 1.0) / n),
        row("Ring-Chunked", 2.0 * n * c - 1.0, 2.0 * n * c - 1.0, 2.0 * c - 1.0),
        row(
            "Tree (fan out = C)",
            2.0 * (n.log(c) + 1.0),
            2.0 * c * (c * n - 1.0) / (c - 1.0),
            2.0 * c * (n - 1.0) / (c - 1.0),
        ),
        row("2-level hierarchical", 4.0, 2.0 * (n * c - 1.0), 2.0 * (c - 1.0)),
    ]
}

/// The bytes that some rank must send or receive in any plan: `2 S (N-1)/N` for all-reduce (`S` if helpers do the
/// reduction), `S (N-1)/N` for reduce-scatter, all-gather and all-to-all, `S` for broadcast and reduce. Rounded down.
pub fn least_bytes(kind: CollectiveKind, ranks: u32, helpers: bool, vector: Bytes) -> Bytes {
    if ranks < 2 {
        return Bytes::ZERO;
    }
    let share = |times: u128| {
        let bytes = u128::from(vector.0) * times * u128::from(ranks - 1) / u128::from(ranks);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    };
    match kind {
        CollectiveKind::AllReduce if !helpers => share(2),
        CollectiveKind::ReduceScatter | CollectiveKind::AllGather | CollectiveKind::AllToAll => share(1),
        _ => vector,
    }
}

/// The least time of `kind` on `ranks` ranks on a network where a message arrives `alpha` after its last byte was
/// sent, and where each rank sends at `rate` and receives at `rate`: one `alpha`, plus [`least_bytes`] through one
/// port. No simulation result may be below it. `None` if the time does not fit.
pub fn lower_bound(
    kind: CollectiveKind,
    ranks: u32,
    helpers: bool,
    vector: Bytes,
    alpha: Time,
    rate: Rate,
) -> Option<Time> {
    if ranks < 2 {
        return Some(Time::ZERO);
    }
    Some(alpha.saturating_add(rate.transfer_time(least_bytes(kind, ranks, helpers, vector))?))
}

/// The time of a plan with `rounds` rounds in which every rank sends the same number of bytes, `sent` in total. A
/// round takes `alpha` plus the transfer time of its bytes at `rate`. `None` if the time does not fit.
pub fn synchronous_time(rounds: u32, sent: Bytes, alpha: Time, rate: Rate) -> Option<Time> {
    let latency = alpha.0.checked_mul(u64::from(rounds))?;
    latency.checked_add(rate.transfer_time(sent)?.0).map(Time)
}
