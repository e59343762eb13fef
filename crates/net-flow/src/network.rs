//! The model behind the engine's network interface: messages as flows.

use crate::settings::{Settings, Traffic, name};
use crate::sharing::{Sharing, UNIT};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_engine::activity::{Activity, Recent};
use syncline_engine::{Calendar, Contention, LinkUse, Network, Owner, Sent, Transfer};
use syncline_fabric::{Fabric, Symmetry};
use syncline_units::{Bytes, LinkId, NpuId, Rate, Time};

/// Calls of the model by itself: flows are through.
const THROUGH: u32 = 0;
/// All messages of a time have come.
const SETTLE: u32 = 1;

/// What flows of one bundle have in common: sender, receiver, lane, class and weight.
type Key = (u32, u32, u32, u32, u32);

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    id: u32,
    key: u64,
    bytes: Bytes,
    owner: Owner,
    of: Key,
    began: Time,
}

/// A port on a way.
#[derive(Clone, Copy, Debug)]
struct Passed {
    port: u32,
    /// How often links of that class are passed.
    times: u32,
    /// The same, in parts of a flow.
    parts: u32,
}

/// An open bundle.
#[derive(Clone, Debug, Default)]
struct Open {
    of: Key,
    /// Ports on its way.
    links: Vec<Passed>,
    /// Latency of its way.
    latency: Time,
    /// Rate of a flow that is alone.
    alone: Rate,
}

/// Flows on a fabric, of whose links one of each class is kept.
#[derive(Debug)]
pub struct Flows<'a> {
    fabric: &'a Fabric,
    symmetry: Symmetry,
    settings: Settings,
    sharing: Sharing,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Messages of the present that have not begun.
    coming: Vec<u32>,
    /// Whether the model is called when all messages of the present have come.
    settling: bool,
    bundles: BTreeMap<Key, u32>,
    /// Paths of messages of the present whose bundle was not open when they came.
    found: BTreeMap<Key, Vec<Vec<LinkId>>>,
    /// By bundle.
    open: Vec<Open>,
    /// When the engine will call, if it will.
    wake: Option<Time>,
    /// When bytes were counted last.
    last: Time,
    /// By port.
    uses: Vec<LinkUse>,
    contention: BTreeMap<(u32, Owner), (u64, u64, Time)>,
    activity: Activity,
    recents: Vec<Recent>,
    /// Up to when activity is booked, and what each port had carried then.
    booked: Time,
    carried: Vec<u128>,
    /// Flows that were through.
    events: u64,
}

impl<'a> Flows<'a> {
    /// An idle network, of settings in which [`Settings::check`] finds nothing impossible.
    pub fn new(fabric: &'a Fabric, symmetry: Symmetry, settings: &Settings) -> Self {
        let ports = symmetry.ports() as usize;
        let mut rates = vec![Rate(0); ports];
        for link in symmetry.links() {
            rates[symmetry.port(link) as usize] = fabric.speed(link).0;
        }
        Self {
            fabric,
            sharing: Sharing::new(rates, settings.classes(), settings.paths > 1, settings.bits()),
            settings: settings.clone(),
            symmetry,
            flights: Vec::new(),
            free: Vec::new(),
            coming: Vec::new(),
            settling: false,
            bundles: BTreeMap::new(),
            found: BTreeMap::new(),
            open: Vec::new(),
            wake: None,
            last: Time::ZERO,
            uses: vec![LinkUse::default(); ports],
            contention: BTreeMap::new(),
            activity: Activity::new(ports),
            recents: vec![Recent::default(); ports],
            booked: Time::ZERO,
            carried: vec![0; ports],
            events: 0,
        }
    }

    /// Has the model called once all messages of the present have come.
    fn settle_later(&mut self, now: Time, calendar: &mut Calendar) {
        if !self.settling {
            self.settling = true;
            calendar.call_last(now, 0, SETTLE);
        }
    }

