//! The queue of events: a radix heap over whole picoseconds.
//!
//! Simulated time never runs backwards, so an event is filed by the highest bit in which its time differs from the
//! present (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 1990). Events of one time come out in the order in which they went in.

use crate::packet::Packet;

/// Something that happens at a time: a packet comes to the end of the link behind a port, or a timer runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Picoseconds.
    pub time: u64,
    /// The port that it left; [`TIMER`] for a timer, of which `packet` says whose.
    pub port: u32,
    /// The packet.
    pub packet: Packet,
}

/// Stands for a port in the events of timers.
pub const TIMER: u32 = u32::MAX;

/// Future events.
#[derive(Debug)]
pub struct Queue {
    /// Events of the present; those before `taken` are over.
    present: Vec<Event>,
    taken: usize,
    time: u64,
    /// Bucket `b` holds events whose time differs from `time` in bit `b`, and in none above it.
    buckets: Vec<Vec<Event>>,
    /// Bit `b` is set where bucket `b` has events.
    filled: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { present: Vec::new(), taken: 0, time: 0, buckets: vec![Vec::new(); 64], filled: 0 }
    }
}

impl Queue {
    /// Puts an event in, which is not before the last one that came out.
    #[inline]
    pub fn push(&mut self, event: Event) {
        let difference = event.time ^ self.time;
        if difference == 0 {
            self.present.push(event);
        } else {
            debug_assert!(event.time > self.time, "time runs forwards");
            let bucket = difference.ilog2();
            self.buckets[bucket as usize].push(event);
            self.filled |= 1 << bucket;
        }
    }

    /// Time of the next event.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        if self.taken < self.present.len() {
            return Some(self.time);
        }
        let bucket = self.buckets.get(self.filled.trailing_zeros() as usize)?;
        bucket.iter().map(|event| event.time).min()
    }

    /// The next event, removed, if it is not after `until`.
    #[inline]
    pub fn pop(&mut self, until: u64) -> Option<Event> {
        if self.taken == self.present.len() {
            self.advance(until)?;
        } else if self.time > until {
            return None;
        }
        let event = self.present[self.taken];
        self.taken += 1;
        Some(event)
    }

    /// Makes the time of the next event the present, if it is not after `until`.
    fn advance(&mut self, until: u64) -> Option<()> {
        if self.filled == 0 {
            return None;
        }
        let lowest = self.filled.trailing_zeros() as usize;
        let time = self.buckets[lowest].iter().map(|event| event.time).min()?;
        if time > until {
            return None;
        }
        self.time = time;
        self.present.clear();
        self.taken = 0;
        self.filled &= !(1 << lowest);
        let mut opened = std::mem::take(&mut self.buckets[lowest]);
        for event in opened.drain(..) {
            let difference = event.time ^ self.time;
            if difference == 0 {
                self.present.push(event);
            } else {
                let bucket = difference.ilog2();
                self.buckets[bucket as usize].push(event);
                self.filled |= 1 << bucket;
            }
        }
        // Its allocation is used again.
        self.buckets[lowest] = opened;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// By time, and of one time in the order in which they went in.
        #[test]
        fn events_come_out_in_order(steps in prop::collection::vec((0u64..40, 0usize..3), 1..300)) {
            let mut queue = Queue::default();
            let (mut now, mut out) = (0, Vec::new());
            for (number, &(ahead, pops)) in (0u32..).zip(&steps) {
                queue.push(Event { time: now + ahead * ahead * ahead, port: number, packet: Packet::default() });
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
                queue.push(Event { time, port: 0, packet: Packet::default() });
            }
            let out = std::iter::from_fn(|| queue.pop(until)).count();
            prop_assert_eq!(out, times.iter().filter(|&&time| time <= until).count());
            prop_assert_eq!(queue.next_time(), times.iter().filter(|&&time| time > until).min().copied());
        }
    }
}
