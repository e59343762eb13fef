//! A lane: the chunks of collectives and the transfers that one thread works on, with one connection to each peer. It
//! has no sockets, clocks or threads: a transport passes bytes in both directions.
//!
//! Chunk `c` belongs to lane `c mod lanes` on every rank, so that lanes share no chunks and need no locks for them
//! (luo2020 3.2.4). At most once per operation, a lane looks up in the rank's [`PlanBook`], which has a lock, how the
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
//! - `group`: the operations of a group; `chunk`: one chunk; `early`: messages that arrived before they were needed;
//! - [`transfers`]: sends and receives.

mod chunk;
mod early;
mod group;
pub mod transfers;

use crate::extract::take_out;
use crate::fault;
use crate::fault::{Announced, ProtocolError, Trouble};
use crate::link::{Event, Landing, Link, PartialMessage};
use crate::machine::Machine;
use crate::memory::{Pool, Region};
use crate::operation::Announcement;
use crate::shape::{PlanBook, Shape};
use crate::wire::{Digest, FrameKind, Header};
use chunk::{Chunk, Trigger};
use early::{Early, MessageKey};
pub use group::Opening;
use group::{Group, Known, LaneIndex, Running};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use transfers::{Delivery, Label, Piece, Transfer, Transfers};

/// Bits of a header's sequence that hold the operation's number; those above hold the sender's number of the group.
const SEQUENCE_BITS: u32 = 20;

/// Most groups that a rank can have open at a time, including the whole job.
pub const MOST_GROUPS: u32 = 1 << (u32::BITS - SEQUENCE_BITS);

/// Most operations that a peer may be ahead of this rank.
const MOST_AHEAD: u64 = 1 << 18;

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
const MOST_RUNNING: u32 = 128;

/// Chunks may be ahead of the oldest running chunk by this many windows. It limits what a peer may have to set aside
/// before it gets what it needs.
const SPAN: u64 = 16;

/// Memory that stayed unused for this many calls of [`Machine::free_unused_memory`] is freed: five seconds by default.
const IDLE: u32 = 50;

/// The chunk of a [`FrameKind::Close`] that answers another one, from a member that has not opened the group. The frame
/// then has the receiver's number of the group.
const NEVER: u32 = u32::MAX;

/// Most groups of which the lane remembers that members left them before this rank opened them. A rank that opens
/// another such group waits for those members until its deadline.
const MOST_LEFT_EARLY: usize = 1 << 16;

/// Bytes of the payload of a frame that opens a group.
const OPEN: usize = 8;

/// Identifies an operation of a group on its lane.
pub const fn key(slot: u32, sequence: u64) -> u64 {
    (slot as u64) << 48 | sequence
}

/// Splits a [key]: the group, by its number on this rank, and the number of the operation in the group.
const fn parts(key: u64) -> (u32, u64) {
    ((key >> 48) as u32, key & ((1 << 48) - 1))
}

/// What a frame of a lane belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameOwner {
    /// A step of a plan.
    Step {
        /// The operation's [key].
        operation: u64,
        chunk: u32,
        step: u32,
    },
    /// A transfer.
    Piece(Piece),
    /// The close of a group, by its number on this rank.
    Close { slot: u32 },
}

/// Whether a frame belongs to a plan of a group, given by its number on this rank.
fn is_of(slot: u32, header: Header) -> bool {
    matches!(header.kind, FrameKind::Message(_) | FrameKind::Begin)
        && header.sequence >> SEQUENCE_BITS == slot
}

/// A collective that this rank has begun, with its input and output.
#[derive(Clone, Debug)]
pub struct StartedOperation {
    /// The operation's number in its group, the same on all ranks.
    pub sequence: u64,
    /// How the operation is run.
    pub shape: Arc<Shape>,
    /// What this rank contributes (see [`crate::operation::Operation`]); empty if it contributes nothing.
    pub input: Region,
    /// Where the result goes, which may be the input; empty if this rank gets none.
    pub output: Region,
    /// Whether the input is restored if the operation fails. That takes a copy; without it, the content of the input is
    /// undefined after a failure.
    pub keep: bool,
}

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

/// A group that has lost a member that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desertion {
    /// The group's number on this rank.
    pub slot: u32,
    /// The member.
    pub member: u32,
}

/// A group as another member numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PeerGroup {
    member: u32,
    /// The group's number on that member.
    number: u32,
}

