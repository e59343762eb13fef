//! The critical path: the chain of work and messages that a run is as long as.
//!
//! Whatever begins at some time begins because of the event that is handled then: the last thing that it waited for. So
//! the engine keeps one number, the *stretch* that the present event ends, and everything that begins meanwhile comes
//! after it. A message that has to wait for a port comes after the message that the port was busy with. Going back from
//! the task that ended last gives a chain without gaps ([`mod@walk`]); it changes rank where one waited for another.
//!
//! On that chain time is compute, memory operations, local reduction, bytes on a tier of links, and latency. The length of
//! any chain is a lower bound of the time that a run takes, as long as ports serve messages in the same order; so making
//! one of them faster saves no more than its part of this chain, and saves that until another chain is longer. A small change
//! saves exactly that, to the picosecond. A large one may reorder messages, which makes the run longer or shorter by a jump.
//!
//! *Queueing* is what messages wait for others that share a link with them, on top of the time of their own bytes. At the
//! port where a message leaves its NPU, and behind messages of the same pair of NPUs, the bytes ahead are the sender's own.
//!
//! [`mod@trail`] writes it down, in memory that follows what is alive.

mod collect;
mod savings;
mod trail;
mod walk;

pub use savings::{Moment, Savings};
pub use trail::{NO_TIER, Origin, Purpose, START, Tail, Trail};
pub(crate) use walk::Watched;

use syncline_units::Time;

/// Steps of training that are watched: enough to see how one goes over into the next.
const WATCHED_STEPS: u32 = 2;

/// Most micro-batches for which there are two.
const WATCHED_MICRO_BATCHES: u32 = 64;

/// Micro-batches whose activity is watched: those of two steps; where they are too many, of one step; and where that has
/// too many, its first ones.
pub fn watched(micro_batches: u32) -> u32 {
    watched_by_path(micro_batches).min(WATCHED_MICRO_BATCHES.max(WATCHED_STEPS))
}

/// Micro-batches that the critical path is of: those of two steps, or where they are too many, of one.
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
    /// Combining what was received with local data.
    Reduction,
    /// Bytes of messages on links of this tier, at the links' rate.
    Bytes(u16),
    /// Waiting for messages of others that share a link of this tier.
    Queueing(u16),
    /// Latency of links, injection and endpoints.
    Latency,
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From when.
    pub start: Time,
    /// To when.
    pub end: Time,
    /// Which rank: the one that computes, combines, or sends.
    pub rank: u32,
    /// Its task.
    pub task: u32,
    /// The accounting dimension of a collective's phase.
    pub dim: Option<u16>,
    /// What for.
    pub spent: Spent,
}

/// The critical path of the watched steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPath {
    /// In the order of time. Those of micro-batches that were not simulated are left out, and so are the first ones of a
    /// job that is too large to keep all.
    pub segments: Vec<Segment>,
    /// All of its time, by what it is spent on, in the order of [`Spent`].
    pub spent: Vec<(Spent, Time)>,
    /// By how much these steps would be shorter, if one of those were.
    pub saved: Savings,
    /// Compute of each rank in these steps; like [`Record::ranks`](crate::Record::ranks).
    pub computed: Vec<Time>,
    /// The rank that it ends on.
    pub rank: u32,
}
