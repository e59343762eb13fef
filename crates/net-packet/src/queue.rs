//! The queue of events. Events of the same time come out in the order in which they went in.

use crate::packet::Packet;
use syncline_net_api::radix::{Radix, Timed};

/// What happens at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The packet reaches the end of the port's link.
    Arrive,
    /// The last bit of the packet that the port is sending has left.
    Left,
    /// The port is paused.
    Pause,
    /// The port may send again.
    Resume,
    /// A timer of the packet's connection runs out.
    Timer,
    /// The rate of the packet's connection allows it to send.
    Paced,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Picoseconds.
    pub time: u64,
    /// The port it concerns.
    pub port: u32,
    /// What happens.
    pub kind: EventKind,
    /// The packet; in events of a connection, only `flow` is used.
    pub packet: Packet,
}

impl Timed for Event {
    #[inline]
    fn time(&self) -> u64 {
        self.time
    }
}

/// Future events.
#[derive(Debug, Default)]
pub struct Queue {
    /// Events of the current time; those before `taken` have been handled.
    present: Vec<Event>,
    taken: usize,
    later: Radix<Event>,
}

impl Queue {
    /// Adds an event that is not before the last one removed.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.present.extend(self.later.file(event));
    }

    /// Returns the time of the next event.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        if self.taken < self.present.len() { Some(self.later.time()) } else { self.later.next_time() }
    }

    /// Removes and returns the next event, unless it is after `until`.
    #[inline]
    pub fn pop(&mut self, until: u64) -> Option<Event> {
        if self.taken == self.present.len() {
            self.present.clear();
            self.taken = 0;
            self.later.advance(until, &mut self.present).then_some(())?;
        } else if self.later.time() > until {
            return None;
        }
        let event = self.present[self.taken];
        self.taken += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Sorts events by time; events of one time keep the order in which they went in.
        #[test]
        fn events_come_out_in_order(steps in prop::collection::vec((0u64..40, 0usize..3), 1..300)) {
            let mut queue = Queue::default();
            let (mut now, mut out) = (0, Vec::new());
            for (number, &(ahead, pops)) in (0u32..).zip(&steps) {
                queue.push(Event { time: now + ahead * ahead * ahead, port: number, kind: EventKind::Arrive, packet: Packet::default() });
                for _ in 0..pops {
                    let next = queue.next_time();
                    let event = queue.pop(u64::MAX);
                    prop_assert_eq!(event.map(|event| event.time), next);
                    if let Some(event) = event {
                        now = event.time;
                        out.push((event.time, event.port));
                    }
                }
            }
            while let Some(event) = queue.pop(u64::MAX) {
                out.push((event.time, event.port));
            }
            prop_assert_eq!(out.len(), steps.len());
            prop_assert!(out.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }

        #[test]
        fn nothing_comes_out_too_early(times in prop::collection::vec(0u64..1000, 1..50), until in 0u64..1000) {
            let mut queue = Queue::default();
            for &time in &times {
                queue.push(Event { time, port: 0, kind: EventKind::Arrive, packet: Packet::default() });
            }
            let out = std::iter::from_fn(|| queue.pop(until)).count();
            prop_assert_eq!(out, times.iter().filter(|&&time| time <= until).count());
            prop_assert_eq!(queue.next_time(), times.iter().filter(|&&time| time > until).min().copied());
        }
    }
}
