//! Algorithm 5 of topoopt2022.

use crate::Discount;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Bits to the right of a byte, so that demands can be halved often.
const FRACTION: u32 = 60;

/// Bytes that wait for a way from one server to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairDemand {
    /// The server that sends.
    pub from: u32,
    /// The server that receives.
    pub to: u32,
    /// Number of bytes.
    pub bytes: u64,
}

/// The circuits for `demand`, at most once for each pair of servers: how many join each pair. Servers have
/// `degree` interfaces. The comments number the lines of the paper's pseudo-code; of equal demands, the pair with the
/// lower numbers comes first.
pub fn allocate(
    demand: &[PairDemand],
    servers: u32,
    degree: u32,
    discount: Discount,
) -> BTreeMap<(u32, u32), u32> {
    // Lines 3 to 5.
    let mut sending = vec![degree; servers as usize];
    let mut receiving = vec![degree; servers as usize];
    let scaled =
        |&PairDemand { from, to, bytes }: &PairDemand| (u128::from(bytes) << FRACTION, Reverse((from, to)));
    let mut left: BinaryHeap<(u128, Reverse<(u32, u32)>)> =
        demand.iter().filter(|each| each.bytes > 0 && each.from != each.to).map(scaled).collect();
    let mut circuits = BTreeMap::new();
    // Lines 6 and 7.
    while let Some((worth, Reverse(pair))) = left.pop() {
        let (from, to) = (pair.0 as usize, pair.1 as usize);
        // Lines 15 to 20.
        if sending[from] == 0 || receiving[to] == 0 {
            continue;
        }
        // Lines 8 to 10, 12 to 14.
        *circuits.entry(pair).or_default() += 1;
        sending[from] -= 1;
        receiving[to] -= 1;
        // Line 11.
        let next = match discount {
            Discount::Halving => worth / 2,
            Discount::None => worth,
        };
        if next > 0 {
            left.push((next, Reverse(pair)));
        }
    }
    circuits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};

    fn demand(pairs: &[(u32, u32, u64)]) -> Vec<PairDemand> {
        pairs.iter().map(|&(from, to, bytes)| PairDemand { from, to, bytes }).collect()
    }

    #[test]
    fn halving_spreads_circuits_and_no_discount_gives_all_to_the_largest() {
        let demand = demand(&[(0, 1, 100), (0, 2, 60), (0, 3, 10)]);
        let halving = allocate(&demand, 4, 3, Discount::Halving);
        // 100, 60, then 50 again.
        assert_eq!(halving, BTreeMap::from([((0, 1), 2), ((0, 2), 1)]));
        assert_eq!(allocate(&demand, 4, 3, Discount::None), BTreeMap::from([((0, 1), 3)]));
    }

    #[test]
    fn receivers_have_as_many_interfaces_as_senders() {
        let incast: Vec<_> =
            (1..6).map(|from| PairDemand { from, to: 0, bytes: 100 - u64::from(from) }).collect();
        let circuits = allocate(&incast, 6, 2, Discount::Halving);
        assert_eq!(circuits, BTreeMap::from([((1, 0), 1), ((2, 0), 1)]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        /// Against a direct transcription of the pseudo-code: a matrix, searched for its largest entry in each round.
        #[test]
        fn circuits_equal_those_of_the_pseudo_code(
            bytes in prop::collection::vec(0u64..1000, 36), degree in 1u32..5, halving: bool,
        ) {
            let pairs = (0..6u32).flat_map(|from| (0..6u32).map(move |to| (from, to)));
            let pairs = pairs.zip(bytes).filter(|((from, to), _)| from != to);
            let demand: Vec<_> = pairs.map(|((from, to), bytes)| PairDemand { from, to, bytes }).collect();
            let discount = if halving { Discount::Halving } else { Discount::None };
            let mut worth: BTreeMap<(u32, u32), f64> = demand.iter().map(|each| ((each.from, each.to), each.bytes as f64)).collect();
            let mut expected: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            let mut free = [[degree; 6]; 2];
            loop {
                let open = worth.iter().filter(|((from, to), worth)| {
                    free[0][*from as usize] > 0 && free[1][*to as usize] > 0 && **worth > 0.0
                });
                let mut best: Option<((u32, u32), f64)> = None;
                for (&pair, &worth) in open {
                    if best.is_none_or(|(_, most)| worth > most) {
                        best = Some((pair, worth));
                    }
                }
                let Some((pair, _)) = best else { break };
                *expected.entry(pair).or_default() += 1;
                free[0][pair.0 as usize] -= 1;
                free[1][pair.1 as usize] -= 1;
                if halving {
                    *worth.get_mut(&pair).unwrap() /= 2.0;
                }
            }
            let circuits = allocate(&demand, 6, degree, discount);
            prop_assert_eq!(&circuits, &expected);
            for server in 0..6 {
                let sent: u32 = circuits.iter().filter(|(pair, _)| pair.0 == server).map(|(_, count)| count).sum();
                prop_assert!(sent <= degree);
            }
        }
    }
}
