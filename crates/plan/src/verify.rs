//! Proves that a plan computes its collective, by symbolic execution.
//!
//! Every program is run with sets of contributions in place of numbers. A plan is wrong where a rank ends without what
//! the collective promises, and also where it reduces a contribution twice or into another block, sends what is not
//! there, touches blocks while a receive into them is outstanding, receives what is never sent or does not fit, waits
//! in a circle, or leaves a message over. The first such fault is reported with seat, stream and instruction.
//!
//! *What is proved.* A stream is a sequence, messages are matched by number and receives take effect at waits, so the
//! outcome does not depend on timing as long as streams touch different blocks; it is the same for every vector that
//! the blocks cut exactly, and, as all cuts follow one monotone rule, for every other vector, too. Where streams share
//! blocks (thread blocks of custom plans), two opposite orders of execution are tried; that finds most missing
//! dependencies, not provably all. That a send has left before its blocks are written again is not proved: see
//! [`Op`].
//!
//! Cost: time and memory in proportion to seats x blocks x messages over them; 64 ranks take milliseconds.

mod grid;

pub use grid::verify_composition;

use crate::program::{Algorithm, Blocks, Buffer, Op, Seat, program};
use crate::symbolic::{MOST_WORDS, Storage, Values, Want};
use crate::walk::{Fault, Order, Site, Visit, walk};
use std::collections::BTreeSet;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{CollectiveKind, Extent};

