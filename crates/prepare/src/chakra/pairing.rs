//! Pairs the collectives of a group's ranks.
//!
//! The engine assumes that the k-th collective task of a group, in task order, is the same collective on every rank.
//! Tasks have the order of their nodes' ids, which in most traces is the same on all ranks. If a rank of a group has
//! the same collectives in another order, and each has a unique name, collectives with equal names belong together:
//! this module then reorders the collectives of that rank.

use super::{Team, TraceJob};
use std::collections::BTreeMap;
use syncline_formats::chakra::{Graph, Work};

/// The nodes of a graph in the order of its tasks.
pub(super) type NodeOrder = Vec<u32>;

impl TraceJob<'_> {
    /// For each graph, an order of its nodes in which the k-th collectives of a group belong together.
    pub(super) fn orders(&self, teams: &[Vec<Team>]) -> Vec<NodeOrder> {
        let graphs = self.traces.graphs();
        let mut orders: Vec<NodeOrder> =
            graphs.iter().map(|graph| (0..graph.len() as u32).collect()).collect();
        for (index, graph) in graphs.iter().enumerate() {
            for (team, nodes) in by_team(graph, &teams[index]) {
                let Some(first) = self.first_of(team, self.sharers[index][0]) else { continue };
                let other = self.traces.graph_index(first);
                if other == index {
                    continue;
                }
                let theirs = by_team(&graphs[other], &teams[other]).remove(&team).unwrap_or_default();
                if let Some(nodes_in_order) = alike(&graphs[other], &theirs, graph, &nodes) {
                    for (&place, &node) in nodes.iter().zip(&nodes_in_order) {
                        orders[index][place as usize] = node;
                    }
                }
            }
        }
        orders
    }

    /// The first rank of the group that `rank` is in.
    fn first_of(&self, team: Team, rank: u32) -> Option<u32> {
        match team {
            Team::Everyone => Some(0),
            Team::Alone => None,
            Team::Listed { role, .. } => {
                let role = &self.roles[role.index()];
                role.position_of(rank).map(|at| role.rank(at.group, 0))
            }
        }
    }
}

/// The collectives of a graph by group, in order of id. Leaves out collectives of only some dimensions, which are
/// always paired by position.
fn by_team(graph: &Graph, teams: &[Team]) -> BTreeMap<Team, Vec<u32>> {
    let mut found: BTreeMap<Team, Vec<u32>> = BTreeMap::new();
    for (node, op) in (0u32..).zip(graph.ops()) {
        if let Work::Collective(collective) = op.work
            && collective.involved.is_none()
        {
            let team = collective.group.map_or(Team::Everyone, |group| teams[group as usize]);
            found.entry(team).or_default().push(node);
        }
    }
    found
}

/// The nodes of `graph`, sorted into the order of the names of `first`'s nodes. `None` if they are in that order
/// already, if names are not unique, or if the two graphs have different names.
fn alike(first: &Graph, theirs: &[u32], graph: &Graph, nodes: &[u32]) -> Option<Vec<u32>> {
    let in_order = theirs
        .iter()
        .zip(nodes)
        .all(|(&their, &node)| first.name(their as usize) == graph.name(node as usize));
    if in_order || theirs.len() != nodes.len() {
        return None;
    }
    let own: BTreeMap<&str, u32> = nodes.iter().map(|&node| (graph.name(node as usize), node)).collect();
    let found: Option<Vec<u32>> =
        theirs.iter().map(|&their| own.get(first.name(their as usize)).copied()).collect();
    // As many names as nodes, all of which were found once.
    found.filter(|found| {
        let mut all = found.clone();
        all.sort_unstable();
        all == nodes && own.len() == nodes.len()
    })
}
