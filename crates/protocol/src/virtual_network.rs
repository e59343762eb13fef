//! Machines in one thread, joined by cables. Which cable moves bytes next, and how many, follows from a seed alone: the same
//! seed gives the same run, and another seed another order of arrival.
//!
//! Bytes move as long as there are some ([`Memory::run`]), or as time passes, which is virtual ([`Memory::turn`]). Machines
//! can be slowed, stopped and killed, cables cut in either direction or reset, and bytes on their way meet with mishaps.

use crate::fault::Broken;
use crate::machine::Machine;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// Most bytes that a cable holds on their way in one direction.
const CAPACITY: usize = 1 << 16;

/// How often bytes of a cable may move in a turn, each way.
const MOVES: usize = 4;

/// How much time a turn takes.
pub const TURN: Duration = Duration::from_millis(5);

/// One end of a cable: a machine, by its place, and the peer that the other end is to it.
pub type End = (usize, u32);

/// What goes one way on a cable.
#[derive(Debug, Default)]
struct Pipe {
    /// Bytes on their way.
    bytes: VecDeque<u8>,
    /// Bytes that have arrived, ever.
    gone: usize,
    /// Where frames lie among all bytes, of those that have not wholly arrived; the last may still be written.
    frames: VecDeque<Range<usize>>,
    /// Nothing goes through: bytes wait.
    cut: bool,
    /// Whoever sends has ended: so does this, behind the bytes.
    ended: bool,
}

impl Pipe {
    /// Bytes that were written, ever.
    fn written(&self) -> usize {
        self.gone + self.bytes.len()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn pull(&mut self, most: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.bytes.drain(..most.min(self.bytes.len())).collect();
        self.gone += bytes.len();
        while self.frames.front().is_some_and(|frame| frame.end <= self.gone) {
            self.frames.pop_front();
        }
        bytes
    }

    /// Frames that are wholly on their way, as places in `bytes`.
    fn whole(&self) -> Vec<Range<usize>> {
        let here = |frame: &&Range<usize>| frame.start >= self.gone && frame.end <= self.written();
        self.frames.iter().filter(here).map(|frame| frame.start - self.gone..frame.end - self.gone).collect()
    }
}

#[derive(Debug)]
struct Cable {
    ends: [End; 2],
    /// From each end.
    pipes: [Pipe; 2],
}

impl Cable {
    fn new(ends: [End; 2]) -> Self {
        Self { ends, pipes: Default::default() }
    }
}

/// Bytes that may move: which cable's, from which of its ends, and whether they are written or read.
type Move = (usize, usize, bool);

/// What can happen to bytes that are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// One bit changes.
    Flip,
    /// Some bytes are lost.
    Lose,
    /// Some bytes come twice.
    Repeat,
    /// Bytes come that nobody sent.
    Garbage,
    /// A whole frame comes again, behind itself or a later one.
    Replay,
    /// A whole frame is lost.
    Drop,
}

impl Mishap {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Flip, Self::Lose, Self::Repeat, Self::Garbage, Self::Replay, Self::Drop];
}

/// How a machine runs as time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// In one of so many turns.
    OneOf(u64),
    Stopped,
}

/// What happened to a machine in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It cannot believe what it got. The cable is hung up.
    Disbelieved(Disbelief),
    /// The other end of this cable has ended, and all that it has sent has arrived.
    Ended(End),
}

fn insert(bytes: &mut VecDeque<u8>, at: usize, more: Vec<u8>) {
    let rest: Vec<u8> = bytes.drain(at..).collect();
    bytes.extend(more.into_iter().chain(rest));
}

/// Machines and the cables between them.
#[derive(Debug)]
pub struct Memory<M> {
    machines: Vec<M>,
    cables: Vec<Cable>,
    /// Cables by their ends; nothing, where cables were added or taken away since.
    ends: Option<BTreeMap<End, Vec<usize>>>,
    paces: Vec<Pace>,
    turns: u64,
    random: ChaCha8Rng,
    /// Most bytes that are moved at once.
    piece: usize,
}

/// Who cannot believe what it got, from which of its peers, and why.
pub type Disbelief = (usize, u32, Broken);

impl<M: Machine> Memory<M> {
    /// Joins machines by cables. Bytes move in pieces of up to `piece`.
    pub fn new(machines: Vec<M>, cables: &[[End; 2]], seed: u64, piece: usize) -> Self {
        let cables = cables.iter().map(|&ends| Cable::new(ends)).collect();
        let (paces, random) = (vec![Pace::OneOf(1); machines.len()], ChaCha8Rng::seed_from_u64(seed));
        Self { machines, cables, ends: None, paces, turns: 0, random, piece: piece.max(1) }
    }

