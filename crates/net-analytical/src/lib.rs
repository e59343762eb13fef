//! The two simplest network models, on any fabric and routing.
//!
//! - [`Model::Analytical`]: latency times hops plus bytes over rate (hier2021 Eq. 8), cut through. The link
//!   by which a message leaves its NPU is busy while it sends, and the link by which it reaches its NPU while
//!   it receives, so nothing exceeds the rate of a network interface. Links in between count the bytes and
//!   messages that pass them, but are never busy: nothing waits for them.
//! - [`Model::Queued`]: every link is a FIFO, and every message is stored and forwarded whole.
//!
//! On a path of one link, both give the same result.

use std::collections::BTreeMap;
use syncline_fabric::{Fabric, Symmetry};
use syncline_net_api::activity::{Activity, Recent};
use syncline_net_api::{Calendar, Call, LinkUse, Measurements, NetworkModel, Repeats, Sent, Transfer};
use syncline_net_api::{Origin, Route, StretchId, Tail, Trail};
use syncline_units::{Bytes, LinkId, NpuId, Rate, TierId, Time};

/// Selects one of the models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Busy ports, no contention between them.
    Analytical,
    /// FIFO links, store and forward.
    Queued,
}

/// A link's state.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    free: Time,
    /// End of the message that it was last busy with.
    tail: Tail,
    /// Tier of the links that it represents.
    tier: TierId,
    used: LinkUse,
    recent: Recent,
}

/// A port that is being sent over.
#[derive(Clone, Copy, Debug)]
struct Occupied {
    port: usize,
    /// When sending starts.
    start: Time,
    /// How long it takes.
    time: Time,
}

/// A message on a link.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// The port of the link.
    port: usize,
    /// When it reaches the link.
    comes: Time,
    /// When sending starts.
    start: Time,
    /// How long sending takes.
    time: Time,
    route: Route,
    /// Whether the link is the first one from its sender.
    own: bool,
}

/// The slowest of the links that a message passes at the same time (analytical).
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    tier: TierId,
    /// How long the message's bytes take there.
    time: Time,
    /// How long they take on the slowest link of another tier.
    others: Time,
}

impl Slowest {
    /// Adds a link of `tier`, on which the bytes take `time`.
    #[inline]
    fn or(self, tier: TierId, time: Time) -> Self {
        let Self { tier: known, time: most, others } = self;
        match tier == known {
            true => Self { time: time.max(most), ..self },
            false if time > most => Self { tier, time, others: most },
            false => Self { others: others.max(time), ..self },
        }
    }
}

/// A message on a path of several links.
#[derive(Clone, Debug)]
struct Travel {
    id: u32,
    key: u64,
    bytes: Bytes,
    path: Vec<LinkId>,
    /// Analytical: when the last bit would reach the last link if that is idle, and what delays it until
    /// then.
    tail: Time,
    slowest: Slowest,
    ends: Ends,
    origin: Origin,
}

impl Travel {
    const UNUSED: Self = Self {
        id: 0,
        key: 0,
        bytes: Bytes(0),
        path: Vec::new(),
        tail: Time::ZERO,
        slowest: Slowest { tier: TierId(0), time: Time::ZERO, others: Time::ZERO },
        ends: Ends { from: 0, to: 0 },
        origin: Origin::UNKNOWN,
    };
}

/// The NPUs that send and receive a message.
#[derive(Clone, Copy, Debug)]
struct Ends {
    from: u32,
    to: u32,
}

impl Ends {
    fn of(transfer: &Transfer) -> Self {
        Self { from: transfer.from.0, to: transfer.to.0 }
    }

    /// The route of a message up to link `hop` of its path.
    fn route(self, hop: u32) -> Route {
        let Self { from, to } = self;
        Route { from, to, hop }
    }
}

/// Either model on a fabric.
#[derive(Debug)]
pub struct Links<'a> {
    fabric: &'a Fabric,
    symmetry: Symmetry,
    model: Model,
    /// By class of links.
    ports: Vec<Port>,
    activity: Activity,
    travels: Vec<Travel>,
    free_travels: Vec<u32>,
    path: Vec<LinkId>,
    /// Used if routes lead unevenly over links inside the network (see [`Symmetry::is_uneven_inside`]).
    inside: Inside,
    /// The last transfer time computed: most messages have the same length as the previous one.
    last: LastTransfer,
}

