//! Lanes of several members in one thread. Which connection moves next, and by how many bytes, follows from a seed alone: the
//! same seed gives the same run, and another seed another order of arrival.

use crate::fault::Broken;
use crate::lane::Lane;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Most bytes that a connection holds on their way.
const CAPACITY: usize = 1 << 16;

/// Lanes of the same number of all members, joined pairwise.
#[derive(Debug)]
pub struct Memory {
    lanes: Vec<Lane>,
    /// Bytes on their way, by sender and receiver.
    pipes: Vec<Vec<VecDeque<u8>>>,
    random: ChaCha8Rng,
    /// Most bytes that are moved at once.
    piece: usize,
}

impl Memory {
    /// Joins the lanes of members, in their order. Bytes move in pieces of up to `piece`.
    pub fn new(lanes: Vec<Lane>, seed: u64, piece: usize) -> Self {
        let pipes = vec![vec![VecDeque::new(); lanes.len()]; lanes.len()];
        Self { lanes, pipes, random: ChaCha8Rng::seed_from_u64(seed), piece: piece.max(1) }
    }

    /// A member's lane.
    pub fn lane(&mut self, member: u32) -> &mut Lane {
        &mut self.lanes[member as usize]
    }

    /// Moves bytes of one connection that has some to move; whether there was one.
    ///
    /// # Errors
    /// Where a member cannot believe what it got: the member, from whom, and why.
    pub fn step(&mut self) -> Result<bool, (u32, u32, Broken)> {
        let members = self.lanes.len() as u32;
        let mut able = Vec::new();
        for from in 0..members {
            for to in (0..members).filter(|&to| to != from) {
                let pipe = &self.pipes[from as usize][to as usize];
                if pipe.len() < CAPACITY && self.lanes[from as usize].waiting(to) > 0 {
                    able.push((from, to, true));
                }
                if !pipe.is_empty() && self.lanes[to as usize].reads(from) {
                    able.push((from, to, false));
                }
            }
        }
        if able.is_empty() {
            return Ok(false);
        }
        let (from, to, write) = able[self.random.random_range(0..able.len())];
        let most = self.random.random_range(1..=self.piece);
        let pipe = &mut self.pipes[from as usize][to as usize];
        if write {
            let lane = &mut self.lanes[from as usize];
            let mut slices = Vec::new();
            lane.gather(to, &mut slices, 8);
            let before = pipe.len();
            for slice in slices {
                let room = most - (pipe.len() - before);
                pipe.extend(&slice[..slice.len().min(room)]);
            }
            let written = pipe.len() - before;
            lane.sent(to, written);
            return Ok(true);
        }
        let lane = &mut self.lanes[to as usize];
        let fault = |broken| (to, from, broken);
        if let Some(place) = lane.direct(from).filter(|_| self.random.random::<bool>()) {
            let bytes: Vec<u8> = pipe.drain(..most.min(pipe.len()).min(place.len())).collect();
            place.part(0..bytes.len()).bytes_mut().copy_from_slice(&bytes);
            lane.read_directly(from, bytes.len()).map_err(fault)?;
        } else {
            let bytes: Vec<u8> = pipe.drain(..most.min(pipe.len())).collect();
            lane.received(from, &bytes).map_err(fault)?;
        }
        Ok(true)
    }

    /// Moves bytes until none are left to be moved.
    ///
    /// # Errors
    /// As [`Memory::step`].
    pub fn run(&mut self) -> Result<(), (u32, u32, Broken)> {
        while self.step()? {}
        Ok(())
    }
}
