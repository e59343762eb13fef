//! A time that no execution of a plan beats: what its messages take of the links that they must pass, and its longest
//! chain of messages.
//!
//! *Links.* Which rank sends how much to which is a function of the plan, and which ways it may go one of the fabric.
//! Whatever leaves a vertex by one tier of links (an NPU by its NVLinks, an NPU by its network card, a leaf by its
//! uplinks) must pass the links of that tier that any of its ways takes; whatever enters one, likewise; and what has one
//! way only passes every link of it. The bound is the largest of bytes over rate of all these cuts, and the latency
//! before and behind them. Rates of links are added up only where bytes can choose between these links.
//!
//! *Chain.* Where all ranks of a phase do alike, none ends before the longest chain of messages of one chunk
//! ([`syncline_plan::cost::chain`]), each of which takes the least latency and its bytes at the best rate that there is.
//!
//! The network model `analytical` lets no message wait inside the network: with it, links of NPUs alone count.
//!
//! A plan may be run by many groups; the bound holds for all of them. Only so many messages are looked at: what is left
//! out makes the bound lower, never higher.

use super::ground::Ground;
use std::borrow::Cow;
use std::collections::BTreeMap;
use syncline_engine::{Lanes, PhasePlan};
use syncline_fabric::Parts;
use syncline_plan::cost::chain;
use syncline_plan::program::program;
use syncline_plan::{Blocks, Op, Seat};
use syncline_units::{Bytes, Extent, LinkId, Rate, Time, Turn};
use syncline_workload::Role;

/// Most ways that are looked up for one plan.
const LOOKED_UP: u64 = 1 << 17;

/// A plan, as far as its bound depends on it.
pub(super) struct Planned<'a> {
    pub(super) role: &'a Role,
    pub(super) phases: &'a [PhasePlan],
    pub(super) chunks: &'a [Extent],
    pub(super) element: u64,
    /// Queues by accounting dimension.
    pub(super) lanes: &'a [Lanes],
}

/// Where bytes must pass: all links of one tier that lead out of a vertex, or into it; or one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cut {
    OutOf(u32, usize),
    Into(u32, usize),
    Link(LinkId),
}

/// What passes a cut.
#[derive(Debug, Default)]
struct Load {
    bytes: u64,
    /// The links between which the bytes may choose.
    links: Vec<LinkId>,
    /// Least latency up to the cut's links, and from their beginning to the receiver.
    before: u64,
    behind: u64,
}

/// What one rank sends in a phase, over all chunks.
#[derive(Debug, Default)]
struct Sends {
    /// Bytes to each other rank, at the least.
    to: BTreeMap<u32, u64>,
    /// All bytes that it sends and receives, at the least.
    all: Traffic,
}

/// Bytes that a rank sends and receives.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sent: u64,
    received: u64,
}

/// The bound of a plan.
pub(super) fn bound(ground: &Ground<'_>, plan: &Planned<'_>) -> Time {
    let links = Links { ground, plan, tiers: ground.fabric.parts(), looked_up: 0 }.bound();
    links.max(chains(ground, plan))
}

/// How often each length of chunk occurs.
fn lengths(chunks: &[Extent]) -> BTreeMap<u64, u64> {
    chunks.iter().fold(BTreeMap::new(), |mut lengths, chunk| {
        *lengths.entry(chunk.len()).or_default() += 1;
        lengths
    })
}

/// The least that a rank of a phase holds of a chunk of `elements`.
fn held(phase: &PhasePlan, elements: u64) -> u64 {
    phase.cuts.iter().fold(elements, |held, &(_, size)| held / u64::from(size))
}

/// What passes which cut.
type Cuts = BTreeMap<Cut, Load>;

impl Load {
    fn none() -> Self {
        Self { before: u64::MAX, behind: u64::MAX, ..Self::default() }
    }
    /// Bytes may choose `link`, too.
    fn choose(&mut self, link: LinkId) {
        if !self.links.contains(&link) {
            self.links.push(link);
        }
    }
}

/// Adds `bytes` so many times.
fn add(sum: &mut u64, bytes: u64, times: u64) {
    *sum = sum.saturating_add(bytes.saturating_mul(times));
}

