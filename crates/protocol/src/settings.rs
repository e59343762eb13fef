//! How a communicator runs its operations.

use crate::heartbeat::Patience;
use crate::lane::FlowControl;
use std::time::Duration;

/// Default number of bytes in flight from a lane to a peer. The choice of plans assumes it.
pub const DEFAULT_WINDOW: usize = 512 << 10;

/// Settings of a communicator.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of lanes, and how much they send ahead.
    pub flow: FlowControl,
    /// How often heartbeats are sent, and how long to wait for one.
    pub patience: Patience,
    /// Longest time that an operation may take.
    pub deadline: Duration,
    /// How long a caller that waits polls, and moves the messages of lanes itself, before it sleeps.
    pub polling: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let flow = FlowControl { lanes: 1, window: DEFAULT_WINDOW, ahead: 64 << 20 };
        Self {
            flow,
            patience: Patience::default(),
            deadline: Duration::from_secs(300),
            polling: Duration::ZERO,
        }
    }
}
