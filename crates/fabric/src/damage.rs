//! Links that are slower than they were built, or dead, and the ways round them.

use crate::{Fabric, Graph, GraphLink, Routing};
use std::collections::{BTreeMap, BTreeSet};
use syncline_units::{LinkId, NpuId, Rate};

/// What is broken in a fabric.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    slow: BTreeMap<LinkId, Rate>,
    dead: BTreeSet<LinkId>,
    /// What is left where links are dead, and each link's number in the fabric.
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

    /// The rate that is left of link `id`, whose rate was `rate`: nothing of a dead one.
    pub(crate) fn rate(&self, id: LinkId, rate: Rate) -> Rate {
        if self.dead.contains(&id) { Rate(0) } else { self.slow.get(&id).copied().unwrap_or(rate) }
    }

    /// What is left of the fabric, where links are dead.
    pub(crate) fn rest(&self) -> Option<&Graph> {
        self.rest.as_ref().map(|(graph, _)| graph)
    }

    /// Whether a path leads over no dead link.
    pub(crate) fn is_alive(&self, path: &[LinkId]) -> bool {
        !path.iter().any(|link| self.dead.contains(link))
    }

    /// Replaces a path that leads over a dead link, from `path[start..]`, by a shortest one without any. Returns false,
    /// and leaves nothing of the path, where there is none.
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

    /// Leaves of several paths those without a dead link; where none is left, shortest ones of what is left of the fabric.
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
