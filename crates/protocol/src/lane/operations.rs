//! Runs the operations of a lane's groups: begins chunks in order while there is room, passes messages to them, and
//! asks peers that are too far ahead to hold.

use super::chunk::{self, Chunk, OutgoingMessage, Trigger};
use super::connections::Connections;
use super::early::{Early, MessageKey};
use super::frame_owner::FrameOwner;
use super::group::{Group, Known, Running};
use super::groups::Groups;
use super::started::{OperationId, PeerError, SEQUENCE_BITS, StartedOperation};
use crate::fault::{Announced, ProtocolError};
use crate::link::Landing;
use crate::operation::Announcement;
use crate::shape::Shape;
use crate::wire::{FrameKind, Header};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Most operations that a peer may be ahead of this rank.
const MAX_AHEAD: u64 = 1 << 18;

/// A peer that is more operations ahead than this is asked to hold.
const HELD_AHEAD: u64 = 1 << 10;

/// A peer may be ahead by at most this many times [`FlowControl::ahead`]. It is asked to hold long before, and less than the
/// difference can be in transit then.
const FLOOD: usize = 16;

/// The least value of that limit, in bytes: connections and the system may hold this much in transit.
const ON_ITS_WAY: usize = 64 << 20;

/// Most bytes of running chunks if all peers are on this host. What is sent, combined and sent on should stay in the
/// cache meanwhile, and no network link has to be kept busy.
const NEAR: usize = 1 << 20;

/// Most chunks that run at a time, however small they are.
pub(super) const MAX_RUNNING: u32 = 128;

/// Chunks may be ahead of the oldest running chunk by this many windows. It limits what a peer may have to set aside
/// before it gets what it needs.
const SPAN: u64 = 16;

/// How many lanes there are, and how far each sends ahead.
#[derive(Clone, Copy, Debug)]
pub struct FlowControl {
    /// Number of lanes of a rank.
    pub lanes: u32,
    /// Bytes that a lane has in flight to each peer. A chunk begins if the largest messages of the running chunks
    /// together have fewer bytes than this, or if fewer than two run. The link stays busy if this is what it carries
    /// while a message travels from one rank to the next. Anything above that waits in the network's queues, and may
    /// be lost there.
    pub window: usize,
    /// Bytes that all peers together may send ahead before the lane asks them to hold the frames of plans. What is in
    /// transit then still arrives, and so does what is needed now. A peer that sends further ahead than 16 times
    /// this, or than 64 MiB if that is more, is at fault.
    pub ahead: usize,
}

/// The operations of a lane's groups that have begun, and how far chunks may run ahead.
#[derive(Debug)]
pub(super) struct Operations {
    flow: FlowControl,
    /// Groups with chunks that have not begun.
    pending: BTreeSet<u32>,
    /// Most bytes of running chunks.
    most_running_bytes: usize,
    /// Peers that were asked to hold.
    held: BTreeSet<u32>,
    finished: VecDeque<OperationId>,
}

impl Operations {
    pub(super) fn new(flow: FlowControl) -> Self {
        Self {
            flow,
            pending: BTreeSet::new(),
            most_running_bytes: usize::MAX,
            held: BTreeSet::new(),
            finished: VecDeque::new(),
        }
    }

    /// All peers are on this host: runs chunks that fit into the cache together.
    pub(super) fn run_near(&mut self) {
        self.most_running_bytes = NEAR;
    }

