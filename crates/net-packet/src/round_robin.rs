//! Round robin at a port of an NPU that forwards packets: each incoming link with packets for the port, and the NPU itself, get
//! an equal share of it, as the input ports of a router with a round-robin switch allocator do (Dally and Towles, "Principles
//! and Practices of Interconnection Networks", 2004, chapter 18).
//!
//! Shares are counted in bytes by surplus round robin (Adiseshu, Parulkar and Varghese, "A Reliable and Scalable Striping
//! Protocol", SIGCOMM 1996): in its turn an input gets credit for one packet of the greatest length, and sends until the
//! credit is used up. Bytes that its last packet takes beyond that count against its next turn.

use crate::packet::Waiting;
use std::collections::VecDeque;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The NPU's, if it has something to send.
    Own,
    /// The turn of the input with this number.
    Input(usize),
}

/// Packets that one link brought.
#[derive(Clone, Debug, Default)]
struct Input {
    queue: VecDeque<Waiting>,
    /// Bytes that it may still send in its turn.
    credit: i64,
}

/// The inputs of a port, and whose turn it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundRobin {
    /// The link of each input, in the order of their first packets.
    links: Vec<u32>,
    inputs: Vec<Input>,
    /// Credit of the NPU itself.
    own: i64,
    /// The order of turns, the current one first: the NPU, and the inputs with packets.
    round: VecDeque<Next>,
}

impl RoundRobin {
    /// Adds a packet that came over the link `waiting.from`. The longest packet has `longest` bytes.
    pub(crate) fn push(&mut self, waiting: Waiting, longest: u64) {
        if self.round.is_empty() {
            self.round.push_back(Next::Own);
        }
        let number = self.links.iter().position(|&link| link == waiting.from).unwrap_or_else(|| {
            self.links.push(waiting.from);
            self.inputs.push(Input::default());
            self.links.len() - 1
        });
        let input = &mut self.inputs[number];
        if input.queue.is_empty() {
            input.credit += longest as i64;
            self.round.push_back(Next::Input(number));
        }
        input.queue.push_back(waiting);
    }

    /// Whether there is nothing to forward.
    pub(crate) fn is_empty(&self) -> bool {
        self.round.len() <= 1
    }

    /// Returns whose turn it is. There must be something to forward.
    pub(crate) fn next(&mut self, longest: u64) -> Next {
        loop {
            let next = self.round[0];
            let credit = match next {
                Next::Own => self.own,
                Next::Input(number) => self.inputs[number].credit,
            };
            if credit > 0 {
                return next;
            }
            self.end_turn(longest);
        }
    }

    /// Takes the next packet of the input that has its turn.
    pub(crate) fn take(&mut self, number: usize) -> Option<Waiting> {
        let input = &mut self.inputs[number];
        let waiting = input.queue.pop_front()?;
        input.credit -= i64::from(waiting.bytes);
        if input.queue.is_empty() {
            // An input that runs empty keeps its debt, but not its credit.
            input.credit = input.credit.min(0);
            self.round.pop_front();
        }
        Some(waiting)
    }

    /// Charges the NPU for `bytes` that it sends in its turn.
    pub(crate) fn sends(&mut self, bytes: u32) {
        self.own -= i64::from(bytes);
    }

    /// Ends the NPU's turn, as it has nothing to send.
    pub(crate) fn skips(&mut self, longest: u64) {
        self.own = self.own.min(0);
        self.end_turn(longest);
    }

    /// Ends the current turn, and gives credit for the next turn of the same input.
    fn end_turn(&mut self, longest: u64) {
        let Some(had) = self.round.pop_front() else { return };
        match had {
            Next::Own => self.own += longest as i64,
            Next::Input(number) => self.inputs[number].credit += longest as i64,
        }
        self.round.push_back(had);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;

    const LONGEST: u64 = 1500;

    fn waiting(from: u32, bytes: u32) -> Waiting {
        Waiting { packet: Packet::default(), bytes, from, came: 0 }
    }

    /// Returns who sends the next `count` packets: a link's number, or -1 for the NPU, which always has full
    /// packets to send if `own`.
    fn order(round_robin: &mut RoundRobin, own: bool, count: usize) -> Vec<i64> {
        let mut order = Vec::new();
        while order.len() < count && !round_robin.is_empty() {
            match round_robin.next(LONGEST) {
                Next::Input(number) => order.push(i64::from(round_robin.take(number).unwrap().from)),
                Next::Own if own => {
                    round_robin.sends(LONGEST as u32);
                    order.push(-1);
                }
                Next::Own => round_robin.skips(LONGEST),
            }
        }
        order
    }

    /// An input that sent little so far still gets no more than its share later.
    #[test]
    fn credit_is_not_saved_up() {
        let mut round_robin = RoundRobin::default();
        for _ in 0..50 {
            round_robin.push(waiting(7, 84), LONGEST);
            assert_eq!(order(&mut round_robin, false, 1), [7]);
        }
        for _ in 0..20 {
            round_robin.push(waiting(7, 1500), LONGEST);
            round_robin.push(waiting(9, 1500), LONGEST);
        }
        // The NPU was skipped often, and sends from now on.
        let sent = order(&mut round_robin, true, 30);
        for who in [7, 9, -1] {
            let count = sent.iter().filter(|&&each| each == who).count();
            assert!((9..=11).contains(&count), "{who}: {count} of {sent:?}");
        }
    }

    /// Ten short packets count as much as one packet ten times as long.
    #[test]
    fn short_packets_go_together() {
        let mut round_robin = RoundRobin::default();
        for _ in 0..40 {
            round_robin.push(waiting(7, 150), LONGEST);
        }
        for _ in 0..4 {
            round_robin.push(waiting(9, 1500), LONGEST);
        }
        let sent = order(&mut round_robin, false, 44);
        let before = |at: usize| sent[..at].iter().filter(|&&each| each == 7).count();
        let nines: Vec<usize> = (0..sent.len()).filter(|&at| sent[at] == 9).map(before).collect();
        assert_eq!(nines, [10, 20, 30, 40]);
    }
}
