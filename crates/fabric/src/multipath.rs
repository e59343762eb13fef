//! Equal paths through a graph: which of several next hops a flow takes, and several paths of one flow.
//!
//! For each destination, every vertex stores its distance, its number of shortest paths, and between which of its links the
//! next hops lie. Nothing else is stored, so memory is proportional to vertices times destinations, however many paths there
//! are. Next hops are links, like a switch's ports: two parallel links are two next hops, whatever their rates.

use crate::graph::{Graph, Near};
use syncline_units::{LinkId, NpuId};

/// Shortest paths from every vertex of the core to one destination in the core.
#[derive(Clone, Debug)]
pub(crate) struct Equal {
    /// How near the vertices are.
    near: Near,
    /// Number of shortest paths, saturating at 32 bits.
    paths: Box<[u32]>,
    /// Where the next hops of a vertex lie.
    hops: Box<[Hops]>,
}

/// Next hops among the links that leave a vertex.
#[derive(Clone, Copy, Debug, Default)]
struct Hops {
    /// The place of the first one.
    first: u32,
    /// The place after the last one.
    end: u32,
    /// Whether all links in between are next hops.
    all: bool,
}

impl Equal {
    pub(crate) fn new(graph: &Graph, destination: u32) -> Self {
        let (near, found) = graph.distances(destination);
        let mut paths = vec![0u32; near.distance.len()].into_boxed_slice();
        paths[graph.in_core(destination)] = 1;
        let mut hops = vec![Hops::default(); paths.len()].into_boxed_slice();
        // Vertices are ordered by distance, so the paths of those closer are already counted.
        for &at in &found[1..] {
            let on = (0..).zip(graph.leaving(at)).filter(|&(_, &id)| graph.leads_on(id, destination, &near));
            let (mut ways, mut count, mut lie) = (0u32, 0, None);
            for (place, id) in on {
                ways = ways.saturating_add(paths[graph.in_core(graph.links()[id.index()].to)]);
                count += 1;
                lie.get_or_insert(Hops { first: place, ..Hops::default() }).end = place + 1;
            }
            paths[graph.in_core(at)] = ways;
            let Hops { first, end, .. } = lie.unwrap_or_default();
            hops[graph.in_core(at)] = Hops { first, end, all: count == end - first };
        }
        Self { near, paths, hops }
    }
}

/// All shortest paths to a destination: those of the core to its gate, or to the destination itself.
#[derive(Clone, Copy)]
struct Goal<'a> {
    graph: &'a Graph,
    to: u32,
    /// The core vertex that all paths lead through; `to` if that is in the core.
    through: u32,
    /// Links from there to the destination.
    last: u32,
    equal: &'a Equal,
}

impl<'a> Goal<'a> {
    fn new(graph: &'a Graph, to: u32) -> Self {
        let gate = graph.gate(to);
        let through = gate.unwrap_or(to);
        let last = if gate.is_some() { graph.entering(to).len() as u32 } else { 1 };
        Self { graph, to, through, last, equal: graph.equal(through) }
    }

    /// Returns the distance from `at` in links; [`NOWHERE`](crate::graph::NOWHERE) if there is no path.
    fn distance(&self, at: u32) -> u32 {
        if at == self.to {
            return 0;
        }
        let (core, before) = self.graph.gate(at).map_or((at, 0), |gate| (gate, 1));
        let after = u32::from(self.through != self.to);
        self.equal.near.distance[self.graph.in_core(core)].saturating_add(before + after)
    }

    /// Returns the number of shortest paths from `at`, saturating at 32 bits.
    fn paths(&self, at: u32) -> u32 {
        if at == self.to {
            return 1;
        }
        let (core, first) =
            self.graph.gate(at).map_or((at, 1), |gate| (gate, self.graph.leaving(at).len() as u32));
        self.equal.paths[self.graph.in_core(core)].saturating_mul(first).saturating_mul(self.last)
    }

    /// Returns links by which shortest paths leave `at`, by the vertex that they lead to, then by number; and whether they
    /// all do.
    fn near_hops(self, at: u32) -> (&'a [LinkId], bool) {
        let Self { graph, to, through, equal, .. } = self;
        // From outside the core, all links lead to the gate; from the destination's gate, those to the
        // destination lead on.
        if at == to {
            (&[], true)
        } else if graph.gate(at).is_some() {
            (graph.leaving(at), true)
        } else if at == through {
            (graph.between(at, to), true)
        } else {
            let Hops { first, end, all } = equal.hops[graph.in_core(at)];
            (&graph.leaving(at)[first as usize..end as usize], all)
        }
    }

