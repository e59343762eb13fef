//! A fabric given link by link, and shortest or explicit paths through it.

use crate::Link;
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::{LinkId, NpuId, Rate, Time};

/// A directed link of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLink {
    /// Vertex that sends.
    pub from: u32,
    /// Vertex that receives.
    pub to: u32,
    /// Payload rate.
    pub rate: Rate,
    /// Latency.
    pub latency: Time,
}

/// How paths are found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Routing {
    /// Fewest links; among equals, the next vertex with the smallest number.
    #[default]
    Shortest,
    /// These paths, as vertices; every other pair is routed by `Shortest`.
    Explicit(Vec<Vec<u32>>),
}

/// A checked graph. Vertices `0..npus` are NPUs, the rest are switches.
#[derive(Clone, Debug)]
pub struct Graph {
    npus: u32,
    links: Vec<GraphLink>,
    /// Links that leave vertex `v`, by receiving vertex then number: `out[starts[v]..starts[v + 1]]`.
    starts: Vec<u32>,
    out: Vec<LinkId>,
    /// Links that enter, likewise.
    in_starts: Vec<u32>,
    into: Vec<LinkId>,
    /// `next[destination][vertex]`: the vertex to go to, found when a destination is first asked for.
    next: Vec<OnceLock<Box<[u32]>>>,
    explicit: BTreeMap<(u32, u32), Vec<u32>>,
}

const NOWHERE: u32 = u32::MAX;

