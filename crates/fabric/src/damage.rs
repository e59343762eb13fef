//! Slow links, dead links, and the paths around them.

use crate::{Fabric, Graph, GraphLink, Routing};
use std::collections::{BTreeMap, BTreeSet};
use syncline_units::{LinkId, NpuId, Rate};

/// What is broken in a fabric.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    slow: BTreeMap<LinkId, Rate>,
    dead: BTreeSet<LinkId>,
    /// The fabric without its dead links, if there are any, and each remaining link's number in the fabric.
    rest: Option<(Graph, Vec<LinkId>)>,
}

impl Damage {
    pub(crate) fn new(fabric: &Fabric, slow: BTreeMap<LinkId, Rate>, dead: BTreeSet<LinkId>) -> Self {
        let rest = (!dead.is_empty()).then(|| {
            let ids: Vec<LinkId> = (0..fabric.links()).map(LinkId).filter(|id| !dead.contains(id)).collect();
            let links = ids.iter().map(|&id| {
                let link = fabric.link(id);
                GraphLink { from: link.from, to: link.to, rate: link.rate, latency: link.latency }
            });
            let switches = fabric.vertices() - fabric.npus();
            let routing = fabric.ecmp().map_or(Routing::Shortest, |seed| Routing::Ecmp { seed });
            let graph = Graph::new(fabric.npus(), switches, links.collect(), routing)
                .expect("links of a fabric make a graph");
            let passages = fabric.passages();
            let graph = if passages.is_empty() { graph } else { graph.with_passages(passages.to_vec()) };
            let nodes = fabric.nodes();
            let graph = if nodes.is_empty() { graph } else { graph.with_nodes(nodes.to_vec()) };
            (graph, ids)
        });
        Self { slow, dead, rest }
    }

    /// Returns the remaining rate of link `id`, whose rate was `rate`: zero if it is dead.
    pub(crate) fn rate(&self, id: LinkId, rate: Rate) -> Rate {
        if self.dead.contains(&id) { Rate(0) } else { self.slow.get(&id).copied().unwrap_or(rate) }
    }

    /// Returns the fabric without its dead links, if there are any.
    pub(crate) fn rest(&self) -> Option<&Graph> {
        self.rest.as_ref().map(|(graph, _)| graph)
    }

    /// Whether a path uses no dead link.
    pub(crate) fn is_alive(&self, path: &[LinkId]) -> bool {
        !path.iter().any(|link| self.dead.contains(link))
    }

    /// Replaces a path, `path[start..]`, that uses a dead link by a shortest one that does not. If there is
    /// none, removes the path and returns false.
    #[cold]
    pub(crate) fn lead_round(
        &self,
        from: NpuId,
        to: NpuId,
        lane: u32,
        path: &mut Vec<LinkId>,
        start: usize,
    ) -> bool {
        let Some((graph, ids)) = &self.rest else { return true };
        if self.is_alive(&path[start..]) {
            return true;
        }
        path.truncate(start);
        let found = graph.route(from, to, lane, path);
        path[start..].iter_mut().for_each(|link| *link = ids[link.index()]);
        found
    }

    /// Keeps those of several paths that use no dead link; if none is left, returns shortest paths that avoid
    /// dead links.
    pub(crate) fn lead_all_round(
        &self,
        from: NpuId,
        to: NpuId,
        lane: u32,
        limit: u32,
        mut routes: Vec<Vec<LinkId>>,
    ) -> Vec<Vec<LinkId>> {
        routes.retain(|path| self.is_alive(path));
        match &self.rest {
            Some((graph, ids)) if routes.is_empty() => {
                let mut routes = graph.routes(from, to, lane, limit);
                routes.iter_mut().flatten().for_each(|link| *link = ids[link.index()]);
                routes
            }
            _ => routes,
        }
    }
}
