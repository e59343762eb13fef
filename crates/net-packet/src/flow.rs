//! One direction of a connection: its path, its messages, and its transport.

use crate::parameters::Transport;
use crate::paths::Bundle;
use crate::profile::{Overhead, Profile};
use crate::rdma;
use crate::tcp;
use std::collections::VecDeque;
use syncline_units::Rate;

/// What tells connections apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionKey {
    /// The sending NPU.
    pub from: u32,
    /// The receiving NPU.
    pub to: u32,
    /// The lane.
    pub lane: u32,
    /// The number of the job.
    pub job: u32,
}

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset of its first byte.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Whether it was sent before.
    pub(crate) again: bool,
}

/// Counters of what a sender had to repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Fast recoveries; with RDMA, how often the sender went back to a missing packet.
    pub recoveries: u64,
}

/// A message on its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Offset one past its last byte.
    pub(crate) end: u64,
    pub(crate) id: u32,
    pub(crate) key: u64,
}

/// Samples of a flow's round-trip time, one per millisecond of simulated time (dlrm2020, Fig. 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Sum in picoseconds.
    pub sum: u128,
    /// Number of samples.
    pub count: u64,
    /// When the next sample is due.
    due: u64,
}

/// Picoseconds between two samples of a round-trip time.
const SAMPLE: u64 = 1_000_000_000;

impl RoundTrips {
    /// Returns the mean in seconds; `None` without a sample.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e12)
    }

    /// Takes a sample if one is due.
    #[inline]
    pub(crate) fn sample(&mut self, now: u64, rtt: u64) {
        if now >= self.due {
            self.sum += u128::from(rtt);
            self.count += 1;
            self.due = now + SAMPLE;
        }
    }
}

/// Both halves of a TCP connection.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) sender: tcp::sender::Sender,
    pub(crate) receiver: tcp::receiver::Receiver,
    /// When a delayed acknowledgement is due.
    pub(crate) owed: u64,
}

/// Both halves of an RDMA connection.
#[derive(Debug)]
pub(crate) struct Rdma {
    pub(crate) sender: rdma::sender::Sender,
    pub(crate) receiver: rdma::receiver::Receiver,
}

/// The transport that carries a flow's messages.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(Tcp),
    Rdma(Rdma),
}

impl Connection {
    /// An idle connection whose first link has a rate of `line`.
    pub(crate) fn new(profile: &Profile, line: Rate) -> Self {
        match profile.transport {
            Transport::Tcp => Self::Tcp(Tcp {
                sender: tcp::sender::Sender::new(profile),
                receiver: tcp::receiver::Receiver::default(),
                owed: NEVER,
            }),
            Transport::Rdma => Self::Rdma(Rdma {
                sender: rdma::sender::Sender::new(profile, line),
                receiver: rdma::receiver::Receiver::default(),
            }),
        }
    }

    /// Returns the counters of what it had to repair.
    pub(crate) fn repairs(&self) -> Repairs {
        match self {
            Self::Tcp(tcp) => tcp.sender.repairs,
            Self::Rdma(rdma) => rdma.sender.repairs,
        }
    }

    /// Returns the bytes written to it.
    pub(crate) fn written(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => tcp.sender.end,
            Self::Rdma(rdma) => rdma.sender.end,
        }
    }

    /// Returns the bytes acknowledged without a gap.
    pub(crate) fn acknowledged(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => tcp.sender.una,
            Self::Rdma(rdma) => rdma.sender.una,
        }
    }

    /// Returns the bytes received without a gap.
    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => tcp.receiver.expected,
            Self::Rdma(rdma) => rdma.receiver.expected,
        }
    }

    /// Whether everything written has been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.sender.is_idle(),
            Self::Rdma(rdma) => rdma.sender.is_idle(),
        }
    }

    /// Returns when the next of its timers runs out.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => tcp.sender.deadline.min(tcp.owed),
            Self::Rdma(rdma) => rdma.sender.deadline,
        }
    }
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) connection: Connection,
    /// Index of its set of parameters.
    pub(crate) set: u16,
    /// What its packets have on the wire besides their payload.
    pub(crate) overhead: Overhead,
    pub(crate) there: Bundle,
    pub(crate) back: Bundle,
    /// Messages that have not arrived yet.
    pub(crate) messages: VecDeque<Message>,
    /// How many of these have left the sender.
    pub(crate) left: u32,
    /// When its next timer event fires; [`NEVER`] if none is pending.
    pub(crate) timer: u64,
    pub(crate) round_trips: RoundTrips,
    /// Its packets that were dropped, acknowledgements included.
    pub(crate) dropped: u64,
    /// Its packets that arrived marked.
    pub(crate) marked: u64,
}

impl Flow {
    /// Returns the end of the message that contains the byte at `offset`.
    pub(crate) fn end_of_message(&self, offset: u64) -> u64 {
        let at = self.messages.partition_point(|message| message.end <= offset);
        self.messages.get(at).map_or_else(|| self.connection.written(), |message| message.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_sampled_once_a_millisecond() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.mean_s(), None);
        let first = 5;
        for (now, rtt) in [
            (first, 1_000),
            (first + 1, 9),
            (first + SAMPLE - 1, 9),
            (first + SAMPLE, 2_000),
            (first + 2 * SAMPLE - 1, 9),
            (first + 7 * SAMPLE, 6_000),
        ] {
            trips.sample(now, rtt);
        }
        assert_eq!((trips.sum, trips.count), (9_000, 3));
        assert_eq!(trips.mean_s(), Some(3_000.0 / 1e12));
    }
}
