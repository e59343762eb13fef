//! A fabric given link by link, and shortest, hashed or explicit paths through it.
//!
//! Routing tables cover only the *core* of the graph. A vertex with a single neighbour, such as a host on its
//! leaf, is outside the core: all paths to it and from it lead through that neighbour, its *gate*. So tables
//! are per switch, not per host.

use crate::Link;
use crate::multipath::Equal;
use crate::passage::Passage;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::{LinkId, NpuId, Rate, Time};

/// A directed link of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// Vertex that sends.
    pub from: u32,
    /// Vertex that receives.
    pub to: u32,
    /// Payload rate.
    pub rate: Rate,
    /// Latency.
    #[serde(default)]
    pub latency: Time,
}

/// How paths are found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Routing {
    /// Fewest links; ties go to the next vertex with the smallest number.
    #[default]
    Shortest,
    /// Fewest links; at ties, each vertex chooses by a hash of source, destination, lane and seed: equal-cost
    /// multi-path (RFC 2992). Every link on a shortest path is a candidate.
    Ecmp {
        /// Seed of the hash.
        seed: u64,
    },
    /// These paths, as vertices; all other pairs use `Shortest`.
    Explicit(Vec<Vec<u32>>),
    /// NPU `i` is at coordinate `i / stride % size` of a grid of these sizes, lowest dimension first, and is
    /// joined to its neighbours. Routes correct one coordinate after the other, the lowest first (e-cube,
    /// Dally and Seitz 1987).
    DimensionOrder(Vec<u32>),
}

/// A checked graph. Vertices `0..npus` are NPUs, the rest are switches.
#[derive(Clone, Debug)]
pub struct Graph {
    npus: u32,
    links: Vec<GraphLink>,
    /// Links that leave vertex `v`, ordered by receiving vertex, then number: `out[starts[v]..starts[v +
    /// 1]]`.
    starts: Vec<u32>,
    out: Vec<LinkId>,
    /// Links that enter a vertex, indexed likewise.
    in_starts: Vec<u32>,
    into: Vec<LinkId>,
    /// The only neighbour of a vertex outside the core; [`NOWHERE`] for vertices in the core.
    gates: Vec<u32>,
    /// Number of a vertex within the core; [`NOWHERE`] for vertices outside.
    core: Vec<u32>,
    /// What may pass through each vertex; empty if everything may.
    passages: Vec<Passage>,
    /// Node of each vertex, if it has one; empty if there are no nodes.
    nodes: Vec<Option<u32>>,
    /// `next[destination][vertex of the core]`: the next vertex, computed when a destination is first used.
    next: Vec<OnceLock<Box<[u32]>>>,
    /// All shortest paths to each destination, computed likewise.
    equal: Vec<OnceLock<Equal>>,
    /// The seed of hashes, if they break ties.
    ecmp: Option<u64>,
    explicit: BTreeMap<(u32, u32), Vec<u32>>,
    /// Sizes of the grid, if routes take its dimensions in order.
    order: Option<Vec<u32>>,
    /// Names of the vertices; empty if they only have numbers.
    names: Vec<String>,
}

pub(crate) const NOWHERE: u32 = u32::MAX;

/// How near the vertices of the core are to one of them, by their numbers within the core.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    /// Distance in links; [`NOWHERE`] if there is no path.
    pub(crate) distance: Box<[u32]>,
    /// For vertices that join NPUs with others: whether a shortest path begins with an NPU.
    to_npu: Box<[bool]>,
}

impl Graph {
    /// Checks and indexes a graph.
    ///
    /// # Errors
    /// Reports all at once: links between vertices that do not exist or from a vertex to itself, links of
    /// rate zero, no NPU, and explicit paths that use links that do not exist or visit a vertex twice.
    pub fn new(npus: u32, switches: u32, links: Vec<GraphLink>, routing: Routing) -> Result<Self> {
        Self::named(Vec::new(), npus, switches, links, routing)
    }

