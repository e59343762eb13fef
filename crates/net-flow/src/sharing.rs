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
#[cfg(test)]
mod tests;
mod ways;

use crate::tree::{NEVER, Tree};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use syncline_units::{Bytes, Rate, Time};
use ways::Ways;

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

/// A class's share of a link, but for its level: what is read whenever a flow on it changes its rate.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// What its flows can have together: the link's, less what higher classes take; while these still share, that may be
    /// more than there is.
    capacity: i64,
    /// What its flows have together, where that is followed.
    load: u64,
    /// Sum of the uses of flows whose rate is the level.
    sharers: u64,
    /// No flow that is held back elsewhere has a higher rate.
    top: u64,
    /// Whether its load is followed.
    followed: bool,
    /// Whether it is to find rates of bundles that have none.
    fresh: bool,
    /// Whether it is to be looked at again.
    queued: bool,
    /// Whether it is to be told when the first flow that it holds back is through.
    touched: bool,
}

impl Share {
    /// What is left of it; less than nothing where it is overloaded.
    #[inline]
    fn left(&self) -> i64 {
        self.capacity.saturating_sub_unsigned(self.load)
    }

    /// Whether flows have more than there is, or could have more than they have.
    #[inline]
    fn may_be_wrong(&self, level: u64) -> bool {
        let left = self.left();
        left < 0 || (left.cast_unsigned() >= self.sharers && level != UNBOUND)
    }
}

/// The rest of it.
#[derive(Clone, Debug)]
struct Node {
    /// Integral of the level over time, up to `since`.
    service: u128,
    /// Time of `service`.
    since: u64,
    /// Service at which the first of those that it holds back is through.
    next: u128,
    /// What flows would have if each had its ceiling.
    ceilings: u128,
    /// What it has carried.
    carried: u128,
    /// Bundles on it, those that it holds back first.
    members: Vec<Member>,
    /// How many it holds back.
    held: u32,
    /// Whether it may have to be followed, or not.
    crossed: bool,
}

/// A bundle that passes a link, with what is read whenever its rate changes.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// What its flows take of the link together, in multiples of the level.
    takes: u64,
    bundle: u32,
    /// Its way, in the list of all.
    way: u32,
    /// Where this link stands on it.
    hop: u32,
    /// Where the lowest level on its way is.
    bottleneck: u32,
}

/// Flows on the same way, with the same weight and class.
#[derive(Clone, Debug)]
struct Bundle {
    /// Its way, in the list of all, and how many links it has.
    way: u32,
    hops: u32,
    /// Flows.
    count: u32,
    /// Where the lowest level is.
    bottleneck: u32,
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
    /// Fair shares of nodes.
    levels: Vec<u64>,
    shares: Vec<Share>,
    nodes: Vec<Node>,
    classes: u32,
    /// What a flow of weight 1 takes of a link that it passes whole.
    whole: u32,
    /// A level is left as it is where it is wrong by no more than this part of it, in powers of one half.
    precision: u32,
    bundles: Vec<Bundle>,
    ways: Ways,
    /// Bundles that are closed, by the length of their ways.
    free: Vec<Vec<u32>>,
    /// When the first flow that each node holds back is through.
    ends: Tree,
    /// Nodes to be looked at, by class and level.
    queue: BinaryHeap<Reverse<Look>>,
    touched: Vec<u32>,
    crossed: Vec<u32>,
    caps: Vec<(u64, u64)>,
    looks: u64,
}

