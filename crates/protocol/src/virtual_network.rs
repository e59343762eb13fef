//! State machines in one thread, connected by virtual cables. A seed alone determines which cable moves bytes next,
//! and how many: the same seed gives the same run, and another seed another order of arrival.
//!
//! Bytes move either until none are left ([`VirtualNetwork::run`]) or turn by turn in virtual time
//! ([`VirtualNetwork::turn`]). Machines can be slowed, stopped and killed; cables can be cut in either direction or
//! reset; and bytes in transit can be damaged or lost ([`Mishap`]).

use crate::fault::ProtocolError;
use crate::machine::Machine;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// Most bytes in transit on a cable in one direction.
const CAPACITY: usize = 1 << 16;

/// Most moves of bytes of a cable in a turn, in each direction.
const MOVES: usize = 4;

/// Virtual time of a turn.
pub const TURN: Duration = Duration::from_millis(5);

/// One end of a cable: a machine, by its index, and the number by which it knows the peer at the other end.
pub type End = (usize, u32);

/// One direction of a cable.
#[derive(Debug, Default)]
struct Pipe {
    /// Bytes in transit.
    bytes: VecDeque<u8>,
    /// Number of bytes that have arrived so far.
    arrived: usize,
    /// Positions, in the stream of all bytes, of the frames that have not arrived completely. The last one may not be
    /// written completely.
    frames: VecDeque<Range<usize>>,
    /// Whether the direction is blocked: bytes wait.
    cut: bool,
    /// Whether the sending end has been closed: the stream ends after the bytes in transit.
    ended: bool,
}

impl Pipe {
    /// Number of bytes that were written so far.
    fn written(&self) -> usize {
        self.arrived + self.bytes.len()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn pull(&mut self, most: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.bytes.drain(..most.min(self.bytes.len())).collect();
        self.arrived += bytes.len();
        while self.frames.front().is_some_and(|frame| frame.end <= self.arrived) {
            self.frames.pop_front();
        }
        bytes
    }

    /// Frames that are in transit completely, as ranges of `bytes`.
    fn complete_frames(&self) -> Vec<Range<usize>> {
        let here = |frame: &&Range<usize>| frame.start >= self.arrived && frame.end <= self.written();
        self.frames
            .iter()
            .filter(here)
            .map(|frame| frame.start - self.arrived..frame.end - self.arrived)
            .collect()
    }
}

#[derive(Debug)]
struct Cable {
    ends: [End; 2],
    /// One for each sending end.
    pipes: [Pipe; 2],
}

impl Cable {
    fn new(ends: [End; 2]) -> Self {
        Self { ends, pipes: Default::default() }
    }
}

/// A possible move of bytes.
#[derive(Clone, Copy, Debug)]
struct Move {
    cable: usize,
    /// Index of the end that sends.
    side: usize,
    /// Whether bytes are written into the cable, or read from it.
    write: bool,
}

impl Move {
    /// All moves of a cable.
    fn all(cable: usize) -> [Self; 4] {
        [(0, true), (0, false), (1, true), (1, false)].map(|(side, write)| Self { cable, side, write })
    }
}

/// What can happen to bytes in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// One bit changes.
    Flip,
    /// Some bytes are lost.
    Lose,
    /// Some bytes arrive twice.
    Repeat,
    /// Bytes arrive that nobody sent.
    Garbage,
    /// A complete frame arrives again, after itself or after a later frame.
    Replay,
    /// A complete frame is lost.
    Drop,
}

impl Mishap {
    /// All kinds of mishap.
    pub const ALL: [Self; 6] =
        [Self::Flip, Self::Lose, Self::Repeat, Self::Garbage, Self::Replay, Self::Drop];
}

/// How often a machine runs as time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speed {
    /// Once in this many turns.
    OneOf(u64),
    Stopped,
}

/// What happened to a machine in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It received invalid bytes. Its end of the cable has been closed.
    InvalidBytes(InvalidBytes),
    /// The other end of this end's cable has been closed, and all bytes from there have arrived.
    Ended(End),
}

fn insert(bytes: &mut VecDeque<u8>, at: usize, more: Vec<u8>) {
    let rest: Vec<u8> = bytes.drain(at..).collect();
    bytes.extend(more.into_iter().chain(rest));
}