    /// Does the same with names of the vertices, NPUs first; empty if they only have numbers.
    ///
    /// # Errors
    /// Those of [`Graph::new`], and a number of names that differs from that of vertices.
    pub fn named(
        names: Vec<String>,
        npus: u32,
        switches: u32,
        links: Vec<GraphLink>,
        routing: Routing,
    ) -> Result<Self> {
        let mut errors = Diagnostics::new();
        let vertices = npus.checked_add(switches).unwrap_or(0);
        if npus == 0 || vertices == 0 {
            errors.push(
                Diagnostic::error(Code::BadFabric, "a fabric needs at least one NPU")
                    .key("fabric.graph.npus"),
            );
        }
        if !names.is_empty() && names.len() != vertices as usize {
            errors.push(
                Diagnostic::error(Code::BadFabric, "either all vertices or none must have names")
                    .key("fabric.graph.names")
                    .found(format!("{} names", names.len()))
                    .allowed(format!("{vertices} names, or none")),
            );
        }
        for (index, link) in links.iter().enumerate() {
            let key = format!("fabric.graph.links.{index}");
            for (end, vertex) in [("from", link.from), ("to", link.to)] {
                if vertex >= vertices {
                    errors.push(
                        Diagnostic::error(Code::BadFabric, "a link ends at a vertex that does not exist")
                            .key(format!("{key}.{end}"))
                            .found(vertex.to_string())
                            .allowed(format!("0 to {}", vertices.saturating_sub(1)))
                            .note(format!(
                                "vertices 0 to {} are NPUs, the others switches",
                                npus.saturating_sub(1)
                            )),
                    );
                }
            }
            if link.from == link.to {
                errors.push(
                    Diagnostic::error(Code::BadFabric, "a link leads from a vertex to itself")
                        .key(key.clone())
                        .found(link.from.to_string()),
                );
            }
            if link.rate.is_zero() {
                errors.push(
                    Diagnostic::error(Code::BadFabric, "a link needs a rate above zero")
                        .key(format!("{key}.rate")),
                );
            }
        }
        errors.into_result()?;

        let index = |end: fn(&GraphLink) -> u32, other: fn(&GraphLink) -> u32| {
            let mut starts = vec![0u32; vertices as usize + 1];
            for link in &links {
                starts[end(link) as usize + 1] += 1;
            }
            for v in 0..vertices as usize {
                starts[v + 1] += starts[v];
            }
            let mut ids: Vec<LinkId> = (0..links.len() as u32).map(LinkId).collect();
            ids.sort_by_key(|id| (end(&links[id.index()]), other(&links[id.index()]), id.0));
            (starts, ids)
        };
        let (starts, out) = index(|link| link.from, |link| link.to);
        let (in_starts, into) = index(|link| link.to, |link| link.from);
        let next = (0..vertices).map(|_| OnceLock::new()).collect();
        let equal = (0..vertices).map(|_| OnceLock::new()).collect();
        let mut graph = Self {
            npus,
            links,
            starts,
            out,
            in_starts,
            into,
            gates: Vec::new(),
            core: Vec::new(),
            passages: Vec::new(),
            nodes: Vec::new(),
            next,
            equal,
            ecmp: None,
            explicit: BTreeMap::new(),
            order: None,
            names,
        };
        graph.find_core();
        match routing {
            Routing::Shortest => {}
            Routing::Ecmp { seed } => graph.ecmp = Some(seed),
            Routing::Explicit(paths) => graph.set_paths(paths)?,
            Routing::DimensionOrder(sizes) => {
                graph.check_order(&sizes)?;
                graph.order = Some(sizes);
            }
        }
        Ok(graph)
    }

    /// Sets what may pass through each vertex, in the order of their numbers.
    #[must_use]
    pub(crate) fn with_passages(mut self, passages: Vec<Passage>) -> Self {
        debug_assert_eq!(passages.len(), self.vertices() as usize);
        self.passages = passages;
        self.find_core();
        self
    }

