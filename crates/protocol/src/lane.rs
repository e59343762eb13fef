//! A lane: the chunks of collectives and the transfers that one thread works on, with one connection to each peer. It
//! has no sockets, clocks or threads: a transport passes bytes in both directions.
//!
//! Chunk `c` belongs to lane `c mod lanes` on every rank, so that lanes share no chunks and need no locks for them
//! (luo2020 3.2.4). A rule may use fewer lanes than there are. At most once per operation, a lane looks up in the rank's [`PlanBook`], which has a lock, how the
//! operation is run. The first lookup of a plan compiles it, outside the lock.
//!
//! A lane runs several chunks at a time, which begin in order and all follow the same script. A message that arrives
//! is combined into its destination as its bytes come in. A message that arrives before it is needed, because a peer
//! is ahead of this rank, is set aside. If the messages of all peers that were set aside become too many, the lane
//! asks the peers that are ahead to hold the frames of plans; everything else continues.
//!
//! Members of the job may form groups ([`Lane::open`]), each of which counts its own operations. Members open a group
//! at any time; its chunks begin once all members have opened it. A rank that leaves a group ([`Lane::close`]) tells
//! the others so after what is already in transit, and drops the group's frames that wait. From then on it may use
//! its memory again.
//!
//! Each of these uses only those before it:
//!
//! - `started`: operations that this rank has begun; `frame_owner`: what a frame belongs to; `connections`: the
//!   connections to the other ranks;
//! - `chunk`: one chunk; `early`: messages that arrived before they were needed; `group`: the operations of a group;
//! - [`transfers`]: sends and receives;
//! - `groups`: opens and closes groups; `operations`: runs their operations.

mod chunk;
mod connections;
mod early;
mod frame_owner;
mod group;
mod groups;
mod operations;
mod started;
pub mod transfers;

pub use connections::WantedPeer;
pub use group::Opening;
pub use groups::{Desertion, MAX_GROUPS};
pub use operations::FlowControl;
pub use started::{OperationId, PeerError, StartedOperation};

use crate::fault::{FaultKind, ProtocolError, Trouble};
use crate::link::{Event, Landing, PartialMessage};
use crate::machine::Machine;
use crate::memory::Pool;
use crate::operation::Announcement;
use crate::plan_book::PlanBook;
use crate::wire::{Digest, FrameKind, Header};
use connections::Connections;
use frame_owner::FrameOwner;
use group::LaneIndex;
use groups::{Groups, OPEN};
use operations::Operations;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use transfers::{Delivery, Label, Transfer, Transfers};

/// Memory that stayed unused for this many calls of [`Machine::free_unused_memory`] is freed: five seconds by default.
const IDLE: u32 = 50;

/// Received bytes that a lane keeps because its rank has not needed them yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptBytes {
    /// Those of messages of plans.
    pub early: usize,
    /// The most that `early` has been.
    pub most_early: usize,
    /// Those of transfers.
    pub transfers: usize,
}

/// The part of a rank that runs on one thread.
#[derive(Debug)]
pub struct Lane {
    groups: Groups,
    operations: Operations,
    transfers: Transfers,
    connections: Connections,
    /// Calls of [`Machine::free_unused_memory`] since it last freed memory.
    idle: u32,
    done: Vec<FrameOwner>,
}

impl Lane {
    /// The number of this lane.
    pub fn index(&self) -> u32 {
        self.groups.lane.index
    }

    /// Lane `index` of a rank.
    pub fn new(index: u32, flow: FlowControl, epoch: u16, book: Arc<PlanBook>) -> Self {
        let world = book.members();
        Self {
            groups: Groups::new(LaneIndex { index, lanes: flow.lanes }, book),
            operations: Operations::new(flow),
            transfers: Transfers::new(world),
            connections: Connections::new(world, epoch),
            idle: 0,
            done: Vec::new(),
        }
    }

    /// From now on no peer is connected. Frames wait until they are: [`Lane::next_wanted`] says with which peers
    /// connections are needed, and [`Lane::connected`] notes that one is there.
    pub fn connect_on_demand(&mut self) {
        self.connections.links.connect_on_demand();
    }

    /// The next peer with which a connection is needed, or is needed more than this has returned before.
    pub fn next_wanted(&mut self) -> Option<WantedPeer> {
        self.connections.links.next_wanted()
    }

    /// Notes that a peer is connected. Call it before bytes move.
    pub fn connected(&mut self, peer: u32) {
        self.connections.links.connected(peer);
    }

    /// The peers for which frames wait, and which are not connected.
    pub fn unconnected(&self) -> impl Iterator<Item = u32> {
        self.connections.links.unconnected()
    }

