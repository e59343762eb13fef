//! The network that a search plans for: direct links that it chooses, or a given network.

use super::demand::demand;
use super::network::RoutedLinks;
use super::step::{Model, StepTimer};
use crate::topology::{AllReduceLinks, Preference, RingSelection, Topology, candidates, find};
use serde::Deserialize;
use std::sync::Arc;
use syncline_diagnostics::Result;
use syncline_units::{Rate, Time};
use syncline_workload::operators::Strategy;

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
    pub rings: RingSelection,
    /// How all-reduces use links.
    #[serde(default)]
    pub all_reduce: AllReduceLinks,
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

    /// Times `strategy` on the given network, or on the topology for it that gives the shortest step.
    ///
    /// # Errors
    /// As [`candidates`].
    pub(super) fn step<'a>(&self, model: &'a Model, strategy: &Strategy) -> Result<Planned<'a>> {
        let links = match self {
            Self::Direct(links) => links,
            Self::Fixed(network) => {
                let timer = StepTimer::new(model, Arc::clone(network), strategy.clone());
                return Ok(Planned { timer, topology: None, tried: 0 });
            }
        };
        let demand = demand(model, strategy, links.servers);
        let preference = Preference { rings: links.rings, all_reduce: links.all_reduce };
        let topologies = match links.rings {
            RingSelection::Hops => candidates(&demand, links.degree, preference)?,
            RingSelection::MostBytes => vec![find(&demand, links.degree, preference)?],
        };
        let tried = topologies.len() as u64;
        let timed = topologies.into_iter().map(|topology| {
            let network = Arc::new(RoutedLinks::direct(&topology, links.rate, links.latency));
            (StepTimer::new(model, network, strategy.clone()), topology)
        });
        let best = timed.min_by_key(|(timer, _)| timer.time());
        let (timer, topology) = best.expect("there is a topology for every demand");
        Ok(Planned { timer, topology: Some(topology), tried })
    }
}

/// A strategy's timer on its network.
pub(super) struct Planned<'a> {
    /// The timer.
    pub(super) timer: StepTimer<'a>,
    /// The topology, if it was chosen.
    pub(super) topology: Option<Topology>,
    /// Topologies that were tried.
    pub(super) tried: u64,
}
