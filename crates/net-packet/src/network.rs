//! The model behind the engine's network interface: fabrics become ports, messages become bytes on
//! connections.

use crate::check::check;
use crate::flow::ConnectionKey;
use crate::layout::{Layout, Link};
use crate::parameters::{Parameters, Transport};
use crate::paths::most;
use crate::simulation::{Simulation, Sink};
use crate::tables;
use crate::trips::{PacketSize, PathTimes, Trips};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_fabric::Fabric;
use syncline_net_api::activity::Activity;
use syncline_net_api::{
    Calendar, Call, Halt, LinkUse, Measurements, NetworkModel, Packets as Counts, Sent, Stall, StretchId,
    Table, Transfer,
};
use syncline_units::{Bytes, LinkId, NpuId, Rate, Time};

/// Events to handle before the engine may check whether the run should stop.
const AT_ONCE: u32 = 1 << 8;

/// Packets on a fabric. Each link is a port. The first message of a job between a pair of NPUs on a lane
/// opens a connection, which stays open.
#[derive(Debug)]
pub struct Packets<'a> {
    fabric: &'a Fabric,
    /// Ports have the numbers of their links.
    simulation: Simulation,
    flows: BTreeMap<ConnectionKey, u32>,
    /// Most paths that packets take in turn, by set of parameters.
    spray: Vec<u32>,
    /// When the engine will call next, if it will.
    wake: Option<Time>,
    /// Messages on the critical path.
    trips: Trips,
    /// Sizes of full packets, by set of parameters.
    packets: Vec<PacketSize>,
}

/// Forwards events to the engine. Knows until when the engine has nothing else to do.
struct EngineSink<'a> {
    calendar: &'a mut Calendar,
    horizon: Time,
    trips: &'a mut Trips,
}

impl Sink for EngineSink<'_> {
    fn left(&mut self, time: Time, id: u32, key: u64) {
        self.trips.leaves(time, id, &mut self.calendar.trail);
        self.calendar.left(time, id, key);
        self.horizon = self.horizon.min(time);
    }

    fn delivered(&mut self, time: Time, id: u32, key: u64) {
        self.trips.arrives(time, id, &mut self.calendar.trail);
        self.calendar.deliver(time, id, key);
        self.horizon = self.horizon.min(time.saturating_add(self.calendar.endpoint_delay()));
    }
}

/// Parameters of the whole network, and of dimensions that have their own, such as scale-up and scale-out in
/// one fabric (dlrm2020, III-C.2). A connection uses the transport of the highest dimension on its path.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct PacketSettings {
    /// Parameters of every dimension that is not named below.
    #[serde(flatten)]
    pub all: Parameters,
    /// All parameters of a dimension, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: BTreeMap<String, Parameters>,
}

impl TryFrom<Map<String, Value>> for PacketSettings {
    type Error = serde_json::Error;

    fn try_from(mut keys: Map<String, Value>) -> Result<Self, Self::Error> {
        let dims = keys.remove("dims").map_or_else(|| Ok(BTreeMap::new()), serde_json::from_value)?;
        Ok(Self { all: serde_json::from_value(Value::Object(keys))?, dims })
    }
}

impl PacketSettings {
    /// Reports what is impossible about packets with these parameters on a fabric.
    pub fn check(&self, fabric: &Fabric) -> Diagnostics {
        let mut problems = Diagnostics::new();
        let names: Vec<&str> = fabric.dims().iter().map(|dim| dim.name.as_str()).collect();
        for name in self.dims.keys().filter(|name| !names.contains(&name.as_str())) {
            let error = Diagnostic::error(Code::BadValue, "the fabric has no such dimension")
                .key(format!("network.dims.{name}"));
            problems.push(if fabric.is_graph() {
                error
                    .found(name)
                    .help("a graph has no dimensions: one set of parameters applies to all of it")
            } else {
                error.one_of(name, names.iter().copied())
            });
        }
        let layout = self.layout(fabric);
        let own = |set: usize| names.get(set).filter(|&&name| self.dims.contains_key(name));
        let mut shared = false;
        for (set, parameters) in layout.sets.iter().enumerate() {
            if let Some(name) = own(set) {
                problems.extend(check(&layout, set, parameters, &format!("network.dims.{name}")));
            } else {
                // Dimensions share these parameters: report their problems once.
                let found = check(&layout, set, parameters, "network");
                let reported = shared;
                shared |= found.has_errors();
                if !reported {
                    problems.extend(found);
                }
            }
        }
        problems
    }

