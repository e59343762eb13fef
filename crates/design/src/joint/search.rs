//! The search: chains that share nothing, and what they find.

use super::chain::{Chain, ChainSettings};
use super::cluster::Cluster;
use super::memory::fitting;
use super::moves::data_parallel;
use super::step::Model;
use crate::topology::Topology;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
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
    /// What the other chains found, the fastest first, without what is equal.
    pub runners_up: Vec<Found>,
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
    in_chains(settings.chains.max(1), control, |chain, done| {
        let mut own = Chain::new(model, cluster, settings, chain, first.clone())?;
        if chain.is_multiple_of(2) {
            own.narrow(control)?;
            own.descend(control)?;
        }
        own.run(control, done)
    })
}

/// Searches like [`search`] from strategies that were found on other networks: with one chain from each of those with the
/// shortest steps on this network, as many as [`ChainSettings::chains`] says. They are improved as
/// [`greedy`](super::greedy) does first.
///
/// # Errors
/// As [`search`]; strategies that do not fit the model or the memory, or none.
pub fn improve(
    model: &Model,
    cluster: &Cluster,
    settings: ChainSettings,
    from: &[Strategy],
    control: SearchControl<'_>,
) -> Result<Found> {
    if from.is_empty() {
        return Err(Diagnostic::error(Code::BadValue, "there is no strategy to improve").into());
    }
    from.iter().try_for_each(|strategy| strategy.check(&model.graph, cluster.servers()))?;
    let timed = from.iter().map(|strategy| Ok((cluster.step(model, strategy)?.timer.time(), strategy)));
    let mut timed = timed.collect::<Result<Vec<_>>>()?;
    // Stable: of equal times, the first strategy counts.
    timed.sort_by_key(|&(time, _)| time);
    let chains = settings.chains.max(1).min(timed.len() as u32);
    in_chains(chains, control, |chain, done| {
        let (_, strategy) = timed[chain as usize];
        let mut own = Chain::new(model, cluster, settings, chain, strategy.clone())?;
        own.descend(control)?;
        own.run(control, done)
    })
}

/// Runs chains on several threads; the result is that of the best chain, with the counts of all.
fn in_chains(
    chains: u32,
    control: SearchControl<'_>,
    run: impl Fn(u32, &AtomicU64) -> Result<Found> + Sync,
) -> Result<Found> {
    let done = AtomicU64::new(0);
    let results: Vec<Result<Found>> = if control.threads <= 1 {
        (0..chains).map(|chain| run(chain, &done)).collect()
    } else {
        let next = AtomicU32::new(0);
        let mut results: Vec<(u32, Result<Found>)> = std::thread::scope(|scope| {
            let worker = || {
                let mut own = Vec::new();
                loop {
                    let chain = next.fetch_add(1, Ordering::Relaxed);
                    if chain >= chains {
                        return own;
                    }
                    own.push((chain, run(chain, &done)));
                }
            };
            let workers: Vec<_> =
                (0..control.threads.min(chains as usize)).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a chain does not panic")).collect()
        });
        results.sort_by_key(|&(chain, _)| chain);
        results.into_iter().map(|(_, result)| result).collect()
    };
    let mut found = results.into_iter().collect::<Result<Vec<Found>>>()?;
    let sum = |count: fn(&Found) -> u64| found.iter().map(count).sum();
    let (proposals, accepted, topologies) =
        (sum(|each| each.proposals), sum(|each| each.accepted), sum(|each| each.topologies));
    // Stable: of equal times, the chain with the lowest number is first.
    found.sort_by_key(|each| each.time);
    found.dedup_by(|later, earlier| later.strategy == earlier.strategy && later.topology == earlier.topology);
    let best = found.remove(0);
    Ok(Found { proposals, accepted, topologies, runners_up: found, ..best })
}

/// The error of a search that was stopped.
pub(super) fn stop() -> Diagnostics {
    Diagnostic::error(Code::LimitReached, "the search was stopped").into()
}
