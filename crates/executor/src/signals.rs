//! What a rank measures while it runs operations: how long they take, and the traffic with each peer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use syncline_protocol::operation::Operation;
use syncline_transport::tcp_info::TcpInfo;
use syncline_units::CollectiveKind;

/// The traffic between this rank and a peer on one lane.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSignals {
    /// The name of the peer.
    pub peer: u32,
    /// The lane.
    pub lane: u32,
    /// Bytes that this rank has sent so far, with frames and heartbeats.
    pub sent: u64,
    /// Bytes that it has received so far.
    pub received: u64,
    /// What the kernel knows about the connection, if it is TCP.
    pub tcp: Option<TcpInfo>,
}

/// Collectives of one kind and of sizes with the same number of binary digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeClass {
    /// The collective.
    pub kind: CollectiveKind,
    /// Binary digits of the size in bytes: a class of `d` digits has sizes from `2^(d - 1)` to `2^d - 1`.
    pub digits: u32,
}

/// How long the operations of a class took that have succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationTimes {
    /// The number of operations.
    pub count: u64,
    /// Bytes of their vectors.
    pub bytes: u64,
    /// The sum of their times, each from its beginning on this rank to its end.
    pub total: Duration,
    /// The longest time.
    pub longest: Duration,
}

/// Most operations that are recorded.
const MAX_RECORDED: usize = 1 << 20;

/// An operation that has succeeded.
#[derive(Clone, Copy, Debug)]
pub struct OperationSpan {
    /// The number of its group that all members use; 0 is the whole job.
    pub group: u64,
    /// The collective.
    pub kind: CollectiveKind,
    /// Bytes of its vector.
    pub bytes: u64,
    /// When it began on this rank.
    pub began: Instant,
    /// When it ended there.
    pub ended: Instant,
}

/// Operations that were recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The operations, in the order in which this rank learned that they were over.
    pub spans: Vec<OperationSpan>,
    /// Operations that were not recorded, because there were too many.
    pub left_out: u64,
}

impl Recording {
    /// Adds an operation, if there is room.
    pub(super) fn add(&mut self, span: OperationSpan) {
        if self.spans.len() < MAX_RECORDED {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }
}

/// The times of a group's operations.
#[derive(Debug, Default)]
pub(super) struct Times(pub BTreeMap<SizeClass, OperationTimes>);

impl Times {
    /// Counts an operation of this many bytes that took this long.
    pub(super) fn count(&mut self, operation: &Operation, took: Duration) {
        let bytes = operation.bytes();
        let class = SizeClass { kind: operation.kind, digits: operation.size_digits() };
        let times = self.0.entry(class).or_default();
        times.count += 1;
        times.bytes = times.bytes.saturating_add(bytes);
        times.total += took;
        times.longest = times.longest.max(took);
    }
}