    /// The bundle of a message.
    fn bundle(&mut self, of: Key) -> u32 {
        if let Some(&bundle) = self.bundles.get(&of) {
            return bundle;
        }
        let (from, to, lane, class, weight) = of;
        // None was kept where the bundle was open when the message came, and has been closed since.
        let found = self.found.remove(&of).or_else(|| self.paths(NpuId(from), NpuId(to), lane));
        let paths = found.expect("a message was taken only where there is a way");
        // Equal parts, as far as they are whole.
        let (whole, count) = (self.sharing.whole(), paths.len() as u32);
        let (mut links, mut latency) = (Vec::<Passed>::new(), Time::ZERO);
        for (at, path) in (0u32..).zip(&paths) {
            let part = whole / count + u32::from(at < whole % count);
            let mut all = Time::ZERO;
            for &link in path {
                let port = self.symmetry.port(link);
                match links.iter_mut().find(|passed| passed.port == port) {
                    Some(passed) => {
                        passed.times += 1;
                        passed.parts += part;
                    }
                    None => links.push(Passed { port, times: 1, parts: part }),
                }
                all = all.saturating_add(self.fabric.speed(link).1);
            }
            latency = latency.max(all);
        }
        // Parts that take different ways go on at one rate, which the slowest of them sets.
        let of_link = |link: &LinkId| {
            let parts = paths.iter().filter(|path| path.contains(link)).count() as u64;
            Rate((u128::from(self.fabric.speed(*link).0.0) * paths.len() as u128 / u128::from(parts)) as u64)
        };
        let alone = paths.iter().flatten().map(of_link).min().unwrap_or_default();
        let usage: Vec<(u32, u32)> = links.iter().map(|passed| (passed.port, passed.parts)).collect();
        let bundle = self.sharing.open(&usage, weight, class);
        if self.open.len() <= bundle as usize {
            self.open.resize(bundle as usize + 1, Open::default());
        }
        self.open[bundle as usize] = Open { of, links, latency, alone };
        self.bundles.insert(of, bundle);
        bundle
    }

    /// The paths of a message; none where there is no way.
    fn paths(&self, from: NpuId, to: NpuId, lane: u32) -> Option<Vec<Vec<LinkId>>> {
        if self.settings.paths > 1 {
            let paths = self.fabric.routes(from, to, lane, self.settings.paths);
            return (!paths.is_empty()).then_some(paths);
        }
        let mut path = Vec::new();
        self.fabric.route(from, to, lane, &mut path).then(|| vec![path])
    }

    /// Messages of the present begin, and rates follow.
    fn settle(&mut self, now: Time, calendar: &mut Calendar) {
        self.book(now);
        let mut coming = std::mem::take(&mut self.coming);
        // Not in the order in which they came.
        coming.sort_unstable_by_key(|&flight| {
            let Flight { of, key, bytes, .. } = self.flights[flight as usize];
            (of, key, bytes.0)
        });
        for flight in coming.drain(..) {
            let Flight { of, bytes, .. } = self.flights[flight as usize];
            let bundle = self.bundle(of);
            self.sharing.start(now, bundle, bytes, flight);
        }
        self.coming = coming;
        self.found.clear();
        self.sharing.settle(now);
        if let Some(next) = self.sharing.next()
            && self.wake != Some(next)
        {
            self.wake = Some(next);
            calendar.call_back(next, 0, 0, THROUGH);
        }
        // Flows whose end is later than can be counted: the calendar says so.
        if self.sharing.next().is_none() && !self.bundles.is_empty() && self.sharing.starved().is_none() {
            calendar.call_back(Time::MAX, 0, 0, THROUGH);
        }
    }

    /// Some flows are through.
    fn through(&mut self, now: Time, calendar: &mut Calendar) {
        self.book(now);
        let (mut through, mut closed) = (Vec::new(), Vec::new());
        self.sharing.finish(now, |flight| through.push(flight), |bundle| closed.push(bundle));
        self.last = now;
        for &number in &through {
            let Flight { id, key, bytes, owner, of, began } = self.flights[number as usize];
            let open = &self.open[self.bundles[&of] as usize];
            calendar.left(now, id, key);
            calendar.deliver(now.saturating_add(open.latency), id, key);
            let whole = u64::from(self.sharing.whole());
            for &Passed { port, times, parts } in &open.links {
                let used = &mut self.uses[port as usize];
                used.bytes += bytes.0 * u64::from(parts) / whole;
                used.messages += u64::from(times);
            }
            // The first among equals on its way, where what was rounded off counts for nothing.
            let level = |passed: &Passed| self.sharing.level(passed.port, of.3);
            let lowest = open.links.iter().map(level).min().expect("a way has links");
            let equals = |passed: &&Passed| level(passed) - lowest <= lowest >> 20;
            let bottleneck = open.links.iter().find(equals).expect("the lowest is one").port;
            let alone = open.alone.transfer_time(bytes).unwrap_or(Time::MAX);
            let delay = now.saturating_sub(began).saturating_sub(alone);
            self.uses[bottleneck as usize].waited =
                self.uses[bottleneck as usize].waited.saturating_add(delay);
            let (messages, sum, delays) = self.contention.entry((bottleneck, owner)).or_default();
            *messages += 1;
            *sum += bytes.0;
            *delays = delays.saturating_add(delay);
            self.free.push(number);
        }
        self.events += through.len() as u64;
        for bundle in closed {
            self.bundles.remove(&self.open[bundle as usize].of);
        }
        self.settle_later(now, calendar);
    }

