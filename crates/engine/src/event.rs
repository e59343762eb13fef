//! Kinds of events, in the order in which events of one time are handled.

use syncline_net_api::calendar::{self, Event};

/// Kind of an event. Events at the same time are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// A call of the network model.
    Network = calendar::CALL,
    /// A message has left its NPU, for models that did not know this time when they accepted it.
    Left = calendar::LEFT,
    /// The endpoint has received a message.
    Deliver = calendar::DELIVER,
    /// A received message has been combined with local data.
    Reduced = calendar::DELIVER + 1,
    /// The last send of a chunk's phase has left.
    PhaseEnd,
    /// A compute task is done.
    ComputeDone,
    /// A memory task is done.
    MemoryDone,
    /// A message enters the network, after its injection latency.
    Inject,
    /// A point-to-point message has left.
    Sent,
    /// Ranks begin a chunk that another rank has begun. Handled late, because most ranks begin it by themselves.
    Admit,
    /// A rank that starts late begins its first iteration.
    Begin,
    /// A call of the network model, after everything else at that time.
    NetworkLast = calendar::CALL_LAST,
}

/// The kinds that are the engine's own.
const OWN: [EventKind; 8] = [
    EventKind::Reduced,
    EventKind::PhaseEnd,
    EventKind::ComputeDone,
    EventKind::MemoryDone,
    EventKind::Inject,
    EventKind::Sent,
    EventKind::Admit,
    EventKind::Begin,
];

impl EventKind {
    /// The kind of `event`.
    #[inline]
    pub(crate) fn of(event: &Event) -> Self {
        match event.kind() {
            calendar::CALL => Self::Network,
            calendar::LEFT => Self::Left,
            calendar::DELIVER => Self::Deliver,
            calendar::CALL_LAST => Self::NetworkLast,
            own => OWN[usize::from(own - Self::Reduced as u8)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_net_api::Calendar;
    use syncline_units::Time;

    #[test]
    fn kinds_of_events_at_one_time_come_in_order() {
        let ends = [EventKind::Network, EventKind::Left, EventKind::Deliver];
        let all: Vec<EventKind> = ends.into_iter().chain(OWN).chain([EventKind::NetworkLast]).collect();
        let mut calendar = Calendar::new(Time::ZERO);
        for &kind in all.iter().rev() {
            calendar.at(Time(5), kind as u8, 0, 0, 0);
        }
        let found: Vec<EventKind> =
            std::iter::from_fn(|| calendar.pop()).map(|event| EventKind::of(&event)).collect();
        assert_eq!(found, all);
    }
}
