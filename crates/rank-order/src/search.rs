//! The search for a cheap order.

use crate::algorithm::{Algorithm, Model, check};
use crate::anneal::{CHECK_INTERVAL, anneal};
use crate::bound::lower_bound;
use crate::dendrogram::by_closeness;
use crate::distances::Distances;
use crate::peers::RoundsState;
use crate::ring::shorten;
use crate::trees::TreesState;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use syncline_diagnostics::Result;
use syncline_units::{Bytes, Time};

/// Proposals for a ring between two checks of whether to stop.
const RING_INTERVAL: u64 = 16;

/// How much a search tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Proposals of each chain: swaps of two ranks, or for rings random exchanges that are then improved locally.
    pub proposals: u64,
    /// Chains, each with its own random numbers. Of four, three start from close hosts side by side, and one from a random
    /// order.
    pub chains: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The host of each rank.
    pub order: Vec<u32>,
    /// What it costs.
    pub cost: Time,
    /// What the order costs from which the search started.
    pub before: Time,
    /// What no order goes below.
    pub bound: Time,
}

/// Searches for the order in which an all-reduce of `bytes` costs least. It never costs more than `start`.
///
/// Rank 0 stays on its host where the algorithm is symmetric, which are all but the double binary tree. `progress` is
/// called now and then with the number of proposals so far, from one thread; the search ends early if it returns false.
///
/// # Errors
/// As [`cost`](crate::cost()).
pub fn search(
    algorithm: Algorithm,
    distances: &Distances,
    bytes: Bytes,
    start: &[u32],
    effort: Effort,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Found> {
    check(distances, start)?;
    let model = Model::new(algorithm, distances, bytes)?;
    let bound = lower_bound(algorithm, distances, bytes)?;
    let close = by_closeness(&distances.of(bytes));
    let (stopped, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let chains = effort.chains.max(1);
    let one = |chain: u32, report: &mut dyn FnMut(u64) -> bool| {
        let mut rng = ChaCha8Rng::seed_from_u64(effort.seed);
        rng.set_stream(u64::from(chain));
        let mut first = close.clone();
        if chain % 4 == 3 {
            first.shuffle(&mut rng);
        }
        let mut asked = 0;
        // A proposal for a ring takes as long as many swaps.
        let (each, interval) = if matches!(model, Model::Ring(_)) {
            (1, RING_INTERVAL)
        } else {
            (CHECK_INTERVAL, CHECK_INTERVAL)
        };
        let mut stop = || {
            let total = done.fetch_add(each, Ordering::Relaxed);
            asked += 1;
            if (asked * each) % interval == 0 && !report(total) {
                stopped.store(true, Ordering::Relaxed);
            }
            stopped.load(Ordering::Relaxed)
        };
        match &model {
            Model::Ring(matrix) => shorten(matrix, first, effort.proposals, &mut rng, &mut stop),
            Model::Rounds(rounds) => {
                anneal(RoundsState::new(rounds, first), effort.proposals, &mut rng, &mut stop)
            }
            Model::Trees(trees) => {
                anneal(TreesState::new(trees, first), effort.proposals, &mut rng, &mut stop)
            }
        }
    };
    // Of equally cheap orders, the given one, and then that of the first chain.
    let mut orders = vec![start.to_vec()];
    std::thread::scope(|scope| {
        let one = &one;
        let others: Vec<_> =
            (1..chains).map(|chain| scope.spawn(move || one(chain, &mut |_| true))).collect();
        orders.push(one(0, progress));
        let ends = others.into_iter().map(std::thread::ScopedJoinHandle::join);
        orders.extend(ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
    });
    let before = model.cost(start);
    let order = orders.into_iter().min_by_key(|order| model.cost(order)).unwrap_or_default();
    let order = with_first(algorithm, order, start.first().copied().unwrap_or_default());
    Ok(Found { cost: model.cost(&order), order, before, bound })
}

/// The same order, turned so that `host` has rank 0, if that does not change the cost.
fn with_first(algorithm: Algorithm, mut order: Vec<u32>, host: u32) -> Vec<u32> {
    let Some(at) = order.iter().position(|&other| other == host) else { return order };
    let base = match algorithm {
        Algorithm::DoubleBinaryTree => return order,
        Algorithm::Ring => {
            order.rotate_left(at);
            // Both directions are the same ring.
            if order.len() > 2 && order[1] > order[order.len() - 1] {
                order[1..].reverse();
            }
            return order;
        }
        Algorithm::HalvingDoubling => 2,
        Algorithm::Bcube { base } => base.get() as usize,
    };
    // Adding a number digit by digit keeps all groups.
    let add = |mut rank: usize| {
        let (mut more, mut stride, mut sum) = (at, 1, 0);
        while stride < order.len() {
            sum += (rank + more) % base * stride;
            (rank, more, stride) = (rank / base, more / base, stride * base);
        }
        sum
    };
    (0..order.len()).map(|rank| order[add(rank)]).collect()
}
