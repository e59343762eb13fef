//! The event queue: a time-ordered list, first in first out within one time, as ASTRA-sim 2's
//! `common/event-queue/EventQueue.cpp` keeps it.
//!
//! Events of one time share a bucket, so ordering costs are paid once per distinct time, not once per event.

use std::collections::BTreeMap;

/// Events of one time, in the order of their arrival.
struct Bucket<E> {
    time: u64,
    events: Vec<E>,
}

/// Number of recently used times that are found without a search.
const CACHED: usize = 16;

/// A time-ordered queue of events.
pub(crate) struct EventQueue<E> {
    buckets: Vec<Bucket<E>>,
    unused: Vec<u32>,
    index: BTreeMap<u64, u32>,
    /// Buckets of recently used times. An entry of a past time is stale, but past times are never looked up.
    cache: [(u64, u32); CACHED],
    /// The bucket being emptied, and the position in it.
    current: Option<(u32, usize)>,
}

impl<E: Copy> EventQueue<E> {
    pub(crate) const fn new() -> Self {
        Self {
            buckets: Vec::new(),
            unused: Vec::new(),
            index: BTreeMap::new(),
            cache: [(u64::MAX, 0); CACHED],
            current: None,
        }
    }

    /// Adds an event. `time` must not be before the time of the event removed last.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, event: E) {
        let slot = &mut self.cache[(time ^ (time >> 4)) as usize % CACHED];
        if slot.0 != time {
            *slot = (time, bucket_of(&mut self.index, &mut self.unused, &mut self.buckets, time));
        }
        self.buckets[slot.1 as usize].events.push(event);
    }

    /// Removes and returns the next event and its time.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        loop {
            if let Some((bucket, at)) = &mut self.current {
                let number = *bucket;
                let bucket = &mut self.buckets[number as usize];
                if let Some(&event) = bucket.events.get(*at) {
                    *at += 1;
                    return Some((bucket.time, event));
                }
                bucket.events.clear();
                self.index.remove(&bucket.time);
                self.unused.push(number);
            }
            let (_, &bucket) = self.index.first_key_value()?;
            self.current = Some((bucket, 0));
        }
    }
}

/// Returns the bucket of `time`, creating it if there is none.
fn bucket_of<E>(
    index: &mut BTreeMap<u64, u32>,
    unused: &mut Vec<u32>,
    buckets: &mut Vec<Bucket<E>>,
    time: u64,
) -> u32 {
    *index.entry(time).or_insert_with(|| match unused.pop() {
        Some(number) => {
            buckets[number as usize].time = time;
            number
        }
        None => {
            buckets.push(Bucket { time, events: Vec::new() });
            (buckets.len() - 1) as u32
        }
    })
}

#[cfg(test)]
mod tests {
    use super::EventQueue;

    #[test]
    fn times_ascend_and_equal_times_keep_their_order() {
        let mut queue = EventQueue::new();
        for (time, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (200, 'e')] {
            queue.push(time, name);
        }
        let mut taken = Vec::new();
        while let Some((time, name)) = queue.pop() {
            if name == 'b' {
                queue.push(3, 'x');
            }
            taken.push((time, name));
        }
        assert_eq!(taken, [(3, 'b'), (3, 'd'), (3, 'x'), (5, 'a'), (5, 'c'), (200, 'e')]);
    }
}
