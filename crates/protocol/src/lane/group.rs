//! The operations of one group of ranks on a lane.

use super::chunk::Chunk;
use super::early::{Early, MessageKey};
use super::started::{OperationId, SEQUENCE_BITS, StartedOperation};
use crate::memory::{Buffer, Pool, Region};
use crate::plan_book::PlanBook;
use crate::script::StepAction;
use crate::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group to open, the same for all lanes of a rank.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The group's number on this rank. Group 0 is the whole job.
    pub slot: u32,
    /// The group's id, the same on all its members.
    pub id: u64,
    /// How the group's operations are run.
    pub book: Arc<PlanBook>,
    /// The member of the job at each place in the group.
    pub members: Vec<u32>,
}

/// An operation that this rank or a peer has begun.
#[derive(Debug)]
pub(super) struct Known {
    pub shape: Arc<Shape>,
    /// Ranks whose announcements have arrived.
    pub heard: BTreeSet<u32>,
    pub running: Option<Running>,
}

/// An operation that this rank has begun, and its progress on this lane.
#[derive(Debug)]
pub(super) struct Running {
    pub started: Arc<StartedOperation>,
    /// The next chunk to begin, and the number of this lane's chunks that have not completed.
    pub next: u32,
    pub left: u32,
    pub chunks: BTreeMap<u32, Chunk>,
    /// Ranks to which this lane has announced the operation.
    pub announced_to: BTreeSet<u32>,
    /// Parts of the input from before they were overwritten.
    pub saved: Vec<(Region, Buffer)>,
}

/// A group and its operations.
#[derive(Debug)]
pub(super) struct Group {
    pub slot: u32,
    pub id: u64,
    pub book: Arc<PlanBook>,
    /// The member of the job at each place in the group, and the place of each member.
    pub members: Vec<u32>,
    pub places: Vec<Option<u32>>,
    pub operations: BTreeMap<u64, Known>,
    /// The newest operation that has begun here, and the newest that any member has announced.
    pub newest: u64,
    pub announced: u64,
    /// Number of running chunks, their bytes, and the bytes of their largest messages.
    pub running: u32,
    pub running_bytes: usize,
    pub window_used: usize,
    /// Bytes of messages of all chunks that have begun so far, and the value of that count when each running chunk
    /// began.
    pub begun: u64,
    pub spans: BTreeSet<u64>,
    /// Members that have not opened the group yet, and members that have left it.
    pub absent: BTreeSet<u32>,
    pub gone: BTreeSet<u32>,
    /// Members that have this rank's close of the group, or do not need it.
    pub closed_to: BTreeSet<u32>,
    /// Members to which the [`Close`](crate::wire::FrameKind::Close) has not been written yet.
    pub close_unwritten: BTreeSet<u32>,
    /// Whether this rank has left the group.
    pub closed: bool,
}

/// A lane among the lanes of its member.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneIndex {
    pub index: u32,
    pub lanes: u32,
}

impl Group {
    pub(super) fn new(opening: Opening, world: u32) -> Self {
        let Opening { slot, id, book, members } = opening;
        let mut places = vec![None; world as usize];
        (0..).zip(&members).for_each(|(place, &member)| places[member as usize] = Some(place));
        Self {
            slot,
            id,
            book,
            members,
            places,
            operations: BTreeMap::new(),
            newest: 0,
            announced: 0,
            running: 0,
            running_bytes: 0,
            window_used: 0,
            begun: 0,
            spans: BTreeSet::new(),
            absent: BTreeSet::new(),
            gone: BTreeSet::new(),
            closed_to: BTreeSet::new(),
            close_unwritten: BTreeSet::new(),
            closed: false,
        }
    }

    /// The member of the job at a place in the group.
    pub(super) fn member(&self, place: u32) -> u32 {
        self.members[place as usize]
    }

    /// The place of a member of the job, if it is in the group.
    pub(super) fn place(&self, member: u32) -> Option<u32> {
        self.places.get(member as usize).copied().flatten()
    }

    /// The seat of a member of the job in a plan.
    pub(super) fn seat(&self, shape: &Shape, member: u32) -> Option<u32> {
        self.place(member).and_then(|place| shape.seat(place))
    }

    /// The members other than this rank.
    pub(super) fn others(&self) -> impl Iterator<Item = u32> {
        let us = self.book.member();
        (0..).zip(&self.members).filter(move |&(place, _)| place != us).map(|(_, &member)| member)
    }

    /// Whether chunks may begin: all members have opened the group, and this rank has not left it.
    pub(super) fn ready(&self) -> bool {
        self.absent.is_empty() && !self.closed
    }

    /// The full sequence number, from its lower bits.
    pub(super) fn sequence(&self, low: u32) -> u64 {
        const UNUSED: u32 = u32::BITS - SEQUENCE_BITS;
        let ahead = (low.wrapping_sub(self.newest as u32) << UNUSED).cast_signed() >> UNUSED;
        self.newest.wrapping_add_signed(i64::from(ahead))
    }

    /// Whether a running chunk misses a message from a member. With `all`, also whether a later chunk does, or
    /// whether a message to the member has not been written.
    pub(super) fn lacks(&self, member: u32, all: bool, lane: LaneIndex, early: &Early) -> bool {
        self.operations.iter().any(|(&sequence, known)| {
            let Some(running) = &known.running else { return false };
            let Some(seat) = self.seat(&known.shape, member) else { return false };
            let end = if all { known.shape.cut.chunks() } else { running.next.min(known.shape.cut.chunks()) };
            let first = known.shape.first_chunk(lane.index, lane.lanes);
            (first..end).step_by(known.shape.lanes(lane.lanes) as usize).any(|number| {
                let chunk = running.chunks.get(&number);
                if chunk.is_none() && number < running.next {
                    return false;
                }
                let open = |step| chunk.is_none_or(|chunk| chunk.lacks(step));
                let steps = (0u32..).zip(known.shape.script.steps());
                steps.filter(|&(step, _)| !known.shape.spares(step, number)).any(|(step, each)| {
                    match each.act {
                        StepAction::Send { to, .. } => all && to == seat && open(step),
                        StepAction::Receive { from, message, .. } => {
                            let operation = OperationId { group: self.slot, sequence };
                            let key = MessageKey { operation, chunk: number, rank: member, number: message };
                            from == seat && open(step) && !early.has(key)
                        }
                        _ => false,
                    }
                })
            })
        })
    }

    /// The operation of the next chunk to begin, and how it is run.
    pub(super) fn next_operation(&self) -> Option<(u64, &Shape)> {
        self.operations.iter().find_map(|(&sequence, known)| {
            let next = known.running.as_ref()?.next;
            (next < known.shape.cut.chunks()).then_some((sequence, &*known.shape))
        })
    }

    /// Aborts all operations, and restores inputs that must be kept. Returns the operations that had begun and
    /// were not forgotten.
    pub(super) fn abort(&mut self, pool: &mut Pool) -> Vec<u64> {
        (self.running, self.running_bytes, self.window_used) = (0, 0, 0);
        self.spans.clear();
        let begun = self
            .operations
            .iter_mut()
            .filter_map(|(&sequence, known)| Some((sequence, known.running.take()?)));
        begun
            .map(|(sequence, running)| {
                for (place, saved) in running.saved {
                    place.write(saved.as_slice());
                    pool.give(saved);
                }
                running.chunks.into_values().for_each(|chunk| chunk.end(pool));
                sequence
            })
            .collect()
    }
}