impl Graph {
    /// Checks and indexes a graph.
    ///
    /// # Errors
    /// Links between vertices that do not exist or from a vertex to itself, links of rate zero, no NPU, explicit paths
    /// that use links that do not exist; all of them at once.
    pub fn new(npus: u32, switches: u32, links: Vec<GraphLink>, routing: Routing) -> Result<Self> {
        let mut errors = Diagnostics::new();
        let vertices = npus.checked_add(switches).unwrap_or(0);
        if npus == 0 || vertices == 0 {
            errors.push(
                Diagnostic::error(Code::BadFabric, "a fabric needs at least one NPU")
                    .key("fabric.graph.npus"),
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
        let mut graph = Self { npus, links, starts, out, in_starts, into, next, explicit: BTreeMap::new() };
        if let Routing::Explicit(paths) = routing {
            graph.set_paths(paths)?;
        }
        Ok(graph)
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
                        .found(path.iter().map(|&v| self.vertex_name(v)).collect::<Vec<_>>().join(", ")),
                );
            } else if self.explicit.insert((first, last), path).is_some() {
                errors.push(
                    Diagnostic::error(Code::BadFabric, format!("two paths from NPU {first} to NPU {last}"))
                        .key(key),
                );
            }
        }
        errors.into_result().map(|_| ())
    }

    /// A vertex as people call it.
    fn vertex_name(&self, vertex: u32) -> String {
        vertex
            .checked_sub(self.npus)
            .map_or_else(|| format!("NPU {vertex}"), |index| format!("switch {index}"))
    }

    /// Number of NPUs.
    pub fn npus(&self) -> u32 {
        self.npus
    }
    /// Number of NPUs and switches.
    pub fn vertices(&self) -> u32 {
        self.starts.len() as u32 - 1
    }
    /// All links.
    pub fn links(&self) -> &[GraphLink] {
        &self.links
    }
    pub(crate) fn link(&self, id: LinkId) -> Link {
        let GraphLink { from, to, rate, latency } = self.links[id.index()];
        Link { from, to, rate, latency, dim: 0 }
    }

    /// Parallel links from one vertex to another.
    fn between(&self, from: u32, to: u32) -> &[LinkId] {
        let out = &self.out[self.starts[from as usize] as usize..self.starts[from as usize + 1] as usize];
        let first = out.partition_point(|id| self.links[id.index()].to < to);
        let count = out[first..].partition_point(|id| self.links[id.index()].to == to);
        &out[first..first + count]
    }

    /// Next vertex towards `destination` from every vertex.
    fn towards(&self, destination: u32) -> &[u32] {
        self.next[destination as usize].get_or_init(|| {
            let mut distance = vec![NOWHERE; self.vertices() as usize];
            let mut next = vec![NOWHERE; self.vertices() as usize];
            distance[destination as usize] = 0;
            let mut queue = VecDeque::from([destination]);
            while let Some(at) = queue.pop_front() {
                let range = self.in_starts[at as usize] as usize..self.in_starts[at as usize + 1] as usize;
                for id in &self.into[range] {
                    let from = self.links[id.index()].from as usize;
                    if distance[from] == NOWHERE {
                        distance[from] = distance[at as usize] + 1;
                        queue.push_back(from as u32);
                    }
                    // Vertices are visited by distance, so every candidate is seen; the smallest wins.
                    if distance[from] == distance[at as usize] + 1 && at < next[from] {
                        next[from] = at;
                    }
                }
            }
            next.into_boxed_slice()
        })
    }

    /// Which vertices `first` reaches, or with `back` which ones reach it.
    pub(crate) fn reach(&self, first: u32, back: bool) -> Vec<bool> {
        let (starts, links) = if back { (&self.in_starts, &self.into) } else { (&self.starts, &self.out) };
        let mut reached = vec![false; self.vertices() as usize];
        reached[first as usize] = true;
        let mut queue = VecDeque::from([first]);
        while let Some(at) = queue.pop_front() {
            for id in &links[starts[at as usize] as usize..starts[at as usize + 1] as usize] {
                let link = &self.links[id.index()];
                let other = if back { link.from } else { link.to };
                if !std::mem::replace(&mut reached[other as usize], true) {
                    queue.push_back(other);
                }
            }
        }
        reached
    }

    pub(crate) fn route(&self, from: NpuId, to: NpuId, lane: u32, path: &mut Vec<LinkId>) -> bool {
        let mut step = |from: u32, to: u32| {
            let parallel = self.between(from, to);
            path.push(parallel[lane as usize % parallel.len()]);
        };
        if let Some(vertices) = self.explicit.get(&(from.0, to.0)) {
            vertices.windows(2).for_each(|hop| step(hop[0], hop[1]));
            return true;
        }
        let next = self.towards(to.0);
        if from != to && next[from.index()] == NOWHERE {
            return false;
        }
        let mut at = from.0;
        while at != to.0 {
            step(at, next[at as usize]);
            at = next[at as usize];
        }
        true
    }
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
        // A square 0-1-3-2-0: from 0 to 3 both ways are equally long.
        let graph = Graph::new(4, 0, duplex(&[(0, 2), (2, 3), (0, 1), (1, 3)]), Routing::Shortest).unwrap();
        assert_eq!(hops(&graph, 0, 3, 0), [1, 3]);
        assert_eq!(hops(&graph, 3, 0, 0), [1, 0]);
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
    fn explicit_paths_win_and_missing_ones_are_told() {
        let links = duplex(&[(0, 1), (1, 2), (0, 2)]);
        let graph = Graph::new(3, 0, links.clone(), Routing::Explicit(vec![vec![0, 1, 2]])).unwrap();
        assert_eq!(hops(&graph, 0, 2, 0), [1, 2]);
        assert_eq!(hops(&graph, 2, 0, 0), [0]);
        let apart = Graph::new(3, 0, duplex(&[(0, 1)]), Routing::Shortest).unwrap();
        assert!(!apart.route(NpuId(0), NpuId(2), 0, &mut Vec::new()));
        let error = Graph::new(3, 0, links, Routing::Explicit(vec![vec![0, 1, 9]])).unwrap_err();
        assert!(
            error.to_string().contains("path must lead") || error.to_string().contains("no link"),
            "{error}"
        );
    }

    #[test]
    fn broken_graphs_report_everything() {
        let link = |from, to, rate| GraphLink { from, to, rate: Rate(rate), latency: Time(0) };
        let error = Graph::new(2, 0, vec![link(0, 7, 1), link(1, 1, 1), link(0, 1, 0)], Routing::Shortest)
            .unwrap_err();
        assert_eq!(error.0.len(), 3);
        assert!(Graph::new(0, 0, vec![], Routing::Shortest).is_err());
    }
}
