//! Max-min fair sharing of links among flows (Bertsekas and Gallager, "Data Networks", 6.5.2), kept up to date as flows
//! come and go.
//!
//! **Levels.** Of each link the fair share is kept, its *level*: the rate that a flow of weight 1 has there if nothing
//! else holds it back. A link that is not full has none. A flow's rate is its weight times the lowest level on its way,
//! whose link is its *bottleneck*. Rates are max-min fair exactly where each link's level shares out what is left of it by the
//! flows that are held back elsewhere (Charny, Clark and Jain, "Congestion control with explicit rate indication", 1995:
//! that fixed point is unique). So only a link whose flows have changed their rates is looked at again, lowest levels first,
//! and a change ends where a level stays as it is.
//!
//! **Service.** Flows with the same bottleneck progress alike, so each link keeps one integral of its level over time, and
//! each flow the value at which it is through. A change of level touches one number and no flow. Flows on the same way are one
//! *bundle*.
//!
//! **Ceilings.** The load of a link that can hold back nobody need not be known. Each bundle has a ceiling a little above its
//! rate, and while the ceilings on a link find room there, changes of rates below them do not concern it.
//!
//! **Integers.** Rates are multiples of 2^-[`UNIT`] b/s, levels are rounded down, and all sums are exact: no link carries
//! more than it can, and a flow is through in the first picosecond in which it has had all that it asked for.

mod ceilings;
mod levels;
mod members;
mod service;
mod shares;
#[cfg(test)]
mod tests;
mod ways;

use crate::tree::{NEVER, Tree};
use members::Member;
use shares::Shares;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use syncline_units::{Bytes, Rate, Time};
use ways::{Hop, Ways};

/// Rates are multiples of 1 b/s over two to this power.
pub const UNIT: u32 = 12;

/// The largest rate that a link may have.
pub const FASTEST: Rate = Rate(i64::MAX as u64 >> UNIT);

/// Parts that a flow is cut into for several ways: divisible by all numbers up to 10, and by many more.
pub const PARTS: u32 = 20_160;

/// A bit, in units times picoseconds.
const BIT: u128 = 1_000_000_000_000 << UNIT;

/// The level of a link that holds nobody back.
const UNBOUND: u64 = u64::MAX;

/// The level of a bundle that has no rate.
const NONE: u64 = UNBOUND - 1;

/// The bottleneck of a bundle whose rate is yet to be found.
const NOWHERE: u32 = u32::MAX;

/// What of a class's share of a link is read when its level changes; as long as a line of a cache.
#[derive(Clone, Debug)]
struct Node {
    /// Integral of the level over time, up to `since`.
    service: u128,
    /// Service at which the first of those that it holds back is through.
    next: u128,
    /// Time of `service`.
    since: u64,
    /// Bundles on it, those that it holds back first.
    members: Vec<Member>,
}

/// What flows on the same way, with the same weight and class, have had, and when they are through.
#[derive(Clone, Debug, Default)]
struct Bundle {
    /// What a flow gets for each unit of the level.
    weight: u64,
    /// What its flows have had since the bundle began is this and the bottleneck's service.
    offset: u128,
    /// What they had when it was booked last.
    booked: u128,
    /// Service at which flows are through, and who they are.
    flows: BinaryHeap<Reverse<(u128, u32)>>,
}

impl Bundle {
    /// The bottleneck's service at which its first flow is through.
    #[inline]
    fn first(&self) -> u128 {
        self.flows.peek().map_or(u128::MAX, |Reverse((service, _))| service.wrapping_sub(self.offset))
    }
}

/// Links, and the flows on them.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// What classes have of links: the share of class `c` of link `l` is node `l * classes + c`.
    shares: Shares,
    nodes: Vec<Node>,
    /// How many bundles each node holds back.
    held: Vec<u32>,
    /// What flows would have of each node if each had its ceiling.
    ceilings: Vec<u128>,
    /// What each node has carried.
    carried: Vec<u128>,
    /// What a flow of weight 1 takes of a link that it passes whole.
    whole: u32,
    bundles: Vec<Bundle>,
    ways: Ways,
    /// Bundles that are closed, by the length of their ways.
    free: Vec<Vec<u32>>,
    /// When the first flow that each node holds back is through.
    ends: Tree,
    touched: Vec<u32>,
    crossed: Vec<u32>,
    caps: Vec<(u64, u64)>,
    /// Places of members whose bottleneck may be another now.
    moving: Vec<u32>,
    looks: u64,
}

