//! Max-min fair sharing of links among connections (Bertsekas and Gallager, "Data Networks", 6.5.2), updated
//! as messages come and go.
//!
//! **Connections.** A connection is the messages that take the same path with the same weight and class. It
//! serves them in the order in which they came: the oldest gets the connection's whole rate, the others wait.
//! So only the first and the last message of a busy period change rates, and connections share links however
//! many messages each has waiting.
//!
//! **Levels.** For each link the model keeps its fair share, called its *level*: the rate that a connection
//! of weight 1 gets there if nothing else holds it back. A link that is not full has no level. A connection's
//! rate is its weight times the lowest level on its path; that link is its *bottleneck*. Rates are max-min
//! fair exactly if each link's level divides up whatever the connections held back elsewhere leave of it
//! (Charny, Clark and Jain, "Congestion control with explicit rate indication", 1995: that fixed point is
//! unique). So only a link whose connections have changed their rates is examined again, lowest levels first,
//! and a change stops spreading where a level stays the same.
//!
//! **Service.** Connections with the same bottleneck progress alike, so each link keeps one integral of its
//! level over time, and each connection the value at which its oldest message is complete. A change of level
//! updates one number and no message.
//!
//! **Ceilings.** The load of a link that cannot hold back any connection need not be known. Each connection
//! has a ceiling a little above its rate. While the ceilings on a link fit its capacity, rate changes below
//! them do not concern the link.
//!
//! **Integers.** Rates are multiples of 2^-[`UNIT`] b/s, levels are rounded down, and all sums are exact: no
//! link carries more than it can, and a message is complete in the first picosecond in which it has received
//! all the service it needs.

mod ceilings;
mod connection;
mod levels;
mod members;
mod paths;
mod service;
mod shares;
#[cfg(test)]
mod tests;

use crate::tree::{NEVER, Tree};
use connection::Connection;
use members::Member;
use paths::{Hop, Paths};
use shares::Shares;
use std::cmp::Reverse;
use syncline_units::{Bytes, Rate, Time};

/// Rates are multiples of 1 b/s divided by two to this power.
pub const UNIT: u32 = 12;

/// The largest rate that a link may have.
pub const FASTEST: Rate = Rate(i64::MAX as u64 >> UNIT);

/// Parts into which a message is cut for several paths: divisible by all numbers up to 10, and by many more.
pub const PARTS: u32 = 20_160;

/// A bit, in units times picoseconds.
const BIT: u128 = 1_000_000_000_000 << UNIT;

/// The level of a link that holds no connection back.
const UNBOUND: u64 = u64::MAX;

/// The level of a connection without a rate.
const NO_RATE: u64 = UNBOUND - 1;

/// The bottleneck of a connection whose rate is not known yet.
const NO_NODE: u32 = u32::MAX;

/// The fields of a class's share of a link that are read when its level changes; as long as a cache line.
#[derive(Clone, Debug)]
struct Node {
    /// Integral of the level over time, up to `since`.
    service: u128,
    /// Service at which the first message of the connections it holds back is complete.
    next: u128,
    /// Time of `service`.
    since: u64,
    /// Connections on it; those that it holds back come first.
    members: Vec<Member>,
}

/// A connection that another node may hold back below a level.
#[derive(Clone, Copy, Debug)]
struct Cap {
    /// The level at which the other node holds it back.
    level: u64,
    /// What the connection takes, in multiples of the level.
    takes: u64,
}

/// A link whose share per unit of weight is less than one unit of rate, so that its connections never get a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starved {
    /// The link.
    pub link: u32,
    /// One of its connections that takes most.
    pub connection: u32,
    /// What all its connections take, in multiples of what a connection of weight 1 takes whole ([`Sharing::most`]
    /// is the limit).
    pub weights: u64,
}

