//! The model behind the engine's network interface: messages of a connection in order, connections at fair
//! rates.
//!
//! - `connections`: which messages share a connection, and its path;
//! - `accounts`: what links carried, when, and which messages they held back;
//! - `refusal`: the error for weights with which messages would never end.

mod accounts;
mod connections;
mod refusal;
#[cfg(test)]
mod tests;

use crate::settings::{FlowSettings, Traffic};
use crate::sharing::Sharing;
use accounts::Accounts;
use connections::{Connection, Connections, Ends};
use syncline_diagnostics::Diagnostic;
use syncline_fabric::{Fabric, Symmetry};
use syncline_net_api::activity::Activity;
use syncline_net_api::{
    Calendar, Call, Contention, LinkUse, Measurements, NetworkModel, Owner, Sent, Transfer,
};
use syncline_net_api::{Origin, StretchId, Trail};
use syncline_units::{Bytes, LinkId, Rate, Time};

/// The model calls itself: messages are complete.
const THROUGH: Call = Call { subject: 0, detail: 0 };
/// The model calls itself: all messages of a time have been sent.
const SETTLE: Call = Call { subject: 0, detail: 1 };

/// A message in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    id: u32,
    key: u64,
    bytes: Bytes,
    owner: Owner,
    /// Number of its connection, once that is open.
    connection: u32,
    began: Time,
    origin: Origin,
}

/// Messages on a fabric. One link of each class is represented.
#[derive(Debug)]
pub struct Flows<'a> {
    settings: FlowSettings,
    connections: Connections<'a>,
    sharing: Sharing,
    accounts: Accounts,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Messages of the current time whose connection is not open yet.
    coming: Vec<(Ends, u32)>,
    /// Whether a call is due once all messages of the current time have been sent.
    settling: bool,
    /// When the engine will call next, if it will.
    wake: Option<Time>,
    /// When bytes were last counted.
    last: Time,
    /// Number of complete messages.
    events: u64,
}

impl<'a> Flows<'a> {
    /// An idle network. [`FlowSettings::check`] must find nothing impossible in `settings`.
    pub fn new(fabric: &'a Fabric, symmetry: Symmetry, settings: &FlowSettings) -> Self {
        let connections = Connections::new(fabric, symmetry, settings.paths);
        let rates: Vec<Rate> = connections.links().into_iter().map(|link| fabric.speed(link).0).collect();
        Self {
            accounts: Accounts::new(rates.len()),
            sharing: Sharing::new(rates, settings.classes(), settings.paths > 1, settings.bits()),
            settings: settings.clone(),
            connections,
            flights: Vec::new(),
            free: Vec::new(),
            coming: Vec::new(),
            settling: false,
            wake: None,
            last: Time::ZERO,
            events: 0,
        }
    }

    /// Schedules a call for when all messages of the current time have been sent.
    fn settle_later(&mut self, now: Time, calendar: &mut Calendar) {
        if !self.settling {
            self.settling = true;
            calendar.call_last(now, SETTLE);
        }
    }

    /// Returns a number for a message in flight.
    fn flight(&mut self, flight: Flight) -> u32 {
        let Some(number) = self.free.pop() else {
            self.flights.push(flight);
            return self.flights.len() as u32 - 1;
        };
        self.flights[number as usize] = flight;
        number
    }

    /// Opens connections for the messages of the current time, then finds rates.
    fn settle(&mut self, now: Time, calendar: &mut Calendar) {
        self.accounts.book(&mut self.sharing, now, self.connections.are_closed());
        // Messages of one connection stay in order; connections are opened in the order of their ends.
        self.coming.sort_by_key(|&(ends, _)| ends);
        for (ends, number) in self.coming.drain(..) {
            let connection = self.connections.open(&ends, &mut self.sharing);
            let flight = &mut self.flights[number as usize];
            flight.connection = connection;
            self.sharing.start(now, connection, flight.bytes, number);
        }
        self.sharing.settle(now, |connection| self.connections.close(connection));
        let next = self.sharing.next();
        if let Some(next) = next
            && self.wake != Some(next)
        {
            self.wake = Some(next);
            calendar.call_back(next, 0, THROUGH);
        }
        // The next message ends later than time can represent: the calendar reports it.
        if next.is_none() && !self.connections.are_closed() && self.sharing.starved().is_none() {
            calendar.call_back(Time::MAX, 0, THROUGH);
        }
    }

    /// Handles messages that are complete.
    fn through(&mut self, now: Time, calendar: &mut Calendar) {
        self.accounts.book(&mut self.sharing, now, self.connections.are_closed());
        self.last = now;
        let mut through = Vec::new();
        self.sharing.finish(now, |flight| through.push(flight));
        for &number in &through {
            let flight = self.flights[number as usize];
            let Flight { id, key, bytes, owner, connection, began, .. } = flight;
            self.trace(now, &flight, &mut calendar.trail);
            let connection = self.connections.get(connection);
            calendar.left(now, id, key);
            calendar.deliver(now.saturating_add(connection.latency), id, key);
            self.accounts.count(connection, bytes, self.sharing.whole());
            let alone = connection.alone.transfer_time(bytes).unwrap_or(Time::MAX);
            let delay = now.saturating_sub(began).saturating_sub(alone);
            self.accounts.delay(self.bottleneck(connection), owner, bytes, delay);
            self.free.push(number);
        }
        self.events += through.len() as u64;
        self.settle_later(now, calendar);
    }