    /// Begins an operation of a group. See [`Lane::start`](super::Lane::start).
    pub(super) fn start(
        &mut self,
        slot: u32,
        started: Arc<StartedOperation>,
        groups: &mut Groups,
        connections: &mut Connections,
    ) -> Result<(), PeerError> {
        let index = groups.lane.index;
        let Some(group) = groups.get_mut(slot) else { return Ok(()) };
        let (sequence, shape) = (started.sequence, Arc::clone(&started.shape));
        assert!(sequence > group.newest, "operation {sequence} begins after operation {}", group.newest);
        if group.closed {
            return Ok(());
        }
        group.newest = sequence;
        group.announced = group.announced.max(sequence);
        let known = group.operations.entry(sequence).or_insert_with(|| Known {
            shape: Arc::clone(&started.shape),
            heard: BTreeSet::new(),
            running: None,
        });
        if let Some(&rank) = known.heard.first() {
            check_same(group.book.name(group.book.member()), &started.shape, &known.shape.announcement())
                .map_err(|error| PeerError { rank, error })?;
        }
        let chunks = started.shape.cut.chunks();
        let next = started.shape.first_chunk(index, self.flow.lanes);
        let left = chunks.saturating_sub(next).div_ceil(started.shape.lanes(self.flow.lanes));
        known.shape = Arc::clone(&started.shape);
        let gone = (!group.gone.is_empty())
            .then(|| {
                let seats = started.shape.script.peers().into_iter();
                let mut members = seats.map(|seat| group.member(started.shape.ranks()[seat as usize]));
                members.find(|member| group.gone.contains(member))
            })
            .flatten();
        let known = group.operations.get_mut(&sequence).expect("put there above");
        known.running = Some(Running {
            started,
            next,
            left,
            chunks: BTreeMap::new(),
            announced_to: BTreeSet::new(),
            saved: Vec::new(),
        });
        if let Some(member) = gone {
            groups.desert(slot, member);
        } else if left == 0 {
            self.end(slot, sequence, groups);
        } else {
            self.pending.insert(slot);
        }
        self.fill(groups, connections);
        if connections.links.on_demand()
            && let Some(group) = groups.get(slot)
        {
            // After the peers to which messages wait.
            let seats = shape.script.peers().into_iter();
            seats.for_each(|seat| connections.links.expect(group.member(shape.ranks()[seat as usize])));
        }
        Ok(())
    }

    /// Begins no more chunks of a group.
    pub(super) fn drop_pending(&mut self, slot: u32) {
        self.pending.remove(&slot);
    }

    /// The next operation whose chunks on this lane have all completed.
    pub(super) fn finished(&mut self) -> Option<OperationId> {
        self.finished.pop_front()
    }

    /// Aborts all operations. See [`Lane::abort`](super::Lane::abort).
    pub(super) fn abort(&mut self, groups: &mut Groups, connections: &mut Connections) -> Vec<OperationId> {
        groups.early = Early::default();
        self.pending.clear();
        let mut begun = Vec::new();
        for group in groups.iter_mut() {
            let slot = group.slot;
            let id = |sequence| OperationId { group: slot, sequence };
            begun.extend(group.abort(&mut connections.pool).into_iter().map(id));
            group.operations.clear();
        }
        begun
    }

    /// Whether to read from a peer. See [`Lane::reads`](super::Lane).
    pub(super) fn reads(&self, peer: u32, groups: &Groups) -> bool {
        let near =
            |group: &Group| group.closed || group.announced.saturating_sub(group.newest) < MAX_AHEAD / 2;
        self.held.is_empty() || groups.iter().all(near) || groups.lacks(peer, false)
    }

