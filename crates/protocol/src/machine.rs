//! One thread's end of connections, without connections: what lanes, cores of hubs and workers of hubs have in common, and
//! what a transport drives.

use crate::fault::Broken;
use std::io::IoSlice;

/// A state machine that has bytes to write to peers, and takes in bytes that were read from them.
pub trait Machine {
    /// Bytes that wait to be written to a peer.
    fn waiting(&self, peer: u32) -> usize;

    /// What is to be written to a peer next, as at most `most` slices (at least 2).
    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize);

    /// That `bytes` of what was gathered for a peer are written.
    fn sent(&mut self, peer: u32, bytes: usize);

    /// Whether bytes from a peer are to be read now.
    fn reads(&self, peer: u32) -> bool;

    /// Where the next bytes from a peer may be read to right away.
    fn direct(&mut self, peer: u32) -> Option<&mut [u8]>;

    /// That `bytes` from a peer were read to where [`Machine::direct`] said.
    ///
    /// # Errors
    /// Where what comes from the peer cannot be believed; nothing more is to be read from it.
    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), Broken>;

    /// Takes in bytes from a peer.
    ///
    /// # Errors
    /// As [`Machine::read_directly`].
    fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), Broken>;

    /// The message that is coming in from a peer: which one it is of all frames on the connection, and how many bytes of it
    /// have come. None between frames.
    fn coming(&self, peer: u32) -> Option<(u32, usize)> {
        _ = peer;
        None
    }

    /// Payloads to and from a peer have no checksums from now on: whatever carries them keeps them as they are.
    fn believe(&mut self, peer: u32);

    /// Gives a peer a sign of life, unless it is about to hear from us anyway.
    fn beat(&mut self, peer: u32);

    /// Tells a peer that nothing will follow.
    fn leave(&mut self, peer: u32);

    /// Whether a peer has said that nothing will follow.
    fn has_left(&self, peer: u32) -> bool;

    /// Some time has passed, a quarter of that between signs of life: what has not been used for long may be let go of.
    fn rest(&mut self) {}
}