    /// Records what a complete message waited for, since the message before it on its connection was
    /// complete. The time that its bytes take alone counts as bytes. Time lost to other connections on a
    /// shared link counts as queueing, but time lost to others of the same sender on its first link counts as
    /// bytes.
    fn trace(&mut self, now: Time, flight: &Flight, trail: &mut Trail) {
        if !trail.is_on() {
            return;
        }
        let connection = self.connections.get(flight.connection);
        let (last, until) = connection.last;
        let (came, last) = (trail.reach_port(&flight.origin, flight.began), trail.moment(last, until));
        let after = trail.later(last, came).stretch();
        let origin = flight.origin.after(after, until.max(flight.began));
        let time = now.saturating_sub(until.max(flight.began));
        let alone = connection.alone.transfer_time(flight.bytes).unwrap_or(Time::MAX).min(time);
        let port = self.bottleneck(connection);
        let (tier, own) = (self.connections.tier(port), connection.links[0].port == port);
        let others = if own { Time::ZERO } else { time.saturating_sub(alone) };
        let mut stretch = trail.bytes(&origin, tier, time.saturating_sub(others));
        if !others.is_zero() {
            stretch = trail.queueing(&origin.after(stretch, now), Some(tier), others);
        }
        let others = self.connections.rate_of_others(connection, tier, self.sharing.whole());
        let others = others.and_then(|rate| rate.transfer_time(flight.bytes)).unwrap_or_default();
        trail.bound_by_others(stretch, tier, time, others);
        trail.arrives(flight.id, stretch);
        self.connections.get_mut(flight.connection).last = (stretch, now);
    }

    /// Returns the port that holds a connection back: the first on its path whose level is the lowest, apart
    /// from rounding.
    fn bottleneck(&self, connection: &Connection) -> u32 {
        let level = |port| self.sharing.level(port, connection.ends.class);
        let ports = || connection.links.iter().map(|passed| passed.port);
        let lowest = ports().map(level).min().expect("a path has links");
        ports().find(|&port| level(port) - lowest <= lowest >> 20).expect("one port has the lowest level")
    }
}

impl Measurements for Flows<'_> {
    fn link_use(&self, id: LinkId) -> LinkUse {
        let used = self.accounts.uses()[self.connections.port(id) as usize];
        let rate = self.connections.fabric().speed(id).0;
        LinkUse { busy: rate.transfer_time(Bytes(used.bytes)).unwrap_or_default(), ..used }
    }

    fn activity(&mut self) -> &mut Activity {
        self.accounts.activity()
    }

    fn contention(&self) -> Vec<Contention> {
        self.accounts.contention(&self.connections.links())
    }
}

impl NetworkModel for Flows<'_> {
    const OWNERS: bool = true;

    fn tiers(&self) -> usize {
        self.connections.fabric().parts().tiers.len()
    }

    fn name(&self) -> &'static str {
        "flow"
    }

    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent {
        let Transfer { id, from, to, lane, job, bytes, key, owner, origin } = *transfer;
        if from == to {
            calendar.trail.deliver_locally(&origin, id);
            calendar.deliver(now, id, key);
            return Sent::At(now);
        }
        let traffic = Traffic::from(owner);
        let (class, weight) = (self.settings.class(traffic), self.settings.weight(traffic));
        let ends = Ends { from, to, lane, job, class, weight };
        let open = self.connections.number(&ends);
        if open.is_none() && !self.connections.find(&ends) {
            return Sent::NoRoute;
        }
        let connection = open.unwrap_or_default();
        let number = self.flight(Flight { id, key, bytes, owner, connection, began: now, origin });
        let waits = open.is_some_and(|connection| self.sharing.start(now, connection, bytes, number));
        if open.is_none() {
            self.coming.push((ends, number));
        }
        if !waits {
            self.settle_later(now, calendar);
        }
        Sent::Later
    }

    fn call(&mut self, now: Time, call: Call, calendar: &mut Calendar) {
        if call == SETTLE {
            self.settling = false;
            self.settle(now, calendar);
        } else if self.wake == Some(now) {
            self.wake = None;
            self.through(now, calendar);
        }
    }

    fn visit_stretches(&mut self, visit: &mut dyn FnMut(&mut StretchId)) {
        self.flights.iter_mut().for_each(|flight| visit(flight.origin.stretch_mut()));
        self.connections.stretches().for_each(visit);
    }

    fn cut(&mut self, now: Time) {
        self.last = now;
        // Messages in flight count as sent to the extent that they were served.
        for number in self.connections.numbers() {
            let (served, connection) = (self.sharing.served(number, now), self.connections.get(number));
            self.accounts.count_bytes(connection, served, self.sharing.whole());
        }
    }

    fn overbooked(&self) -> Option<String> {
        // With a precision, the level of a link may be too high by that fraction.
        let allowed = Time((self.last.0 as f64 * (1.0 + 2.0 * self.settings.precision)) as u64);
        let allowed = allowed.max(self.last);
        let took = |used: &LinkUse, port| self.sharing.time_of(port, Bytes(used.bytes));
        let mut ports = (0..).zip(self.accounts.uses()).map(|(port, used)| (port, took(used, port)));
        let (port, took) = ports.find(|&(_, took)| took > allowed)?;
        Some(format!("port {port} sent within {} what takes it {took}", self.last))
    }

    fn stop_activity(&mut self, now: Time) {
        self.accounts.stop(&mut self.sharing, now, self.connections.are_closed());
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn refusal(&self) -> Option<Diagnostic> {
        self.starved()
    }
}
