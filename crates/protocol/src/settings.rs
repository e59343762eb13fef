//! How a communicator runs its operations.

use crate::heartbeat::Patience;
use crate::lane::Pace;
use std::time::Duration;

/// How a communicator goes about its work.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lanes, and how lanes go about it.
    pub pace: Pace,
    /// Signs of life.
    pub patience: Patience,
    /// How long an operation may take.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let pace = Pace { lanes: 1, window: 512 << 10, ahead: 64 << 20 };
        Self { pace, patience: Patience::default(), deadline: Duration::from_secs(300) }
    }
}
