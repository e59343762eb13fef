//! Rings through the servers of an all-reduce group (topoopt2022 3.3, Algorithms 2 and 4).

use super::coins::CoinChange;
use super::demand::Transfers;
use super::links::{AllReduceLinks, group_links};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use syncline_units::gcd;

/// Above this number of members, only prime strides and 1 are considered (topoopt2022 3.3).
const PRIMES_ONLY: u32 = 1 << 12;

/// TotientPerms (topoopt2022 Algorithm 2): the strides of all regular rings through `members` servers, which are the
/// numbers below `members` that are coprime with it; ascending. Empty for a single member.
///
/// In the ring with stride `p`, member `i` sends to member `i + p` modulo `members` (Theorem 1).
pub fn totient_perms(members: u32) -> Vec<u32> {
    let is_prime = |stride: u32| stride == 1 || (2..=stride.isqrt()).all(|by| !stride.is_multiple_of(by));
    (1..members)
        .filter(|&stride| {
            gcd(stride.into(), members.into()) == 1 && (members <= PRIMES_ONLY || is_prime(stride))
        })
        .collect()
}

/// How rings are selected for the transfers outside all-reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RingSelection {
    /// One ring after the other, each the one with which transfers need the fewest bytes times links along the rings
    /// selected so far.
    #[default]
    Hops,
    /// As the paper: the proposal whose links serve the most bytes directly, where a proposal is a ring and others evenly
    /// spaced behind it in the list. Evenly spaced strides leave some servers far apart: the rings 1, 129, 257 and so
    /// on of 1,024 servers reach the farthest one over 128 links.
    #[serde(rename = "direct")]
    MostBytes,
}

/// TopPermutations (topoopt2022 Algorithm 4): selects `count` of the rings through `members` that suit the transfers.
///
/// Among equally good rings, prefers those with the shortest mean distance between members. If there are fewer rings than
/// `count`, some are selected several times. Ascending; empty if `count` is 0 or there is no ring.
pub fn top_permutations(
    members: &[u32],
    count: u32,
    transfers: &Transfers,
    selection: RingSelection,
) -> Vec<u32> {
    let size = members.len() as u32;
    let strides = totient_perms(size);
    if count == 0 || strides.is_empty() {
        return Vec::new();
    }
    let demand = by_distance(members, transfers);
    let mut chosen = match selection {
        RingSelection::Hops => fewest_hops(size, &strides, count, &demand),
        RingSelection::MostBytes => most_direct(size, &strides, count, &demand),
    };
    chosen.sort_unstable();
    chosen
}

/// Selects `count` of the pairs of trees through `members` (topoopt2022 Appendix A): one after the other, the one whose links
/// serve the most bytes directly that no link serves yet, and of equal ones the one with the smallest stride.
///
/// If there are fewer strides than `count`, some are selected several times. Ascending.
pub fn top_trees(members: &[u32], count: u32, transfers: &Transfers) -> Vec<u32> {
    let strides = totient_perms(members.len() as u32);
    if strides.is_empty() {
        return Vec::new();
    }
    let mut chosen: Vec<u32> = Vec::new();
    let mut joined: BTreeSet<(u32, u32)> = BTreeSet::new();
    for number in 0..count as usize {
        let unused = strides.iter().filter(|stride| !chosen.contains(stride));
        let served = |stride: u32| -> u64 {
            let links: BTreeSet<(u32, u32)> =
                group_links(members, AllReduceLinks::DoubleBinaryTrees, &[stride]).into_iter().collect();
            links
                .iter()
                .filter(|link| !joined.contains(link))
                .fold(0, |sum, &(from, to)| sum.saturating_add(transfers.bytes(from, to)))
        };
        let next = unused.copied().min_by_key(|&stride| (Reverse(served(stride)), stride));
        let next = next.unwrap_or_else(|| chosen[number % strides.len()]);
        joined.extend(group_links(members, AllReduceLinks::DoubleBinaryTrees, &[next]));
        chosen.push(next);
    }
    chosen.sort_unstable();
    chosen
}

/// Bytes from members to those that are `distance` places behind them, indexed by distance.
fn by_distance(members: &[u32], transfers: &Transfers) -> Vec<u64> {
    let size = members.len();
    let mut bytes = vec![0u64; size];
    for (at, &from) in members.iter().enumerate() {
        for (to_at, &to) in members.iter().enumerate() {
            let sum = &mut bytes[(to_at + size - at) % size];
            *sum = sum.saturating_add(transfers.bytes(from, to));
        }
    }
    bytes
}

/// What a selection of rings costs: bytes times links of all transfers, then the sum of links over all distances.
fn cost(size: u32, coins: &[u32], demand: &[u64]) -> (u128, u64) {
    let change = CoinChange::new(size, coins);
    // A ring visits every member, so its stride reaches every distance.
    let (mut weighted, mut sum) = (0, 0);
    for (links, &bytes) in change.distances().flatten().zip(&demand[1..]) {
        weighted += u128::from(links) * u128::from(bytes);
        sum += u64::from(links);
    }
    (weighted, sum)
}

fn fewest_hops(size: u32, strides: &[u32], count: u32, demand: &[u64]) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::new();
    for _ in 0..count {
        let unused = strides.iter().copied().filter(|stride| !chosen.contains(stride));
        let next = unused.min_by_key(|&stride| {
            let coins: Vec<u32> = chosen.iter().copied().chain([stride]).collect();
            cost(size, &coins, demand)
        });
        let Some(next) = next else { break };
        chosen.push(next);
    }
    // Parallel rings once all are used.
    let distinct = chosen.clone();
    chosen.extend(distinct.iter().cycle().take(count as usize - distinct.len()));
    chosen
}

