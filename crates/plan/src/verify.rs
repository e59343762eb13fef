//! Proves that a plan computes its collective, by symbolic execution.
//!
//! Every program is run with sets of contributions in place of numbers. A plan is wrong if a rank ends without the
//! result of the collective. It is also wrong if it reduces a contribution twice or into another block, sends data
//! that is not there, touches blocks while a receive into them is outstanding, receives a message that is never sent
//! or does not fit, waits in a circle, or leaves a message over. The first such fault is reported with seat, stream
//! and instruction.
//!
//! *What is proved.* A stream is a sequence, messages are matched by number, and receives take effect at waits, so
//! the outcome does not depend on timing as long as streams touch different blocks. It is the same for every vector
//! that the blocks cut exactly, and, because all cuts follow one monotone rule, for every other vector too. If
//! streams share blocks (thread blocks of custom plans), two opposite orders of execution are tried; that finds most
//! missing dependencies, but not provably all. It is not proved that a send has left before its blocks are written
//! again: see [`Op`].
//!
//! Cost: time and memory are proportional to seats x blocks x messages over them; 64 ranks take milliseconds.

mod grid;

pub use grid::verify_composition;

use crate::causality::Causality;
use crate::program::{Algorithm, Blocks, Buffer, Op, Seat, program};
use crate::symbolic::{MAX_WORDS, Storage, Values, Want};
use crate::walk::{Fault, Received, Site, StreamOrder, Visit, walk};
use std::collections::BTreeSet;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{CollectiveKind, Extent, lcm};

/// Proves that `algorithm` computes `kind` on `ranks` ranks, in the usual direction and, if that is a different plan,
/// in the reverse direction.
///
/// # Errors
/// [`Code::NoPlan`] if the algorithm does not offer the collective, [`Code::WrongPlan`] for each fault,
/// [`Code::BadValue`] if the plan is too large to be verified.
pub fn verify(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Result<(), Diagnostics> {
    verify_within(algorithm, kind, ranks, MAX_WORDS)
}

/// As [`verify`], using storage of at most `most` words.
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

/// Proves one direction on a vector of exactly `elements` elements, whether or not they divide evenly.
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
    prove(algorithm, kind, ranks, elements, reverse, MAX_WORDS)
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
    let orders: &[StreamOrder] = if algorithm.streams(kind, ranks) > 1 {
        &[StreamOrder::First, StreamOrder::Last]
    } else {
        &[StreamOrder::First]
    };
    for &order in orders {
        let mut storage = flat(kind, ranks, seats, elements).within(most);
        let run = Run { algorithm, kind, ranks, reverse, whole: Extent::whole(elements) };
        let members: Vec<usize> = (0..seats as usize).collect();
        run.execute(&mut storage, &members, order).map_err(|faults| diagnostics(&faults))?;
        check_result(algorithm.result(kind), kind, ranks, elements, &storage)?;
    }
    Ok(())
}

/// The number of elements that a vector must be cut into so that every block of the plan is a whole number of
/// elements.
///
/// # Errors
/// [`Code::BadValue`] if that is more than can be verified.
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

/// The least common multiple of `counts`, times `streams`.
pub(crate) fn common_multiple(counts: BTreeSet<u32>, streams: u32) -> Result<u64, Diagnostics> {
    let mut elements = 1u64;
    for count in counts {
        elements = lcm(elements, u64::from(count.max(1)));
        if elements > MAX_WORDS {
            return Err(too_large("the numbers of blocks that the plan uses have no small common multiple"));
        }
    }
    Ok(elements * u64::from(streams))
}

fn too_large(why: &str) -> Diagnostics {
    Diagnostic::error(Code::BadValue, format!("the plan is too large to be verified: {why}")).into()
}

/// Refuses plans that would need more than `most` words of memory.
pub(crate) fn check_size(seats: u64, ranks: u32, elements: u64, most: u64) -> Result<(), Diagnostics> {
    let words = seats.saturating_mul(elements).saturating_mul(u64::from(ranks.div_ceil(64)) + 1);
    if words > most {
        return Err(too_large(&format!(
            "{seats} seats with {elements} blocks of {ranks} contributions each"
        )));
    }
    Ok(())
}

