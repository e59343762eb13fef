//! Records when ports and ranks were busy: the run is divided into time slices, and each slice stores how long each
//! row (a port, a rank) was busy in it.
//!
//! The length of a run is not known in advance, so slices start short; when the run outgrows them, pairs of slices
//! are merged. Bookings may lie in the future, as those of a queue do.

use syncline_units::Time;

/// Most slices of a run. A run that lasts longer than [`SLICES`] of the shortest slices has at least half as many.
pub const SLICES: usize = 128;

/// Most slices over all rows together. If there are more rows than [`SLICES`] slices each allow, each row has fewer.
const CELLS: usize = 1 << 26;

/// Fewest slices of a row.
const LEAST: usize = 8;

/// Initial length of a slice: 2 to this power picoseconds, which is 16 ns.
const SHORTEST: u32 = 14;

/// A row that has no slices yet.
const NONE: u32 = u32::MAX;

/// The slice in which a row was busy last. Callers store it beside the object that the row describes, because most
/// bookings go to the same slice as the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    /// A time within the slice.
    at: Time,
    busy: u64,
}

/// How long each row was busy in each slice.
#[derive(Clone, Debug)]
pub struct Activity {
    /// A slice is 2 to this power picoseconds long.
    shift: u32,
    /// Slices of each row, a power of two.
    slices: usize,
    /// By row: index of its slices in `busy`.
    places: Vec<u32>,
    busy: Vec<u64>,
    /// When booking stopped; only the time before it counts.
    stopped: Option<Time>,
}

/// A slice of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// When it begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
}

impl Activity {
    /// Creates `rows` rows that were never busy.
    pub fn new(rows: usize) -> Self {
        let fitting = (CELLS / rows.max(1)).clamp(LEAST, SLICES);
        // The largest power of two that fits.
        let slices = 1 << fitting.ilog2();
        Self { shift: SHORTEST, slices, places: vec![NONE; rows], busy: Vec::new(), stopped: None }
    }

    /// Adds a row that was never busy.
    pub fn add_row(&mut self) {
        self.places.push(NONE);
    }

    /// The end of the slice that contains `at`.
    pub fn slice_end(&self, at: Time) -> Time {
        Time(((at.0 >> self.shift) + 1) << self.shift)
    }

    /// Whether booking has stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Books that `row` is busy from `start` to `end`.
    #[inline]
    pub fn book(&mut self, row: usize, recent: &mut Recent, start: Time, end: Time) {
        let slice = start.0 >> self.shift;
        if slice == recent.at.0 >> self.shift && end.0.saturating_sub(1) >> self.shift == slice {
            recent.busy += end.0 - start.0;
        } else {
            self.book_across(row, recent, (start, end), end.0.saturating_sub(start.0));
        }
    }

    /// Books `busy` for `row`, spread evenly from `start` to `end`.
    #[inline]
    pub fn book_part(&mut self, row: usize, recent: &mut Recent, (start, end): (Time, Time), busy: Time) {
        let slice = start.0 >> self.shift;
        if slice == recent.at.0 >> self.shift && end.0.saturating_sub(1) >> self.shift == slice {
            recent.busy += busy.0;
        } else {
            self.book_across(row, recent, (start, end), busy.0);
        }
    }

    #[cold]
    fn book_across(&mut self, row: usize, recent: &mut Recent, (start, end): (Time, Time), busy: u64) {
        if self.stopped.is_some() || start >= end {
            return;
        }
        while end.0.saturating_sub(1) >> self.shift >= self.slices as u64 {
            self.join();
        }
        self.flush(row, recent);
        let last = (end.0 - 1) >> self.shift;
        let (length, mut from, mut booked) = (end.0 - start.0, start.0, 0);
        while from >> self.shift < last {
            let until = ((from >> self.shift) + 1) << self.shift;
            let by_then = (u128::from(busy) * u128::from(until - start.0) / u128::from(length)) as u64;
            *self.of(row, from) += by_then - booked;
            (from, booked) = (until, by_then);
        }
        *recent = Recent { at: Time(from), busy: busy - booked };
    }

    /// The slice of `row` that contains `at`.
    fn of(&mut self, row: usize, at: u64) -> &mut u64 {
        let place = &mut self.places[row];
        if *place == NONE {
            *place = (self.busy.len() / self.slices) as u32;
            self.busy.resize(self.busy.len() + self.slices, 0);
        }
        &mut self.busy[*place as usize * self.slices + (at >> self.shift) as usize]
    }

    fn flush(&mut self, row: usize, recent: &mut Recent) {
        let busy = std::mem::take(&mut recent.busy);
        if busy > 0 {
            *self.of(row, recent.at.0) += busy;
        }
    }

    /// Doubles the length of slices.
    fn join(&mut self) {
        self.shift += 1;
        let half = self.slices / 2;
        for row in self.busy.chunks_exact_mut(self.slices) {
            for slice in 0..half {
                row[slice] = row[2 * slice] + row[2 * slice + 1];
            }
            row[half..].fill(0);
        }
    }

