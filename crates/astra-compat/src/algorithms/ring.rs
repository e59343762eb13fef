//! `ring`: each rank sends to one neighbour and receives from the other; all-to-all forwards blocks in
//! n(n-1)/2 neighbour steps. ASTRA-sim 2, `Ring.cc`.
//!
//! Every message passes the endpoint before it is sent: once at the start and once for each message received,
//! including the last. Whether an insertion also reduces alternates in blocks: `unreduced` insertions without
//! reduction, then `reduced` with.

use super::{Command, Happened, Insertion, Members, Pattern};

/// The state machine of `ring`, and of `direct` ([`super::direct`]), which in ASTRA-sim is a kind of ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pattern: Pattern,
    /// Whether peers lie in the direction of ascending positions.
    forward: bool,
    /// Whether peers are all other ranks in turn instead of the neighbours.
    direct: bool,
    /// Whether the second half of an all-reduce must wait for all messages of the first (`direct` only).
    halves: bool,
    /// Bytes of a message.
    bytes: u64,
    /// Messages that may be in flight.
    window: u32,
    /// Insertions of a block that reduce.
    reducing_block: u64,
    /// Messages still to be sent.
    to_send: u64,
    /// Messages that may be sent now.
    credit: u64,
    /// Messages received.
    received: u64,
    /// Insertions made whose message has not been sent yet.
    inserted: u64,
    /// Distance of the peer of the next message.
    distance: u32,
    /// Insertions left in the block without reduction, and in the one with it.
    unreduced: u32,
    reduced: u64,
    /// Whether the block with reduction reduces for an all-reduce: in odd rounds only.
    round_reduces: bool,
}

impl Ring {
    /// A phase over `count` ranks in which each holds `bytes`.
    pub(crate) fn new(pattern: Pattern, count: u32, bytes: u64, forward: bool) -> Self {
        let n = u64::from(count);
        Self {
            pattern,
            forward,
            direct: false,
            halves: false,
            bytes: if pattern == Pattern::AllGather { bytes } else { bytes / n },
            window: 1,
            reducing_block: n - 1,
            to_send: match pattern {
                Pattern::AllReduce => 2 * (n - 1),
                Pattern::AllToAll => (n - 1) * n / 2,
                Pattern::AllGather | Pattern::ReduceScatter => n - 1,
            },
            credit: 0,
            received: 0,
            inserted: 0,
            distance: 1,
            unreduced: 0,
            reduced: 0,
            round_reduces: false,
        }
    }

    /// Turns it into `direct` with `window` messages in flight. `listed` means a group that is only part of
    /// the machine, where ASTRA-sim reduces in a different rhythm (`RingTopology::Dimension::Local`).
    pub(super) fn into_direct(self, count: u32, window: u32, listed: bool) -> Self {
        let others = u64::from(count - 1);
        Self {
            direct: true,
            halves: self.pattern == Pattern::AllReduce,
            window,
            reducing_block: if listed { others * u64::from(window) } else { window.into() },
            to_send: if self.pattern == Pattern::AllToAll { others } else { self.to_send },
            ..self
        }
    }

    pub(super) fn step(&mut self, happened: Happened, members: &Members<'_>, wants: &mut Vec<Command>) {
        match happened {
            Happened::Start => (0..self.window).for_each(|_| self.insert(wants)),
            Happened::Received => {
                self.received += 1;
                self.insert(wants);
            }
            Happened::Inserted => {
                self.credit += 1;
                let others = u64::from(members.count - 1);
                if self.halves && self.to_send <= others {
                    if self.received < others {
                        return;
                    }
                    (0..self.window).for_each(|_| self.send(members, wants));
                } else {
                    self.send(members, wants);
                }
                if self.to_send == 0 && self.credit == u64::from(self.window) {
                    wants.push(Command::Done);
                }
            }
        }
    }

    fn insert(&mut self, wants: &mut Vec<Command>) {
        if self.unreduced == 0 && self.reduced == 0 {
            self.unreduced = self.window;
            self.reduced = self.reducing_block;
            self.round_reduces = !self.round_reduces;
        }
        let to_unit = self.unreduced > 0;
        let send_back = !to_unit && self.reduced > u64::from(self.window);
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
        self.inserted += 1;
        wants.push(Command::Insert(Insertion { bytes: self.bytes, reduce, to_unit, send_back }));
    }

    fn send(&mut self, members: &Members<'_>, wants: &mut Vec<Command>) {
        if self.inserted == 0 || self.to_send == 0 || self.credit == 0 {
            return;
        }
        let distance = self.distance;
        if self.direct {
            self.distance = distance % (members.count - 1) + 1;
        }
        self.inserted -= 1;
        self.to_send -= 1;
        self.credit -= 1;
        wants.push(Command::Exchange {
            to: members.beside(distance, self.forward),
            from: members.beside(distance, !self.forward),
            bytes: self.bytes,
        });
    }
}