/// Whether any program differs in the reverse direction.
fn differs_reversed(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> bool {
    (0..algorithm.seats(ranks)).any(|index| {
        (0..algorithm.streams(kind, ranks)).any(|stream| {
            let seat = |reverse| Seat { kind, ranks, index, stream, reverse };
            !program(algorithm, seat(false)).eq(program(algorithm, seat(true)))
        })
    })
}

/// The storage at the start of a collective.
pub(crate) fn flat(kind: CollectiveKind, ranks: u32, seats: u32, elements: u64) -> Storage {
    let mut storage = Storage::new(ranks, elements);
    for index in 0..seats {
        storage.add(index >= ranks);
        let seat = Seat { kind, ranks, index, stream: 0, reverse: false };
        storage.fill(index as usize, index.min(ranks - 1), seat.input(Extent::whole(elements)));
    }
    storage
}

/// Compares the result of every rank with the expected one.
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
                CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce => {
                    (at, Want::All)
                }
            };
            let expected = storage.expect(index as usize, buffer, at, origin, want, ranks);
            expected.err().map(|what| Fault { site: None, sentence: format!("rank {index} {what}") })
        })
    };
    let faults: Vec<Fault> = (0..ranks).filter_map(fault).take(8).collect();
    if faults.is_empty() { Ok(()) } else { Err(diagnostics(&faults)) }
}

/// Converts faults to diagnostics.
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

/// A collective of a group of seats on part of their storage.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) algorithm: &'a dyn Algorithm,
    pub(crate) kind: CollectiveKind,
    pub(crate) ranks: u32,
    pub(crate) reverse: bool,
    pub(crate) whole: Extent,
}

impl Run<'_> {
    /// Runs all programs; `members` gives the storage of each seat.
    fn execute(self, storage: &mut Storage, members: &[usize], order: StreamOrder) -> Result<(), Vec<Fault>> {
        let streams = self.algorithm.streams(self.kind, self.ranks);
        let mut visit = Symbolic {
            run: self,
            storage,
            members,
            streams,
            outstanding: members.iter().map(|_| Vec::new()).collect(),
            causality: Causality::new(members.len() * streams as usize),
        };
        walk(self.algorithm, self.kind, self.ranks, self.reverse, order, &mut visit)
    }

    fn seat(self, at: Site) -> Seat {
        let Site { seat: index, stream, .. } = at;
        Seat { kind: self.kind, ranks: self.ranks, index, stream, reverse: self.reverse }
    }

    /// The elements that blocks cover, if such blocks exist.
    fn extent(self, at: Site, blocks: Blocks) -> Result<Extent, String> {
        let part = self.algorithm.part(self.kind, self.ranks, at.stream, self.whole);
        extent(&self.seat(at), part, blocks)
    }
}

/// The elements that blocks of a seat's stream cover, if such blocks exist.
pub(crate) fn extent(seat: &Seat, part: Extent, blocks: Blocks) -> Result<Extent, String> {
    let Blocks { buffer, first, count, of } = blocks;
    let end = first.checked_add(count).filter(|&end| of > 0 && (end <= of || buffer == Buffer::Scratch));
    if end.is_none() {
        return Err(format!("touches {count} blocks from block {first} on, but there are only {of}"));
    }
    let extent = blocks.extent(seat.space(buffer, part));
    if extent.end > MAX_WORDS {
        return Err(format!(
            "uses scratch block {first}, which is beyond the largest buffer that can be verified"
        ));
    }
    Ok(extent)
}

/// A receive that is not complete.
struct Outstanding {
    at: Site,
    buffer: Buffer,
    extent: Extent,
    reduce: bool,
    /// Instructions that have touched its blocks since it was posted.
    touched: Vec<Touch>,
}

/// An instruction that touched the blocks of an outstanding receive.
#[derive(Clone, Copy)]
struct Touch {
    at: Site,
    /// The instruction of its stream that completes it: itself, the wait of a receive, or none so far.
    over: Option<u32>,
}

struct Symbolic<'a> {
    run: Run<'a>,
    storage: &'a mut Storage,
    members: &'a [usize],
    /// Streams of a seat.
    streams: u32,
    outstanding: Vec<Vec<Outstanding>>,
    causality: Causality,
}