/// Proves that `algorithm` computes `kind` on `ranks` ranks, in the usual direction and, where that is another plan,
/// against it.
///
/// # Errors
/// [`Code::NoPlan`] where the algorithm does not offer it, [`Code::WrongPlan`] for each fault, [`Code::BadValue`] where
/// the plan is too large to be verified.
pub fn verify(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Result<(), Diagnostics> {
    verify_within(algorithm, kind, ranks, MOST_WORDS)
}

/// Proves as [`verify`] does, in storage of at most `most` words.
pub(crate) fn verify_within(
    algorithm: &dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    most: u64,
) -> Result<(), Diagnostics> {
    crate::registry::check(algorithm, kind, ranks)?;
    let elements = granularity(algorithm, kind, ranks)?;
    prove(algorithm, kind, ranks, elements, false, most)?;
    if differs_reversed(algorithm, kind, ranks) {
        prove(algorithm, kind, ranks, elements, true, most)?;
    }
    Ok(())
}

/// Proves one direction on a vector of exactly `elements` elements, however they divide.
///
/// # Errors
/// As [`verify`].
pub fn verify_cut(
    algorithm: &dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    elements: u64,
    reverse: bool,
) -> Result<(), Diagnostics> {
    crate::registry::check(algorithm, kind, ranks)?;
    prove(algorithm, kind, ranks, elements, reverse, MOST_WORDS)
}

fn prove(
    algorithm: &dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    elements: u64,
    reverse: bool,
    most: u64,
) -> Result<(), Diagnostics> {
    let seats = algorithm.seats(ranks);
    check_size(u64::from(seats), ranks, elements, most)?;
    let orders: &[Order] =
        if algorithm.streams(kind, ranks) > 1 { &[Order::First, Order::Last] } else { &[Order::First] };
    for &order in orders {
        let mut storage = flat(kind, ranks, seats, elements).within(most);
        let run = Run { algorithm, kind, ranks, reverse, whole: Extent::whole(elements) };
        let members: Vec<usize> = (0..seats as usize).collect();
        run.execute(&mut storage, &members, order).map_err(|faults| diagnostics(&faults))?;
        check_result(algorithm.result(kind), kind, ranks, elements, &storage)?;
    }
    Ok(())
}

/// Into how many elements a vector must be cut so that every block of the plan is a whole number of them.
///
/// # Errors
/// [`Code::BadValue`] where that is more than can be verified.
pub fn granularity(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Result<u64, Diagnostics> {
    let streams = algorithm.streams(kind, ranks);
    let mut counts = BTreeSet::from([1, ranks]);
    for reverse in [false, true] {
        for index in 0..algorithm.seats(ranks) {
            for stream in 0..streams {
                for op in program(algorithm, Seat { kind, ranks, index, stream, reverse }) {
                    match op {
                        Op::Send { blocks, .. } | Op::Receive { blocks, .. } => {
                            counts.insert(blocks.of);
                        }
                        Op::Copy { from, to, .. } => counts.extend([from.of, to.of]),
                        Op::Wait | Op::After { .. } => {}
                    }
                }
            }
        }
    }
    common_multiple(counts, if algorithm.split() { streams } else { 1 })
}

/// The least number that all of `counts` divide, `streams` times.
pub(crate) fn common_multiple(counts: BTreeSet<u32>, streams: u32) -> Result<u64, Diagnostics> {
    let mut elements = 1u64;
    for count in counts {
        elements = lcm(elements, u64::from(count.max(1)));
        if elements > MOST_WORDS {
            return Err(too_large("the numbers of blocks that the plan uses have no small common multiple"));
        }
    }
    Ok(elements * u64::from(streams))
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

fn too_large(why: &str) -> Diagnostics {
    Diagnostic::error(Code::BadValue, format!("the plan is too large to be verified: {why}")).into()
}

/// Refuses what would need more than `most` words of memory.
pub(crate) fn check_size(seats: u64, ranks: u32, elements: u64, most: u64) -> Result<(), Diagnostics> {
    let words = seats.saturating_mul(elements).saturating_mul(u64::from(ranks.div_ceil(64)) + 1);
    if words > most {
        return Err(too_large(&format!(
            "{seats} seats with {elements} blocks of {ranks} contributions each"
        )));
    }
    Ok(())
}

/// Whether any program differs against the usual direction.
fn differs_reversed(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> bool {
    (0..algorithm.seats(ranks)).any(|index| {
        (0..algorithm.streams(kind, ranks)).any(|stream| {
            let seat = |reverse| Seat { kind, ranks, index, stream, reverse };
            !program(algorithm, seat(false)).eq(program(algorithm, seat(true)))
        })
    })
}

/// The storage with which a collective starts.
pub(crate) fn flat(kind: CollectiveKind, ranks: u32, seats: u32, elements: u64) -> Storage {
    let mut storage = Storage::new(ranks, elements);
    for index in 0..seats {
        storage.add(index >= ranks);
        let seat = Seat { kind, ranks, index, stream: 0, reverse: false };
        storage.fill(index as usize, index.min(ranks - 1), seat.input(Extent::whole(elements)));
    }
    storage
}

/// Compares what every rank ends with with what the collective promises.
pub(crate) fn check_result(
    buffer: Buffer,
    kind: CollectiveKind,
    ranks: u32,
    elements: u64,
    storage: &Storage,
) -> Result<(), Diagnostics> {
    let whole = Extent::whole(elements);
    let fault = |index: u32| {
        let seat = Seat { kind, ranks, index, stream: 0, reverse: false };
        let extent = seat.output(whole);
        let own = whole.blocks(index, 1, ranks);
        let mut block = 0;
        (extent.start..extent.end).find_map(|at| {
            let (origin, want) = match kind {
                CollectiveKind::Broadcast => (at, Want::Only(0)),
                CollectiveKind::AllGather => {
                    while whole.blocks(block, 1, ranks).end <= at {
                        block += 1;
                    }
                    (at, Want::Only(block))
                }
                // Block `i` of the output is rank `i`'s block for this rank.
                CollectiveKind::AllToAll => (own.start + at % own.len(), Want::Only((at / own.len()) as u32)),
                _ => (at, Want::All),
            };
            let expected = storage.expect(index as usize, buffer, at, origin, want, ranks);
            expected.err().map(|what| Fault { site: None, sentence: format!("rank {index} {what}") })
        })
    };
    let faults: Vec<Fault> = (0..ranks).filter_map(fault).take(8).collect();
    if faults.is_empty() { Ok(()) } else { Err(diagnostics(&faults)) }
}

/// Faults as diagnostics.
pub(crate) fn diagnostics(faults: &[Fault]) -> Diagnostics {
    let one = |fault: &Fault| match fault.site {
        Some(at) => {
            let message = format!("seat {} {}", at.seat, fault.sentence);
            Diagnostic::error(Code::WrongPlan, message).key(at.to_string())
        }
        None => Diagnostic::error(Code::WrongPlan, fault.sentence.clone()),
    };
    Diagnostics(faults.iter().map(one).collect())
}

/// A collective of a group of seats on a part of their storage.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) algorithm: &'a dyn Algorithm,
    pub(crate) kind: CollectiveKind,
    pub(crate) ranks: u32,
    pub(crate) reverse: bool,
    pub(crate) whole: Extent,
}

impl Run<'_> {
    /// Runs all programs; `members` says which storage a seat has.
    fn execute(self, storage: &mut Storage, members: &[usize], order: Order) -> Result<(), Vec<Fault>> {
        let mut visit =
            Symbolic { run: self, storage, members, outstanding: vec![Vec::new(); members.len()] };
        walk(self.algorithm, self.kind, self.ranks, self.reverse, order, &mut visit)
    }

    fn seat(self, at: Site) -> Seat {
        let Site { seat: index, stream, .. } = at;
        Seat { kind: self.kind, ranks: self.ranks, index, stream, reverse: self.reverse }
    }

    /// The elements that blocks cover, if there are such blocks.
    fn extent(self, at: Site, blocks: Blocks) -> Result<Extent, String> {
        let part = self.algorithm.part(self.kind, self.ranks, at.stream, self.whole);
        extent(&self.seat(at), part, blocks)
    }
}

/// The elements that blocks of a seat's stream cover, if there are such blocks.
pub(crate) fn extent(seat: &Seat, part: Extent, blocks: Blocks) -> Result<Extent, String> {
    let Blocks { buffer, first, count, of } = blocks;
    let end = first.checked_add(count).filter(|&end| of > 0 && (end <= of || buffer == Buffer::Scratch));
    if end.is_none() {
        return Err(format!("touches {count} blocks from block {first} on, of only {of}"));
    }
    let extent = blocks.extent(seat.space(buffer, part));
    if extent.end > MOST_WORDS {
        return Err(format!("uses scratch block {first}, which is beyond all measure"));
    }
    Ok(extent)
}

/// What a receive that is not complete will write.
#[derive(Clone, Copy)]
struct Outstanding {
    stream: u32,
    pc: u32,
    buffer: Buffer,
    extent: Extent,
    reduce: bool,
}

struct Symbolic<'a> {
    run: Run<'a>,
    storage: &'a mut Storage,
    members: &'a [usize],
    outstanding: Vec<Vec<Outstanding>>,
}

impl Symbolic<'_> {
    /// That no outstanding receive writes these elements, unless both only add to them.
    fn free(&self, at: Site, buffer: Buffer, extent: Extent, reduce: bool) -> Result<(), String> {
        let clash = self.outstanding[at.seat as usize].iter().find(|o| {
            o.buffer == buffer
                && o.extent.start < extent.end
                && extent.start < o.extent.end
                && !(reduce && o.reduce)
        });
        match clash {
            None => Ok(()),
            Some(o) => Err(format!(
                "touches blocks while the receive at stream {}, instruction {} into them is outstanding: \
                 it must wait first",
                o.stream, o.pc
            )),
        }
    }
}