    /// Begins an operation of the whole job. Sequence numbers of operations increase from 1 on.
    ///
    /// # Errors
    /// A rank has announced a different operation under this number.
    pub fn start(&mut self, started: Arc<StartedOperation>) -> Result<(), PeerError> {
        self.start_in(0, started)
    }

    /// Like [`Lane::start`], for a group given by its number on this rank.
    ///
    /// # Errors
    /// As for [`Lane::start`].
    pub fn start_in(&mut self, slot: u32, started: Arc<StartedOperation>) -> Result<(), PeerError> {
        self.operations.start(slot, started, &mut self.groups, &mut self.connections)
    }

    /// Opens a group of members of the job. No other open group on this rank may have its number.
    pub fn open(&mut self, opening: Opening) {
        self.groups.open(opening, &mut self.connections);
    }

    /// Leaves a group. Inputs that must be kept are restored, and the group no longer uses callers' memory. `lost`
    /// is the member whose loss is the reason, if any.
    pub fn close(&mut self, slot: u32, lost: Option<u32>) {
        if self.groups.close(slot, lost, &mut self.connections, &mut self.transfers) {
            self.operations.drop_pending(slot);
        }
    }

    /// The next closed group whose number may be used again.
    pub fn released(&mut self) -> Option<u32> {
        self.groups.released()
    }

    /// The next group that cannot continue because a member has left it.
    pub fn deserted(&mut self) -> Option<Desertion> {
        self.groups.deserted()
    }

    /// Begins a send to a member, in a group that this rank takes part in.
    pub fn send(&mut self, transfer: Transfer) {
        if !self.groups.reject_if_deserted(&transfer) {
            self.transfers.send(&mut self.connections, transfer);
        }
    }

    /// Begins a receive, in a group that this rank takes part in.
    pub fn receive(&mut self, transfer: Transfer) {
        // A message that has arrived can be received even if its sender has left.
        if self.transfers.has_arrived(&transfer) || !self.groups.reject_if_deserted(&transfer) {
            self.transfers.receive(&mut self.connections, transfer);
        }
    }

    /// Withdraws a receive, unless its message has begun to arrive. Returns whether it was withdrawn.
    pub fn withdraw(&mut self, label: Label, id: u64) -> bool {
        self.transfers.withdraw(label, id)
    }

    /// The result of the next transfer that has ended.
    pub fn delivered(&mut self) -> Option<Delivery> {
        self.transfers.delivered()
    }

    /// Whether an operation or a transfer of this rank still needs `rank`, as a receiver or as the sender of
    /// something that has not arrived.
    pub fn needs(&self, rank: u32) -> bool {
        self.groups.lacks(rank, true) || self.transfers.need(rank, None, |id| self.groups.is_last(id, rank))
    }

    /// The member of the job that has this place in a group.
    pub fn member(&self, slot: u32, place: u32) -> Option<u32> {
        self.groups.get(slot)?.members.get(place as usize).copied()
    }

    /// Received bytes that are kept because this rank has not needed them yet.
    pub fn kept(&self) -> KeptBytes {
        KeptBytes {
            early: self.groups.early.bytes(),
            most_early: self.groups.early.most_bytes(),
            transfers: self.transfers.kept(),
        }
    }

    /// Finds the true reason for a lost connection. A peer may have closed it because a message did not match its
    /// checksum, which happens if a caller of this rank has written to the memory of an operation while it was being
    /// sent.
    pub fn reason(&self, rank: u32, trouble: Trouble) -> Trouble {
        let changed = || {
            self.connections.links[rank as usize].sent_digests().find_map(|(owner, digest)| {
                let (operation, chunk, step) = match owner {
                    FrameOwner::Step { operation, chunk, step } => (operation, chunk, step),
                    FrameOwner::Piece(piece) => {
                        let tag = self.transfers.changed(rank, piece, digest)?;
                        return Some(Trouble::changed_send(rank, tag));
                    }
                    FrameOwner::Close { .. } => return None,
                };
                let OperationId { group: slot, sequence } = operation;
                let group = self.groups.get(slot)?;
                let running = group.operations.get(&sequence)?.running.as_ref()?;
                let sent = running.chunks.get(&chunk)?.untouched(&running.started.shape, step)?;
                (Digest::of_region(sent) != digest).then(|| Trouble::changed(sequence, chunk))
            })
        };
        let changed = if trouble.kind == FaultKind::Closed { changed() } else { None };
        changed.unwrap_or(trouble)
    }

    /// The next operation whose chunks on this lane have all completed.
    pub fn finished(&mut self) -> Option<OperationId> {
        self.operations.finished()
    }