impl Sharing {
    /// Idle links of these rates, at most [`FASTEST`]. Flows of a class take what those with lower numbers leave. With
    /// `split`, flows may take several ways. A level that is wrong by less than its part of two to the power of minus
    /// `precision` is left as it is; without it sharing is exact.
    pub fn new(
        rates: impl IntoIterator<Item = Rate>,
        classes: u32,
        split: bool,
        precision: Option<u32>,
    ) -> Self {
        let capacities = rates.into_iter().map(|rate| (rate.0.min(FASTEST.0) << UNIT).cast_signed());
        let capacities: Vec<i64> =
            capacities.flat_map(|capacity| (0..classes).map(move |_| capacity)).collect();
        let nodes = capacities.len();
        let node = Node { service: 0, next: u128::MAX, since: 0, members: Vec::new() };
        Self {
            shares: Shares::new(capacities, classes, precision),
            nodes: vec![node; nodes],
            held: vec![0; nodes],
            ceilings: vec![0; nodes],
            carried: vec![0; nodes],
            whole: if split { PARTS } else { 1 },
            bundles: Vec::new(),
            ways: Ways::default(),
            free: Vec::new(),
            ends: Tree::new(nodes),
            touched: Vec::new(),
            crossed: Vec::new(),
            caps: Vec::new(),
            moving: Vec::new(),
            looks: 0,
        }
    }

    /// What a flow of weight 1 takes of a link that it passes once, whole: in such units [`Sharing::open`] is told.
    pub fn whole(&self) -> u32 {
        self.whole
    }

    /// Opens a bundle of flows over these links, each named once with what a flow takes of it: [`Sharing::whole`] if all of
    /// it passes once.
    pub fn open(&mut self, links: &[(u32, u32)], weight: u32, class: u32) -> u32 {
        let number = self.bundle(links.len());
        let bundle = &mut self.bundles[number as usize];
        debug_assert!(bundle.flows.is_empty());
        bundle.weight = u64::from(weight) * u64::from(self.whole);
        (bundle.offset, bundle.booked) = (0, 0);
        let classes = self.shares.classes();
        let node = |link| link * classes + class;
        self.ways.set(number, links.iter().map(|&(link, usage)| (node(link), weight * usage)));
        self.enter(number);
        number
    }

    /// A bundle with so many hops, of which nothing is said yet.
    fn bundle(&mut self, hops: usize) -> u32 {
        if let Some(number) = self.free.get_mut(hops).and_then(Vec::pop) {
            return number;
        }
        self.ways.add(hops as u32);
        self.bundles.push(Bundle::default());
        self.bundles.len() as u32 - 1
    }

    /// Starts a flow of `bytes` in a bundle at `now`. Rates follow with [`Sharing::settle`].
    pub fn start(&mut self, now: Time, bundle: u32, bytes: Bytes, flow: u32) {
        self.lift(bundle, now);
        let number = bundle;
        self.ways.way_mut(number).count += 1;
        let bundle = &mut self.bundles[number as usize];
        let need = (u128::from(bytes.0) * 8 * BIT).div_ceil(u128::from(bundle.weight));
        bundle.flows.push(Reverse((bundle.offset + need, flow)));
        self.write(number);
    }

    /// Takes a bundle's rate away, for its bottleneck to find a new one.
    fn lift(&mut self, number: u32, now: Time) {
        let bottleneck = self.ways.way(number).bottleneck;
        if bottleneck != NOWHERE {
            self.book(number, now);
            let had = self.service(bottleneck, now).wrapping_add(self.bundles[number as usize].offset);
            let level = self.shares.level(bottleneck);
            self.release(number);
            self.change(number, level, NONE);
            self.ways.way_mut(number).bottleneck = NOWHERE;
            self.bundles[number as usize].offset = had;
            self.renew(bottleneck);
        } else if self.ways.way(number).count > 0 {
            return;
        }
        let (likely, level) = if bottleneck == NOWHERE { self.guess(number) } else { (bottleneck, 0) };
        if !self.shares.marks(likely).followed {
            self.follow(likely);
        }
        self.shares.marks_mut(likely).fresh = true;
        self.shares.look(likely, level);
    }

    /// Where a bundle will probably be held back, and at which level.
    fn guess(&self, number: u32) -> (u32, u64) {
        let offer = |&Hop { node, usage, .. }: &Hop| {
            let level = self.shares.level(node);
            if level != UNBOUND {
                return (level, node);
            }
            let left = if self.shares.marks(node).followed {
                self.shares.left(node)
            } else {
                let taken = u64::try_from(self.ceilings[node as usize]).unwrap_or(u64::MAX);
                self.shares.capacity(node).saturating_sub_unsigned(taken)
            };
            (left.max(0).cast_unsigned() / u64::from(usage), node)
        };
        let (level, node) = self.ways.hops(number).iter().map(offer).min().expect("a way has links");
        (node, level)
    }

