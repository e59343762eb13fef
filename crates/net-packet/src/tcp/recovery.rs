//! Loss recovery: the scoreboard of RFC 6675, and what is sent again after a time-out.

use super::ranges::Ranges;

/// Duplicate acknowledgements that indicate a loss (RFC 5681, 3.2).
const DUP_THRESH: u64 = 3;

/// Why segments are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Nothing is known to be lost.
    None,
    /// Fast recovery.
    Fast,
    /// After a time-out: everything up to the recovery point counts as lost.
    Timeout,
}

/// What a sender knows about its losses.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub(crate) repair: Repair,
    /// Recovery ends when everything before this is acknowledged (RFC 6582, "recover").
    pub(crate) point: u64,
    /// All lost data before this has been sent again (HighRxt).
    pub(crate) again: u64,
    /// What the receiver holds beyond the first gap.
    pub(crate) held: Ranges,
    pub(crate) duplicates: u64,
    /// A rescue needs an acknowledgement beyond this (RescueRxt).
    pub(crate) rescue: u64,
    /// Whether the first segment must still be sent again, whatever is in flight (RFC 6675, 5, step 4.3).
    pub(crate) entered: bool,
    /// First byte of the segment that the timer last sent again.
    pub(crate) timed: Option<u64>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            repair: Repair::None,
            point: 0,
            again: 0,
            held: Ranges::default(),
            duplicates: 0,
            rescue: 0,
            entered: false,
            timed: None,
        }
    }
}

/// What to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send these bytes again.
    Again { start: u64, end: u64 },
    /// Send these again, though lost bytes before them have not been sent again yet (NextSeg, rule 4).
    Rescue { start: u64, end: u64 },
    /// Send new data.
    New,
    /// Send nothing.
    Nothing,
}

impl Recovery {
    /// Everything before the returned byte that the receiver does not hold is lost (IsLost): it holds three
    /// ranges, or more bytes than two segments, from there on.
    fn lost_before(&self, una: u64, mss: u64) -> u64 {
        if self.repair == Repair::Timeout {
            return self.point;
        }
        let (mut ranges, mut bytes) = (0, 0);
        for (start, end) in self.held.iter().rev() {
            ranges += 1;
            bytes += end - start;
            if ranges >= DUP_THRESH || bytes > (DUP_THRESH - 1) * mss {
                return start;
            }
        }
        una
    }

    /// Whether the first unacknowledged segment is lost.
    pub(crate) fn is_lost(&self, una: u64, mss: u64) -> bool {
        self.duplicates >= DUP_THRESH || self.lost_before(una, mss) > una
    }

    /// Returns the bytes in flight between `una` and `next` (pipe, SetPipe).
    pub(crate) fn pipe(&self, una: u64, next: u64, mss: u64) -> u64 {
        let lost = self.lost_before(una, mss).min(next);
        let missing = |from: u64, to: u64| {
            if from >= to {
                0
            } else {
                to - from - (self.held.bytes_before(to) - self.held.bytes_before(from))
            }
        };
        missing(lost, next) + missing(una, self.again.min(next))
    }

    /// Returns what to send next (NextSeg); `more` says whether there is data that was never sent.
    pub(crate) fn next(&self, una: u64, next: u64, mss: u64, more: bool) -> Next {
        let first = |limit: u64| self.missing_from(self.again.max(una), limit.min(next), mss);
        match (first(self.lost_before(una, mss)), more) {
            (Some((start, end)), _) => Next::Again { start, end },
            (None, true) => Next::New,
            (None, false) if self.repair == Repair::Fast => match self.held.iter().next_back() {
                // Rule 3: bytes below the highest held range that are not known to be lost.
                Some((start, _)) => first(start)
                    .map_or_else(|| self.rescue(una, next, mss), |(start, end)| Next::Again { start, end }),
                None => self.rescue(una, next, mss),
            },
            (None, false) => Next::Nothing,
        }
    }