fn most_direct(size: u32, strides: &[u32], count: u32, demand: &[u64]) -> Vec<u32> {
    let proposals = (0..strides.len()).map(|start| pick(strides, start, count as usize));
    let best = proposals.min_by_key(|proposed| {
        let mut coins = proposed.clone();
        coins.sort_unstable();
        coins.dedup();
        let satisfied: u64 = coins.iter().fold(0, |sum, &stride| sum.saturating_add(demand[stride as usize]));
        (Reverse(satisfied), cost(size, &coins, demand).1)
    });
    best.unwrap_or_default()
}

/// `count` evenly spaced strides from the `start`-th, modulo their number (Algorithm 4, line 4).
fn pick(strides: &[u32], start: usize, count: usize) -> Vec<u32> {
    let len = strides.len();
    (0..count).map(|k| strides[(start + k * len.max(count) / count) % len]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn twelve_servers_have_rings_with_four_strides() {
        // topoopt2022 3.3.
        assert_eq!(totient_perms(12), [1, 5, 7, 11]);
        assert_eq!(totient_perms(1), [0u32; 0]);
        assert_eq!(totient_perms(2), [1]);
    }

    #[test]
    fn the_selected_strides_suit_the_transfers() {
        // Transfers between servers that are 5 apart.
        let members: Vec<u32> = (0..12).collect();
        let mut transfers = Transfers::new(12);
        for server in 0..12 {
            transfers.add(server, (server + 5) % 12, 100);
        }
        for selection in [RingSelection::Hops, RingSelection::MostBytes] {
            let top = |members: &[u32], count| top_permutations(members, count, &transfers, selection);
            assert_eq!(top(&members, 1), [5]);
            assert!(top(&members, 2).contains(&5));
            assert_eq!(top(&members, 4), [1, 5, 7, 11]);
            assert_eq!(top(&members, 6).len(), 6);
            assert_eq!(top(&[3, 9], 2), [1, 1]);
            assert!(top(&members, 0).is_empty());
        }
    }

    #[test]
    fn rings_at_even_distances_leave_servers_far_apart() {
        let members: Vec<u32> = (0..1024).collect();
        let farthest = |selection| {
            let strides = top_permutations(&members, 8, &Transfers::new(1024), selection);
            CoinChange::new(1024, &strides).distances().max().unwrap().unwrap()
        };
        assert_eq!(farthest(RingSelection::MostBytes), 128);
        assert_eq!(farthest(RingSelection::Hops), 7);
    }

    proptest! {
        /// Every stride generates a ring that visits each member once, found by walking it.
        #[test]
        fn every_stride_is_a_hamiltonian_ring(members in 2u32..700) {
            let strides = totient_perms(members);
            prop_assert!(!strides.is_empty());
            for &stride in &strides {
                let mut seen = vec![false; members as usize];
                let mut at = 0;
                for _ in 0..members {
                    prop_assert!(!std::mem::replace(&mut seen[at as usize], true));
                    at = (at + stride) % members;
                }
                prop_assert_eq!(at, 0);
            }
        }

        /// Both selections, against all proposals, with distances by walking the rings' graph.
        #[test]
        fn no_proposal_is_better(size in 3u32..20, count in 1u32..5, bytes in prop::collection::vec(0u64..50, 400)) {
            let members: Vec<u32> = (0..size).collect();
            let mut transfers = Transfers::new(size);
            for (from, to) in members.iter().flat_map(|&from| members.iter().map(move |&to| (from, to))) {
                transfers.add(from, to, bytes[(from * 20 + to) as usize]);
            }
            let strides = totient_perms(size);
            let hops = |coins: &[u32], from: u32, to: u32| {
                let mut reached: Vec<u32> = vec![from];
                let mut links = 0;
                while !reached.contains(&to) {
                    reached = reached.iter().flat_map(|at| coins.iter().map(move |coin| (at + coin) % size)).collect();
                    reached.sort_unstable();
                    reached.dedup();
                    links += 1;
                }
                links
            };
            let load = |coins: &[u32]| transfers.iter().map(|each| each.bytes * hops(coins, each.from, each.to)).sum::<u64>();
            let direct = |coins: &[u32]| {
                let joined = |from: u32, to: u32| coins.contains(&((to + size - from) % size));
                transfers.iter().filter(|each| joined(each.from, each.to)).map(|each| each.bytes).sum::<u64>()
            };
            let best = top_permutations(&members, count, &transfers, RingSelection::MostBytes);
            prop_assert_eq!(best.len(), count as usize);
            for start in 0..strides.len() {
                prop_assert!(direct(&pick(&strides, start, count as usize)) <= direct(&best));
            }
            // The first ring is the best single one. One more ring is never worse than all others with these.
            let one = top_permutations(&members, 1, &transfers, RingSelection::Hops);
            prop_assert_eq!(load(&one), strides.iter().map(|&stride| load(&[stride])).min().unwrap());
            if (count as usize) < strides.len() {
                let some = top_permutations(&members, count, &transfers, RingSelection::Hops);
                let more = top_permutations(&members, count + 1, &transfers, RingSelection::Hops);
                prop_assert!(some.iter().all(|stride| more.contains(stride)));
                let with = |stride: &u32| load(&some.iter().copied().chain([*stride]).collect::<Vec<_>>());
                prop_assert_eq!(load(&more), strides.iter().map(with).min().unwrap());
            }
        }
    }
}