    /// Returns these settings, with `seed` for every set of parameters without a seed of its own.
    pub fn seeded(&self, seed: u64) -> Self {
        let seeded = |of: &Parameters| Parameters { seed: of.seed.or(Some(seed)), ..*of };
        Self {
            all: seeded(&self.all),
            dims: self.dims.iter().map(|(name, of)| (name.clone(), seeded(of))).collect(),
        }
    }

    /// Returns the fabric as ports and switches; sets of parameters have the numbers of their dimensions.
    fn layout(&self, fabric: &Fabric) -> Layout {
        let of = |name: &str| self.dims.get(name).copied().unwrap_or(self.all);
        let sets: Vec<Parameters> = match fabric.dims() {
            [] => vec![self.all],
            dims => dims.iter().map(|dim| of(&dim.name)).collect(),
        };
        let npus = fabric.npus();
        let switch = |vertex: u32| vertex.checked_sub(npus);
        let mut switches = vec![0; (fabric.vertices() - npus) as usize];
        let links = (0..fabric.links()).map(|number| {
            let link = fabric.link(LinkId(number));
            let (from, to, set) = (switch(link.from), switch(link.to), link.dim);
            for switch in from.into_iter().chain(to) {
                switches[switch as usize] = set;
            }
            Link { rate: link.rate, latency: link.latency, from, to, set }
        });
        let links = links.collect();
        Layout::new(sets, &switches, links)
    }
}

impl<'a> Packets<'a> {
    /// An idle network. [`PacketSettings::check`] must find nothing impossible in `settings`.
    pub fn new(fabric: &'a Fabric, settings: &PacketSettings) -> Self {
        let layout = settings.layout(fabric);
        let spray = |of: &Parameters| if of.transport == Transport::Tcp { of.spray } else { 1 };
        let spray = layout.sets.iter().map(spray).collect();
        let packets =
            layout.sets.iter().map(|of| PacketSize { payload: of.segment(), wire: of.wire() }).collect();
        let (simulation, trips) = (Simulation::new(&layout), Trips::default());
        Self { fabric, simulation, flows: BTreeMap::new(), spray, wake: None, trips, packets }
    }

    /// Returns the fabric that it runs on.
    pub fn fabric(&self) -> &Fabric {
        self.fabric
    }

    /// Returns the simulation of its packets.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Returns its connections with their numbers.
    pub fn flows(&self) -> impl Iterator<Item = (ConnectionKey, u32)> {
        self.flows.iter().map(|(&key, &flow)| (key, flow))
    }

    /// Returns the connection that a message belongs to, and opens it if necessary.
    ///
    /// # Errors
    /// There is no path in one of the two directions, or it is too long.
    fn flow(&mut self, transfer: &Transfer) -> Result<u32, Sent> {
        let &Transfer { from: NpuId(from), to: NpuId(to), lane, job, .. } = transfer;
        let key = ConnectionKey { from, to, lane, job };
        if let Some(&flow) = self.flows.get(&key) {
            return Ok(flow);
        }
        let there = self.paths(transfer.from, transfer.to, transfer.lane)?;
        let back = self.paths(transfer.to, transfer.from, transfer.lane)?;
        let flow = self.simulation.open_several(&there, &back);
        self.flows.insert(key, flow);
        let path = self.path_times(&there[0]);
        self.trips.open(path);
        Ok(flow)
    }

