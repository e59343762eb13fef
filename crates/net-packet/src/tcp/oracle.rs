//! Compares the sender with a second implementation of RFC 6675, written word by word in whole segments: both
//! must send the same.

use super::receiver::{Answer, Receiver};
use super::sender::Sender;
use crate::parameters::{Congestion, Parameters};
use crate::profile::Profile;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use syncline_units::{Bytes, Time};

const MSS: u64 = 1_000;
const DUP_THRESH: usize = 3;
/// Steps of a round trip.
const ROUND: u64 = 50;

/// RFC 6675 with the congestion control of RFC 5681, in whole segments numbered from 0. Where the RFC names
/// the highest sequence number, a bound here is one more.
struct Oracle {
    /// HighACK + 1
    acknowledged: u64,
    /// HighData + 1
    sent: u64,
    written: u64,
    window: u64,
    sacked: BTreeSet<u64>,
    duplicates: usize,
    /// RecoveryPoint, HighRxt + 1 and RescueRxt + 1, in a loss recovery.
    recovery: Option<(u64, u64, u64)>,
    /// In bytes.
    cwnd: u64,
    ssthresh: u64,
    recoveries: u64,
}

impl Oracle {
    fn is_lost(&self, segment: u64) -> bool {
        let above: Vec<u64> = self.sacked.iter().copied().filter(|&sacked| sacked > segment).collect();
        let runs = above.iter().filter(|&&each| !self.sacked.contains(&(each - 1))).count();
        // "either when DupThresh discontiguous SACKed sequences have arrived above SeqNum or more than (DupThresh - 1) *
        // SMSS bytes with sequence numbers greater than SeqNum have been SACKed"
        !self.sacked.contains(&segment) && (runs >= DUP_THRESH || above.len() > DUP_THRESH - 1)
    }

    fn pipe(&self) -> u64 {
        let again = self.recovery.map_or(self.acknowledged, |(_, again, _)| again);
        let count = |segment: u64| match self.sacked.contains(&segment) {
            true => 0,
            false => u64::from(!self.is_lost(segment)) + u64::from(segment < again),
        };
        MSS * (self.acknowledged..self.sent).map(count).sum::<u64>()
    }

    /// NextSeg: returns the segment, and whether rule 4 chose it.
    fn next(&self) -> Option<(u64, bool)> {
        let (point, again, rescue) = self.recovery?;
        let highest = self.sacked.last().copied().unwrap_or(0);
        let open = |segment: &u64| !self.sacked.contains(segment) && *segment >= again && *segment < highest;
        let unsent =
            (self.sent < self.written && self.sent < self.acknowledged + self.window).then_some(self.sent);
        let any = || (self.acknowledged..self.sent).find(open);
        let last = || {
            // "If HighACK is greater than RescueRxt"
            let allowed = self.acknowledged > rescue && point > self.acknowledged;
            (self.acknowledged..self.sent).rev().find(|each| allowed && !self.sacked.contains(each))
        };
        let lost = (self.acknowledged..self.sent).find(|each| open(each) && self.is_lost(*each));
        lost.or(unsent).or_else(any).map(|each| (each, false)).or_else(|| last().map(|each| (each, true)))
    }

    /// Returns the segments that are sent now.
    fn send(&mut self) -> Vec<u64> {
        let mut sent = Vec::new();
        if self.recovery.is_none() {
            // Includes step 3 of section 5, limited transmit.
            while self.sent < self.written.min(self.acknowledged + self.window)
                && self.pipe() + MSS <= self.cwnd
            {
                sent.push(self.sent);
                self.sent += 1;
            }
        }
        while self.cwnd >= self.pipe() + MSS
            && let Some((segment, rescues)) = self.next()
        {
            sent.push(segment);
            let (point, again, rescue) = self.recovery.as_mut().map(|(a, b, c)| (a, b, c)).unwrap();
            match (segment < self.sent, rescues) {
                (true, true) => *rescue = *point,
                (true, false) => *again = segment + 1,
                (false, _) => self.sent += 1,
            }
        }
        sent
    }

