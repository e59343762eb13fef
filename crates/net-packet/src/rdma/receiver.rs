//! The receiving half of a connection: when it acknowledges, and when it reports congestion.

/// The receiving half.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Everything before this has arrived.
    pub(crate) expected: u64,
    /// Packets not yet acknowledged.
    unacknowledged: u32,
    /// Whether the current gap has been reported.
    told: bool,
    /// When congestion was last reported.
    notified: Option<u64>,
}

/// How to answer a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    None,
    /// Acknowledge it.
    Acknowledge,
    /// Report a gap; the packet is discarded.
    Missing,
}

impl Receiver {
    /// Handles a packet; `last` says whether it is the last of its message. One acknowledgement is sent for
    /// `every` packets, and for the last.
    pub(crate) fn data(&mut self, start: u64, length: u64, last: bool, every: u32) -> Answer {
        if start > self.expected {
            // A gap is reported only once (InfiniBand 1.4, 9.7.5.2.8).
            return if std::mem::replace(&mut self.told, true) { Answer::None } else { Answer::Missing };
        }
        if start < self.expected {
            return Answer::Acknowledge;
        }
        self.expected += length;
        self.told = false;
        self.unacknowledged += 1;
        if last || self.unacknowledged >= every {
            self.unacknowledged = 0;
            return Answer::Acknowledge;
        }
        Answer::None
    }

    /// Whether to send a notification for a marked packet: at most one per `interval` (DCQCN, section 3.2).
    pub(crate) fn notifies(&mut self, now: u64, interval: u64) -> bool {
        let due = self.notified.is_none_or(|last| now >= last.saturating_add(interval));
        if due {
            self.notified = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_reported_once() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.data(0, 100, false, 4), Answer::None);
        assert_eq!(receiver.data(200, 100, false, 4), Answer::Missing);
        assert_eq!(receiver.data(300, 100, true, 4), Answer::None);
        assert_eq!(receiver.data(100, 100, false, 4), Answer::None);
        assert_eq!(receiver.data(0, 100, false, 4), Answer::Acknowledge);
        assert_eq!(receiver.data(300, 100, false, 4), Answer::Missing);
        assert_eq!(receiver.data(200, 100, true, 4), Answer::Acknowledge);
        assert_eq!(receiver.expected, 300);
    }

    #[test]
    fn congestion_is_reported_once_per_interval() {
        let mut receiver = Receiver::default();
        let told: Vec<bool> =
            [0, 10, 49, 50, 60, 100].iter().map(|&now| receiver.notifies(now, 50)).collect();
        assert_eq!(told, [true, false, false, true, false, true]);
    }
}