/// Links, and the connections on them.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The shares of classes in links: class `c` of link `l` is node `l * classes + c`.
    shares: Shares,
    nodes: Vec<Node>,
    /// How many connections each node holds back.
    held: Vec<u32>,
    /// Load of each node if each of its connections had its ceiling.
    ceilings: Vec<u128>,
    /// What each node has carried.
    carried: Vec<u128>,
    /// What a connection of weight 1 takes of a link that carries all of its messages once.
    whole: u32,
    connections: Vec<Connection>,
    paths: Paths,
    /// Closed connections, by the length of their paths.
    free: Vec<Vec<u32>>,
    /// Connections opened since rates were last found.
    opened: Vec<u32>,
    /// Connections whose last message became complete since then.
    idle: Vec<u32>,
    /// When each node's first message is complete, among those it holds back.
    ends: Tree,
    touched: Vec<u32>,
    crossed: Vec<u32>,
    caps: Vec<Cap>,
    /// Places of members whose bottleneck may have changed.
    moving: Vec<u32>,
    looks: u64,
}

impl Sharing {
    /// Idle links of these rates, at most [`FASTEST`]. Lower-numbered classes take their share first. With
    /// `split`, connections may take several paths. A level is kept if it is wrong by less than a fraction of
    /// two to the power of minus `precision`; with `None`, sharing is exact.
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
            connections: Vec::new(),
            paths: Paths::default(),
            free: Vec::new(),
            opened: Vec::new(),
            idle: Vec::new(),
            ends: Tree::new(nodes),
            touched: Vec::new(),
            crossed: Vec::new(),
            caps: Vec::new(),
            moving: Vec::new(),
            looks: 0,
        }
    }

    /// Returns what a connection of weight 1 takes of a link that carries all of its messages once: the unit
    /// for [`Sharing::open`].
    pub fn whole(&self) -> u32 {
        self.whole
    }

    /// Opens a connection over these links. Each is listed once, with what a message takes of it:
    /// [`Sharing::whole`] if all of it passes once. A message must start before rates are found
    /// ([`Sharing::settle`]).
    pub fn open(&mut self, links: &[(u32, u32)], weight: u32, class: u32) -> u32 {
        let number = self.unused(links.len(), u64::from(weight) * u64::from(self.whole));
        let node = |link| link * self.shares.classes() + class;
        self.paths.set(number, links.iter().map(|&(link, usage)| (node(link), weight * usage)));
        self.enter(number);
        self.opened.push(number);
        number
    }

    /// A connection over `hops` hops, not yet set up.
    fn unused(&mut self, hops: usize, weight: u64) -> u32 {
        if let Some(number) = self.free.get_mut(hops).and_then(Vec::pop) {
            self.connections[number as usize].reset(weight);
            return number;
        }
        self.paths.add(hops as u32);
        self.connections.push(Connection::new(weight));
        self.connections.len() as u32 - 1
    }

    /// Starts a message of `bytes` on a connection at `now`; it is served once those that started before it
    /// are complete. Returns whether it must wait for them. If not, [`Sharing::settle`] finds its rate and
    /// its end.
    pub fn start(&mut self, now: Time, number: u32, bytes: Bytes, message: u32) -> bool {
        let waits = !self.connections[number as usize].is_idle();
        let had = if waits { 0 } else { self.had(number, now) };
        let connection = &mut self.connections[number as usize];
        let need = (u128::from(bytes.0) * 8 * BIT).div_ceil(u128::from(connection.weight));
        connection.append(had, need, message);
        let bottleneck = self.paths.path(number).bottleneck;
        if !waits && bottleneck != NO_NODE {
            self.expect(number, bottleneck);
        }
        waits
    }

    /// Queues the node that will probably hold a new connection back, to find its rate.
    fn seek(&mut self, number: u32) {
        debug_assert!(!self.connections[number as usize].is_idle(), "a message has started");
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
        let (level, node) = self.paths.hops(number).iter().map(offer).min().expect("a path has links");
        if !self.shares.marks(node).followed {
            self.follow(node);
        }
        self.shares.marks_mut(node).fresh = true;
        self.shares.look(node, level);
    }

    /// Visits the messages that are complete at `now`. [`Sharing::settle`] then finds rates, and the ends of
    /// the messages behind them.
    pub fn finish(&mut self, now: Time, mut through: impl FnMut(u32)) {
        loop {
            let (node, time) = self.ends.first();
            if time > now.0 {
                return;
            }
            let service = self.service(node, now);
            for at in 0..self.held[node as usize] as usize {
                let number = self.nodes[node as usize].members[at].connection;
                let connection = &mut self.connections[number as usize];
                if connection.first() > service {
                    continue;
                }
                while let Some(message) = connection.take(service) {
                    through(message);
                }
                if connection.is_idle() {
                    self.idle.push(number);
                }
            }
            self.renew(node);
            self.file(node);
        }
    }

    /// Closes connections without messages.
    fn close_idle(&mut self, now: Time, mut closed: impl FnMut(u32)) {
        let mut idle = std::mem::take(&mut self.idle);
        for number in idle.drain(..) {
            let bottleneck = self.paths.path(number).bottleneck;
            // It may have received another message, or be listed twice.
            if bottleneck == NO_NODE || !self.connections[number as usize].is_idle() {
                continue;
            }
            self.book(number, now);
            self.change(number, self.shares.level(bottleneck), NO_RATE);
            self.release(number);
            self.paths.path_mut(number).bottleneck = NO_NODE;
            self.leave(number);
            let hops = self.paths.hops(number).len();
            if self.free.len() <= hops {
                self.free.resize(hops + 1, Vec::new());
            }
            self.free[hops].push(number);
            closed(number);
        }
        self.idle = idle;
    }

    /// Returns when the next message is complete; `None` if none is in flight.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let (_, time) = self.ends.first();
        (time != NEVER).then_some(Time(time))
    }

    /// Finds a link whose connections never get a rate.
    pub fn starved(&self) -> Option<Starved> {
        let waits = |&number: &u32| {
            let bottleneck = self.paths.path(number).bottleneck;
            bottleneck != NO_NODE && self.shares.level(bottleneck) == 0
        };
        let first = (0..self.connections.len() as u32).find(waits)?;
        let node = self.paths.path(first).bottleneck;
        let members = &self.nodes[node as usize].members;
        let all = members.iter().map(|member| u64::from(member.takes)).sum::<u64>();
        let heaviest = members
            .iter()
            .map(|member| member.connection)
            .max_by_key(|&number| (self.connections[number as usize].weight, Reverse(number)));
        Some(Starved {
            link: node / self.shares.classes(),
            connection: heaviest?,
            weights: all.div_ceil(u64::from(self.whole)),
        })
    }

    /// Returns the largest sum of weights on a link of this rate with which every connection has a rate.
    pub fn most(&self, rate: Rate) -> u64 {
        (rate.0.min(FASTEST.0) << UNIT) / u64::from(self.whole)
    }

    /// Returns how often a link's level was computed.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Returns the level of a connection.
    fn has(&self, number: u32) -> u64 {
        match self.paths.path(number).bottleneck {
            NO_NODE => 0,
            node => self.shares.level(node),
        }
    }

    /// Returns the rate of a connection, in units of 2^-[`UNIT`] b/s.
    pub fn rate(&self, connection: u32) -> u64 {
        self.has(connection) * self.connections[connection as usize].weight
    }

    /// Returns what connections of `class` take of `link`, in units of 2^-[`UNIT`] b/s.
    pub fn load(&self, link: u32, class: u32) -> u64 {
        let node = link * self.shares.classes() + class;
        let members = self.nodes[node as usize].members.iter();
        members.map(|member| u64::from(member.takes) * self.has(member.connection)).sum()
    }

    /// Returns how much of the message being served has been sent by `now`; zero without messages.
    pub fn served(&self, connection: u32, now: Time) -> Bytes {
        let of = &self.connections[connection as usize];
        let served = of.served(self.had(connection, now)) * u128::from(of.weight) / (8 * BIT);
        Bytes(u64::try_from(served).unwrap_or(u64::MAX))
    }

    /// Returns the fair share of connections of `class` at `link`, in units of 2^-[`UNIT`] b/s per unit of
    /// weight; the largest number if it holds none back.
    pub fn level(&self, link: u32, class: u32) -> u64 {
        self.shares.level(link * self.shares.classes() + class)
    }
}
