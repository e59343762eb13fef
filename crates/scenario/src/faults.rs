//! What is slow or broken, and what varies.

use serde::{Deserialize, Serialize};
use syncline_units::{RankId, Time};

/// What varies between ranks and tasks. By default nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jitter {
    /// Each rank starts late by a random delay, drawn uniformly from 0 to this time.
    pub start: Time,
    /// Coefficient of variation of compute times: each task's time is multiplied by a lognormal factor of mean 1.
    pub compute: f64,
    /// Seed of both. If absent, the scenario's seed.
    pub seed: Option<u64>,
}

impl Jitter {
    /// Whether nothing varies.
    pub fn is_none(&self) -> bool {
        self.start.is_zero() && self.compute == 0.0
    }
}

/// A slow or broken part: exactly one of `rank`, `link`, `random_ranks` and `random_links` says which.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Ranks that compute more slowly.
    pub rank: Option<Vec<RankId>>,
    /// Number of ranks that compute more slowly, drawn with the scenario's seed.
    pub random_ranks: Option<u32>,
    /// A link, or all links between two vertices.
    pub link: Option<LinkName>,
    /// Number of affected cables, drawn with the scenario's seed.
    pub random_links: Option<u32>,
    /// How many times as slow, at least 1.
    pub factor: Option<f64>,
    /// Whether the links carry nothing. Routes avoid them.
    pub dead: bool,
    /// Whether only the links from the first vertex to the second are affected.
    pub one_way: bool,
    /// When the ranks become slow.
    pub from: Option<Time>,
    /// When the ranks stop being slow.
    pub until: Option<Time>,
}

/// The name of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LinkName {
    /// Its number in the table of links.
    Number(u32),
    /// The names of its ends, such as `NPU 3`, `switch 0`.
    Ends([String; 2]),
}
