//! Simulated annealing over orders, by swaps of two ranks.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use syncline_units::Time;

/// First and last temperature, as fractions of the cost of the start.
const HOT: f64 = 0.2;
const COLD: f64 = 0.0002;

/// Weight of the sum of all exchanges, relative to the cost of the start. Most swaps leave every maximum as it is; the sum
/// then says which way leads down.
const GUIDE: f64 = 0.05;

/// Proposals between two checks of whether to stop.
pub(crate) const CHECK_INTERVAL: u64 = 1024;

/// An order whose cost is known after each swap.
pub(crate) trait Swaps {
    /// The order.
    fn order(&self) -> &[u32];
    /// Swaps the hosts of two ranks.
    fn swap(&mut self, a: u32, b: u32);
    /// What the order costs.
    fn cost(&self) -> Time;
    /// Sum of all exchanges.
    fn sum(&self) -> u128;
}

/// Part of the proposals that come last, and accept no swap that costs more.
const DESCENT: f64 = 0.25;

/// The cheapest order seen in `proposals` swaps; of equally cheap ones, that with the smallest sum. `stop` is asked now and
/// then.
pub(crate) fn anneal(
    mut state: impl Swaps,
    proposals: u64,
    rng: &mut ChaCha8Rng,
    stop: &mut dyn FnMut() -> bool,
) -> Vec<u32> {
    let ranks = state.order().len() as u32;
    let mut best = state.order().to_vec();
    let first = state.cost().0 as f64;
    if ranks < 3 || first == 0.0 {
        return best;
    }
    let guide = GUIDE * first / (state.sum() as f64).max(1.0);
    let energy = |state: &dyn Swaps| state.cost().0 as f64 + guide * state.sum() as f64;
    let mut now = energy(&state);
    let mut least = (state.cost(), state.sum());
    let hot = (proposals as f64 * (1.0 - DESCENT)) as u64;
    let cooling = (COLD / HOT).powf(1.0 / hot.max(1) as f64);
    let mut temperature = HOT * first;
    for proposal in 0..proposals {
        if proposal % CHECK_INTERVAL == 0 && stop() {
            break;
        }
        if proposal == hot {
            put(&mut state, &best);
            temperature = 0.0;
        }
        let a = rng.random_range(0..ranks);
        let b = (a + rng.random_range(1..ranks)) % ranks;
        state.swap(a, b);
        let found = (state.cost(), state.sum());
        let then = energy(&state);
        let accepted = if temperature > 0.0 {
            then <= now || rng.random::<f64>() < ((now - then) / temperature).exp()
        } else {
            found <= least
        };
        if accepted {
            now = then;
            if found < least {
                least = found;
                best.copy_from_slice(state.order());
            }
        } else {
            state.swap(a, b);
        }
        temperature *= cooling;
    }
    best
}

/// Swaps ranks until the order is `wanted`.
fn put(state: &mut impl Swaps, wanted: &[u32]) {
    for (rank, &host) in (0..).zip(wanted) {
        let at = state.order().iter().position(|&other| other == host);
        if let Some(at) = at.filter(|&at| at != rank as usize) {
            state.swap(rank, at as u32);
        }
    }
}
