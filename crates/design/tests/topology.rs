//! TopologyFinder on demands of every shape.

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use syncline_design::topology::{
    AllReduceLinks, Demand, Preference, RingSelection, TREE_INTERFACES, Topology, candidates,
};
use syncline_diagnostics::Code;

fn find(demand: &Demand, degree: u32) -> syncline_diagnostics::Result<Topology> {
    syncline_design::topology::find(demand, degree, Preference::default())
}

/// A demand of random transfers and groups.
fn demands() -> impl Strategy<Value = (Demand, u32)> {
    (2u32..24).prop_flat_map(|servers| {
        let transfers = prop::collection::vec((0..servers, 0..servers, 1u64..1 << 40), 0..40);
        let groups = prop::collection::vec((prop::collection::vec(0..servers, 2..10), 1u64..1 << 40), 0..4);
        let whole = prop::option::of(1u64..1 << 40);
        (transfers, groups, whole, 1..servers.min(9)).prop_map(move |(transfers, groups, whole, degree)| {
            let mut demand = Demand::new(servers);
            transfers.into_iter().for_each(|(from, to, bytes)| demand.transfers.add(from, to, bytes));
            groups.into_iter().for_each(|(members, bytes)| demand.all_reduce(members, bytes));
            demand.all_reduce((0..servers).collect(), whole.unwrap_or(0));
            (demand, degree)
        })
    })
}

/// Links between any two servers by breadth-first search.
fn distances(topology: &Topology, from: u32) -> Vec<u32> {
    let mut distance = vec![u32::MAX; topology.servers as usize];
    distance[from as usize] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for link in topology.links.iter().filter(|link| link.from == at) {
            if distance[link.to as usize] == u32::MAX {
                distance[link.to as usize] = distance[at as usize] + 1;
                queue.push_back(link.to);
            }
        }
    }
    distance
}

