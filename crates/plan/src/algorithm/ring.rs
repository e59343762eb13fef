//! Ring: every rank exchanges only with its two neighbours.
//!
//! Reduce-scatter: the vector is cut into `N` blocks; in each of `N - 1` steps a rank sends one block to the next
//! rank and reduces the block that arrives from the previous rank. All-gather: the same steps without reduction.
//! All-reduce: reduce-scatter, then all-gather. All-to-all: in step `i` a rank sends directly to the rank at distance
//! `i` (which the fabric routes over `i` links). Broadcast and reduce send the whole vector along the chain; the
//! schedule's chunks fill that pipeline.
//!
//! Source: astra2020 III-B and Fig. 5; luo2020 1.1.5 "Ring". There, rank `i` starts by sending block `i` and ends
//! with block `i + 1`; here it starts with block `i - 1` and ends with block `i`, as reduce-scatter requires.
//!
//! | collective | rounds | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | `2(N-1)` | `2 S (N-1)/N` |
//! | reduce-scatter, all-gather, all-to-all | `N-1` | `S (N-1)/N` |
//! | broadcast, reduce | `N-1` | `S` (one rank: 0) |

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use syncline_units::{CollectiveKind, Turn};

/// The ring algorithm. Respects [`Seat::reverse`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Ring;

impl Algorithm for Ring {
    fn name(&self) -> &str {
        "ring"
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(self.name(), CollectiveKind::ALL, kind, ranks)
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let n = f64::from(ranks);
        let share = (n - 1.0) / n;
        let (rounds, wire, sent) = match kind {
            CollectiveKind::AllReduce => (2 * (ranks - 1), 2.0 * (n - 1.0), 2.0 * share),
            // The peers of an all-to-all are far apart in the ring, but no chain is longer than one message per step.
            CollectiveKind::ReduceScatter | CollectiveKind::AllGather | CollectiveKind::AllToAll => {
                (ranks - 1, n - 1.0, share)
            }
            CollectiveKind::Broadcast | CollectiveKind::Reduce => (ranks - 1, n - 1.0, 1.0),
        };
        Some(ClosedForm { rounds, wire, sent })
    }

    fn turn(&self, kind: CollectiveKind, _ranks: u32) -> Option<Turn> {
        // Broadcast and reduce have a root, rank 0, so their ranks are not alike.
        (!kind.has_root()).then_some(Turn::Cyclic)
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let ring = Circle::neighbours(seat.ranks, seat.reverse);
        let me = ring.number(seat.index);
        let steps = seat.ranks - 1;
        match seat.kind {
            CollectiveKind::ReduceScatter => ring.pass(me, pc, steps, ring.back(me, 1), true),
            CollectiveKind::AllGather => ring.pass(me, pc, steps, me, false),
            CollectiveKind::AllReduce => ring.all_reduce(me, pc),
            CollectiveKind::AllToAll => ring.exchange(me, pc, steps),
            CollectiveKind::Broadcast => ring.chain(me, me, pc, false),
            // The chain of a reduction ends at rank 0, so it starts at rank 1.
            CollectiveKind::Reduce => ring.chain(me, ring.back(me, 1), pc, true),
        }
    }
}

/// A ring through ranks that are `step` apart, which visits every rank: `step` and the number of ranks are coprime.
/// Ranks are numbered in the order of the ring from rank 0, and blocks are numbered like ranks.
#[derive(Clone, Copy)]
pub(super) struct Circle {
    ranks: u32,
    step: u32,
    /// `step * inverse` is 1 modulo `ranks`.
    inverse: u32,
}

impl Circle {
    /// The ring of ranks next to each other, upwards, or downwards with `reverse`.
    #[inline]
    fn neighbours(ranks: u32, reverse: bool) -> Self {
        let step = if reverse { ranks - 1 } else { 1 };
        Self { ranks, step, inverse: step }
    }
    /// The ring with this step, whose inverse is `inverse`.
    #[inline]
    pub(super) fn new(ranks: u32, step: u32, inverse: u32) -> Self {
        Self { ranks, step, inverse }
    }
    /// The rank with number `number`.
    #[inline]
    fn real(self, number: u32) -> u32 {
        self.times(self.step, number)
    }
    /// The number of rank `rank`.
    #[inline]
    pub(super) fn number(self, rank: u32) -> u32 {
        self.times(self.inverse, rank)
    }
    #[inline]
    fn times(self, step: u32, by: u32) -> u32 {
        if step == 1 {
            by
        } else if step == self.ranks - 1 {
            if by == 0 { 0 } else { self.ranks - by }
        } else {
            (u64::from(step) * u64::from(by) % u64::from(self.ranks)) as u32
        }
    }
    /// An all-reduce: a reduce-scatter that ends with each rank's own block, then an all-gather.
    #[inline]
    pub(super) fn all_reduce(self, me: u32, pc: u32) -> Option<Op> {
        let steps = self.ranks - 1;
        if pc < 3 * steps {
            self.pass(me, pc, steps, self.back(me, 1), true)
        } else {
            self.pass(me, pc - 3 * steps, steps, me, false)
        }
    }
    /// The number `by` places before `number`, where `by < ranks`.
    #[inline]
    fn back(self, number: u32, by: u32) -> u32 {
        if number >= by { number - by } else { number + self.ranks - by }
    }
    /// The number `by` places after `number`, where `by < ranks`.
    #[inline]
    fn on(self, number: u32, by: u32) -> u32 {
        self.back(number, self.ranks - by)
    }
    /// The block that belongs to number `number`.
    #[inline]
    fn block(self, number: u32) -> Blocks {
        Blocks::data(self.real(number), 1, self.ranks)
    }

