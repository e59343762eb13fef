//! The receiving half of a connection: reassembly, and when to acknowledge.

use super::ranges::{Blocks, Ranges};

/// The receiving half.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Everything before it has come (RCV.NXT).
    pub(crate) expected: u64,
    /// What has come beyond.
    beyond: Ranges,
    /// Segments that no acknowledgement was sent for.
    unacknowledged: u32,
    /// Whether the last segment was marked (RFC 8257, 3.2).
    marked: bool,
    /// The stamp of the first of them, which the acknowledgement returns (RFC 7323, 4.3).
    pub(crate) stamp: u32,
}

/// What a segment is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An acknowledgement, at once.
    Now,
    /// One for what was there before this one, because the marks have changed; this one waits for others.
    Before,
    /// None yet.
    Later,
}

impl Receiver {
    /// A segment comes. One acknowledgement is due for `every` segments, and at once for what is out of order
    /// (RFC 5681, 4.2).
    #[inline]
    pub(crate) fn data(&mut self, start: u64, length: u64, stamp: u32, marked: bool, every: u32) -> Answer {
        let end = start + length;
        let changed = std::mem::replace(&mut self.marked, marked) != marked && self.unacknowledged > 0;
        if self.unacknowledged == 0 {
            self.stamp = stamp;
        }
        if start == self.expected && self.beyond.is_empty() {
            self.expected = end;
            self.unacknowledged += 1;
            return match (changed, self.unacknowledged >= every) {
                (true, _) => Answer::Before,
                (false, true) => Answer::Now,
                (false, false) => Answer::Later,
            };
        }
        if start <= self.expected && end > self.expected {
            self.expected = self.beyond.cut(end);
        } else if end > self.expected {
            self.beyond.add(start, end);
        }
        self.stamp = stamp;
        Answer::Now
    }

    /// An acknowledgement is sent.
    #[inline]
    pub(crate) fn acknowledged(&mut self) {
        self.unacknowledged = 0;
    }

    /// An acknowledgement is sent for all but the last segment, which has this stamp.
    pub(crate) fn acknowledged_but_last(&mut self, stamp: u32) {
        (self.unacknowledged, self.stamp) = (1, stamp);
    }

    /// Whether segments wait for their acknowledgement.
    pub(crate) fn owes(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Whether the last segment was marked.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked
    }

    /// What it holds beyond a gap, the latest first.
    #[inline]
    pub(crate) fn blocks(&self) -> Option<Blocks> {
        if self.beyond.is_empty() { None } else { Some(self.beyond.latest()) }
    }
}
