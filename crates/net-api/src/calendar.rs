//! The calendar: future events in the order in which they are handled.
//!
//! Events at the same time are ordered by a key, which is a function of what they are about (kind, then collective,
//! chunk, phase and relative position; then the stream, or the hop). Events with the same key are ordered by
//! insertion. Memory addresses and threads never matter.

use crate::radix::{Radix, Timed};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use syncline_critical_path::Trail;
use syncline_units::Time;

// The radix heap returns the events of one time together. One stable sort orders them, which takes linear time when
// ranks run in step.

/// Bits of a key below the kind.
pub const KEY_BITS: u32 = 60;

/// Kind of an event: a call of the network model that [`Calendar::call_back`] requested.
pub const CALL: u8 = 0;
/// Kind of an event: a message has left its NPU. Comes before the delivery of the message, which frees it.
pub const LEFT: u8 = 1;
/// Kind of an event: the endpoint has received a message.
pub const DELIVER: u8 = 2;
/// Kind of an event: a call of the network model that [`Calendar::call_last`] requested. The engine's own kinds lie
/// between [`DELIVER`] and this one.
pub const CALL_LAST: u8 = 15;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happens.
    pub time: Time,
    /// The kind in the highest bits, then the order among events of that kind.
    key: u64,
    /// What it is about, in a kind's own words.
    pub subject: u32,
    /// More about it. Events with the same key are handled in the order of this number.
    pub detail: u32,
}

impl Event {
    /// Its kind. Events at the same time are handled in the order of their kinds.
    #[inline]
    pub fn kind(&self) -> u8 {
        (self.key >> KEY_BITS) as u8
    }
    /// The order among events of one kind.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key & ((1 << KEY_BITS) - 1)
    }
}

impl Timed for Event {
    #[inline]
    fn time(&self) -> u64 {
        self.time.0
    }
}

/// A call that a network model requests. The calendar does not interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What the call is about, such as the index of a message under way.
    pub subject: u32,
    /// What to do, such as the hop that the message has reached.
    pub detail: u32,
}

/// An event that was added at its own time, and the number of such events before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Late {
    event: Event,
    order: u64,
}

impl Ord for Late {
    // Reversed: the standard heap returns its greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.event.key, other.event.detail, other.order).cmp(&(
            self.event.key,
            self.event.detail,
            self.order,
        ))
    }
}
impl PartialOrd for Late {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Future events. Network models add their own events and deliveries to it.
#[derive(Debug, Default)]
pub struct Calendar {
    /// Events at the present time, in order; those before `taken` have been handled.
    present: Vec<Event>,
    taken: usize,
    /// Events that were added at their own time.
    added: BinaryHeap<Late>,
    /// Number of events ever added at their own time.
    late: u64,
    /// Events after the present. Looking for the next event advances the present to its time.
    later: Radix<Event>,
    /// Events after this time are not handled now.
    pub limit: Time,
    /// Time from a message's arrival at the NPU until the endpoint has it.
    pub endpoint: Time,
    /// Set when a time does not fit; the run then ends with an error.
    pub overflow: bool,
    /// Records what followed what, for the critical path.
    pub trail: Trail,
}

impl Calendar {
    /// An empty calendar. `endpoint` is the time from a message's arrival at its NPU until the engine handles it.
    pub fn new(endpoint: Time) -> Self {
        Self { endpoint, limit: Time::MAX, ..Self::default() }
    }

    /// Adds an event. For the engine; models use the methods below.
    #[inline]
    pub fn at(&mut self, time: Time, kind: u8, key: u64, subject: u32, detail: u32) {
        let key = u64::from(kind) << KEY_BITS | (key & ((1 << KEY_BITS) - 1));
        let event = Event { time, key, subject, detail };
        if let Some(event) = self.later.file(event) {
            self.late += 1;
            self.added.push(Late { event, order: self.late });
        }
    }

    /// Message `id` arrives at its NPU at `time`.
    #[inline]
    pub fn deliver(&mut self, time: Time, id: u32, key: u64) {
        self.at(time.saturating_add(self.endpoint), DELIVER, key, id, 0);
        self.overflow |= time.0 > u64::MAX / 4;
    }

    /// Message `id`, which was accepted with [`Sent::Later`](crate::Sent::Later), leaves its NPU at `time`.
    #[inline]
    pub fn left(&mut self, time: Time, id: u32, key: u64) {
        self.at(time, LEFT, key, id, 0);
        self.overflow |= time.0 > u64::MAX / 4;
    }