    /// Rule 4: once per recovery, sends the last bytes that are not held, so that acknowledgements keep
    /// coming.
    fn rescue(&self, una: u64, next: u64, mss: u64) -> Next {
        if una <= self.rescue {
            return Next::Nothing;
        }
        let (mut start, mut end) = (una, next);
        for (from, to) in self.held.iter().rev() {
            if to < end {
                start = to;
                break;
            }
            end = from;
        }
        let start = start.max(end.saturating_sub(mss));
        if start < end { Next::Rescue { start, end } } else { Next::Nothing }
    }

    /// Returns the first segment of the bytes that are not held.
    pub(crate) fn head(&self, una: u64, next: u64, mss: u64) -> Option<(u64, u64)> {
        self.missing_from(una, next, mss)
    }

    /// Returns the first bytes from `from` on that are not held, at most a segment.
    fn missing_from(&self, from: u64, limit: u64, mss: u64) -> Option<(u64, u64)> {
        let mut start = from;
        let mut end = limit.min(start + mss);
        while let Some((held, behind)) = self.held.next_behind(start) {
            if held > start {
                end = end.min(held);
                break;
            }
            start = behind;
            end = limit.min(start + mss);
        }
        (start < end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(held: &[(u64, u64)], repair: Repair, again: u64, point: u64) -> Recovery {
        let mut recovery = Recovery { repair, again, point, ..Recovery::default() };
        for &(start, end) in held {
            recovery.held.add(start, end);
        }
        recovery
    }

    #[test]
    fn a_segment_is_lost_when_enough_is_held_above() {
        assert!(!with(&[(100, 200)], Repair::None, 0, 0).is_lost(0, 100));
        assert!(!with(&[(100, 300)], Repair::None, 0, 0).is_lost(0, 100));
        assert!(with(&[(100, 400)], Repair::None, 0, 0).is_lost(0, 100));
        assert!(with(&[(100, 110), (200, 210), (300, 310)], Repair::None, 0, 0).is_lost(0, 100));
    }

    #[test]
    fn the_pipe_excludes_lost_bytes_and_counts_bytes_sent_again() {
        // 0..100 and 200..300 are missing, all below 300 is lost, 600..700 is not known to be.
        let recovery = with(&[(100, 200), (300, 600)], Repair::Fast, 0, 700);
        assert_eq!(recovery.pipe(0, 700, 100), 100);
        assert_eq!(recovery.next(0, 700, 100, true), Next::Again { start: 0, end: 100 });
        let recovery = with(&[(100, 200), (300, 600)], Repair::Fast, 100, 700);
        assert_eq!(recovery.pipe(0, 700, 100), 200);
        assert_eq!(recovery.next(0, 700, 100, true), Next::Again { start: 200, end: 300 });
        let recovery = with(&[(100, 200), (300, 600)], Repair::Fast, 300, 700);
        assert_eq!(recovery.pipe(0, 700, 100), 300);
        assert_eq!(recovery.next(0, 700, 100, true), Next::New);
        // No rescue until more is acknowledged than the segment first sent again.
        let mut recovery = Recovery { rescue: 100, ..recovery };
        assert_eq!(recovery.next(100, 700, 100, false), Next::Nothing);
        recovery.held.forget(200);
        assert_eq!(recovery.next(200, 700, 100, false), Next::Rescue { start: 600, end: 700 });
    }

    #[test]
    fn after_a_time_out_everything_is_lost_but_what_is_held() {
        let recovery = with(&[(100, 200)], Repair::Timeout, 0, 300);
        assert_eq!(recovery.pipe(0, 300, 100), 0);
        assert_eq!(recovery.next(0, 300, 100, false), Next::Again { start: 0, end: 100 });
        let recovery = with(&[(100, 200)], Repair::Timeout, 100, 300);
        assert_eq!(recovery.pipe(0, 300, 100), 100);
        assert_eq!(recovery.next(0, 300, 100, false), Next::Again { start: 200, end: 300 });
        let recovery = with(&[(100, 200)], Repair::Timeout, 300, 300);
        assert_eq!(recovery.next(0, 300, 100, false), Next::Nothing);
    }
}
