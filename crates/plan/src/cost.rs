//! The cost of a plan: counted from the plan, in closed form, and the lower bound for any plan.
//!
//! - [`count`] walks a plan: rounds, messages, bytes, bytes between groups of seats;
//! - [`closed_form`] gives the same numbers for the library's algorithms without a walk; tests keep the two equal;
//! - [`lower_bound`] is the least time of any plan on a network with latency `alpha` and one port of `rate` per rank;
//!   [`synchronous_time`] is the time there of a plan whose rounds are alike for all ranks;
//! - [`chain`] finds the longest chain of messages of a plan whose ranks are alike;
//! - [`phase_bytes`] is what a position of a grid sends in each phase of a composition.
//!
//! Messages that wait for each other form a chain. The number of *rounds* of a plan is the length of its longest
//! chain.

mod chain;

pub use chain::chain;

use crate::compose::{Grid, Phase};
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Seat, program};
use crate::verify::diagnostics;
use crate::walk::{Fault, Received, Site, StreamOrder, Visit, walk};
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
    walk(algorithm, kind, ranks, false, StreamOrder::First, &mut counter).map_err(|f| diagnostics(&f))?;
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

/// What `kind` costs on `ranks` ranks, as the algorithm declares it beside its program. `None` if it does not offer
/// the collective, or if no simple form is known: tree-like shapes that are not full, groups or shards of unequal size.
pub fn closed_form(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
    if ranks == 0 || algorithm.offers(kind, ranks).is_err() {
        return None;
    }
    // A rank on its own sends nothing, unless a helper on another NPU works for it.
    if ranks == 1 && algorithm.seats(1) == 1 {
        return Some(ClosedForm { rounds: 0, wire: 0.0, sent: 0.0 });
    }
    algorithm.closed_form(kind, ranks)
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
        CollectiveKind::AllReduce | CollectiveKind::Broadcast | CollectiveKind::Reduce => vector,
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
