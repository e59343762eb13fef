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

use crate::tree::{NEVER, Tree};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use syncline_units::{Bytes, Rate, Time};

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

/// The bottleneck of a bundle whose rate is yet to be found.
const NOWHERE: u32 = u32::MAX;

/// A class's share of a link: what is read whenever a flow on it changes its rate.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// What its flows can have together: the link's, less what higher classes take; while these still share, that may be
    /// more than there is.
    capacity: i64,
    /// The fair share.
    level: u64,
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

impl Node {
    /// Whether ceilings find room in its capacity.
    #[inline]
    fn has_room(&self, capacity: i64) -> bool {
        self.ceilings <= u128::from(capacity.cast_unsigned())
    }
}

/// A bundle that passes a link.
#[derive(Clone, Copy, Debug)]
struct Member {
    bundle: u32,
    /// Which of the bundle's hops this is.
    hop: u32,
}

/// A link on a bundle's way.
#[derive(Clone, Copy, Debug)]
struct Hop {
    node: u32,
    /// What a flow takes of the link, in multiples of the level.
    usage: u32,
}

/// The way of a bundle: what is read whenever its rate changes.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Its first hop in the list of all.
    start: u32,
    /// How many there are.
    hops: u16,
    /// How many of them are followed: these come first.
    followed: u16,
    /// Flows.
    count: u32,
    /// Where the lowest level is.
    bottleneck: u32,
}

impl Way {
    /// Places of its hops in the list of all.
    #[inline]
    fn all(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.hops)
    }

    /// The same, of links that are followed.
    #[inline]
    fn followed(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.followed)
    }
}

/// Flows on the same way, with the same weight and class.
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
    shares: Vec<Share>,
    nodes: Vec<Node>,
    classes: u32,
    /// What a flow of weight 1 takes of a link that it passes whole.
    whole: u32,
    /// A level is left as it is where it is wrong by no more than this part of it, in powers of one half.
    precision: u32,
    ways: Vec<Way>,
    bundles: Vec<Bundle>,
    /// Hops of all bundles, and their places among the members of their nodes.
    hops: Vec<Hop>,
    places: Vec<u32>,
    /// Bundles that are closed, by the length of their ways.
    free: Vec<Vec<u32>>,
    /// When the first flow that each node holds back is through.
    ends: Tree,
    /// Nodes to be looked at, by class and level.
    queue: BinaryHeap<Reverse<(u32, u64, u32)>>,
    touched: Vec<u32>,
    crossed: Vec<u32>,
    caps: Vec<(u64, u64)>,
    /// Bundles that a node held back so far, with their ways, and the level and bottleneck that they have next.
    held: Vec<(Member, Way, u64, u32)>,
    looks: u64,
}

