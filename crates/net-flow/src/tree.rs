//! Which of many things comes first: a winner tree (Knuth, TAOCP 3, 5.4.1) over the times of all of them.

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// The time of each of `0..len`, and the first of them.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Leaves in the second half; above each pair, which of the two comes first.
    times: Vec<u64>,
    winners: Vec<u32>,
    base: usize,
}

impl Tree {
    /// None of them ever comes.
    pub(crate) fn new(len: usize) -> Self {
        let base = len.next_power_of_two().max(2);
        let mut winners = vec![0; 2 * base];
        for at in 0..base {
            winners[base + at] = at as u32;
        }
        for at in (1..base).rev() {
            winners[at] = winners[2 * at];
        }
        Self { times: vec![NEVER; base], winners, base }
    }

    /// `at` comes at `time` now.
    #[inline]
    pub(crate) fn set(&mut self, at: u32, time: u64) {
        if self.times[at as usize] == time {
            return;
        }
        self.times[at as usize] = time;
        let mut place = (self.base + at as usize) / 2;
        while place > 0 {
            let (a, b) = (self.winners[2 * place], self.winners[2 * place + 1]);
            // The smaller number among equals.
            let winner = if self.times[b as usize] < self.times[a as usize] { b } else { a };
            if self.winners[place] == winner && winner != at {
                return;
            }
            self.winners[place] = winner;
            place /= 2;
        }
    }

    /// Which comes first, and when; the smallest number among equals.
    #[inline]
    pub(crate) fn first(&self) -> (u32, u64) {
        let winner = self.winners[1];
        (winner, self.times[winner as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_found(
            len in 1usize..20, moves in prop::collection::vec((any::<prop::sample::Index>(), 0u64..9), 0..60)
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