    /// Books what `recents` still hold and stops booking. Only the time before `now` counts.
    pub fn stop<'a>(&mut self, now: Time, recents: impl Iterator<Item = &'a mut Recent>) {
        if self.stopped.is_some() {
            return;
        }
        for (row, recent) in recents.enumerate() {
            self.flush(row, recent);
            // [`Time::MAX`] lies in no slice, so later bookings leave the fast path and are ignored.
            recent.at = Time::MAX;
        }
        self.stopped = Some(now);
        while now.0 > (self.slices as u64) << self.shift {
            self.join();
        }
    }

    /// Makes the slices of both equally long.
    pub fn align(&mut self, other: &mut Self) {
        let shift = self.shift.max(other.shift);
        for each in [self, other] {
            while each.shift < shift {
                each.join();
            }
        }
    }

    /// The slices before the time at which booking stopped. If the run was not `finished` then, the last slice may
    /// contain bookings for later times, so it is omitted unless it is the only one.
    pub fn slices(&self, finished: bool) -> Vec<Slice> {
        let end = self.stopped.unwrap_or_default();
        let whole = (end.0 >> self.shift) as usize;
        let rest = end.0 > (whole as u64) << self.shift && (finished || whole == 0);
        let at = |slice: usize| Time((slice as u64) << self.shift).min(end);
        (0..whole + usize::from(rest)).map(|slice| Slice { start: at(slice), end: at(slice + 1) }).collect()
    }

    /// How long `row` was busy in each slice; empty if it never was.
    pub fn row(&self, row: usize) -> &[u64] {
        match self.places[row] {
            NONE => &[],
            place => &self.busy[place as usize * self.slices..][..self.slices],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, CELLS, LEAST, Recent, SLICES, Slice};
    use proptest::prelude::*;
    use syncline_units::Time;

    /// Books intervals one by one; returns the activity and its slices.
    fn booked(intervals: &[(usize, u64, u64)], rows: usize, end: u64) -> (Activity, Vec<Slice>) {
        let mut activity = Activity::new(rows);
        let mut recents = vec![Recent::default(); rows];
        for &(row, start, length) in intervals {
            activity.book(row, &mut recents[row], Time(start), Time(start + length));
        }
        activity.stop(Time(end), recents.iter_mut());
        let slices = activity.slices(true);
        (activity, slices)
    }

    proptest! {
        #[test]
        fn slices_sum_the_intervals_that_overlap_them(
            intervals in prop::collection::vec((0usize..3, 0u64..50_000_000, 0u64..9_000_000), 0..40),
        ) {
            let end = intervals.iter().map(|&(_, start, length)| start + length).max().unwrap_or(0);
            let (activity, slices) = booked(&intervals, 3, end);
            prop_assert!(slices.len() <= SLICES);
            prop_assert_eq!(slices.last().map_or(0, |slice| slice.end.0), end);
            for row in 0..3 {
                let busy = activity.row(row);
                for (at, slice) in slices.iter().enumerate() {
                    let overlap = |&(r, start, length): &(usize, u64, u64)| match r == row {
                        true => (start + length).min(slice.end.0).saturating_sub(start.max(slice.start.0)),
                        false => 0,
                    };
                    let expected: u64 = intervals.iter().map(overlap).sum();
                    prop_assert_eq!(busy.get(at).copied().unwrap_or(0), expected);
                }
            }
        }
    }

    #[test]
    fn many_rows_have_fewer_slices() {
        let slices = |rows| {
            let mut activity = Activity::new(rows);
            activity.of(0, 0);
            activity.row(0).len()
        };
        assert_eq!(slices(1), SLICES);
        assert_eq!(slices(CELLS / SLICES), SLICES);
        assert_eq!(slices(CELLS / SLICES + 1), SLICES / 2);
        assert_eq!(slices(CELLS / LEAST + 1), LEAST);
    }

    #[test]
    fn fewer_slices_hold_the_same_total() {
        let (mut wide, mut narrow) = (Activity::new(1), Activity::new(1));
        narrow.slices = LEAST;
        for activity in [&mut wide, &mut narrow] {
            let mut recent = Recent::default();
            for at in 0..40u64 {
                activity.book(0, &mut recent, Time(at * 1_000_000), Time(at * 1_000_000 + 700_000));
            }
            activity.stop(Time(40_000_000), std::iter::once(&mut recent));
        }
        assert!(narrow.slices(true).len() <= LEAST);
        wide.align(&mut narrow);
        let sum = |activity: &Activity| activity.row(0).iter().sum::<u64>();
        assert_eq!((sum(&wide), sum(&narrow)), (28_000_000, 28_000_000));
        assert_eq!(wide.slices(true), narrow.slices(true));
        assert_eq!(wide.row(0)[..LEAST], *narrow.row(0));
    }

    #[test]
    fn nothing_is_booked_after_the_stop() {
        let mut activity = Activity::new(1);
        let mut recent = Recent::default();
        activity.book(0, &mut recent, Time(0), Time(10));
        activity.stop(Time(20_000), std::iter::once(&mut recent));
        activity.book(0, &mut recent, Time(20_000), Time(30_000));
        activity.stop(Time(40_000), std::iter::once(&mut recent));
        assert_eq!(activity.row(0)[..2], [10, 0]);
        let first = Slice { start: Time(0), end: Time(1 << 14) };
        assert_eq!(activity.slices(false), [first]);
        assert_eq!(activity.slices(true), [first, Slice { start: Time(1 << 14), end: Time(20_000) }]);
    }
}
