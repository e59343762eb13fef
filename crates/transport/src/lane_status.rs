//! What a thread knows about its peers, for other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the thread of a lane knows about its peers.
#[derive(Debug, Default)]
pub struct LaneStatus {
    /// Whether the thread hears none of its peers, of which it has two or more: this member is cut off.
    cut_off: AtomicBool,
    /// Whether the thread has heard some peer recently.
    hears_some: AtomicBool,
    /// Peers from which something has arrived recently.
    hears: Mutex<Vec<u32>>,
}

impl LaneStatus {
    /// Whether the thread hears none of its peers, of which it has two or more.
    pub fn cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// Whether the thread has heard some peer recently.
    pub fn hears_some(&self) -> bool {
        self.hears_some.load(Ordering::Relaxed)
    }

    /// Notes that a peer was heard.
    pub(super) fn heard(&self) {
        self.cut_off.store(false, Ordering::Relaxed);
        self.hears_some.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
    }

    /// The peers from which something has arrived recently.
    pub fn hears(&self) -> Vec<u32> {
        self.hears.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_hears(&self, peers: Vec<u32>) {
        self.hears_some.store(!peers.is_empty(), Ordering::Relaxed);
        *self.hears.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }
}
