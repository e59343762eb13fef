//! What a family specifies: hosts, levels of switches and cables; and how this becomes a graph.

use super::{RoutePolicy, Wire};
use crate::measure::Known;
use crate::parts::{Layout, Level, LinkKind, Parts, Tier, VertexKind};
use crate::{Fabric, Graph, GraphLink, Passage, Routing};
use syncline_diagnostics::{Code, Diagnostic, Result};

/// A fabric before its graph. Vertices are numbered in the order of levels, hosts first.
#[derive(Debug)]
pub(super) struct Blueprint {
    /// Name of the family.
    pub(super) family: &'static str,
    /// Kinds of vertices; the first are the hosts.
    pub(super) levels: Vec<Sort>,
    /// Kinds of cables.
    pub(super) tiers: Vec<Cables>,
    /// How many consecutive hosts one switch has; `None` if hosts are routers themselves.
    pub(super) hosts_per_leaf: Option<u32>,
    /// What may pass through each vertex; empty if everything may.
    pub(super) passages: Vec<Passage>,
    /// Node of each vertex, if it has one; empty if there are no nodes.
    pub(super) nodes: Vec<Option<u32>>,
    /// Sizes of the grid of hosts, lowest dimension first, if paths may cross it dimension by dimension.
    pub(super) grid: Option<Vec<u32>>,
    /// Names and sizes of the natural axes of ranks, lowest first; empty if there is a single axis.
    pub(super) axes: Vec<(String, u32)>,
    /// How a drawing arranges it.
    pub(super) layout: Layout,
    /// What formulas say about it.
    pub(super) known: Known,
}

/// A kind of vertices.
#[derive(Clone, Debug)]
pub(super) struct Sort {
    pub(super) name: &'static str,
    pub(super) kind: VertexKind,
    pub(super) height: i8,
    pub(super) count: u32,
    /// How many form a group.
    pub(super) group: u32,
}

impl Sort {
    pub(super) fn hosts(count: u32) -> Self {
        Self { name: "NPU", kind: VertexKind::Npu, height: 0, count, group: count }
    }

    pub(super) fn switches(name: &'static str, height: i8, count: u32, group: u32) -> Self {
        Self { name, kind: VertexKind::Switch, height, count, group }
    }
}

/// A kind of cables, each with a link in either direction.
#[derive(Debug)]
pub(super) struct Cables {
    pub(super) name: &'static str,
    pub(super) kind: LinkKind,
    pub(super) wire: Wire,
    pub(super) ends: Vec<(u32, u32)>,
}

impl Blueprint {
    /// Returns the number of hosts.
    pub(super) fn hosts(&self) -> u32 {
        self.levels[0].count
    }

    /// Builds the graph, with descriptions of its parts.
    pub(super) fn into_fabric(self, routing: Option<&RoutePolicy>, seed: u64) -> Result<Fabric> {
        let npus = self.hosts();
        let switches = self.levels[1..].iter().map(|level| level.count).sum();
        let mut links = Vec::with_capacity(2 * self.tiers.iter().map(|tier| tier.ends.len()).sum::<usize>());
        let mut tiers = Vec::new();
        for Cables { name, kind, wire, ends } in self.tiers {
            let first = links.len() as u32;
            for (a, b) in ends {
                for (from, to) in [(a, b), (b, a)] {
                    links.push(GraphLink { from, to, rate: wire.rate, latency: wire.latency });
                }
            }
            let links = links.len() as u32 - first;
            if links > 0 {
                let wire_rate = Some(wire.all);
                tiers.push(Tier { name: name.to_owned(), kind, first, links, wire_rate });
            }
        }
        let mut first = 0;
        let levels = self.levels.into_iter().map(|Sort { name, kind, height, count, group }| {
            first += count;
            Level { name: name.to_owned(), kind, height, first: first - count, count, group }
        });
        let mut levels: Vec<Level> = levels.collect();
        levels.retain(|level| level.count > 0);
        let parts =
            Parts { family: self.family.to_owned(), levels, tiers, axes: self.axes, layout: self.layout };
        let routing = match (routing, self.grid) {
            (Some(RoutePolicy::Shortest), _) => Routing::Shortest,
            (Some(RoutePolicy::Ecmp { seed: own }), _) => Routing::Ecmp { seed: own.unwrap_or(seed) },
            (Some(RoutePolicy::Explicit(paths)), _) => Routing::Explicit(named(paths, &parts)?),
            (None | Some(RoutePolicy::DimensionOrder), Some(sizes)) => Routing::DimensionOrder(sizes),
            (None, None) => Routing::Ecmp { seed },
            (Some(RoutePolicy::DimensionOrder), None) => {
                let message = "this fabric does not support dimension-order routing";
                return Err(Diagnostic::error(Code::BadFabric, message)
                    .key("fabric.built.routing")
                    .found("dimension_order")
                    .allowed("shortest, ecmp")
                    .help("it applies to a `mesh` without nodes; a torus and a hypercube without nodes always use it")
                    .into());
            }
        };
        let graph = Graph::new(npus, switches, links, routing).map_err(|mut errors| {
            for error in &mut errors.0 {
                error.key = error.key.take().map(|key| key.replacen("fabric.graph.", "fabric.built.", 1));
            }
            errors
        })?;
        let graph = if self.passages.is_empty() { graph } else { graph.with_passages(self.passages) };
        let graph = if self.nodes.is_empty() { graph } else { graph.with_nodes(self.nodes) };
        Ok(Fabric::built(graph, parts, self.known))
    }
}

/// Translates paths from vertex names to numbers.
fn named(paths: &[Vec<String>], parts: &Parts) -> Result<Vec<Vec<u32>>> {
    let vertices = parts.levels.iter().map(|level| level.first + level.count).max().unwrap_or(0);
    let number = |name: &String, path: usize, at: usize| {
        let known =
            parts.vertex(name).or_else(|| name.parse().ok().filter(|&number: &u32| number < vertices));
        known.ok_or_else(|| {
            Diagnostic::error(Code::BadFabric, "no such vertex")
                .key(format!("fabric.built.routing.explicit.{path}.{at}"))
                .found(&**name)
                .allowed(format!("{}, or a number below {vertices}", parts.names()))
                .into()
        })
    };
    let path = |(path, names): (usize, &Vec<String>)| {
        names.iter().enumerate().map(|(at, name)| number(name, path, at)).collect()
    };
    paths.iter().enumerate().map(path).collect()
}
