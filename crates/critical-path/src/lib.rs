//! The critical path: a chain of work and messages that takes as long as the whole run.
//!
//! Each event is the last thing that its followers waited for. So the engine keeps one number, the *stretch* of the
//! path that the current event ends, and everything that begins during the event follows that stretch. A message that
//! waits for a port follows the message that kept the port busy. Walking back from the task that ended last gives a
//! chain without gaps (`walk`); it changes rank where one rank waited for another.
//!
//! The chain consists of compute, memory operations, local reduction, bytes on tiers of links, and latency. As long
//! as ports serve messages in the same order, a run takes at least as long as any of its chains. So making a part
//! faster saves at most its share of this chain, and exactly that until another chain becomes longer; for small
//! changes this is exact to the picosecond. A large change may reorder messages, and then the length of the run may
//! jump up or down.
//!
//! *Queueing* is the time that a message waits for messages of other senders on a link, in addition to the time for
//! its own bytes. Where a message leaves its NPU, and behind messages of the same sender and receiver, the bytes
//! ahead count as the sender's own bytes, not as queueing.
//!
//! `trail` records stretches (`stretch`), and `collect` drops unreferenced ones, of which it keeps the `sums`; `savings`
//! computes what a faster part saves, and `joins` where several chains meet.

mod collect;
mod joins;
mod savings;
mod stretch;
mod sums;
mod trail;
mod walk;

pub use collect::Visit;
pub use savings::Savings;
pub use stretch::{Moment, Purpose, StretchId};
pub use trail::{Origin, Route, Tail, Trail, Unit};
pub use walk::{LastTask, Watched};

use syncline_units::{RankId, TierId, Time};

/// Training steps on the path: two, so that it crosses from one into the next.
const WATCHED_STEPS: u32 = 2;

/// Most micro-batches on the path of two steps.
const WATCHED_MICRO_BATCHES: u32 = 64;

/// Micro-batches in the table `activity`: those of two steps; if these are too many, those of one step; if these are
/// too many, the first ones of it.
pub fn watched(micro_batches: u32) -> u32 {
    watched_by_path(micro_batches).min(WATCHED_MICRO_BATCHES.max(WATCHED_STEPS))
}

/// Micro-batches on the critical path: those of two steps, or of one step if two have too many.
pub fn watched_by_path(micro_batches: u32) -> u32 {
    (WATCHED_MICRO_BATCHES / micro_batches).clamp(1, WATCHED_STEPS) * micro_batches
}

/// What time on the critical path is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spent {
    /// Compute.
    Compute,
    /// A memory operation.
    Memory,
    /// Combining received data with local data.
    Reduction,
    /// Bytes of messages on links of this tier, at the links' rate; `None` if the tier is unknown.
    Bytes(Option<TierId>),
    /// Waiting for messages of other senders on a link of this tier; `None` if the tier is unknown.
    Queueing(Option<TierId>),
    /// Latency of links, injection and endpoints.
    Latency,
}

/// A segment of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// The rank that computes, combines, or sends.
    pub rank: RankId,
    /// Its task.
    pub task: u32,
    /// The accounting dimension of a collective's phase.
    pub dim: Option<u16>,
    /// What the time is spent on.
    pub spent: Spent,
}

/// The critical path of the first steps ([`watched_by_path`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPath {
    /// Segments in time order. Omits micro-batches that were not simulated, and the earliest segments if there are
    /// too many to keep.
    pub segments: Vec<Segment>,
    /// All time on the path by what it is spent on, sorted by [`Spent`].
    pub spent: Vec<(Spent, Time)>,
    /// How much shorter these steps would be if one kind of time were shorter.
    pub saved: Savings,
    /// Compute time of each rank in these steps; in the order of the engine's record.
    pub computed: Vec<Time>,
    /// The rank on which it ends.
    pub rank: RankId,
}