/// A transfer time that was computed.
#[derive(Clone, Copy, Debug)]
struct LastTransfer {
    rate: Rate,
    bytes: Bytes,
    time: Time,
}

/// Links inside the network on the routes of all messages that one represents: message by message, in the
/// order of the route.
#[derive(Clone, Debug, Default)]
struct Inside {
    links: Vec<LinkId>,
    /// Where a message's links begin, by sender, receiver and lane.
    of: BTreeMap<(NpuId, NpuId, u32), usize>,
}

impl Inside {
    /// Returns where the links of a message begin.
    fn find(&mut self, fabric: &Fabric, symmetry: &Symmetry, transfer: &Transfer) -> usize {
        let &Transfer { from, to, lane, .. } = transfer;
        let links = &mut self.links;
        *self.of.entry((from, to, lane)).or_insert_with(|| {
            let (begin, mut path) = (links.len(), Vec::new());
            for member in 0..symmetry.members() {
                path.clear();
                let [from, to] = [from, to].map(|npu| symmetry.moved(npu, member));
                let found = fabric.route(from, to, lane, &mut path);
                debug_assert!(found, "routes were compared");
                links.extend(&path[1..path.len() - 1]);
            }
            begin
        })
    }
}

impl<'a> Links<'a> {
    /// A model on an idle fabric. One link of each class is represented.
    pub fn new(fabric: &'a Fabric, symmetry: Symmetry, model: Model) -> Self {
        let mut ports = vec![Port::default(); symmetry.ports() as usize];
        let parts = fabric.parts();
        for link in symmetry.links() {
            ports[symmetry.port(link) as usize].tier = parts.tier_id(link);
        }
        Self {
            fabric,
            model,
            ports,
            activity: Activity::new(symmetry.ports() as usize),
            symmetry,
            travels: Vec::new(),
            free_travels: Vec::new(),
            path: Vec::new(),
            inside: Inside::default(),
            last: LastTransfer { rate: Rate(0), bytes: Bytes(0), time: Time(0) },
        }
    }

    #[inline]
    fn transfer_time(&mut self, rate: Rate, bytes: Bytes) -> Time {
        if (self.last.rate, self.last.bytes) != (rate, bytes) {
            // If the time overflows, the calendar reports it.
            let time = rate.transfer_time(bytes).unwrap_or(Time(u64::MAX / 2));
            self.last = LastTransfer { rate, bytes, time };
        }
        self.last.time
    }

    /// Sends over `link` as soon as it is free.
    #[inline]
    fn occupy(&mut self, now: Time, link: LinkId, rate: Rate, bytes: Bytes) -> Occupied {
        let time = self.transfer_time(rate, bytes);
        let index = self.symmetry.port(link) as usize;
        let port = &mut self.ports[index];
        let start = port.free.max(now);
        port.free = start.saturating_add(time);
        self.activity.book(index, &mut port.recent, start, port.free);
        port.used.bytes += bytes.0;
        port.used.messages += 1;
        port.used.busy = port.used.busy.saturating_add(time);
        port.used.waited = port.used.waited.saturating_add(start.saturating_sub(now));
        Occupied { port: index, start, time }
    }

    /// Returns the tier of a link.
    fn tier(&self, link: LinkId) -> TierId {
        self.ports[self.symmetry.port(link) as usize].tier
    }

    /// Counts a message on a link between its first and its last; its head reaches the link at time `head`,
    /// and its tail `length` later (analytical).
    fn pass(&mut self, link: LinkId, (head, length): (Time, Time), time: Time, bytes: Bytes) {
        let index = self.symmetry.port(link) as usize;
        let Port { used, recent, .. } = &mut self.ports[index];
        used.bytes += bytes.0;
        used.messages += 1;
        self.activity.book_part(index, recent, (head, head.saturating_add(length)), time);
    }

