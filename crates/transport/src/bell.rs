//! What wakes a thread that waits for its connections.

use mio::{Registry, Token, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// Wakes a thread that has been told something; costs next to nothing where the thread is awake.
#[derive(Debug)]
pub struct Bell {
    waker: Waker,
    /// Whether it was rung since the thread looked last.
    rung: AtomicBool,
    asleep: AtomicBool,
    /// Whether the thread hears nobody, of two or more: this member is cut off.
    cut_off: AtomicBool,
    /// Peers from which something has come of late.
    hears: Mutex<Vec<u32>>,
}

impl Bell {
    /// A bell of the thread that waits on the registry's poll, which tells of it under `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let off = || AtomicBool::new(false);
        let (rung, asleep, cut_off, hears) = (off(), off(), off(), Mutex::default());
        Ok(Self { waker: Waker::new(registry, token)?, rung, asleep, cut_off, hears })
    }

    /// The thread sees what it was told before this, soon: it is woken where it sleeps.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        // That it was rung comes before the look whether the thread sleeps; there it is the other way round (`doze`).
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // A thread that is gone hears nothing.
            _ = self.waker.wake();
        }
    }

    /// Whether the thread hears nobody, of two or more.
    pub fn cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(super) fn set_cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::Relaxed);
    }

    /// Peers from which something has come of late.
    pub fn hears(&self) -> Vec<u32> {
        self.hears.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_hears(&self, peers: Vec<u32>) {
        *self.hears.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// Whether it was rung, and nobody has looked since.
    pub(super) fn rung(&self) -> bool {
        self.rung.load(Ordering::Relaxed)
    }

    /// The thread is about to sleep: whether it may.
    pub(super) fn doze(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.rung()
    }

    /// The thread is awake, and looks what it was told.
    pub(super) fn rouse(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.rung.swap(false, Ordering::Acquire);
    }
}