/// The part of a rank that runs on one thread.
#[derive(Debug)]
pub struct Lane {
    index: u32,
    flow: FlowControl,
    epoch: u16,
    /// This rank's index in the job, and the number of members.
    member: u32,
    world: u32,
    /// By rank; the entry of this rank is unused.
    links: Vec<Link<FrameOwner>>,
    /// By their numbers on this rank. Group 0 is the whole job.
    groups: Vec<Option<Group>>,
    /// Group numbers on this rank by group id, which is the same on all members.
    ids: BTreeMap<u64, u32>,
    /// Group numbers on this rank.
    routes: BTreeMap<PeerGroup, u32>,
    /// Ids of groups that members have opened and this rank has not.
    opened: BTreeMap<PeerGroup, u64>,
    /// Groups that members left before this rank opened them: ids and members.
    left_early: BTreeSet<(u64, u32)>,
    /// Groups with chunks that have not begun.
    pending: BTreeSet<u32>,
    transfers: Transfers,
    /// Most bytes of running chunks.
    most_running_bytes: usize,
    early: Early,
    /// Peers that were asked to hold.
    held: BTreeSet<u32>,
    pool: Pool,
    idle: u32,
    finished: VecDeque<u64>,
    deserted: VecDeque<Desertion>,
    released: VecDeque<u32>,
    done: Vec<FrameOwner>,
    /// Ranks that have announced that nothing will follow.
    left: BTreeSet<u32>,
}

/// The parts of a lane that transfers use.
macro_rules! context {
    ($lane:expr) => {
        transfers::Context { links: &mut $lane.links, epoch: $lane.epoch, pool: &mut $lane.pool }
    };
}

impl Lane {
    /// Lane `index` of a rank.
    pub fn new(index: u32, flow: FlowControl, epoch: u16, book: Arc<PlanBook>) -> Self {
        let (member, world) = (book.member(), book.members());
        let whole = Opening { slot: 0, id: 0, book, members: (0..world).collect() };
        Self {
            index,
            flow,
            epoch,
            member,
            world,
            links: (0..world).map(|_| Link::default()).collect(),
            groups: vec![Some(Group::new(whole, world))],
            ids: BTreeMap::from([(0, 0)]),
            routes: BTreeMap::new(),
            opened: BTreeMap::new(),
            left_early: BTreeSet::new(),
            pending: BTreeSet::new(),
            transfers: Transfers::new(world),
            most_running_bytes: usize::MAX,
            early: Early::default(),
            held: BTreeSet::new(),
            pool: Pool::default(),
            idle: 0,
            finished: VecDeque::new(),
            deserted: VecDeque::new(),
            released: VecDeque::new(),
            done: Vec::new(),
            left: BTreeSet::new(),
        }
    }

    /// Begins an operation of the whole job. Sequence numbers of operations increase from 1 on.
    ///
    /// # Errors
    /// The rank that has announced another operation under this number, and both operations.
    pub fn start(&mut self, started: Arc<StartedOperation>) -> Result<(), (u32, ProtocolError)> {
        self.start_in(0, started)
    }