fn check(demand: &Demand, degree: u32, topology: &Topology) -> Result<(), TestCaseError> {
    let servers = demand.servers() as usize;
    let (mut sending, mut receiving) = (vec![0; servers], vec![0; servers]);
    let mut counts = BTreeMap::new();
    for link in &topology.links {
        prop_assert!(link.from != link.to && link.count > 0);
        prop_assert!(counts.insert((link.from, link.to), link.count).is_none());
        sending[link.from as usize] += link.count;
        receiving[link.to as usize] += link.count;
    }
    // All interfaces are used, except those of one server that only it could be joined to.
    let unused: Vec<u32> =
        sending.iter().chain(&receiving).map(|used| degree - used).filter(|left| *left > 0).collect();
    prop_assert!(unused.len() <= 2 && unused.first() == unused.last(), "{unused:?}");
    // The links of all groups exist together. Rings visit every member; in a tree, every member but the root has a parent.
    for group in &topology.groups {
        let size = group.members.len();
        let each = match group.pattern {
            AllReduceLinks::Rings => size,
            AllReduceLinks::DoubleBinaryTrees => 4 * (size - 1),
        };
        prop_assert_eq!(group.links().len(), group.strides.len() * each);
        for (from, to) in group.links() {
            let count = counts.get_mut(&(from, to)).filter(|count| **count > 0);
            prop_assert!(count.is_some());
            count.into_iter().for_each(|count| *count -= 1);
        }
    }
    // Every route follows links, and no path is shorter.
    for from in 0..demand.servers() {
        let distance = distances(topology, from);
        for to in 0..demand.servers() {
            let route = topology.route(from, to);
            prop_assert_eq!(route.len() as u32 - 1, distance[to as usize], "{} to {}: {:?}", from, to, route);
            prop_assert_eq!((route[0], route[route.len() - 1]), (from, to));
            for pair in route.windows(2) {
                prop_assert!(counts.contains_key(&(pair[0], pair[1])));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
    #[test]
    fn links_fit_the_degrees_and_carry_rings_and_shortest_routes((demand, degree) in demands()) {
        let direct = Preference { rings: RingSelection::MostBytes, ..Preference::default() };
        let direct = syncline_design::topology::find(&demand, degree, direct).unwrap();
        check(&demand, degree, &direct)?;
        let topology = find(&demand, degree).unwrap();
        check(&demand, degree, &topology)?;
        prop_assert_eq!(find(&demand, degree).unwrap(), topology);
    }

    #[test]
    fn every_candidate_is_a_topology((demand, degree) in demands()) {
        for (rings, all_reduce) in [
            (RingSelection::Hops, AllReduceLinks::Rings),
            (RingSelection::MostBytes, AllReduceLinks::Rings),
            (RingSelection::Hops, AllReduceLinks::DoubleBinaryTrees),
        ] {
            let preference = Preference { rings, all_reduce };
            let found = candidates(&demand, degree, preference).unwrap();
            let paper = syncline_design::topology::find(&demand, degree, preference).unwrap();
            prop_assert_eq!(&found[0], &paper);
            for (at, topology) in found.iter().enumerate() {
                check(&demand, degree, topology)?;
                prop_assert!(!found[..at].contains(topology));
            }
        }
    }
}

#[test]
fn candidates_divide_interfaces_in_other_ways() {
    // Two halves of 8 servers reduce, and each server sends a fifth as much to a partner in the other half. Algorithm 1
    // gives all three interfaces to rings, one of them through all servers, so that no pair is joined.
    let mut demand = Demand::new(8);
    let halves = [vec![0, 2, 4, 6], vec![1, 3, 5, 7]];
    for half in &halves {
        demand.all_reduce(half.clone(), 1000);
    }
    for server in 0..8 {
        demand.transfers.add(server, server ^ 1, 300);
    }
    let found = candidates(&demand, 3, Preference::default()).unwrap();
    let paper = &found[0];
    assert_eq!((paper.ring_degree, paper.matched.len(), paper.strides(&halves[0]).len()), (3, 0, 2));
    // Without the ring through all servers, the third interface joins each pair, and pairs join the halves.
    let halves_only = |topology: &&Topology| topology.groups.iter().all(|group| group.members.len() == 4);
    let best = found.iter().find(halves_only).unwrap();
    assert_eq!(best.matched, [(0, 1), (2, 3), (4, 5), (6, 7)]);
    assert_eq!((best.strides(&halves[0]), best.route(0, 1)), (&[1, 3][..], &[0, 1][..]));
    // Without transfers there is nothing to divide.
    let mut reduced = Demand::new(8);
    reduced.all_reduce((0..8).collect(), 1000);
    assert_eq!(candidates(&reduced, 3, Preference::default()).unwrap().len(), 1);
}

#[test]
fn dlrm_of_figure_4_gets_rings_and_a_diameter_of_three() {
    // topoopt2022 2.2 and Figure 9: 4 embedding tables on servers 0, 3, 8 and 13 exchange 32 MB with all others; the
    // rest, 4 GB, is all-reduced. Six interfaces.
    let mut demand = Demand::new(16);
    for table in [0, 3, 8, 13] {
        for server in 0..16 {
            demand.transfers.add(table, server, 32_000_000);
            demand.transfers.add(server, table, 32_000_000);
        }
    }
    demand.all_reduce((0..16).collect(), 4_000_000_000);
    let topology = find(&demand, 6).unwrap();
    // 120 GB of all-reduce and 3.8 GB of transfers: ⌈6 · 0.969⌉ interfaces serve rings.
    assert_eq!((topology.ring_degree, topology.matched.len()), (6, 0));
    assert_eq!(topology.groups.len(), 1);
    let steps = &topology.groups[0].strides;
    assert_eq!(steps.len(), 6);
    assert!(
        steps.windows(2).all(|pair| pair[0] < pair[1]) && steps.iter().all(|step| step % 2 == 1),
        "{steps:?}"
    );
    // Most servers are at most 3 hops away (topoopt2022 5.4).
    assert!(topology.diameter() <= 3);
}

#[test]
fn degrees_follow_the_bytes() {
    // All-reduces and transfers send as much: 2 (8 - 1) · 56 = 8 · 98.
    let mut demand = Demand::new(8);
    demand.all_reduce((0..8).collect(), 56);
    for server in 0..8 {
        demand.transfers.add(server, 7 - server, 98);
    }
    let topology = find(&demand, 4).unwrap();
    assert_eq!(topology.ring_degree, 2);
    assert_eq!(topology.matched, [(0, 7), (1, 6), (2, 5), (3, 4), (0, 7), (1, 6), (2, 5), (3, 4)]);
    assert_eq!(topology.route(0, 7), [0, 7]);
}

#[test]
fn disjoint_groups_do_not_compete() {
    // Two groups of 4 send as much as each other. Each may use all interfaces, but for the ring through all servers.
    let mut demand = Demand::new(8);
    demand.all_reduce(vec![0, 1, 2, 3], 1000);
    demand.all_reduce(vec![4, 5, 6, 7], 1000);
    let topology = find(&demand, 3).unwrap();
    assert_eq!(topology.strides(&[0, 1, 2, 3]), [1, 3]);
    assert_eq!(topology.strides(&[4, 5, 6, 7]), [1, 3]);
    assert_eq!(topology.strides(&[0, 1, 2, 3, 4, 5, 6, 7]).len(), 1);
    assert_eq!(topology.strides(&[0, 1]), [0u32; 0]);
}

#[test]
fn trees_replace_rings_where_four_interfaces_are_left() {
    let trees = Preference { all_reduce: AllReduceLinks::DoubleBinaryTrees, ..Preference::default() };
    let find = |demand: &Demand, degree| syncline_design::topology::find(demand, degree, trees).unwrap();
    let all: Vec<u32> = (0..16).collect();
    let mut demand = Demand::new(16);
    demand.all_reduce(all.clone(), 1000);
    // Eight interfaces carry two pairs, four carry one, and three are too few.
    for (degree, pattern, strides) in [
        (8, AllReduceLinks::DoubleBinaryTrees, vec![1, 3]),
        (4, AllReduceLinks::DoubleBinaryTrees, vec![1]),
        (3, AllReduceLinks::Rings, vec![1, 3, 5]),
    ] {
        let topology = find(&demand, degree);
        let own = topology.group(&all).unwrap();
        assert_eq!((own.pattern, own.strides.len()), (pattern, strides.len()), "{degree}");
        assert!(topology.ring_degree <= degree);
        if pattern == AllReduceLinks::DoubleBinaryTrees {
            assert_eq!(own.strides, strides);
            // From any server up one tree and down again.
            assert!(topology.diameter() <= 2 * 4);
            assert_eq!(topology.ring_degree, TREE_INTERFACES * strides.len() as u32);
        }
    }
    // Of all labels, those are taken whose trees join the servers that exchange most. With stride 5, the edge from 1 to 2
    // joins 5 and 10.
    demand.transfers.add(5, 10, 1);
    demand.transfers.add(10, 5, 1);
    let chosen = find(&demand, 4).group(&all).unwrap().strides[0];
    let joined = find(&demand, 4).links.iter().any(|link| (link.from, link.to) == (5, 10));
    assert!(joined && chosen != 1, "{chosen}");
}

#[test]
fn one_server_needs_no_links() {
    let topology = find(&Demand::new(1), 4).unwrap();
    assert!(topology.links.is_empty());
    assert_eq!(topology.diameter(), 0);
}

#[test]
fn impossible_degrees_are_refused() {
    for degree in [0, 8, 9] {
        let error = find(&Demand::new(8), degree).unwrap_err();
        assert_eq!((error.0[0].code, error.0[0].allowed.as_deref()), (Code::BadValue, Some("1 to 7")));
    }
}