    /// Joins machines of one kind pairwise: each knows the others by their places.
    pub fn mesh(machines: Vec<M>, seed: u64, piece: usize) -> Self {
        let all = machines.len();
        let cables: Vec<[End; 2]> =
            (0..all).flat_map(|b| (0..b).map(move |a| [(a, b as u32), (b, a as u32)])).collect();
        Self::new(machines, &cables, seed, piece)
    }

    /// One more cable.
    pub fn join(&mut self, ends: [End; 2]) {
        self.ends = None;
        self.cables.push(Cable::new(ends));
    }

    /// Takes away all cables of a machine, with the bytes that are on their way. Whom they led to.
    pub fn cut(&mut self, machine: usize) -> Vec<End> {
        self.ends = None;
        let gone = self.cables.extract_if(.., |cable| cable.ends.iter().any(|end| end.0 == machine));
        gone.flat_map(|cable| cable.ends).filter(|end| end.0 != machine).collect()
    }

    /// Ends a machine: what it has sent arrives, and then others find that it has ended.
    pub fn kill(&mut self, machine: usize) {
        self.paces[machine] = Pace::Stopped;
        let ends = self.cables.iter().flat_map(|cable| cable.ends).filter(|end| end.0 == machine);
        ends.collect::<Vec<End>>().into_iter().for_each(|end| self.hang_up(end));
    }

    /// Ends a cable at one end: what was sent from there arrives, and then the other end is told.
    pub fn hang_up(&mut self, end: End) {
        for (cable, side) in self.at(end) {
            cable.pipes[side].ended = true;
            // Nobody reads what is still to come.
            cable.pipes[1 - side].bytes.clear();
            cable.pipes[1 - side].cut = true;
        }
    }

    /// The cables that an end is one of, and which.
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

    /// Resets a cable: some of the bytes that are on their way, or all of them, never arrive, and both ends are told.
    pub fn reset(&mut self, end: End) {
        let Some(cable) = self.cables.iter_mut().find(|cable| cable.ends.contains(&end)) else { return };
        for pipe in &mut cable.pipes {
            pipe.bytes.truncate(self.random.random_range(0..=pipe.bytes.len()));
            pipe.ended = true;
        }
    }

    /// Whether nothing goes through from an end of a cable, from now on: bytes wait there until that is over.
    pub fn block(&mut self, from: End, blocked: bool) {
        for (cable, side) in self.at(from) {
            cable.pipes[side].cut = blocked;
        }
    }

    /// From now on a machine runs in one of so many turns.
    pub fn slow(&mut self, machine: usize, turns: u64) {
        self.paces[machine] = Pace::OneOf(turns.max(1));
    }

    /// A machine neither reads nor writes, until it is [slowed](Memory::slow) to all turns again.
    pub fn stop(&mut self, machine: usize) {
        self.paces[machine] = Pace::Stopped;
    }

    /// Whether a machine runs in this turn.
    pub fn runs(&self, machine: usize) -> bool {
        match self.paces[machine] {
            Pace::OneOf(turns) => (self.turns + machine as u64).is_multiple_of(turns),
            Pace::Stopped => false,
        }
    }

    /// How much time has passed.
    pub fn now(&self) -> Duration {
        TURN * self.turns as u32
    }

    /// Has something happen to bytes that are on their way, if there are some: who sent them, and to whom.
    pub fn mishap(&mut self, mishap: Mishap) -> Option<(End, End)> {
        self.mishap_on(mishap, |_, _| true)
    }