    /// The flows that are through at `now`. Rates follow with [`Sharing::settle`]. Bundles that
    /// are empty then are closed, and told of in `closed`.
    pub fn finish(&mut self, now: Time, mut through: impl FnMut(u32), mut closed: impl FnMut(u32)) {
        loop {
            let (node, time) = self.ends.first();
            if time > now.0 {
                return;
            }
            let (service, level) = (self.service(node, now), self.shares.level(node));
            for at in (0..self.held[node as usize] as usize).rev() {
                let number = self.nodes[node as usize].members[at].bundle;
                if self.bundles[number as usize].first() > service {
                    continue;
                }
                self.book(number, now);
                self.change(number, level, NONE);
                let (bundle, way) = (&mut self.bundles[number as usize], self.ways.way_mut(number));
                while bundle.first() <= service {
                    let Reverse((_, flow)) = bundle.flows.pop().expect("it has a first");
                    through(flow);
                    way.count -= 1;
                }
                if way.count == 0 {
                    self.close(number);
                    closed(number);
                } else {
                    self.write(number);
                    self.change(number, NONE, level);
                }
            }
            self.renew(node);
            self.file(node);
        }
    }

    /// When the next flow is through; never where none is under way.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let (_, time) = self.ends.first();
        (time != NEVER).then_some(Time(time))
    }

    /// A link whose share for each unit of weight is less than one unit of rate, so that flows there have none for ever: a
    /// link, one of its bundles that takes most for a flow, and what all flows there take of it together, in multiples of
    /// what one of weight 1 takes that passes it whole ([`Sharing::most`] is what they may).
    pub fn starved(&self) -> Option<(u32, u32, u64)> {
        let waits = |&number: &u32| {
            let way = self.ways.way(number);
            way.count > 0 && way.bottleneck != NOWHERE && self.shares.level(way.bottleneck) == 0
        };
        let first = (0..self.bundles.len() as u32).find(waits)?;
        let node = self.ways.way(first).bottleneck;
        let active = self.nodes[node as usize].members.iter().map(|member| member.bundle);
        let active: Vec<u32> = active.filter(|&number| self.ways.way(number).count > 0).collect();
        let all = active.iter().map(|&number| self.takes(number, node)).sum::<u64>();
        let heaviest =
            active.into_iter().max_by_key(|&number| (self.bundles[number as usize].weight, Reverse(number)));
        Some((node / self.shares.classes(), heaviest?, all.div_ceil(u64::from(self.whole))))
    }

    /// The largest sum of weights of flows on a link of this rate with which each has a rate.
    pub fn most(&self, rate: Rate) -> u64 {
        (rate.0.min(FASTEST.0) << UNIT) / u64::from(self.whole)
    }

    /// How often a link's level was computed.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The level that a bundle has.
    fn has(&self, number: u32) -> u64 {
        match self.ways.way(number).bottleneck {
            NOWHERE => 0,
            node => self.shares.level(node),
        }
    }

    /// The rate of a flow of `bundle`, in units of 2^-[`UNIT`] b/s.
    pub fn rate(&self, bundle: u32) -> u64 {
        self.has(bundle) * self.bundles[bundle as usize].weight
    }

    /// What flows of `class` take of `link`, in units of 2^-[`UNIT`] b/s.
    pub fn load(&self, link: u32, class: u32) -> u64 {
        let node = link * self.shares.classes() + class;
        let members = self.nodes[node as usize].members.iter();
        members.map(|member| self.takes(member.bundle, node) * self.has(member.bundle)).sum()
    }

    /// The flows of a bundle, and what each is still to have at `now`.
    pub fn flows(&self, bundle: u32, now: Time) -> impl Iterator<Item = (u32, Bytes)> {
        let bundle_of = &self.bundles[bundle as usize];
        let had = match self.ways.way(bundle).bottleneck {
            NOWHERE => bundle_of.offset,
            node => self.service(node, now).wrapping_add(bundle_of.offset),
        };
        bundle_of.flows.iter().map(move |&Reverse((service, flow))| {
            let left = service.saturating_sub(had) * u128::from(bundle_of.weight) / (8 * BIT);
            (flow, Bytes(u64::try_from(left).unwrap_or(u64::MAX)))
        })
    }

    /// The fair share of flows of `class` at `link`, in units of 2^-[`UNIT`] b/s for each unit of weight; the largest number
    /// where it holds back nobody.
    pub fn level(&self, link: u32, class: u32) -> u64 {
        self.shares.level(link * self.shares.classes() + class)
    }
}
