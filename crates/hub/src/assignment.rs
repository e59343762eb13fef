//! Which core of which hub has which chunk, so that hubs, their interfaces and their cores have about as much to do
//! (luo2020, section 3.2.4).
//!
//! At each level chunks go, the largest first, to whatever has least so far: longest processing time first, which is never
//! worse than 4/3 of the best there is (Graham 1969). Every worker and every hub finds the same.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A core of a hub, and the interface through which its chunks come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// Which hub of the job.
    pub hub: u32,
    /// Which core of the hub.
    pub core: u32,
}

/// A hub's cores: core `c` is reached through interface `c mod interfaces`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Cores that sum.
    pub cores: u32,
    /// Interfaces, of which there are no more than cores.
    pub interfaces: u32,
}

/// The bin of each item, of `bins`: the longest first, each to the bin that has least. Ties go to the first.
///
/// # Panics
/// Where there is no bin.
pub fn longest_first(sizes: &[u64], bins: u32) -> Vec<u32> {
    assert!(bins > 0, "items go somewhere");
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&item| Reverse(sizes[item]));
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..bins).map(|bin| Reverse((0, bin))).collect();
    let mut found = vec![0; sizes.len()];
    for item in order {
        let Reverse((load, bin)) = loads.pop().expect("there is a bin");
        found[item] = bin;
        loads.push(Reverse((load + sizes[item], bin)));
    }
    found
}

/// The way of each chunk: hubs share them first, then each hub's interfaces, then the cores of each interface.
///
/// # Panics
/// Where there is no hub, or one without cores or interfaces.
pub fn assign(sizes: &[u64], hubs: &[Cores]) -> Vec<Way> {
    let mut ways = vec![Way { hub: 0, core: 0 }; sizes.len()];
    let all: Vec<usize> = (0..sizes.len()).collect();
    for (hub, items) in parts(&all, sizes, hubs.len() as u32) {
        let Cores { cores, interfaces } = hubs[hub as usize];
        for (interface, items) in parts(&items, sizes, interfaces) {
            let own = (interface..cores).step_by(interfaces as usize).count() as u32;
            for (core, items) in parts(&items, sizes, own) {
                for item in items {
                    ways[item] = Way { hub, core: interface + core * interfaces };
                }
            }
        }
    }
    ways
}

/// Items by their bin.
fn parts(items: &[usize], sizes: &[u64], bins: u32) -> Vec<(u32, Vec<usize>)> {
    let own: Vec<u64> = items.iter().map(|&item| sizes[item]).collect();
    let mut parts: Vec<(u32, Vec<usize>)> = (0..bins).map(|bin| (bin, Vec::new())).collect();
    for (&item, bin) in items.iter().zip(longest_first(&own, bins)) {
        parts[bin as usize].1.push(item);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn largest(sizes: &[u64], bins: u32, found: &[u32]) -> u64 {
        let load = |bin| sizes.iter().zip(found).filter(|&(_, &b)| b == bin).map(|(s, _)| s).sum();
        (0..bins).map(load).max().unwrap()
    }

    /// The best there is, by trying all.
    fn best(sizes: &[u64], bins: u32) -> u64 {
        let mut best = u64::MAX;
        for mut code in 0..u64::from(bins).pow(sizes.len() as u32) {
            let mut loads = vec![0; bins as usize];
            for size in sizes {
                loads[(code % u64::from(bins)) as usize] += size;
                code /= u64::from(bins);
            }
            best = best.min(*loads.iter().max().unwrap());
        }
        best
    }

    proptest! {
        #[test]
        fn never_worse_than_four_thirds(sizes in prop::collection::vec(1u64..50, 1..9), bins in 1u32..4) {
            let found = longest_first(&sizes, bins);
            prop_assert!(3 * largest(&sizes, bins, &found) <= 4 * best(&sizes, bins));
        }

        #[test]
        fn equal_chunks_are_spread_evenly(
            chunks in 0usize..200,
            hubs in prop::collection::vec((1u32..4, 1u32..4), 1..4),
        ) {
            let hubs: Vec<Cores> = hubs.iter().map(|&(a, b)| Cores { cores: a * b, interfaces: b }).collect();
            let ways = assign(&vec![100; chunks], &hubs);
            let count = |hub, core: Option<u32>| {
                ways.iter().filter(|way| way.hub == hub && core.is_none_or(|core| core == way.core)).count()
            };
            for (hub, cores) in (0u32..).zip(&hubs) {
                let own = count(hub, None);
                prop_assert!(own.abs_diff(chunks / hubs.len()) <= 1);
                for core in 0..cores.cores {
                    let fair = own / cores.cores as usize;
                    prop_assert!(count(hub, Some(core)).abs_diff(fair) <= 1);
                }
            }
        }
    }

    #[test]
    fn a_large_chunk_is_made_up_for() {
        assert_eq!(longest_first(&[1, 1, 1, 3], 2), [1, 1, 1, 0]);
        let two = [Cores { cores: 2, interfaces: 1 }, Cores { cores: 2, interfaces: 2 }];
        let ways = assign(&[4, 4, 4, 4], &two);
        let mut all = ways.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4, "{ways:?}");
    }
}