    /// A peer has announced an operation.
    pub(super) fn announced(
        &mut self,
        rank: u32,
        header: Header,
        asked: Announcement,
        groups: &mut Groups,
        connections: &mut Connections,
    ) -> Result<(), ProtocolError> {
        let (slot, sequence) = groups.find(rank, header).ok_or(ProtocolError::Unknown(header))?;
        let group = groups.get_mut(slot).expect("found just now");
        if let Some(known) = group.operations.get_mut(&sequence) {
            // If this rank has not begun the operation, it was another rank that announced it first, and the error
            // names that rank.
            let other = known.heard.first().filter(|_| known.running.is_none());
            let who = other.map_or(group.book.member(), |&other| group.places[other as usize].unwrap_or(0));
            check_same(group.book.name(who), &known.shape, &asked)?;
            return if known.heard.insert(rank) { Ok(()) } else { Err(ProtocolError::Twice(header)) };
        }
        if sequence <= group.newest || sequence > group.newest + MAX_AHEAD {
            return Err(ProtocolError::Unknown(header));
        }
        let us = group.book.name(group.book.member());
        // This rank may learn of the decision to adopt the edition after its peer.
        let shape = group
            .book
            .shape_by(asked.edition, &asked.operation)
            .ok_or(ProtocolError::NoEdition { rank: us, edition: asked.edition })?
            .map_err(|_| ProtocolError::NoPlan { rank: us, operation: asked.operation })?;
        check_same(us, &shape, &asked)?;
        group.operations.insert(sequence, Known { shape, heard: BTreeSet::from([rank]), running: None });
        if !group.closed {
            group.announced = group.announced.max(sequence);
            if group.announced - group.newest > HELD_AHEAD {
                self.hold(rank, groups, connections);
            }
        }
        Ok(())
    }

    /// Returns the length and the destination of the payload that follows a message's header.
    pub(super) fn landing(
        &mut self,
        rank: u32,
        header: Header,
        number: u16,
        groups: &mut Groups,
        connections: &mut Connections,
    ) -> Result<(usize, Landing), ProtocolError> {
        let unknown = ProtocolError::Unknown(header);
        let lane = groups.lane;
        let Some((slot, sequence)) = groups.find(rank, header) else { return Err(unknown) };
        let (group, early) = groups.with_early(slot).expect("found just now");
        let place = group.places[rank as usize];
        let Some(known) = group.operations.get_mut(&sequence).filter(|known| known.heard.contains(&rank))
        else {
            return Err(unknown);
        };
        let Shape { script, cut, .. } = &*known.shape;
        let lanes = known.shape.lanes(self.flow.lanes);
        let ours = header.chunk < cut.chunks() && header.chunk % lanes == lane.index;
        let seat = place.and_then(|place| known.shape.seat(place));
        let step = seat.and_then(|seat| script.incoming(seat, number)).filter(|_| ours);
        let step = step.ok_or(unknown)?;
        let length = known.shape.bytes(step, header.chunk);
        if group.closed {
            return Ok((length, Landing::Nothing));
        }
        let operation = OperationId { group: slot, sequence };
        let key = MessageKey { operation, chunk: header.chunk, rank, number };
        let chunk = known.running.as_mut().and_then(|running| {
            let begun = running.next > header.chunk;
            match running.chunks.get_mut(&header.chunk) {
                Some(chunk) => Some(Ok(chunk)),
                None if begun => Some(Err(())),
                None => None,
            }
        });
        let place = match chunk {
            Some(Err(())) => return Err(ProtocolError::Twice(header)),
            Some(Ok(chunk)) => {
                chunk.landing(&known.shape, step).map_err(|()| ProtocolError::Twice(header))?
            }
            None => None,
        };
        match place {
            Some(landing) => Ok((length, landing)),
            None if early.awaits(key) => Err(ProtocolError::Twice(header)),
            None => {
                let of_peer = early.expect(key, length);
                if of_peer > FLOOD.saturating_mul(self.flow.ahead).max(ON_ITS_WAY).max(2 * length) {
                    return Err(ProtocolError::Flood(of_peer));
                }
                if early.bytes() > self.flow.ahead {
                    self.hold(rank, groups, connections);
                }
                Ok((length, Landing::Aside(connections.pool.take(length))))
            }
        }
    }

