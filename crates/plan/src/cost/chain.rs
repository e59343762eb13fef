//! The longest chain of messages of a plan whose ranks are alike.

use crate::program::{Algorithm, Op, Seat, program};
use std::collections::{BTreeMap, VecDeque};
use syncline_units::{Bytes, CollectiveKind};

/// The least weight of a chain of messages that every rank must wait for, where a message of `bytes` weighs
/// `weigh(bytes)`. With `alpha + bytes / rate` as weight, no rank can finish sooner than this after the first rank
/// starts. Every block is assumed to be as short as the shortest block of a vector of `elements` elements of
/// `element` bytes.
///
/// `None` if the algorithm does not guarantee that its ranks are alike ([`Algorithm::turn`]), or if its streams wait
/// for each other.
pub fn chain(
    algorithm: &dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    elements: u64,
    element: u64,
    weigh: impl Fn(Bytes) -> u64,
) -> Option<u64> {
    let turn = algorithm.turn(kind, ranks)?;
    let streams = algorithm.streams(kind, ranks);
    let part = if algorithm.split() { elements / u64::from(streams) } else { elements };
    let mut longest = 0;
    for stream in 0..streams {
        let seat = Seat { kind, ranks, index: 0, stream, reverse: false };
        // Rank 0 receives from `from` what it sends itself to the rank that is as far from 0 as 0 is from `from`.
        let mut sent: BTreeMap<u32, VecDeque<u64>> = BTreeMap::new();
        let (mut clock, mut expected) = (0, 0);
        for op in program(algorithm, seat) {
            match op {
                Op::Send { to, blocks } => {
                    let block = part / u64::from(blocks.of.max(1));
                    let bytes = (block * u64::from(blocks.count)).saturating_mul(element);
                    let arrival = u64::saturating_add(clock, weigh(Bytes(bytes)));
                    sent.entry(to).or_default().push_back(arrival);
                }
                Op::Receive { from, .. } => {
                    let alike = turn.seen_from(0, from, ranks);
                    expected = expected.max(sent.get_mut(&alike)?.pop_front()?);
                }
                Op::Wait => clock = clock.max(expected),
                Op::Copy { .. } => {}
                Op::After { .. } => return None,
            }
        }
        longest = longest.max(clock).max(expected);
    }
    Some(longest)
}