struct Links<'a> {
    ground: &'a Ground<'a>,
    plan: &'a Planned<'a>,
    tiers: Cow<'a, Parts>,
    looked_up: u64,
}

impl Links<'_> {
    fn bound(&mut self) -> Time {
        let role = self.plan.role;
        // In a regular fabric whose ranks are in order all groups are alike.
        let regular = !self.ground.fabric.is_graph()
            && !self.ground.fabric.is_damaged()
            && role.is_grid()
            && role.axes.iter().all(|&axis| axis.size == 1 || self.ground.dim(axis).is_some());
        let groups = if regular { 1 } else { role.groups() };
        let of_group = LOOKED_UP / u64::from(groups.max(1));
        if of_group == 0 {
            return Time::ZERO;
        }
        let mut least = Time::MAX;
        for group in 0..groups {
            self.looked_up = 0;
            least = least.min(self.of_group(group, of_group, regular));
        }
        if least == Time::MAX { Time::ZERO } else { least }
    }

    /// The bound of one group; `regular` where all ranks of a phase whose programs are alike load their links alike.
    fn of_group(&mut self, group: u32, most: u64, regular: bool) -> Time {
        let mut cuts = Cuts::new();
        for phase in self.plan.phases {
            for (cut, load) in self.of_phase(phase, group, most, regular) {
                let sum = cuts.entry(cut).or_insert_with(Load::none);
                sum.bytes = sum.bytes.saturating_add(load.bytes);
                load.links.into_iter().for_each(|link| sum.choose(link));
                sum.before = sum.before.min(load.before);
                sum.behind = sum.behind.min(load.behind);
            }
        }
        let fabric = self.ground.fabric;
        let time = |load: &Load| {
            let rate =
                load.links.iter().fold(0, |sum: u64, &link| sum.saturating_add(fabric.speed(link).0.0));
            let passing = Rate(rate).transfer_time(Bytes(load.bytes)).unwrap_or(Time::ZERO);
            // Times of single messages are rounded up, and so is this one.
            let latency = Time(load.before.saturating_add(load.behind));
            passing.saturating_add(latency).saturating_sub(Time(1))
        };
        cuts.values().filter(|load| load.bytes > 0).map(time).max().unwrap_or(Time::ZERO)
    }

    /// What passes which cuts in a phase.
    fn of_phase(&mut self, phase: &PhasePlan, group: u32, most: u64, regular: bool) -> Cuts {
        let role = self.plan.role;
        let alike = phase.turn.filter(|_| phase.gates.is_empty());
        let known = alike.map(|_| self.sends(phase, 0));
        let mut cuts = Cuts::new();
        let mut all: Vec<(u32, Traffic)> = Vec::new();
        let mut complete = true;
        for position in (0..role.size()).filter(|&position| phase.takes_part(position)) {
            if self.looked_up >= most || regular && alike.is_some() && position > 0 {
                complete = false;
                break;
            }
            let index = phase.coordinate(position);
            let own = if known.is_none() { self.sends(phase, index) } else { Sends::default() };
            let sends = known.as_ref().unwrap_or(&own);
            let first = position - index * phase.weight;
            for (&to, &bytes) in &sends.to {
                let to = match alike {
                    Some(Turn::Xor) => index ^ to,
                    Some(Turn::Cyclic) => (index + to) % phase.size,
                    None => to,
                };
                let ends = [position, first + to * phase.weight];
                let [from, to] = ends.map(|at| role.rank(group, at));
                self.load(&mut cuts, phase, (from, to), bytes);
            }
            all.push((self.ground.npu(role.rank(group, position)).0, sends.all));
        }
        // Where chunks run both ways round, it is not known how many take which, but what a rank sends and receives.
        for (npu, traffic) in all {
            let mut only = |first: Cut, last: Cut, bytes: u64| {
                let mut own = cuts.range_mut(first..=last);
                if let (Some((_, load)), None) = (own.next(), own.next()) {
                    load.bytes = load.bytes.max(bytes);
                }
            };
            only(Cut::OutOf(npu, 0), Cut::OutOf(npu, usize::MAX), traffic.sent);
            if complete {
                only(Cut::Into(npu, 0), Cut::Into(npu, usize::MAX), traffic.received);
            }
        }
        cuts
    }

    /// What the rank at coordinate `index` sends in a phase.
    fn sends(&self, phase: &PhasePlan, index: u32) -> Sends {
        let lanes = self.plan.lanes[usize::from(phase.dim)];
        let lengths = lengths(self.plan.chunks);
        let of = |reverse: bool, length: u64| self.chunk_sends(phase, index, reverse, held(phase, length));
        let against = if lanes.ways == 2 { lanes.queues / 2 } else { 0 };
        let mut found = Sends::default();
        for (&length, &count) in &lengths {
            let (to, traffic) = of(false, length);
            let mut least = traffic;
            if against > 0 {
                let (_, back) = of(true, length);
                least.sent = least.sent.min(back.sent);
                least.received = least.received.min(back.received);
            } else {
                for (to, bytes) in to {
                    add(found.to.entry(to).or_default(), bytes, count);
                }
            }
            add(&mut found.all.sent, least.sent, count);
            add(&mut found.all.received, least.received, count);
        }
        if let (true, Some(&shortest)) = (against > 0, lengths.keys().next()) {
            // Of as many chunks as there are queues, so many run each way, whichever comes first.
            let turns = self.plan.chunks.len() as u64 / u64::from(lanes.queues);
            for (reverse, queues) in [(false, lanes.queues - against), (true, against)] {
                for (to, bytes) in of(reverse, shortest).0 {
                    add(found.to.entry(to).or_default(), bytes, turns * u64::from(queues));
                }
            }
        }
        found
    }

    /// The bytes of one chunk, of which a rank holds at least `elements`, to each other rank, and in all.
    fn chunk_sends(
        &self,
        phase: &PhasePlan,
        index: u32,
        reverse: bool,
        elements: u64,
    ) -> (BTreeMap<u32, u64>, Traffic) {
        let algorithm = &*phase.algorithm;
        let (mut to, mut all) = (BTreeMap::new(), Traffic::default());
        for stream in 0..phase.streams {
            let part = if algorithm.split() { elements / u64::from(phase.streams) } else { elements };
            let seat = Seat { kind: phase.kind, ranks: phase.size, index, stream, reverse };
            let bytes = |blocks: Blocks| {
                let elements = part / u64::from(blocks.of.max(1)) * u64::from(blocks.count);
                elements.saturating_mul(self.plan.element)
            };
            for op in program(algorithm, seat) {
                match op {
                    Op::Send { to: peer, blocks } => {
                        add(to.entry(peer).or_default(), bytes(blocks), 1);
                        add(&mut all.sent, bytes(blocks), 1);
                    }
                    Op::Receive { blocks, .. } => add(&mut all.received, bytes(blocks), 1),
                    _ => {}
                }
            }
        }
        (to, all)
    }

    /// Books what one rank sends to another.
    fn load(&mut self, cuts: &mut Cuts, phase: &PhasePlan, ends: (u32, u32), bytes: u64) {
        let ways = self.ways(phase, ends);
        let fabric = self.ground.fabric;
        let latency =
            |links: &[LinkId]| links.iter().map(|&link| fabric.speed(link).1.0).fold(0, u64::saturating_add);
        let mut book = |cut: Cut, places: &mut dyn Iterator<Item = (&Vec<LinkId>, usize)>| {
            let load = cuts.entry(cut).or_insert_with(Load::none);
            load.bytes = load.bytes.saturating_add(bytes);
            for (way, place) in places {
                load.choose(way[place]);
                load.before = load.before.min(latency(&way[..place]));
                load.behind = load.behind.min(latency(&way[place..]));
            }
        };
        let inside = self.ground.waits_inside();
        if let [way] = &ways[..] {
            let ends = |place: &usize| inside || *place == 0 || place + 1 == way.len();
            for place in (0..way.len()).filter(ends) {
                book(Cut::Link(way[place]), &mut std::iter::once((way, place)));
            }
        }
        // Beginnings and ends that all ways have: those of the NPUs, and of the switches next to them.
        for depth in 0..1 + usize::from(inside) {
            let out = |way: &Vec<LinkId>| {
                let link = *way.get(depth)?;
                Some((Cut::OutOf(fabric.link(link).from, self.tiers.tier_number(link)), depth))
            };
            let into = |way: &Vec<LinkId>| {
                let place = way.len().checked_sub(1 + depth)?;
                Some((Cut::Into(fabric.link(way[place]).to, self.tiers.tier_number(way[place])), place))
            };
            let end: [&dyn Fn(&Vec<LinkId>) -> Option<(Cut, usize)>; 2] = [&out, &into];
            for end in end {
                let found: Option<Vec<(Cut, usize)>> = ways.iter().map(end).collect();
                let Some(found) = found.filter(|found| found.windows(2).all(|pair| pair[0].0 == pair[1].0))
                else {
                    continue;
                };
                let Some(&(cut, _)) = found.first() else { continue };
                book(cut, &mut ways.iter().zip(found.iter().map(|found| found.1)));
            }
        }
    }

    /// All ways that a message between two ranks may take in a phase.
    fn ways(&mut self, phase: &PhasePlan, ends: (u32, u32)) -> Vec<Vec<LinkId>> {
        let (from, to) = (self.ground.npu(ends.0), self.ground.npu(ends.1));
        let paths = self.ground.paths();
        let mut ways: Vec<Vec<LinkId>> = Vec::new();
        for lane in 0..self.plan.lanes[usize::from(phase.dim)].queues {
            self.looked_up += u64::from(paths);
            let mut found =
                if paths > 1 { self.ground.fabric.routes(from, to, lane, paths) } else { Vec::new() };
            let mut own = Vec::new();
            if self.ground.fabric.route(from, to, lane, &mut own) {
                found.push(own);
            }
            for way in found {
                if !ways.contains(&way) {
                    ways.push(way);
                }
            }
        }
        ways
    }
}