    /// Makes NPUs forward nothing for others; given paths may still lead through them. For a graph that has not
    /// been asked for routes yet.
    #[must_use]
    pub fn ending_at_npus(self) -> Self {
        let passages =
            (0..self.vertices()).map(|at| if at < self.npus { Passage::No } else { Passage::Through });
        let passages = passages.collect();
        self.with_passages(passages)
    }

    /// Sets the node of each vertex, if it has one. Messages between two NPUs of a
    /// node stay on the node's switches if these connect them, as in NCCL.
    #[must_use]
    pub(crate) fn with_nodes(mut self, nodes: Vec<Option<u32>>) -> Self {
        debug_assert_eq!(nodes.len(), self.vertices() as usize);
        self.nodes = nodes;
        self
    }

    /// Returns the node of each vertex, if it has one; empty if there are no nodes.
    pub(crate) fn nodes(&self) -> &[Option<u32>] {
        &self.nodes
    }

    /// Whether the step from the NPU `from` to its neighbour `to` leaves the node although a switch of the
    /// node connects `from` with `destination`.
    fn leaves_node(&self, from: u32, to: u32, destination: u32) -> bool {
        let node = |vertex: u32| self.nodes.get(vertex as usize).copied().flatten();
        let own = node(from);
        let inside = |vertex: u32| vertex >= self.npus && node(vertex) == own;
        from < self.npus
            && own.is_some()
            && own == node(destination)
            && !inside(to)
            && self.leaving(from).iter().any(|id| {
                let switch = self.links[id.index()].to;
                inside(switch) && !self.between(switch, destination).is_empty()
            })
    }

    /// Returns what may pass through each vertex; empty if everything may.
    pub(crate) fn passages(&self) -> &[Passage] {
        &self.passages
    }

    pub(crate) fn passage(&self, vertex: u32) -> Passage {
        self.passages.get(vertex as usize).copied().unwrap_or_default()
    }

    /// Separates the core from vertices with a single neighbour.
    fn find_core(&mut self) {
        let vertices = self.vertices();
        let sole: Vec<u32> = (0..vertices).map(|vertex| self.sole_neighbour(vertex)).collect();
        let is_gate = |at: u32| sole[at as usize] == NOWHERE && self.passage(at) == Passage::Through;
        let gates: Vec<u32> =
            sole.iter().map(|&at| if at != NOWHERE && is_gate(at) { at } else { NOWHERE }).collect();
        let mut number = 0;
        let core = gates.iter().map(|&gate| {
            if gate != NOWHERE {
                return NOWHERE;
            }
            number += 1;
            number - 1
        });
        self.core = core.collect();
        self.gates = gates;
    }

    /// Returns the one vertex that all links of `vertex` lead to and come from; [`NOWHERE`] if there are
    /// several, or none.
    fn sole_neighbour(&self, vertex: u32) -> u32 {
        let ends = |ids: &[LinkId], end: fn(&GraphLink) -> u32| {
            let at = |id: Option<&LinkId>| id.map(|id| end(&self.links[id.index()]));
            (at(ids.first()), at(ids.last()))
        };
        match (ends(self.leaving(vertex), |link| link.to), ends(self.entering(vertex), |link| link.from)) {
            ((Some(a), Some(b)), (Some(c), Some(d))) if a == b && b == c && c == d => a,
            _ => NOWHERE,
        }
    }

    /// Checks that every NPU of a grid is joined to its neighbours.
    fn check_order(&self, sizes: &[u32]) -> Result<()> {
        let mut stride = 1u32;
        for &size in sizes {
            let apart = (0..self.npus).filter(|npu| npu / stride % size + 1 < size).find(|&npu| {
                self.between(npu, npu + stride).is_empty() || self.between(npu + stride, npu).is_empty()
            });
            if let Some(npu) = apart {
                let message = format!("no link joins the neighbours NPU {npu} and NPU {}", npu + stride);
                return Err(Diagnostic::error(Code::NoRoute, message).key("fabric.graph.routing").into());
            }
            stride *= size;
        }
        debug_assert_eq!(stride, self.npus);
        Ok(())
    }

