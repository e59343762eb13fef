//! How a communicator runs its operations.

use crate::heartbeat::Patience;
use crate::lane::FlowControl;
use std::time::Duration;

/// Settings of a communicator.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of lanes, and how much they send ahead.
    pub flow: FlowControl,
    /// How often heartbeats are sent, and how long to wait for one.
    pub patience: Patience,
    /// Longest time that an operation may take.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let flow = FlowControl { lanes: 1, window: 512 << 10, ahead: 64 << 20 };
        Self { flow, patience: Patience::default(), deadline: Duration::from_secs(300) }
    }
}