    /// Time from a message's arrival at its NPU until the engine handles it.
    pub fn endpoint_delay(&self) -> Time {
        self.endpoint
    }

    /// The time until which no other event happens. A model with an event queue of its own may handle its events up
    /// to then, and adds a call to itself for the rest.
    pub fn horizon(&self) -> Time {
        if self.taken < self.present.len() || !self.added.is_empty() {
            return Time(self.later.time());
        }
        self.later.next_time().map_or(self.limit, |next| Time(next).min(self.limit))
    }

    /// Calls the model at `time`. Calls at the same time are ordered by `key`, then by their detail.
    #[inline]
    pub fn call_back(&mut self, time: Time, key: u64, call: Call) {
        self.overflow |= time.0 > u64::MAX / 4;
        self.at(time, CALL, key, call.subject, call.detail);
    }

    /// Calls the model at `time`, after everything else that happens then.
    #[inline]
    pub fn call_last(&mut self, time: Time, call: Call) {
        self.at(time, CALL_LAST, 0, call.subject, call.detail);
    }

    /// Removes and returns the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.next_time()?;
        match (self.present.get(self.taken), self.added.peek()) {
            (Some(first), Some(added))
                if (added.event.key, added.event.detail) < (first.key, first.detail) =>
            {
                self.pop_added()
            }
            (Some(&first), _) => {
                self.taken += 1;
                Some(first)
            }
            (None, _) => self.pop_added(),
        }
    }

    /// All future events, in the order in which they would be handled; `None` if some were added at the present time.
    pub fn pending(&self) -> Option<Vec<Event>> {
        if !self.added.is_empty() {
            return None;
        }
        let mut events: Vec<Event> =
            self.present[self.taken..].iter().chain(self.later.iter()).copied().collect();
        events.sort_by_key(|event| (event.time, event.key, event.detail));
        Some(events)
    }

    /// Moves all events `by` later, and replaces their keys with `key`.
    pub fn shift(&mut self, by: Time, key: impl Fn(&Event) -> u64) {
        let events = self.pending().unwrap_or_default();
        self.present.clear();
        self.taken = 0;
        self.later.clear(self.later.time().saturating_add(by.0));
        for event in events {
            let (kind, key) = (event.kind(), key(&event));
            self.at(event.time.saturating_add(by), kind, key, event.subject, event.detail);
        }
    }

    fn pop_added(&mut self) -> Option<Event> {
        self.added.pop().map(|late| late.event)
    }

    /// The event `later` places after the next one, if it is at the present time.
    #[inline]
    pub fn peek(&self, later: usize) -> Option<&Event> {
        self.present.get(self.taken + later)
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        if self.taken == self.present.len() && self.added.is_empty() {
            self.advance()?;
        }
        Some(Time(self.later.time()))
    }

    /// Advances the present to the time of the next event.
    fn advance(&mut self) -> Option<()> {
        self.present.clear();
        self.taken = 0;
        self.later.advance(u64::MAX, &mut self.present).then_some(())?;
        self.present.sort_by_key(|event| (event.key, event.detail));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Events come out by time and then by key, whenever they are added.
        #[test]
        fn events_come_out_in_order(steps in prop::collection::vec((0u64..50, 0u64..4, 0u8..3), 1..200)) {
            let mut calendar = Calendar::new(Time::ZERO);
            let mut expected = Vec::new();
            let mut now = Time::ZERO;
            let mut got = Vec::new();
            for (id, &(ahead, key, pops)) in steps.iter().enumerate() {
                let time = now + Time(ahead * ahead * ahead);
                calendar.at(time, CALL, key, id as u32, 0);
                expected.push((time, key, id as u32));
                for _ in 0..pops {
                    if let Some(event) = calendar.pop() {
                        now = event.time;
                        got.push((event.time, event.key, event.subject));
                    }
                }
            }
            while let Some(event) = calendar.pop() {
                got.push((event.time, event.key, event.subject));
            }
            prop_assert!(got.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            // Equal events come out in the order in which they were added.
            let in_turn = |pair: &[(Time, u64, u32)]| {
                (pair[0].0, pair[0].1) != (pair[1].0, pair[1].1) || pair[0].2 < pair[1].2
            };
            prop_assert!(got.windows(2).all(in_turn));
            // Between two pops of one time nothing smaller can have been there already.
            got.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(got, expected);
        }
    }
}
