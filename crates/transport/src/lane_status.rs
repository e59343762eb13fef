//! What a thread knows about its peers, for other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the thread of a lane knows about its peers.
#[derive(Debug, Default)]
pub struct LaneStatus {
    /// Whether the thread hears none of its peers, of which it has two or more: this member is cut off.
    cut_off: AtomicBool,
    /// Peers from which something has arrived recently.
    hears: Mutex<Vec<u32>>,
}

impl LaneStatus {
    /// Whether the thread hears none of its peers, of which it has two or more.
    pub fn cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(super) fn set_cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::Relaxed);
    }

    /// The peers from which something has arrived recently.
    pub fn hears(&self) -> Vec<u32> {
        self.hears.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_hears(&self, peers: Vec<u32>) {
        *self.hears.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }
}
