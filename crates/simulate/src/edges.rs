//! A list of links as a fabric's graph.

use crate::scenario::{Graph, GraphLink, Routing};
use std::path::Path;
use syncline_diagnostics::Result;
use syncline_formats::edges::Edges;

/// Reads a list of links, CSV or YAML, as a graph with shortest-path routing.
///
/// # Errors
/// As [`Edges::read`].
pub fn edges(path: &Path) -> Result<Graph> {
    let Edges { npus, switches, links } = Edges::read(path)?;
    let links = links
        .into_iter()
        .map(|link| GraphLink { from: link.from, to: link.to, rate: link.rate, latency: link.latency })
        .collect();
    Ok(Graph { npus, switches, links, routing: Routing::default() })
}
