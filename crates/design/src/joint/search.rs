//! The search: chains that share nothing, and what they find.

use super::chain::{Chain, ChainSettings};
use super::cluster::Cluster;
use super::memory::fitting;
use super::moves::data_parallel;
use super::step::Model;
use crate::topology::Topology;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::Time;
use syncline_workload::operators::Strategy;

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best strategy.
    pub strategy: Strategy,
    /// The topology for it; `None` on a given fabric.
    pub topology: Option<Topology>,
    /// Its time of a step.
    pub time: Time,
    /// The time of data parallelism, from which the search starts, on a network for it.
    pub start: Time,
    /// The improvements of the chain that found it; the first is its start.
    pub trace: Vec<Improvement>,
    /// Proposals over all chains.
    pub proposals: u64,
    /// Proposals that were accepted.
    pub accepted: u64,
    /// Topologies that were tried.
    pub topologies: u64,
}

/// A time that is the best so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Improvement {
    /// Proposals before it.
    pub proposals: u32,
    /// The time of a step.
    pub time: Time,
}

/// How the caller follows a search.
#[derive(Clone, Copy)]
pub struct SearchControl<'a> {
    /// Set to stop the search early; it then fails with `LimitReached`.
    pub cancel: &'a AtomicBool,
    /// Called from time to time with the number of proposals so far, over all chains.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Most threads to use.
    pub threads: usize,
}

/// Proposals between two looks at [`SearchControl`].
pub(super) const LOOK: u32 = 64;

/// Searches for the strategy, and on direct links the topology, with the shortest step.
///
/// A chain starts from data parallelism. Chains 0, 2, 4, ... begin with the best of data parallelism
/// on fewer servers and of operators on alternating servers, improve that as [`greedy`](super::greedy) does, and are
/// colder at first.
///
/// Each chain alternates (topoopt2022 3.2): it changes the strategy on its present topology by FlexFlow's moves, and chooses
/// the topology again when a proposal is the best so far, or after [`ChainSettings::patience`] proposals without one. The new
/// topology is kept if the step is not longer. Chains share nothing, so the result does not depend on the number of
/// threads.
///
/// # Errors
/// A degree that is not possible; servers whose memory is too small for any strategy that was found; `LimitReached` if
/// `control` stops the search.
pub fn search(
    model: &Model,
    cluster: &Cluster,
    settings: ChainSettings,
    control: SearchControl<'_>,
) -> Result<Found> {
    let servers = cluster.servers();
    let first = fitting(model, data_parallel(model, servers, servers), servers)?;
    let chains: Vec<u32> = (0..settings.chains.max(1)).collect();
    let done = AtomicU64::new(0);
    let run = |chain: u32| {
        let mut own = Chain::new(model, cluster, settings, chain, first.clone())?;
        if chain.is_multiple_of(2) {
            own.narrow(control)?;
            own.descend(control)?;
        }
        own.run(control, &done)
    };
    let results: Vec<Result<Found>> = if control.threads <= 1 {
        chains.into_iter().map(run).collect()
    } else {
        let next = AtomicU64::new(0);
        let mut results: Vec<(u32, Result<Found>)> = std::thread::scope(|scope| {
            let worker = || {
                let mut own = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(&chain) = chains.get(at) else { return own };
                    own.push((chain, run(chain)));
                }
            };
            let workers: Vec<_> =
                (0..control.threads.min(chains.len())).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a chain does not panic")).collect()
        });
        results.sort_by_key(|&(chain, _)| chain);
        results.into_iter().map(|(_, result)| result).collect()
    };
    let mut best: Option<Found> = None;
    let (mut proposals, mut accepted, mut topologies) = (0, 0, 0);
    for found in results {
        let found = found?;
        proposals += found.proposals;
        accepted += found.accepted;
        topologies += found.topologies;
        if best.as_ref().is_none_or(|best| found.time < best.time) {
            best = Some(found);
        }
    }
    let best = best.expect("there is a chain");
    Ok(Found { proposals, accepted, topologies, ..best })
}

/// The error of a search that was stopped.
pub(super) fn stop() -> Diagnostics {
    Diagnostic::error(Code::LimitReached, "the search was stopped").into()
}
