//! A rank's timers. All timers of one rank at one time share one event in the network's queue, placed where
//! the first of them was registered, and fire in the order of registration. ASTRA-sim 2,
//! `Sys.cc:try_register_event`, `call_events`.

use super::bus::BusEvent;
use crate::slab::Slab;
use std::collections::VecDeque;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Timer {
    #[default]
    Nothing,
    /// An insertion of this stream passes the endpoint.
    Inserted(u32),
    /// The same, followed by a local reduction.
    Reduce {
        stream: u32,
        /// In nanoseconds.
        delay: u64,
    },
    /// This node of the rank's trace is done.
    Node(u32),
    /// This node of a stream's custom algorithm is done.
    Custom { stream: u32, node: u32 },
    /// This happens to this side of the rank's shared bus.
    Bus { side: u8, event: BusEvent },
    /// The remote memory of this node number is free again.
    MemoryFree(u32),
}

/// A timer in a list.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    timer: Timer,
    next: Option<u32>,
}

/// The lists of all ranks.
pub(crate) struct Pool {
    listed: Slab<Listed>,
}

/// Timers of one time.
#[derive(Clone, Copy, Debug)]
struct Batch {
    time: u64,
    first: Option<u32>,
    last: u32,
}

/// The timers of one rank, by time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    batches: VecDeque<Batch>,
}

impl Pool {
    pub(crate) const fn new() -> Self {
        Self { listed: Slab::new() }
    }
}

impl Timers {
    /// Registers a timer. Returns whether it is the first at its time, which requires an event.
    #[inline]
    pub(crate) fn register(&mut self, pool: &mut Pool, time: u64, timer: Timer) -> bool {
        let number = pool.listed.insert(Listed { timer, next: None });
        let at = match self.batches.back() {
            None => 0,
            Some(back) if back.time < time => self.batches.len(),
            Some(back) if back.time == time => self.batches.len() - 1,
            Some(_) => self.batches.partition_point(|batch| batch.time < time),
        };
        match self.batches.get_mut(at) {
            Some(batch) if batch.time == time => {
                match batch.first {
                    Some(_) => pool.listed[batch.last].next = Some(number),
                    None => batch.first = Some(number),
                }
                batch.last = number;
                false
            }
            _ => {
                self.batches.insert(at, Batch { time, first: Some(number), last: number });
                true
            }
        }
    }

    /// Removes and returns the next timer of `now`, the earliest time; `None` if there are no more, which
    /// closes that time.
    #[inline]
    pub(crate) fn take(&mut self, pool: &mut Pool, now: u64) -> Option<Timer> {
        let batch = self.batches.front_mut().filter(|batch| batch.time == now)?;
        match batch.first {
            Some(number) => {
                let listed = pool.listed.remove(number);
                batch.first = listed.next;
                Some(listed.timer)
            }
            None => {
                self.batches.pop_front();
                None
            }
        }
    }
}
