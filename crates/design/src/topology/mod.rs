//! TopologyFinder: a topology of direct links, and routes, for what a job sends (topoopt2022 3.3).
//!
//! Every server has `d` interfaces. A link joins the sending side of one interface to the receiving side of another one,
//! as an optical switch does, so a server has at most `d` links out and `d` links in.
//!
//! - [`demand`]: what a job sends;
//! - [`rings`]: rings for all-reduces (TotientPerms, TopPermutations);
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

/// The rings of an all-reduce group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rings {
    /// The members, ascending.
    pub members: Vec<u32>,
    /// The stride of each ring: member `i` sends to member `i + stride`, modulo the number of members. Each ring has
    /// links of its own. Empty if the group has to use the links of others.
    pub strides: Vec<u32>,
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
    /// The rings of all servers, and of each group of the demand.
    pub rings: Vec<Rings>,
    /// Interfaces that serve rings, for the server with the most.
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

    /// The strides of the rings of the group with these members, ascending; none if it has no rings of its own.
    pub fn strides(&self, members: &[u32]) -> &[u32] {
        self.rings.iter().find(|rings| rings.members == members).map_or(&[], |rings| &rings.strides)
    }
}
