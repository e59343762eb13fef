//! Halving-doubling: from step to step the amount of data halves and the distance doubles, then the reverse.
//!
//! With `N` a power of two, reduce-scatter takes `log2 N` steps: a rank exchanges half of what it still holds with a
//! partner and reduces what it receives. All-gather doubles what a rank has in each of `log2 N` steps. All-reduce is
//! reduce-scatter followed by all-gather.
//!
//! *Which partner.* In between, all-reduce may leave any block at any rank, so it starts with the partner at distance
//! 1: the largest messages go to the nearest ranks (luo2020 1.1.5: "doubling the distance while halving the amount").
//! Reduce-scatter and all-gather assign block `i` to rank `i`, and blocks stay contiguous only if reduce-scatter
//! starts with the partner at distance `N/2`, and all-gather ends with it.
//!
//! *Any N.* Let `p` be the largest power of two that is at most `N`, and `e = N - p` the surplus. In each pair of
//! ranks `2v, 2v + 1` with `v < e`, the odd rank first sends its data to the even one and then takes no part; at the
//! end the even one sends it the result. The other ranks take part as they are. So `p` ranks take part, numbered `v`.
//! In reduce-scatter and all-gather, number `v` represents the blocks of all ranks that it acts for, which are
//! neighbours; the first of them is `v + min(v, e)`. All-reduce cuts the vector into `p` equal blocks.
//!
//! Source: luo2020 1.1.5 "Halving Doubling"; hier2021 Table I; the surplus as in Thakur, Rabenseifner, Gropp (2005).
//!
//! | collective | rounds | bytes sent by a rank, `N = p` |
//! |---|---|---|
//! | all-reduce | `2 log2 p`, and 2 where `e > 0` | `2 S (N-1)/N` |
//! | reduce-scatter, all-gather | `log2 p`, and 2 where `e > 0` | `S (N-1)/N` |
//!
//! A rank without surplus in an all-reduce sends `2 S (p-1)/p`; one that acts for another sends `S` more; that other
//! sends `S`.

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use syncline_units::{CollectiveKind, Turn};

/// The halving-doubling algorithm, for any number of ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct HalvingDoubling;

const OFFERED: &[CollectiveKind] =
    &[CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather];

impl Algorithm for HalvingDoubling {
    fn name(&self) -> &str {
        "halving_doubling"
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(self.name(), OFFERED, kind, ranks)
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let twice = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
        let (steps, n) = (ranks.ilog2(), f64::from(ranks));
        let (paired, surplus) = (f64::from(1 << steps), ranks - (1 << steps));
        let factor = f64::from(twice);
        if surplus == 0 {
            let (wire, sent) = (factor * (n - 1.0), factor * (n - 1.0) / n);
            return Some(ClosedForm { rounds: twice * steps, wire, sent });
        }
        // Folding in and out sends two vectors for each surplus rank. The closed form for blocks that represent two
        // ranks is not simple.
        (twice == 2).then(|| ClosedForm {
            rounds: 2 * steps + 2,
            wire: 2.0 * (paired - 1.0) + 2.0 * f64::from(surplus),
            sent: 2.0 * (paired - 1.0) / paired + 1.0,
        })
    }

    fn turn(&self, _kind: CollectiveKind, ranks: u32) -> Option<Turn> {
        // Surplus ranks have other programs than the rest.
        ranks.is_power_of_two().then_some(Turn::Xor)
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let fold = Fold::new(seat);
        let Some(number) = fold.number(seat.index) else {
            return fold.surplus(seat.index, pc);
        };
        let steps = fold.steps * if seat.kind == CollectiveKind::AllReduce { 2 } else { 1 };
        if !fold.acts_for_two(number) {
            return (pc < 3 * steps).then(|| fold.step(number, pc));
        }
        let other = seat.index + 1;
        match pc {
            0 => {
                let (blocks, reduce) = match seat.kind {
                    CollectiveKind::AllGather => (Blocks::data(other, 1, seat.ranks), false),
                    _ => (Blocks::WHOLE, true),
                };
                Some(Op::Receive { from: other, blocks, reduce })
            }
            1 => Some(Op::Wait),
            _ if pc - 2 < 3 * steps => Some(fold.step(number, pc - 2)),
            _ if pc - 2 == 3 * steps => Some(Op::Send { to: other, blocks: fold.result(other) }),
            _ => None,
        }
    }
}

/// The ranks, folded onto a power of two.
#[derive(Clone, Copy)]
struct Fold {
    kind: CollectiveKind,
    ranks: u32,
    /// `log2 p`.
    steps: u32,
    /// `e`.
    surplus: u32,
}

