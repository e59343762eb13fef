//! Flags that wake a sleeping thread; signalling an awake thread is nearly free.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The flags. One thread sleeps; any number signal.
#[derive(Debug)]
pub(super) struct WakeFlags {
    /// Whether [`WakeFlags::set`] was called since the thread last looked.
    signalled: AtomicBool,
    asleep: AtomicBool,
}

impl WakeFlags {
    pub(super) fn new() -> Self {
        Self { signalled: AtomicBool::new(false), asleep: AtomicBool::new(false) }
    }

    /// Notes that there is something to look for. Returns whether the thread sleeps, and the caller has to wake it.
    /// The thread then sees everything that was written before this call.
    pub(super) fn set(&self) -> bool {
        // A swap, not a store: of two threads that signal at the same time, the one that comes second passes on what the
        // first one has written. A store would hide it.
        self.signalled.swap(true, Ordering::Release);
        // Sets `signalled`, then reads `asleep`; `prepare_sleep` sets `asleep`, then reads `signalled`. With the fences, at
        // least one of the two sees what the other has set.
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// Whether [`WakeFlags::set`] was called since the thread last looked.
    pub(super) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// Called by the thread before it sleeps. Returns whether it may.
    pub(super) fn prepare_sleep(&self) -> bool {
        // A swap, because loom loses track of the order of stores and swaps of one flag. It costs next to nothing beside
        // the fence.
        self.asleep.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.is_signalled()
    }

    /// Called by the thread when it is awake, before it looks.
    pub(super) fn end_sleep(&self) {
        self.asleep.swap(false, Ordering::Relaxed);
        self.signalled.swap(false, Ordering::Acquire);
    }
}

/// Every order in which threads can signal and sleep, by loom.
#[cfg(all(test, loom))]
mod orders {
    use super::WakeFlags;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Arc, Notify};
    use loom::thread;

    /// Threads that each send `each` commands to one that sleeps in between; a lost wake-up is a deadlock, which loom
    /// reports.
    fn send(threads: u32, each: u32) {
        loom::model(move || {
            let shared = Arc::new((WakeFlags::new(), AtomicU32::new(0), Notify::new()));
            for _ in 0..threads {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (flags, commands, poll) = &*shared;
                    for _ in 0..each {
                        // Relaxed: that the thread sees the command is up to the flags.
                        commands.fetch_add(1, Ordering::Relaxed);
                        if flags.set() {
                            poll.notify();
                        }
                    }
                });
            }
            let (flags, commands, poll) = &*shared;
            loop {
                flags.end_sleep();
                if commands.load(Ordering::Relaxed) == threads * each {
                    break;
                }
                if flags.prepare_sleep() {
                    poll.wait();
                }
            }
        });
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_for_each_command() {
        send(1, 2);
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_by_each_of_two() {
        send(2, 1);
    }
}