    fn set_paths(&mut self, paths: Vec<Vec<u32>>) -> Result<()> {
        let mut errors = Diagnostics::new();
        for (index, path) in paths.into_iter().enumerate() {
            let key = format!("fabric.graph.routing.explicit.{index}");
            let broken = path.windows(2).find(|hop| {
                hop.iter().any(|&v| v >= self.vertices()) || self.between(hop[0], hop[1]).is_empty()
            });
            let first = path.first().copied().unwrap_or(NOWHERE);
            let last = path.last().copied().unwrap_or(NOWHERE);
            if path.len() < 2 || first >= self.npus || last >= self.npus || first == last {
                errors.push(
                    Diagnostic::error(Code::BadFabric, "a path must lead from one NPU to another").key(key),
                );
            } else if let Some(hop) = broken {
                let [from, to] = [hop[0], hop[1]].map(|vertex| self.vertex_name(vertex));
                errors.push(
                    Diagnostic::error(Code::NoRoute, format!("no link leads from {from} to {to}"))
                        .key(key)
                        .found(self.path_name(&path)),
                );
            } else if let Some(twice) = repeated(&path) {
                let message = format!("a path visits {} twice: a routing loop", self.vertex_name(twice));
                errors.push(
                    Diagnostic::error(Code::BadFabric, message)
                        .key(key)
                        .found(self.path_name(&path))
                        .help("remove the part between the two visits"),
                );
            } else if self.explicit.insert((first, last), path).is_some() {
                errors.push(
                    Diagnostic::error(
                        Code::BadFabric,
                        format!("two paths from {} to {}", self.vertex_name(first), self.vertex_name(last)),
                    )
                    .key(key),
                );
            }
        }
        errors.into_result().map(|_| ())
    }

    /// Returns a path by the names of its vertices.
    fn path_name(&self, path: &[u32]) -> String {
        path.iter().map(|&vertex| self.vertex_name(vertex)).collect::<Vec<_>>().join(", ")
    }

    /// Returns the name of a vertex.
    pub(crate) fn vertex_name(&self, vertex: u32) -> String {
        if let Some(name) = self.names.get(vertex as usize) {
            return name.clone();
        }
        vertex
            .checked_sub(self.npus)
            .map_or_else(|| format!("NPU {vertex}"), |index| format!("switch {index}"))
    }

    /// Returns the names given to vertices; empty if they only have numbers.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
    /// Returns the number of NPUs.
    pub fn npus(&self) -> u32 {
        self.npus
    }
    /// Returns the number of NPUs and switches.
    pub fn vertices(&self) -> u32 {
        self.starts.len() as u32 - 1
    }
    /// Returns all links.
    pub fn links(&self) -> &[GraphLink] {
        &self.links
    }
    pub(crate) fn link(&self, id: LinkId) -> Link {
        let GraphLink { from, to, rate, latency } = self.links[id.index()];
        Link { from, to, rate, latency, dim: 0 }
    }

    /// Returns the seed of the hash that chooses among equal paths; `None` if there is no hash.
    pub fn ecmp(&self) -> Option<u64> {
        self.ecmp
    }
    /// Whether routes take the dimensions of a grid in order.
    pub fn in_dimension_order(&self) -> bool {
        self.order.is_some()
    }
    /// Returns the number of pairs with an explicit path.
    pub fn explicit_paths(&self) -> usize {
        self.explicit.len()
    }

    /// Returns the links that leave a vertex, by receiving vertex, then by number.
    pub(crate) fn leaving(&self, from: u32) -> &[LinkId] {
        &self.out[self.starts[from as usize] as usize..self.starts[from as usize + 1] as usize]
    }

    /// Returns the links that enter a vertex, by sending vertex, then by number.
    pub(crate) fn entering(&self, to: u32) -> &[LinkId] {
        &self.into[self.in_starts[to as usize] as usize..self.in_starts[to as usize + 1] as usize]
    }

    /// Returns the only neighbour of a vertex outside the core.
    pub(crate) fn gate(&self, vertex: u32) -> Option<u32> {
        Some(self.gates[vertex as usize]).filter(|&gate| gate != NOWHERE)
    }

