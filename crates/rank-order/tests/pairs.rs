//! Distances of which only some pairs were measured, and what algorithms exchange.

use proptest::prelude::*;
use std::num::NonZeroU32;
use syncline_diagnostics::Code;
use syncline_rank_order::{Algorithm, Distances, Matrix, cost, exchanges};
use syncline_units::{Bytes, Rate, Time};

/// For all pairs the least that some path has as its longest hop, as Floyd and Warshall would find it.
fn by_paths(hosts: usize, pairs: &[(u32, u32, u64)]) -> Vec<Vec<Option<u64>>> {
    let mut least = vec![vec![None; hosts]; hosts];
    for (host, row) in least.iter_mut().enumerate() {
        row[host] = Some(0);
    }
    for &(a, b, value) in pairs {
        for (a, b) in [(a as usize, b as usize), (b as usize, a as usize)] {
            least[a][b] = Some(least[a][b].map_or(value, |known: u64| known.max(value)));
        }
    }
    for through in 0..hosts {
        for a in 0..hosts {
            for b in 0..hosts {
                if let (Some(first), Some(second)) = (least[a][through], least[through][b]) {
                    let longest = first.max(second);
                    least[a][b] = Some(least[a][b].map_or(longest, |known| known.min(longest)));
                }
            }
        }
    }
    least
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    #[test]
    fn missing_pairs_are_as_long_as_the_best_path(
        hosts in 2u32..12,
        pairs in prop::collection::vec((0u32..12, 0u32..12, 1u64..100), 1..60),
    ) {
        let pairs: Vec<_> = pairs.into_iter().filter(|&(a, b, _)| a != b && a < hosts && b < hosts).collect();
        let least = by_paths(hosts as usize, &pairs);
        let times: Vec<_> = pairs.iter().map(|&(a, b, value)| (a, b, Time(value))).collect();
        let rates: Vec<_> = pairs.iter().map(|&(a, b, value)| (a, b, Rate(1000 - value))).collect();
        let found = Distances::of_pairs(hosts, &times, Some(&rates));
        if least.iter().flatten().any(Option::is_none) {
            let refused = found.unwrap_err();
            prop_assert_eq!(refused.0[0].code, Code::BadDistances);
        } else {
            let (distances, filled) = found.unwrap();
            let measured = |a: u32, b: u32| {
                pairs.iter().filter(|pair| (pair.0.min(pair.1), pair.0.max(pair.1)) == (a.min(b), a.max(b))).map(|pair| pair.2).max()
            };
            let missing = (0..hosts).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|&(a, b)| measured(a, b).is_none());
            prop_assert_eq!(filled, missing.count() as u64);
            let latency = distances.of(Bytes(0));
            let second = 1_000_000_000_000u64;
            let with_bytes = distances.of(Bytes(1_000_000));
            for a in 0..hosts {
                for b in 0..a {
                    let expected = measured(a, b).or(least[a as usize][b as usize]).unwrap();
                    prop_assert_eq!(latency.between(a, b), Time(expected));
                    let send = Rate(1000 - expected).transfer_time(Bytes(1_000_000)).unwrap();
                    prop_assert!(send > Time(second));
                    prop_assert_eq!(with_bytes.between(b, a), Time(expected) + send);
                }
            }
        }
    }
}

#[test]
fn an_order_costs_what_its_exchanges_take() {
    let bcube = Algorithm::Bcube { base: NonZeroU32::new(3).unwrap() };
    for (algorithm, hosts) in [
        (Algorithm::Ring, 5u32),
        (Algorithm::HalvingDoubling, 8),
        (bcube, 9),
        (Algorithm::DoubleBinaryTree, 7),
    ] {
        let order: Vec<u32> = (0..hosts).collect();
        let found = exchanges(algorithm, hosts);
        // With one exchange much longer than all others together, an order costs at least as much exactly if it is made.
        for low in 0..hosts {
            for high in low + 1..hosts {
                let time =
                    |a: u32, b: u32| if (a.min(b), a.max(b)) == (low, high) { Time(1000) } else { Time(1) };
                let times: Vec<Time> = (0..hosts * hosts).map(|at| time(at / hosts, at % hosts)).collect();
                let distances = Distances::new(hosts, &times, None).unwrap();
                let made = found.iter().any(|each| (each.low, each.high) == (low, high));
                let costs = cost(algorithm, &distances, Bytes(1), &order).unwrap();
                assert_eq!(costs >= Time(1000), made, "{algorithm} {low} {high}");
            }
        }
        assert!(found.windows(2).all(|two| two[0] < two[1]));
    }
    assert_eq!(exchanges(Algorithm::Ring, 2).len(), 1);
    assert!(exchanges(Algorithm::Ring, 1).is_empty());
    assert_eq!(Matrix::new(1, &[Time(5)]).between(0, 0), Time(0));
}