    fn travel(&mut self, transfer: &Transfer, tail: Time, slowest: Slowest, origin: Origin) -> u32 {
        let index = self.free_travels.pop().unwrap_or_else(|| {
            self.travels.push(Travel::UNUSED);
            self.travels.len() as u32 - 1
        });
        let travel = &mut self.travels[index as usize];
        (travel.id, travel.key, travel.bytes, travel.tail) =
            (transfer.id, transfer.key, transfer.bytes, tail);
        (travel.slowest, travel.ends, travel.origin) = (slowest, Ends::of(transfer), origin);
        std::mem::swap(&mut travel.path, &mut self.path);
        index
    }

    /// Records the passage of a message over a link, and what it waited for there. Returns its stretch and
    /// its origin.
    #[inline]
    fn passes(&mut self, passage: &Passage, origin: &Origin, trail: &mut Trail) -> (StretchId, Origin) {
        if !trail.is_on() {
            return (StretchId::START, *origin);
        }
        let Passage { port, comes, start, time, route, own } = *passage;
        let port = &mut self.ports[port];
        let came = trail.reach_port(origin, comes);
        let after = match start > comes {
            true => {
                let behind = trail.behind(&port.tail, route, own, start.saturating_sub(comes));
                trail.meet(behind, start, came)
            }
            false => trail.meet(came.stretch(), comes, port.tail.free),
        };
        let origin = origin.after(after, start);
        let stretch = trail.bytes(&origin, port.tier, time);
        port.tail = Tail { stretch, route, time, free: trail.moment(stretch, start.saturating_add(time)) };
        (stretch, origin)
    }

    /// Handles the head of a message that has reached its last link (analytical).
    fn receive(&mut self, now: Time, index: u32, calendar: &mut Calendar) {
        let Travel { id, key, bytes, tail, slowest, ends, origin, .. } = self.travels[index as usize];
        let link = *self.travels[index as usize].path.last().expect("travels have paths");
        let (rate, latency) = self.fabric.speed(link);
        let Occupied { port, start, time } = self.occupy(now, link, rate, bytes);
        let hop = self.travels[index as usize].path.len() as u32 - 1;
        let passage = Passage { port, comes: now, start, time, route: ends.route(hop), own: false };
        let (stretch, _) = self.passes(&passage, &origin, &mut calendar.trail);
        let end = start.saturating_add(time);
        let stretch =
            self.both_through(stretch, (port, time, end), (slowest, tail), &origin, &mut calendar.trail);
        calendar.trail.arrives(id, stretch);
        calendar.deliver(end.max(tail).saturating_add(latency), id, key);
        self.free_travels.push(index);
    }

    /// Returns the stretch with which a message ends after its last link, which takes `time` until `end` with
    /// the end of `stretch`, and the slowest link before, which it has passed at `tail` (analytical).
    #[inline]
    fn both_through(
        &self,
        stretch: StretchId,
        (port, time, end): (usize, Time, Time),
        (slowest, tail): (Slowest, Time),
        origin: &Origin,
        trail: &mut Trail,
    ) -> StretchId {
        // The last link remains the one to wait for if the others take at most half its time. A link of the
        // same tier that is no slower does not count, because both change together.
        let same = slowest.tier == self.ports[port].tier && slowest.time <= time;
        let other = if same { slowest.others } else { slowest.time };
        if !trail.is_on() || tail <= end && other.0 <= time.0 / 2 {
            return stretch;
        }
        let before = trail.bytes(origin, slowest.tier, slowest.time);
        trail.bound_by_others(before, slowest.tier, slowest.time, slowest.others);
        match tail > end {
            true => trail.meet(before, tail, trail.moment(stretch, end)),
            false => trail.meet(stretch, end, trail.moment(before, tail)),
        }
    }

