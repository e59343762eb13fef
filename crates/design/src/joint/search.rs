//! The search: chains that share nothing.

use super::chain::{Chain, ChainSettings};
use super::cluster::Cluster;
use super::found::{Found, SearchControl};
use super::memory::fitting;
use super::moves::data_parallel;
use super::step::Model;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_workload::operators::Strategy;

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
