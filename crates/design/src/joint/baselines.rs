//! Deterministic baselines of the search: operator by operator, and every strategy.

use super::cluster::{Cluster, Planned};
use super::found::{CHECK_INTERVAL, Found, Improvement, SearchControl, stop};
use super::memory::{Memory, fitting};
use super::moves::{data_parallel, place, starts};
use super::step::{Model, StepTimer};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_workload::operators::{Operator, Placed};

/// Improves data parallelism on one network operator by operator, each by its best division on the servers of its
/// neighbours, those from server 0, or those with the most free memory, until nothing improves. Deterministic.
///
/// # Errors
/// As [`search`](super::search()).
pub fn greedy(model: &Model, cluster: &Cluster, control: SearchControl<'_>) -> Result<Found> {
    let servers = cluster.servers();
    let first = fitting(model, data_parallel(model, servers, servers), servers)?;
    let Planned { mut timer, topology, tried } = cluster.step(model, &first)?;
    let mut memory = Memory::new(model, &first, servers);
    let mut found = Found::start(first, topology, timer.time(), tried);
    let Descended { proposals, accepted } =
        descend(model, &mut timer, &mut memory, u64::MAX, control, |improved| found.trace.push(improved));
    if control.stopped() {
        return Err(stop());
    }
    let (strategy, time) = (timer.strategy().clone(), timer.time());
    Ok(Found { strategy, time, proposals, accepted, ..found })
}

/// What [`descend`] did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descended {
    /// Proposals made.
    pub(super) proposals: u64,
    /// Proposals accepted.
    pub(super) accepted: u64,
}

/// Takes the best of [`worth_trying`] for one operator after the other, until nothing improves, `most` proposals are made or
/// the caller stops the search. `memory` is that of the timer's strategy. Calls `improved` with each improvement.
pub(super) fn descend(
    model: &Model,
    timer: &mut StepTimer<'_>,
    memory: &mut Memory<'_>,
    most: u64,
    control: SearchControl<'_>,
    mut improved: impl FnMut(Improvement),
) -> Descended {
    let servers = timer.network().servers();
    let (mut proposals, mut accepted) = (0, 0);
    loop {
        let before = timer.time();
        for operator in 0..model.graph.operators.len() {
            for placed in worth_trying(model, timer, operator, servers) {
                if proposals == most || control.stopped() {
                    return Descended { proposals, accepted };
                }
                let change = [(operator, placed)];
                if !memory.fits(timer.strategy(), &change) {
                    continue;
                }
                proposals += 1;
                let best = timer.time();
                if timer.propose(change.clone()) < best {
                    memory.change(timer.replaced(), &change);
                    timer.accept();
                    accepted += 1;
                    let proposals = u32::try_from(proposals).unwrap_or(u32::MAX);
                    improved(Improvement { proposals, time: timer.time() });
                } else {
                    timer.reject();
                }
            }
        }
        if timer.time() == before {
            return Descended { proposals, accepted };
        }
    }
}

/// Divisions of an operator on the servers where its neighbours start, on those from server 0, and on those from the
/// server with the least memory in use.
fn worth_trying(model: &Model, timer: &StepTimer<'_>, operator: usize, servers: u32) -> Vec<Placed> {
    let strategy = timer.strategy();
    let mut from: Vec<u32> =
        model.neighbours(operator).map(|(other, _)| strategy.placed[other].servers[0]).collect();
    let used = strategy.memory(&model.graph, servers);
    let emptiest = (0..servers).min_by_key(|&server| used[server as usize]);
    from.extend([0].into_iter().chain(emptiest));
    from.sort_unstable();
    from.dedup();
    let choices = model.graph.operators[operator].choices.iter().enumerate();
    let placed = choices.flat_map(|(number, choice)| {
        from.iter()
            .map(move |&start| Placed { choice: number as u32, servers: place(choice, start, servers) })
    });
    placed.collect()
}

/// Most strategies that [`exhaustive`] tries.
pub const MAX_STRATEGIES: u64 = 1 << 24;

/// Tries every strategy with placements by [`place`] on one network: that of data parallelism.
///
/// # Errors
/// `BadValue` if there are more than [`MAX_STRATEGIES`]; as [`search`](super::search()).
pub fn exhaustive(model: &Model, cluster: &Cluster, control: SearchControl<'_>) -> Result<Found> {
    let servers = cluster.servers();
    let of = |operator: &Operator| -> Vec<Placed> {
        let choices = operator.choices.iter().enumerate();
        let placed = choices.flat_map(|(number, choice)| {
            (0..starts(choice, servers))
                .map(move |start| Placed { choice: number as u32, servers: place(choice, start, servers) })
        });
        placed.collect()
    };
    let all: Vec<Vec<Placed>> = model.graph.operators.iter().map(of).collect();
    let count = all.iter().fold(1u64, |count, placed| count.saturating_mul(placed.len() as u64));
    if count > MAX_STRATEGIES {
        return Err(Diagnostic::error(Code::BadValue, "there are too many strategies to try them all")
            .key("search")
            .found(if count == u64::MAX { "more than 2^64".to_owned() } else { count.to_string() })
            .allowed(format!("at most {MAX_STRATEGIES}"))
            .help("set `search.method: chains`, or use fewer operators or servers")
            .into());
    }
    let first = fitting(model, data_parallel(model, servers, servers), servers)?;
    let Planned { mut timer, topology, tried: topologies } = cluster.step(model, &first)?;
    let mut found = Found::start(first, topology, timer.time(), topologies);
    let mut tried = 0u64;
    let mut number = vec![0; all.len()];
    timer.propose(all.iter().map(|placed| placed[0].clone()).enumerate());
    timer.accept();
    loop {
        if timer.time() < found.time && timer.strategy().check(&model.graph, servers).is_ok() {
            (found.time, found.strategy) = (timer.time(), timer.strategy().clone());
        }
        // The next strategy in order: the last operator changes most often, so that sweeps are short.
        let mut changes = Vec::new();
        for operator in (0..all.len()).rev() {
            number[operator] = (number[operator] + 1) % all[operator].len();
            if all[operator].len() > 1 {
                changes.push((operator, all[operator][number[operator]].clone()));
            }
            if number[operator] != 0 {
                break;
            }
        }
        if number.iter().all(|&at| at == 0) {
            break;
        }
        tried += 1;
        if tried.is_multiple_of(u64::from(CHECK_INTERVAL)) {
            (control.progress)(tried);
            if control.stopped() {
                return Err(stop());
            }
        }
        timer.propose(changes);
        timer.accept();
    }
    let last = u32::try_from(count).unwrap_or(u32::MAX);
    found.trace.push(Improvement { proposals: last, time: found.time });
    Ok(Found { proposals: count, ..found })
}