impl Visit for Symbolic<'_> {
    type Message = Values;

    fn send(&mut self, at: Site, _to: u32, blocks: Blocks) -> Result<Values, String> {
        let extent = self.run.extent(at, blocks)?;
        self.free(at, blocks.buffer, extent, false)?;
        self.storage.read(self.members[at.seat as usize], blocks.buffer, extent)
    }

    fn post(&mut self, at: Site, blocks: Blocks, reduce: bool) -> Result<(), String> {
        let extent = self.run.extent(at, blocks)?;
        self.free(at, blocks.buffer, extent, reduce)?;
        let Site { seat, stream, pc } = at;
        self.outstanding[seat as usize].push(Outstanding {
            stream,
            pc,
            buffer: blocks.buffer,
            extent,
            reduce,
        });
        Ok(())
    }

    fn receive(
        &mut self,
        at: Site,
        _from: u32,
        blocks: Blocks,
        reduce: bool,
        message: Values,
    ) -> Result<(), String> {
        let extent = self.run.extent(at, blocks)?;
        self.outstanding[at.seat as usize].retain(|o| (o.stream, o.pc) != (at.stream, at.pc));
        self.storage.write(self.members[at.seat as usize], blocks.buffer, extent, &message, reduce)
    }

    fn copy(&mut self, at: Site, from: Blocks, to: Blocks, reduce: bool) -> Result<(), String> {
        let (source, target) = (self.run.extent(at, from)?, self.run.extent(at, to)?);
        self.free(at, from.buffer, source, false)?;
        self.free(at, to.buffer, target, false)?;
        let member = self.members[at.seat as usize];
        let values = self.storage.read(member, from.buffer, source)?;
        self.storage.write(member, to.buffer, target, &values, reduce)
    }
}
