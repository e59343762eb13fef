//! The connections of a lane to the other ranks, and its free buffers.

use super::frame_owner::FrameOwner;
use crate::link::Link;
use crate::memory::Pool;
use crate::wire::{FrameKind, Header};

/// The connections of a lane to the other ranks.
#[derive(Debug)]
pub(super) struct Connections {
    /// Indexed by rank; own entry unused.
    pub links: Vec<Link<FrameOwner>>,
    /// The epoch of all frames.
    pub epoch: u16,
    pub pool: Pool,
}

impl Connections {
    /// Creates the connections of a rank in a job of `world` ranks.
    pub(super) fn new(world: u32, epoch: u16) -> Self {
        Self { links: (0..world).map(|_| Link::default()).collect(), epoch, pool: Pool::default() }
    }

    pub(super) fn header(&self, kind: FrameKind, sequence: u32, chunk: u32) -> Header {
        Header { kind, epoch: self.epoch, sequence, chunk }
    }

    /// Queues an urgent frame, which is not a piece.
    pub(super) fn urge(&mut self, peer: u32, header: Header, payload: &[u8]) {
        self.links[peer as usize].urge(header, payload);
    }

    /// Queues an urgent frame that is only its kind.
    pub(super) fn signal(&mut self, peer: u32, kind: FrameKind) {
        self.urge(peer, self.header(kind, 0, 0), &[]);
    }
}
