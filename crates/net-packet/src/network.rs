//! The model behind the engine's network interface: fabrics as ports, messages as bytes on connections.

use crate::parameters::Parameters;
use crate::simulation::{Simulation, Sink};
use crate::tables;
use std::collections::BTreeMap;
use syncline_diagnostics::Diagnostics;
use syncline_engine::activity::Activity;
use syncline_engine::{Calendar, LinkUse, Network, Sent, Transfer};
use syncline_fabric::Fabric;
use syncline_timeline::{Packets as Counts, Table};
use syncline_units::{LinkId, Time};

/// Events that are handled before the engine may look whether the run is to stop.
const AT_ONCE: u32 = 1 << 8;

/// Packets on a fabric. Each link is a port; connections are opened by the first message of a pair and a lane, and stay.
#[derive(Debug)]
pub struct Packets<'a> {
    fabric: &'a Fabric,
    /// Ports are numbered as links.
    simulation: Simulation,
    /// By sender, receiver and lane.
    flows: BTreeMap<(u32, u32, u32), u32>,
    /// When the engine will call, if it will.
    wake: Option<Time>,
}

/// Tells the engine, and knows up to when the engine has nothing to do itself.
struct Told<'a> {
    calendar: &'a mut Calendar,
    horizon: Time,
}

impl Sink for Told<'_> {
    fn left(&mut self, time: Time, id: u32, key: u64) {
        self.calendar.left(time, id, key);
        self.horizon = self.horizon.min(time);
    }

    fn delivered(&mut self, time: Time, id: u32, key: u64) {
        self.calendar.deliver(time, id, key);
        self.horizon = self.horizon.min(time.saturating_add(self.calendar.endpoint_delay()));
    }
}

/// What is impossible about packets with such parameters on a fabric.
pub fn check(fabric: &Fabric, parameters: &Parameters) -> Diagnostics {
    parameters.check(degrees(fabric).values().copied().max().unwrap_or(1))
}

/// Egress ports of each switch.
fn degrees(fabric: &Fabric) -> BTreeMap<u32, u64> {
    let mut degrees = BTreeMap::new();
    for from in (0..fabric.links()).map(|link| fabric.link(LinkId(link)).from) {
        if from >= fabric.npus() {
            *degrees.entry(from).or_default() += 1;
        }
    }
    degrees
}

impl<'a> Packets<'a> {
    /// An idle network, of parameters in which [`check`] finds nothing impossible.
    pub fn new(fabric: &'a Fabric, parameters: Parameters) -> Self {
        let is_switch = |vertex: u32| vertex >= fabric.npus();
        let degree = degrees(fabric);
        let mut simulation = Simulation::new(parameters);
        for link in (0..fabric.links()).map(|link| fabric.link(LinkId(link))) {
            let ports = degree.get(&link.from);
            let buffer = parameters.buffer.zip(ports).map(|(buffer, &ports)| buffer.0 / ports);
            let forwarding = if is_switch(link.to) { parameters.forwarding } else { Time::ZERO };
            simulation.port(link.rate, link.latency.saturating_add(forwarding), buffer);
        }
        Self { fabric, simulation, flows: BTreeMap::new(), wake: None }
    }

    /// The fabric that it is on.
    pub fn fabric(&self) -> &Fabric {
        self.fabric
    }

    /// What became of packets.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Connections, by sender, receiver and lane, with their number.
    pub fn flows(&self) -> impl Iterator<Item = ((u32, u32, u32), u32)> {
        self.flows.iter().map(|(&pair, &flow)| (pair, flow))
    }

