//! The interface between a transport and the state machines that it drives: lanes, cores of hubs and workers of hubs.

use crate::fault::ProtocolError;
use crate::link::PartialMessage;
use std::collections::BTreeSet;
use std::io::IoSlice;

/// A state machine that exchanges bytes with peers. The transport writes the bytes that it has, and gives it the
/// bytes that it reads.
pub trait Machine {
    /// Number of bytes that wait to be written to a peer.
    fn waiting(&self, peer: u32) -> usize;

    /// Adds the peers for which [`Machine::waiting`] may have grown since the last call, so that the transport need not
    /// ask about all others. Returns whether the machine knows them: if not, the transport asks about all peers.
    fn take_changed(&mut self, peers: &mut BTreeSet<u32>) -> bool {
        _ = peers;
        false
    }

    /// Appends the bytes to write next to a peer, as at most `most` slices (at least 2).
    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize);

    /// Reports that `bytes` of the gathered bytes have been written to a peer.
    fn sent(&mut self, peer: u32, bytes: usize);

    /// Whether the transport should read from a peer now.
    fn reads(&self, peer: u32) -> bool;

    /// The memory into which the next bytes from a peer can be read directly, if any.
    fn direct(&mut self, peer: u32) -> Option<&mut [u8]>;

    /// Reports that `bytes` from a peer have been read into the memory that [`Machine::direct`] returned.
    ///
    /// # Errors
    /// The bytes from the peer are invalid. Do not read from it again.
    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError>;

    /// Handles bytes from a peer.
    ///
    /// # Errors
    /// As [`Machine::read_directly`].
    fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), ProtocolError>;

    /// The message of which a part has arrived from a peer. None between frames.
    fn coming(&self, peer: u32) -> Option<PartialMessage> {
        _ = peer;
        None
    }

    /// Stops using checksums for payloads to and from a peer, because the connection itself keeps them intact.
    fn disable_checksums(&mut self, peer: u32);

    /// Sends a heartbeat to a peer, unless other bytes wait to be written to it.
    fn send_heartbeat(&mut self, peer: u32);

    /// Tells a peer that nothing will follow.
    fn leave(&mut self, peer: u32);

    /// Whether a peer has said that nothing will follow.
    fn has_left(&self, peer: u32) -> bool;

    /// Frees memory that the machine has not used recently. Called every quarter of the interval between heartbeats.
    fn free_unused_memory(&mut self) {}
}
