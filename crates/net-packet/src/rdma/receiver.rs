//! The receiving half of a connection: what is acknowledged, and when congestion is told of.

/// The receiving half.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Everything before it has come.
    pub(crate) expected: u64,
    /// Packets that no acknowledgement was sent for.
    unacknowledged: u32,
    /// Whether a gap was told of that is still there.
    told: bool,
    /// When congestion was told of last.
    notified: Option<u64>,
}

/// What a packet is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    None,
    /// What was expected has come.
    Acknowledge,
    /// Something is missing before it; it is thrown away.
    Missing,
}

impl Receiver {
    /// A packet comes, the last of its message or not. One acknowledgement is sent for `every` packets, and for the last.
    pub(crate) fn data(&mut self, start: u64, length: u64, last: bool, every: u32) -> Answer {
        if start > self.expected {
            // A gap is told of once (InfiniBand 1.4, 9.7.5.2.8).
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

    /// Whether a marked packet is told of: not more often than once in `interval` (DCQCN, section 3.2).
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
    fn a_gap_is_told_of_once() {
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
    fn congestion_is_told_of_once_an_interval() {
        let mut receiver = Receiver::default();
        let told: Vec<bool> =
            [0, 10, 49, 50, 60, 100].iter().map(|&now| receiver.notifies(now, 50)).collect();
        assert_eq!(told, [true, false, false, true, false, true]);
    }
}
