//! What a core reports: how much data it has moved, which workers wait, and who is missing or takes part again.

use crate::saved::SavedChunk;
use std::collections::{BTreeMap, BTreeSet};

/// How much data a core has moved for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Bytes of contributions received.
    pub bytes_in: u64,
    /// Bytes of values sent.
    pub bytes_out: u64,
    /// Contributions to chunks received.
    pub pushes: u64,
    /// Steps of chunks completed.
    pub steps: u64,
}

impl Counters {
    /// Adds two sets of counters.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
            pushes: self.pushes + other.pushes,
            steps: self.steps + other.steps,
        }
    }
}

/// A chunk whose open step waits for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The chunk.
    pub chunk: u32,
    /// The open step.
    pub step: u64,
    /// Workers that have not pushed the open step.
    pub missing: Vec<u32>,
}

/// Which workers wait at a core, and for which workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The first chunk that blocks the step in question, if one does.
    pub blocked: Option<Blocked>,
    /// Workers that wait for others, at any vector of the job.
    pub waiting: BTreeSet<u32>,
}

/// Identifies one attempt of a restarted worker to take part again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The random number that the worker chose when it was started.
    pub incarnation: u64,
    /// Counts the attempts: a later one replaces an earlier one whose leader may be gone.
    pub number: u64,
}

/// A core's report that a restarted worker takes part in a job again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The job.
    pub job: u32,
    /// The worker.
    pub worker: u32,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// The steps that the worker has completed, of each vector with chunks here.
    pub steps: BTreeMap<u32, u64>,
}

/// A worker that is gone, and that blocks its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissedWorker {
    /// The job.
    pub job: u32,
    /// The worker.
    pub worker: u32,
}

/// A job whose workers have finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredJob {
    /// The job's number.
    pub job: u32,
    /// Whether other racks have received what they need.
    pub delivered: bool,
}

/// A rack that has finished a job that still needs something from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartedRack {
    /// The job.
    pub job: u32,
    /// The rack.
    pub rack: u32,
}

/// An answer to [`Shard::report_waits`](super::Shard::report_waits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsReport {
    /// The job.
    pub job: u32,
    /// The worker that asked.
    pub worker: u32,
    /// Which workers wait, and for which workers.
    pub waits: Waits,
}

/// The chunks of one core, all as they are at the same save.
#[derive(Clone, Debug)]
pub struct SavedShare {
    /// The job.
    pub job: u32,
    /// The number of the save.
    pub number: u64,
    /// The worker that announced the save.
    pub leader: u32,
    /// All chunks of the job at this core.
    pub chunks: BTreeMap<u32, SavedChunk>,
}

/// Reports that the core's thread has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) missed: BTreeSet<MissedWorker>,
    pub(super) joined: Vec<Joined>,
    pub(super) departed: Vec<DepartedRack>,
    pub(super) waits: Vec<WaitsReport>,
    pub(super) saved: Vec<SavedShare>,
}
