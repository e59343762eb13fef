//! Wakes a thread that waits for its connections.

use crate::wake_flags::WakeFlags;
use mio::{Registry, Token, Waker};
use std::io;

/// Wakes a thread that has new commands. Costs next to nothing if the thread is awake.
#[derive(Debug)]
pub struct LaneWaker {
    waker: Waker,
    flags: WakeFlags,
}

impl LaneWaker {
    /// Creates a waker for the thread that waits on the registry's poll. The poll reports it under `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self { waker: Waker::new(registry, token)?, flags: WakeFlags::new() })
    }

    /// Makes the thread look for commands soon, and wakes it if it sleeps. It then sees every command that was sent
    /// before this call.
    pub fn wake(&self) {
        if self.flags.set() {
            // Fails only if the thread has ended, which needs no wake-up.
            _ = self.waker.wake();
        }
    }

    /// Whether [`LaneWaker::wake`] was called since the thread last looked.
    pub(super) fn is_signalled(&self) -> bool {
        self.flags.is_signalled()
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
