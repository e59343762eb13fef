//! What is to come, filed by time: a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 1990).
//!
//! Simulated time never runs backwards, so what is to come can be filed by the highest bit in which its time differs from
//! the present.

/// Something that happens at a time.
pub trait Timed: Copy {
    /// Its time in picoseconds.
    fn time(&self) -> u64;
}

/// What comes after the present.
#[derive(Clone, Debug)]
pub struct Radix<T> {
    /// The present.
    time: u64,
    /// Bucket `b` holds what differs from the present in bit `b`, and in none above it.
    buckets: Vec<Vec<T>>,
    /// Bit `b` is set where bucket `b` holds something.
    filled: u64,
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Self { time: 0, buckets: (0..u64::BITS).map(|_| Vec::new()).collect(), filled: 0 }
    }
}

impl<T: Timed> Radix<T> {
    /// The present, in picoseconds.
    #[inline]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Files what comes later; what is of the present is handed back.
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

    /// The time of what comes next.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        let lowest = self.buckets.get(self.filled.trailing_zeros() as usize)?;
        lowest.iter().map(Timed::time).min()
    }

    /// Makes the time of what comes next the present, if it is not after `until`, and moves all of that time to
    /// `present`, in the order in which it was filed; whether there was any.
    #[inline]
    pub fn advance(&mut self, until: u64, present: &mut Vec<T>) -> bool {
        let Some(time) = self.next_time().filter(|&time| time <= until) else { return false };
        let lowest = self.filled.trailing_zeros() as usize;
        self.time = time;
        self.filled &= !(1 << lowest);
        let mut opened = std::mem::take(&mut self.buckets[lowest]);
        present.extend(opened.drain(..).filter_map(|item| self.file(item)));
        // Its allocation is used again, so that steady states allocate nothing.
        self.buckets[lowest] = opened;
        true
    }

    /// Everything, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().flatten()
    }

    /// Forgets everything; `time` is the present.
    pub fn clear(&mut self, time: u64) {
        (self.time, self.filled) = (time, 0);
        self.buckets.iter_mut().for_each(Vec::clear);
    }
}
