//! The calendar: future events in the order in which they are handled.
//!
//! Events at the same time are ordered by a key, which is a function of what they are about (kind, then collective,
//! chunk, phase and relative position; then the stream, or the hop). Events with the same key are ordered by
//! insertion. Memory addresses and threads never matter.

use crate::path::Trail;
use crate::radix::{Radix, Timed};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use syncline_units::Time;

// The radix heap returns the events of one time together. One stable sort orders them, which takes linear time when
// ranks run in step.

/// Kind of an event. Events at the same time are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An event of the network model.
    Network = 0,
    /// A message has left its NPU, for models that did not know this time when they accepted it. Comes before the
    /// delivery of the message, which frees it.
    Left = 1,
    /// The endpoint has received a message.
    Deliver = 2,
    /// A received message has been combined with local data.
    Reduced = 3,
    /// The last send of a chunk's phase has left.
    PhaseEnd = 4,
    /// A compute task is done.
    ComputeDone = 5,
    /// A memory task is done.
    MemoryDone = 6,
    /// A message enters the network, after its injection latency.
    Inject = 7,
    /// A point-to-point message has left.
    Sent = 8,
    /// Ranks begin a chunk that another rank has begun. Handled late, because most ranks begin it by themselves.
    Admit = 9,
    /// A rank that starts late begins its first iteration.
    Begin = 10,
    /// An event of the network model, after everything else at that time.
    Settle = 11,
}

const KINDS: [Kind; 12] = [
    Kind::Network,
    Kind::Left,
    Kind::Deliver,
    Kind::Reduced,
    Kind::PhaseEnd,
    Kind::ComputeDone,
    Kind::MemoryDone,
    Kind::Inject,
    Kind::Sent,
    Kind::Admit,
    Kind::Begin,
    Kind::Settle,
];

/// Bits of a key below the kind.
pub(crate) const KEY_BITS: u32 = 60;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: Time,
    /// The kind in the highest bits, then the order among events of that kind.
    key: u64,
    pub(crate) a: u32,
    pub(crate) b: u32,
}

impl Event {
    pub(crate) fn kind(&self) -> Kind {
        KINDS[(self.key >> KEY_BITS) as usize]
    }
    /// The order among events of one kind.
    pub(crate) fn key(&self) -> u64 {
        self.key & ((1 << KEY_BITS) - 1)
    }
}

impl Timed for Event {
    #[inline]
    fn time(&self) -> u64 {
        self.time.0
    }
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
        (other.event.key, other.event.b, other.order).cmp(&(self.event.key, self.event.b, self.order))
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
    pub(crate) limit: Time,
    /// Time from a message's arrival at the NPU until the endpoint has it.
    pub(crate) endpoint: Time,
    /// Set when a time does not fit; the run then ends with an error.
    pub(crate) overflow: bool,
    /// Records what followed what, for the critical path.
    pub trail: Trail,
}

impl Calendar {
    pub(crate) fn new(endpoint: Time) -> Self {
        Self { endpoint, limit: Time::MAX, ..Self::default() }
    }

    #[inline]
    pub(crate) fn at(&mut self, time: Time, kind: Kind, key: u64, a: u32, b: u32) {
        let key = (kind as u64) << KEY_BITS | (key & ((1 << KEY_BITS) - 1));
        let event = Event { time, key, a, b };
        if let Some(event) = self.later.file(event) {
            self.late += 1;
            self.added.push(Late { event, order: self.late });
        }
    }

    /// Message `id` arrives at its NPU at `time`.
    #[inline]
    pub fn deliver(&mut self, time: Time, id: u32, key: u64) {
        self.at(time.saturating_add(self.endpoint), Kind::Deliver, key, id, 0);
        self.overflow |= time.0 > u64::MAX / 4;
    }

    /// Message `id`, which was accepted with [`Sent::Later`](crate::Sent::Later), leaves its NPU at `time`.
    #[inline]
    pub fn left(&mut self, time: Time, id: u32, key: u64) {
        self.at(time, Kind::Left, key, id, 0);
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

    /// Calls the model at `time` with `a` and `b`. Calls at the same time are ordered by `key`, then by `b`.
    #[inline]
    pub fn call_back(&mut self, time: Time, key: u64, a: u32, b: u32) {
        self.overflow |= time.0 > u64::MAX / 4;
        self.at(time, Kind::Network, key, a, b);
    }

    /// Calls the model at `time`, after everything else that happens then.
    #[inline]
    pub fn call_last(&mut self, time: Time, a: u32, b: u32) {
        self.at(time, Kind::Settle, 0, a, b);
    }

    /// Removes and returns the next event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.next_time()?;
        match (self.present.get(self.taken), self.added.peek()) {
            (Some(first), Some(added)) if (added.event.key, added.event.b) < (first.key, first.b) => {
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
    pub(crate) fn pending(&self) -> Option<Vec<Event>> {
        if !self.added.is_empty() {
            return None;
        }
        let mut events: Vec<Event> =
            self.present[self.taken..].iter().chain(self.later.iter()).copied().collect();
        events.sort_by_key(|event| (event.time, event.key, event.b));
        Some(events)
    }

    /// Moves all events `by` later, and replaces their keys with `key`.
    pub(crate) fn shift(&mut self, by: Time, key: impl Fn(&Event) -> u64) {
        let events = self.pending().unwrap_or_default();
        self.present.clear();
        self.taken = 0;
        self.later.clear(self.later.time().saturating_add(by.0));
        for event in events {
            let (kind, key) = (event.kind(), key(&event));
            self.at(event.time.saturating_add(by), kind, key, event.a, event.b);
        }
    }

    fn pop_added(&mut self) -> Option<Event> {
        self.added.pop().map(|late| late.event)
    }

    /// The event `later` places after the next one, if it is at the present time.
    #[inline]
    pub(crate) fn peek(&self, later: usize) -> Option<&Event> {
        self.present.get(self.taken + later)
    }

    /// The time of the next event.
    #[inline]
    pub(crate) fn next_time(&mut self) -> Option<Time> {
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
        self.present.sort_by_key(|event| (event.key, event.b));
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
                calendar.at(time, Kind::Network, key, id as u32, 0);
                expected.push((time, key, id as u32));
                for _ in 0..pops {
                    if let Some(event) = calendar.pop() {
                        now = event.time;
                        got.push((event.time, event.key, event.a));
                    }
                }
            }
            while let Some(event) = calendar.pop() {
                got.push((event.time, event.key, event.a));
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
