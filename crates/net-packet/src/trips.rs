//! What messages wait for on the critical path, and how they spend their time on the network.
//!
//! The bytes of a message take some time even if it is alone on its path. Any time beyond that counts as
//! queueing: the connection stands still until a time-out, or waits for other packets, its window, or
//! acknowledgements. Messages of one connection follow each other.

use syncline_net_api::{Origin, StretchId, Trail};
use syncline_units::{Bytes, Rate, TierId, Time};

/// The path of a connection, as a message that is alone on it finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathTimes {
    /// Rate and tier of its slowest link.
    pub(crate) rate: Rate,
    pub(crate) tier: TierId,
    /// Rate of the slowest link of another tier.
    pub(crate) others: Option<Rate>,
    /// Latency of all links and switches.
    pub(crate) latency: Time,
    /// Time that all links but the slowest take for the last packet.
    pub(crate) hops: Time,
    pub(crate) packet: PacketSize,
}

/// The size of a full packet, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketSize {
    pub(crate) payload: u64,
    /// Bytes on the wire.
    pub(crate) wire: u64,
}

impl PathTimes {
    /// Returns how long a message that is alone on the path takes for its bytes.
    fn alone(&self, bytes: Bytes) -> Time {
        let PacketSize { payload, wire } = self.packet;
        let all = u128::from(bytes.0) * u128::from(wire) / u128::from(payload.max(1));
        let time = self.rate.transfer_time(Bytes(all as u64)).unwrap_or(Time::MAX);
        time.saturating_add(self.hops)
    }

    /// Records the time that links of other tiers need for what takes `bytes` on the slowest link and ends
    /// with `stretch` after `taken` in total.
    fn bound_by_others(&self, stretch: StretchId, bytes: Time, taken: Time, trail: &mut Trail) {
        if let Some(others) = self.others {
            let time = u128::from(bytes.0) * u128::from(self.rate.0) / u128::from(others.0.max(1));
            trail.bound_by_others(stretch, self.tier, taken, Time(time as u64));
        }
    }
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
struct Trip {
    flow: u32,
    origin: Origin,
    began: Time,
    /// Time that its bytes still need.
    bytes: Time,
    /// When its last byte left.
    left: Time,
}

/// Messages in flight, and what each connection did last.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    /// Indexed by message.
    messages: Vec<Option<Trip>>,
    /// Indexed by connection: its path, the stretch with which its last message left, and when that was.
    connections: Vec<(PathTimes, StretchId, Time)>,
}

impl Trips {
    /// Adds a connection.
    pub(crate) fn open(&mut self, path: PathTimes) {
        self.connections.push((path, StretchId::START, Time::ZERO));
    }

    /// Called when message `id` is written to a connection.
    pub(crate) fn begins(&mut self, now: Time, id: u32, flow: u32, bytes: Bytes, origin: Origin) {
        if self.messages.len() <= id as usize {
            self.messages.resize(id as usize + 1, None);
        }
        let bytes = self.connections[flow as usize].0.alone(bytes);
        self.messages[id as usize] = Some(Trip { flow, origin, began: now, bytes, left: now });
    }

    /// Called when the last byte of message `id` leaves, at `time`.
    pub(crate) fn leaves(&mut self, time: Time, id: u32, trail: &mut Trail) {
        let Some(Some(trip)) = self.messages.get_mut(id as usize).filter(|_| trail.is_on()) else { return };
        let (path, last, until) = &mut self.connections[trip.flow as usize];
        let (came, before) = (trail.reach_port(&trip.origin, trip.began), trail.moment(*last, *until));
        let since = trip.began.max(*until);
        let origin = trip.origin.after(trail.later(before, came).stretch(), since);
        let taken = time.saturating_sub(since);
        let bytes = taken.min(trip.bytes);
        let stretch = trail.bytes(&origin, path.tier, bytes);
        let stretch =
            trail.queueing(&origin.after(stretch, time), Some(path.tier), taken.saturating_sub(bytes));
        path.bound_by_others(stretch, bytes, taken, trail);
        (trip.bytes, trip.left) = (trip.bytes.saturating_sub(bytes), time);
        trip.origin = trip.origin.after(stretch, time);
        (*last, *until) = (stretch, time);
        trail.arrives(id, stretch);
    }

    /// Called when message `id` has arrived, at `time`.
    pub(crate) fn arrives(&mut self, time: Time, id: u32, trail: &mut Trail) {
        let Some(trip) = self.messages.get_mut(id as usize).and_then(Option::take).filter(|_| trail.is_on())
        else {
            return;
        };
        let path = self.connections[trip.flow as usize].0;
        let taken = time.saturating_sub(trip.left).saturating_sub(path.latency);
        let bytes = taken.min(trip.bytes);
        let stretch = trail.bytes(&trip.origin, path.tier, bytes);
        let stretch =
            trail.queueing(&trip.origin.after(stretch, time), Some(path.tier), taken.saturating_sub(bytes));
        path.bound_by_others(stretch, bytes, taken, trail);
        trail.arrives(id, stretch);
    }

    /// Visits every stretch that this refers to.
    pub(crate) fn visit(&mut self, visit: &mut dyn FnMut(&mut StretchId)) {
        self.messages.iter_mut().flatten().for_each(|trip| visit(trip.origin.stretch_mut()));
        self.connections.iter_mut().for_each(|(_, stretch, _)| visit(stretch));
    }
}
