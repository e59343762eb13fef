//! TopologyFinder: a topology of direct links, and routes, for what a job sends (topoopt2022 3.3).
//!
//! Every server has `d` interfaces. A link joins the sending side of one interface to the receiving side of another one,
//! as an optical switch does, so a server has at most `d` links out and `d` links in.
//!
//! - [`demand`]: what a job sends;
//! - [`rings`]: rings for all-reduces (TotientPerms, TopPermutations), and pairs of trees in their place (Appendix A);
//! - [`coins`]: routes along rings (CoinChangeMod);
//! - `matching`: links for other transfers (maximum-weight matching);
//! - `routes`: shortest paths;
//! - `finder`: Algorithm 1, which combines them.

pub mod coins;
pub mod demand;
mod finder;
mod matching;
pub mod rings;
mod routes;

pub use demand::{Demand, Group, Transfers};
pub use finder::{candidates, find};
pub use rings::Selection;

use serde::{Deserialize, Serialize};
use syncline_plan::algorithm::double_binary_tree;

/// Links from one server to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Links {
    /// The server that sends.
    pub from: u32,
    /// The server that receives.
    pub to: u32,
    /// Number of parallel links.
    pub count: u32,
}

/// How an all-reduce uses links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Rings in several orders at once.
    #[default]
    Rings,
    /// Pairs of binary trees over ranks that are relabelled in several ways (topoopt2022 Appendix A).
    DoubleBinaryTrees,
}

/// What a topology is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Preference {
    /// How rings are selected.
    pub selection: Selection,
    /// How all-reduces use links. A group that has fewer than [`TREE_INTERFACES`] left gets rings in any case.
    pub pattern: Pattern,
}

/// Interfaces of a server that a pair of trees uses at most: an inner node of one tree has a parent and two children, and
/// is a leaf of the other.
pub const TREE_INTERFACES: u32 = 4;

/// The links of an all-reduce group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLinks {
    /// The members, ascending.
    pub members: Vec<u32>,
    /// How its all-reduces use links.
    pub pattern: Pattern,
    /// The stride of each ring: member `i` sends to member `i + stride`, modulo the number of members. Or that of each pair
    /// of trees: member `stride * l` has the place of rank `l`. Each has links of its own. Empty if the group has to use
    /// the links of others.
    pub strides: Vec<u32>,
}

impl GroupLinks {
    /// The links of its own, from server to server; parallel ones several times.
    pub fn links(&self) -> Vec<(u32, u32)> {
        group_links(&self.members, self.pattern, &self.strides)
    }
}

/// The links that all-reduces among `members` use with these strides, from server to server.
pub(crate) fn group_links(members: &[u32], pattern: Pattern, strides: &[u32]) -> Vec<(u32, u32)> {
    let size = members.len();
    match pattern {
        Pattern::Rings => strides
            .iter()
            .flat_map(|&stride| {
                (0..size).map(move |at| (members[at], members[(at + stride as usize) % size]))
            })
            .collect(),
        Pattern::DoubleBinaryTrees => double_binary_tree::links(size as u32, strides)
            .map(|(child, parent)| (members[child as usize], members[parent as usize]))
            .flat_map(|(child, parent)| [(child, parent), (parent, child)])
            .collect(),
    }
}

/// A topology of direct links between servers, and the routes through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Number of servers.
    pub servers: u32,
    /// Interfaces of a server.
    pub degree: u32,
    /// The links, ascending.
    pub links: Vec<Links>,
    /// The links of all servers together, and of each group of the demand.
    pub groups: Vec<GroupLinks>,
    /// Interfaces that serve all-reduces, for the server with the most.
    pub ring_degree: u32,
    /// Pairs of servers that were joined in both directions for transfers outside all-reduces.
    pub matched: Vec<(u32, u32)>,
    /// For each pair of servers, sender by sender, the servers on the way, including both ends.
    routes: Vec<Vec<u32>>,
}

impl Topology {
    /// The servers on the way from one server to another one, including both.
    pub fn route(&self, from: u32, to: u32) -> &[u32] {
        &self.routes[from as usize * self.servers as usize + to as usize]
    }

    /// The longest route, in links.
    pub fn diameter(&self) -> u32 {
        self.routes.iter().map(|route| route.len() as u32 - 1).max().unwrap_or(0)
    }

    /// The links of the group with these members, ascending, if it has any of its own.
    pub fn group(&self, members: &[u32]) -> Option<&GroupLinks> {
        self.groups.iter().find(|group| group.members == members && !group.strides.is_empty())
    }

    /// The strides of the group with these members; none if it has no links of its own.
    pub fn strides(&self, members: &[u32]) -> &[u32] {
        self.group(members).map_or(&[], |group| &group.strides)
    }
}