    /// The connection that a message belongs to; `None` where there is no way there, or none back.
    fn flow(&mut self, transfer: &Transfer) -> Option<u32> {
        let pair = (transfer.from.0, transfer.to.0, transfer.lane);
        if let Some(&flow) = self.flows.get(&pair) {
            return Some(flow);
        }
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let found = self.fabric.route(transfer.from, transfer.to, transfer.lane, &mut there)
            && self.fabric.route(transfer.to, transfer.from, transfer.lane, &mut back);
        if !found {
            return None;
        }
        let ports = |path: Vec<LinkId>| path.into_iter().map(|link| link.0).collect::<Vec<_>>();
        let flow = self.simulation.open(&ports(there), &ports(back));
        self.flows.insert(pair, flow);
        Some(flow)
    }

    /// Asks to be called at the next event, unless that is so already.
    fn ask(&mut self, now: Time, calendar: &mut Calendar) {
        if let Some(next) = self.simulation.next_time()
            && self.wake.is_none_or(|wake| next < wake)
        {
            let next = next.max(now);
            calendar.call_back(next, 0, 0, 0);
            self.wake = Some(next);
        }
    }
}

impl Network for Packets<'_> {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent {
        if transfer.from == transfer.to {
            calendar.deliver(now, transfer.id, transfer.key);
            return Sent::At(now);
        }
        let Some(flow) = self.flow(transfer) else { return Sent::NoRoute };
        let mut told = Told { horizon: calendar.horizon(), calendar };
        self.simulation.write(now, flow, transfer.bytes.0, transfer.id, transfer.key, &mut told);
        self.ask(now, calendar);
        Sent::Later
    }

    fn call(&mut self, now: Time, _: u32, _: u32, calendar: &mut Calendar) {
        if self.wake != Some(now) {
            // It was to wake earlier, and has.
            return;
        }
        self.wake = None;
        let mut told = Told { horizon: calendar.horizon(), calendar };
        for _ in 0..AT_ONCE {
            if !self.simulation.step(told.horizon, &mut told) {
                break;
            }
        }
        self.ask(now, calendar);
    }

    fn link_use(&self, id: LinkId) -> LinkUse {
        let count = self.simulation.count(id.0);
        LinkUse {
            bytes: count.bytes,
            messages: count.packets,
            busy: Time(count.busy),
            waited: Time(count.waited),
        }
    }

    fn cut(&mut self, now: Time) {
        self.simulation.cut(now);
    }

    fn overbooked(&self) -> Option<String> {
        let links = (0..self.fabric.links()).map(|link| (link, self.simulation.count(link).busy));
        let (link, busy) =
            links.into_iter().find(|&(link, busy)| Time(busy) > self.simulation.drained(link))?;
        Some(format!("port {link} was sending for {} of {}", Time(busy), self.simulation.drained(link)))
    }

    fn events(&self) -> u64 {
        self.simulation.events()
    }

    fn packets(&self) -> Option<Counts> {
        let mut all = Counts::default();
        for link in 0..self.fabric.links() {
            let count = self.simulation.count(link);
            (all.dropped, all.marked) = (all.dropped + count.drops, all.marked + count.marks);
        }
        all.sent = self.simulation.sent();
        let mut trips = Vec::new();
        for (repairs, round_trips) in self.simulation.flows() {
            all.retransmissions += repairs.retransmissions;
            all.timeouts += repairs.timeouts;
            trips.extend(round_trips.mean_s());
        }
        trips.sort_by(f64::total_cmp);
        if let Some(last) = trips.len().checked_sub(1) {
            // The nearest rank.
            let percentile = |p: usize| trips[((last + 1) * p).div_ceil(100).saturating_sub(1)];
            all.rtt_mean_s = trips.iter().sum::<f64>() / trips.len() as f64;
            (all.rtt_p50_s, all.rtt_p99_s) = (percentile(50), percentile(99));
        }
        Some(all)
    }

    fn tables(&self, finish: Time) -> Vec<Table> {
        vec![tables::ports(self, finish), tables::flows(self)]
    }

    fn activity(&mut self) -> &mut Activity {
        self.simulation.activity()
    }

    fn stop_activity(&mut self, now: Time) {
        self.simulation.stop_activity(now);
    }
}
