//! Costs by the formulas of luo2020 5.2.1, and searches beside the best of all orders.

use proptest::prelude::*;
use std::num::NonZeroU32;
use syncline_diagnostics::Code;
use syncline_rank_order::{Algorithm, Distances, Effort, cost, lower_bound, search};
use syncline_units::{Bytes, Rate, Time};

/// Divisible by all parts of all algorithms here.
const BYTES: Bytes = Bytes(27 * 64 * 1000);
const QUICK: Effort = Effort { proposals: 3000, chains: 4, seed: 1 };

fn bcube(base: u32) -> Algorithm {
    Algorithm::Bcube { base: NonZeroU32::new(base).unwrap() }
}

/// Racks of hosts, in an order that hides them, with noise of up to a tenth.
fn racks(hosts: u32, of: u32, seed: u64) -> Distances {
    let mixed = |host: u32| (u64::from(host) * 7 + seed) % u64::from(hosts) / u64::from(of);
    let noise = |a: u32, b: u32| {
        let (a, b) = (u64::from(a.min(b)), u64::from(a.max(b)));
        (a * 2_654_435_761 + b * 40_503 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60
    };
    let time = |a: u32, b: u32| {
        let base = if a == b {
            0
        } else if mixed(a) == mixed(b) {
            10_000
        } else {
            50_000
        };
        Time(base + base / 160 * noise(a, b))
    };
    let times: Vec<Time> = (0..hosts * hosts).map(|at| time(at / hosts, at % hosts)).collect();
    Distances::new(hosts, &times, None).unwrap()
}

fn permutations(hosts: u32) -> Vec<Vec<u32>> {
    if hosts == 0 {
        return vec![Vec::new()];
    }
    let all = permutations(hosts - 1);
    let with = |order: &Vec<u32>, at: usize| {
        let mut order = order.clone();
        order.insert(at, hosts - 1);
        order
    };
    all.iter().flat_map(|order| (0..hosts as usize).map(move |at| with(order, at))).collect()
}

/// luo2020 5.2.1, written as its formulas are, with `c(r[i], r[j])` in place of `c(i, j)`.
fn by_formula(algorithm: Algorithm, distances: &Distances, order: &[u32]) -> Time {
    let n = order.len();
    let c = |i: usize, j: usize, bytes: u64| distances.of(Bytes(bytes)).between(order[i % n], order[j % n]);
    let bytes = BYTES.0;
    match algorithm {
        Algorithm::Ring => (0..n).map(|i| c(i, i + n - 1, bytes)).sum(),
        Algorithm::HalvingDoubling => by_formula(bcube(2), distances, order),
        Algorithm::Bcube { base } => {
            let base = base.get() as usize;
            let rounds = n.ilog(base);
            (0..rounds)
                .map(|i| {
                    let (stride, part) = (base.pow(i), bytes / base.pow(i + 1) as u64);
                    let digit = |rank: usize| rank / stride % base;
                    let pairs = (0..n).flat_map(|j| (1..base).map(move |k| (j, j + k * stride)));
                    let of_group =
                        pairs.filter(|&(j, k)| k < n && digit(k) > digit(j) && k - j < base * stride);
                    of_group.map(|(j, k)| c(j, k, part)).max().unwrap_or_default()
                })
                .sum()
        }
        Algorithm::DoubleBinaryTree => {
            fn t(i: i64, j: i64, c: &dyn Fn(i64, i64) -> Time) -> Time {
                let half = |i: i64, j: i64| i64::midpoint(i, j);
                let root = half(i, j);
                let left = (i < root).then(|| c(root, half(i, root - 1)) + t(i, root - 1, c));
                let right = (root < j).then(|| c(root, half(root + 1, j)) + t(root + 1, j, c));
                left.max(right).unwrap_or_default()
            }
            let tree = |shift: i64| {
                let rank = |at: i64| (at - shift).rem_euclid(n as i64) as usize;
                t(0, n as i64 - 1, &|a, b| c(rank(a), rank(b), bytes.div_ceil(2)))
            };
            tree(0).max(tree(1))
        }
    }
}

fn algorithms(hosts: u32) -> Vec<Algorithm> {
    let mut all = vec![Algorithm::Ring, Algorithm::DoubleBinaryTree];
    if hosts.is_power_of_two() {
        all.push(Algorithm::HalvingDoubling);
    }
    for base in [3, 4] {
        if (0..6).any(|power| u32::pow(base, power) == hosts) {
            all.push(bcube(base));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]
    #[test]
    fn costs_are_those_of_the_formulas(
        hosts in prop::sample::select(vec![1u32, 2, 3, 4, 5, 8, 9, 16, 27]),
        latency in prop::collection::vec(1u64..1_000_000, 27 * 27),
        rates in prop::collection::vec(1u64..100, 27 * 27),
        order in Just((0..27u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let size = (hosts * hosts) as usize;
        let latency: Vec<Time> = latency[..size].iter().map(|&ps| Time(ps)).collect();
        let rates: Vec<Rate> = rates[..size].iter().map(|&gb| Rate::from_bytes_per_s(gb * 1_000_000_000)).collect();
        let distances = Distances::new(hosts, &latency, Some(&rates)).unwrap();
        let order: Vec<u32> = order.into_iter().filter(|&host| host < hosts).collect();
        for algorithm in algorithms(hosts) {
            let found = cost(algorithm, &distances, BYTES, &order).unwrap();
            prop_assert_eq!(found, by_formula(algorithm, &distances, &order), "{}", algorithm);
            // Whatever the search finds costs what it says, and less than no bound.
            let effort = Effort { proposals: 300, ..QUICK };
            let better = search(algorithm, &distances, BYTES, &order, effort, &mut |_| true).unwrap();
            prop_assert_eq!(better.before, found);
            prop_assert_eq!(better.cost, by_formula(algorithm, &distances, &better.order));
            prop_assert!(better.bound <= better.cost && better.cost <= better.before, "{}: {:?}", algorithm, better);
            if algorithm != Algorithm::DoubleBinaryTree {
                prop_assert_eq!(better.order[0], order[0]);
            }
        }
    }
}

#[test]
fn searches_find_the_best_of_all_orders() {
    let long = Effort { proposals: 20_000, ..QUICK };
    for (hosts, of) in [(6, 2), (6, 3), (8, 2), (8, 4)] {
        for seed in 0..3 {
            let distances = racks(hosts, of, seed);
            let all = permutations(hosts);
            for algorithm in algorithms(hosts) {
                let best =
                    all.iter().map(|order| cost(algorithm, &distances, BYTES, order).unwrap()).min().unwrap();
                let start: Vec<u32> = (0..hosts).collect();
                let found = search(algorithm, &distances, BYTES, &start, long, &mut |_| true).unwrap();
                assert_eq!(found.cost, best, "{algorithm} {hosts} {of} {seed}");
                assert!(lower_bound(algorithm, &distances, BYTES).unwrap() <= best);
            }
        }
    }
}

#[test]
fn rings_of_64_hosts_are_within_a_percent_of_the_best() {
    // A ring visits each rack once: a lower bound of Held and Karp proves that.
    for seed in 0..3 {
        let distances = racks(64, 8, seed);
        let start: Vec<u32> = (0..64).collect();
        let found = search(Algorithm::Ring, &distances, BYTES, &start, QUICK, &mut |_| true).unwrap();
        assert!(found.bound.0 as f64 > 0.99 * found.cost.0 as f64, "{found:?}");
        assert!(found.cost < found.before);
    }
}

#[test]
fn rounds_that_racks_serve_stay_in_them() {
    // Racks of 8 hosts carry three of six rounds: the bound says that no order does better.
    let flat = |a: u32, b: u32| match (a == b, a % 8 == b % 8) {
        (true, _) => Time(0),
        (_, true) => Time(10),
        _ => Time(1000),
    };
    let times: Vec<Time> = (0..64 * 64).map(|at| flat(at / 64, at % 64)).collect();
    let distances = Distances::new(64, &times, None).unwrap();
    let start: Vec<u32> = (0..64).collect();
    let found = search(Algorithm::HalvingDoubling, &distances, BYTES, &start, QUICK, &mut |_| true).unwrap();
    assert_eq!((found.cost, found.bound), (Time(3 * 10 + 3 * 1000), Time(3 * 10 + 3 * 1000)));
    let found = search(bcube(4), &distances, BYTES, &start, QUICK, &mut |_| true).unwrap();
    // A round of four ranks fits, two rounds of 16 do not.
    assert_eq!((found.cost, found.bound), (Time(10 + 2 * 1000), Time(10 + 2 * 1000)));
}

#[test]
fn the_seed_determines_the_order() {
    let distances = racks(32, 8, 5);
    let start: Vec<u32> = (0..32).rev().collect();
    for algorithm in algorithms(32) {
        let once = search(algorithm, &distances, BYTES, &start, QUICK, &mut |_| true).unwrap();
        assert_eq!(search(algorithm, &distances, BYTES, &start, QUICK, &mut |_| true).unwrap(), once);
    }
}

#[test]
fn the_larger_direction_counts() {
    let (latency, rate) = ([0, 5, 7, 0].map(Time), [1, 100, 50, 1].map(Rate::from_bytes_per_s));
    let distances = Distances::new(2, &latency, Some(&rate)).unwrap();
    let second = 1_000_000_000_000;
    assert_eq!(distances.of(Bytes(100)).between(0, 1), Time(7 + 2 * second));
    assert_eq!(distances.of(Bytes(100)).between(1, 0), Time(7 + 2 * second));
}

#[test]
fn what_is_no_order_is_refused() {
    let distances = racks(6, 2, 0);
    let tried =
        |algorithm, order: &[u32]| cost(algorithm, &distances, BYTES, order).unwrap_err().0[0].clone();
    for (order, message) in [
        (&[0, 1, 2][..], "an order has each host once"),
        (&[0, 1, 2, 3, 4, 6][..], "an order names an unknown host"),
        (&[0, 1, 2, 3, 4, 4][..], "an order has a host twice"),
    ] {
        let refused = tried(Algorithm::Ring, order);
        assert_eq!((refused.code, refused.message.as_str()), (Code::BadValue, message));
    }
    let refused = tried(Algorithm::HalvingDoubling, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(refused.message, "the number of hosts is not a power of 2, which halving_doubling needs");
    let refused = "bcube(base=1)".parse::<Algorithm>().unwrap_err();
    assert!(refused.0[0].allowed.as_deref().unwrap().contains("bcube(base=B)"));
    assert!(Distances::new(2, &[Time(0); 3], None).is_err());
    assert!(Distances::new(2, &[Time(0); 4], Some(&[Rate(0); 4])).is_err());
    for name in ["ring", "halving_doubling", "double_binary_tree", "bcube(base=3)"] {
        assert_eq!(name.parse::<Algorithm>().unwrap().to_string(), name);
    }
}