    /// Handles a whole message that has reached link `hop` of its path (queued).
    fn forward(&mut self, now: Time, index: u32, hop: u32, calendar: &mut Calendar) -> Time {
        let Travel { id, key, bytes, ends, origin, .. } = self.travels[index as usize];
        let path = &self.travels[index as usize].path;
        let (link, last) = (path[hop as usize], path.len() as u32 - 1);
        let (rate, latency) = self.fabric.speed(link);
        let Occupied { port, start, time } = self.occupy(now, link, rate, bytes);
        let passage = Passage { port, comes: now, start, time, route: ends.route(hop), own: hop == 0 };
        let (stretch, _) = self.passes(&passage, &origin, &mut calendar.trail);
        let sent = start.saturating_add(time);
        let arrival = sent.saturating_add(latency);
        if hop == 0 {
            calendar.trail.leaves(stretch);
        }
        if hop == last {
            calendar.trail.arrives(id, stretch);
            calendar.deliver(arrival, id, key);
            self.free_travels.push(index);
        } else {
            self.travels[index as usize].origin = origin.after(stretch, arrival);
            calendar.call_back(arrival, key, Call { subject: index, detail: hop + 1 });
        }
        sent
    }
}

impl Measurements for Links<'_> {
    fn link_use(&self, id: LinkId) -> LinkUse {
        self.ports[self.symmetry.port(id) as usize].used
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }
}

impl NetworkModel for Links<'_> {
    fn tiers(&self) -> usize {
        self.fabric.parts().tiers.len()
    }

    fn name(&self) -> &'static str {
        match self.model {
            Model::Analytical => "analytical",
            Model::Queued => "queued",
        }
    }

    #[inline]
    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent {
        self.path.clear();
        if !self.fabric.route(transfer.from, transfer.to, transfer.lane, &mut self.path) {
            return Sent::NoRoute;
        }
        match self.path[..] {
            [] => {
                calendar.trail.deliver_locally(&transfer.origin, transfer.id);
                calendar.deliver(now, transfer.id, transfer.key);
                Sent::At(now)
            }
            [link] => {
                let (rate, latency) = self.fabric.speed(link);
                let Occupied { port, start, time } = self.occupy(now, link, rate, transfer.bytes);
                let passage =
                    Passage { port, comes: now, start, time, route: Ends::of(transfer).route(0), own: true };
                let (stretch, _) = self.passes(&passage, &transfer.origin, &mut calendar.trail);
                calendar.trail.leaves(stretch);
                calendar.trail.arrives(transfer.id, stretch);
                let sent = start.saturating_add(time);
                calendar.deliver(sent.saturating_add(latency), transfer.id, transfer.key);
                Sent::At(sent)
            }
            [first, ..] => match self.model {
                Model::Analytical => {
                    let (rate, _) = self.fabric.speed(first);
                    let Occupied { port, start, time } = self.occupy(now, first, rate, transfer.bytes);
                    let passage = Passage {
                        port,
                        comes: now,
                        start,
                        time,
                        route: Ends::of(transfer).route(0),
                        own: true,
                    };
                    let (stretch, origin) = self.passes(&passage, &transfer.origin, &mut calendar.trail);
                    calendar.trail.leaves(stretch);
                    let mut slowest = Slowest { tier: self.ports[port].tier, time, others: Time::ZERO };
                    let mut latency = Time::ZERO;
                    let last = self.path.len() - 1;
                    let uneven = last > 1 && self.symmetry.is_uneven_inside();
                    let all =
                        if uneven { self.inside.find(self.fabric, &self.symmetry, transfer) } else { 0 };
                    for hop in 0..last {
                        let link = self.path[hop];
                        let (rate, hop_latency) = self.fabric.speed(link);
                        let time = self.transfer_time(rate, transfer.bytes);
                        let head = start.saturating_add(latency);
                        if hop > 0 {
                            slowest = slowest.or(self.tier(link), time);
                        }
                        if hop > 0 && uneven {
                            for member in 0..self.symmetry.members() as usize {
                                let link = self.inside.links[all + member * (last - 1) + hop - 1];
                                self.pass(link, (head, slowest.time), time, transfer.bytes);
                            }
                        } else if hop > 0 {
                            self.pass(link, (head, slowest.time), time, transfer.bytes);
                        }
                        latency = latency.saturating_add(hop_latency);
                    }
                    let head = start.saturating_add(latency);
                    let index = self.travel(transfer, head.saturating_add(slowest.time), slowest, origin);
                    calendar.call_back(head, transfer.key, Call { subject: index, detail: 0 });
                    Sent::At(start.saturating_add(time))
                }
                Model::Queued => {
                    let index = self.travel(transfer, Time::ZERO, Slowest::default(), transfer.origin);
                    Sent::At(self.forward(now, index, 0, calendar))
                }
            },
        }
    }

    fn call(&mut self, now: Time, call: Call, calendar: &mut Calendar) {
        match self.model {
            Model::Analytical => self.receive(now, call.subject, calendar),
            Model::Queued => {
                self.forward(now, call.subject, call.detail, calendar);
            }
        }
    }

    fn visit_stretches(&mut self, visit: &mut dyn FnMut(&mut StretchId)) {
        self.ports.iter_mut().for_each(|port| port.tail.visit(visit));
        self.travels.iter_mut().for_each(|travel| visit(travel.origin.stretch_mut()));
    }

    fn cut(&mut self, now: Time) {
        for link in self.symmetry.links() {
            let port = &mut self.ports[self.symmetry.port(link) as usize];
            // Whatever starts after `now` waits in line, without gaps.
            let ahead = port.free.saturating_sub(now);
            let (rate, _) = self.fabric.speed(link);
            port.free = port.free.min(now);
            port.used.busy = port.used.busy.saturating_sub(ahead);
            port.used.bytes = port.used.bytes.saturating_sub(rate.bytes_in(ahead).0);
        }
    }

    fn overbooked(&self) -> Option<String> {
        let (port, over) = self.ports.iter().enumerate().find(|(_, port)| port.used.busy > port.free)?;
        Some(format!("port {port} was sending for {} of {}", over.used.busy, over.free))
    }

    fn stop_activity(&mut self, now: Time) {
        self.activity.stop(now, self.ports.iter_mut().map(|port| &mut port.recent));
    }

    fn repeats(&self) -> Option<&dyn Repeats> {
        Some(self)
    }

    fn repeats_mut(&mut self) -> Option<&mut dyn Repeats> {
        Some(self)
    }
}

