//! The network that a search plans for: direct links that it chooses, or a given network.

use super::network::RoutedLinks;
use crate::topology::{Demand, Selection, Topology, find};
use serde::Deserialize;
use std::sync::Arc;
use syncline_diagnostics::Result;
use syncline_units::{Rate, Time};

/// Servers that are joined by direct links, which the search chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectLinks {
    /// Number of servers.
    pub servers: u32,
    /// Interfaces of a server.
    pub degree: u32,
    /// Rate of an interface.
    pub rate: Rate,
    /// Latency of a link.
    pub latency: Time,
    /// How rings are selected.
    pub selection: Selection,
}

/// The network that a search plans for.
#[derive(Clone, Debug)]
pub enum Cluster {
    /// Direct links that the search chooses.
    Direct(DirectLinks),
    /// A given network.
    Fixed(Arc<RoutedLinks>),
}

impl Cluster {
    /// Number of servers.
    pub fn servers(&self) -> u32 {
        match self {
            Self::Direct(links) => links.servers,
            Self::Fixed(network) => network.servers(),
        }
    }

    /// The network for a demand, and its topology if it was chosen.
    ///
    /// # Errors
    /// As [`find`].
    pub(super) fn network(
        &self,
        demand: impl FnOnce() -> Demand,
    ) -> Result<(Arc<RoutedLinks>, Option<Topology>)> {
        match self {
            Self::Direct(links) => {
                let topology = find(&demand(), links.degree, links.selection)?;
                Ok((Arc::new(RoutedLinks::direct(&topology, links.rate, links.latency)), Some(topology)))
            }
            Self::Fixed(network) => Ok((Arc::clone(network), None)),
        }
    }
}
