//! Direct (the "alltoall" algorithm of astra2020): every rank exchanges with every other rank, in one step.
//!
//! Reduce-scatter: rank `i` sends block `j` to rank `j` and reduces the blocks `i` that come from all others.
//! All-gather: each rank sends its block to all others. All-to-all is reduce-scatter without reduction. All-reduce is
//! reduce-scatter, then all-gather. Broadcast and reduce: rank 0 sends to all, or receives from all.
//!
//! With a window of `w`, a rank exchanges messages with `w` peers at a time: the next `w` peers follow when all
//! messages of the first `w` have arrived. Peers are taken in order of distance, so that no rank is the first peer of
//! all. The window does not affect broadcast and reduce, where no rank waits for messages before it sends.
//!
//! Source: astra2020 III-B and Fig. 5 (right); dlrm2020 Table II "A2A"; hier2021 Table I.
//!
//! | collective | rounds | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | 2, with a window `2 ceil((N-1)/w)` | `2 S (N-1)/N` |
//! | reduce-scatter, all-gather, all-to-all | 1, with a window `ceil((N-1)/w)` | `S (N-1)/N` |
//! | broadcast | 1 | rank 0: `(N-1) S` |
//! | reduce | 1 | `S`, rank 0: 0 |

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use std::num::NonZeroU32;
use syncline_units::{CollectiveKind, Turn};

/// The direct algorithm.
#[derive(Clone, Debug)]
pub struct Direct {
    window: Option<NonZeroU32>,
    name: String,
}

impl Direct {
    /// Exchanges with at most `window` peers at a time, or with all at once.
    pub fn new(window: Option<NonZeroU32>) -> Self {
        let name = window.map_or("direct".to_owned(), |window| format!("direct(window={window})"));
        Self { window, name }
    }
}

impl Default for Direct {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Algorithm for Direct {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(&self.name, CollectiveKind::ALL, kind, ranks)
    }

    fn closed_form(&self, kind: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let n = f64::from(ranks);
        let share = (n - 1.0) / n;
        let batches = self.window.map_or(1, |window| (ranks - 1).div_ceil(window.get()));
        let (rounds, wire, sent) = match kind {
            CollectiveKind::AllReduce => (2 * batches, 2.0 * (n - 1.0), 2.0 * share),
            CollectiveKind::ReduceScatter | CollectiveKind::AllGather | CollectiveKind::AllToAll => {
                (batches, n - 1.0, share)
            }
            CollectiveKind::Broadcast => (1, n - 1.0, n - 1.0),
            CollectiveKind::Reduce => (1, n - 1.0, 1.0),
        };
        Some(ClosedForm { rounds, wire, sent })
    }

    fn turn(&self, kind: CollectiveKind, _ranks: u32) -> Option<Turn> {
        // Broadcast and reduce have a root, rank 0, so their ranks are not alike.
        (!kind.has_root()).then_some(Turn::Cyclic)
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let peers = seat.ranks - 1;
        if peers == 0 && seat.kind != CollectiveKind::AllToAll {
            return None;
        }
        let window = self.window.map_or(peers, |window| window.get().min(peers)).max(1);
        let length = 2 * peers + peers.div_ceil(window);
        match seat.kind {
            CollectiveKind::AllReduce if pc >= length => {
                exchange(seat, pc - length, window, Exchange::Gather)
            }
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter => {
                exchange(seat, pc, window, Exchange::Scatter)
            }
            CollectiveKind::AllGather => exchange(seat, pc, window, Exchange::Gather),
            CollectiveKind::AllToAll => match pc.checked_sub(1) {
                None => Some(Op::Copy {
                    from: Blocks::data(seat.index, 1, seat.ranks),
                    to: Blocks::output(seat.index, 1, seat.ranks),
                    reduce: false,
                }),
                Some(pc) => exchange(seat, pc, window, Exchange::Personal),
            },
            CollectiveKind::Broadcast if seat.index == 0 => {
                (pc < peers).then_some(Op::Send { to: pc + 1, blocks: Blocks::WHOLE })
            }
            CollectiveKind::Broadcast => {
                (pc == 0).then_some(Op::Receive { from: 0, blocks: Blocks::WHOLE, reduce: false })
            }
            CollectiveKind::Reduce if seat.index == 0 => {
                (pc < peers).then_some(Op::Receive { from: pc + 1, blocks: Blocks::WHOLE, reduce: true })
            }
            CollectiveKind::Reduce => (pc == 0).then_some(Op::Send { to: 0, blocks: Blocks::WHOLE }),
        }
    }
}

/// What each pair of ranks exchanges.
#[derive(Clone, Copy)]
enum Exchange {
    /// The peer's block, which the peer reduces.
    Scatter,
    /// The rank's own block.
    Gather,
    /// The peer's block, which the peer collects.
    Personal,
}

/// Instruction `pc` of an exchange with all peers: a send and a receive for each, and a wait after every `window`
/// peers.
#[inline]
fn exchange(seat: &Seat, pc: u32, window: u32, what: Exchange) -> Option<Op> {
    let (ranks, me, peers) = (seat.ranks, seat.index, seat.ranks - 1);
    let batch = pc / (2 * window + 1);
    let within = pc % (2 * window + 1);
    let before = batch * window;
    if before >= peers {
        return None;
    }
    let members = window.min(peers - before);
    if within >= 2 * members {
        return (within == 2 * members).then_some(Op::Wait);
    }
    let distance = before + within / 2 + 1;
    let block = |index| Blocks::data(index, 1, ranks);
    Some(if within.is_multiple_of(2) {
        let to = if me >= ranks - distance { me + distance - ranks } else { me + distance };
        let blocks = if matches!(what, Exchange::Gather) { block(me) } else { block(to) };
        Op::Send { to, blocks }
    } else {
        let from = if me >= distance { me - distance } else { me + ranks - distance };
        match what {
            Exchange::Scatter => Op::Receive { from, blocks: block(me), reduce: true },
            Exchange::Gather => Op::Receive { from, blocks: block(from), reduce: false },
            Exchange::Personal => Op::Receive { from, blocks: Blocks::output(from, 1, ranks), reduce: false },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};
    use crate::program::program;

    #[test]
    fn rank_1_of_4_sends_as_in_figure_5() {
        let sent = |kind| sends(&Direct::default(), kind, 4, 1, 0);
        assert_eq!(sent(CollectiveKind::ReduceScatter), [(2, 2, 1, 4), (3, 3, 1, 4), (0, 0, 1, 4)]);
        assert_eq!(sent(CollectiveKind::AllGather), [(2, 1, 1, 4), (3, 1, 1, 4), (0, 1, 1, 4)]);
    }

    #[test]
    fn a_window_waits_after_every_window_of_peers() {
        let direct = Direct::new(NonZeroU32::new(3));
        let seat = Seat { kind: CollectiveKind::AllGather, ranks: 9, index: 0, stream: 0, reverse: false };
        let shape: String = program(&direct, seat)
            .map(|op| match op {
                Op::Send { .. } => 's',
                Op::Receive { .. } => 'r',
                _ => 'w',
            })
            .collect();
        assert_eq!(shape, "srsrsrwsrsrsrwsrsrw");
    }

    #[test]
    fn plans_are_proved_for_every_number_of_ranks() {
        for window in [None, NonZeroU32::new(1), NonZeroU32::new(3), NonZeroU32::new(100)] {
            for &kind in CollectiveKind::ALL {
                assert_eq!(proves(&Direct::new(window), kind, 12), 12);
            }
        }
    }
}
