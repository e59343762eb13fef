//! Turns at a port of an NPU that forwards packets: each link that brings some, and the NPU itself, have equal parts of the
//! port while they have something to send, as the input ports of a router whose switch allocator is a round robin (Dally and
//! Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 18).
//!
//! Parts are counted in bytes by surplus round robin (Adiseshu, Parulkar and Varghese, "A Reliable and Scalable Striping
//! Protocol", SIGCOMM 1996): in its turn an input gets credit for one packet of the longest kind, and sends until that is
//! used up. What its last packet takes beyond that is taken from its next turn.

use crate::gate::Waiting;
use std::collections::VecDeque;

/// Who sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The NPU, if it has something to send.
    Own,
    /// An input, by its number.
    Input(usize),
}

/// Packets that came over one link.
#[derive(Clone, Debug, Default)]
struct Input {
    queue: VecDeque<Waiting>,
    /// Bytes that it may still send in its turn.
    credit: i64,
}

/// The inputs of a port in their turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// The link of each input, in the order of their first packets.
    links: Vec<u32>,
    inputs: Vec<Input>,
    /// Credit of the NPU itself.
    own: i64,
    /// Whose turn it is first. Holds the NPU, and the inputs that have packets.
    round: VecDeque<Next>,
}

impl Turns {
    /// A packet comes over the link `waiting.from`. The longest packet has `longest` bytes.
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

    /// Whether nothing is here that a link has brought.
    pub(crate) fn is_empty(&self) -> bool {
        self.round.len() <= 1
    }

    /// Whose turn it is; there is a packet that a link has brought.
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
            // Debts are kept, credit is not.
            input.credit = input.credit.min(0);
            self.round.pop_front();
        }
        Some(waiting)
    }

    /// The NPU sends `bytes` in its turn.
    pub(crate) fn sends(&mut self, bytes: u32) {
        self.own -= i64::from(bytes);
    }

    /// The NPU has nothing to send in its turn.
    pub(crate) fn skips(&mut self, longest: u64) {
        self.own = self.own.min(0);
        self.end_turn(longest);
    }

    /// The next one has its turn. Whoever had it gets credit for the turn after that.
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

    /// Who sends the next `count` packets: a link's number, or -1 for the NPU, which has full ones without end if `own`.
    fn order(turns: &mut Turns, own: bool, count: usize) -> Vec<i64> {
        let mut order = Vec::new();
        while order.len() < count && !turns.is_empty() {
            match turns.next(LONGEST) {
                Next::Input(number) => order.push(i64::from(turns.take(number).unwrap().from)),
                Next::Own if own => {
                    turns.sends(LONGEST as u32);
                    order.push(-1);
                }
                Next::Own => turns.skips(LONGEST),
            }
        }
        order
    }

    /// Who sent little before has no more of what comes then.
    #[test]
    fn credit_is_not_saved_up() {
        let mut turns = Turns::default();
        for _ in 0..50 {
            turns.push(waiting(7, 84), LONGEST);
            assert_eq!(order(&mut turns, false, 1), [7]);
        }
        for _ in 0..20 {
            turns.push(waiting(7, 1500), LONGEST);
            turns.push(waiting(9, 1500), LONGEST);
        }
        // The NPU was skipped often, and sends from now on.
        let sent = order(&mut turns, true, 30);
        for who in [7, 9, -1] {
            let count = sent.iter().filter(|&&each| each == who).count();
            assert!((9..=11).contains(&count), "{who}: {count} of {sent:?}");
        }
    }

    /// Ten short packets weigh as much as one of ten times their length.
    #[test]
    fn short_packets_go_together() {
        let mut turns = Turns::default();
        for _ in 0..40 {
            turns.push(waiting(7, 150), LONGEST);
        }
        for _ in 0..4 {
            turns.push(waiting(9, 1500), LONGEST);
        }
        let sent = order(&mut turns, false, 44);
        let before = |at: usize| sent[..at].iter().filter(|&&each| each == 7).count();
        let nines: Vec<usize> = (0..sent.len()).filter(|&at| sent[at] == 9).map(before).collect();
        assert_eq!(nines, [10, 20, 30, 40]);
    }
}
