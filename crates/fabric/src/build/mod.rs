//! Families of fabrics that are built from a few numbers.
//!
//! - [`BuiltSpec`]: what a scenario gives: a family with its numbers and perhaps nodes; [`build`] turns it into a
//!   [`Fabric`];
//! - [`fat_tree`], [`leaf_spine`]: switches in levels, based on `clos`;
//! - [`dragonfly`], [`expander`]: switches of one level;
//! - [`grid`]: torus, mesh, hypercube, where hosts are routers; [`star`]: one switch;
//! - [`nodes`]: nodes of several NPUs, whose network cards are the hosts of any of these;
//! - `blueprint`: what all of them specify, and how it becomes a graph.

mod blueprint;
mod clos;
pub mod dragonfly;
pub mod expander;
pub mod fat_tree;
pub mod grid;
pub mod leaf_spine;
pub mod nodes;
pub mod star;

pub use dragonfly::Dragonfly;
pub use expander::Expander;
pub use fat_tree::FatTree;
pub use grid::{Hypercube, Mesh, Torus};
pub use leaf_spine::LeafSpine;
pub use nodes::Nodes;
pub use star::Star;

use crate::Fabric;
use blueprint::Blueprint;
use serde::{Deserialize, Serialize};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{Rate, Time};

/// Most directed links of a built fabric, which stores them one by one.
pub const MAX_LINKS: u64 = 1 << 24;

/// A family, nodes and routes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltSpec {
    /// The network that joins the hosts.
    pub network: Family,
    /// What the hosts are, if not single NPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// How paths are found; by default as usual for the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutePolicy>,
}

/// A family with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Three levels of equal switches.
    FatTree(FatTree),
    /// Two or three levels of switches.
    LeafSpine(LeafSpine),
    /// Groups of routers.
    Dragonfly(Dragonfly),
    /// A random regular graph.
    Expander(Expander),
    /// A grid with wrap-around.
    Torus(Torus),
    /// A grid without wrap-around.
    Mesh(Mesh),
    /// A grid of size two in every dimension.
    Hypercube(Hypercube),
    /// One switch.
    Switch(Star),
}

impl Family {
    /// Returns the family's name, which is its key in a scenario.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FatTree(_) => "fat_tree",
            Self::LeafSpine(_) => "leaf_spine",
            Self::Dragonfly(_) => "dragonfly",
            Self::Expander(_) => "expander",
            Self::Torus(_) => "torus",
            Self::Mesh(_) => "mesh",
            Self::Hypercube(_) => "hypercube",
            Self::Switch(_) => "switch",
        }
    }
}

/// How paths are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutePolicy {
    /// Fewest links; ties go to smaller vertex numbers.
    Shortest,
    /// Fewest links; a hash of the flow breaks ties.
    Ecmp {
        /// Seed of the hash; by default the scenario's seed.
        #[serde(default)]
        seed: Option<u64>,
    },
    /// Dimension by dimension, the lowest first. Only for a mesh.
    DimensionOrder,
    /// These paths, as names or numbers of vertices; all other pairs use `Shortest`.
    Explicit(Vec<Vec<String>>),
}

/// Builds a fabric. Hashes, and whatever is random in families without a seed of their own, follow from
/// `seed`.
///
/// # Errors
/// Everything that is impossible about the fabric. Keys begin with `fabric.built`.
pub fn build(spec: &BuiltSpec, seed: u64) -> Result<Fabric> {
    let key = |error: Diagnostic| {
        let below = error.key.as_deref().map_or(String::new(), |key| format!(".{key}"));
        error.key(format!("fabric.built.network.{}{below}", spec.network.name()))
    };
    let blueprint = draw(&spec.network, seed).map_err(key)?;
    let blueprint = match &spec.nodes {
        Some(nodes) => nodes::fill(blueprint, nodes).map_err(|error| match &error.key {
            Some(below) => {
                let key = format!("fabric.built.nodes.{below}");
                error.key(key)
            }
            None => error.key("fabric.built.nodes"),
        })?,
        None => blueprint,
    };
    blueprint.into_fabric(spec.routing.as_ref(), seed)
}

