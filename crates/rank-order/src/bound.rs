//! What no order can go below.

use crate::algorithm::{Algorithm, Model};
use crate::distances::{Distances, Matrix};
use crate::peers::Rounds;
use crate::ring::length;
use crate::trees::Trees;
use syncline_diagnostics::Result;
use syncline_units::{Bytes, Time};

/// Rounds of the subgradient ascent of a ring's bound.
const ASCENT: u32 = 400;
/// Rounds without a better bound after which steps are halved.
const PATIENCE: u32 = 15;

/// A cost that no order goes below.
///
/// - Ring: the bound of Held and Karp (1970), by 1-trees with penalties of hosts.
/// - Halving-doubling and BCube: hosts within a distance form components. Rounds that stay within them join at most as
///   many ranks as the largest one has hosts, so the other rounds have an exchange that is longer.
/// - Double binary tree: some link is as long as the longest one of a bottleneck spanning tree, and every path from the
///   root to a leaf has a least number of others.
///
/// # Errors
/// As [`cost`](crate::cost()).
pub fn lower_bound(algorithm: Algorithm, distances: &Distances, bytes: Bytes) -> Result<Time> {
    Ok(match Model::new(algorithm, distances, bytes)? {
        Model::Ring(matrix) => ring(&matrix),
        Model::Rounds(rounds) => of_rounds(&rounds),
        Model::Trees(trees) => of_trees(&trees),
    })
}

fn ring(matrix: &Matrix) -> Time {
    let size = matrix.hosts() as usize;
    if size < 4 {
        // All orders are the same ring.
        let order: Vec<u32> = (0..matrix.hosts()).collect();
        return length(matrix, &order);
    }
    let mut penalty = vec![0.0f64; size];
    let mut best = 0.0f64;
    let mut step = 0.0;
    let mut waiting = 0;
    for round in 0..ASCENT {
        let (weight, degree) = one_tree(matrix, &penalty);
        let value = weight - 2.0 * penalty.iter().sum::<f64>();
        if round == 0 {
            step = value / (2.0 * size as f64);
        }
        if value > best {
            (best, waiting) = (value, 0);
        } else {
            waiting += 1;
            if waiting == PATIENCE {
                (step, waiting) = (step / 2.0, 0);
            }
        }
        if degree.iter().all(|&degree| degree == 2) {
            break;
        }
        for (penalty, &degree) in penalty.iter_mut().zip(&degree) {
            *penalty += step * (f64::from(degree) - 2.0);
        }
    }
    // Sums of floating-point numbers are off by far less than this.
    Time((best * (1.0 - 1e-9)).max(0.0) as u64)
}

/// The weight of the lightest 1-tree under penalties, and the links of each host in it.
fn one_tree(matrix: &Matrix, penalty: &[f64]) -> (f64, Vec<u32>) {
    let size = penalty.len();
    let weight = |a: usize, b: usize| matrix.between(a as u32, b as u32).0 as f64 + penalty[a] + penalty[b];
    let mut degree = vec![0u32; size];
    let mut sum = 0.0;
    // A spanning tree of all but host 0 (Prim).
    let mut joined = vec![false; size];
    let mut link = vec![(f64::INFINITY, 1); size];
    let mut next = 1;
    for _ in 2..size {
        joined[next] = true;
        let row = matrix.row(next as u32);
        let mut nearest = 0;
        for other in 1..size {
            if joined[other] {
                continue;
            }
            let to = row[other].0 as f64 + penalty[next] + penalty[other];
            if to < link[other].0 {
                link[other] = (to, next);
            }
            if nearest == 0 || link[other].0 < link[nearest].0 {
                nearest = other;
            }
        }
        sum += link[nearest].0;
        degree[nearest] += 1;
        degree[link[nearest].1] += 1;
        next = nearest;
    }
    // The two lightest links of host 0.
    let mut others: Vec<usize> = (1..size).collect();
    others.select_nth_unstable_by(1, |&a, &b| weight(0, a).total_cmp(&weight(0, b)));
    for &other in &others[..2] {
        sum += weight(0, other);
        degree[other] += 1;
        degree[0] += 1;
    }
    (sum, degree)
}

/// For each size of a component, the least time at which hosts within that time form a component of at least this size:
/// entry `s` is for `s` hosts.
fn component_times(matrix: &Matrix) -> Vec<Time> {
    let size = matrix.hosts();
    let mut pairs: Vec<(Time, u32, u32)> = (0..size)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .map(|(a, b)| (matrix.between(a, b), a, b))
        .collect();
    pairs.sort_unstable();
    let mut parent: Vec<u32> = (0..size).collect();
    let mut count = vec![1usize; size as usize];
    let mut times = vec![Time(0); 2];
    for (time, a, b) in pairs {
        let roots = [a, b].map(|host| {
            let mut root = host;
            while parent[root as usize] != root {
                parent[root as usize] = parent[parent[root as usize] as usize];
                root = parent[root as usize];
            }
            root
        });
        if roots[0] != roots[1] {
            parent[roots[0] as usize] = roots[1];
            count[roots[1] as usize] += count[roots[0] as usize];
            let largest = count[roots[1] as usize];
            times.resize(times.len().max(largest + 1), time);
        }
    }
    times
}

fn of_rounds(rounds: &Rounds) -> Time {
    let Some(distance) = rounds.matrices.last() else { return Time(0) };
    let times = component_times(distance);
    let count = rounds.matrices.len();
    // At least `number` rounds have a link as long as `longest[number - 1]`, by the distances of the last round.
    let longest: Vec<Time> =
        (1..=count).map(|number| times[rounds.base().pow((count - number + 1) as u32) as usize]).collect();
    // The least time of each round that has such a link.
    let least = |matrix: &Matrix, from: Time| {
        let pairs = (0..matrix.hosts()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let far = pairs.filter(|&(a, b)| distance.between(a, b) >= from);
        far.map(|(a, b)| matrix.between(a, b)).min().unwrap_or_default()
    };
    let costs: Vec<Vec<Time>> = rounds
        .matrices
        .iter()
        .map(|matrix| longest.iter().map(|&from| least(matrix, from)).collect())
        .collect();
    // The cheapest way to give the rounds these links: rounds of the set have the first of them.
    let mut cheapest = vec![Time(u64::MAX); 1 << count];
    cheapest[0] = Time(0);
    for set in 0..1usize << count {
        let number = set.count_ones() as usize;
        for round in (0..count).filter(|round| set >> round & 1 == 0) {
            let with = Time(cheapest[set].0.saturating_add(costs[round][number].0));
            let more = &mut cheapest[set | 1 << round];
            *more = with.min(*more);
        }
    }
    cheapest[(1 << count) - 1]
}

fn of_trees(trees: &Trees) -> Time {
    let size = trees.matrix.hosts();
    if size < 2 {
        return Time(0);
    }
    let longest = component_times(&trees.matrix)[size as usize];
    let pairs = (0..size).flat_map(|a| (0..a).map(move |b| (a, b)));
    let least = pairs.map(|(a, b)| trees.matrix.between(a, b)).min().unwrap_or_default();
    // Every place with fewer than two children is at least this deep.
    let depth = (size + 1).ilog2() - 1;
    Time(longest.0 + least.0 * u64::from(depth.saturating_sub(1)))
}
