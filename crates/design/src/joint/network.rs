//! The network of a search: which links a transfer and an all-reduce use, and how long.

use crate::topology::{AllReduceLinks, GroupLinks, Topology};
use std::collections::BTreeMap;
use std::rc::Rc;
use syncline_fabric::Fabric;
use syncline_plan::algorithm::double_binary_tree;
use syncline_units::{Bytes, LinkId, NpuId, Rate, Time};

/// Chunks of an all-reduce that moves through trees.
pub const TREE_CHUNKS: u32 = 32;

/// Fractional bits of the time for a byte.
const FRACTION: u32 = 32;

/// Time per byte: picoseconds with [`FRACTION`] fractional bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PerByte(u64);

impl PerByte {
    fn of(rate: Rate) -> Self {
        // 8e12 picoseconds for a byte at one bit per second.
        let per_byte = (8_000_000_000_000u128 << FRACTION) / u128::from(rate.0.max(1));
        Self(u64::try_from(per_byte).unwrap_or(u64::MAX))
    }

    /// The time for `bytes`, rounded down.
    #[inline]
    pub(super) fn time(self, bytes: Bytes) -> Time {
        let time = (u128::from(bytes.0) * u128::from(self.0)) >> FRACTION;
        Time(u64::try_from(time).unwrap_or(u64::MAX))
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

/// The links that an all-reduce of a group occupies, and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupLoad {
    /// The links, ascending.
    pub(super) runs: Vec<LinkRun>,
    /// Latency of the whole collective.
    pub(super) latency: Time,
    /// Extra time per byte of the vector while the first chunk fills the tree.
    pub(super) fill: PerByte,
}

/// A network as a search sees it: links, one route between any two servers, and how groups reduce.
#[derive(Debug)]
pub struct RoutedLinks {
    servers: u32,
    per_byte: Vec<PerByte>,
    /// Latency of each link.
    latency: Vec<Time>,
    /// The route from server `a` to server `b` is `hops[starts[a * servers + b]..starts[a * servers + b + 1]]`.
    starts: Vec<u32>,
    hops: Vec<u32>,
    /// How groups with links of their own use them; other groups use one ring in the order of their members.
    groups: BTreeMap<Vec<u32>, GroupLinks>,
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
        let own = topology.groups.iter().filter(|group| !group.strides.is_empty());
        let groups = own.map(|group| (group.members.clone(), group.clone())).collect();
        let latency = vec![latency; per_byte.len()];
        Self::new(servers, per_byte, latency, route, groups)
    }

