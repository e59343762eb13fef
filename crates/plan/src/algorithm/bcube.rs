//! BCube: halving-doubling with base `B` instead of 2.
//!
//! Number the `N = B^k` ranks with `k` digits. In each step, the `B` ranks that differ in only one digit cut what
//! they hold into `B` pieces and do a direct reduce-scatter; a rank keeps `1/B` of it. After `k` steps it holds one
//! of `N` blocks; all-gather goes the other way. As in [`super::halving_doubling`], all-reduce starts with the lowest
//! digit, so that the largest messages go to the nearest ranks; reduce-scatter starts with the highest one, so that
//! rank `i` ends with block `i`.
//!
//! Source: luo2020 1.1.5 "BCube" ("each node in each round would peer with a unique node in another `B - 1` groups",
//! `S / B^i` in round `i`); Gloo's `allreduce_bcube`.
//!
//! | collective | rounds | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | `2 log_B N` | `2 S (N-1)/N` |
//! | reduce-scatter, all-gather | `log_B N` | `S (N-1)/N` |
//!
//! In round `i` (from 1) of the reduce-scatter, a rank sends `B - 1` messages of `S / B^i`.

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use syncline_units::CollectiveKind;

/// The BCube algorithm, for numbers of ranks that are powers of the base.
#[derive(Clone, Debug)]
pub struct BCube {
    base: u32,
    name: String,
}

const OFFERED: &[CollectiveKind] =
    &[CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather];

impl BCube {
    /// The default base.
    pub const BASE: u32 = 4;

    /// BCube with base `base`; `None` if that is below 2.
    pub fn new(base: u32) -> Option<Self> {
        let name = if base == Self::BASE { "bcube".to_owned() } else { format!("bcube(base={base})") };
        (base >= 2).then_some(Self { base, name })
    }
}

impl Default for BCube {
    fn default() -> Self {
        Self { base: Self::BASE, name: "bcube".to_owned() }
    }
}

impl Algorithm for BCube {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(&self.name, OFFERED, kind, ranks)?;
        if self.base.checked_pow(ranks.ilog(self.base)) != Some(ranks) {
            return Err(Refusal(format!(
                "`{}` needs a power of {} ranks, not {ranks}",
                self.name, self.base
            )));
        }
        Ok(())
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let (twice, n) = (if kind == CollectiveKind::AllReduce { 2 } else { 1 }, f64::from(ranks));
        let factor = f64::from(twice);
        let (wire, sent) = (factor * (n - 1.0), factor * (n - 1.0) / n);
        Some(ClosedForm { rounds: twice * ranks.ilog(self.base), wire, sent })
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let cube =
            Cube { base: self.base, ranks: seat.ranks, mirrored: seat.kind == CollectiveKind::AllReduce };
        let digits = seat.ranks.ilog(self.base);
        let step = pc / (2 * self.base - 1);
        let within = pc % (2 * self.base - 1);
        match seat.kind {
            CollectiveKind::AllReduce if step >= digits => {
                (step < 2 * digits).then(|| cube.gather(seat.index, step - digits, within))
            }
            _ if step >= digits => None,
            CollectiveKind::AllGather => Some(cube.gather(seat.index, step, within)),
            _ => Some(cube.scatter(seat.index, digits - 1 - step, within)),
        }
    }
}

/// `ranks` places, which are numbers of several digits in base `base`.
#[derive(Clone, Copy)]
struct Cube {
    base: u32,
    ranks: u32,
    /// Whether a rank's place is the number with its digits in reverse order.
    mirrored: bool,
}

impl Cube {
    /// The place of a rank.
    #[inline]
    fn place(self, rank: u32) -> u32 {
        if !self.mirrored {
            return rank;
        }
        let (mut rest, mut mirrored, mut left) = (rank, 0, self.ranks);
        while left > 1 {
            mirrored = mirrored * self.base + rest % self.base;
            rest /= self.base;
            left /= self.base;
        }
        mirrored
    }
    /// The place that differs from `place` by `by` (cyclically) in the digit of value `stride`.
    #[inline]
    fn turn(self, place: u32, stride: u32, by: u32) -> u32 {
        let digit = place / stride % self.base;
        place - digit * stride + (digit + by) % self.base * stride
    }
    /// The blocks of all places that agree with `place` in the digits of value `stride` and above.
    #[inline]
    fn blocks(self, place: u32, stride: u32) -> Blocks {
        Blocks::data(place - place % stride, stride, self.ranks)
    }
    /// Instruction `within` of the reduce-scatter step over digit `digit`: send each peer the blocks it keeps.
    #[inline]
    fn scatter(self, rank: u32, digit: u32, within: u32) -> Op {
        self.exchange(rank, digit, within, true)
    }
    /// Instruction `within` of the all-gather step over digit `digit`: send each peer this rank's blocks.
    #[inline]
    fn gather(self, rank: u32, digit: u32, within: u32) -> Op {
        self.exchange(rank, digit, within, false)
    }
    /// A send and a receive for each of the `base - 1` peers, then a wait.
    #[inline]
    fn exchange(self, rank: u32, digit: u32, within: u32, scatter: bool) -> Op {
        if within == 2 * (self.base - 1) {
            return Op::Wait;
        }
        let stride = self.base.pow(digit);
        // Peers are found without their places: a mirrored digit has the value that it has counted from the other
        // end.
        let apart = if self.mirrored { self.ranks / (stride * self.base) } else { stride };
        let place = self.place(rank);
        let by = within / 2 + 1;
        if within.is_multiple_of(2) {
            let kept = if scatter { self.turn(place, stride, by) } else { place };
            Op::Send { to: self.turn(rank, apart, by), blocks: self.blocks(kept, stride) }
        } else {
            let by = self.base - by;
            let kept = if scatter { place } else { self.turn(place, stride, by) };
            Op::Receive {
                from: self.turn(rank, apart, by),
                blocks: self.blocks(kept, stride),
                reduce: scatter,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    #[test]
    fn rank_4_of_9_sends_along_both_digits_of_its_number() {
        let cube = BCube::new(3).unwrap();
        assert_eq!(
            sends(&cube, CollectiveKind::AllReduce, 9, 4, 0),
            [
                (5, 6, 3, 9),
                (3, 0, 3, 9),
                (7, 5, 1, 9),
                (1, 3, 1, 9),
                (7, 4, 1, 9),
                (1, 4, 1, 9),
                (5, 3, 3, 9),
                (3, 3, 3, 9)
            ]
        );
        assert_eq!(
            sends(&cube, CollectiveKind::ReduceScatter, 9, 4, 0),
            [(7, 6, 3, 9), (1, 0, 3, 9), (5, 5, 1, 9), (3, 3, 1, 9)]
        );
    }

    #[test]
    fn plans_are_proved_for_powers_of_the_base_and_refused_for_others() {
        for (base, powers) in [(2, 7), (3, 4), (4, 4), (5, 3), (8, 3), (64, 2)] {
            for &kind in OFFERED {
                assert_eq!(proves(&BCube::new(base).unwrap(), kind, 64), powers, "{base}");
            }
        }
        let refusal = BCube::default().offers(CollectiveKind::AllReduce, 8).unwrap_err();
        assert_eq!(refusal.0, "`bcube` needs a power of 4 ranks, not 8");
        assert!(BCube::new(1).is_none());
    }
}
