//! The connections of a core to workers and to hubs of other racks, and the buffers that are being written on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_protocol::link::Link;
use syncline_protocol::memory::Buffer;
use syncline_protocol::wire::{Digest, FrameKind, Header};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A worker of the job.
    Worker(u32),
    /// The same core of a hub in another rack.
    Rack(u32),
}

/// A connection to a worker or to a rack.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) job: u32,
    pub(super) peer: Peer,
    /// The epoch of frames on the connection, in both directions.
    pub(super) epoch: u16,
    /// The owner of a message is the ticket of its buffer.
    pub(super) link: Link<u64>,
    /// Bytes that the worker has pushed beyond open steps.
    pub(super) ahead: usize,
    /// Whether the peer has said that nothing will follow.
    pub(super) left: bool,
}

impl Endpoint {
    pub(super) fn send_control(&mut self, kind: FrameKind) {
        self.link.control(Header { kind, epoch: self.epoch, sequence: 0, chunk: 0 }, &[]);
    }
}

/// Buffers that are being written. Several connections may share one.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    buffers: BTreeMap<u64, Arc<Buffer>>,
    ticket: u64,
}

impl Outgoing {
    /// Queues a buffer on a connection, and keeps it until it is written. `digest` is its digest, if known.
    pub(super) fn write(
        &mut self,
        link: &mut Link<u64>,
        header: Header,
        buffer: Arc<Buffer>,
        digest: Option<Digest>,
    ) {
        self.ticket += 1;
        link.shared_message(header, Arc::clone(&buffer), digest, self.ticket);
        self.buffers.insert(self.ticket, buffer);
    }

    /// Forgets a buffer that is written or abandoned. Returns it if no other connection uses it.
    pub(super) fn release(&mut self, ticket: u64) -> Option<Buffer> {
        self.buffers.remove(&ticket).and_then(|buffer| Arc::try_unwrap(buffer).ok())
    }
}

/// The connections of a core.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pub(super) connections: BTreeMap<u32, Endpoint>,
    pub(super) outgoing: Outgoing,
}

impl Endpoints {
    pub(super) fn get(&self, connection: u32) -> Option<&Endpoint> {
        self.connections.get(&connection)
    }

    pub(super) fn get_mut(&mut self, connection: u32) -> Option<&mut Endpoint> {
        self.connections.get_mut(&connection)
    }

    /// Returns a job's connections and their peers.
    pub(super) fn of_job(&self, job: u32) -> impl Iterator<Item = (u32, &Endpoint)> {
        let all = self.connections.iter().map(|(&connection, endpoint)| (connection, endpoint));
        all.filter(move |(_, endpoint)| endpoint.job == job)
    }
}