    /// Returns the number of a core vertex within the core.
    pub(crate) fn in_core(&self, vertex: u32) -> usize {
        self.core[vertex as usize] as usize
    }

    /// Returns all shortest paths from the core to a vertex of the core.
    pub(crate) fn equal(&self, destination: u32) -> &Equal {
        self.equal[destination as usize].get_or_init(|| Equal::new(self, destination))
    }

    /// Returns the parallel links from one vertex to another.
    pub(crate) fn between(&self, from: u32, to: u32) -> &[LinkId] {
        let out = self.leaving(from);
        let first = out.partition_point(|id| self.links[id.index()].to < to);
        let count = out[first..].partition_point(|id| self.links[id.index()].to == to);
        &out[first..first + count]
    }

    /// Returns the distance in links from each vertex of the core to `destination`, itself in the core;
    /// [`NOWHERE`] if there is no path. Also returns the vertices that have one, by distance.
    pub(crate) fn distances(&self, destination: u32) -> (Near, Vec<u32>) {
        let size = self.core.iter().filter(|&&number| number != NOWHERE).count();
        let mut distance = vec![NOWHERE; size].into_boxed_slice();
        let mut to_npu = vec![false; size].into_boxed_slice();
        distance[self.in_core(destination)] = 0;
        let mut found = vec![destination];
        let mut next = 0;
        while let Some(&at) = found.get(next) {
            next += 1;
            let farther = distance[self.in_core(at)] + 1;
            // Closer vertices are all known.
            let joins = matches!(self.passage(at), Passage::Across | Passage::Router);
            let leads_to_npu = joins && self.leads_to_npu(at, destination, &distance);
            to_npu[self.in_core(at)] = leads_to_npu;
            for id in self.entering(at) {
                let from = self.links[id.index()].from;
                let Some(&known) = distance.get(self.in_core(from)) else { continue };
                if known == NOWHERE && self.may_enter(from, at, destination, leads_to_npu) {
                    distance[self.in_core(from)] = farther;
                    found.push(from);
                }
            }
        }
        (Near { distance, to_npu }, found)
    }

    /// Whether a flow to `destination` may step from `from` to its neighbour `at`, which `leads_to_npu` or not.
    fn may_enter(&self, from: u32, at: u32, destination: u32, leads_to_npu: bool) -> bool {
        if self.leaves_node(from, at, destination) {
            return false;
        }
        at == destination
            || match self.passage(at) {
                Passage::Through => true,
                Passage::No => false,
                Passage::Across => (from < self.npus) != leads_to_npu,
                Passage::Router => from >= self.npus || !leads_to_npu,
            }
    }

    /// Whether a shortest path from `at` to `destination` begins with an NPU. Such a path is preferred to others
    /// of the same length.
    fn leads_to_npu(&self, at: u32, destination: u32, distance: &[u32]) -> bool {
        let nearer = distance[self.in_core(at)].checked_sub(1);
        self.leaving(at).iter().map(|id| self.links[id.index()].to).take_while(|&to| to < self.npus).any(
            |to| {
                distance.get(self.in_core(to)).copied() == nearer
                    && (to == destination || self.passage(to) == Passage::Through)
            },
        )
    }

    /// Whether the link `id`, which leaves a core vertex, is on a shortest path to `destination`.
    pub(crate) fn leads_on(&self, id: LinkId, destination: u32, near: &Near) -> bool {
        let GraphLink { from, to, .. } = self.links[id.index()];
        let Some(nearer) = near.distance[self.in_core(from)].checked_sub(1) else { return false };
        near.distance.get(self.in_core(to)) == Some(&nearer)
            && self.may_enter(from, to, destination, near.to_npu[self.in_core(to)])
            && (self.passage(from) != Passage::Across || (to < self.npus) == near.to_npu[self.in_core(from)])
    }