    /// A fabric each of whose NPUs is a server. Groups use one ring.
    pub fn of_fabric(fabric: &Fabric) -> Self {
        let links = (0..fabric.links()).map(|link| fabric.link(LinkId(link)));
        let (per_byte, latency) = links.map(|link| (PerByte::of(link.rate), link.latency)).unzip();
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
        latency: Vec<Time>,
        route: impl Fn(u32, u32) -> Vec<u32>,
        groups: BTreeMap<Vec<u32>, GroupLinks>,
    ) -> Self {
        let (mut starts, mut hops) = (vec![0], Vec::new());
        for (from, to) in (0..servers).flat_map(|from| (0..servers).map(move |to| (from, to))) {
            if from != to {
                hops.extend(route(from, to));
            }
            starts.push(hops.len() as u32);
        }
        Self { servers, per_byte, latency, starts, hops, groups }
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
    pub(super) fn link(&self, link: u32) -> (PerByte, Time) {
        (self.per_byte[link as usize], self.latency[link as usize])
    }

    /// What an all-reduce among `members`, ascending, occupies.
    ///
    /// Of `k` members in a ring, each sends `2 (k - 1) / k` of the ring's part of the vector to the next one (Patarasuk and
    /// Yuan 2009). In a tree, each sends the tree's part to its parent once, and receives it from there (Sanders, Speck,
    /// Traeff 2009); chunks move through it one behind the other.
    pub(super) fn load(&self, members: &[u32]) -> GroupLoad {
        let own = self.groups.get(members).cloned();
        let group = own.unwrap_or_else(|| GroupLinks::one_ring(members.to_vec()));
        let size = members.len() as u64;
        let parts = group.strides.len() as u64;
        let (sent, of) = match group.pattern {
            AllReduceLinks::Rings => (2 * (size - 1), size * parts),
            AllReduceLinks::DoubleBinaryTrees => (1, 2 * parts),
        };
        let mut links: BTreeMap<u32, PerByte> = BTreeMap::new();
        let (mut slowest, mut longest) = (Time::ZERO, PerByte::default());
        for (from, to) in group.links() {
            let (mut latency, mut through) = (Time::ZERO, PerByte::default());
            for &link in self.route(from, to) {
                let part = self.per_byte[link as usize].scaled(sent, of);
                links.entry(link).or_default().add(part);
                through.add(part);
                latency = latency.saturating_add(self.latency[link as usize]);
            }
            slowest = slowest.max(latency);
            longest = longest.max(through);
        }
        let mut runs: Vec<LinkRun> = Vec::new();
        for (link, per_byte) in links {
            let link = link as usize;
            match runs.last_mut() {
                Some(last) if last.links.end == link && last.per_byte == per_byte => last.links.end += 1,
                _ => runs.push(LinkRun { links: link..link + 1, per_byte }),
            }
        }
        let (rounds, fill) = match group.pattern {
            AllReduceLinks::Rings => (2 * (size - 1), PerByte::default()),
            AllReduceLinks::DoubleBinaryTrees => {
                let rounds = 2 * u64::from(double_binary_tree::depth(members.len() as u32));
                (rounds, longest.scaled(rounds - 1, TREE_CHUNKS.into()))
            }
        };
        GroupLoad { runs, latency: Time(slowest.0.saturating_mul(rounds)), fill }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Demand, Preference, find};

    #[test]
    fn trees_take_half_of_the_vector_over_each_link() {
        let members: Vec<u32> = (0..16).collect();
        let mut demand = Demand::new(16);
        demand.all_reduce(members.clone(), 1);
        let trees = Preference { all_reduce: AllReduceLinks::DoubleBinaryTrees, ..Preference::default() };
        // One pair of trees takes four interfaces; two pairs take eight, and half of that.
        for (degree, parts) in [(4, 2), (8, 4)] {
            let topology = find(&demand, degree, trees).unwrap();
            let network = RoutedLinks::direct(&topology, Rate(8_000_000_000), Time(1000));
            let load = network.load(&members);
            // A gigabyte takes a second at 8 Gb/s.
            let (bytes, second) = (Bytes(1_000_000_000), 1_000_000_000_000);
            let own: u64 = topology.groups[0].links().len() as u64;
            let worked: u64 =
                load.runs.iter().map(|run| run.links.len() as u64 * run.per_byte.time(bytes).0).sum();
            let longest = load.runs.iter().map(|run| run.per_byte.time(bytes)).max().unwrap();
            // Parallel links count as one with their combined rate, so no link takes longer than a part of the vector.
            assert_eq!(longest, Time(second / parts), "{degree}");
            assert!(worked <= own * second / parts);
            // The deepest of 16 ranks is 4 links below the root: up and down. The first chunk passes 7 links before the last
            // one begins to arrive.
            assert_eq!(load.latency, Time(2 * 4 * 1000));
            assert_eq!(load.fill.time(bytes), Time(7 * (second / parts) / 32));
        }
        // Rings of the same interfaces send 2 * 15/16 of the vector over four links: a little less.
        let rings = find(&demand, 4, Preference::default()).unwrap();
        let load = RoutedLinks::direct(&rings, Rate(8_000_000_000), Time(1000)).load(&members);
        let longest = load.runs.iter().map(|run| run.per_byte.time(Bytes(1_000_000_000))).max();
        assert_eq!(longest, Some(Time(468_750_000_000)));
        assert_eq!((load.latency, load.fill), (Time(2 * 15 * 1000), PerByte(0)));
    }
}
