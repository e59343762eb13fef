//! What the trace shows, and when a run stops early.

use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, RankId, Time};

/// When to stop early, if a limit is given; and how much memory a run may need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest number of events.
    pub events: Option<u64>,
    /// Largest simulated time.
    pub sim_time: Option<Time>,
    /// Largest wall time.
    pub wall: Option<Time>,
    /// Largest estimated memory. A run that needs more is refused before it starts.
    pub memory: Bytes,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: None, sim_time: None, wall: None, memory: Bytes(16_000_000_000) }
    }
}

/// What the trace shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// Traced ranks.
    pub ranks: Traced,
    /// Largest number of spans that are kept.
    pub max_spans: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { ranks: Traced::Named(NamedRanks::Classes), max_spans: 400_000 }
    }
}

/// Traced ranks: by name or one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Traced {
    /// By name.
    Named(NamedRanks),
    /// One by one.
    Listed(Vec<RankId>),
}

impl Traced {
    /// The ranks that are listed one by one; empty if they are given by name.
    pub fn listed(&self) -> &[RankId] {
        match self {
            Self::Named(NamedRanks::Classes) => &[],
            Self::Listed(ranks) => ranks,
        }
    }
}

/// Sets of ranks that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedRanks {
    /// The first rank of each class of ranks with equal tasks, for the first [`TRACED_CLASSES`] classes, and up to
    /// [`TRACED_FAULTS`] ranks that are slow or at broken links.
    Classes,
}

/// Number of classes of which a rank is traced. Others can be listed one by one.
pub const TRACED_CLASSES: usize = 8;
/// Largest number of ranks that are traced in addition because [`Scenario::faults`](crate::Scenario::faults) affect
/// them.
pub const TRACED_FAULTS: usize = 8;
