//! The groups of a lane: opens and closes them, learns which groups other members open and close, and finds groups
//! that have lost a member that they need.

use super::connections::Connections;
use super::early::Early;
use super::frame_owner::FrameOwner;
use super::group::{Group, LaneIndex, Opening};
use super::started::SEQUENCE_BITS;
use super::transfers::{Transfer, Transfers};
use crate::extract::take_out;
use crate::fault::ProtocolError;
use crate::plan_book::PlanBook;
use crate::wire::{FrameKind, Header};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Most groups that a rank can have open at a time, including the whole job.
pub const MAX_GROUPS: u32 = 1 << (u32::BITS - SEQUENCE_BITS);

/// The chunk of a [`FrameKind::Close`] that answers another one, from a member that has not opened the group. The frame
/// then has the receiver's number of the group.
const NEVER: u32 = u32::MAX;

/// Most groups of which the lane remembers that members left them before this rank opened them. A rank that opens
/// another such group waits for those members until its deadline.
const MAX_LEFT_EARLY: usize = 1 << 16;

/// Bytes of the payload of a frame that opens a group.
pub(super) const OPEN: usize = 8;

/// Whether a frame belongs to a plan of a group, given by its number on this rank.
fn is_of(slot: u32, header: Header) -> bool {
    matches!(header.kind, FrameKind::Message(_) | FrameKind::Begin)
        && header.sequence >> SEQUENCE_BITS == slot
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

impl PeerGroup {
    /// The group of a frame of a plan, an open or a close from a member.
    const fn of(member: u32, header: Header) -> Self {
        Self { member, number: header.sequence >> SEQUENCE_BITS }
    }
}

/// The groups of a rank on a lane.
#[derive(Debug)]
pub(super) struct Groups {
    /// By their numbers on this rank. Group 0 is the whole job.
    list: Vec<Option<Group>>,
    /// Messages of the groups' operations that arrived before they were needed.
    pub early: Early,
    pub lane: LaneIndex,
    /// This rank's index in the job, and the number of members.
    pub member: u32,
    world: u32,
    /// Group numbers on this rank by group id, which is the same on all members.
    ids: BTreeMap<u64, u32>,
    /// Group numbers on this rank.
    routes: BTreeMap<PeerGroup, u32>,
    /// Ids of groups that members have opened and this rank has not.
    opened: BTreeMap<PeerGroup, u64>,
    /// Groups that members left before this rank opened them: ids and members.
    left_early: BTreeSet<(u64, u32)>,
    deserted: VecDeque<Desertion>,
    released: VecDeque<u32>,
    /// Ranks that have announced that nothing will follow.
    left: BTreeSet<u32>,
}

impl Groups {
    /// Only the group of the whole job.
    pub(super) fn new(lane: LaneIndex, book: Arc<PlanBook>) -> Self {
        let (member, world) = (book.member(), book.members());
        let whole = Opening { slot: 0, id: 0, book, members: (0..world).collect() };
        Self {
            list: vec![Some(Group::new(whole, world))],
            early: Early::default(),
            lane,
            member,
            world,
            ids: BTreeMap::from([(0, 0)]),
            routes: BTreeMap::new(),
            opened: BTreeMap::new(),
            left_early: BTreeSet::new(),
            deserted: VecDeque::new(),
            released: VecDeque::new(),
            left: BTreeSet::new(),
        }
    }

    /// A group, by its number on this rank.
    pub(super) fn get(&self, slot: u32) -> Option<&Group> {
        self.list.get(slot as usize).and_then(Option::as_ref)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Group> {
        self.list.get_mut(slot as usize).and_then(Option::as_mut)
    }

    /// A group, and the messages that arrived early.
    pub(super) fn with_early(&mut self, slot: u32) -> Option<(&mut Group, &mut Early)> {
        let group = self.list.get_mut(slot as usize).and_then(Option::as_mut)?;
        Some((group, &mut self.early))
    }

    /// All groups that this rank has not left, and those that it has left whose numbers are still in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.list.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.list.iter_mut().flatten()
    }

    /// The group of a plan's frame from a peer, and the operation's number in the group.
    pub(super) fn find(&self, rank: u32, header: Header) -> Option<(u32, u64)> {
        let from = PeerGroup::of(rank, header);
        let slot = if from.number == 0 { 0 } else { *self.routes.get(&from)? };
        let group = self.get(slot)?;
        Some((slot, group.sequence(header.sequence)))
    }

    /// Opens a group. See [`Lane::open`](super::Lane::open).
    pub(super) fn open(&mut self, opening: Opening, connections: &mut Connections) {
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
        let header = connections.header(FrameKind::Open, slot << SEQUENCE_BITS, 0);
        for &member in &group.absent {
            connections.urge(member, header, &id.to_le_bytes());
        }
        for (numbered, _) in take_out(&mut self.opened, |_, opened| *opened == id) {
            self.routes.insert(numbered, slot);
            group.absent.remove(&numbered.member);
        }
        if self.list.len() <= slot as usize {
            self.list.resize_with(slot as usize + 1, || None);
        }
        self.ids.insert(id, slot);
        self.list[slot as usize] = Some(group);
    }

    /// Leaves a group. See [`Lane::close`](super::Lane::close). Returns false if this rank has left it already.
    pub(super) fn close(
        &mut self,
        slot: u32,
        lost: Option<u32>,
        connections: &mut Connections,
        transfers: &mut Transfers,
    ) -> bool {
        let Some(group) = self.list.get_mut(slot as usize).and_then(Option::as_mut) else { return false };
        if group.closed || slot == 0 {
            return false;
        }
        group.closed = true;
        // Keep copies of what is in transit. The buffers of its chunks may then be reused as well.
        for (member, link) in (0u32..).zip(connections.links.iter_mut()) {
            link.keep(|owner| matches!(owner, FrameOwner::Step { operation, .. } if operation.group == slot));
            let routes = &self.routes;
            link.divert(|header| {
                matches!(header.kind, FrameKind::Message(_))
                    && routes.get(&PeerGroup::of(member, header)) == Some(&slot)
            });
        }
        self.early.forget(slot, &mut connections.pool);
        group.abort(&mut connections.pool);
        let chunk = lost.map_or(0, |member| member + 1);
        let others: BTreeSet<u32> = group.others().collect();
        let uninformed: Vec<u32> = others.difference(&group.closed_to).copied().collect();
        uninformed.into_iter().for_each(|member| send_close(group, member, chunk, connections));
        // Include members that have not opened the group: their frames may be in transit.
        let (id, here) = (group.id, others.difference(&group.gone).copied().collect());
        group.closed_to = others;
        transfers.leave(connections, id, here);
        self.release(slot);
        true
    }

    /// Forgets a group that this rank has left, once no more of its frames can arrive.
    fn release(&mut self, slot: u32) {
        let Some(group) = &self.list[slot as usize] else { return };
        // Another group may take the number, so no frame of this one may be waiting to be written either.
        if group.closed
            && group.close_unwritten.is_empty()
            && group.others().all(|member| group.gone.contains(&member))
        {
            self.ids.remove(&group.id);
            self.list[slot as usize] = None;
            self.released.push_back(slot);
        }
    }

    /// A [`FrameKind::Close`] of a group has been written to a member.
    pub(super) fn close_written(&mut self, slot: u32, member: u32) {
        if let Some(group) = self.get_mut(slot) {
            group.close_unwritten.remove(&member);
            self.release(slot);
        }
    }

    /// A peer has opened a group. Returns whether this rank had opened it before, so that its chunks may begin now.
    pub(super) fn peer_opened(&mut self, rank: u32, header: Header, id: u64) -> Result<bool, ProtocolError> {
        let numbered = PeerGroup::of(rank, header);
        let known = self.routes.contains_key(&numbered) || self.opened.contains_key(&numbered);
        if numbered.number == 0 || known {
            return Err(ProtocolError::Twice(header));
        }
        self.left_early.remove(&(id, rank));
        let Some(&slot) = self.ids.get(&id) else {
            self.opened.insert(numbered, id);
            return Ok(false);
        };
        let group = self.get_mut(slot).filter(|group| group.absent.contains(&rank));
        group.ok_or(ProtocolError::Unknown(header))?.absent.remove(&rank);
        self.routes.insert(numbered, slot);
        Ok(true)
    }

    /// A peer has left a group.
    pub(super) fn peer_closed(
        &mut self,
        rank: u32,
        header: Header,
        connections: &mut Connections,
        transfers: &mut Transfers,
    ) -> Result<(), ProtocolError> {
        let numbered = PeerGroup::of(rank, header);
        let never = header.chunk == NEVER;
        if !never && let Some(id) = self.opened.remove(&numbered) {
            transfers.has_left(connections, rank, id, false);
            if self.left_early.len() < MAX_LEFT_EARLY {
                self.left_early.insert((id, rank));
            }
            // Answer before this rank can open the group, which it would announce at once, too.
            connections.urge(rank, Header { chunk: NEVER, ..header }, &[]);
            return Ok(());
        }
        // A member that has never opened the group knows only this rank's number.
        let own = Some(numbered.number).filter(|&slot| {
            let group = self.get(slot);
            never && group.is_some_and(|group| group.closed && group.absent.contains(&rank))
        });
        let slot = if never { own } else { self.routes.remove(&numbered) };
        let slot = slot.ok_or(ProtocolError::Unknown(header))?;
        let Some(group) = self.list[slot as usize].as_mut() else { return Ok(()) };
        group.gone.insert(rank);
        let (id, closed) = (group.id, group.closed);
        if !closed {
            let left = &self.left;
            let gone = |other| group.gone.contains(&other) || left.contains(&other);
            let last = group.others().all(gone);
            if group.lacks(rank, true, self.lane, &self.early) || transfers.need(rank, Some(id), |_| last) {
                let lost = header.chunk.checked_sub(1).filter(|&lost| group.place(lost).is_some());
                let member = lost.filter(|&lost| lost != self.member).unwrap_or(rank);
                self.deserted.push_back(Desertion { slot, member });
            }
            if group.closed_to.insert(rank) {
                send_close(group, rank, 0, connections);
            }
        }
        transfers.has_left(connections, rank, id, true);
        self.release(slot);
        Ok(())
    }

    /// A peer has announced that nothing will follow.
    pub(super) fn peer_left(&mut self, rank: u32) {
        self.left.insert(rank);
    }

    /// Whether a peer has announced that nothing will follow.
    pub(super) fn has_left(&self, rank: u32) -> bool {
        self.left.contains(&rank)
    }

    /// The next closed group whose number may be used again.
    pub(super) fn released(&mut self) -> Option<u32> {
        self.released.pop_front()
    }

    /// The next group that cannot continue because a member has left it.
    pub(super) fn deserted(&mut self) -> Option<Desertion> {
        self.deserted.pop_front()
    }

    /// Reports that a group needs a member that has left it.
    pub(super) fn desert(&mut self, slot: u32, member: u32) {
        self.deserted.push_back(Desertion { slot, member });
    }

    /// Whether a transfer is impossible, because its group is closed or has lost a member that the transfer needs.
    /// Reports the lost member.
    pub(super) fn reject_if_deserted(&mut self, transfer: &Transfer) -> bool {
        let slot = self.ids.get(&transfer.label.group);
        let Some(group) = slot.and_then(|&slot| self.get(slot)) else { return true };
        let lost = match transfer.peer {
            Some(peer) => group.gone.contains(&peer).then_some(peer),
            None => {
                let mut others = group.others().peekable();
                let first = others.peek().copied();
                first.filter(|_| others.all(|other| self.sends_nothing(group, other)))
            }
        };
        let (slot, closed) = (group.slot, group.closed);
        if let Some(member) = lost {
            self.desert(slot, member);
        }
        closed || lost.is_some()
    }

    /// Whether a member of a group will send nothing more of it.
    fn sends_nothing(&self, group: &Group, member: u32) -> bool {
        group.gone.contains(&member) || self.left.contains(&member)
    }

    /// Whether all members of a group, except `rank` and this one, will send nothing more of it. `id` is the group's
    /// id.
    pub(super) fn is_last(&self, id: u64, rank: u32) -> bool {
        let group = self.ids.get(&id).and_then(|&slot| self.get(slot));
        group.is_some_and(|group| {
            group.others().all(|other| other == rank || self.sends_nothing(group, other))
        })
    }

    /// Whether a message of a plan from a rank is missing: see [`Group::lacks`].
    pub(super) fn lacks(&self, rank: u32, all: bool) -> bool {
        self.iter().any(|group| group.lacks(rank, all, self.lane, &self.early))
    }
}

/// Tells a member that this rank leaves a group, after what is in transit, and drops the group's frames that wait.
/// `chunk` says which member's loss is the reason.
fn send_close(group: &mut Group, member: u32, chunk: u32, connections: &mut Connections) {
    let slot = group.slot;
    let header = connections.header(FrameKind::Close, slot << SEQUENCE_BITS, chunk);
    group.close_unwritten.insert(member);
    connections.links.to(member).end(header, FrameOwner::Close { slot }, |waiting| is_of(slot, waiting));
}