    /// A message has arrived.
    pub(super) fn arrived(
        &mut self,
        rank: u32,
        header: Header,
        number: u16,
        landing: Landing,
        groups: &mut Groups,
        connections: &mut Connections,
    ) {
        let Some((slot, sequence)) = groups.find(rank, header) else { return };
        let (group, early) = groups.with_early(slot).expect("found just now");
        let place = group.places[rank as usize];
        let Some(known) = group.operations.get_mut(&sequence).filter(|_| !group.closed) else { return };
        let seat = place.and_then(|place| known.shape.seat(place)).expect("landing found it");
        let step = known.shape.script.incoming(seat, number).expect("landing found it");
        match landing {
            Landing::Put(_) | Landing::Combine { .. } => {
                self.advance(slot, sequence, header.chunk, Trigger::Done(step), groups, connections);
            }
            Landing::Aside(buffer) => {
                let operation = OperationId { group: slot, sequence };
                early.put(MessageKey { operation, chunk: header.chunk, rank, number }, buffer);
                let chunk = known.running.as_mut().and_then(|running| running.chunks.get_mut(&header.chunk));
                if chunk.is_some_and(|chunk| chunk.wants(step)) {
                    self.advance(slot, sequence, header.chunk, Trigger::Arrived(step), groups, connections);
                }
            }
            Landing::Nothing => {}
        }
    }

    /// A step's message has been written.
    pub(super) fn written(
        &mut self,
        OperationId { group: slot, sequence }: OperationId,
        chunk: u32,
        step: u32,
        groups: &mut Groups,
        connections: &mut Connections,
    ) {
        self.advance(slot, sequence, chunk, Trigger::Done(step), groups, connections);
    }

    /// Asks a peer to hold the frames of plans, unless one of them is needed now.
    fn hold(&mut self, rank: u32, groups: &Groups, connections: &mut Connections) {
        if !self.held.contains(&rank) && !groups.lacks(rank, false) {
            self.held.insert(rank);
            connections.signal(rank, FrameKind::Hold);
        }
    }

    /// Asks peers to resume: those whose messages are needed, or all of them if there is room.
    fn resume(&mut self, groups: &Groups, connections: &mut Connections) {
        let far =
            |group: &Group| !group.closed && group.announced.saturating_sub(group.newest) > HELD_AHEAD / 2;
        let room = groups.early.bytes() <= self.flow.ahead / 2 && !groups.iter().any(far);
        let ready: Vec<u32> =
            self.held.iter().copied().filter(|&rank| room || groups.lacks(rank, false)).collect();
        for rank in ready {
            self.held.remove(&rank);
            connections.signal(rank, FrameKind::Resume);
        }
    }

    /// Begins chunks while there is room for them, in each group separately.
    pub(super) fn fill(&mut self, groups: &mut Groups, connections: &mut Connections) {
        let mut next = self.pending.first().copied();
        while let Some(slot) = next {
            while self.begin_chunk(slot, groups, connections) {}
            next = self.pending.range(slot + 1..).next().copied();
        }
        if !self.held.is_empty() {
            self.resume(groups, connections);
        }
    }