    /// Describes a path as a message that is alone on it finds it.
    fn path_times(&self, ports: &[u32]) -> PathTimes {
        let set = ports.iter().map(|&port| self.fabric.link(LinkId(port)).dim).max().unwrap_or(0);
        let (parts, packet) = (self.fabric.parts(), self.packets[usize::from(set)]);
        let speeds = || ports.iter().map(|&port| (self.fabric.speed(LinkId(port)).0, LinkId(port)));
        let (rate, slowest) = speeds().min_by_key(|&(rate, _)| rate).expect("a path has links");
        let tier = |link| parts.tier_id(link);
        let others = speeds().filter(|&(_, link)| tier(link) != tier(slowest)).map(|(rate, _)| rate).min();
        let takes = |rate: Rate| rate.transfer_time(Bytes(packet.wire)).unwrap_or(Time::MAX);
        let all = speeds().map(|(rate, _)| takes(rate)).fold(Time::ZERO, Time::saturating_add);
        let latencies = ports.iter().map(|&port| self.simulation.latency(port));
        PathTimes {
            rate,
            tier: tier(slowest),
            others,
            latency: latencies.fold(Time::ZERO, Time::saturating_add),
            hops: all.saturating_sub(takes(rate)),
            packet,
        }
    }

    /// Returns the paths of a connection in one direction: one, or several that packets take in turn.
    fn paths(&self, from: NpuId, to: NpuId, lane: u32) -> Result<Vec<Vec<u32>>, Sent> {
        let mut path = Vec::new();
        if !self.fabric.route(from, to, lane, &mut path) {
            return Err(Sent::NoRoute);
        }
        let most = most(path.len()).ok_or(Sent::TooFar)?;
        let set = path.iter().map(|&link| self.fabric.link(link).dim).max().unwrap_or(0);
        let spray = self.spray[usize::from(set)].min(most);
        let paths = if spray > 1 { self.fabric.routes(from, to, lane, spray) } else { vec![path] };
        Ok(paths.into_iter().map(|path| path.into_iter().map(|link| link.0).collect()).collect())
    }

    /// Asks the engine to call at the next event, unless it already will.
    fn ask(&mut self, now: Time, calendar: &mut Calendar) {
        if let Some(next) = self.simulation.next_time()
            && self.wake.is_none_or(|wake| next < wake)
        {
            let next = next.max(now);
            calendar.call_back(next, 0, Call { subject: 0, detail: 0 });
            self.wake = Some(next);
        }
    }
}

impl Measurements for Packets<'_> {
    fn link_use(&self, id: LinkId) -> LinkUse {
        let count = self.simulation.count(id.0);
        LinkUse {
            bytes: count.bytes,
            messages: count.packets,
            busy: Time(count.busy),
            waited: Time(count.waited),
        }
    }

    fn packets(&self) -> Option<Counts> {
        let mut all = Counts::default();
        for link in 0..self.fabric.links() {
            let count = self.simulation.count(link);
            all.dropped += count.drops;
            all.marked += count.marks;
            all.pauses += count.pauses;
        }
        all.sent = self.simulation.sent();
        all.initial_timeouts = self.simulation.initial_timeouts();
        let mut trips = Vec::new();
        for (repairs, round_trips) in self.simulation.flows() {
            all.retransmissions += repairs.retransmissions;
            all.timeouts += repairs.timeouts;
            trips.extend(round_trips.mean_s());
        }
        trips.sort_by(f64::total_cmp);
        if let Some(last) = trips.len().checked_sub(1) {
            // Nearest-rank percentile.
            let percentile = |p: usize| trips[((last + 1) * p).div_ceil(100).saturating_sub(1)];
            all.rtt_mean_s = trips.iter().sum::<f64>() / trips.len() as f64;
            (all.rtt_p50_s, all.rtt_p99_s) = (percentile(50), percentile(99));
        }
        Some(all)
    }

    fn tables(&self, finish: Time) -> Vec<Table> {
        let (fabric, simulation) = (self.fabric(), self.simulation());
        vec![
            tables::ports(fabric, simulation, finish),
            tables::flows(fabric, simulation, self.flows()),
            tables::queues(fabric, simulation, finish),
        ]
    }

    fn stalls(&self) -> Vec<Stall> {
        let mut keys = vec![ConnectionKey::default(); self.flows.len()];
        self.flows().for_each(|(key, flow)| keys[flow as usize] = key);
        let reported = |stall: crate::stalls::Stall| {
            let ConnectionKey { from, to, lane, .. } = keys[stall.flow as usize];
            Stall {
                from: NpuId(from),
                to: NpuId(to),
                lane,
                start: Time(stall.start),
                end: Time(stall.end),
                idle_from: Time(stall.idle_from),
                initial: stall.initial,
                in_a_row: stall.in_a_row,
            }
        };
        self.simulation.stalls().into_iter().map(reported).collect()
    }

    fn activity(&mut self) -> &mut Activity {
        self.simulation.activity()
    }
}