    /// Books what links carried up to `now`, slice by slice: until then rates are as they are.
    fn book(&mut self, now: Time) {
        if self.activity.is_stopped() {
            return;
        }
        while self.booked < now {
            let until = self.activity.slice_end(self.booked);
            if until > now {
                return;
            }
            self.book_slice(until);
            // What the last flows had in the slice in which they ended is booked; nothing came after it.
            if self.bundles.is_empty() {
                self.booked = now;
            }
        }
    }

    /// Books what links carried up to `until`, which is not beyond the slice.
    fn book_slice(&mut self, until: Time) {
        let from = std::mem::replace(&mut self.booked, until);
        self.sharing.book_all(until);
        for port in 0..self.uses.len() {
            let carried = self.sharing.carried(port as u32);
            let more = carried - std::mem::replace(&mut self.carried[port], carried);
            let busy = self.sharing.busy(port as u32, more).0.min(until.0 - from.0);
            if busy > 0 {
                self.activity.book(port, &mut self.recents[port], from, Time(from.0 + busy));
            }
        }
    }
}

impl Network for Flows<'_> {
    const OWNERS: bool = true;

    fn name(&self) -> &'static str {
        "flow"
    }

    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent {
        if transfer.from == transfer.to {
            calendar.deliver(now, transfer.id, transfer.key);
            return Sent::At(now);
        }
        let traffic = Traffic::from(transfer.owner);
        let (class, weight) = (self.settings.class(traffic), self.settings.weight(traffic));
        let of = (transfer.from.0, transfer.to.0, transfer.lane, class, weight);
        if !self.bundles.contains_key(&of) && !self.found.contains_key(&of) {
            match self.paths(transfer.from, transfer.to, transfer.lane) {
                Some(paths) => self.found.insert(of, paths),
                None => return Sent::NoRoute,
            };
        }
        let Transfer { id, key, bytes, owner, .. } = *transfer;
        let flight = Flight { id, key, bytes, owner, of, began: now };
        let number = match self.free.pop() {
            Some(number) => {
                self.flights[number as usize] = flight;
                number
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        self.coming.push(number);
        self.settle_later(now, calendar);
        Sent::Later
    }

    fn call(&mut self, now: Time, _: u32, what: u32, calendar: &mut Calendar) {
        if what == SETTLE {
            self.settling = false;
            self.settle(now, calendar);
        } else if self.wake == Some(now) {
            self.wake = None;
            self.through(now, calendar);
        }
    }

    fn link_use(&self, id: LinkId) -> LinkUse {
        let used = self.uses[self.symmetry.port(id) as usize];
        LinkUse { busy: self.fabric.speed(id).0.transfer_time(Bytes(used.bytes)).unwrap_or_default(), ..used }
    }

    fn cut(&mut self, now: Time) {
        self.last = now;
        // What flows under way have had so far was sent.
        let whole = u64::from(self.sharing.whole());
        for &bundle in self.bundles.values() {
            for (flight, left) in self.sharing.flows(bundle, now) {
                let had = self.flights[flight as usize].bytes.saturating_sub(left).0;
                for &Passed { port, parts, .. } in &self.open[bundle as usize].links {
                    self.uses[port as usize].bytes += had * u64::from(parts) / whole;
                }
            }
        }
    }

    fn overbooked(&self) -> Option<String> {
        // With a precision, the level of a link may be too high by that part of it.
        let allowed = Time((self.last.0 as f64 * (1.0 + 2.0 * self.settings.precision)) as u64);
        let allowed = allowed.max(self.last);
        let took = |used: &LinkUse, port| self.sharing.time_of(port, Bytes(used.bytes));
        let mut ports = (0..).zip(&self.uses).map(|(port, used)| (port, took(used, port)));
        let (port, took) = ports.find(|&(_, took)| took > allowed)?;
        Some(format!("port {port} sent what takes it {took}, in {}", self.last))
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }

    fn stop_activity(&mut self, now: Time) {
        if !self.activity.is_stopped() {
            self.book(now);
            if self.booked < now {
                self.book_slice(now);
            }
        }
        self.activity.stop(now, self.recents.iter_mut());
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn refusal(&self) -> Option<Diagnostic> {
        let (port, bundle, weights) = self.sharing.starved()?;
        let link = self.symmetry.links().find(|&link| self.symmetry.port(link) == port)?;
        let (built, rate) = (self.fabric.link(link), self.fabric.speed(link).0);
        let (.., weight) = self.open[bundle as usize].of;
        let weighed = self.settings.weights.iter().find(|&(_, &each)| each == weight);
        let paths = self.settings.paths > 1;
        let key = match weighed {
            Some((&traffic, _)) => format!("weights.{}", name(traffic)),
            None if paths => "paths".to_owned(),
            None => "model".to_owned(),
        };
        let ends = [built.from, built.to].map(|vertex| self.fabric.vertex_name(vertex)).join(" -> ");
        let most = self.sharing.most(rate);
        let more = if paths {
            format!("; with several `paths` the model counts rates by 1/{} of that", self.sharing.whole())
        } else {
            String::new()
        };
        let help = match (weighed.is_some(), paths) {
            (true, _) => "give smaller weights with the same ratios, or the link a higher rate",
            (false, true) => "give the link a higher rate, or take one path",
            (false, false) => "give the link a higher rate: too many flows share it",
        };
        Some(
            Diagnostic::error(
                Code::BadValue,
                format!("flows have no rate on a link of {rate}: their weights there are too large a sum"),
            )
            .key(format!("network.{key}"))
            .found(format!("weight {weight}; flows at {ends} have weights of {weights} together"))
            .allowed(format!("weights of {most} together on {rate}"))
            .note(format!(
                "shares of a link are whole multiples of 1/{} b/s for each unit of weight{more}",
                1 << UNIT
            ))
            .help(help),
        )
    }

    fn contention(&self) -> Vec<Contention> {
        let mut links = vec![LinkId(0); self.uses.len()];
        for link in self.symmetry.links() {
            links[self.symmetry.port(link) as usize] = link;
        }
        let told = |(&(port, owner), &(messages, bytes, delay)): (&(u32, Owner), &(u64, u64, Time))| {
            Contention { link: links[port as usize], owner, messages, bytes, delay }
        };
        self.contention.iter().map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_fabric::{Graph, GraphLink, Routing};

    /// Two NPUs, 10 Gb/s.
    fn pair() -> Fabric {
        let link = |from, to| GraphLink { from, to, rate: Rate(10_000_000_000), latency: Time(1_000) };
        let graph = Graph::new(2, 0, vec![link(0, 1), link(1, 0)], Routing::Ecmp { seed: 1 });
        Fabric::graph(graph.unwrap())
    }

    fn transfer(id: u32, bytes: u64) -> Transfer {
        let (from, to, bytes) = (NpuId(0), NpuId(1), Bytes(bytes));
        Transfer { id, from, to, lane: 0, bytes, key: 0, owner: Owner::UNKNOWN }
    }

    /// Two messages of 1 MB over the first link, to the end of both.
    fn two_messages<'a>(fabric: &'a Fabric, settings: &Settings) -> Flows<'a> {
        let mut flows = Flows::new(fabric, Symmetry::none(fabric), settings);
        let mut calendar = Calendar::default();
        for id in 0..2 {
            assert_eq!(flows.send(Time::ZERO, &transfer(id, 1_000_000), &mut calendar), Sent::Later);
        }
        flows.call(Time::ZERO, 0, SETTLE, &mut calendar);
        let end = flows.wake.expect("somebody is through");
        flows.call(end, 0, THROUGH, &mut calendar);
        assert_eq!((flows.events(), end), (2, Time(1_600_000_000)));
        flows
    }

    #[test]
    fn a_port_that_sent_more_than_it_can_is_told() {
        let fabric = pair();
        let mut flows = two_messages(&fabric, &Settings::default());
        assert_eq!(flows.overbooked(), None);
        flows.uses[0].bytes += 2;
        assert!(flows.overbooked().is_some());
        flows.uses[0].bytes += 2_498;
        assert_eq!(flows.overbooked().unwrap(), "port 0 sent what takes it 1.602ms, in 1.6ms");
        // A precision of a tenth allows for a fifth.
        let mut flows = two_messages(&fabric, &Settings { precision: 0.1, ..Settings::default() });
        flows.uses[0].bytes += 399_000;
        assert_eq!(flows.overbooked(), None);
        flows.uses[0].bytes += 2_000;
        assert!(flows.overbooked().is_some());
    }

    /// A way that is found is kept until the bundle is open, and no longer.
    #[test]
    fn ways_are_kept_while_they_are_needed() {
        let fabric = pair();
        let mut flows = Flows::new(&fabric, Symmetry::none(&fabric), &Settings::default());
        let mut calendar = Calendar::default();
        flows.send(Time::ZERO, &transfer(0, 1), &mut calendar);
        assert_eq!((flows.found.len(), flows.bundles.len()), (1, 0));
        flows.call(Time::ZERO, 0, SETTLE, &mut calendar);
        assert_eq!((flows.found.len(), flows.bundles.len()), (0, 1));
    }
}
