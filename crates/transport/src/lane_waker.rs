//! Wakes a thread that waits for its connections.

use mio::{Registry, Token, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// Wakes a thread that has new commands. Costs next to nothing if the thread is awake. It also shows what the thread
/// knows about its peers.
#[derive(Debug)]
pub struct LaneWaker {
    waker: Waker,
    /// Whether [`LaneWaker::ring`] was called since the thread last looked.
    rung: AtomicBool,
    asleep: AtomicBool,
    /// Whether the thread hears none of its peers, of which it has two or more: this member is cut off.
    cut_off: AtomicBool,
    /// Peers from which something has arrived lately.
    hears: Mutex<Vec<u32>>,
}

impl LaneWaker {
    /// Creates a waker for the thread that waits on the registry's poll. The poll reports it under `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let off = || AtomicBool::new(false);
        let (rung, asleep, cut_off, hears) = (off(), off(), off(), Mutex::default());
        Ok(Self { waker: Waker::new(registry, token)?, rung, asleep, cut_off, hears })
    }

    /// Makes the thread look for commands soon, and wakes it if it sleeps. It then sees every command that was sent
    /// before this call.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        // Sets `rung`, then reads `asleep`; `prepare_sleep` sets `asleep`, then reads `rung`. With the fences, at
        // least one of the two sees what the other has set.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // Fails only if the thread has ended, which needs no wake-up.
            _ = self.waker.wake();
        }
    }

    /// Whether the thread hears none of its peers, of which it has two or more.
    pub fn cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(super) fn set_cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::Relaxed);
    }

    /// The peers from which something has arrived lately.
    pub fn hears(&self) -> Vec<u32> {
        self.hears.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_hears(&self, peers: Vec<u32>) {
        *self.hears.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// Whether [`LaneWaker::ring`] was called since the thread last looked.
    pub(super) fn rung(&self) -> bool {
        self.rung.load(Ordering::Relaxed)
    }

    /// Called by the thread before it sleeps. Returns whether it may.
    pub(super) fn prepare_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.rung()
    }

    /// Called by the thread when it is awake, before it looks for commands.
    pub(super) fn end_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.rung.swap(false, Ordering::Acquire);
    }
}