impl Fold {
    #[inline]
    fn new(seat: &Seat) -> Self {
        let steps = seat.ranks.ilog2();
        Self { kind: seat.kind, ranks: seat.ranks, steps, surplus: seat.ranks - (1 << steps) }
    }
    /// The number of a rank that takes part; `None` for surplus ranks.
    #[inline]
    fn number(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.surplus {
            Some(rank - self.surplus)
        } else {
            rank.is_multiple_of(2).then_some(rank / 2)
        }
    }
    #[inline]
    fn acts_for_two(self, number: u32) -> bool {
        number < self.surplus
    }
    /// The rank with this number, which is also the first block that the number represents.
    #[inline]
    fn rank(self, number: u32) -> u32 {
        number + number.min(self.surplus)
    }
    /// What a surplus rank receives at the end.
    #[inline]
    fn result(self, rank: u32) -> Blocks {
        if self.kind == CollectiveKind::ReduceScatter {
            Blocks::data(rank, 1, self.ranks)
        } else {
            Blocks::WHOLE
        }
    }
    /// The program of a surplus rank: it sends its data to its neighbour and receives the result.
    #[inline]
    fn surplus(self, rank: u32, pc: u32) -> Option<Op> {
        let to = rank - 1;
        match pc {
            0 if self.kind == CollectiveKind::AllGather => {
                Some(Op::Send { to, blocks: Blocks::data(rank, 1, self.ranks) })
            }
            0 => Some(Op::Send { to, blocks: Blocks::WHOLE }),
            1 => Some(Op::Receive { from: to, blocks: self.result(rank), reduce: false }),
            _ => None,
        }
    }
    /// The blocks that numbers `first..first + count` represent.
    #[inline]
    fn blocks(self, first: u32, count: u32) -> Blocks {
        if self.kind == CollectiveKind::AllReduce {
            return Blocks::data(first, count, 1 << self.steps);
        }
        let start = self.rank(first);
        Blocks::data(start, self.rank(first + count) - start, self.ranks)
    }
    /// In all-reduce, ranks swap places with those whose bits are reversed: partners at distance `p/2` become
    /// neighbours.
    #[inline]
    fn place(self, number: u32) -> u32 {
        if self.kind == CollectiveKind::AllReduce && self.steps > 0 {
            number.reverse_bits() >> (32 - self.steps)
        } else {
            number
        }
    }
    /// Instruction `pc` of the exchange: send, receive, wait for each step.
    #[inline]
    fn step(self, number: u32, pc: u32) -> Op {
        let step = pc / 3;
        let halving = self.kind != CollectiveKind::AllGather && step < self.steps;
        let half = if halving {
            1 << (self.steps - 1 - step)
        } else {
            1 << (step - if self.kind == CollectiveKind::AllReduce { self.steps } else { 0 })
        };
        let place = self.place(number);
        let partner = self.rank(self.place(place ^ half));
        let mine = place & !(half - 1);
        let theirs = mine ^ half;
        let (out, kept) = if halving { (theirs, mine) } else { (mine, theirs) };
        match pc % 3 {
            0 => Op::Send { to: partner, blocks: self.blocks(out, half) },
            1 => Op::Receive { from: partner, blocks: self.blocks(kept, half), reduce: halving },
            _ => Op::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    #[test]
    fn an_all_reduce_sends_most_to_the_nearest_rank() {
        assert_eq!(
            sends(&HalvingDoubling, CollectiveKind::AllReduce, 8, 0, 0),
            [(1, 4, 4, 8), (2, 2, 2, 8), (4, 1, 1, 8), (4, 0, 1, 8), (2, 0, 2, 8), (1, 0, 4, 8)]
        );
    }

    #[test]
    fn reduce_scatter_halves_and_all_gather_doubles_the_blocks_sent() {
        assert_eq!(
            sends(&HalvingDoubling, CollectiveKind::ReduceScatter, 8, 5, 0),
            [(1, 0, 4, 8), (7, 6, 2, 8), (4, 4, 1, 8)]
        );
        assert_eq!(
            sends(&HalvingDoubling, CollectiveKind::AllGather, 8, 5, 0),
            [(4, 5, 1, 8), (7, 4, 2, 8), (1, 4, 4, 8)]
        );
    }

    #[test]
    fn the_surplus_of_six_ranks_is_folded_into_pairs() {
        let sent = |rank| sends(&HalvingDoubling, CollectiveKind::ReduceScatter, 6, rank, 0);
        assert_eq!(sent(0), [(4, 4, 2, 6), (2, 2, 2, 6), (1, 1, 1, 6)]);
        assert_eq!(sent(1), [(0, 0, 1, 1)]);
        assert_eq!(sent(4), [(0, 0, 4, 6), (5, 5, 1, 6)]);
    }

    #[test]
    fn plans_are_proved_for_every_number_of_ranks() {
        for &kind in OFFERED {
            assert_eq!(proves(&HalvingDoubling, kind, 20), 20);
        }
    }

    #[test]
    fn other_collectives_are_refused_by_name() {
        let refusal = HalvingDoubling.offers(CollectiveKind::AllToAll, 8).unwrap_err();
        assert_eq!(
            refusal.0,
            "`halving_doubling` offers all_reduce, reduce_scatter, all_gather, not all_to_all"
        );
    }
}
