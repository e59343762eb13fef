//! Machines in one thread, joined by cables. Which cable moves bytes next, and how many, follows from a seed alone: the same
//! seed gives the same run, and another seed another order of arrival.

use crate::fault::Broken;
use crate::machine::Machine;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Most bytes that a cable holds on their way in one direction.
const CAPACITY: usize = 1 << 16;

/// One end of a cable: a machine, by its place, and the peer that the other end is to it.
pub type End = (usize, u32);

#[derive(Debug)]
struct Cable {
    ends: [End; 2],
    /// Bytes on their way from each end.
    pipes: [VecDeque<u8>; 2],
}

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
}

/// Machines and the cables between them.
#[derive(Debug)]
pub struct Memory<M> {
    machines: Vec<M>,
    cables: Vec<Cable>,
    random: ChaCha8Rng,
    /// Most bytes that are moved at once.
    piece: usize,
}

/// Who cannot believe what it got, from which of its peers, and why.
pub type Disbelief = (usize, u32, Broken);

impl<M: Machine> Memory<M> {
    /// Joins machines by cables. Bytes move in pieces of up to `piece`.
    pub fn new(machines: Vec<M>, cables: &[[End; 2]], seed: u64, piece: usize) -> Self {
        let cables = cables.iter().map(|&ends| Cable { ends, pipes: Default::default() }).collect();
        Self { machines, cables, random: ChaCha8Rng::seed_from_u64(seed), piece: piece.max(1) }
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
        self.cables.push(Cable { ends, pipes: Default::default() });
    }

    /// Takes away all cables of a machine, with the bytes that are on their way. Whom they led to.
    pub fn cut(&mut self, machine: usize) -> Vec<End> {
        let gone = self.cables.extract_if(.., |cable| cable.ends.iter().any(|end| end.0 == machine));
        gone.flat_map(|cable| cable.ends).filter(|end| end.0 != machine).collect()
    }

    /// Has something happen to bytes that are on their way, if there are some: who sent them, and to whom.
    pub fn mishap(&mut self, mishap: Mishap) -> Option<(End, End)> {
        let sides = self.cables.iter_mut().flat_map(|cable| {
            let [here, there] = cable.ends;
            let [out, back] = &mut cable.pipes;
            [(here, there, out), (there, here, back)]
        });
        let mut able: Vec<(End, End, &mut VecDeque<u8>)> = sides.filter(|side| !side.2.is_empty()).collect();
        if able.is_empty() {
            return None;
        }
        let (from, to, pipe) = able.swap_remove(self.random.random_range(0..able.len()));
        let first = self.random.random_range(0..pipe.len());
        let last = self.random.random_range(first..pipe.len());
        match mishap {
            Mishap::Flip => pipe[first] ^= 1 << self.random.random_range(0..8u32),
            Mishap::Lose => drop(pipe.drain(first..=last)),
            Mishap::Repeat | Mishap::Garbage => {
                let rest: Vec<u8> = pipe.drain(last + 1..).collect();
                let again: Vec<u8> = match mishap {
                    Mishap::Repeat => pipe.range(first..).copied().collect(),
                    _ => (first..=last).map(|_| self.random.random()).collect(),
                };
                pipe.extend(again.into_iter().chain(rest));
            }
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
        let mut able = Vec::new();
        for (number, cable) in self.cables.iter().enumerate() {
            for side in 0..2 {
                let (from, to) = (cable.ends[side], cable.ends[1 - side]);
                let pipe = &cable.pipes[side];
                if pipe.len() < CAPACITY && self.machines[from.0].waiting(from.1) > 0 {
                    able.push((number, side, true));
                }
                if !pipe.is_empty() && self.machines[to.0].reads(to.1) {
                    able.push((number, side, false));
                }
            }
        }
        if able.is_empty() {
            return Ok(false);
        }
        let (number, side, write) = able[self.random.random_range(0..able.len())];
        let most = self.random.random_range(1..=self.piece);
        let cable = &mut self.cables[number];
        let (from, to) = (cable.ends[side], cable.ends[1 - side]);
        let pipe = &mut cable.pipes[side];
        if write {
            let machine = &mut self.machines[from.0];
            let mut slices = Vec::new();
            machine.gather(from.1, &mut slices, 8);
            let before = pipe.len();
            for slice in slices {
                let room = most - (pipe.len() - before);
                pipe.extend(&slice[..slice.len().min(room)]);
            }
            let written = pipe.len() - before;
            machine.sent(from.1, written);
            return Ok(true);
        }
        let machine = &mut self.machines[to.0];
        let disbelief = |broken| (to.0, to.1, broken);
        if let Some(place) = machine.direct(to.1).filter(|_| self.random.random::<bool>()) {
            let bytes: Vec<u8> = pipe.drain(..most.min(pipe.len()).min(place.len())).collect();
            place.part(0..bytes.len()).bytes_mut().copy_from_slice(&bytes);
            machine.read_directly(to.1, bytes.len()).map_err(disbelief)?;
        } else {
            let bytes: Vec<u8> = pipe.drain(..most.min(pipe.len())).collect();
            machine.received(to.1, &bytes).map_err(disbelief)?;
        }
        Ok(true)
    }

    /// Moves bytes until none are left to be moved.
    ///
    /// # Errors
    /// As [`Memory::step`].
    pub fn run(&mut self) -> Result<(), Disbelief> {
        while self.step()? {}
        Ok(())
    }
}