    /// Returns the next vertex towards `destination`, a core vertex, from every vertex of the core.
    fn towards(&self, destination: u32) -> &[u32] {
        self.next[destination as usize].get_or_init(|| {
            let (near, found) = self.distances(destination);
            let mut next = vec![NOWHERE; near.distance.len()].into_boxed_slice();
            for at in found {
                // Links are ordered by the vertices they lead to: the smallest wins.
                let first = self.leaving(at).iter().find(|&&id| self.leads_on(id, destination, &near));
                if let Some(id) = first {
                    next[self.in_core(at)] = self.links[id.index()].to;
                }
            }
            next
        })
    }

    /// Returns which vertices `first` reaches, or with `back` which ones reach it.
    pub(crate) fn reach(&self, first: u32, back: bool) -> Vec<bool> {
        // For a vertex that joins NPUs with others, from which side it was reached; for all others, whether
        // it was.
        let mut reached = vec![[false; 2]; self.vertices() as usize];
        reached[first as usize] = [true; 2];
        let mut queue = VecDeque::from([(first, None)]);
        while let Some((at, side)) = queue.pop_front() {
            for id in if back { self.entering(at) } else { self.leaving(at) } {
                let link = &self.links[id.index()];
                let other = if back { link.from } else { link.to };
                if side == Some(other < self.npus) {
                    continue;
                }
                let (passes, from) = match self.passage(other) {
                    Passage::Router if at < self.npus => (true, Some(true)),
                    Passage::Through | Passage::Router => (true, None),
                    Passage::No => (false, None),
                    Passage::Across => (true, Some(at < self.npus)),
                };
                let seen = &mut reached[other as usize][usize::from(from == Some(true))];
                if !std::mem::replace(seen, true) && passes {
                    queue.push_back((other, from));
                }
            }
        }
        reached.into_iter().map(|[a, b]| a || b).collect()
    }

    pub(crate) fn route(&self, from: NpuId, to: NpuId, lane: u32, path: &mut Vec<LinkId>) -> bool {
        if let Some(seed) = self.ecmp {
            return self.hashed_route(seed, from, to, lane, path);
        }
        let mut step = |from: u32, to: u32| {
            let parallel = self.between(from, to);
            path.push(parallel[lane as usize % parallel.len()]);
        };
        if let Some(vertices) = self.explicit.get(&(from.0, to.0)) {
            vertices.windows(2).for_each(|hop| step(hop[0], hop[1]));
            return true;
        }
        if let Some(sizes) = &self.order {
            self.in_order(sizes, from.0, to.0, step);
            return true;
        }
        if from == to {
            return true;
        }
        // Paths to and from a vertex outside the core lead through its gate.
        let goal = self.gate(to.0).unwrap_or(to.0);
        let mut at = from.0;
        if let Some(gate) = self.gate(at) {
            if goal != at && goal != gate && self.towards(goal)[self.in_core(gate)] == NOWHERE {
                return false;
            }
            step(at, gate);
            at = gate;
        } else if at != goal && self.towards(goal)[self.in_core(at)] == NOWHERE {
            return false;
        }
        if at != goal {
            let next = self.towards(goal);
            while at != goal {
                let on = next[self.in_core(at)];
                step(at, on);
                at = on;
            }
        }
        if at != to.0 {
            step(at, to.0);
        }
        true
    }

    /// Visits the steps from one vertex of a grid to another, dimension by dimension.
    fn in_order(&self, sizes: &[u32], from: u32, to: u32, mut step: impl FnMut(u32, u32)) {
        let (mut at, mut stride) = (from, 1);
        for &size in sizes {
            let (mut here, there) = (at / stride % size, to / stride % size);
            while here != there {
                let up = here < there;
                let on = if up { at + stride } else { at - stride };
                step(at, on);
                at = on;
                here = if up { here + 1 } else { here - 1 };
            }
            stride *= size;
        }
    }

    /// Returns several paths of one flow: only its explicit path, only the dimension-order path, or equal
    /// ones (see [`crate::Fabric::routes`]).
    pub(crate) fn routes(&self, from: NpuId, to: NpuId, lane: u32, limit: u32) -> Vec<Vec<LinkId>> {
        if self.order.is_none() && !self.explicit.contains_key(&(from.0, to.0)) {
            return self.equal_routes(from, to, lane, limit);
        }
        let mut path = Vec::new();
        self.route(from, to, lane, &mut path);
        vec![path]
    }
}

