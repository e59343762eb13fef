//! An order in which hosts that are close to each other have neighbouring ranks: where both searches start.

use crate::distances::Matrix;
use syncline_units::Time;

/// The leaves of the tree in which the closest groups are joined first, from left to right (average linkage).
///
/// When two groups are joined, the second one is turned so that the ends that meet are the closer ones.
pub(crate) fn by_closeness(matrix: &Matrix) -> Vec<u32> {
    let size = matrix.hosts() as usize;
    let mut groups: Vec<Option<Vec<u32>>> = (0..size as u32).map(|host| Some(vec![host])).collect();
    let mut distance: Vec<Vec<f64>> =
        (0..size).map(|a| matrix.row(a as u32).iter().map(|time| time.0 as f64).collect()).collect();
    // Nearest-neighbour chains (Murtagh 1983): with average linkage, two groups that are each other's nearest stay so until
    // they are joined, so N^2 steps suffice.
    let mut chain: Vec<usize> = Vec::new();
    let mut left = size;
    let mut last = 0;
    while left > 1 {
        if chain.is_empty() {
            chain.extend((0..size).find(|&at| groups[at].is_some()));
        }
        let Some(&top) = chain.last() else { break };
        let previous = chain.len().checked_sub(2).map(|at| chain[at]);
        let mut nearest: Option<usize> = previous;
        for other in (0..size).filter(|&other| other != top && groups[other].is_some()) {
            if nearest.is_none_or(|best| distance[top][other] < distance[top][best]) {
                nearest = Some(other);
            }
        }
        let Some(nearest) = nearest else { break };
        if Some(nearest) != previous {
            chain.push(nearest);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (kept, gone) = (top.min(nearest), top.max(nearest));
        let (Some(first), Some(second)) = (groups[kept].take(), groups[gone].take()) else { break };
        let weight = (first.len() as f64, second.len() as f64);
        for other in (0..size).filter(|&other| groups[other].is_some()) {
            let mean =
                (distance[kept][other] * weight.0 + distance[gone][other] * weight.1) / (weight.0 + weight.1);
            distance[kept][other] = mean;
            distance[other][kept] = mean;
        }
        groups[kept] = Some(joined(matrix, first, second));
        left -= 1;
        last = kept;
    }
    groups[last].take().unwrap_or_default()
}

/// Two sequences one behind the other, each turned so that the gap between them is shortest.
fn joined(matrix: &Matrix, mut first: Vec<u32>, mut second: Vec<u32>) -> Vec<u32> {
    let gap = |a: Option<&u32>, b: Option<&u32>| match (a, b) {
        (Some(&a), Some(&b)) => matrix.between(a, b),
        _ => Time(0),
    };
    let gaps = [
        gap(first.last(), second.first()),
        gap(first.last(), second.last()),
        gap(first.first(), second.first()),
        gap(first.first(), second.last()),
    ];
    let least = (0..4).min_by_key(|&at| gaps[at]).unwrap_or_default();
    if least >= 2 {
        first.reverse();
    }
    if least % 2 == 1 {
        second.reverse();
    }
    first.extend(second);
    first
}
