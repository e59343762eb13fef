//! Finds the earliest of many times. A row of times is divided into groups of eight, which lie side by side
//! in memory; the row above has the least time of each group, and so on (a heap of degree eight whose leaves
//! stay in place).

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// Times in a group.
const GROUP: usize = 8;

/// The times of `0..len`, and the first of them.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// All times, and above each row the least of each of its groups; the last row is one group.
    rows: Vec<Vec<u64>>,
}

impl Tree {
    /// All times are [`NEVER`].
    pub(crate) fn new(len: usize) -> Self {
        let mut rows = Vec::new();
        let mut len = len.max(1);
        while rows.is_empty() || len > 1 {
            len = len.div_ceil(GROUP);
            rows.push(vec![NEVER; len * GROUP]);
        }
        Self { rows }
    }

    /// Sets the time of `at`.
    #[inline]
    pub(crate) fn set(&mut self, at: u32, time: u64) {
        let (mut at, mut time) = (at as usize, time);
        for row in &mut self.rows {
            if row[at] == time {
                return;
            }
            row[at] = time;
            at /= GROUP;
            time = row[at * GROUP..(at + 1) * GROUP].iter().copied().fold(NEVER, u64::min);
        }
    }

    /// Returns the time of `at`.
    #[cfg(test)]
    pub(crate) fn get(&self, at: u32) -> u64 {
        self.rows[0][at as usize]
    }

    /// Returns the number with the earliest time, and that time; the smallest number among equals.
    #[inline]
    pub(crate) fn first(&self) -> (u32, u64) {
        let (mut at, mut time) = (0, NEVER);
        for row in self.rows.iter().rev() {
            let group = &row[at * GROUP..(at + 1) * GROUP];
            time = group.iter().copied().fold(NEVER, u64::min);
            at = at * GROUP + group.iter().position(|&other| other == time).unwrap_or(0);
        }
        (at as u32, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_entry_is_first(
            len in 1usize..600, moves in prop::collection::vec((any::<prop::sample::Index>(), 0u64..9), 0..60)
        ) {
            let (mut tree, mut times) = (Tree::new(len), vec![NEVER; len]);
            for (at, time) in moves {
                let at = at.index(len);
                let time = if time == 8 { NEVER } else { time };
                tree.set(at as u32, time);
                times[at] = time;
                let first = (0..len).min_by_key(|&at| (times[at], at)).unwrap();
                prop_assert_eq!(tree.first().1, times[first]);
                if times[first] != NEVER {
                    prop_assert_eq!(tree.first().0, first as u32);
                }
            }
        }
    }
}
