//! The calendar: what will happen, in the order in which it will.
//!
//! Events of equal time are ordered by a key that is a function of what they are about (kind, then collective, chunk,
//! phase and relative position), never of memory addresses, threads or the order of insertion of unrelated events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use syncline_units::Time;

/// What an event is, in the order in which events of one time are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The network model's own.
    Network = 0,
    /// A message is there for the endpoint.
    Deliver = 1,
    /// A received message has been combined with local data.
    Reduced = 2,
    /// The last send of a chunk's phase has left.
    PhaseEnd = 3,
    /// A compute task is done.
    ComputeDone = 4,
    /// A memory task is done.
    MemoryDone = 5,
    /// A message that waited for its injection latency enters the network.
    Inject = 6,
    /// A point-to-point message has left.
    Sent = 7,
}

const KINDS: [Kind; 8] = [
    Kind::Network,
    Kind::Deliver,
    Kind::Reduced,
    Kind::PhaseEnd,
    Kind::ComputeDone,
    Kind::MemoryDone,
    Kind::Inject,
    Kind::Sent,
];

/// Bits of a key below the kind.
const KEY_BITS: u32 = 60;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: Time,
    /// Kind in the highest bits, then what orders events of one kind.
    key: u64,
    pub(crate) a: u32,
    pub(crate) b: u32,
}

impl Event {
    pub(crate) fn kind(&self) -> Kind {
        KINDS[(self.key >> KEY_BITS) as usize]
    }
    fn rank(&self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.key)
    }
}

impl Ord for Event {
    // The earliest is the greatest: the standard heap gives out the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank()).then_with(|| (other.a, other.b).cmp(&(self.a, self.b)))
    }
}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Future events. Network models see it as the place to put their own events and deliveries.
#[derive(Debug, Default)]
pub struct Calendar {
    heap: BinaryHeap<Event>,
    /// Time from arrival at the NPU until the endpoint has the message.
    pub(crate) endpoint: Time,
    /// Set where simulated time would not fit; the run ends with an error.
    pub(crate) overflow: bool,
}

impl Calendar {
    pub(crate) fn new(endpoint: Time) -> Self {
        Self { endpoint, ..Self::default() }
    }

    pub(crate) fn at(&mut self, time: Time, kind: Kind, key: u64, a: u32, b: u32) {
        let key = (kind as u64) << KEY_BITS | (key & ((1 << KEY_BITS) - 1));
        self.heap.push(Event { time, key, a, b });
    }

    /// Message `id` arrives at its NPU at `time`.
    #[inline]
    pub fn deliver(&mut self, time: Time, id: u32, key: u64) {
        self.at(time.saturating_add(self.endpoint), Kind::Deliver, key, id, 0);
        self.overflow |= time.0 > u64::MAX / 4;
    }

    /// Calls the model back at `time` with `a` and `b`. `key` orders calls of equal time.
    #[inline]
    pub fn call_back(&mut self, time: Time, key: u64, a: u32, b: u32) {
        self.overflow |= time.0 > u64::MAX / 4;
        self.at(time, Kind::Network, key, a, b);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop()
    }
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|event| event.time)
    }
}
