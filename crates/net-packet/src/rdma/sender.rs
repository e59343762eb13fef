//! The sending half of a connection.

use super::dcqcn::Control;
use crate::flow::{NEVER, Repairs, Segment};
use crate::profile::Profile;
use syncline_units::Rate;

/// Consecutive unanswered time-outs that a connection survives (InfiniBand: the retry count has 3 bits).
const RETRIES: u32 = 7;

/// The sending half.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// Everything before this is acknowledged.
    pub(crate) una: u64,
    /// Where sending continues; after a loss, before what was sent already.
    pub(crate) next: u64,
    /// Everything before this was sent at least once.
    highest: u64,
    /// Everything before this was written by the application.
    pub(crate) end: u64,
    /// Rate control; without it, the connection sends at the rate of the link.
    pub(crate) rate: Option<Box<Control>>,
    /// When the last packet was sent, and its bytes on the wire.
    last: (u64, u64),
    /// When the retransmission timer runs out.
    pub(crate) deadline: u64,
    /// Time-outs since data was last acknowledged.
    pub(crate) tries: u32,
    /// Whether it is listed at its port.
    pub(crate) listed: bool,
    /// When it will next be checked whether it may send, if that is later.
    pub(crate) due: u64,
    pub(crate) repairs: Repairs,
}

impl Sender {
    /// The sender of a connection over a first link of rate `line`.
    pub(crate) fn new(profile: &Profile, line: Rate) -> Self {
        Self {
            una: 0,
            next: 0,
            highest: 0,
            end: 0,
            rate: profile.dcqcn.map(|of| Box::new(Control::new(of, line))),
            last: (0, 0),
            deadline: NEVER,
            tries: 0,
            listed: false,
            due: NEVER,
            repairs: Repairs::default(),
        }
    }

    /// Whether everything written has been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.una == self.end
    }

    /// Whether the connection gave up because nobody answers.
    pub(crate) fn is_given_up(&self) -> bool {
        self.tries > RETRIES
    }

    /// Whether there is something to send that fits the window.
    pub(crate) fn wants(&self, profile: &Profile) -> bool {
        let length = profile.segment.min(self.end - self.next);
        let flight = self.next - self.una;
        length > 0 && (flight == 0 || flight + length <= profile.window) && !self.is_given_up()
    }

    /// Returns when its rate allows the next packet, as far as is known at `now`.
    pub(crate) fn allowed(&mut self, now: u64) -> u64 {
        let Some(rate) = &mut self.rate else { return 0 };
        rate.catch_up(now);
        match rate.spacing(self.last.1) {
            0 => 0,
            spacing => self.last.0.saturating_add(spacing),
        }
    }

    /// Sends the next packet, which ends at `message` at the latest: the end of the message in which it
    /// begins.
    pub(crate) fn packet(&mut self, now: u64, message: u64, profile: &Profile) -> Segment {
        let (start, length) = (self.next, profile.segment.min(message - self.next));
        let again = start < self.highest;
        self.next += length;
        self.highest = self.highest.max(self.next);
        self.repairs.retransmissions += u64::from(again);
        let wire = u64::from(profile.overhead.wire(length));
        self.last = (now, wire);
        if let Some(rate) = &mut self.rate {
            rate.sent(wire);
        }
        if self.deadline == NEVER {
            self.deadline = now.saturating_add(profile.min_timeout);
        }
        Segment { start, length, again }
    }

    /// Handles an acknowledgement of everything before `ack`; `missing` says that the next packet was out of
    /// sequence (NAK).
    pub(crate) fn acknowledge(&mut self, now: u64, ack: u64, missing: bool, profile: &Profile) {
        if ack > self.highest || ack < self.una {
            return;
        }
        if ack > self.una {
            (self.una, self.tries) = (ack, 0);
            self.next = self.next.max(ack);
            self.deadline =
                if self.una == self.highest { NEVER } else { now.saturating_add(profile.min_timeout) };
        }
        if missing && self.next > ack {
            self.next = ack;
            self.repairs.recoveries += 1;
        }
    }

    /// Handles a retransmission time-out.
    pub(crate) fn time_out(&mut self, now: u64, profile: &Profile) {
        self.next = self.una;
        self.repairs.timeouts += 1;
        self.tries += 1;
        self.deadline = if self.is_given_up() { NEVER } else { now.saturating_add(profile.min_timeout) };
    }
}
