//! Kinds of events, in the order in which events of one time are handled.

use syncline_net_api::calendar::{self, Event};

/// Kind of an event. Events at the same time are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A call of the network model.
    Network = calendar::CALL,
    /// A message has left its NPU, for models that did not know this time when they accepted it.
    Left = calendar::LEFT,
    /// The endpoint has received a message.
    Deliver = calendar::DELIVER,
    /// A received message has been combined with local data.
    Reduced = 3,
    /// The last send of a chunk's phase has left.
    PhaseEnd = 4,
    /// A compute task is done.
    ComputeDone = 5,
    /// A memory task is done.
    MemoryDone = 6,
    /// A message enters the network, after its injection latency.
    Inject = 7,
    /// A point-to-point message has left.
    Sent = 8,
    /// Ranks begin a chunk that another rank has begun. Handled late, because most ranks begin it by themselves.
    Admit = 9,
    /// A rank that starts late begins its first iteration.
    Begin = 10,
    /// A call of the network model, after everything else at that time.
    NetworkLast = calendar::CALL_LAST,
}

impl Kind {
    /// The kind of `event`.
    #[inline]
    pub(crate) fn of(event: &Event) -> Self {
        match event.kind() {
            calendar::CALL => Self::Network,
            calendar::LEFT => Self::Left,
            calendar::DELIVER => Self::Deliver,
            3 => Self::Reduced,
            4 => Self::PhaseEnd,
            5 => Self::ComputeDone,
            6 => Self::MemoryDone,
            7 => Self::Inject,
            8 => Self::Sent,
            9 => Self::Admit,
            10 => Self::Begin,
            _ => Self::NetworkLast,
        }
    }
}
