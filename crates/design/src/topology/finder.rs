//! Algorithm 1 of topoopt2022.

use super::coins::CoinChange;
use super::demand::{Demand, Group, Transfer};
use super::links::{AllReduceLinks, GroupLinks, TREE_INTERFACES};
use super::matching::matching;
use super::rings::{top_permutations, top_trees};
use super::routes::{Neighbours, distances_to, shortest_paths};
use super::{Links, Preference, Topology};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Result};

/// Paths that are considered for the transfers between two servers.
const PATHS: usize = 4;

/// Finds a topology and routes for `demand` among servers with `degree` interfaces each (topoopt2022 Algorithm 1).
///
/// The comments number the lines of the paper's pseudo-code. It differs from the paper in four points:
///
/// - The paper repeats the rings of a group on all `N / k` groups of the same size, so one degree counts for all servers.
///   Here groups have any members, and degrees are counted for each server: a group gets rings in proportion to its
///   share of the bytes that its busiest member sends for all-reduces.
/// - If no group contains all servers, one ring through all servers keeps the topology connected.
/// - Interfaces that are left when no transfer needs another link still join servers, those with the most
///   interfaces left first.
/// - The route of a transfer is the one of four shortest paths whose busiest link is least busy, so that each pair
///   of servers has one route; the largest transfers choose first.
///
/// `preference` says how rings are selected for the transfers, and whether all-reduces use trees instead.
///
/// # Errors
/// `BadValue` if `degree` is 0, or not below the number of servers.
pub fn find(demand: &Demand, degree: u32, preference: Preference) -> Result<Topology> {
    check(demand, degree)?;
    let paper = InterfaceSplit { rings: ring_budget(demand, degree), ring_through_all: true };
    Ok(Finder::new(demand, degree, preference).build(paper).finish())
}

/// Topologies for one demand, that of [`find`] first: a search can time them all and take the best.
///
/// The others leave out the ring through all servers, if no all-reduce uses it and other links join all servers; or give one
/// interface fewer to rings than line 2 of Algorithm 1, which rounds up, if transfers would use half of it.
///
/// # Errors
/// As [`find`].
pub fn candidates(demand: &Demand, degree: u32, preference: Preference) -> Result<Vec<Topology>> {
    check(demand, degree)?;
    let most = ring_budget(demand, degree);
    let whole = demand.groups.iter().any(|group| group.members.len() == demand.servers() as usize);
    let mut found: Vec<Topology> = Vec::new();
    let (reduced, moved) = (u128::from(demand.all_reduce_bytes()), u128::from(demand.transfers.total()));
    let halves = 2 * u128::from(degree) * moved >= reduced + moved;
    let mut splits = vec![InterfaceSplit { rings: most, ring_through_all: true }];
    if !whole && moved > 0 {
        splits.push(InterfaceSplit { rings: most, ring_through_all: false });
    }
    if most > 1 && halves && moved > 0 {
        splits.push(InterfaceSplit { rings: most - 1, ring_through_all: whole });
    }
    for (number, split) in splits.into_iter().enumerate() {
        let built = Finder::new(demand, degree, preference).build(split);
        let new = found.iter().all(|other| !built.has_links_of(other));
        if number == 0 || built.is_connected() && new {
            found.push(built.finish());
        }
    }
    Ok(found)
}

fn check(demand: &Demand, degree: u32) -> Result<()> {
    let servers = demand.servers();
    if degree == 0 || (servers > 1 && degree >= servers) {
        return Err(Diagnostic::error(Code::BadValue, "no topology has this degree")
            .key("degree")
            .found(degree.to_string())
            .allowed(format!("1 to {}", servers.saturating_sub(1).max(1)))
            .help("a server needs at least one interface, and at most one for each other server")
            .into());
    }
    Ok(())
}

/// Line 2: the interfaces of a server that serve rings. Without any demand, all do.
fn ring_budget(demand: &Demand, degree: u32) -> u32 {
    let (reduced, moved) = (u128::from(demand.all_reduce_bytes()), u128::from(demand.transfers.total()));
    match reduced + moved {
        0 => degree,
        all => ((u128::from(degree) * reduced).div_ceil(all) as u32).clamp(1, degree),
    }
}

/// How the interfaces of a server are divided.
#[derive(Clone, Copy)]
struct InterfaceSplit {
    /// Most interfaces that serve rings.
    rings: u32,
    /// Whether there is a ring through all servers even if no all-reduce uses it.
    ring_through_all: bool,
}

