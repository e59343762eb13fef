//! Wakes a thread that waits for its connections.

use crate::wake_flags::WakeFlags;
use mio::{Registry, Token, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Wakes a thread that has new commands. Costs next to nothing if the thread is awake. It also shows what the thread
/// knows about its peers.
#[derive(Debug)]
pub struct LaneWaker {
    waker: Waker,
    flags: WakeFlags,
    /// Whether the thread hears none of its peers, of which it has two or more: this member is cut off.
    cut_off: AtomicBool,
    /// Peers from which something has arrived recently.
    hears: Mutex<Vec<u32>>,
}

impl LaneWaker {
    /// Creates a waker for the thread that waits on the registry's poll. The poll reports it under `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let (flags, cut_off, hears) = (WakeFlags::new(), AtomicBool::new(false), Mutex::default());
        Ok(Self { waker: Waker::new(registry, token)?, flags, cut_off, hears })
    }

    /// Makes the thread look for commands soon, and wakes it if it sleeps. It then sees every command that was sent
    /// before this call.
    pub fn ring(&self) {
        if self.flags.ring() {
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

    /// The peers from which something has arrived recently.
    pub fn hears(&self) -> Vec<u32> {
        self.hears.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_hears(&self, peers: Vec<u32>) {
        *self.hears.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// Whether [`LaneWaker::ring`] was called since the thread last looked.
    pub(super) fn rung(&self) -> bool {
        self.flags.rung()
    }

    /// Called by the thread before it sleeps. Returns whether it may.
    pub(super) fn prepare_sleep(&self) -> bool {
        self.flags.prepare_sleep()
    }

    /// Called by the thread when it is awake, before it looks for commands.
    pub(super) fn end_sleep(&self) {
        self.flags.end_sleep();
    }
}