impl Repeats for Links<'_> {
    fn message(&self, subject: u32) -> u32 {
        self.travels[subject as usize].id
    }

    fn pending(&self, now: Time, subject: u32, state: &mut Vec<u64>) -> u32 {
        let travel = &self.travels[subject as usize];
        state.extend([travel.bytes.0, travel.tail.saturating_sub(now).0, travel.path.len() as u64]);
        state.extend(travel.path.iter().map(|link| u64::from(link.0)));
        travel.id
    }

    fn state(&self, now: Time, state: &mut Vec<u64>) {
        state.extend(self.ports.iter().map(|port| port.free.saturating_sub(now).0));
    }

    fn shift(&mut self, by: Time, key: &mut dyn FnMut(u32) -> u64) {
        for port in &mut self.ports {
            port.free = port.free.saturating_add(by);
        }
        let mut under_way = vec![true; self.travels.len()];
        self.free_travels.iter().for_each(|&free| under_way[free as usize] = false);
        for (travel, _) in self.travels.iter_mut().zip(under_way).filter(|(_, under_way)| *under_way) {
            travel.tail = travel.tail.saturating_add(by);
            travel.origin.shift(by);
            travel.key = key(travel.id);
        }
    }

    fn uses(&self) -> Vec<LinkUse> {
        self.ports.iter().map(|port| port.used).collect()
    }

    fn repeat(&mut self, before: &[LinkUse], times: u32) {
        let times = u64::from(times);
        let again =
            |sum: &mut u64, before: u64| *sum = sum.saturating_add((*sum - before).saturating_mul(times));
        for (Port { used, .. }, before) in self.ports.iter_mut().zip(before) {
            again(&mut used.bytes, before.bytes);
            again(&mut used.messages, before.messages);
            again(&mut used.busy.0, before.busy.0);
            again(&mut used.waited.0, before.waited.0);
        }
    }
}