    /// Begins the next chunk of a group, if there is one and room for it. Returns whether it did.
    fn begin_chunk(&mut self, slot: u32, groups: &mut Groups, connections: &mut Connections) -> bool {
        let Some(group) = groups.get_mut(slot).filter(|group| group.ready()) else {
            return false;
        };
        let Some((sequence, shape)) = group.next_operation() else {
            self.pending.remove(&slot);
            return false;
        };
        let (window, lanes) = (shape.window, shape.lanes(self.flow.lanes));
        let window = window.map_or(self.flow.window, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let room = group.running < 2
            || group.running < MAX_RUNNING
                && group.running_bytes < self.most_running_bytes
                && group.window_used < window;
        // The oldest running chunk may wait for others while all later ones complete.
        let span = group.spans.first().map_or(0, |oldest| group.begun - oldest);
        let most = SPAN.saturating_mul(window as u64).saturating_add(group.window_used as u64);
        if !room || span > most {
            return false;
        }
        let before = group.begun;
        let known = group.operations.get_mut(&sequence).expect("found just now");
        let running = known.running.as_mut().expect("as above");
        let number = running.next;
        running.next = number.saturating_add(lanes);
        let chunk = Chunk::begin(&running.started, number, before, &mut connections.pool);
        let message = chunk.message(&running.started);
        group.running_bytes += chunk.bytes(&running.started);
        group.window_used += message;
        // No two chunks have the same position, not even chunks of zero bytes.
        group.begun += message.max(1) as u64;
        group.spans.insert(before);
        running.chunks.insert(number, chunk);
        group.running += 1;
        self.advance(slot, sequence, number, Trigger::Begin, groups, connections);
        true
    }

    /// Runs the steps of a chunk that are possible now.
    fn advance(
        &mut self,
        slot: u32,
        sequence: u64,
        number: u32,
        trigger: Trigger,
        groups: &mut Groups,
        connections: &mut Connections,
    ) {
        let Some((group, messages)) = groups.with_early(slot) else { return };
        let Connections { links, epoch, pool } = connections;
        let Group {
            operations,
            members,
            closed_to,
            running: under_way,
            running_bytes,
            window_used,
            spans,
            ..
        } = group;
        let Some(running) = operations.get_mut(&sequence).and_then(|known| known.running.as_mut()) else {
            return;
        };
        let Running { started, chunks, announced_to, saved, .. } = running;
        let Some(chunk) = chunks.get_mut(&number) else { return };
        let shape = &started.shape;
        let operation = OperationId { group: slot, sequence };
        let low = slot << SEQUENCE_BITS | sequence as u32 & ((1 << SEQUENCE_BITS) - 1);
        let mut output = |message: OutgoingMessage| {
            let OutgoingMessage { to, number: message, payload, step } = message;
            let rank = members[shape.ranks()[to as usize] as usize];
            // A member that has left takes nothing more, and its group ends.
            if closed_to.contains(&rank) {
                return;
            }
            let link = links.to(rank);
            let header = |kind| Header { kind, epoch: *epoch, sequence: low, chunk: number };
            if announced_to.insert(rank) {
                link.control(header(FrameKind::Begin), &shape.announcement().encode());
            }
            let owner = FrameOwner::Step { operation, chunk: number, step };
            link.message(header(FrameKind::Message(message)), payload, owner);
        };
        let mut early = |seat: u32, message: u16| {
            let rank = members[shape.ranks()[seat as usize] as usize];
            messages.take(MessageKey { operation, chunk: number, rank, number: message })
        };
        let mut context =
            chunk::Context { started, number, pool: &mut *pool, saved, send: &mut output, early: &mut early };
        if !chunk.advance(&mut context, trigger) {
            return;
        }
        let chunk = chunks.remove(&number).expect("found above");
        *running_bytes -= chunk.bytes(started);
        *window_used -= chunk.message(started);
        spans.remove(&chunk.before);
        chunk.end(pool);
        running.left -= 1;
        *under_way -= 1;
        if running.left == 0 {
            self.end(slot, sequence, groups);
        }
    }

    /// All chunks of an operation on this lane have completed.
    fn end(&mut self, slot: u32, sequence: u64, groups: &mut Groups) {
        let Some(group) = groups.get_mut(slot) else { return };
        let kept = group
            .operations
            .get(&sequence)
            .and_then(|known| known.running.as_ref())
            .is_some_and(|r| r.started.keep);
        if !kept {
            group.operations.remove(&sequence);
        }
        self.finished.push_back(OperationId { group: slot, sequence });
    }
}

/// Checks that a peer asks for what this rank asks for.
fn check_same(us: u32, shape: &Shape, theirs: &Announcement) -> Result<(), ProtocolError> {
    let ours = shape.announcement();
    if ours == *theirs {
        return Ok(());
    }
    let announced = Box::new(Announced { ours, theirs: theirs.clone() });
    Err(ProtocolError::Differs { rank: us, announced })
}