    /// Reduce-scatter or all-gather: step `s` sends block `first - s` and receives block `first - s - 1`.
    #[inline]
    fn pass(self, me: u32, pc: u32, steps: u32, first: u32, reduce: bool) -> Option<Op> {
        let step = pc / 3;
        if step >= steps {
            return None;
        }
        let passed = self.back(first, step);
        Some(match pc % 3 {
            0 => Op::Send { to: self.real(self.on(me, 1)), blocks: self.block(passed) },
            1 => Op::Receive {
                from: self.real(self.back(me, 1)),
                blocks: self.block(self.back(passed, 1)),
                reduce,
            },
            _ => Op::Wait,
        })
    }

    /// All-to-all: the rank's own block is copied first; step `s` sends to distance `s + 1`.
    #[inline]
    fn exchange(self, me: u32, pc: u32, steps: u32) -> Option<Op> {
        let own = self.real(me);
        let Some(pc) = pc.checked_sub(1) else {
            let to = Blocks::output(own, 1, self.ranks);
            return Some(Op::Copy { from: Blocks::data(own, 1, self.ranks), to, reduce: false });
        };
        let distance = pc / 3 + 1;
        if distance > steps {
            return None;
        }
        Some(match pc % 3 {
            0 => {
                let to = self.real(self.on(me, distance));
                Op::Send { to, blocks: Blocks::data(to, 1, self.ranks) }
            }
            1 => {
                let from = self.real(self.back(me, distance));
                Op::Receive { from, blocks: Blocks::output(from, 1, self.ranks), reduce: false }
            }
            _ => Op::Wait,
        })
    }

    /// Sends the whole vector along a chain in which this rank has place `place`.
    #[inline]
    fn chain(self, me: u32, place: u32, pc: u32, reduce: bool) -> Option<Op> {
        let (first, last) = (place == 0, place == self.ranks - 1);
        let pc = if first { pc + 2 } else { pc };
        match pc {
            0 => Some(Op::Receive { from: self.real(self.back(me, 1)), blocks: Blocks::WHOLE, reduce }),
            1 if !first => Some(Op::Wait),
            2 if !last => Some(Op::Send { to: self.real(self.on(me, 1)), blocks: Blocks::WHOLE }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    #[test]
    fn rank_0_of_4_sends_as_in_the_documentation() {
        let sent = |kind| sends(&Ring, kind, 4, 0, 0);
        assert_eq!(sent(CollectiveKind::ReduceScatter), [(1, 3, 1, 4), (1, 2, 1, 4), (1, 1, 1, 4)]);
        assert_eq!(sent(CollectiveKind::AllGather), [(1, 0, 1, 4), (1, 3, 1, 4), (1, 2, 1, 4)]);
        assert_eq!(sent(CollectiveKind::AllToAll), [(1, 1, 1, 4), (2, 2, 1, 4), (3, 3, 1, 4)]);
        assert_eq!(sent(CollectiveKind::Broadcast), [(1, 0, 1, 1)]);
        assert!(sent(CollectiveKind::Reduce).is_empty());
    }

    #[test]
    fn reverse_sends_to_the_other_neighbour() {
        for &kind in CollectiveKind::ALL {
            let seat = Seat { kind, ranks: 5, index: 2, stream: 0, reverse: true };
            let first = crate::program::program(&Ring, seat).find_map(|op| match op {
                Op::Send { to, .. } => Some(to),
                _ => None,
            });
            assert_eq!(first, Some(1), "{kind}");
        }
    }

    #[test]
    fn plans_are_proved_for_every_number_of_ranks() {
        for &kind in CollectiveKind::ALL {
            assert_eq!(proves(&Ring, kind, 16), 16);
        }
    }
}