/// State machines and the cables between them.
#[derive(Debug)]
pub struct VirtualNetwork<M> {
    machines: Vec<M>,
    cables: Vec<Cable>,
    /// The cables of each end; None after cables were added or removed, until it is computed again.
    ends: Option<BTreeMap<End, Vec<usize>>>,
    speeds: Vec<Speed>,
    turns: u64,
    random: ChaCha8Rng,
    /// Most bytes that move at once.
    piece: usize,
}

/// A machine has received invalid bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidBytes {
    /// The machine's end of the cable.
    pub end: End,
    /// Why they are invalid.
    pub error: ProtocolError,
}

impl<M: Machine> VirtualNetwork<M> {
    /// Connects machines by cables. At most `piece` bytes move at once.
    pub fn new(machines: Vec<M>, cables: &[[End; 2]], seed: u64, piece: usize) -> Self {
        let cables = cables.iter().map(|&ends| Cable::new(ends)).collect();
        let (speeds, random) = (vec![Speed::OneOf(1); machines.len()], ChaCha8Rng::seed_from_u64(seed));
        Self { machines, cables, ends: None, speeds, turns: 0, random, piece: piece.max(1) }
    }

    /// Connects every pair of machines. Each machine knows the others by their indices.
    pub fn mesh(machines: Vec<M>, seed: u64, piece: usize) -> Self {
        let all = machines.len();
        let cables: Vec<[End; 2]> =
            (0..all).flat_map(|b| (0..b).map(move |a| [(a, b as u32), (b, a as u32)])).collect();
        Self::new(machines, &cables, seed, piece)
    }

    /// Adds a cable.
    pub fn join(&mut self, ends: [End; 2]) {
        self.ends = None;
        self.cables.push(Cable::new(ends));
    }

    /// Removes all cables of a machine, with the bytes in transit. Returns the other ends.
    pub fn cut(&mut self, machine: usize) -> Vec<End> {
        self.ends = None;
        let removed = self.cables.extract_if(.., |cable| cable.ends.iter().any(|end| end.0 == machine));
        removed.flat_map(|cable| cable.ends).filter(|end| end.0 != machine).collect()
    }

    /// Stops a machine and closes its ends of all cables. The bytes that it has sent arrive first, then the other
    /// ends find the cables closed.
    pub fn kill(&mut self, machine: usize) {
        self.speeds[machine] = Speed::Stopped;
        let ends = self.cables.iter().flat_map(|cable| cable.ends).filter(|end| end.0 == machine);
        ends.collect::<Vec<End>>().into_iter().for_each(|end| self.close_end(end));
    }

    /// Closes one end of a cable. The bytes sent from there arrive first, then the other end finds the cable closed.
    pub fn close_end(&mut self, end: End) {
        for (cable, side) in self.at(end) {
            cable.pipes[side].ended = true;
            // Nobody reads what is in transit to this end.
            cable.pipes[1 - side].bytes.clear();
            cable.pipes[1 - side].cut = true;
        }
    }

    /// The cables at an end, each with the end's index on the cable.
    fn at(&mut self, end: End) -> impl Iterator<Item = (&mut Cable, usize)> {
        let ends = self.ends.get_or_insert_with(|| {
            let mut ends: BTreeMap<End, Vec<usize>> = BTreeMap::new();
            for (number, cable) in self.cables.iter().enumerate() {
                cable.ends.iter().for_each(|&end| ends.entry(end).or_default().push(number));
            }
            ends
        });
        let numbers = ends.get(&end).map_or(&[][..], Vec::as_slice);
        let mut cables = self.cables.iter_mut();
        let mut next = 0;
        numbers.iter().filter_map(move |&number| {
            let cable = cables.nth(number - next)?;
            next = number + 1;
            let side = cable.ends.iter().position(|each| *each == end)?;
            Some((cable, side))
        })
    }

    /// Resets a cable: some or all bytes in transit are lost, and both ends find the cable closed.
    pub fn reset(&mut self, end: End) {
        let Some(cable) = self.cables.iter_mut().find(|cable| cable.ends.contains(&end)) else { return };
        for pipe in &mut cable.pipes {
            pipe.bytes.truncate(self.random.random_range(0..=pipe.bytes.len()));
            pipe.ended = true;
        }
    }

    /// Blocks or unblocks the cable in the direction from this end. Bytes wait while it is blocked.
    pub fn block(&mut self, from: End, blocked: bool) {
        for (cable, side) in self.at(from) {
            cable.pipes[side].cut = blocked;
        }
    }