impl NetworkModel for Packets<'_> {
    fn tiers(&self) -> usize {
        self.fabric.parts().tiers.len()
    }

    fn name(&self) -> &'static str {
        "packet"
    }

    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent {
        if transfer.from == transfer.to {
            calendar.trail.deliver_locally(&transfer.origin, transfer.id);
            calendar.deliver(now, transfer.id, transfer.key);
            return Sent::At(now);
        }
        let flow = match self.flow(transfer) {
            Ok(flow) => flow,
            Err(refused) => return refused,
        };
        if calendar.trail.is_on() {
            self.trips.begins(now, transfer.id, flow, transfer.bytes, transfer.origin);
        }
        let mut sink = EngineSink { horizon: calendar.horizon(), calendar, trips: &mut self.trips };
        self.simulation.write(now, flow, transfer.bytes.0, transfer.id, transfer.key, &mut sink);
        self.ask(now, calendar);
        Sent::Later
    }

    fn call(&mut self, now: Time, _: Call, calendar: &mut Calendar) {
        if self.wake != Some(now) {
            // An earlier call has replaced this one.
            return;
        }
        self.wake = None;
        let mut sink = EngineSink { horizon: calendar.horizon(), calendar, trips: &mut self.trips };
        for _ in 0..AT_ONCE {
            if !self.simulation.step(sink.horizon, &mut sink) {
                break;
            }
        }
        self.ask(now, calendar);
    }

    fn visit_stretches(&mut self, visit: &mut dyn FnMut(&mut StretchId)) {
        self.trips.visit(visit);
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

    fn stuck(&self) -> Option<Halt> {
        let held = self.simulation.stuck();
        let link = |port: u32| {
            let link = self.fabric.link(LinkId(port));
            (self.fabric.vertex_name(link.from), self.fabric.vertex_name(link.to))
        };
        if let Some(&(port, bytes)) = held.iter().max_by_key(|&&(port, bytes)| (bytes, Reverse(port))) {
            let (from, to) = link(port);
            let why = format!(
                "priority flow control: {} ports were paused and never resumed, among them the one from {from} \
                 to {to}, which holds {}: packets wait for each other in a cycle",
                held.len(),
                Bytes(bytes),
            );
            let help = "make the network's buffers larger, turn off priority flow control (`network.pfc: false`), or \
                        choose routes without cycles";
            return Some(Halt { why, help });
        }
        let given_up = |&(_, flow): &(_, u32)| self.simulation.is_given_up(flow);
        let (key, _) = self.flows().find(given_up)?;
        let (from, to) = (self.fabric.vertex_name(key.from), self.fabric.vertex_name(key.to));
        Some(Halt {
            why: format!("the connection from {from} to {to} gave up after 8 time-outs in a row"),
            help: "let switches pause their senders (`network.pfc: true`), make their buffers larger, or turn on congestion \
             control (`network.congestion: dcqcn`)",
        })
    }

    fn events(&self) -> u64 {
        self.simulation.events()
    }

    fn stop_activity(&mut self, now: Time) {
        self.simulation.stop_activity(now);
    }
}