/// A node to be looked at: its class, the level from which on something may change, and its number, from the highest bits on.
type Look = u128;

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
        let share = |rate: Rate| Share {
            capacity: (rate.0.min(FASTEST.0) << UNIT).cast_signed(),
            load: 0,
            sharers: 0,
            top: 0,
            followed: classes > 1,
            fresh: false,
            queued: false,
            touched: false,
        };
        let shares: Vec<Share> =
            rates.into_iter().flat_map(|rate| (0..classes).map(move |_| share(rate))).collect();
        let node = Node {
            service: 0,
            since: 0,
            next: u128::MAX,
            ceilings: 0,
            carried: 0,
            members: Vec::new(),
            held: 0,
            crossed: false,
        };
        Self {
            ends: Tree::new(shares.len()),
            levels: vec![UNBOUND; shares.len()],
            nodes: vec![node; shares.len()],
            shares,
            classes,
            whole: if split { PARTS } else { 1 },
            precision: precision.map_or(63, |bits| bits.min(63)),
            bundles: Vec::new(),
            ways: Ways::default(),
            free: Vec::new(),
            queue: BinaryHeap::new(),
            touched: Vec::new(),
            crossed: Vec::new(),
            caps: Vec::new(),
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
        let (way, classes) = (bundle.way, self.classes);
        let node = |link| link * classes + class;
        self.ways.set(way, links.iter().map(|&(link, usage)| (node(link), weight * usage)));
        self.enter(number);
        for &(link, _) in links {
            let node = node(link);
            if self.shares[node as usize].followed {
                let member = *self.nodes[node as usize].members.last().expect("the bundle is on it");
                self.lead(member, true);
            }
        }
        number
    }

    /// A bundle with so many hops, of which nothing is said yet.
    fn bundle(&mut self, hops: usize) -> u32 {
        if let Some(number) = self.free.get_mut(hops).and_then(Vec::pop) {
            return number;
        }
        self.bundles.push(Bundle {
            way: self.ways.add(hops),
            hops: hops as u32,
            count: 0,
            bottleneck: NOWHERE,
            weight: 0,
            offset: 0,
            booked: 0,
            flows: BinaryHeap::new(),
        });
        self.bundles.len() as u32 - 1
    }

    /// Starts a flow of `bytes` in a bundle at `now`. Rates follow with [`Sharing::settle`].
    pub fn start(&mut self, now: Time, bundle: u32, bytes: Bytes, flow: u32) {
        self.lift(bundle, now);
        let number = bundle;
        let bundle = &mut self.bundles[number as usize];
        bundle.count += 1;
        let need = (u128::from(bytes.0) * 8 * BIT).div_ceil(u128::from(bundle.weight));
        bundle.flows.push(Reverse((bundle.offset + need, flow)));
        self.recount(number);
    }

    /// Takes a bundle's rate away, for its bottleneck to find a new one.
    fn lift(&mut self, number: u32, now: Time) {
        let bottleneck = self.bundles[number as usize].bottleneck;
        if bottleneck != NOWHERE {
            self.book(number, now);
            let had = self.service(bottleneck, now).wrapping_add(self.bundles[number as usize].offset);
            let level = self.levels[bottleneck as usize];
            self.release(number);
            self.change(self.member(number), level, NONE, NOWHERE);
            self.set_bottleneck(number, NOWHERE);
            self.bundles[number as usize].offset = had;
            self.renew(bottleneck);
        } else if self.bundles[number as usize].count > 0 {
            return;
        }
        let (likely, level) = if bottleneck == NOWHERE { self.guess(number) } else { (bottleneck, 0) };
        if !self.shares[likely as usize].followed {
            self.follow(likely);
        }
        self.shares[likely as usize].fresh = true;
        self.look(likely, level);
    }

    /// Where a bundle will probably be held back, and at which level.
    fn guess(&self, number: u32) -> (u32, u64) {
        let bundle = &self.bundles[number as usize];
        let offer = |at: usize| {
            let node = self.ways.node(at);
            let (share, level) = (&self.shares[node as usize], self.levels[node as usize]);
            if level != UNBOUND {
                return (level, node);
            }
            let taken =
                if share.followed { u128::from(share.load) } else { self.nodes[node as usize].ceilings };
            let taken = u64::try_from(taken).unwrap_or(u64::MAX);
            let left = share.capacity.saturating_sub_unsigned(taken).max(0).cast_unsigned();
            (left / u64::from(self.ways.usage(at)), node)
        };
        let offers = Ways::all(bundle.way, bundle.hops).map(offer);
        let (level, node) = offers.min().expect("a way has links");
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
            let (service, level) = (self.service(node, now), self.levels[node as usize]);
            for at in (0..self.nodes[node as usize].held as usize).rev() {
                let member = self.nodes[node as usize].members[at];
                let number = member.bundle;
                if self.bundles[number as usize].first() > service {
                    continue;
                }
                self.book(number, now);
                self.change(member, level, NONE, NOWHERE);
                let bundle = &mut self.bundles[number as usize];
                while bundle.first() <= service {
                    let Reverse((_, flow)) = bundle.flows.pop().expect("it has a first");
                    through(flow);
                    bundle.count -= 1;
                }
                if bundle.count == 0 {
                    self.close(number);
                    closed(number);
                } else {
                    self.recount(number);
                    self.change(self.member(number), NONE, level, NOWHERE);
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

    /// How often a link's level was computed.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The level that a bundle has.
    fn has(&self, number: u32) -> u64 {
        match self.bundles[number as usize].bottleneck {
            NOWHERE => 0,
            node => self.levels[node as usize],
        }
    }

    /// The rate of a flow of `bundle`, in units of 2^-[`UNIT`] b/s.
    pub fn rate(&self, bundle: u32) -> u64 {
        self.has(bundle) * self.bundles[bundle as usize].weight
    }

    /// What flows of `class` take of `link`, in units of 2^-[`UNIT`] b/s.
    pub fn load(&self, link: u32, class: u32) -> u64 {
        let members = &self.nodes[(link * self.classes + class) as usize].members;
        members.iter().map(|member| member.takes * self.has(member.bundle)).sum()
    }

    /// The flows of a bundle, and what each is still to have at `now`.
    pub fn flows(&self, bundle: u32, now: Time) -> impl Iterator<Item = (u32, Bytes)> {
        let bundle_of = &self.bundles[bundle as usize];
        let had = match bundle_of.bottleneck {
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
        self.levels[(link * self.classes + class) as usize]
    }
}