/// Returns a vertex that a path visits twice.
fn repeated(path: &[u32]) -> Option<u32> {
    let mut sorted = path.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duplex(pairs: &[(u32, u32)]) -> Vec<GraphLink> {
        let link = |from, to| GraphLink { from, to, rate: Rate(8), latency: Time(1) };
        pairs.iter().flat_map(|&(a, b)| [link(a, b), link(b, a)]).collect()
    }

    fn hops(graph: &Graph, from: u32, to: u32, lane: u32) -> Vec<u32> {
        let mut path = Vec::new();
        assert!(graph.route(NpuId(from), NpuId(to), lane, &mut path));
        path.iter().map(|id| graph.link(*id).to).collect()
    }

    #[test]
    fn shortest_paths_prefer_small_vertices() {
        // A square 0-1-3-2-0: the two paths from 0 to 3 are equally long.
        let graph = Graph::new(4, 0, duplex(&[(0, 2), (2, 3), (0, 1), (1, 3)]), Routing::Shortest).unwrap();
        assert_eq!(hops(&graph, 0, 3, 0), [1, 3]);
        assert_eq!(hops(&graph, 3, 0, 0), [1, 0]);
    }

    #[test]
    fn npus_that_only_end_paths_forward_nothing() {
        // 0-1-2 are joined directly, and 0 and 2 also over the switches 3 and 4.
        let links = || duplex(&[(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)]);
        let graph = || Graph::new(3, 2, links(), Routing::Shortest).unwrap();
        assert_eq!(hops(&graph(), 0, 2, 0), [1, 2]);
        assert_eq!(hops(&graph().ending_at_npus(), 0, 2, 0), [3, 4, 2]);
    }

    #[test]
    fn lanes_choose_among_parallel_links() {
        let graph = Graph::new(2, 0, duplex(&[(0, 1), (0, 1)]), Routing::Shortest).unwrap();
        let first = |lane| {
            let mut path = Vec::new();
            graph.route(NpuId(0), NpuId(1), lane, &mut path);
            path[0]
        };
        assert_eq!((first(0), first(1), first(2)), (LinkId(0), LinkId(2), LinkId(0)));
    }

    #[test]
    fn explicit_paths_take_precedence_and_missing_ones_are_reported() {
        let links = duplex(&[(0, 1), (1, 2), (0, 2)]);
        let graph = Graph::new(3, 0, links.clone(), Routing::Explicit(vec![vec![0, 1, 2]])).unwrap();
        assert_eq!(hops(&graph, 0, 2, 0), [1, 2]);
        assert_eq!(hops(&graph, 2, 0, 0), [0]);
        let apart = Graph::new(3, 0, duplex(&[(0, 1)]), Routing::Shortest).unwrap();
        assert!(!apart.route(NpuId(0), NpuId(2), 0, &mut Vec::new()));
        let error = Graph::new(3, 0, links, Routing::Explicit(vec![vec![0, 1, 9]])).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        assert_eq!(
            (error.0[0].code, error.0[0].message.as_str()),
            (Code::BadFabric, "a path must lead from one NPU to another")
        );
        let links = duplex(&[(0, 1), (1, 2)]);
        let error = Graph::new(3, 0, links, Routing::Explicit(vec![vec![0, 2]])).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        assert_eq!(error.0[0].code, Code::NoRoute);
    }

    #[test]
    fn all_errors_of_a_graph_are_reported_at_once() {
        let link = |from, to, rate| GraphLink { from, to, rate: Rate(rate), latency: Time(0) };
        let error = Graph::new(2, 0, vec![link(0, 7, 1), link(1, 1, 1), link(0, 1, 0)], Routing::Shortest)
            .unwrap_err();
        assert_eq!(error.0.len(), 3);
        assert!(Graph::new(0, 0, vec![], Routing::Shortest).is_err());
    }
}