/// What the smallest chunk takes alone, message after message, in phases in which all ranks of a group do alike.
fn chains(ground: &Ground<'_>, plan: &Planned<'_>) -> Time {
    let smallest = plan.chunks.iter().map(|chunk| chunk.len()).min().unwrap_or(0);
    let time = |phase: &PhasePlan| {
        let (rate, latency) = at_best(ground, plan.role, phase);
        let message = |bytes| {
            let passing = if rate.0 == u64::MAX { None } else { rate.transfer_time(bytes) };
            latency.saturating_add(passing.unwrap_or(Time::ZERO)).0
        };
        chain(&*phase.algorithm, phase.kind, phase.size, held(phase, smallest), plan.element, message)
    };
    let alike = plan.phases.iter().filter(|phase| phase.gates.is_empty());
    Time(alike.filter_map(time).fold(0, u64::saturating_add))
}

/// The best rate and least latency that a message of a phase can have.
fn at_best(ground: &Ground<'_>, role: &Role, phase: &PhasePlan) -> (Rate, Time) {
    let fabric = ground.fabric;
    let axis = role.axes.iter().find(|axis| axis.dim == Some(phase.dim));
    let paths = u64::from(ground.paths());
    if let Some(dim) = axis.and_then(|&axis| ground.dim(axis)) {
        let links = if dim.kind == syncline_units::DimKind::Switch { 2 } else { 1 };
        let rate = Rate(dim.rate.0.saturating_mul(paths));
        return (rate, Time(dim.latency.0.saturating_mul(links)));
    }
    let speeds: Vec<(Rate, Time)> = if fabric.is_graph() {
        (0..fabric.links()).map(|id| fabric.speed(LinkId(id))).collect()
    } else {
        fabric.dims().iter().map(|dim| (dim.rate, dim.latency)).collect()
    };
    let rate = speeds.iter().map(|speed| speed.0.0).max().unwrap_or(0).saturating_mul(paths);
    (Rate(rate), speeds.iter().map(|speed| speed.1).min().unwrap_or_default())
}