    /// Makes a machine run only once in `turns` turns.
    pub fn slow(&mut self, machine: usize, turns: u64) {
        self.speeds[machine] = Speed::OneOf(turns.max(1));
    }

    /// Stops a machine from reading and writing, until [`VirtualNetwork::slow`] is called for it.
    pub fn stop(&mut self, machine: usize) {
        self.speeds[machine] = Speed::Stopped;
    }

    /// Whether a machine runs in this turn.
    pub fn runs(&self, machine: usize) -> bool {
        match self.speeds[machine] {
            Speed::OneOf(turns) => (self.turns + machine as u64).is_multiple_of(turns),
            Speed::Stopped => false,
        }
    }

    /// The virtual time that has passed.
    pub fn now(&self) -> Duration {
        TURN * self.turns as u32
    }

    /// Inflicts a mishap on random bytes in transit, if there are any. Returns the sending and the receiving end.
    pub fn mishap(&mut self, mishap: Mishap) -> Option<(End, End)> {
        self.mishap_on(mishap, |_, _| true)
    }

    /// Like [`VirtualNetwork::mishap`], but only on a cable and in a direction for which `may` returns true.
    pub fn mishap_on(&mut self, mishap: Mishap, may: impl Fn(End, End) -> bool) -> Option<(End, End)> {
        let frames = matches!(mishap, Mishap::Replay | Mishap::Drop);
        let sides = self.cables.iter_mut().flat_map(|cable| {
            let [here, there] = cable.ends;
            let [out, back] = &mut cable.pipes;
            [(here, there, out), (there, here, back)]
        });
        let possible = |(from, to, pipe): &(End, End, &mut Pipe)| {
            may(*from, *to)
                && !(pipe.ended || pipe.bytes.is_empty() || frames && pipe.complete_frames().is_empty())
        };
        let mut possible: Vec<(End, End, &mut Pipe)> = sides.filter(possible).collect();
        if possible.is_empty() {
            return None;
        }
        let random = &mut self.random;
        let (from, to, pipe) = possible.swap_remove(random.random_range(0..possible.len()));
        let complete_frames = pipe.complete_frames();
        // The positions of frames are unknown after the mishap.
        pipe.frames.clear();
        let bytes = &mut pipe.bytes;
        let first = random.random_range(0..bytes.len());
        let last = random.random_range(first..bytes.len());
        match mishap {
            Mishap::Flip => bytes[first] ^= 1 << random.random_range(0..8u32),
            Mishap::Lose => drop(bytes.drain(first..=last)),
            Mishap::Repeat => {
                let again = bytes.range(first..=last).copied().collect();
                insert(bytes, last + 1, again);
            }
            Mishap::Garbage => insert(bytes, last + 1, (first..=last).map(|_| random.random()).collect()),
            Mishap::Replay => {
                let frame = random.random_range(0..complete_frames.len());
                let behind = complete_frames[random.random_range(frame..complete_frames.len())].end;
                let again = bytes.range(complete_frames[frame].clone()).copied().collect();
                insert(bytes, behind, again);
            }
            Mishap::Drop => {
                drop(bytes.drain(complete_frames[random.random_range(0..complete_frames.len())].clone()))
            }
        }
        Some((from, to))
    }

    /// A machine, by its index.
    pub fn machine(&mut self, place: usize) -> &mut M {
        &mut self.machines[place]
    }

    /// Moves bytes once, on a random cable that can move some. Returns whether there was one.
    ///
    /// # Errors
    /// If a machine received invalid bytes.
    pub fn step(&mut self) -> Result<bool, InvalidBytes> {
        let possible = self.possible(0..self.cables.len());
        if possible.is_empty() {
            return Ok(false);
        }
        let chosen = possible[self.random.random_range(0..possible.len())];
        self.make_move(chosen)?;
        Ok(true)
    }

    /// Moves bytes once in each direction of every cable that can move some, starting at a random cable. Returns
    /// whether any moved. With many machines this is much faster than [`VirtualNetwork::step`].
    ///
    /// # Errors
    /// As for [`VirtualNetwork::step`].
    pub fn sweep(&mut self) -> Result<bool, InvalidBytes> {
        let mut moved = false;
        let first = self.random.random_range(0..self.cables.len().max(1));
        for number in 0..self.cables.len() {
            let number = (first + number) % self.cables.len();
            for each in Move::all(number) {
                if self.is_possible(each) {
                    self.make_move(each)?;
                    moved = true;
                }
            }
        }
        Ok(moved)
    }