impl Symbolic<'_> {
    /// The number of a seat's stream among all streams.
    const fn number(&self, at: Site) -> u32 {
        at.seat * self.streams + at.stream
    }

    /// Notes the touch in every outstanding receive into these elements, unless both only reduce into them.
    fn touch(&mut self, at: Site, buffer: Buffer, extent: Extent, reduce: bool, over: Option<u32>) {
        for other in self.outstanding[at.seat as usize].iter_mut() {
            if other.meets(buffer, extent, reduce) {
                other.touched.push(Touch { at, over });
            }
        }
    }

    /// Reads elements that must contain values. If they are empty because a receive into them is outstanding, they
    /// are read too early.
    fn read(&mut self, at: Site, buffer: Buffer, extent: Extent) -> Result<Values, String> {
        self.storage.read(self.members[at.seat as usize], buffer, extent).map_err(|empty| {
            let mut receives = self.outstanding[at.seat as usize].iter();
            receives
                .find(|receive| receive.meets(buffer, extent, false))
                .map_or(empty, Outstanding::in_the_way)
        })
    }

    /// Checks that every touch of a complete receive's blocks was over before its message was sent.
    fn in_order(&mut self, receive: &Outstanding, sent: Site) -> Result<(), Fault> {
        for touch in &receive.touched {
            // A receive that is still outstanding is compared when it is complete.
            let Some(over) = touch.over else { continue };
            let (of, stream) = (self.number(touch.at), self.number(sent));
            match self.causality.precedes(of, over + 1, stream, sent.pc) {
                Some(true) => {}
                Some(false) => return Err(Fault::at(touch.at, receive.in_the_way())),
                None => {
                    let sentence = "has so many blocks in flight that their order takes too long to prove";
                    return Err(Fault::at(touch.at, sentence));
                }
            }
        }
        Ok(())
    }
}

impl Outstanding {
    /// Whether it writes any of these elements, unless both only reduce into them.
    const fn meets(&self, buffer: Buffer, extent: Extent, reduce: bool) -> bool {
        self.buffer as u8 == buffer as u8
            && self.extent.start < extent.end
            && extent.start < self.extent.end
            && !(reduce && self.reduce)
    }

    fn in_the_way(&self) -> String {
        let Site { stream, pc, .. } = self.at;
        format!(
            "touches blocks while the receive at stream {stream}, instruction {pc} into them is outstanding: \
             it must wait first"
        )
    }
}

impl Visit for Symbolic<'_> {
    type Message = Values;

    fn send(&mut self, at: Site, _to: u32, blocks: Blocks) -> Result<Values, String> {
        let extent = self.run.extent(at, blocks)?;
        self.touch(at, blocks.buffer, extent, false, Some(at.pc));
        self.read(at, blocks.buffer, extent)
    }

    fn post(&mut self, at: Site, blocks: Blocks, reduce: bool) -> Result<(), String> {
        let extent = self.run.extent(at, blocks)?;
        let buffer = blocks.buffer;
        let others = self.outstanding[at.seat as usize].iter();
        let touched = others
            .filter(|other| other.meets(buffer, extent, reduce))
            .map(|other| Touch { at: other.at, over: None })
            .collect();
        self.touch(at, buffer, extent, reduce, None);
        self.outstanding[at.seat as usize].push(Outstanding { at, buffer, extent, reduce, touched });
        Ok(())
    }

    fn receive(&mut self, done: Received, message: Values) -> Result<(), Fault> {
        let Received { at, wait, sent, blocks, reduce } = done;
        let fault = |sentence| Fault::at(at, sentence);
        let extent = self.run.extent(at, blocks).map_err(fault)?;
        self.causality.record(self.number(at), wait, self.number(sent), sent.pc + 1);
        let outstanding = &mut self.outstanding[at.seat as usize];
        if let Some(index) = outstanding.iter().position(|receive| receive.at == at) {
            let receive = outstanding.swap_remove(index);
            for touch in outstanding.iter_mut().flat_map(|other| &mut other.touched) {
                if touch.at == at {
                    touch.over = Some(wait);
                }
            }
            self.in_order(&receive, sent)?;
        }
        let member = self.members[at.seat as usize];
        self.storage.write(member, blocks.buffer, extent, &message, reduce).map_err(fault)
    }

    fn copy(&mut self, at: Site, from: Blocks, to: Blocks, reduce: bool) -> Result<(), String> {
        let (source, target) = (self.run.extent(at, from)?, self.run.extent(at, to)?);
        self.touch(at, from.buffer, source, false, Some(at.pc));
        self.touch(at, to.buffer, target, false, Some(at.pc));
        let values = self.read(at, from.buffer, source)?;
        self.storage.write(self.members[at.seat as usize], to.buffer, target, &values, reduce)
    }

    fn after(&mut self, at: Site, stream: u32, ops: u32) {
        let of = self.number(Site { stream, ..at });
        self.causality.record(self.number(at), at.pc, of, ops);
    }
}
