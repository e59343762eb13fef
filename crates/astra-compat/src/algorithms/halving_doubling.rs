//! `halvingDoubling`: partners at distances 1, 2, 4, ... with halving messages, then back with doubling
//! messages. Powers of two only. ASTRA-sim 2, `HalvingDoubling.cc`.
//!
//! A reduction is charged for the bytes of the *next* message to be sent, not of the one received.

use super::{Command, Happened, Insertion, Members, Pattern};

/// The state machine of `halvingDoubling`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalvingDoubling {
    pattern: Pattern,
    /// Rounds: log2 of the number of ranks.
    rounds: u32,
    /// Messages still to be sent.
    to_send: u32,
    /// Bytes of the next message to be inserted.
    bytes: u64,
    /// Distance of its partner.
    distance: u32,
    /// Whether distances grow and messages shrink.
    halving: bool,
    /// The message that was inserted but not sent yet: partner and bytes.
    inserted: Option<(u32, u64)>,
    unreduced: u32,
    reduced: u32,
    round_reduces: bool,
    credit: u32,
}

impl HalvingDoubling {
    /// A phase over `count` ranks, a power of two, in which each holds `bytes`. There is no all-to-all.
    pub(crate) fn new(pattern: Pattern, count: u32, bytes: u64) -> Self {
        let rounds = count.ilog2();
        let gathers = pattern == Pattern::AllGather;
        Self {
            pattern,
            rounds,
            to_send: if pattern == Pattern::AllReduce { 2 * rounds } else { rounds },
            bytes: if gathers { bytes } else { bytes / 2 },
            distance: if gathers { count / 2 } else { 1 },
            halving: !gathers,
            inserted: None,
            unreduced: 0,
            reduced: 0,
            round_reduces: false,
            credit: 0,
        }
    }

    pub(super) fn step(&mut self, happened: Happened, members: &Members<'_>, wants: &mut Vec<Command>) {
        if happened != Happened::Inserted {
            self.insert(members, wants);
            return;
        }
        self.credit += 1;
        if self.to_send > 0
            && let Some((partner, bytes)) = self.inserted.take()
        {
            self.to_send -= 1;
            self.credit -= 1;
            wants.push(Command::Exchange { to: partner, from: partner, bytes });
        }
        if self.to_send == 0 && self.credit == 1 {
            wants.push(Command::Done);
        }
    }

    fn insert(&mut self, members: &Members<'_>, wants: &mut Vec<Command>) {
        if self.unreduced == 0 && self.reduced == 0 {
            self.unreduced = 1;
            self.reduced = self.rounds - 1;
            self.round_reduces = !self.round_reduces;
        }
        let to_unit = self.unreduced > 0;
        let send_back = !to_unit && self.reduced > 1;
        let reduce = if to_unit {
            self.unreduced -= 1;
            false
        } else {
            self.reduced -= 1;
            match self.pattern {
                Pattern::ReduceScatter => true,
                Pattern::AllReduce => self.round_reduces,
                Pattern::AllGather | Pattern::AllToAll => false,
            }
        };
        let (distance, bytes) = (self.distance, self.bytes);
        let forward = distance == 0 || (members.me / distance).is_multiple_of(2);
        self.inserted = Some((members.beside(distance, forward), bytes));
        wants.push(Command::Insert(Insertion { bytes, reduce, to_unit, send_back }));
        if self.halving {
            self.distance *= 2;
            self.bytes /= 2;
            if self.distance == members.count && self.pattern == Pattern::AllReduce {
                self.halving = false;
                self.distance /= 2;
                self.bytes = self.bytes.saturating_mul(2);
            }
        } else {
            self.distance /= 2;
            self.bytes = self.bytes.saturating_mul(2);
        }
    }
}