struct Finder<'a> {
    demand: &'a Demand,
    degree: u32,
    preference: Preference,
    /// Interfaces of each server that do not send yet, and those that do not receive yet.
    sending: Vec<u32>,
    receiving: Vec<u32>,
    links: BTreeMap<(u32, u32), u32>,
    groups: Vec<GroupLinks>,
    matched: Vec<(u32, u32)>,
}

impl<'a> Finder<'a> {
    fn new(demand: &'a Demand, degree: u32, preference: Preference) -> Self {
        let servers = demand.servers() as usize;
        Self {
            demand,
            degree,
            preference,
            sending: vec![degree; servers],
            receiving: vec![degree; servers],
            links: BTreeMap::new(),
            groups: Vec::new(),
            matched: Vec::new(),
        }
    }

    fn build(mut self, split: InterfaceSplit) -> Self {
        if self.demand.servers() > 1 {
            self.add_rings(split);
            self.add_matchings();
            self.join_the_rest();
        }
        self
    }

    /// Steps 1 and 2: links for all-reduces.
    fn add_rings(&mut self, split: InterfaceSplit) {
        let servers = self.demand.servers();
        // Bytes that each server sends for all-reduces.
        let each = |group: &Group| group.wire_bytes() as f64 / group.members.len() as f64;
        let mut sends = vec![0.0; servers as usize];
        for group in &self.demand.groups {
            group.members.iter().for_each(|&member| sends[member as usize] += each(group));
        }
        // The group of all servers first, because it keeps the topology connected. Then those with the most bytes, so that
        // small ones cannot use up the budget.
        let whole: Vec<u32> = (0..servers).collect();
        let is_whole = |group: &&Group| group.members.len() == servers as usize;
        let mut groups: Vec<&Group> = self.demand.groups.iter().collect();
        groups.sort_by_key(|group| {
            (!is_whole(group), std::cmp::Reverse(group.wire_bytes()), group.members.clone())
        });
        if split.ring_through_all && !groups.iter().any(is_whole) {
            self.add_group(&whole, 1);
        }
        // Line 5.
        for group in groups {
            let left = group.members.iter().map(|&member| {
                let used = self.degree - self.sending[member as usize].min(self.receiving[member as usize]);
                split.rings.saturating_sub(used)
            });
            let left = left.min().unwrap_or(0);
            let busiest = group.members.iter().map(|&member| sends[member as usize]).fold(0.0, f64::max);
            // Line 6.
            let wanted = (f64::from(split.rings) * each(group) / busiest).ceil() as u32;
            let least = u32::from(is_whole(&group));
            self.add_group(&group.members, wanted.clamp(least, left.max(least)));
        }
    }

    /// Lines 8 and 9: adds the links of the best `count` rings through a group, or of the pairs of trees that have room in
    /// their place.
    fn add_group(&mut self, members: &[u32], count: u32) {
        let trees = count / TREE_INTERFACES;
        let own = if self.preference.all_reduce == AllReduceLinks::DoubleBinaryTrees && trees > 0 {
            let strides = top_trees(members, trees, &self.demand.transfers);
            GroupLinks { members: members.to_vec(), pattern: AllReduceLinks::DoubleBinaryTrees, strides }
        } else {
            let strides = top_permutations(members, count, &self.demand.transfers, self.preference.rings);
            GroupLinks { members: members.to_vec(), pattern: AllReduceLinks::Rings, strides }
        };
        for (from, to) in own.links() {
            self.join(from, to);
        }
        self.groups.push(own);
    }

    /// Step 3: links for other transfers.
    fn add_matchings(&mut self) {
        // Line 14, for as long as interfaces are left: rings may have used fewer than line 3 assumes.
        loop {
            let free = |server: u32| self.sending[server as usize].min(self.receiving[server as usize]) > 0;
            let links = |from, to| self.links.get(&(from, to)).copied().unwrap_or(0);
            // Lines 15 and 18.
            let pairs = matching(&self.demand.transfers, free, links);
            if pairs.is_empty() {
                break;
            }
            for (a, b) in pairs {
                self.join(a, b);
                self.join(b, a);
                self.matched.push((a, b));
            }
        }
    }

    /// Joins the interfaces that are left: those of the servers with the most left, and preferably servers that are not
    /// joined yet.
    fn join_the_rest(&mut self) {
        loop {
            let most = |left: &[u32]| {
                let mut servers: Vec<u32> =
                    (0..left.len() as u32).filter(|&at| left[at as usize] > 0).collect();
                servers.sort_by_key(|&at| (std::cmp::Reverse(left[at as usize]), at));
                servers
            };
            let (from, to) = (most(&self.sending), most(&self.receiving));
            let pairs = || from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
            let Some((a, b)) = pairs().find(|pair| !self.links.contains_key(pair)).or_else(|| pairs().next())
            else {
                return;
            };
            self.join(a, b);
        }
    }

