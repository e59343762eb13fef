//! The network of a search: which links a transfer and an all-reduce use, and how long.

use crate::topology::Topology;
use std::collections::BTreeMap;
use std::rc::Rc;
use syncline_fabric::Fabric;
use syncline_units::{LinkId, NpuId, Rate, Time};

/// Fractional bits of the time for a byte.
const FRACTION: u32 = 32;

/// Time per byte: picoseconds with [`FRACTION`] fractional bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerByte(u64);

impl PerByte {
    fn of(rate: Rate) -> Self {
        // 8e12 picoseconds for a byte at one bit per second.
        let per_byte = (8_000_000_000_000u128 << FRACTION) / u128::from(rate.0.max(1));
        Self(u64::try_from(per_byte).unwrap_or(u64::MAX))
    }

    /// The time for `bytes`, rounded down.
    #[inline]
    pub(super) fn time(self, bytes: u64) -> u64 {
        u64::try_from((u128::from(bytes) * u128::from(self.0)) >> FRACTION).unwrap_or(u64::MAX)
    }

    /// This time, times `numerator / denominator`.
    fn scaled(self, numerator: u64, denominator: u64) -> Self {
        let scaled = u128::from(self.0) * u128::from(numerator) / u128::from(denominator);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    fn add(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// Links that follow each other by number and are occupied alike.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkRun {
    /// Their numbers.
    pub(super) links: std::ops::Range<usize>,
    /// The time of each for a byte of the vector that is reduced.
    pub(super) per_byte: PerByte,
}

/// What an all-reduce of a group occupies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupLoad {
    /// The links, ascending.
    pub(super) runs: Vec<LinkRun>,
    /// Latency of the whole collective.
    pub(super) latency: u64,
}

/// A network as a search sees it: links, one route between any two servers, and the rings of groups.
#[derive(Debug)]
pub struct RoutedLinks {
    servers: u32,
    per_byte: Vec<PerByte>,
    /// Latency of each link.
    latency: Vec<u64>,
    /// The route from server `a` to server `b` is `hops[starts[a * servers + b]..starts[a * servers + b + 1]]`.
    starts: Vec<u32>,
    hops: Vec<u32>,
    /// Strides of the rings of groups that have any; other groups use one ring in the order of their members.
    strides: BTreeMap<Vec<u32>, Vec<u32>>,
}

impl RoutedLinks {
    /// Direct links between servers, of this rate and latency. Parallel links count as one with their combined rate.
    pub fn direct(topology: &Topology, rate: Rate, latency: Time) -> Self {
        let servers = topology.servers;
        let mut link_of = BTreeMap::new();
        let mut per_byte = Vec::new();
        for (number, link) in topology.links.iter().enumerate() {
            link_of.insert((link.from, link.to), number as u32);
            per_byte.push(PerByte::of(Rate(rate.0.saturating_mul(u64::from(link.count)))));
        }
        let route =
            |from, to| topology.route(from, to).windows(2).map(|pair| link_of[&(pair[0], pair[1])]).collect();
        let rings = topology.rings.iter().filter(|rings| !rings.strides.is_empty());
        let strides = rings.map(|rings| (rings.members.clone(), rings.strides.clone())).collect();
        let latency = vec![latency.0; per_byte.len()];
        Self::new(servers, per_byte, latency, route, strides)
    }

    /// A fabric each of whose NPUs is a server. Groups use one ring.
    pub fn of_fabric(fabric: &Fabric) -> Self {
        let links = (0..fabric.links()).map(|link| fabric.link(LinkId(link)));
        let (per_byte, latency) = links.map(|link| (PerByte::of(link.rate), link.latency.0)).unzip();
        let route = |from, to| {
            let mut path = Vec::new();
            fabric.route(NpuId(from), NpuId(to), 0, &mut path);
            path.into_iter().map(|link| link.0).collect()
        };
        Self::new(fabric.npus(), per_byte, latency, route, BTreeMap::new())
    }

    fn new(
        servers: u32,
        per_byte: Vec<PerByte>,
        latency: Vec<u64>,
        route: impl Fn(u32, u32) -> Vec<u32>,
        strides: BTreeMap<Vec<u32>, Vec<u32>>,
    ) -> Self {
        let (mut starts, mut hops) = (vec![0], Vec::new());
        for (from, to) in (0..servers).flat_map(|from| (0..servers).map(move |to| (from, to))) {
            if from != to {
                hops.extend(route(from, to));
            }
            starts.push(hops.len() as u32);
        }
        Self { servers, per_byte, latency, starts, hops, strides }
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Number of links.
    pub fn links(&self) -> usize {
        self.per_byte.len()
    }

    #[inline]
    pub(super) fn route(&self, from: u32, to: u32) -> &[u32] {
        let at = from as usize * self.servers as usize + to as usize;
        &self.hops[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    #[inline]
    pub(super) fn link(&self, link: u32) -> (PerByte, u64) {
        (self.per_byte[link as usize], self.latency[link as usize])
    }

    /// What an all-reduce among `members`, ascending, occupies: rings, each with an equal part of the vector, in which a
    /// member sends `2 (k - 1) / k` of that part to the next one (Patarasuk and Yuan 2009).
    pub(super) fn load(&self, members: &[u32]) -> GroupLoad {
        let one = [1];
        let strides = self.strides.get(members).map_or(&one[..], Vec::as_slice);
        let size = members.len();
        let (sent, of) = (2 * (size as u64 - 1), size as u64 * strides.len() as u64);
        let mut links: BTreeMap<u32, PerByte> = BTreeMap::new();
        let mut slowest = 0;
        for &stride in strides {
            for (at, &from) in members.iter().enumerate() {
                let route = self.route(from, members[(at + stride as usize) % size]);
                for &link in route {
                    links
                        .entry(link)
                        .or_insert(PerByte(0))
                        .add(self.per_byte[link as usize].scaled(sent, of));
                }
                let latency =
                    route.iter().fold(0u64, |sum, &link| sum.saturating_add(self.latency[link as usize]));
                slowest = slowest.max(latency);
            }
        }
        let mut runs: Vec<LinkRun> = Vec::new();
        for (link, per_byte) in links {
            let link = link as usize;
            match runs.last_mut() {
                Some(last) if last.links.end == link && last.per_byte == per_byte => last.links.end += 1,
                _ => runs.push(LinkRun { links: link..link + 1, per_byte }),
            }
        }
        GroupLoad { runs, latency: (2 * (size as u64 - 1)).saturating_mul(slowest) }
    }
}

/// Loads of groups on one network, each computed once.
#[derive(Debug, Default)]
pub(super) struct Loads {
    known: BTreeMap<Vec<u32>, Rc<GroupLoad>>,
}

impl Loads {
    pub(super) fn of(&mut self, network: &RoutedLinks, members: Vec<u32>) -> Rc<GroupLoad> {
        let load = self.known.entry(members).or_insert_with_key(|members| Rc::new(network.load(members)));
        Rc::clone(load)
    }
}
