//! Both halves against an adversary that drops, repeats, delays and swaps packets in flight. Checks
//! reassembly, the scoreboard, and the RFCs' rules on windows and sequence numbers.

use super::ranges::Blocks;
use super::receiver::{Answer, Receiver};
use super::sender::Sender;
use crate::parameters::{Congestion, Parameters};
use crate::profile::Profile;
use proptest::prelude::*;
use std::collections::BTreeSet;
use syncline_units::{Bytes, Time};

const MSS: u64 = 8;
/// Picoseconds between two steps.
const STEP: u64 = 1_000_000;

/// A segment or an acknowledgement in flight.
#[derive(Clone, Copy, Debug)]
enum Under {
    Data { start: u64, length: u64, stamp: u64, marked: bool },
    Ack { ack: u64, stamp: u64, echo: bool, blocks: Option<Blocks> },
}

struct Wire {
    sender: Sender,
    receiver: Receiver,
    profile: Profile,
    now: u64,
    under_way: Vec<Under>,
    /// Bytes that reached the receiver.
    came: BTreeSet<u64>,
    /// Bytes that acknowledgements told the sender the receiver holds.
    told: BTreeSet<u64>,
}

impl Wire {
    fn new(congestion: Congestion, window: u64, every: u32) -> Self {
        let parameters = Parameters {
            mtu: Bytes(MSS + 52),
            congestion: Some(congestion),
            window: Some(Bytes(window * MSS)),
            segments_per_ack: every,
            min_timeout: Time(50 * STEP),
            initial_timeout: Time(100 * STEP),
            ..Parameters::default()
        };
        let profile = Profile::new(&parameters);
        Self {
            sender: Sender::new(&profile),
            receiver: Receiver::default(),
            profile,
            now: 0,
            under_way: Vec::new(),
            came: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    /// Sends what may be sent, and checks every segment against the rules.
    fn send(&mut self) {
        let una = self.sender.una;
        loop {
            // A rescue may follow a segment that was first sent just before (RFC 6675, NextSeg rule 4).
            let next = self.sender.next;
            let Some(segment) = self.sender.segment(self.now, &self.profile) else { break };
            let end = segment.start + segment.length;
            assert!(
                segment.length > 0 && segment.length <= MSS,
                "a segment is no longer than the MSS: {segment:?}"
            );
            assert!(
                segment.start >= una && end <= self.sender.end,
                "{segment:?} lies within what was written"
            );
            assert!(end <= una + self.profile.window, "{segment:?} is beyond the receiver's window");
            assert_eq!(segment.again, segment.start < next, "{segment:?} with {next} as the next byte");
            if segment.again {
                let held = (segment.start..end).all(|byte| self.told.contains(&byte));
                assert!(!held, "{segment:?} was sent again though the receiver said that it has it");
            }
            let stamp = self.now;
            self.under_way.push(Under::Data {
                start: segment.start,
                length: segment.length,
                stamp,
                marked: false,
            });
        }
        assert!(self.sender.una <= self.sender.next && self.sender.next <= self.sender.end);
        assert!(self.sender.control.window >= 1, "a window is never empty");
        assert!(
            self.sender.una == self.sender.next || self.sender.deadline != u64::MAX,
            "unacknowledged data has a timer"
        );
    }

    fn acknowledge(&mut self, before: Option<u64>, echo: bool) {
        self.receiver.acknowledged();
        let ack = before.unwrap_or(self.receiver.expected);
        let stamp = u64::from(self.receiver.stamp);
        self.under_way.push(Under::Ack { ack, stamp, echo, blocks: self.receiver.blocks() });
    }

    /// Delivers a segment or an acknowledgement.
    fn arrive(&mut self, under: Under) {
        match under {
            Under::Data { start, length, stamp, marked } => {
                self.came.extend(start..start + length);
                let before = self.receiver.expected;
                let stamp = u32::try_from(stamp / STEP).unwrap();
                match self.receiver.data(start, length, stamp, marked, self.profile.segments_per_ack) {
                    Answer::Now => self.acknowledge(None, marked),
                    Answer::Before => {
                        self.acknowledge(Some(before), !marked);
                        self.receiver.acknowledged_but_last(stamp);
                        assert!(
                            self.receiver.owes(),
                            "the segment that changed the mark still awaits its acknowledgement"
                        );
                    }
                    Answer::Later => {}
                }
                // Reassembly: everything before `expected` has arrived, and the byte at `expected` has not.
                let whole = (0..).take_while(|byte| self.came.contains(byte)).count() as u64;
                assert_eq!(self.receiver.expected, whole);
                for &(from, to) in self.receiver.blocks().iter().flatten() {
                    assert!((from..to).all(|byte| self.came.contains(&byte)), "{from}..{to} has not arrived");
                    assert!(from == to || from > self.receiver.expected, "{from}..{to} is not behind a gap");
                }
            }
            Under::Ack { ack, stamp, echo, blocks } => {
                let before = self.sender.una;
                // An old acknowledgement may be ignored entirely (RFC 9293, 3.10.7.4).
                if ack >= before {
                    self.told.extend(blocks.iter().flatten().flat_map(|&(from, to)| from..to));
                }
                let rtt = self.now.saturating_sub(stamp * STEP).max(1);
                self.sender.acknowledge(self.now, ack, rtt, echo, blocks.as_ref(), &self.profile);
                assert!(self.sender.una >= before, "an old acknowledgement does not move `una` back");
                assert!(
                    self.sender.una <= self.receiver.expected,
                    "only bytes that have arrived are acknowledged"
                );
            }
        }
    }

    /// Lets time pass, and runs timers that are due.
    fn pass(&mut self, steps: u64) {
        self.now += steps * STEP;
        if self.receiver.owes() && steps > 40 {
            let marked = self.receiver.is_marked();
            self.acknowledge(None, marked);
        }
        if self.sender.deadline <= self.now {
            self.sender.time_out(self.now, &self.profile);
        }
    }
}

/// What the adversary does to packets in flight; `which` selects one.
#[derive(Clone, Copy, Debug)]
enum Move {
    Deliver(usize),
    Drop(usize),
    Repeat(usize),
    Mark(usize),
    Pass(u64),
    Write(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0usize..40).prop_map(Move::Deliver),
        2 => (0usize..40).prop_map(Move::Drop),
        1 => (0usize..40).prop_map(Move::Repeat),
        1 => (0usize..40).prop_map(Move::Mark),
        2 => (1u64..200).prop_map(Move::Pass),
        1 => (1u64..30 * MSS).prop_map(Move::Write),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order_whatever_happens(
        congestion in prop::sample::select(vec![Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp]),
        window in 2u64..60,
        every in 1u32..4,
        moves in prop::collection::vec(moves(), 0..300),
    ) {
        let mut wire = Wire::new(congestion, window, every);
        wire.sender.write(0, 20 * MSS, &wire.profile);
        for each in moves {
            wire.send();
            let at = |which: usize| (!wire.under_way.is_empty()).then(|| which % wire.under_way.len());
            match each {
                Move::Deliver(which) => {
                    if let Some(at) = at(which) {
                        let under = wire.under_way.remove(at);
                        wire.arrive(under);
                    }
                }
                Move::Drop(which) => {
                    if let Some(at) = at(which) {
                        wire.under_way.remove(at);
                    }
                }
                Move::Repeat(which) => {
                    if let Some(at) = at(which) {
                        let under = wire.under_way[at];
                        wire.arrive(under);
                    }
                }
                Move::Mark(which) => {
                    if let Some(at) = at(which)
                        && let Under::Data { marked, .. } = &mut wire.under_way[at]
                    {
                        *marked = true;
                    }
                }
                Move::Pass(steps) => wire.pass(steps),
                Move::Write(bytes) => wire.sender.write(wire.now, bytes, &wire.profile),
            }
        }
        // The adversary stops: everything arrives in order, and the transfer completes.
        for round in 0..20_000 {
            wire.send();
            if wire.under_way.is_empty() {
                if wire.sender.is_idle() {
                    break;
                }
                wire.pass(100);
            } else {
                let under = wire.under_way.remove(0);
                wire.arrive(under);
                wire.now += STEP / 10;
            }
            prop_assert!(round < 19_999, "the transfer does not complete");
        }
        prop_assert_eq!(wire.sender.una, wire.sender.end);
        prop_assert_eq!(wire.receiver.expected, wire.sender.end);
        prop_assert_eq!(wire.came.len() as u64, wire.sender.end);
    }
}