    /// Like [`Lane::start`], for a group given by its number on this rank.
    ///
    /// # Errors
    /// As for [`Lane::start`].
    pub fn start_in(
        &mut self,
        slot: u32,
        started: Arc<StartedOperation>,
    ) -> Result<(), (u32, ProtocolError)> {
        let Some(group) = self.groups.get_mut(slot as usize).and_then(Option::as_mut) else { return Ok(()) };
        let sequence = started.sequence;
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
                .map_err(|broken| (rank, broken))?;
        }
        let chunks = started.shape.cut.chunks();
        let left = chunks.saturating_sub(self.index).div_ceil(self.flow.lanes);
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
            next: self.index,
            left,
            chunks: BTreeMap::new(),
            announced_to: BTreeSet::new(),
            saved: Vec::new(),
        });
        if let Some(member) = gone {
            self.deserted.push_back(Desertion { slot, member });
        } else if left == 0 {
            self.end(slot, sequence);
        } else {
            self.pending.insert(slot);
        }
        self.fill();
        Ok(())
    }

    /// Opens a group of members of the job. No other open group on this rank may have its number.
    pub fn open(&mut self, opening: Opening) {
        let (slot, id) = (opening.slot, opening.id);
        let mut group = Group::new(opening, self.world);
        group.absent = group.others().collect();
        // A member that has already left the group has forgotten it, and gets no messages about it.
        let left_early: Vec<(u64, u32)> = self.left_early.range((id, 0)..=(id, u32::MAX)).copied().collect();
        for key in left_early {
            self.left_early.remove(&key);
            group.absent.remove(&key.1);
            group.gone.insert(key.1);
            group.closed_to.insert(key.1);
        }
        let header =
            Header { kind: FrameKind::Open, epoch: self.epoch, sequence: slot << SEQUENCE_BITS, chunk: 0 };
        for &member in &group.absent {
            self.links[member as usize].urge(header, &id.to_le_bytes());
        }
        for (numbered, _) in take_out(&mut self.opened, |_, opened| *opened == id) {
            self.routes.insert(numbered, slot);
            group.absent.remove(&numbered.member);
        }
        if self.groups.len() <= slot as usize {
            self.groups.resize_with(slot as usize + 1, || None);
        }
        self.ids.insert(id, slot);
        self.groups[slot as usize] = Some(group);
    }

    /// Leaves a group. Inputs that must be kept are restored, and the group no longer uses callers' memory. `lost`
    /// is the member whose loss is the reason, if any.
    pub fn close(&mut self, slot: u32, lost: Option<u32>) {
        let Some(group) = self.groups.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        if group.closed || slot == 0 {
            return;
        }
        group.closed = true;
        self.pending.remove(&slot);
        let keys = key(slot, 0)..key(slot + 1, 0);
        // Keep copies of what is in transit. The buffers of its chunks may then be reused as well.
        for (member, link) in (0u32..).zip(&mut self.links) {
            link.keep(
                |owner| matches!(owner, FrameOwner::Step { operation, .. } if keys.contains(&operation)),
            );
            let routes = &self.routes;
            link.divert(|header| {
                let number = header.sequence >> SEQUENCE_BITS;
                matches!(header.kind, FrameKind::Message(_))
                    && routes.get(&PeerGroup { member, number }) == Some(&slot)
            });
        }
        self.early.forget(&keys, &mut self.pool);
        group.abort(&mut self.pool);
        let chunk = lost.map_or(0, |member| member + 1);
        let header =
            Header { kind: FrameKind::Close, epoch: self.epoch, sequence: slot << SEQUENCE_BITS, chunk };
        let others: BTreeSet<u32> = group.others().collect();
        for &member in others.difference(&group.closed_to) {
            group.close_unwritten.insert(member);
            self.links[member as usize]
                .end(header, FrameOwner::Close { slot }, |waiting| is_of(slot, waiting));
        }
        // Include members that have not opened the group: their frames may be in transit.
        let (id, here) = (group.id, others.difference(&group.gone).copied().collect());
        group.closed_to = others;
        self.transfers.leave(&mut context!(self), id, here);
        self.release(slot);
    }

    /// Forgets a group that this rank has left, once no more of its frames can arrive.
    fn release(&mut self, slot: u32) {
        let Some(group) = &self.groups[slot as usize] else { return };
        // Another group may take the number, so no frame of this one may be waiting to be written either.
        if group.closed
            && group.close_unwritten.is_empty()
            && group.others().all(|member| group.gone.contains(&member))
        {
            self.ids.remove(&group.id);
            self.groups[slot as usize] = None;
            self.released.push_back(slot);
        }
    }

    /// A [`FrameKind::Close`] of a group has been written to a member.
    fn close_written(&mut self, slot: u32, member: u32) {
        if let Some(group) = self.groups.get_mut(slot as usize).and_then(Option::as_mut) {
            group.close_unwritten.remove(&member);
            self.release(slot);
        }
    }

    /// The next closed group whose number may be used again.
    pub fn released(&mut self) -> Option<u32> {
        self.released.pop_front()
    }

    /// The next group that cannot continue because a member has left it.
    pub fn deserted(&mut self) -> Option<Desertion> {
        self.deserted.pop_front()
    }

    /// Begins a send to a member, in a group that this rank takes part in.
    pub fn send(&mut self, transfer: Transfer) {
        if !self.reject_if_deserted(&transfer) {
            self.transfers.send(&mut context!(self), transfer);
        }
    }

    /// Begins a receive, in a group that this rank takes part in.
    pub fn receive(&mut self, transfer: Transfer) {
        // A message that has arrived can be received even if its sender has left.
        if self.transfers.has_arrived(&transfer) || !self.reject_if_deserted(&transfer) {
            self.transfers.receive(&mut context!(self), transfer);
        }
    }

    /// Whether a transfer is impossible, because its group is closed or has lost a member that the transfer needs.
    /// Reports the lost member.
    fn reject_if_deserted(&mut self, transfer: &Transfer) -> bool {
        let slot = self.ids.get(&transfer.label.group);
        let Some(group) = slot.and_then(|&slot| self.groups[slot as usize].as_ref()) else { return true };
        let lost = match transfer.peer {
            Some(peer) => group.gone.contains(&peer).then_some(peer),
            None => {
                let mut others = group.others().peekable();
                let first = others.peek().copied();
                first.filter(|_| others.all(|other| self.sends_nothing(group, other)))
            }
        };
        if let Some(lost) = lost {
            self.deserted.push_back(Desertion { slot: group.slot, member: lost });
        }
        group.closed || lost.is_some()
    }

    /// Whether a member of a group will send nothing more of it.
    fn sends_nothing(&self, group: &Group, member: u32) -> bool {
        group.gone.contains(&member) || self.left.contains(&member)
    }

    /// Whether all members of a group, except `rank` and this one, will send nothing more of it. `id` is the group's
    /// id.
    fn is_last(&self, id: u64, rank: u32) -> bool {
        let group = self.ids.get(&id).and_then(|&slot| self.groups[slot as usize].as_ref());
        group.is_some_and(|group| {
            group.others().all(|other| other == rank || self.sends_nothing(group, other))
        })
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
        self.lacks(rank, true) || self.transfers.need(rank, None, |id| self.is_last(id, rank))
    }

    /// The member of the job that has this place in a group.
    pub fn member(&self, slot: u32, place: u32) -> Option<u32> {
        let group = self.groups.get(slot as usize)?.as_ref()?;
        group.members.get(place as usize).copied()
    }

    /// Whether a message of a plan from a rank is missing: see [`Group::lacks`].
    fn lacks(&self, rank: u32, all: bool) -> bool {
        let lane = LaneIndex { index: self.index, lanes: self.flow.lanes };
        self.groups.iter().flatten().any(|group| group.lacks(rank, all, lane, &self.early))
    }

    /// Received bytes that are kept because this rank has not needed them yet.
    pub fn kept(&self) -> KeptBytes {
        KeptBytes {
            early: self.early.bytes(),
            most_early: self.early.most_bytes(),
            transfers: self.transfers.kept(),
        }
    }

    /// Finds the true reason for a lost connection. A peer may have closed it because a message did not match its
    /// checksum, which happens if a caller of this rank has written to the memory of an operation while it was being
    /// sent.
    pub fn reason(&self, rank: u32, trouble: Trouble) -> Trouble {
        let changed = || {
            self.links[rank as usize].sent_digests().find_map(|(owner, digest)| {
                let (operation, chunk, step) = match owner {
                    FrameOwner::Step { operation, chunk, step } => (operation, chunk, step),
                    FrameOwner::Piece(piece) => {
                        let tag = self.transfers.changed(rank, piece, digest)?;
                        return Some(Trouble::changed_send(rank, tag));
                    }
                    FrameOwner::Close { .. } => return None,
                };
                let (slot, sequence) = parts(operation);
                let group = self.groups.get(slot as usize)?.as_ref()?;
                let running = group.operations.get(&sequence)?.running.as_ref()?;
                let sent = running.chunks.get(&chunk)?.untouched(&running.started.shape, step)?;
                (Digest::of_region(sent) != digest).then(|| Trouble::changed(sequence, chunk))
            })
        };
        let changed = if trouble.kind == fault::FaultKind::Closed { changed() } else { None };
        changed.unwrap_or(trouble)
    }

    fn signal(&mut self, rank: u32, kind: FrameKind) {
        let header = Header { kind, epoch: self.epoch, sequence: 0, chunk: 0 };
        self.links[rank as usize].urge(header, &[]);
    }

    /// The [key] of the next operation whose chunks on this lane have all completed.
    pub fn finished(&mut self) -> Option<u64> {
        self.finished.pop_front()
    }

    /// Forgets an operation, given by its [key], and the saved input: the operation has completed on all lanes, or is
    /// committed.
    pub fn forget(&mut self, key: u64) {
        let (slot, sequence) = ((key >> 48) as usize, key & ((1 << 48) - 1));
        let group = self.groups.get_mut(slot).and_then(Option::as_mut);
        let started =
            group.and_then(|group| group.operations.remove(&sequence)).and_then(|known| known.running);
        if let Some(running) = started {
            running.saved.into_iter().for_each(|(_, buffer)| self.pool.give(buffer));
        }
    }

    /// Aborts everything: inputs that must be kept are restored, and callers' memory is no longer used. Returns
    /// the keys of operations that had begun and were not forgotten.
    pub fn abort(&mut self) -> Vec<u64> {
        self.links.iter_mut().for_each(|link| _ = link.abandon());
        self.early = Early::default();
        self.transfers.abort();
        self.pending.clear();
        let mut begun = Vec::new();
        for group in self.groups.iter_mut().flatten() {
            let slot = group.slot;
            begun.extend(group.abort(&mut self.pool).into_iter().map(|sequence| key(slot, sequence)));
            group.operations.clear();
        }
        begun
    }

    fn handle(&mut self, rank: u32, event: Event) -> Result<(), ProtocolError> {
        match event {
            Event::Header(header) if header.epoch != self.epoch => {
                Err(ProtocolError::Epoch { header, ours: self.epoch })
            }
            Event::Header(header) => {
                let aside = |pool: &mut Pool, length| (length, Landing::Aside(pool.take(length)));
                let (length, landing) = match header.kind {
                    FrameKind::Message(number) => self.landing(rank, header, number)?,
                    FrameKind::Begin => aside(&mut self.pool, Announcement::ENCODED),
                    FrameKind::Piece => self.transfers.landing(rank, header, &mut self.pool)?,
                    FrameKind::Offer => aside(&mut self.pool, Label::OFFER),
                    FrameKind::Open | FrameKind::Refuse => aside(&mut self.pool, OPEN),
                    FrameKind::Heartbeat | FrameKind::Leave | FrameKind::Close => (0, Landing::Nothing),
                    FrameKind::Hold | FrameKind::Resume | FrameKind::Ask | FrameKind::Taken => {
                        (0, Landing::Nothing)
                    }
                };
                self.links[rank as usize].land(length, landing);
                Ok(())
            }
            Event::Frame { header, landing } => match (header.kind, landing) {
                (FrameKind::Message(number), landing) => {
                    self.arrived(rank, header, number, landing);
                    Ok(())
                }
                (FrameKind::Piece, landing) => {
                    self.transfers.arrived(&mut context!(self), rank, header, landing);
                    Ok(())
                }
                (kind, Landing::Aside(buffer)) => {
                    let outcome = self.handle_notice(rank, header, kind, buffer.as_slice());
                    self.pool.give(buffer);
                    outcome
                }
                (FrameKind::Ask, _) => self.transfers.asked(&mut context!(self), rank, header),
                (FrameKind::Taken, _) => self.transfers.has_released(&mut context!(self), rank, header),
                (FrameKind::Hold | FrameKind::Resume, _) => {
                    self.links[rank as usize].hold(header.kind == FrameKind::Hold);
                    Ok(())
                }
                (FrameKind::Close, _) => self.has_closed(rank, header),
                (FrameKind::Leave, _) => {
                    self.left.insert(rank);
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
        match kind {
            FrameKind::Begin => {
                let asked = payload.try_into().ok().and_then(Announcement::decode);
                self.announced(rank, header, asked.ok_or(unknown)?)
            }
            FrameKind::Offer => self.transfers.offered(&mut context!(self), rank, header, payload),
            FrameKind::Refuse => self.transfers.refused(&mut context!(self), rank, header, payload),
            FrameKind::Open => {
                let id = u64::from_le_bytes(payload.try_into().map_err(|_| unknown)?);
                self.has_opened(rank, header, id)
            }
            _ => Err(unknown),
        }
    }

    /// A peer has opened a group.
    fn has_opened(&mut self, rank: u32, header: Header, id: u64) -> Result<(), ProtocolError> {
        let numbered = PeerGroup { member: rank, number: header.sequence >> SEQUENCE_BITS };
        let known = self.routes.contains_key(&numbered) || self.opened.contains_key(&numbered);
        if numbered.number == 0 || known {
            return Err(ProtocolError::Twice(header));
        }
        self.left_early.remove(&(id, rank));
        let Some(&slot) = self.ids.get(&id) else {
            self.opened.insert(numbered, id);
            return Ok(());
        };
        let group = self.groups[slot as usize].as_mut();
        let group =
            group.filter(|group| group.absent.contains(&rank)).ok_or(ProtocolError::Unknown(header))?;
        group.absent.remove(&rank);
        self.routes.insert(numbered, slot);
        self.fill();
        Ok(())
    }

    /// A peer has left a group.
    fn has_closed(&mut self, rank: u32, header: Header) -> Result<(), ProtocolError> {
        let numbered = PeerGroup { member: rank, number: header.sequence >> SEQUENCE_BITS };
        let never = header.chunk == NEVER;
        if !never && let Some(id) = self.opened.remove(&numbered) {
            self.transfers.has_left(&mut context!(self), rank, id, false);
            if self.left_early.len() < MOST_LEFT_EARLY {
                self.left_early.insert((id, rank));
            }
            // Answer before this rank can open the group, which it would announce at once, too.
            let header = Header { chunk: NEVER, ..header };
            self.links[rank as usize].urge(header, &[]);
            return Ok(());
        }
        // A member that has never opened the group knows only this rank's number.
        let own = Some(numbered.number).filter(|&slot| {
            let group = self.groups.get(slot as usize).and_then(Option::as_ref);
            never && group.is_some_and(|group| group.closed && group.absent.contains(&rank))
        });
        let slot = if never { own } else { self.routes.remove(&numbered) };
        let slot = slot.ok_or(ProtocolError::Unknown(header))?;
        let Some(group) = self.groups[slot as usize].as_mut() else { return Ok(()) };
        group.gone.insert(rank);
        let (id, closed) = (group.id, group.closed);
        if !closed {
            let left = &self.left;
            let gone = |other| group.gone.contains(&other) || left.contains(&other);
            let last = group.others().all(gone);
            let lane = LaneIndex { index: self.index, lanes: self.flow.lanes };
            if group.lacks(rank, true, lane, &self.early) || self.transfers.need(rank, Some(id), |_| last) {
                let lost = header.chunk.checked_sub(1).filter(|&lost| group.place(lost).is_some());
                let member = lost.filter(|&lost| lost != self.member).unwrap_or(rank);
                self.deserted.push_back(Desertion { slot, member });
            }
            if group.closed_to.insert(rank) {
                let sequence = slot << SEQUENCE_BITS;
                let header = Header { kind: FrameKind::Close, epoch: self.epoch, sequence, chunk: 0 };
                group.close_unwritten.insert(rank);
                self.links[rank as usize]
                    .end(header, FrameOwner::Close { slot }, |waiting| is_of(slot, waiting));
            }
        }
        self.transfers.has_left(&mut context!(self), rank, id, true);
        self.release(slot);
        Ok(())
    }

    /// The group of a plan's frame from a peer, and the operation's number in the group.
    fn group(&self, rank: u32, header: Header) -> Option<(u32, u64)> {
        let number = header.sequence >> SEQUENCE_BITS;
        let slot = if number == 0 { 0 } else { *self.routes.get(&PeerGroup { member: rank, number })? };
        let group = self.groups[slot as usize].as_ref()?;
        Some((slot, group.sequence(header.sequence)))
    }

    /// A peer has announced an operation.
    fn announced(&mut self, rank: u32, header: Header, asked: Announcement) -> Result<(), ProtocolError> {
        let (slot, sequence) = self.group(rank, header).ok_or(ProtocolError::Unknown(header))?;
        let group = self.groups[slot as usize].as_mut().expect("found just now");
        if let Some(known) = group.operations.get_mut(&sequence) {
            // If this rank has not begun the operation, it was another rank that announced it first, and the error
            // names that rank.
            let other = known.heard.first().filter(|_| known.running.is_none());
            let who = other.map_or(group.book.member(), |&other| group.places[other as usize].unwrap_or(0));
            check_same(group.book.name(who), &known.shape, &asked)?;
            return if known.heard.insert(rank) { Ok(()) } else { Err(ProtocolError::Twice(header)) };
        }
        if sequence <= group.newest || sequence > group.newest + MOST_AHEAD {
            return Err(ProtocolError::Unknown(header));
        }
        let us = group.book.name(group.book.member());
        let shape = group
            .book
            .shape(&asked.operation)
            .map_err(|_| ProtocolError::NoPlan { rank: us, operation: asked.operation })?;
        check_same(us, &shape, &asked)?;
        group.operations.insert(sequence, Known { shape, heard: BTreeSet::from([rank]), running: None });
        if !group.closed {
            group.announced = group.announced.max(sequence);
            if group.announced - group.newest > HELD_AHEAD {
                self.hold(rank);
            }
        }
        Ok(())
    }

    /// Decides where the message goes that is about to arrive, and how long it is.
    fn landing(&mut self, rank: u32, header: Header, number: u16) -> Result<(usize, Landing), ProtocolError> {
        let unknown = ProtocolError::Unknown(header);
        let Some((slot, sequence)) = self.group(rank, header) else { return Err(unknown) };
        let group = self.groups[slot as usize].as_mut().expect("found just now");
        let place = group.places[rank as usize];
        let Some(known) = group.operations.get_mut(&sequence).filter(|known| known.heard.contains(&rank))
        else {
            return Err(unknown);
        };
        let Shape { script, cut, .. } = &*known.shape;
        let ours = header.chunk < cut.chunks() && header.chunk % self.flow.lanes == self.index;
        let seat = place.and_then(|place| known.shape.seat(place));
        let step = seat.and_then(|seat| script.incoming(seat, number)).filter(|_| ours);
        let step = step.ok_or(unknown)?;
        let length = known.shape.bytes(step, header.chunk);
        if group.closed {
            return Ok((length, Landing::Nothing));
        }
        let operation = key(slot, sequence);
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
            None if self.early.awaits(key) => Err(ProtocolError::Twice(header)),
            None => {
                let of_peer = self.early.expect(key, length);
                if of_peer > FLOOD.saturating_mul(self.flow.ahead).max(ON_ITS_WAY).max(2 * length) {
                    return Err(ProtocolError::Flood(of_peer));
                }
                if self.early.bytes() > self.flow.ahead {
                    self.hold(rank);
                }
                Ok((length, Landing::Aside(self.pool.take(length))))
            }
        }
    }

    /// A message has arrived.
    fn arrived(&mut self, rank: u32, header: Header, number: u16, landing: Landing) {
        let Some((slot, sequence)) = self.group(rank, header) else { return };
        let group = self.groups[slot as usize].as_mut().expect("found just now");
        let place = group.places[rank as usize];
        let Some(known) = group.operations.get_mut(&sequence).filter(|_| !group.closed) else { return };
        let seat = place.and_then(|place| known.shape.seat(place)).expect("landing found it");
        let step = known.shape.script.incoming(seat, number).expect("landing found it");
        match landing {
            Landing::Put(_) | Landing::Combine { .. } => {
                self.advance(slot, sequence, header.chunk, Trigger::Done(step));
            }
            Landing::Aside(buffer) => {
                let operation = key(slot, sequence);
                self.early.put(MessageKey { operation, chunk: header.chunk, rank, number }, buffer);
                let chunk = known.running.as_mut().and_then(|running| running.chunks.get_mut(&header.chunk));
                if chunk.is_some_and(|chunk| chunk.wants(step)) {
                    self.advance(slot, sequence, header.chunk, Trigger::Arrived(step));
                }
            }
            Landing::Nothing => {}
        }
    }

    /// Asks a peer to hold the frames of plans, unless one of them is needed now.
    fn hold(&mut self, rank: u32) {
        if !self.held.contains(&rank) && !self.lacks(rank, false) {
            self.held.insert(rank);
            self.signal(rank, FrameKind::Hold);
        }
    }

    /// Asks peers to resume: those whose messages are needed, or all of them if there is room.
    fn resume(&mut self) {
        let far =
            |group: &Group| !group.closed && group.announced.saturating_sub(group.newest) > HELD_AHEAD / 2;
        let room = self.early.bytes() <= self.flow.ahead / 2 && !self.groups.iter().flatten().any(far);
        let ready: Vec<u32> =
            self.held.iter().copied().filter(|&rank| room || self.lacks(rank, false)).collect();
        for rank in ready {
            self.held.remove(&rank);
            self.signal(rank, FrameKind::Resume);
        }
    }

    /// Begins chunks while there is room for them, in each group separately.
    fn fill(&mut self) {
        let mut next = self.pending.first().copied();
        while let Some(slot) = next {
            while self.begin_chunk(slot) {}
            next = self.pending.range(slot + 1..).next().copied();
        }
        if !self.held.is_empty() {
            self.resume();
        }
    }

    /// Begins the next chunk of a group, if there is one and room for it. Returns whether it did.
    fn begin_chunk(&mut self, slot: u32) -> bool {
        let Some(group) = self.groups[slot as usize].as_mut().filter(|group| group.ready()) else {
            return false;
        };
        let room = group.running < 2
            || group.running < MOST_RUNNING
                && group.running_bytes < self.most_running_bytes
                && group.window_used < self.flow.window;
        // The oldest running chunk may wait for others while all later ones complete.
        let span = group.spans.first().map_or(0, |oldest| group.begun - oldest);
        let most = SPAN * self.flow.window as u64 + group.window_used as u64;
        if !room || span > most {
            return false;
        }
        let Some((sequence, number)) = group.next_chunk(self.flow.lanes) else {
            self.pending.remove(&slot);
            return false;
        };
        let before = group.begun;
        let known = group.operations.get_mut(&sequence).expect("found just now");
        let running = known.running.as_mut().expect("as above");
        let chunk = Chunk::begin(&running.started, number, before, &mut self.pool);
        let message = chunk.message(&running.started);
        group.running_bytes += chunk.bytes(&running.started);
        group.window_used += message;
        // No two chunks have the same position, not even chunks of zero bytes.
        group.begun += message.max(1) as u64;
        group.spans.insert(before);
        running.chunks.insert(number, chunk);
        group.running += 1;
        self.advance(slot, sequence, number, Trigger::Begin);
        true
    }

    /// Runs the steps of a chunk that are possible now.
    fn advance(&mut self, slot: u32, sequence: u64, number: u32, trigger: Trigger) {
        let Some(group) = self.groups.get_mut(slot as usize).and_then(Option::as_mut) else { return };
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
        let operation = key(slot, sequence);
        let low = slot << SEQUENCE_BITS | sequence as u32 & ((1 << SEQUENCE_BITS) - 1);
        let mut output = |to: u32, message: u16, payload: Region, step: u32| {
            let rank = members[shape.ranks()[to as usize] as usize];
            // A member that has left takes nothing more, and its group ends.
            if closed_to.contains(&rank) {
                return;
            }
            let link = &mut self.links[rank as usize];
            let header = |kind| Header { kind, epoch: self.epoch, sequence: low, chunk: number };
            if announced_to.insert(rank) {
                link.control(header(FrameKind::Begin), &shape.announcement().encode());
            }
            let owner = FrameOwner::Step { operation, chunk: number, step };
            link.message(header(FrameKind::Message(message)), payload, owner);
        };
        let mut early = |seat: u32, message: u16| {
            let rank = members[shape.ranks()[seat as usize] as usize];
            self.early.take(MessageKey { operation, chunk: number, rank, number: message })
        };
        let mut context = chunk::Context {
            started,
            number,
            pool: &mut self.pool,
            saved,
            send: &mut output,
            early: &mut early,
        };
        if !chunk.advance(&mut context, trigger) {
            return;
        }
        let chunk = chunks.remove(&number).expect("found above");
        *running_bytes -= chunk.bytes(started);
        *window_used -= chunk.message(started);
        spans.remove(&chunk.before);
        chunk.end(&mut self.pool);
        running.left -= 1;
        *under_way -= 1;
        if running.left == 0 {
            self.end(slot, sequence);
        }
    }

    /// All chunks of an operation on this lane have completed.
    fn end(&mut self, slot: u32, sequence: u64) {
        let Some(group) = self.groups[slot as usize].as_mut() else { return };
        let kept = group
            .operations
            .get(&sequence)
            .and_then(|known| known.running.as_ref())
            .is_some_and(|r| r.started.keep);
        if !kept {
            group.operations.remove(&sequence);
        }
        self.finished.push_back(key(slot, sequence));
    }
}

impl Machine for Lane {
    fn waiting(&self, peer: u32) -> usize {
        self.links[peer as usize].waiting()
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        self.links[peer as usize].gather(slices, most);
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let mut done = std::mem::take(&mut self.done);
        self.links[peer as usize].sent(bytes, &mut done);
        for owner in done.drain(..) {
            match owner {
                FrameOwner::Piece(piece) => self.transfers.written(&mut context!(self), peer, piece),
                FrameOwner::Close { slot } => self.close_written(slot, peer),
                FrameOwner::Step { operation, chunk, step } => {
                    let (slot, sequence) = parts(operation);
                    self.advance(slot, sequence, chunk, Trigger::Done(step));
                }
            }
        }
        self.done = done;
        self.fill();
    }

    /// Normally true, since peers that are too far ahead are asked to hold. False if a held peer keeps announcing
    /// operations, unless a message that is needed now comes after the announcements.
    fn reads(&self, peer: u32) -> bool {
        let near =
            |group: &Group| group.closed || group.announced.saturating_sub(group.newest) < MOST_AHEAD / 2;
        self.held.is_empty() || self.groups.iter().flatten().all(near) || self.lacks(peer, false)
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.links[peer as usize].direct()
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        if let Some(event) = self.links[peer as usize].read_directly(bytes)? {
            self.handle(peer, event)?;
            self.fill();
        }
        Ok(())
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while let Some(event) = self.links[peer as usize].take(&mut bytes)? {
            self.handle(peer, event)?;
        }
        self.fill();
        Ok(())
    }

    fn coming(&self, peer: u32) -> Option<PartialMessage> {
        self.links[peer as usize].coming()
    }

    fn disable_checksums(&mut self, peer: u32) {
        self.links[peer as usize].disable_checksums();
        let others = (0u32..).zip(&self.links).filter(|&(other, _)| other != self.member);
        if others.into_iter().all(|(_, link)| !link.checked()) {
            self.most_running_bytes = NEAR;
        }
    }

    fn send_heartbeat(&mut self, peer: u32) {
        if self.waiting(peer) == 0 {
            self.signal(peer, FrameKind::Heartbeat);
        }
    }

    fn leave(&mut self, peer: u32) {
        // After all frames of plans.
        let header = Header { kind: FrameKind::Leave, epoch: self.epoch, sequence: 0, chunk: 0 };
        let link = &mut self.links[peer as usize];
        link.control(header, &[]);
        link.hold(false);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.left.contains(&peer)
    }

    fn free_unused_memory(&mut self) {
        self.idle += 1;
        if self.idle >= IDLE {
            self.idle = 0;
            self.pool.trim();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Buffer;
    use crate::operation::{Association, Operation};
    use crate::shape::Rule;
    use syncline_plan::by_name;
    use syncline_reduction::{Element, Reduction};
    use syncline_units::CollectiveKind;

    /// Number of chunks that run and their bytes in flight, of `operations` all-reduces of `bytes` bytes, before
    /// anything arrives from the other rank.
    fn running(window: usize, message: u64, operations: u64, bytes: usize) -> (u32, usize) {
        let algorithm = by_name("ring").unwrap();
        let rule = Rule { kind: CollectiveKind::AllReduce, up_to: None, algorithm, message };
        let book = Arc::new(PlanBook::new(0, 2, vec![0, 1], vec![rule]).unwrap());
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
            let shape = book.shape(&operation).unwrap();
            let started = StartedOperation { sequence, shape, input: region, output: region, keep: false };
            lane.start(Arc::new(started)).unwrap();
        }
        let whole =
            |lane: &Lane| lane.groups[0].as_ref().map(|group| (group.running, group.window_used)).unwrap();
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
        assert_eq!(running(64 << 10, 64 << 10, 200, 64), (MOST_RUNNING, MOST_RUNNING as usize * 32));
    }
}