fn draw(network: &Family, seed: u64) -> Drawn {
    match network {
        Family::FatTree(spec) => fat_tree::draw(spec),
        Family::LeafSpine(spec) => leaf_spine::draw(spec),
        Family::Dragonfly(spec) => dragonfly::draw(spec),
        Family::Expander(spec) => expander::draw(spec, seed),
        Family::Torus(spec) => grid::draw_torus(spec),
        Family::Mesh(spec) => grid::draw_mesh(spec),
        Family::Hypercube(spec) => grid::draw_hypercube(spec),
        Family::Switch(spec) => star::draw(spec),
    }
}

/// The blueprint of a family, or why it is impossible; the error's key is relative to the family's.
type Drawn = std::result::Result<Blueprint, Diagnostic>;

fn bad(key: &str, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::BadFabric, message).key(key)
}

/// Rejects numbers that are too small.
fn at_least(least: u32, values: &[(&str, u32)]) -> std::result::Result<(), Diagnostic> {
    match values.iter().find(|(_, value)| *value < least) {
        None => Ok(()),
        Some((key, value)) => Err(bad(key, format!("`{key}` is too small"))
            .found(value.to_string())
            .allowed(format!("at least {least}"))),
    }
}

/// Rejects rates of zero.
fn rates(values: &[(&str, Option<Rate>)]) -> std::result::Result<(), Diagnostic> {
    match values.iter().find(|(_, rate)| rate.is_some_and(Rate::is_zero)) {
        None => Ok(()),
        Some((key, _)) => Err(bad(key, "a link needs a rate above zero").found("0b/s")),
    }
}

/// Rejects what is too large to store, before it is built.
fn holdable(vertices: u128, cables: u128) -> std::result::Result<(), Diagnostic> {
    let links = cables.saturating_mul(2);
    if links <= u128::from(MAX_LINKS) && vertices <= u128::from(MAX_LINKS) {
        return Ok(());
    }
    Err(Diagnostic::error(Code::BadFabric, "the fabric is too large to be built link by link")
        .found(format!("{vertices} hosts and switches, {links} directed links"))
        .allowed(format!("at most {MAX_LINKS} of either"))
        .help(
            "use a regular fabric (`dims`, `shape`, `torus`): its links are not stored one by one, so it may have \
             millions of NPUs",
        ))
}

/// Returns the product, saturating on overflow.
fn product(factors: &[u32]) -> u128 {
    factors.iter().fold(1, |product: u128, &factor| product.saturating_mul(u128::from(factor)))
}

/// Payload as a fraction of all bits on a link: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Efficiency(f64);

impl Default for Efficiency {
    fn default() -> Self {
        Self(1.0)
    }
}

impl TryFrom<f64> for Efficiency {
    type Error = String;

    fn try_from(value: f64) -> std::result::Result<Self, String> {
        match value > 0.0 && value <= 1.0 {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not an efficiency, which is above 0 and at most 1")),
        }
    }
}

impl From<Efficiency> for f64 {
    fn from(efficiency: Efficiency) -> Self {
        efficiency.0
    }
}

/// Rates and latency of cables.
#[derive(Clone, Copy, Debug)]
struct Wire {
    /// Rate of payload.
    rate: Rate,
    latency: Time,
    /// Rate of all bits, which cables are priced by.
    all: Rate,
    efficiency: Efficiency,
}

impl Wire {
    fn new(all: Rate, latency: Time, efficiency: Efficiency) -> Self {
        Self { rate: all.scaled(efficiency.0), latency, all, efficiency }
    }

    /// Returns this wire with the given values replaced.
    fn or(self, rate: Option<Rate>, latency: Option<Time>, efficiency: Option<Efficiency>) -> Self {
        Self::new(
            rate.unwrap_or(self.all),
            latency.unwrap_or(self.latency),
            efficiency.unwrap_or(self.efficiency),
        )
    }
}

const fn one() -> u32 {
    1
}

#[cfg(test)]
pub(crate) mod tests;
