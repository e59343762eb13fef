//! Assigns chunks to cores of hubs, so that the hubs, their interfaces and their cores have about the same load
//! (luo2020, section 3.2.4).
//!
//! At each level, chunks go, the largest first, to the least loaded hub, interface or core. This rule, longest
//! processing time first, is never worse than 4/3 of the optimum (Graham 1969). Every worker and every hub computes the
//! same assignment.

use super::terms::Contract;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A core of a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HubCore {
    /// The index of the hub in the job.
    pub hub: u32,
    /// The index of the core in the hub.
    pub core: u32,
}

/// The cores and interfaces of a hub. Workers reach core `c` through interface `c mod interfaces`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// The number of cores.
    pub cores: u32,
    /// The number of interfaces, at most the number of cores.
    pub interfaces: u32,
}

/// The hubs that share a job's chunks: all hubs of the job, or those of one rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubList {
    /// The cores of each hub.
    pub hubs: Vec<Cores>,
    /// The index of this hub.
    pub own: u32,
}

/// Returns the bin of each item. Places the longest items first, each in the least loaded bin; of equal ones, the
/// first.
///
/// # Panics
/// Panics if there is no bin.
pub fn longest_first(sizes: &[u64], bins: u32) -> Vec<u32> {
    assert!(bins > 0, "there must be a bin");
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

/// Returns the core of each chunk. Distributes chunks over hubs first, then over each hub's interfaces, then over the
/// cores of each interface.
///
/// # Panics
/// Panics if there is no hub, or a hub without cores or interfaces.
pub fn assign(sizes: &[u64], hubs: &[Cores]) -> Vec<HubCore> {
    let mut assigned = vec![HubCore { hub: 0, core: 0 }; sizes.len()];
    let all: Vec<usize> = (0..sizes.len()).collect();
    for (hub, items) in parts(&all, sizes, hubs.len() as u32) {
        let Cores { cores, interfaces } = hubs[hub as usize];
        for (interface, items) in parts(&items, sizes, interfaces) {
            let own = (interface..cores).step_by(interfaces as usize).count() as u32;
            for (core, items) in parts(&items, sizes, own) {
                for item in items {
                    assigned[item] = HubCore { hub, core: interface + core * interfaces };
                }
            }
        }
    }
    assigned
}

/// The core of each of a job's chunks.
#[derive(Clone, Debug)]
pub struct Routes {
    assigned: Vec<HubCore>,
    /// The number of each hub's first core, then the number of all cores.
    firsts: Vec<u32>,
}

impl Routes {
    /// Assigns the chunks of a contract to the cores of these hubs.
    pub fn new(contract: &Contract, hubs: &[Cores]) -> Self {
        let sizes: Vec<u64> =
            (0..contract.catalogue.chunks()).map(|chunk| contract.catalogue.bytes(chunk)).collect();
        let mut firsts = vec![0];
        for hub in hubs {
            firsts.push(firsts.last().expect("there is a first entry") + hub.cores);
        }
        Self { assigned: assign(&sizes, hubs), firsts }
    }

    /// Returns the number of cores of all hubs.
    pub fn cores(&self) -> u32 {
        *self.firsts.last().expect("it ends with the number of all cores")
    }

    /// Returns the number of a chunk's core among those of all hubs.
    pub fn core(&self, chunk: u32) -> u32 {
        let HubCore { hub, core } = self.assigned[chunk as usize];
        self.firsts[hub as usize] + core
    }

    /// Returns the hub and the core with this number among those of all hubs.
    pub fn hub_core(&self, core: u32) -> HubCore {
        let hub = self.firsts.partition_point(|&first| first <= core) - 1;
        HubCore { hub: hub as u32, core: core - self.firsts[hub] }
    }

    /// Returns the chunks of each core of a hub.
    pub fn shares(&self, hub: u32) -> Vec<Vec<u32>> {
        let cores = self.firsts[hub as usize + 1] - self.firsts[hub as usize];
        let mut shares = vec![Vec::new(); cores as usize];
        for (chunk, to) in (0u32..).zip(&self.assigned).filter(|(_, to)| to.hub == hub) {
            shares[to.core as usize].push(chunk);
        }
        shares
    }
}

/// Returns the items of each bin.
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

    /// The load of the optimum, found by trying all assignments.
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
        fn the_largest_load_is_at_most_four_thirds_of_the_optimum(
            sizes in prop::collection::vec(1u64..50, 1..9),
            bins in 1u32..4,
        ) {
            let found = longest_first(&sizes, bins);
            prop_assert!(3 * largest(&sizes, bins, &found) <= 4 * best(&sizes, bins));
        }

        #[test]
        fn equal_chunks_are_spread_evenly(
            chunks in 0usize..200,
            hubs in prop::collection::vec((1u32..4, 1u32..4), 1..4),
        ) {
            let hubs: Vec<Cores> = hubs.iter().map(|&(a, b)| Cores { cores: a * b, interfaces: b }).collect();
            let assigned = assign(&vec![100; chunks], &hubs);
            let count = |hub, core: Option<u32>| {
                assigned.iter().filter(|each| each.hub == hub && core.is_none_or(|core| core == each.core)).count()
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
    fn a_bin_with_a_large_item_gets_fewer_others() {
        assert_eq!(longest_first(&[1, 1, 1, 3], 2), [1, 1, 1, 0]);
        let two = [Cores { cores: 2, interfaces: 1 }, Cores { cores: 2, interfaces: 2 }];
        let assigned = assign(&[4, 4, 4, 4], &two);
        let mut all = assigned.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4, "{assigned:?}");
    }
}
