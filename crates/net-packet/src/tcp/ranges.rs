//! Ranges of a stream beyond a gap: what a receiver holds out of order, and what its sender knows of that.

/// Ranges that do not touch each other, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    list: Vec<Range>,
    /// Number of times that a range grew.
    grown: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    /// When it last grew, as a number of [`Ranges::grown`].
    grown: u32,
}

/// Blocks of a selective acknowledgement: at most three beside a time stamp (RFC 2018, section 3).
pub type Blocks = [(u64, u64); 3];

impl Ranges {
    /// Whether there are no ranges.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a range; returns false if all of it was there already.
    pub fn add(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return false;
        }
        let first = self.list.partition_point(|range| range.end < start);
        let behind = self.list.partition_point(|range| range.start <= end);
        self.grown += 1;
        match self.list.get(first..behind) {
            Some([]) | None => {
                self.list.insert(first, Range { start, end, grown: self.grown });
                true
            }
            Some(touched) => {
                if touched.len() == 1 && touched[0].start <= start && end <= touched[0].end {
                    // A repeated range counts as grown when blocks are ordered.
                    self.list[first].grown = self.grown;
                    return false;
                }
                let start = touched[0].start.min(start);
                let end = touched[touched.len() - 1].end.max(end);
                self.list[first] = Range { start, end, grown: self.grown };
                self.list.drain(first + 1..behind);
                true
            }
        }
    }

    /// Removes everything before `at`; returns the end of the range that contains `at`, or `at`.
    pub fn cut(&mut self, at: u64) -> u64 {
        let behind = self.list.partition_point(|range| range.start <= at);
        let reached = self.list[..behind].last().map_or(at, |range| range.end.max(at));
        self.list.drain(..behind);
        reached
    }

    /// Removes everything before `at`, and keeps the rest of a range that contains `at`.
    pub fn forget(&mut self, at: u64) {
        let over = self.list.partition_point(|range| range.end <= at);
        self.list.drain(..over);
        if let Some(first) = self.list.first_mut() {
            first.start = first.start.max(at);
        }
    }

    /// Returns the three ranges that grew last, latest first, padded with empty ranges.
    pub fn latest(&self) -> Blocks {
        let mut latest = [Range::default(); 3];
        for &range in &self.list {
            let place = latest.iter().position(|known| known.grown < range.grown);
            if let Some(place) = place {
                latest[place..].rotate_right(1);
                latest[place] = range;
            }
        }
        latest.map(|range| (range.start, range.end))
    }

    /// Iterates over the ranges as `(start, end)`, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.list.iter().map(|range| (range.start, range.end))
    }

    /// Returns the first range that ends after `at`.
    pub fn next_behind(&self, at: u64) -> Option<(u64, u64)> {
        let first = self.list.partition_point(|range| range.end <= at);
        self.list.get(first).map(|range| (range.start, range.end))
    }

    /// Counts the bytes of all ranges before `at`.
    pub fn bytes_before(&self, at: u64) -> u64 {
        self.iter().map(|(start, end)| end.min(at).saturating_sub(start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the ranges with one bit per byte.
        #[test]
        fn ranges_are_what_was_added(adds in prop::collection::vec((0u64..100, 0u64..20), 1..40), at in 0u64..120) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 128];
            for &(start, length) in &adds {
                let end = start + length;
                let new = (start..end).any(|byte| !bytes[byte as usize]);
                prop_assert_eq!(ranges.add(start, end), new);
                (start..end).for_each(|byte| bytes[byte as usize] = true);
            }
            let told: Vec<_> = ranges.iter().flat_map(|(start, end)| start..end).collect();
            let there: Vec<_> = (0..128).filter(|&byte| bytes[byte as usize]).collect();
            prop_assert_eq!(&told, &there);
            let list: Vec<_> = ranges.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let before = there.iter().filter(|&&byte| byte < at).count();
            prop_assert_eq!(ranges.bytes_before(at), before as u64);
            let reached = (at..128).find(|&byte| !bytes[byte as usize]).unwrap_or(128);
            prop_assert_eq!(ranges.clone().cut(at), reached);
            ranges.forget(at);
            let left: Vec<_> = ranges.iter().flat_map(|(start, end)| start..end).collect();
            prop_assert_eq!(left, there.into_iter().filter(|&byte| byte >= at).collect::<Vec<_>>());
        }
    }
}