    /// Forgets an operation and the saved input: the operation has completed on all lanes, or is
    /// committed.
    pub fn forget(&mut self, operation: OperationId) {
        let OperationId { group: slot, sequence } = operation;
        let group = self.groups.get_mut(slot);
        let started =
            group.and_then(|group| group.operations.remove(&sequence)).and_then(|known| known.running);
        if let Some(running) = started {
            running.saved.into_iter().for_each(|(_, buffer)| self.connections.pool.give(buffer));
        }
    }

    /// Aborts everything: inputs that must be kept are restored, and callers' memory is no longer used. Returns
    /// operations that had begun and were not forgotten.
    pub fn abort(&mut self) -> Vec<OperationId> {
        self.connections.links.iter_mut().for_each(|link| _ = link.abandon());
        self.transfers.abort();
        self.operations.abort(&mut self.groups, &mut self.connections)
    }

    /// Begins chunks while there is room for them.
    fn fill(&mut self) {
        self.operations.fill(&mut self.groups, &mut self.connections);
    }

    fn handle(&mut self, rank: u32, event: Event) -> Result<(), ProtocolError> {
        let Self { groups, operations, transfers, connections, .. } = self;
        match event {
            Event::Header(header) if header.epoch != connections.epoch => {
                Err(ProtocolError::Epoch { header, ours: connections.epoch })
            }
            Event::Header(header) => {
                let aside = |pool: &mut Pool, length| (length, Landing::Aside(pool.take(length)));
                let (length, landing) = match header.kind {
                    FrameKind::Message(number) => {
                        operations.landing(rank, header, number, groups, connections)?
                    }
                    FrameKind::Begin => aside(&mut connections.pool, Announcement::ENCODED),
                    FrameKind::Piece => transfers.landing(rank, header, &mut connections.pool)?,
                    FrameKind::Offer => aside(&mut connections.pool, Label::OFFER),
                    FrameKind::Open | FrameKind::Refuse => aside(&mut connections.pool, OPEN),
                    FrameKind::Heartbeat | FrameKind::Leave | FrameKind::Close => (0, Landing::Nothing),
                    FrameKind::Hold | FrameKind::Resume | FrameKind::Ask | FrameKind::Taken => {
                        (0, Landing::Nothing)
                    }
                };
                connections.links[rank as usize].land(length, landing);
                Ok(())
            }
            Event::Frame { header, landing } => match (header.kind, landing) {
                (FrameKind::Message(number), landing) => {
                    operations.arrived(rank, header, number, landing, groups, connections);
                    Ok(())
                }
                (FrameKind::Piece, landing) => {
                    transfers.arrived(connections, rank, header, landing);
                    Ok(())
                }
                (kind, Landing::Aside(buffer)) => {
                    let outcome = self.handle_notice(rank, header, kind, buffer.as_slice());
                    self.connections.pool.give(buffer);
                    outcome
                }
                (FrameKind::Ask, _) => transfers.asked(connections, rank, header),
                (FrameKind::Taken, _) => transfers.has_released(connections, rank, header),
                (FrameKind::Hold | FrameKind::Resume, _) => {
                    connections.links[rank as usize].hold(header.kind == FrameKind::Hold);
                    Ok(())
                }
                (FrameKind::Close, _) => groups.peer_closed(rank, header, connections, transfers),
                (FrameKind::Leave, _) => {
                    groups.peer_left(rank);
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }

    /// Handles a frame with a payload that is neither a message nor a piece.
    fn handle_notice(
        &mut self,
        rank: u32,
        header: Header,
        kind: FrameKind,
        payload: &[u8],
    ) -> Result<(), ProtocolError> {
        let unknown = ProtocolError::Unknown(header);
        let Self { groups, operations, transfers, connections, .. } = self;
        match kind {
            FrameKind::Begin => {
                let asked = payload.try_into().ok().and_then(Announcement::decode);
                operations.announced(rank, header, asked.ok_or(unknown)?, groups, connections)
            }
            FrameKind::Offer => transfers.offered(connections, rank, header, payload),
            FrameKind::Refuse => transfers.refused(connections, rank, header, payload),
            FrameKind::Open => {
                let id = u64::from_le_bytes(payload.try_into().map_err(|_| unknown)?);
                if groups.peer_opened(rank, header, id)? {
                    self.fill();
                }
                Ok(())
            }
            _ => Err(unknown),
        }
    }
}

impl Machine for Lane {
    fn waiting(&self, peer: u32) -> usize {
        self.connections.links[peer as usize].waiting()
    }

    fn take_changed(&mut self, peers: &mut BTreeSet<u32>) -> bool {
        self.connections.links.take_changed(peers);
        true
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        self.connections.links[peer as usize].gather(slices, most);
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let mut done = std::mem::take(&mut self.done);
        self.connections.links[peer as usize].sent(bytes, &mut done);
        for owner in done.drain(..) {
            match owner {
                FrameOwner::Piece(piece) => self.transfers.written(&mut self.connections, peer, piece),
                FrameOwner::Close { slot } => self.groups.close_written(slot, peer),
                FrameOwner::Step { operation, chunk, step } => {
                    self.operations.written(operation, chunk, step, &mut self.groups, &mut self.connections);
                }
            }
        }
        self.done = done;
        self.fill();
    }

    /// Normally true, since peers that are too far ahead are asked to hold. False if a held peer keeps announcing
    /// operations, unless a message that is needed now comes after the announcements.
    fn reads(&self, peer: u32) -> bool {
        self.operations.reads(peer, &self.groups)
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.connections.links[peer as usize].direct()
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        if let Some(event) = self.connections.links[peer as usize].read_directly(bytes)? {
            self.handle(peer, event)?;
            self.fill();
        }
        Ok(())
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while let Some(event) = self.connections.links[peer as usize].take(&mut bytes)? {
            self.handle(peer, event)?;
        }
        self.fill();
        Ok(())
    }

    fn coming(&self, peer: u32) -> Option<PartialMessage> {
        self.connections.links[peer as usize].coming()
    }

    fn disable_checksums(&mut self, peer: u32) {
        self.connections.links[peer as usize].disable_checksums();
        let others =
            (0u32..).zip(self.connections.links.iter()).filter(|&(other, _)| other != self.groups.member);
        if others.into_iter().all(|(_, link)| !link.checked()) {
            self.operations.run_near();
        }
    }

    fn send_heartbeat(&mut self, peer: u32) {
        if self.waiting(peer) == 0 {
            self.connections.signal(peer, FrameKind::Heartbeat);
        }
    }

    fn leave(&mut self, peer: u32) {
        // After all frames of plans.
        let header = self.connections.header(FrameKind::Leave, 0, 0);
        let link = &mut self.connections.links[peer as usize];
        link.control(header, &[]);
        link.hold(false);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.groups.has_left(peer)
    }

    fn free_unused_memory(&mut self) {
        self.idle += 1;
        if self.idle >= IDLE {
            self.idle = 0;
            self.connections.pool.trim();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::operations::MAX_RUNNING;
    use super::*;
    use crate::memory::Buffer;
    use crate::operation::{Association, Operation};
    use crate::plan_book::{Rule, Selection};
    use syncline_plan::by_name;
    use syncline_reduction::{Element, Reduction};
    use syncline_units::CollectiveKind;

    /// Number of chunks that run and their bytes in flight, of `operations` all-reduces of `bytes` bytes, before
    /// anything arrives from the other rank.
    fn running(window: usize, message: u64, operations: u64, bytes: usize) -> (u32, usize) {
        let algorithm = by_name("ring").unwrap();
        let rule = Rule::new(CollectiveKind::AllReduce, algorithm, message);
        let book = Arc::new(PlanBook::new(0, 2, Selection::of(vec![0, 1], vec![rule])).unwrap());
        let operation = Operation {
            kind: CollectiveKind::AllReduce,
            elements: bytes as u64 / 4,
            element: Element::F32,
            reduction: Reduction::Sum,
            root: 0,
            association: Association::Arrival,
        };
        let mut lane = Lane::new(0, FlowControl { lanes: 1, window, ahead: 1 << 20 }, 0, Arc::clone(&book));
        let mut buffers: Vec<Buffer> = (0..operations).map(|_| Buffer::new(bytes)).collect();
        for (sequence, buffer) in (1..).zip(&mut buffers) {
            let region = buffer.region();
            let shape = book.shape(1, &operation).unwrap();
            let started = StartedOperation { sequence, shape, input: region, output: region, keep: false };
            lane.start(Arc::new(started)).unwrap();
        }
        let whole = |lane: &Lane| lane.groups.get(0).map(|group| (group.running, group.window_used)).unwrap();
        let found = whole(&lane);
        lane.abort();
        assert_eq!(whole(&lane), (0, 0));
        found
    }

    #[test]
    fn chunks_begin_while_their_messages_fit_into_the_window() {
        // A message is half a chunk: 100 KiB are 50 chunks.
        assert_eq!(running(8 << 10, 1 << 10, 1, 100 << 10), (8, 8 << 10));
        assert_eq!(running(100 << 10, 1 << 10, 1, 100 << 10), (50, 50 << 10));
        assert_eq!(running(1, 1 << 10, 1, 100 << 10), (2, 2 << 10));
        // Many small chunks run, but not without limit.
        assert_eq!(running(64 << 10, 64 << 10, 20, 64), (20, 20 * 32));
        assert_eq!(running(64 << 10, 64 << 10, 200, 64), (MAX_RUNNING, MAX_RUNNING as usize * 32));
    }
}