    /// As [`Memory::mishap`], on a cable and in a direction that `may` allows.
    pub fn mishap_on(&mut self, mishap: Mishap, may: impl Fn(End, End) -> bool) -> Option<(End, End)> {
        let frames = matches!(mishap, Mishap::Replay | Mishap::Drop);
        let sides = self.cables.iter_mut().flat_map(|cable| {
            let [here, there] = cable.ends;
            let [out, back] = &mut cable.pipes;
            [(here, there, out), (there, here, back)]
        });
        let able = |(from, to, pipe): &(End, End, &mut Pipe)| {
            may(*from, *to) && !(pipe.ended || pipe.bytes.is_empty() || frames && pipe.whole().is_empty())
        };
        let mut able: Vec<(End, End, &mut Pipe)> = sides.filter(able).collect();
        if able.is_empty() {
            return None;
        }
        let random = &mut self.random;
        let (from, to, pipe) = able.swap_remove(random.random_range(0..able.len()));
        let whole = pipe.whole();
        // Where frames lie is not known any more.
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
                let frame = random.random_range(0..whole.len());
                let behind = whole[random.random_range(frame..whole.len())].end;
                let again = bytes.range(whole[frame].clone()).copied().collect();
                insert(bytes, behind, again);
            }
            Mishap::Drop => drop(bytes.drain(whole[random.random_range(0..whole.len())].clone())),
        }
        Some((from, to))
    }

    /// A machine.
    pub fn machine(&mut self, place: usize) -> &mut M {
        &mut self.machines[place]
    }

    /// Moves bytes of one cable that has some to move; whether there was one.
    ///
    /// # Errors
    /// Where a machine cannot believe what it got.
    pub fn step(&mut self) -> Result<bool, Disbelief> {
        let able = self.able(0..self.cables.len());
        if able.is_empty() {
            return Ok(false);
        }
        let chosen = able[self.random.random_range(0..able.len())];
        self.go(chosen)?;
        Ok(true)
    }

    /// Moves some bytes of each cable, each way, that has some to move, in an order that the seed decides; whether there was
    /// one. Among many machines that is much quicker than [`Memory::step`].
    ///
    /// # Errors
    /// As [`Memory::step`].
    pub fn sweep(&mut self) -> Result<bool, Disbelief> {
        let mut moved = false;
        let first = self.random.random_range(0..self.cables.len().max(1));
        for number in 0..self.cables.len() {
            let number = (first + number) % self.cables.len();
            for each in [(number, 0, true), (number, 0, false), (number, 1, true), (number, 1, false)] {
                if self.can(each) {
                    self.go(each)?;
                    moved = true;
                }
            }
        }
        Ok(moved)
    }

    /// What can move now on cables.
    fn able(&self, cables: impl Iterator<Item = usize>) -> Vec<Move> {
        let all = cables
            .flat_map(|cable| [(cable, 0, true), (cable, 0, false), (cable, 1, true), (cable, 1, false)]);
        all.filter(|&each| self.can(each)).collect()
    }

    /// Whether bytes can move.
    fn can(&self, (number, side, write): Move) -> bool {
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

    /// Moves some bytes that can move.
    fn go(&mut self, (number, side, write): Move) -> Result<(), Disbelief> {
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
        let disbelief = |broken| (to.0, to.1, broken);
        if let Some(place) = machine.direct(to.1).filter(|_| self.random.random::<bool>()) {
            let bytes = pipe.pull(most.min(place.len()));
            place[..bytes.len()].copy_from_slice(&bytes);
            machine.read_directly(to.1, bytes.len()).map_err(disbelief)?;
        } else {
            let bytes = pipe.pull(most);
            machine.received(to.1, &bytes).map_err(disbelief)?;
        }
        Ok(())
    }

    /// Moves bytes until none are left to be moved.
    ///
    /// # Errors
    /// As [`Memory::step`].
    pub fn run(&mut self) -> Result<(), Disbelief> {
        while self.step()? {}
        Ok(())
    }

    /// Lets the time of one turn pass, in which some bytes move: on cables that have some when the turn begins, in an order that
    /// is drawn. What happened to machines, which go on.
    pub fn turn(&mut self) -> Vec<Event> {
        self.turns += 1;
        let mut events = Vec::new();
        let mut able = self.able(0..self.cables.len());
        let active: BTreeSet<usize> = able.iter().map(|&(cable, ..)| cable).collect();
        for _ in 0..MOVES {
            able.shuffle(&mut self.random);
            for &each in &able {
                // What moved before may have changed that.
                if !self.can(each) {
                    continue;
                }
                if let Err((place, peer, broken)) = self.go(each) {
                    self.hang_up((place, peer));
                    events.push(Event::Disbelieved((place, peer, broken)));
                }
            }
            able = self.able(active.iter().copied());
        }
        let mut told = Vec::new();
        for cable in &self.cables {
            for side in 0..2 {
                let (pipe, to) = (&cable.pipes[side], cable.ends[1 - side]);
                if pipe.ended && pipe.bytes.is_empty() && !pipe.cut && self.runs(to.0) {
                    told.push(to);
                }
            }
        }
        events.extend(told.iter().map(|&end| Event::Ended(end)));
        // Whoever knows that the other end is gone hears nothing more of it.
        told.into_iter().for_each(|end| self.hang_up(end));
        let before = self.cables.len();
        self.cables.retain(|cable| !cable.pipes.iter().all(|pipe| pipe.ended && pipe.cut));
        if self.cables.len() < before {
            self.ends = None;
        }
        events
    }
}
