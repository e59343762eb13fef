//! Changes of a strategy that a search proposes (those of FlexFlow's released code).

use super::step::Model;
use rand::RngExt;
use syncline_workload::operators::{Choice, Placed, Strategy};

/// Probability that a move propagates the division of an operator instead of drawing a new one.
const PROPAGATE: f64 = 0.25;
/// Probability that a propagation continues with a further operator.
const CONTINUE: f64 = 0.75;

/// Servers for an operator's parts, from `start`, wrapping around: evenly spaced if the number of parts divides the number
/// of servers, otherwise consecutive.
pub fn place(choice: &Choice, start: u32, servers: u32) -> Vec<u32> {
    let parts = choice.parts();
    let stride = if servers.is_multiple_of(parts) { servers / parts } else { 1 };
    (0..parts).map(|part| (start + part * stride) % servers).collect()
}

/// Number of different placements by [`place`].
pub fn starts(choice: &Choice, servers: u32) -> u32 {
    let parts = choice.parts();
    // Turning a placement onto itself only renumbers its parts.
    if servers.is_multiple_of(parts) { servers / parts } else { servers }
}

/// Data parallelism on `width` of the servers, from server 0: every operator is divided by samples into as many parts as
/// possible. Operators that cannot be divided are spread evenly over these servers.
pub fn data_parallel(model: &Model, servers: u32, width: u32) -> Strategy {
    let operators = &model.graph.operators;
    let widest = |choices: &[Choice]| {
        let fits = |at: &usize| choices[*at].parts() <= width;
        let by = |at: &usize| (choices[*at].samples, std::cmp::Reverse(choices[*at].parameters));
        let narrowest = || (0..choices.len()).min_by_key(|&at| choices[at].parts());
        (0..choices.len()).filter(fits).max_by_key(by).or_else(narrowest).unwrap_or(0)
    };
    let alone = |at: &usize| operators[*at].choices[widest(&operators[*at].choices)].parts() == 1;
    let all_alone = (0..operators.len()).filter(alone).count() as u64;
    let mut seen = 0;
    let placed = (0..operators.len()).map(|at| {
        let choice = widest(&operators[at].choices);
        let parts = operators[at].choices[choice].parts();
        let first = if parts == 1 {
            seen += 1;
            ((seen - 1) * u64::from(width) / all_alone) as u32
        } else {
            0
        };
        let stride = (width / parts).max(1);
        let on = (0..parts).map(|part| (first + part * stride) % servers).collect();
        Placed { choice: choice as u32, servers: on }
    });
    Strategy { placed: placed.collect() }
}

/// Operators on alternating servers: each is divided by samples into as many parts as possible up to `width`, on evenly
/// spaced servers, and starts one server after the operator before it. So each server holds and reduces the parameters of
/// only some operators.
pub fn alternating(model: &Model, servers: u32, width: u32) -> Strategy {
    let mut strategy = data_parallel(model, servers, width);
    for (at, placed) in strategy.placed.iter_mut().enumerate() {
        let choice = &model.graph.operators[at].choices[placed.choice as usize];
        if choice.parts() > 1 {
            placed.servers = place(choice, at as u32 % starts(choice, servers), servers);
        }
    }
    strategy
}

/// Draws a move: the operators that change, and their new divisions and servers.
pub fn draw(model: &Model, strategy: &Strategy, servers: u32, rng: &mut impl RngExt) -> Vec<(usize, Placed)> {
    let operators = &model.graph.operators;
    if operators.len() > 1 && rng.random_bool(PROPAGATE) {
        let moved = propagate(model, strategy, rng);
        if !moved.is_empty() {
            return moved;
        }
    }
    let operator = rng.random_range(0..operators.len());
    let choices = &operators[operator].choices;
    let choice = rng.random_range(0..choices.len());
    let start = rng.random_range(0..servers);
    vec![(operator, Placed { choice: choice as u32, servers: place(&choices[choice], start, servers) })]
}

/// Gives the division and servers of a random operator to a neighbour, and so on from neighbour to neighbour. Neighbours
/// with larger tensors between them are drawn more often.
fn propagate(model: &Model, strategy: &Strategy, rng: &mut impl RngExt) -> Vec<(usize, Placed)> {
    let operators = &model.graph.operators;
    let mut at = rng.random_range(0..operators.len());
    let (split, servers) = (strategy.split(&model.graph, at), strategy.placed[at].servers.clone());
    let mut moved: Vec<(usize, Placed)> = Vec::new();
    let mut seen = vec![at];
    loop {
        let neighbours: Vec<(usize, u64)> = model
            .neighbours(at)
            .filter(|(other, _)| !seen.contains(other))
            .map(|(other, bytes)| (other, bytes.max(1)))
            .collect();
        let total = neighbours.iter().fold(0u64, |sum, &(_, bytes)| sum.saturating_add(bytes));
        if total == 0 {
            return moved;
        }
        let mut drawn = rng.random_range(0..total);
        let next = neighbours.iter().find(|&&(_, bytes)| {
            let here = drawn < bytes;
            drawn = drawn.saturating_sub(bytes);
            here
        });
        let Some(&(next, _)) = next else { return moved };
        seen.push(next);
        let same = |choice: &Choice| (choice.samples, choice.parameters) == (split.samples, split.parameters);
        let Some(choice) = operators[next].choices.iter().position(same) else { return moved };
        let placed = Placed { choice: choice as u32, servers: servers.clone() };
        if strategy.placed[next] != placed {
            moved.push((next, placed));
        }
        if !rng.random_bool(CONTINUE) {
            return moved;
        }
        at = next;
    }
}
