//! The network that a search plans for: direct links that it chooses, or a given network.

use super::network::RoutedLinks;
use crate::topology::{Demand, Selection, Topology, find};
use std::sync::Arc;
use syncline_diagnostics::Result;
use syncline_units::{Rate, Time};

/// The network that a search plans for.
#[derive(Clone, Debug)]
pub enum Cluster {
    /// Servers that are joined by direct links, which the search chooses.
    Direct {
        /// Number of servers.
        servers: u32,
        /// Interfaces of a server.
        degree: u32,
        /// Rate of an interface.
        rate: Rate,
        /// Latency of a link.
        latency: Time,
        /// How rings are selected.
        selection: Selection,
    },
    /// A given network.
    Fixed(Arc<RoutedLinks>),
}

impl Cluster {
    /// Number of servers.
    pub fn servers(&self) -> u32 {
        match self {
            Self::Direct { servers, .. } => *servers,
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
            &Self::Direct { degree, rate, latency, selection, .. } => {
                let topology = find(&demand(), degree, selection)?;
                Ok((Arc::new(RoutedLinks::direct(&topology, rate, latency)), Some(topology)))
            }
            Self::Fixed(network) => Ok((Arc::clone(network), None)),
        }
    }
}