    /// Whether every server reaches every other one.
    fn is_connected(&self) -> bool {
        let servers = self.demand.servers() as usize;
        let (mut forwards, mut backwards): (Neighbours, Neighbours) =
            (vec![Vec::new(); servers], vec![Vec::new(); servers]);
        for &(from, to) in self.links.keys() {
            forwards[from as usize].push(to);
            backwards[to as usize].push(from);
        }
        [forwards, backwards].iter().all(|neighbours| distances_to(neighbours, 0).iter().all(Option::is_some))
    }

    /// Whether these are the links and rings of a topology.
    fn has_links_of(&self, topology: &Topology) -> bool {
        let links = self.links.iter().map(|(&(from, to), &count)| Links { from, to, count });
        self.groups == topology.groups && links.eq(topology.links.iter().copied())
    }

    fn join(&mut self, from: u32, to: u32) {
        *self.links.entry((from, to)).or_default() += 1;
        self.sending[from as usize] -= 1;
        self.receiving[to as usize] -= 1;
    }

    /// Step 4: routes.
    fn finish(self) -> Topology {
        let routes = self.routes();
        let ring_degree = {
            let mut used = vec![0; self.sending.len()];
            for (from, _) in self.groups.iter().flat_map(GroupLinks::links) {
                used[from as usize] += 1;
            }
            used.into_iter().max().unwrap_or(0)
        };
        let links = self.links.iter().map(|(&(from, to), &count)| Links { from, to, count }).collect();
        Topology {
            servers: self.demand.servers(),
            degree: self.degree,
            links,
            groups: self.groups,
            ring_degree,
            matched: self.matched,
            routes,
        }
    }

    fn routes(&self) -> Vec<Vec<u32>> {
        let servers = self.demand.servers();
        let at = |from: u32, to: u32| from as usize * servers as usize + to as usize;
        let mut neighbours: Neighbours = vec![Vec::new(); servers as usize];
        let mut backwards: Neighbours = vec![Vec::new(); servers as usize];
        for &(from, to) in self.links.keys() {
            neighbours[from as usize].push(to);
            backwards[to as usize].push(from);
        }
        let distance: Vec<Vec<Option<u32>>> = (0..servers).map(|to| distances_to(&backwards, to)).collect();
        let mut routes: Vec<Vec<u32>> = vec![Vec::new(); servers as usize * servers as usize];
        // Line 20: shortest paths for transfers.
        let mut transfers: Vec<Transfer> = self.demand.transfers.iter().collect();
        transfers.sort_by_key(|&Transfer { from, to, bytes }| (std::cmp::Reverse(bytes), from, to));
        // Bytes for one of the parallel links between two servers.
        let mut busy = vec![0u64; servers as usize * servers as usize];
        for Transfer { from, to, bytes } in transfers {
            let paths = shortest_paths(&neighbours, &distance[to as usize], from, PATHS);
            let load = |path: &Vec<u32>| path.windows(2).map(|pair| busy[at(pair[0], pair[1])]).max();
            let Some(path) = paths.into_iter().min_by_key(load) else { continue };
            for pair in path.windows(2) {
                let load = &mut busy[at(pair[0], pair[1])];
                *load = load.saturating_add(bytes / u64::from(self.links[&(pair[0], pair[1])]));
            }
            routes[at(from, to)] = path;
        }
        // Line 12: routes along the rings of all servers, except where other links are a shorter way.
        let of_all = |group: &&GroupLinks| {
            group.members.len() == servers as usize && group.pattern == AllReduceLinks::Rings
        };
        let whole = self.groups.iter().find(of_all);
        let change = whole.map(|rings| CoinChange::new(servers, &rings.strides));
        for (from, to) in (0..servers).flat_map(|from| (0..servers).map(move |to| (from, to))) {
            let distance = &distance[to as usize];
            if routes[at(from, to)].is_empty() {
                let along = change.as_ref().and_then(|change| change.route(from, to));
                let along = along.filter(|route| distance[from as usize] == Some(route.len() as u32 - 1));
                routes[at(from, to)] = along
                    .or_else(|| shortest_paths(&neighbours, distance, from, 1).pop())
                    .unwrap_or_default();
            }
        }
        routes
    }
}
