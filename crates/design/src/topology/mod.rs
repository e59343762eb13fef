//! TopologyFinder: a topology of direct links, and routes, for what a job sends (topoopt2022 3.3).
//!
//! Every server has `d` interfaces. A link joins the sending side of one interface to the receiving side of another one,
//! as an optical switch does, so a server has at most `d` links out and `d` links in.
//!
//! - [`demand`]: what a job sends;
//! - [`links`]: the links of all-reduces;
//! - [`rings`]: rings for all-reduces (TotientPerms, TopPermutations), and pairs of trees in their place (Appendix A);
//! - [`coins`]: routes along rings (CoinChangeMod);
//! - `matching`: links for other transfers (maximum-weight matching);
//! - `routes`: shortest paths;
//! - `finder`: Algorithm 1, which combines them.

pub mod coins;
pub mod demand;
mod finder;
pub mod links;
mod matching;
pub mod rings;
mod routes;

pub use demand::{Demand, Group, Transfer, Transfers};
pub use finder::{candidates, find};
pub use links::{AllReduceLinks, GroupLinks, TREE_INTERFACES};
pub use rings::RingSelection;

use serde::Serialize;

/// Links from one server to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Links {
    /// The server that sends.
    pub from: u32,
    /// The server that receives.
    pub to: u32,
    /// Number of parallel links.
    pub count: u32,
}

/// How a topology serves all-reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Preference {
    /// How rings are selected.
    pub rings: RingSelection,
    /// How all-reduces use links. A group that has fewer than [`TREE_INTERFACES`] left gets rings in any case.
    pub all_reduce: AllReduceLinks,
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