    /// The moves that are possible now on these cables.
    fn possible(&self, cables: impl Iterator<Item = usize>) -> Vec<Move> {
        let all = cables.flat_map(Move::all);
        all.filter(|&each| self.is_possible(each)).collect()
    }

    /// Whether a move is possible now.
    fn is_possible(&self, Move { cable: number, side, write }: Move) -> bool {
        let cable = &self.cables[number];
        let (from, to, pipe) = (cable.ends[side], cable.ends[1 - side], &cable.pipes[side]);
        if write {
            let room = pipe.bytes.len() < CAPACITY && !pipe.ended;
            room && self.runs(from.0) && self.machines[from.0].waiting(from.1) > 0
        } else {
            let some = !pipe.bytes.is_empty() && !pipe.cut;
            some && self.runs(to.0) && self.machines[to.0].reads(to.1)
        }
    }

    /// Makes a move that is possible.
    fn make_move(&mut self, Move { cable: number, side, write }: Move) -> Result<(), InvalidBytes> {
        let most = self.random.random_range(1..=self.piece);
        let cable = &mut self.cables[number];
        let (from, to) = (cable.ends[side], cable.ends[1 - side]);
        let pipe = &mut cable.pipes[side];
        if write {
            let machine = &mut self.machines[from.0];
            let mut slices = Vec::new();
            // One frame, or the rest of it.
            machine.gather(from.1, &mut slices, 2);
            let (before, length) = (pipe.written(), slices.iter().map(|slice| slice.len()).sum::<usize>());
            if pipe.frames.back().is_none_or(|frame| frame.end <= before) {
                pipe.frames.push_back(before..before + length);
            }
            for slice in slices {
                let room = most - (pipe.written() - before);
                pipe.push(&slice[..slice.len().min(room)]);
            }
            machine.sent(from.1, pipe.written() - before);
            return Ok(());
        }
        let machine = &mut self.machines[to.0];
        let invalid = |error| InvalidBytes { end: to, error };
        if let Some(place) = machine.direct(to.1).filter(|_| self.random.random::<bool>()) {
            let bytes = pipe.pull(most.min(place.len()));
            place[..bytes.len()].copy_from_slice(&bytes);
            machine.read_directly(to.1, bytes.len()).map_err(invalid)?;
        } else {
            let bytes = pipe.pull(most);
            machine.received(to.1, &bytes).map_err(invalid)?;
        }
        Ok(())
    }

    /// Moves bytes until none can move.
    ///
    /// # Errors
    /// As for [`VirtualNetwork::step`].
    pub fn run(&mut self) -> Result<(), InvalidBytes> {
        while self.step()? {}
        Ok(())
    }

    /// Lets one turn of virtual time pass. Bytes move on the cables that can move some when the turn begins, in a
    /// random order. Returns what happened to the machines, all of which keep running.
    pub fn turn(&mut self) -> Vec<Event> {
        self.turns += 1;
        let mut events = Vec::new();
        let mut possible = self.possible(0..self.cables.len());
        let active: BTreeSet<usize> = possible.iter().map(|each| each.cable).collect();
        for _ in 0..MOVES {
            possible.shuffle(&mut self.random);
            for &each in &possible {
                // An earlier move of this turn may have made this one impossible.
                if !self.is_possible(each) {
                    continue;
                }
                if let Err(invalid) = self.make_move(each) {
                    self.close_end(invalid.end);
                    events.push(Event::InvalidBytes(invalid));
                }
            }
            possible = self.possible(active.iter().copied());
        }
        let mut closed = Vec::new();
        for cable in &self.cables {
            for side in 0..2 {
                let (pipe, to) = (&cable.pipes[side], cable.ends[1 - side]);
                if pipe.ended && pipe.bytes.is_empty() && !pipe.cut && self.runs(to.0) {
                    closed.push(to);
                }
            }
        }
        events.extend(closed.iter().map(|&end| Event::Ended(end)));
        // An end that has found its cable closed gets nothing more from it.
        closed.into_iter().for_each(|end| self.close_end(end));
        let before = self.cables.len();
        self.cables.retain(|cable| !cable.pipes.iter().all(|pipe| pipe.ended && pipe.cut));
        if self.cables.len() < before {
            self.ends = None;
        }
        events
    }
}