/// The ceiling of a rate: the next number above it with four bits that count.
#[inline]
fn ceiling(rate: u64) -> u64 {
    let shift = 60u32.saturating_sub(rate.leading_zeros());
    ((rate >> shift) + 1) << shift
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
        let share = |rate: Rate| Share {
            capacity: (rate.0.min(FASTEST.0) << UNIT).cast_signed(),
            level: UNBOUND,
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
            nodes: vec![node; shares.len()],
            shares,
            classes,
            whole: if split { PARTS } else { 1 },
            precision: precision.map_or(63, |bits| bits.min(63)),
            ways: Vec::new(),
            bundles: Vec::new(),
            hops: Vec::new(),
            places: Vec::new(),
            free: Vec::new(),
            queue: BinaryHeap::new(),
            touched: Vec::new(),
            crossed: Vec::new(),
            caps: Vec::new(),
            held: Vec::new(),
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
        let first = self.ways[number as usize].start as usize;
        for (hop, &(link, usage)) in links.iter().enumerate() {
            let node = link * self.classes + class;
            let members = &mut self.nodes[node as usize].members;
            self.hops[first + hop] = Hop { node, usage: weight * usage };
            self.places[first + hop] = members.len() as u32;
            members.push(Member { bundle: number, hop: hop as u32 });
        }
        for &(link, _) in links {
            let node = link * self.classes + class;
            if self.shares[node as usize].followed {
                self.lead(number, node, true);
            }
        }
        number
    }

    /// A bundle with so many hops, of which nothing is said yet.
    fn bundle(&mut self, hops: usize) -> u32 {
        if let Some(number) = self.free.get_mut(hops).and_then(Vec::pop) {
            return number;
        }
        let (start, number) = (self.hops.len() as u32, self.bundles.len() as u32);
        self.bundles.push(Bundle::default());
        self.ways.push(Way { start, hops: hops as u16, followed: 0, count: 0, bottleneck: NOWHERE });
        self.hops.resize(self.hops.len() + hops, Hop { node: 0, usage: 0 });
        self.places.resize(self.hops.len(), 0);
        number
    }

    /// What the flows of a bundle take together at a hop, in multiples of the level.
    #[inline]
    fn usage(&self, way: &Way, hop: u32) -> u64 {
        u64::from(self.hops[way.start as usize + hop as usize].usage) * u64::from(way.count)
    }

    /// Starts a flow of `bytes` in a bundle at `now`. Rates follow with [`Sharing::settle`].
    pub fn start(&mut self, now: Time, bundle: u32, bytes: Bytes, flow: u32) {
        self.lift(bundle, now);
        self.ways[bundle as usize].count += 1;
        let bundle = &mut self.bundles[bundle as usize];
        let need = (u128::from(bytes.0) * 8 * BIT).div_ceil(u128::from(bundle.weight));
        bundle.flows.push(Reverse((bundle.offset + need, flow)));
    }

    /// Takes a bundle's rate away, for its bottleneck to find a new one.
    fn lift(&mut self, number: u32, now: Time) {
        let bottleneck = self.ways[number as usize].bottleneck;
        if bottleneck != NOWHERE {
            self.book(number, now);
            let had = self.service(bottleneck, now).wrapping_add(self.bundles[number as usize].offset);
            let rate = self.shares[bottleneck as usize].level;
            self.release(number);
            self.change(number, Some(rate), None, NOWHERE);
            self.ways[number as usize].bottleneck = NOWHERE;
            self.bundles[number as usize].offset = had;
            self.renew(bottleneck);
        } else if self.ways[number as usize].count > 0 {
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
        let offer = |hop: &Hop| {
            let share = &self.shares[hop.node as usize];
            if share.level == UNBOUND {
                let taken = if share.followed {
                    u128::from(share.load)
                } else {
                    self.nodes[hop.node as usize].ceilings
                };
                let taken = u64::try_from(taken).unwrap_or(u64::MAX);
                let left = share.capacity.saturating_sub_unsigned(taken).max(0).cast_unsigned();
                (left / u64::from(hop.usage), hop.node)
            } else {
                (share.level, hop.node)
            }
        };
        let offers = self.hops[self.ways[number as usize].all()].iter().map(offer);
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
            let service = self.service(node, now);
            for at in (0..self.nodes[node as usize].held as usize).rev() {
                let number = self.nodes[node as usize].members[at].bundle;
                if self.bundles[number as usize].first() > service {
                    continue;
                }
                self.book(number, now);
                let level = self.shares[node as usize].level;
                self.change(number, Some(level), None, NOWHERE);
                let bundle = &mut self.bundles[number as usize];
                while bundle.first() <= service {
                    let Reverse((_, flow)) = bundle.flows.pop().expect("it has a first");
                    through(flow);
                    self.ways[number as usize].count -= 1;
                }
                if self.ways[number as usize].count == 0 {
                    self.close(number);
                    closed(number);
                } else {
                    self.change(number, None, Some(level), NOWHERE);
                }
            }
            self.renew(node);
            self.file(node);
        }
    }

    /// Takes an empty bundle off its links.
    fn close(&mut self, number: u32) {
        self.release(number);
        let way = &mut self.ways[number as usize];
        (way.followed, way.bottleneck) = (0, NOWHERE);
        for at in way.all() {
            let place = self.places[at];
            let members = &mut self.nodes[self.hops[at].node as usize].members;
            members.swap_remove(place as usize);
            if let Some(&Member { bundle, hop }) = members.get(place as usize) {
                self.places[self.ways[bundle as usize].start as usize + hop as usize] = place;
            }
        }
        let hops = usize::from(self.ways[number as usize].hops);
        if self.free.len() <= hops {
            self.free.resize(hops + 1, Vec::new());
        }
        self.free[hops].push(number);
    }

    /// Puts a bundle among those that a node on its way holds back.
    #[inline]
    fn hold(&mut self, number: u32, node: u32) {
        let place = self.nodes[node as usize].held;
        self.nodes[node as usize].held += 1;
        self.swap(number, node, place);
    }

    /// Takes a bundle from among those that its bottleneck holds back.
    #[inline]
    fn release(&mut self, number: u32) {
        let node = self.ways[number as usize].bottleneck;
        self.nodes[node as usize].held -= 1;
        let place = self.nodes[node as usize].held;
        self.swap(number, node, place);
    }

    /// Moves a bundle to another place among the members of a node.
    #[inline]
    fn swap(&mut self, number: u32, node: u32, place: u32) {
        let at = self.hop(number, node);
        let from = std::mem::replace(&mut self.places[at], place);
        let members = &mut self.nodes[node as usize].members;
        members.swap(from as usize, place as usize);
        if from != place {
            let other = members[from as usize];
            self.places[self.ways[other.bundle as usize].start as usize + other.hop as usize] = from;
        }
    }

    /// The place of a node on a bundle's way in the list of all hops.
    #[inline]
    fn hop(&self, number: u32, node: u32) -> usize {
        let mut all = self.ways[number as usize].all();
        all.find(|&at| self.hops[at].node == node).expect("it is on the way")
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
    #[inline]
    fn has(&self, number: u32) -> u64 {
        match self.ways[number as usize].bottleneck {
            NOWHERE => 0,
            node => self.shares[node as usize].level,
        }
    }

    /// The rate of a flow of `bundle`, in units of 2^-[`UNIT`] b/s.
    pub fn rate(&self, bundle: u32) -> u64 {
        self.has(bundle) * self.bundles[bundle as usize].weight
    }

    /// What flows of `class` take of `link`, in units of 2^-[`UNIT`] b/s.
    pub fn load(&self, link: u32, class: u32) -> u64 {
        let members = &self.nodes[(link * self.classes + class) as usize].members;
        let load = |member: &Member| {
            self.usage(&self.ways[member.bundle as usize], member.hop) * self.has(member.bundle)
        };
        members.iter().map(load).sum()
    }

    /// The flows of a bundle, and what each is still to have at `now`.
    pub fn flows(&self, bundle: u32, now: Time) -> impl Iterator<Item = (u32, Bytes)> {
        let bundle_of = &self.bundles[bundle as usize];
        let had = match self.ways[bundle as usize].bottleneck {
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
        self.shares[(link * self.classes + class) as usize].level
    }

    /// The integral of a node's level up to `now`.
    #[inline]
    fn service(&self, node: u32, now: Time) -> u128 {
        let (share, node) = (&self.shares[node as usize], &self.nodes[node as usize]);
        match share.level {
            UNBOUND => node.service,
            level => node.service + u128::from(level) * u128::from(now.0 - node.since),
        }
    }

    /// The rate of a bundle changes from level `was` to level `is`, or it had none or has none any more. Nodes on its way are
    /// looked at again where that makes their level wrong, but for node `but`, whose sharers the caller counts.
    #[inline]
    fn change(&mut self, number: u32, was: Option<u64>, is: Option<u64>, but: u32) {
        let (old, new) = (was.unwrap_or(0), is.unwrap_or(0));
        if ceiling(old) != ceiling(new) && self.classes == 1 {
            self.cover(number, old, new);
        }
        let way = self.ways[number as usize];
        let count = u64::from(way.count);
        for at in way.followed() {
            let Hop { node, usage } = self.hops[at];
            let share = &mut self.shares[node as usize];
            let usage = u64::from(usage) * count;
            let before = share.load;
            share.load = before + usage * new - usage * old;
            if node != but {
                if was == Some(share.level) {
                    share.sharers -= usage;
                }
                if is == Some(share.level) {
                    share.sharers += usage;
                }
                share.top = share.top.max(new);
                self.check(node);
            }
            if self.classes > 1 {
                let after = self.shares[node as usize].load;
                self.yield_to(node, before, after);
            }
        }
    }

    /// A bundle has another ceiling, which may decide whether nodes on its way are followed.
    #[cold]
    fn cover(&mut self, number: u32, old: u64, new: u64) {
        let ceiling = |level: u64| if level == 0 { 0 } else { u128::from(ceiling(level)) };
        let (old, new) = (ceiling(old), ceiling(new));
        let way = &self.ways[number as usize];
        let count = u128::from(way.count);
        for hop in &self.hops[way.all()] {
            let (share, node) = (&self.shares[hop.node as usize], &mut self.nodes[hop.node as usize]);
            let usage = count * u128::from(hop.usage);
            node.ceilings = node.ceilings + usage * new - usage * old;
            if share.followed == node.has_room(share.capacity) && !node.crossed {
                node.crossed = true;
                self.crossed.push(hop.node);
            }
        }
    }

    /// Follows nodes where ceilings find no room any more, and leaves those that hold back nobody and where they do.
    fn cross(&mut self) {
        while let Some(number) = self.crossed.pop() {
            let node = &mut self.nodes[number as usize];
            node.crossed = false;
            let share = &self.shares[number as usize];
            let room = node.has_room(share.capacity);
            if !share.followed && !room {
                self.follow(number);
                self.check(number);
            } else if share.followed && room && share.level == UNBOUND && !share.queued {
                self.leave(number);
            }
        }
    }

    /// Follows the load of a node from now on.
    fn follow(&mut self, number: u32) {
        let (mut load, mut top) = (0, 0);
        for at in 0..self.nodes[number as usize].members.len() {
            let Member { bundle, hop } = self.nodes[number as usize].members[at];
            let has = self.has(bundle);
            load += self.usage(&self.ways[bundle as usize], hop) * has;
            top = top.max(has);
            self.lead(bundle, number, true);
        }
        let share = &mut self.shares[number as usize];
        (share.followed, share.load, share.sharers, share.top) = (true, load, 0, top);
    }

    /// Does not follow the load of a node any more.
    fn leave(&mut self, number: u32) {
        self.shares[number as usize].followed = false;
        for at in 0..self.nodes[number as usize].members.len() {
            let bundle = self.nodes[number as usize].members[at].bundle;
            self.lead(bundle, number, false);
        }
    }

    /// Puts a node among those that are followed on a bundle's way, or takes it from among them.
    fn lead(&mut self, number: u32, node: u32, followed: bool) {
        let from = self.hop(number, node);
        let way = &mut self.ways[number as usize];
        way.followed -= u16::from(!followed);
        let to = way.followed().end;
        way.followed += u16::from(followed);
        let start = way.start as usize;
        self.hops.swap(from, to);
        self.places.swap(from, to);
        for at in [from, to] {
            let members = &mut self.nodes[self.hops[at].node as usize].members;
            members[self.places[at] as usize].hop = (at - start) as u32;
        }
    }

    /// Books what a bundle has had up to `now`.
    fn book(&mut self, number: u32, now: Time) {
        let way = &self.ways[number as usize];
        let had = self.service(way.bottleneck, now).wrapping_add(self.bundles[number as usize].offset);
        let bundle = &mut self.bundles[number as usize];
        let each = had.wrapping_sub(std::mem::replace(&mut bundle.booked, had)) * u128::from(way.count);
        for hop in &self.hops[way.all()] {
            self.nodes[hop.node as usize].carried += each * u128::from(hop.usage);
        }
    }

    /// Books what all links carried up to `now`, since which rates have not changed.
    pub fn book_all(&mut self, now: Time) {
        for number in 0..self.bundles.len() as u32 {
            if self.ways[number as usize].count > 0 {
                self.book(number, now);
            }
        }
    }

    /// What flows have sent over `link`, as far as it is booked: the integral of their rates, in units times picoseconds.
    pub fn carried(&self, link: u32) -> u128 {
        let first = (link * self.classes) as usize;
        self.nodes[first..first + self.classes as usize].iter().map(|node| node.carried).sum()
    }

    /// How long `link` takes to carry so many bytes, rounded down.
    pub fn time_of(&self, link: u32, bytes: Bytes) -> Time {
        self.busy(link, u128::from(bytes.0) * 8 * BIT)
    }

    /// How long `link` takes to carry so much.
    pub fn busy(&self, link: u32, carried: u128) -> Time {
        let rate = self.shares[(link * self.classes) as usize].capacity;
        Time(u64::try_from(carried / u128::from(rate.max(1).cast_unsigned())).unwrap_or(u64::MAX))
    }

    /// What a class takes, lower ones do not have.
    #[cold]
    fn yield_to(&mut self, node: u32, before: u64, after: u64) {
        let end = (node / self.classes + 1) * self.classes;
        for lower in node + 1..end {
            let capacity = &mut self.shares[lower as usize].capacity;
            *capacity = capacity.saturating_add_unsigned(before).saturating_sub_unsigned(after);
            self.check(lower);
        }
    }

    /// Has a node looked at again if its level is not right any more.
    #[inline]
    fn check(&mut self, number: u32) {
        let share = &self.shares[number as usize];
        let left = share.left();
        if share.queued || (left >= 0 && (left.cast_unsigned() < share.sharers || share.level == UNBOUND)) {
            return;
        }
        let level = match share.level {
            // It is not known how many more will come: all are asked at once.
            UNBOUND => 0,
            level if share.sharers == 0 => level,
            level => {
                if left.unsigned_abs() <= (level >> self.precision) * share.sharers {
                    return;
                }
                // Levels are rounded down.
                if left >= 0 {
                    level
                } else {
                    level.saturating_sub(left.unsigned_abs().div_ceil(share.sharers))
                }
            }
        };
        self.look(number, level);
    }

    /// Has a node looked at again.
    #[inline]
    fn look(&mut self, number: u32, level: u64) {
        let share = &mut self.shares[number as usize];
        if !share.queued {
            share.queued = true;
            self.queue.push(Reverse((number % self.classes, level, number)));
        }
    }

    /// The level that a node needs next.
    ///
    /// If its flows were held back here and elsewhere as they are now, that is a division. A higher level may let go of some,
    /// which is found out when they are told, and the node is looked at again. With a lower level, it may come to hold back
    /// others: if there may be any, all are asked, and so are those that have no rate yet. Whether all were asked is returned.
    fn next_level(&mut self, number: u32) -> (u64, bool) {
        self.looks += 1;
        let share = &self.shares[number as usize];
        if share.level == UNBOUND || share.sharers == 0 || share.fresh {
            return (self.fair(number), true);
        }
        let left = share.left();
        if left >= 0 {
            return (share.level + left.cast_unsigned() / share.sharers, false);
        }
        let level = share.level.saturating_sub(left.unsigned_abs().div_ceil(share.sharers));
        if share.top > level { (self.fair(number), true) } else { (level, false) }
    }

    /// The fair share at a node, of what is left by flows that are held back elsewhere.
    fn fair(&mut self, number: u32) -> u64 {
        self.caps.clear();
        let node = &self.nodes[number as usize];
        let (mut sharers, mut top) = (0, 0);
        for (at, member) in node.members.iter().enumerate() {
            let way = &self.ways[member.bundle as usize];
            let elsewhere = way.bottleneck;
            let cap = if at < node.held as usize || elsewhere == NOWHERE {
                let others = self.hops[way.followed()].iter().filter(|hop| hop.node != number);
                others.map(|hop| self.shares[hop.node as usize].level).min().unwrap_or(UNBOUND)
            } else {
                let level = self.shares[elsewhere as usize].level;
                top = top.max(level);
                level
            };
            let usage = self.usage(way, member.hop);
            sharers += usage;
            self.caps.push((cap, usage));
        }
        let share = &mut self.shares[number as usize];
        share.top = top;
        let mut left = share.capacity.max(0).cast_unsigned();
        loop {
            if sharers == 0 {
                return UNBOUND;
            }
            let level = left / sharers;
            let before = sharers;
            self.caps.retain(|&(cap, usage)| {
                let held_back = cap < level;
                if held_back {
                    left -= cap * usage;
                    sharers -= usage;
                }
                !held_back
            });
            if sharers == before {
                return level;
            }
        }
    }

    /// Makes levels right again after flows came or went at `now`.
    pub fn settle(&mut self, now: Time) {
        self.cross();
        while let Some(Reverse((class, _, number))) = self.queue.pop() {
            let (level, asked) = self.next_level(number);
            // From the lower of both on something changes. What is lower than that comes first: it may change this level.
            let from = level.min(self.shares[number as usize].level);
            if self.queue.peek().is_some_and(|&Reverse((other, lowest, _))| (other, lowest) < (class, from)) {
                self.queue.push(Reverse((class, from, number)));
                continue;
            }
            self.shares[number as usize].queued = false;
            self.set(number, level, asked, now);
            self.cross();
        }
        let mut touched = std::mem::take(&mut self.touched);
        for node in touched.drain(..) {
            self.shares[node as usize].touched = false;
            self.file(node);
        }
        self.touched = touched;
    }

    /// Gives a node another level, and the flows on it their rate; with `asked` those that have none, too.
    fn set(&mut self, number: u32, level: u64, asked: bool, now: Time) {
        let service = self.service(number, now);
        let node = &mut self.nodes[number as usize];
        (node.service, node.since) = (service, now.0);
        let share = &mut self.shares[number as usize];
        let old = std::mem::replace(&mut share.level, level);
        share.fresh &= !asked;
        // Are there others that have its level, or are to be held back by it?
        let others = asked || share.top >= level;
        let mut sharers = 0;
        // First everything is looked up, so that the memory is asked for many things at once.
        let mut held = std::mem::take(&mut self.held);
        let node = &self.nodes[number as usize];
        let members = &node.members[..node.held as usize];
        held.extend(members.iter().map(|member| (*member, self.ways[member.bundle as usize], 0, 0)));
        for (_, way, rate, bottleneck) in &mut held {
            (*rate, *bottleneck) = self.lowest(way, number);
        }
        // Those that leave change places with some that come before them here.
        for (Member { bundle, hop }, way, rate, bottleneck) in held.drain(..).rev() {
            if rate == level {
                sharers += self.usage(&way, hop);
            }
            if rate != old {
                self.change(bundle, Some(old), Some(rate), number);
            }
            if bottleneck != number {
                self.hand_over(bundle, bottleneck, now);
            }
        }
        self.held = held;
        let passing = if others { self.nodes[number as usize].held as usize } else { usize::MAX };
        for at in passing..self.nodes[number as usize].members.len() {
            let Member { bundle, hop } = self.nodes[number as usize].members[at];
            let (had, homeless) = (self.has(bundle), self.ways[bundle as usize].bottleneck == NOWHERE);
            if !homeless && had < level || homeless && !asked {
                continue;
            }
            let way = &self.ways[bundle as usize];
            let (rate, bottleneck) = if homeless { self.lowest(way, number) } else { (level, number) };
            if rate == level {
                sharers += self.usage(way, hop);
            }
            if bottleneck != number {
                let share = &mut self.shares[number as usize];
                share.top = share.top.max(rate);
            }
            if homeless || had > level {
                self.change(bundle, (!homeless).then_some(had), Some(rate), number);
                self.hand_over(bundle, bottleneck, now);
            }
        }
        self.shares[number as usize].sharers = sharers;
        self.touch(number);
        self.check(number);
    }

    /// The lowest level on a way, and where it is; at `number` where that is among the lowest.
    #[inline]
    fn lowest(&self, way: &Way, number: u32) -> (u64, u32) {
        let (mut level, mut node) = (self.shares[number as usize].level, number);
        for hop in &self.hops[way.followed()] {
            let other = self.shares[hop.node as usize].level;
            if other < level {
                (level, node) = (other, hop.node);
            }
        }
        (level, node)
    }

    /// A bundle is held back by another node from now on.
    fn hand_over(&mut self, number: u32, to: u32, now: Time) {
        let from = self.ways[number as usize].bottleneck;
        let (mut old, mut expected) = (0, false);
        if from != NOWHERE {
            old = self.service(from, now);
            expected = self.bundles[number as usize].first() == self.nodes[from as usize].next;
            self.release(number);
            let level = self.shares[to as usize].level;
            let share = &mut self.shares[from as usize];
            share.top = share.top.max(level);
        }
        let new = self.service(to, now);
        let bundle = &mut self.bundles[number as usize];
        bundle.offset = bundle.offset.wrapping_add(old).wrapping_sub(new);
        let first = bundle.first();
        self.ways[number as usize].bottleneck = to;
        self.hold(number, to);
        if first < self.nodes[to as usize].next {
            self.nodes[to as usize].next = first;
            self.touch(to);
        }
        if expected {
            self.renew(from);
        }
    }

    /// Looks which of those that a node holds back is through first.
    fn renew(&mut self, number: u32) {
        let node = &self.nodes[number as usize];
        let held = &node.members[..node.held as usize];
        let next = held.iter().map(|member| self.bundles[member.bundle as usize].first()).min();
        self.nodes[number as usize].next = next.unwrap_or(u128::MAX);
        self.touch(number);
    }

    #[inline]
    fn touch(&mut self, number: u32) {
        let share = &mut self.shares[number as usize];
        if !share.touched {
            share.touched = true;
            self.touched.push(number);
        }
    }

    /// Files when the first of those that a node holds back is through.
    fn file(&mut self, number: u32) {
        let (share, node) = (&self.shares[number as usize], &self.nodes[number as usize]);
        let time = match share.level {
            UNBOUND | 0 => NEVER,
            _ if node.next == u128::MAX => NEVER,
            level => {
                let ahead = node.next.saturating_sub(node.service).div_ceil(u128::from(level));
                node.since.saturating_add(u64::try_from(ahead).unwrap_or(NEVER))
            }
        };
        self.ends.set(number, time);
    }
}

#[cfg(test)]
mod tests;