    /// Returns the links by which shortest paths leave `at`, in the same order.
    fn next_hops(self, at: u32) -> impl Iterator<Item = LinkId> + Clone + 'a {
        let Self { graph, through, equal, .. } = self;
        let (links, all) = self.near_hops(at);
        links.iter().copied().filter(move |&id| all || graph.leads_on(id, through, &equal.near))
    }

    /// Returns the next hop that a hashed flow takes from `at`.
    fn hashed_hop(self, at: u32, flow: Flow) -> Option<LinkId> {
        let (links, all) = self.near_hops(at);
        if all {
            return links.get(flow.choice(at, links.len())).copied();
        }
        let mut hops = self.next_hops(at);
        let choice = flow.choice(at, hops.clone().count());
        hops.nth(choice)
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of `x`.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A switch's hash of a flow: with SplitMix64's step `m`, `m(m(m(seed) ^ (source << 32 | destination)) ^
/// lane)`.
#[derive(Clone, Copy, Debug)]
struct Flow(u64);

impl Flow {
    fn new(seed: u64, from: NpuId, to: NpuId, lane: u32) -> Self {
        Self(mixed(mixed(mixed(seed) ^ (u64::from(from.0) << 32 | u64::from(to.0))) ^ u64::from(lane)))
    }

    /// Returns which of `choices` next hops `vertex` takes: the upper half of `m(flow ^ vertex) * choices`,
    /// which is the hash-threshold of RFC 2992, 2. Each vertex hashes differently. With one hash for all, the
    /// flows that reach a switch would be those that chose alike before, and would choose alike again
    /// (polarisation).
    fn choice(self, vertex: u32, choices: usize) -> usize {
        ((u128::from(mixed(self.0 ^ u64::from(vertex))) * choices as u128) >> 64) as usize
    }
}

/// A path that is being dealt out, with the numbers of the paths that it will become.
struct Hand {
    at: u32,
    path: Vec<LinkId>,
    numbers: Vec<u32>,
}

impl Graph {
    /// Appends the path of a flow whose next hops are chosen by hash; returns false if there is none.
    pub(crate) fn hashed_route(
        &self,
        seed: u64,
        from: NpuId,
        to: NpuId,
        lane: u32,
        path: &mut Vec<LinkId>,
    ) -> bool {
        let goal = Goal::new(self, to.0);
        if goal.paths(from.0) == 0 {
            return false;
        }
        let flow = Flow::new(seed, from, to, lane);
        let mut at = from.0;
        while at != to.0 {
            let link = goal.hashed_hop(at, flow).expect("a vertex with a path has a next hop");
            path.push(link);
            at = self.links()[link.index()].to;
        }
        true
    }

    /// Returns different shortest paths from `from` to `to` that begin with the flow's first link, at most
    /// `limit`: see [`crate::Fabric::routes`].
    pub(crate) fn equal_routes(&self, from: NpuId, to: NpuId, lane: u32, limit: u32) -> Vec<Vec<LinkId>> {
        let goal = Goal::new(self, to.0);
        if goal.paths(from.0) == 0 || limit == 0 {
            return Vec::new();
        }
        let flow = self.ecmp().map(|seed| Flow::new(seed, from, to, lane));
        let Some(&first) = self.next_hops(from.0, goal, flow, lane).first() else { return vec![Vec::new()] };
        let at = self.links()[first.index()].to;
        let count = goal.paths(at).min(limit);
        let mut hands = vec![Hand { at, path: vec![first], numbers: (0..count).collect() }];
        // All are equally long.
        for _ in 0..goal.distance(at) {
            hands = hands.into_iter().flat_map(|hand| self.deal(hand, goal, flow, lane)).collect();
        }
        hands.sort_unstable_by_key(|hand| hand.numbers[0]);
        hands.into_iter().map(|hand| hand.path).collect()
    }

    /// Returns the next hops of a vertex, the flow's own first.
    fn next_hops(&self, at: u32, goal: Goal<'_>, flow: Option<Flow>, lane: u32) -> Vec<LinkId> {
        let mut hops: Vec<LinkId> = goal.next_hops(at).collect();
        let end = |link: LinkId| self.links()[link.index()].to;
        let own = match (flow, hops.first()) {
            (_, None) => 0,
            (Some(flow), _) => flow.choice(at, hops.len()),
            (None, Some(&first)) => {
                lane as usize % hops.iter().take_while(|&&link| end(link) == end(first)).count()
            }
        };
        hops.rotate_left(own);
        hops
    }

    /// Deals the numbers of a path in turn to its next hops, the flow's own first; none gets more than it has
    /// paths.
    fn deal(&self, hand: Hand, goal: Goal<'_>, flow: Option<Flow>, lane: u32) -> Vec<Hand> {
        let hops = self.next_hops(hand.at, goal, flow, lane);
        let end = |link: LinkId| self.links()[link.index()].to;
        let mut dealt: Vec<Vec<u32>> = vec![Vec::new(); hops.len()];
        let mut turn = 0;
        for number in hand.numbers {
            while dealt[turn].len() >= goal.paths(end(hops[turn])) as usize {
                turn = (turn + 1) % hops.len();
            }
            dealt[turn].push(number);
            turn = (turn + 1) % hops.len();
        }
        let mut taken: Vec<(LinkId, Vec<u32>)> =
            hops.into_iter().zip(dealt).filter(|(_, numbers)| !numbers.is_empty()).collect();
        let last = taken.pop();
        let mut path = hand.path;
        let mut hands: Vec<Hand> = taken
            .into_iter()
            .map(|(link, numbers)| Hand { at: end(link), path: [&path[..], &[link]].concat(), numbers })
            .collect();
        // The last next hop continues the path itself: without branches, nothing is copied.
        hands.extend(last.map(|(link, numbers)| {
            path.push(link);
            Hand { at: end(link), path: std::mem::take(&mut path), numbers }
        }));
        hands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fabric, GraphLink, Routing};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use syncline_units::{Rate, Time};

    fn duplex(pairs: impl IntoIterator<Item = (u32, u32)>) -> Vec<GraphLink> {
        let link = |from, to| GraphLink { from, to, rate: Rate(8), latency: Time(1) };
        pairs.into_iter().flat_map(|(a, b)| [link(a, b), link(b, a)]).collect()
    }

    fn built(npus: u32, switches: u32, links: Vec<GraphLink>, routing: Routing) -> Fabric {
        Fabric::graph(Graph::new(npus, switches, links, routing).unwrap())
    }

    /// Two layers: each of `leaves` leaf switches has `hosts` hosts, and a link to each of `spines` spine switches.
    fn leaf_spine(leaves: u32, spines: u32, hosts: u32, seed: u64) -> Fabric {
        let npus = leaves * hosts;
        let down = (0..npus).map(|npu| (npu, npus + npu / hosts));
        let up =
            (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (npus + leaf, npus + leaves + spine)));
        built(npus, leaves + spines, duplex(down.chain(up)), Routing::Ecmp { seed })
    }

    /// Three layers (Al-Fares et al. 2008): `k` pods of `k / 2` edge and as many aggregation switches, `k^3 / 4` hosts.
    fn fat_tree(k: u32, seed: u64) -> Fabric {
        let half = k / 2;
        let (npus, edges) = (k * half * half, k * half);
        let (edge, aggregation, core) = (npus, npus + edges, npus + 2 * edges);
        let mut pairs: Vec<(u32, u32)> = (0..npus).map(|npu| (npu, edge + npu / half)).collect();
        for pod in 0..k {
            for (a, b) in (0..half).flat_map(|a| (0..half).map(move |b| (a, b))) {
                pairs.push((edge + pod * half + a, aggregation + pod * half + b));
                pairs.push((aggregation + pod * half + a, core + a * half + b));
            }
        }
        built(npus, 2 * edges + half * half, duplex(pairs), Routing::Ecmp { seed })
    }

    fn path(fabric: &Fabric, from: u32, to: u32, lane: u32) -> Option<Vec<LinkId>> {
        let mut path = Vec::new();
        fabric.route(NpuId(from), NpuId(to), lane, &mut path).then_some(path)
    }

    fn vertices(fabric: &Fabric, path: &[LinkId]) -> Vec<u32> {
        path.iter().map(|&link| fabric.link(link).to).collect()
    }

    /// Pearson's statistic of counts that should be equal.
    fn chi_square(counts: &BTreeMap<Vec<u32>, u32>, cells: usize) -> f64 {
        let flows: u32 = counts.values().sum();
        let expected = f64::from(flows) / cells as f64;
        let missing = (cells - counts.len()) as f64 * expected;
        counts.values().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum::<f64>() + missing
    }

    /// Over 100 seeds, the statistic of `cells` equal paths exceeds the 99.9th percentile of its distribution
    /// for at most two seeds, and its mean is within 10 % of the degrees of freedom: flows are spread as
    /// evenly as random draws.
    fn assert_even(cells: usize, percentile: f64, counts: impl Fn(u64) -> BTreeMap<Vec<u32>, u32>) {
        let found: Vec<f64> = (0..100).map(|seed| chi_square(&counts(seed), cells)).collect();
        let beyond = found.iter().filter(|&&statistic| statistic > percentile).count();
        let mean = found.iter().sum::<f64>() / 100.0 / (cells - 1) as f64;
        assert!(beyond <= 2 && (mean - 1.0).abs() < 0.1, "{beyond} beyond, mean {mean}: {found:?}");
    }

    /// 8 spines: 7 degrees of freedom.
    #[test]
    fn flows_spread_evenly_over_spines() {
        assert_even(8, 24.32, |seed| {
            let fabric = leaf_spine(4, 8, 8, seed);
            let mut counts = BTreeMap::new();
            for (a, b) in (0..32).flat_map(|a| (0..32).map(move |b| (a, b))).filter(|(a, b)| a / 8 != b / 8) {
                let path = path(&fabric, a, b, 0).unwrap();
                assert_eq!(path.len(), 4);
                *counts.entry(vertices(&fabric, &path)[1..2].to_vec()).or_default() += 1;
            }
            counts
        });
    }

    /// 16 paths through a fat tree of 128 hosts, by aggregation and core switch: flows that a hash sent to an
    /// aggregation switch are hashed anew there. 15 degrees of freedom.
    #[test]
    fn flows_spread_evenly_in_every_layer() {
        assert_even(16, 37.70, |seed| {
            let fabric = fat_tree(8, seed);
            let mut counts = BTreeMap::new();
            // From one edge switch to other pods, with a few lanes.
            for (a, b) in (0..4).flat_map(|a| (16..128).map(move |b| (a, b))) {
                for lane in 0..4 {
                    let path = path(&fabric, a, b, lane).unwrap();
                    assert_eq!(path.len(), 6);
                    *counts.entry(vertices(&fabric, &path)[1..3].to_vec()).or_default() += 1;
                }
            }
            counts
        });
    }

    #[test]
    fn hashes_match_the_documentation() {
        // The first outputs of SplitMix64 from state 0, as Vigna's reference program prints them.
        let gamma = 0x9e37_79b9_7f4a_7c15u64;
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(gamma), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(mixed(gamma.wrapping_mul(2)), 0x06c4_5d18_8009_454f);
        let flow = mixed(mixed(mixed(7) ^ (3 << 32 | 5)) ^ 2);
        assert_eq!(Flow::new(7, NpuId(3), NpuId(5), 2).0, flow);
        assert_eq!(Flow(flow).choice(9, 10), ((u128::from(mixed(flow ^ 9)) * 10) >> 64) as usize);
    }

    #[test]
    fn seed_lane_and_direction_are_hashed() {
        let fabric = leaf_spine(2, 16, 2, 0);
        let spine =
            |fabric: &Fabric, from, to, lane| fabric.link(path(fabric, from, to, lane).unwrap()[1]).to;
        let of = |choose: &dyn Fn(u32) -> u32| (0..64).map(choose).collect::<BTreeSet<u32>>().len();
        assert!(of(&|lane| spine(&fabric, 0, 2, lane)) > 12);
        assert!(of(&|seed| spine(&leaf_spine(2, 16, 2, u64::from(seed)), 0, 2, 0)) > 12);
        assert!((0..64).any(|lane| spine(&fabric, 0, 2, lane) != spine(&fabric, 2, 0, lane)));
    }

    /// Parallel links are separate next hops.
    #[test]
    fn parallel_links_share_flows() {
        let fabric = built(2, 1, duplex([(0, 2), (0, 2), (0, 2), (2, 1)]), Routing::Ecmp { seed: 0 });
        let firsts: BTreeSet<LinkId> = (0..32).map(|lane| path(&fabric, 0, 1, lane).unwrap()[0]).collect();
        assert_eq!(firsts, [LinkId(0), LinkId(2), LinkId(4)].into());
    }

    #[test]
    fn several_paths_of_a_flow_part_at_once() {
        let fabric = fat_tree(4, 3);
        let all = fabric.routes(NpuId(0), NpuId(15), 0, 99);
        assert_eq!(all.len(), 4);
        let first_hops: Vec<u32> = all.iter().map(|path| vertices(&fabric, path)[1]).collect();
        assert_eq!(first_hops[0], first_hops[2]);
        assert_eq!(first_hops[1], first_hops[3]);
        assert_ne!(first_hops[0], first_hops[1]);
        assert_eq!(fabric.routes(NpuId(0), NpuId(15), 0, 2), all[..2]);
        // A path from a vertex to itself has no links; an unreachable vertex has no path.
        assert_eq!(fabric.routes(NpuId(0), NpuId(0), 0, 9), [vec![]]);
        let apart = built(2, 0, vec![], Routing::Ecmp { seed: 0 });
        assert_eq!(apart.routes(NpuId(0), NpuId(1), 0, 9), Vec::<Vec<LinkId>>::new());
        assert_eq!(path(&apart, 0, 1, 0), None);
        assert!(fat_tree(34, 0).routes(NpuId(0), NpuId(9000), 0, u32::MAX).len() == 256);
    }

    /// The flow decides by which of its ports a host sends.
    #[test]
    fn several_paths_of_a_flow_leave_by_one_port() {
        // Two switches for two hosts with a port to each, and two links from each switch to either host.
        let links = [(0, 2), (0, 3), (2, 1), (2, 1), (3, 1), (3, 1)];
        let fabric = built(2, 2, duplex(links), Routing::Ecmp { seed: 0 });
        for lane in 0..8 {
            let routes = fabric.routes(NpuId(0), NpuId(1), lane, 9);
            assert_eq!(routes.len(), 2);
            assert_eq!(routes[0], path(&fabric, 0, 1, lane).unwrap());
            assert!(routes[1][0] == routes[0][0] && routes[1][1] != routes[0][1]);
        }
    }

    /// An explicit path is the only one of its pair.
    #[test]
    fn an_explicit_path_is_the_only_one_of_its_pair() {
        let links = duplex([(0, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5)]);
        let fabric = built(2, 4, links, Routing::Explicit(vec![vec![0, 2, 5, 3, 1]]));
        assert_eq!(fabric.routes(NpuId(0), NpuId(1), 0, 9), [path(&fabric, 0, 1, 0).unwrap()]);
        assert_eq!(fabric.routes(NpuId(1), NpuId(0), 0, 9).len(), 2);
        assert_eq!((fabric.explicit_paths(), fabric.ecmp()), (1, None));
    }

    /// Long chains are searched without recursion and without copies.
    #[test]
    fn long_paths_are_found() {
        let fabric =
            built(200_000, 0, duplex((1..200_000).map(|at| (at - 1, at))), Routing::Ecmp { seed: 1 });
        assert_eq!(fabric.routes(NpuId(0), NpuId(199_999), 0, 9)[0].len(), 199_999);
    }

    /// Vertices joined at random, possibly several times, possibly not all.
    fn any_graph() -> impl Strategy<Value = (u32, u32, Vec<(u32, u32)>)> {
        (2u32..7, 0u32..7).prop_flat_map(|(npus, switches)| {
            let vertex = 0..npus + switches;
            let pairs = prop::collection::vec((vertex.clone(), vertex), 1..24);
            pairs.prop_map(move |mut pairs| {
                pairs.retain(|(a, b)| a != b);
                (npus, switches, pairs)
            })
        })
    }

    /// Finds all shortest paths over links that are alive, by brute force.
    fn all_shortest(fabric: &Fabric, from: u32, to: u32, dead: &BTreeSet<LinkId>) -> BTreeSet<Vec<LinkId>> {
        let mut found = BTreeSet::from([(vec![], from)]);
        for _ in 0..fabric.vertices() {
            let there: BTreeSet<Vec<LinkId>> =
                found.iter().filter(|(_, at)| *at == to).map(|(path, _)| path.clone()).collect();
            if !there.is_empty() {
                return there;
            }
            // Of the paths of each length, keep those that visit no vertex twice.
            found = found
                .iter()
                .flat_map(|(path, at)| {
                    let behind: BTreeSet<u32> = path.iter().map(|&link| fabric.link(link).from).collect();
                    (0..fabric.links())
                        .map(LinkId)
                        .filter(|id| fabric.link(*id).from == *at && !dead.contains(id))
                        .filter(|id| !behind.contains(&fabric.link(*id).to))
                        .map(|id| ([&path[..], &[id]].concat(), fabric.link(id).to))
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        BTreeSet::new()
    }

    proptest! {
        /// Hashed, shortest and sprayed paths are shortest paths without dead links. Sprayed paths are all
        /// those with the flow's first link, up to the limit, each once, the flow's own first. Repeating the
        /// search gives the same paths.
        #[test]
        fn paths_are_shortest_and_alive(
            (npus, switches, pairs) in any_graph(), hashed: Option<u64>, ends: (u32, u32), lane in 0u32..5,
            limit in 1u32..9, broken in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let (a, b) = (ends.0 % npus, ends.1 % npus);
            let routing = hashed.map_or(Routing::Shortest, |seed| Routing::Ecmp { seed });
            let links = duplex(pairs.iter().copied());
            let make = || built(npus, switches, links.clone(), routing.clone());
            let whole = make();
            let none = BTreeSet::new();
            let dead: BTreeSet<LinkId> =
                broken.iter().filter(|_| !links.is_empty()).map(|at| LinkId(at.index(links.len()) as u32)).collect();
            let shortest = all_shortest(&whole, a, b, &none);
            let own = path(&whole, a, b, lane);
            prop_assert_eq!(own.is_some(), !shortest.is_empty());
            prop_assert!(own.iter().all(|path| shortest.contains(path)));
            let routes = whole.routes(NpuId(a), NpuId(b), lane, limit);
            let different: BTreeSet<_> = routes.iter().cloned().collect();
            prop_assert_eq!(different.len(), routes.len());
            let first = own.as_ref().and_then(|path| path.first());
            let same: BTreeSet<_> = shortest.iter().filter(|path| path.first() == first).cloned().collect();
            prop_assert_eq!(routes.len(), same.len().min(limit as usize));
            prop_assert!(different.is_subset(&same));
            prop_assert_eq!(routes.first(), own.as_ref());
            prop_assert_eq!(&make().routes(NpuId(a), NpuId(b), lane, limit), &routes);

            let damaged = make().damaged(BTreeMap::new(), dead.clone());
            let left = all_shortest(&whole, a, b, &dead);
            let round = path(&damaged, a, b, lane);
            prop_assert_eq!(round.is_some(), !left.is_empty());
            prop_assert!(round.iter().all(|path| left.contains(path)));
            if own.as_ref().is_some_and(|path| path.iter().all(|link| !dead.contains(link))) {
                prop_assert_eq!(&round, &own);
            }
            let sprayed = damaged.routes(NpuId(a), NpuId(b), lane, limit);
            prop_assert_eq!(sprayed.is_empty(), left.is_empty());
            prop_assert!(sprayed.iter().all(|path| left.contains(path)));
        }

        /// No next hop of a switch is used more than once more than another that has paths left.
        #[test]
        fn next_hops_are_used_evenly(seed: u64, limit in 1u32..20, from in 0u32..16, to in 0u32..16) {
            let fabric = fat_tree(4, seed);
            let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
            for path in fabric.routes(NpuId(from), NpuId(to), 0, limit) {
                if path.len() > 2 {
                    *counts.entry(fabric.link(path[1]).to).or_default() += 1;
                }
            }
            let (most, least) = (counts.values().max(), counts.values().min());
            prop_assert!(most.copied().unwrap_or(0) - least.copied().unwrap_or(0) <= 1, "{:?}", counts);
        }

        /// In a regular fabric the paths are those of the lanes that follow.
        #[test]
        fn paths_of_a_regular_fabric_are_those_of_the_next_lanes(lane in 0u32..9, limit in 1u32..9, to in 1u32..8) {
            use crate::Dimension;
            use syncline_units::DimKind;
            let dim = |name: &str, kind, size, count| {
                Dimension::new(name.to_owned(), kind, size).with_count(count).with_rate(Rate(8))
            };
            let dims = vec![dim("a", DimKind::Ring, 4, 2), dim("b", DimKind::Switch, 2, 3)];
            let fabric = Fabric::regular(dims).unwrap();
            let routes = fabric.routes(NpuId(0), NpuId(to), lane, limit);
            let mut all: Vec<Vec<LinkId>> = (0..12).map(|lane| path(&fabric, 0, to, lane).unwrap()).collect();
            prop_assert_eq!(&routes[0], &all[lane as usize % 12]);
            all.retain(|path| path[0] == routes[0][0]);
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(routes.len(), all.len().min(limit as usize));
            prop_assert!(routes.iter().all(|path| all.contains(path)));
        }
    }
}
