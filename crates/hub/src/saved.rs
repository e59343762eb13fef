//! What a save of a job keeps of each chunk, and the saves that a hub finds when a job opens.

use super::save_file::Header;
use std::sync::Arc;
use syncline_protocol::memory::Buffer;

/// A change of the learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedRate {
    /// The first step where it holds.
    pub from: u64,
    /// The learning rate.
    pub rate: f64,
}

/// A chunk after a step: everything that its later steps depend on.
#[derive(Clone, Debug)]
pub struct SavedChunk {
    /// The number of steps that the state includes.
    pub step: u64,
    /// How many workers contributed to the last step.
    pub contributors: u16,
    /// The value; `None` if the chunk has none yet.
    pub value: Option<Arc<Buffer>>,
    /// The optimizer's vectors; empty before the first step.
    pub memory: Arc<Vec<Buffer>>,
    /// Learning rates that replace the one of the terms, in the order of steps.
    pub rates: Vec<SavedRate>,
}

/// The saves of a job that a hub has when the job opens.
#[derive(Clone, Debug, Default)]
pub struct FoundSaves {
    /// Saves that are complete, by their headers, in the order of their numbers.
    pub usable: Vec<Header>,
    /// A clause for each file that cannot be used, such as `FILE is damaged`.
    pub unusable: Vec<String>,
}
