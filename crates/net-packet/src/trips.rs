//! What messages come after on the critical path, and what their time on the network is spent on.
//!
//! A message's bytes take what they take alone on its way; of what is more, the connection stands still until a time-out, or
//! waits for packets of others, for its window, or for acknowledgements: that is queueing. Messages of one connection follow
//! each other.

use syncline_engine::path::{Origin, START, Trail};
use syncline_units::{Bytes, Rate, Time};

/// The way of a connection, as a message that is alone on it finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Rate and tier of its slowest link.
    pub(crate) rate: Rate,
    pub(crate) tier: u16,
    /// Rate of the slowest link of another tier.
    pub(crate) others: Option<Rate>,
    /// Latency of all links and switches.
    pub(crate) latency: Time,
    /// What the links but the slowest take for the last packet.
    pub(crate) hops: Time,
    /// Payload of a full packet, and what it has on the wire.
    pub(crate) packet: (u64, u64),
}

impl Way {
    /// How long the bytes of a message take.
    fn alone(&self, bytes: Bytes) -> Time {
        let (payload, wire) = self.packet;
        let all = u128::from(bytes.0) * u128::from(wire) / u128::from(payload.max(1));
        let time = self.rate.transfer_time(Bytes(all as u64)).unwrap_or(Time::MAX);
        time.saturating_add(self.hops)
    }

    /// What takes `bytes` on the slowest link and `taken` altogether ends with `stretch`: links of other tiers need their time
    /// for it, too.
    fn bound_by_others(&self, stretch: u32, bytes: Time, taken: Time, trail: &mut Trail) {
        if let Some(others) = self.others {
            let time = u128::from(bytes.0) * u128::from(self.rate.0) / u128::from(others.0.max(1));
            trail.bound_by_others(stretch, self.tier, taken, Time(time as u64));
        }
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Trip {
    flow: u32,
    origin: Origin,
    began: Time,
    /// What is left of what its bytes take.
    bytes: Time,
    /// When its last byte left.
    left: Time,
}

/// Messages under way, and what connections did last.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    /// By number of the message.
    messages: Vec<Option<Trip>>,
    /// By connection: its way, and the stretch with which its last message left, and when.
    connections: Vec<(Way, u32, Time)>,
}

impl Trips {
    /// One more connection.
    pub(crate) fn open(&mut self, way: Way) {
        self.connections.push((way, START, Time::ZERO));
    }

    /// Message `id` is written to a connection.
    pub(crate) fn begins(&mut self, now: Time, id: u32, flow: u32, bytes: Bytes, origin: Origin) {
        if self.messages.len() <= id as usize {
            self.messages.resize(id as usize + 1, None);
        }
        let bytes = self.connections[flow as usize].0.alone(bytes);
        self.messages[id as usize] = Some(Trip { flow, origin, began: now, bytes, left: now });
    }

    /// The last byte of message `id` leaves at `time`.
    pub(crate) fn leaves(&mut self, time: Time, id: u32, trail: &mut Trail) {
        let Some(Some(trip)) = self.messages.get_mut(id as usize).filter(|_| trail.is_on()) else { return };
        let (way, last, until) = &mut self.connections[trip.flow as usize];
        let (came, before) = (trail.comes(&trip.origin, trip.began), trail.moment(*last, *until));
        let since = trip.began.max(*until);
        let origin = trip.origin.after(trail.later(before, came).stretch(), since);
        let taken = time.saturating_sub(since);
        let bytes = taken.min(trip.bytes);
        let stretch = trail.bytes(&origin, way.tier, bytes);
        let stretch = trail.queueing(&origin.after(stretch, time), way.tier, taken.saturating_sub(bytes));
        way.bound_by_others(stretch, bytes, taken, trail);
        (trip.bytes, trip.left) = (trip.bytes.saturating_sub(bytes), time);
        trip.origin = trip.origin.after(stretch, time);
        (*last, *until) = (stretch, time);
        trail.arrives(id, stretch);
    }

    /// Message `id` is there at `time`.
    pub(crate) fn arrives(&mut self, time: Time, id: u32, trail: &mut Trail) {
        let Some(trip) = self.messages.get_mut(id as usize).and_then(Option::take).filter(|_| trail.is_on())
        else {
            return;
        };
        let way = self.connections[trip.flow as usize].0;
        let taken = time.saturating_sub(trip.left).saturating_sub(way.latency);
        let bytes = taken.min(trip.bytes);
        let stretch = trail.bytes(&trip.origin, way.tier, bytes);
        let stretch =
            trail.queueing(&trip.origin.after(stretch, time), way.tier, taken.saturating_sub(bytes));
        way.bound_by_others(stretch, bytes, taken, trail);
        trail.arrives(id, stretch);
    }

    /// Visits every stretch that is referred to.
    pub(crate) fn visit(&mut self, visit: &mut dyn FnMut(&mut u32)) {
        self.messages.iter_mut().flatten().for_each(|trip| visit(trip.origin.stretch_mut()));
        self.connections.iter_mut().for_each(|(_, stretch, _)| visit(stretch));
    }
}
