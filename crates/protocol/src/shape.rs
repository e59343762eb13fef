//! How one member runs a collective: which steps, in how many chunks, with which members in which seats.

use crate::cut::Cut;
use crate::operation::{Announcement, Operation};
use crate::script::{Script, StepAction};
use std::sync::Arc;

/// How one member runs a collective of some size.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The collective.
    pub operation: Operation,
    /// The steps of this member for each chunk.
    pub script: Arc<Script>,
    /// How the vector is cut into chunks.
    pub cut: Cut,
    /// Identifies the plan and the order of ranks.
    pub digest: u64,
    /// The edition of the plan book that decided this.
    pub edition: u32,
    /// The member of each seat.
    pub(crate) ranks: Vec<u32>,
    /// The seat of each member.
    pub(crate) seats: Vec<Option<u32>>,
    /// The most lanes that work on the chunks; `None` for all.
    pub(crate) lanes: Option<u32>,
    /// How far each lane sends ahead, in bytes; `None` for as far as in other operations.
    pub(crate) window: Option<u64>,
}

impl Shape {
    /// The member that has each seat: ranks, then hubs.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Of how many lanes chunks are, of `all`: chunk `c` belongs to lane `c` modulo this number.
    pub(crate) fn lanes(&self, all: u32) -> u32 {
        self.lanes.map_or(all, |most| most.clamp(1, all))
    }

    /// The first chunk of a lane, of `all`. If it has none, a number after the last chunk.
    pub(crate) fn first_chunk(&self, lane: u32, all: u32) -> u32 {
        if lane < self.lanes(all) { lane } else { u32::MAX }
    }

    /// The seat of a member, if it has one.
    pub(crate) fn seat(&self, rank: u32) -> Option<u32> {
        self.seats.get(rank as usize).copied().flatten()
    }

    /// The announcement to other members.
    pub(crate) fn announcement(&self) -> Announcement {
        Announcement {
            operation: self.operation,
            digest: self.digest,
            chunks: self.cut.chunks(),
            edition: self.edition,
        }
    }

    /// Whether a chunk skips the message of a step, because the message has no elements although the chunk has some.
    /// A vector with fewer elements than ranks has empty blocks.
    pub(crate) fn spares(&self, step: u32, chunk: u32) -> bool {
        let elements = self.cut.elements(chunk);
        match self.script.steps()[step as usize].act {
            StepAction::Send { part, .. } | StepAction::Receive { part, .. } => {
                elements > 0 && self.script.extent(part, elements).is_empty()
            }
            _ => false,
        }
    }

    /// Bytes of the message that a receiving step takes, for a chunk.
    pub(crate) fn bytes(&self, step: u32, chunk: u32) -> usize {
        match self.script.steps()[step as usize].act {
            StepAction::Receive { part, .. } => {
                let elements = self.script.extent(part, self.cut.elements(chunk)).len();
                elements as usize * self.operation.element.bytes()
            }
            _ => 0,
        }
    }
}
