//! A radix heap, which files future events by time (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 1990).
//!
//! Simulated time never runs backwards, so events can be filed by the highest bit in which their time differs from
//! the present time.

/// Something that happens at a certain time.
pub trait Timed: Copy {
    /// Its time in picoseconds.
    fn time(&self) -> u64;
}

/// The items after the present time.
#[derive(Clone, Debug)]
pub struct Radix<T> {
    /// The present time.
    time: u64,
    /// Bucket `b` contains the items whose time differs from the present in bit `b` and in no higher bit.
    buckets: Vec<Vec<T>>,
    /// Bit `b` is set if bucket `b` is not empty.
    filled: u64,
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Self { time: 0, buckets: (0..u64::BITS).map(|_| Vec::new()).collect(), filled: 0 }
    }
}

impl<T: Timed> Radix<T> {
    /// The present time, in picoseconds.
    #[inline]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Files a future item. Returns an item of the present time to the caller.
    #[inline]
    pub fn file(&mut self, item: T) -> Option<T> {
        let difference = item.time() ^ self.time;
        if difference == 0 {
            return Some(item);
        }
        debug_assert!(item.time() > self.time, "time runs forwards");
        let bucket = difference.ilog2();
        self.buckets[bucket as usize].push(item);
        self.filled |= 1 << bucket;
        None
    }

    /// The time of the next item.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        let lowest = self.buckets.get(self.filled.trailing_zeros() as usize)?;
        lowest.iter().map(Timed::time).min()
    }

    /// Advances the present to the time of the next item, if that is not after `until`, and moves all items of that
    /// time to `present`, in the order in which they were filed. Returns whether there were any.
    #[inline]
    pub fn advance(&mut self, until: u64, present: &mut Vec<T>) -> bool {
        let Some(time) = self.next_time().filter(|&time| time <= until) else { return false };
        let lowest = self.filled.trailing_zeros() as usize;
        self.time = time;
        self.filled &= !(1 << lowest);
        let mut opened = std::mem::take(&mut self.buckets[lowest]);
        present.extend(opened.drain(..).filter_map(|item| self.file(item)));
        // Reuses the bucket's allocation, so that steady states allocate nothing.
        self.buckets[lowest] = opened;
        true
    }

    /// All items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().flatten()
    }

    /// Removes all items and sets the present to `time`.
    pub fn clear(&mut self, time: u64) {
        (self.time, self.filled) = (time, 0);
        self.buckets.iter_mut().for_each(Vec::clear);
    }
}