    /// Handles an acknowledgement; returns what the sender sends in response.
    fn acknowledge(&mut self, ack: u64, sacked: &BTreeSet<u64>) -> Vec<u64> {
        let news = sacked.iter().any(|each| *each >= self.acknowledged && !self.sacked.contains(each));
        self.sacked.extend(sacked);
        if ack > self.acknowledged {
            let flight = self.sent - self.acknowledged;
            self.acknowledged = ack;
            self.sacked.retain(|&each| each >= ack);
            self.duplicates = 0;
            match self.recovery {
                Some((point, ..)) if ack < point => {}
                Some(_) => (self.recovery, self.cwnd) = (None, self.ssthresh),
                // The window grows only if it was the limit.
                None if self.cwnd < self.ssthresh && (flight + 1) * MSS > self.cwnd / 2 => self.cwnd += MSS,
                None if self.cwnd >= self.ssthresh && (flight + 1) * MSS > self.cwnd => {
                    self.cwnd += MSS * MSS / self.cwnd;
                }
                None => {}
            }
        } else if news && self.recovery.is_none() {
            self.duplicates += 1;
        }
        let mut first = Vec::new();
        let suspected = self.duplicates >= DUP_THRESH || self.is_lost(self.acknowledged);
        if self.recovery.is_none() && self.acknowledged < self.sent && suspected {
            self.ssthresh = ((self.sent - self.acknowledged) * MSS / 2).max(2 * MSS);
            self.cwnd = self.ssthresh;
            self.recovery = Some((self.sent, self.acknowledged + 1, self.acknowledged + 1));
            self.recoveries += 1;
            first.push(self.acknowledged);
        }
        first.extend(self.send());
        first
    }
}

/// Returns what the sender sends, in segments.
fn sends(sender: &mut Sender, now: u64, profile: &Profile) -> Vec<u64> {
    std::iter::from_fn(|| sender.segment(now, profile)).map(|segment| segment.start / MSS).collect()
}

/// Runs both over one wire that loses the segments numbered in `lost`, counted as sent. Returns whether the
/// timer ran out, and the number of recoveries.
fn run(segments: u64, initial: u64, window: u64, lost: &BTreeSet<usize>) -> (bool, u64) {
    let parameters = Parameters {
        mtu: Bytes(MSS + 52),
        congestion: Some(Congestion::NewReno),
        initial_window: initial as u32,
        window: Some(Bytes(window * MSS)),
        min_timeout: Time(100 * ROUND),
        initial_timeout: Time(100 * ROUND),
        ..Parameters::default()
    };
    let profile = Profile::new(&parameters);
    let (mut sender, mut receiver) = (Sender::new(&profile), Receiver::default());
    let mut oracle = Oracle {
        acknowledged: 0,
        sent: 0,
        written: segments,
        window,
        sacked: BTreeSet::new(),
        duplicates: 0,
        recovery: None,
        cwnd: initial * MSS,
        ssthresh: u64::MAX,
        recoveries: 0,
    };
    let (mut now, mut count) = (0, 0);
    let mut under_way: VecDeque<(u64, u64, bool)> = VecDeque::new();
    sender.write(now, segments * MSS, &profile);
    let mut both = (sends(&mut sender, now, &profile), oracle.send());
    loop {
        assert_eq!(both.0, both.1, "at {now}, acknowledged {}", oracle.acknowledged);
        for segment in both.0 {
            // A link sends one segment per step.
            let free = under_way.back().map_or(0, |&(time, ..)| time + 1);
            under_way.push_back(((now + ROUND).max(free), segment, lost.contains(&count)));
            count += 1;
        }
        let Some((time, segment, is_lost)) = under_way.pop_front() else {
            return (!sender.is_idle(), oracle.recoveries);
        };
        now = time;
        if sender.deadline <= now {
            return (true, oracle.recoveries);
        }
        both = (Vec::new(), Vec::new());
        if !is_lost {
            let answer = receiver.data(segment * MSS, MSS, 0, false, 1);
            assert_eq!(answer, Answer::Now);
            receiver.acknowledged();
            let blocks = receiver.blocks();
            let sacked = blocks.iter().flatten().flat_map(|&(from, to)| from / MSS..to / MSS).collect();
            sender.acknowledge(now, receiver.expected, ROUND, false, blocks.as_ref(), &profile);
            both = (sends(&mut sender, now, &profile), oracle.acknowledge(receiver.expected / MSS, &sacked));
        }
    }
}

/// A rescue does not hide a gap that is reported later.
#[test]
fn two_losses_late_in_a_message_need_no_timer() {
    assert_eq!(run(44, 10, 1_000, &BTreeSet::from([25, 40])), (false, 1));
}

/// No segment follows the last one whose acknowledgement could reveal its loss.
#[test]
fn the_last_segment_needs_the_timer() {
    assert_eq!(run(44, 10, 1_000, &BTreeSet::from([43])), (true, 0));
    assert_eq!(run(44, 10, 1_000, &BTreeSet::new()), (false, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_sender_sends_what_the_rfc_requires(
        segments in 1u64..150,
        initial in 1u64..30,
        window in 2u64..200,
        lost in prop::collection::btree_set(0usize..150, 0..12),
    ) {
        run(segments, initial, window, &lost);
    }
}
