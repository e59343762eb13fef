//! The network, and which NPU each rank runs on.

use crate::{one, unity};
use serde::{Deserialize, Serialize};
use syncline_fabric::build::BuiltSpec;
use syncline_fabric::{Direction, GraphLink, Spread};
use syncline_units::{DimKind, Rate, Time};

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fabric {
    /// A regular fabric, lowest dimension first.
    Dims(Vec<Dim>),
    /// A graph, given link by link.
    Graph(Graph),
    /// A graph of a known family, built from a few numbers.
    Built(Box<BuiltSpec>),
}

/// One dimension of a regular fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// How its NPUs are connected.
    pub shape: DimKind,
    /// How many NPUs it joins.
    pub size: u32,
    /// Parallel rings, parallel links per pair, or switches.
    #[serde(default = "one")]
    pub count: u32,
    /// Whether rings run both ways. Other shapes are always full duplex.
    #[serde(default)]
    pub direction: Direction,
    /// What chooses among several switches. Only for switches.
    #[serde(default)]
    pub spread: Spread,
    /// Rate of one link. Give exactly one of this and `rate_per_npu`.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Rate at which one NPU sends into this dimension over all its links (hier2021 Eq. 8).
    #[serde(default)]
    pub rate_per_npu: Option<Rate>,
    /// Latency of one link.
    #[serde(default)]
    pub latency: Time,
    /// Payload bits divided by all bits on the wire, above 0 up to 1.
    #[serde(default = "unity")]
    pub efficiency: f64,
    /// The dimension's name in price lists; empty if they use its own name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier: String,
}

/// A fabric given link by link. Vertices `0..npus` are NPUs, the next `switches` are switches.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Number of NPUs.
    pub npus: u32,
    /// Number of switches.
    #[serde(default)]
    pub switches: u32,
    /// Directed links. A duplex link is two of them.
    pub links: Vec<GraphLink>,
    /// How paths are found.
    #[serde(default)]
    pub routing: Routing,
    /// Names of the vertices, NPUs first; empty if they have only numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether NPUs send no messages on for others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_only: bool,
}

/// How paths through a graph are found.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// Paths with the fewest links; among equal ones, the one with the smaller vertex numbers.
    #[default]
    Shortest,
    /// Paths with the fewest links; among equal ones, a hash chooses for each flow.
    Ecmp(Ecmp),
    /// These paths, as vertices from source to destination; all other pairs as with `Shortest`.
    Explicit(Vec<Vec<u32>>),
}

/// Equal-cost multi-path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ecmp {
    /// Seed of the hash. Without it, the scenario's.
    pub seed: Option<u64>,
}

/// Which NPU each rank runs on.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Rank `i` on NPU `i`.
    #[default]
    Linear,
    /// Rank `i` on the `i`-th of these NPUs.
    Npus(Vec<u32>),
}
