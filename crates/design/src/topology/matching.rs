//! Links for transfers that rings do not serve (topoopt2022 3.3, step 3).

use super::demand::Transfers;
use integer_blossom::max_weight_matching;

/// With more servers, only the heaviest pairs of each one are considered: the time grows with the cube of their number.
const ALL_PAIRS: usize = 256;

/// Number of the heaviest pairs of a server, where not all are considered.
const HEAVIEST: usize = 16;

/// Largest weight that is given to the solver; larger demands are scaled.
const LARGEST: u64 = 1 << 40;

/// Pairs of servers, each server in at most one, whose transfers in both directions have the largest sum.
///
/// Considers only servers that are `free`. The bytes from one server to another are halved for each link between them
/// (topoopt2022 Algorithm 1, line 18, and Equation 2). Pairs without bytes are not matched. The maximum-weight matching
/// is found by Edmonds' blossom algorithm.
pub(super) fn matching(
    transfers: &Transfers,
    free: impl Fn(u32) -> bool,
    links: impl Fn(u32, u32) -> u32,
) -> Vec<(u32, u32)> {
    let servers: Vec<u32> = (0..transfers.servers()).filter(|&server| free(server)).collect();
    let n = servers.len();
    // Each direction is halved for its own links.
    let one_way = |a: u32, b: u32| transfers.bytes(a, b).checked_shr(links(a, b)).unwrap_or(0);
    let mut weights = vec![0u64; n * n];
    let mut largest = 0;
    for (i, &a) in servers.iter().enumerate() {
        for (j, &b) in servers.iter().enumerate().take(i) {
            let weight = one_way(a, b).saturating_add(one_way(b, a));
            largest = largest.max(weight);
            (weights[i * n + j], weights[j * n + i]) = (weight, weight);
        }
    }
    if largest == 0 {
        return Vec::new();
    }
    if n > ALL_PAIRS {
        keep_heaviest(&mut weights, n);
    }
    // A demand that is not 0 stays above 0.
    let scale = largest.div_ceil(LARGEST);
    let weights: Vec<i64> = weights.iter().map(|weight| weight.div_ceil(scale) as i64).collect();
    let mates = max_weight_matching(&weights, n);
    let mates = mates.iter().enumerate().filter_map(|(i, mate)| mate.map(|j| (i, j)));
    mates.filter(|&(i, j)| i < j && weights[i * n + j] > 0).map(|(i, j)| (servers[i], servers[j])).collect()
}

/// Sets the weight of every pair to 0 that is not among the [`HEAVIEST`] of either of its servers. Of equal weights, prefers
/// the pairs of servers that are next to each other in number.
fn keep_heaviest(weights: &mut [u64], n: usize) {
    let mut kept = vec![false; n * n];
    for i in 0..n {
        let mut mates: Vec<usize> = (0..n).filter(|&j| weights[i * n + j] > 0).collect();
        mates.sort_by_key(|&j| (std::cmp::Reverse(weights[i * n + j]), (j + n - i) % n));
        for &j in mates.iter().take(HEAVIEST) {
            (kept[i * n + j], kept[j * n + i]) = (true, true);
        }
    }
    for (weight, kept) in weights.iter_mut().zip(kept) {
        if !kept {
            *weight = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest sum over all ways to pair servers, by brute force.
    fn best(weights: &[Vec<u64>], left: &[usize]) -> u64 {
        let Some((&first, rest)) = left.split_first() else { return 0 };
        let alone = best(weights, rest);
        rest.iter().fold(alone, |most, &mate| {
            let others: Vec<usize> = rest.iter().copied().filter(|&other| other != mate).collect();
            most.max(weights[first][mate] + best(weights, &others))
        })
    }

    proptest! {
        #[test]
        fn no_pairing_is_heavier(bytes in prop::collection::vec(0u64..1000, 64), linked in 0u32..8) {
            let mut transfers = Transfers::new(8);
            for from in 0..8u32 {
                for to in 0..8 {
                    transfers.add(from, to, bytes[(from * 8 + to) as usize] << 30);
                }
            }
            let links = |a: u32, _: u32| u32::from(a == linked);
            let weight = |a: u32, b: u32| {
                (transfers.bytes(a, b) >> links(a, b)) + (transfers.bytes(b, a) >> links(b, a))
            };
            let found = matching(&transfers, |server| server != 3, links);
            let mut seen = [false; 8];
            for &(a, b) in &found {
                prop_assert!(a != 3 && b != 3);
                prop_assert!(!std::mem::replace(&mut seen[a as usize], true));
                prop_assert!(!std::mem::replace(&mut seen[b as usize], true));
            }
            let sum: u64 = found.iter().map(|&(a, b)| weight(a, b)).sum();
            let weights: Vec<Vec<u64>> = (0..8).map(|a| (0..8).map(|b| weight(a, b)).collect()).collect();
            let others: Vec<usize> = (0..8).filter(|&server| server != 3).collect();
            prop_assert_eq!(sum, best(&weights, &others));
        }
    }
}
