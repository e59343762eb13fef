//! The receiving half of a connection: reassembly, and when to acknowledge.

use super::ranges::{Blocks, Ranges};

/// The receiving half.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Everything before this has arrived (RCV.NXT).
    pub(crate) expected: u64,
    /// What has arrived beyond a gap.
    beyond: Ranges,
    /// Segments not yet acknowledged.
    unacknowledged: u32,
    /// Whether the last segment was marked (RFC 8257, 3.2).
    marked: bool,
    /// The stamp of the first unacknowledged segment, which the acknowledgement returns (RFC 7323, 4.3).
    pub(crate) stamp: u32,
}

/// How to answer a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Acknowledge it at once.
    Now,
    /// Acknowledge what arrived before it, because the mark changed; the segment itself waits for others.
    Before,
    /// Wait.
    Later,
}

impl Receiver {
    /// Handles a segment. An acknowledgement is due after `every` segments, and at once for data out of order
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

    /// Called when an acknowledgement is sent.
    #[inline]
    pub(crate) fn acknowledged(&mut self) {
        self.unacknowledged = 0;
    }

    /// Called when an acknowledgement is sent for all but the last segment, whose stamp is `stamp`.
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

    /// Returns what it holds beyond a gap, latest first.
    #[inline]
    pub(crate) fn blocks(&self) -> Option<Blocks> {
        if self.beyond.is_empty() { None } else { Some(self.beyond.latest()) }
    }
}
