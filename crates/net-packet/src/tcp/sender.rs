//! The sending half of a connection.

use super::congestion::{Acknowledged, Control};
use super::ranges::Blocks;
use super::recovery::{Next, Recovery, Repair};
use super::rtt::Rtt;
use crate::parameters::Parameters;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// A segment to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset of its first byte.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Whether it was sent before.
    pub(crate) again: bool,
}

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
}

/// The sending half.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// Everything before it is acknowledged (SND.UNA).
    pub(crate) una: u64,
    /// Everything before it was sent (SND.NXT).
    pub(crate) next: u64,
    /// What the application has written up to now.
    pub(crate) end: u64,
    pub(crate) control: Control,
    pub(crate) rtt: Rtt,
    /// When the retransmission timer runs out.
    pub(crate) deadline: u64,
    /// When something was sent last.
    last: u64,
    recovery: Option<Box<Recovery>>,
    pub(crate) repairs: Repairs,
}

impl Sender {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let initial = u64::from(parameters.initial_window) * parameters.segment();
        Self {
            una: 0,
            next: 0,
            end: 0,
            control: Control::new(parameters.congestion, initial.min(parameters.window.0)),
            rtt: Rtt::new(parameters.initial_timeout.0, parameters.min_timeout.0),
            deadline: NEVER,
            last: 0,
            recovery: None,
            repairs: Repairs::default(),
        }
    }

    /// The application writes `bytes`.
    pub(crate) fn write(&mut self, now: u64, bytes: u64, parameters: &Parameters) {
        // RFC 5681, 4.1.
        if parameters.restart && self.una == self.end && now.saturating_sub(self.last) > self.rtt.timeout {
            let initial = u64::from(parameters.initial_window) * parameters.segment();
            self.control.window = self.control.window.min(initial);
        }
        self.end += bytes;
    }

    /// Whether all that was written is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.una == self.end
    }

    fn repair(&self) -> Repair {
        self.recovery.as_ref().map_or(Repair::None, |recovery| recovery.repair)
    }

    /// The next segment that may be sent now.
    #[inline]
    pub(crate) fn segment(&mut self, now: u64, parameters: &Parameters) -> Option<Segment> {
        let mss = parameters.segment();
        let window = self.control.window.min(parameters.window.0);
        let Some(recovery) = self.recovery.as_deref_mut() else {
            let length = mss.min(self.end - self.next);
            let flight = self.next - self.una;
            if length == 0 || (flight + length > window && flight > 0) {
                return None;
            }
            return Some(self.sent(now, self.next, length, false));
        };
        let pipe = recovery.pipe(self.una, self.next, mss);
        let room = (self.una + parameters.window.0).saturating_sub(self.next);
        let length = mss.min(self.end - self.next);
        let more = length > 0 && length <= room;
        let next = match recovery.repair {
            Repair::None if more => Next::New,
            Repair::None => Next::Nothing,
            _ => recovery.next(self.una, self.next, mss, more),
        };
        match next {
            Next::Again(start, end) if pipe + (end - start) <= window || pipe == 0 => {
                recovery.rescued |= start < recovery.again || end == self.next;
                recovery.again = recovery.again.max(end);
                Some(self.sent(now, start, end - start, true))
            }
            // Data that is sent while a loss is suspected is counted as sent, not held back.
            Next::New if pipe + length <= window || pipe == 0 => {
                Some(self.sent(now, self.next, length, false))
            }
            _ => None,
        }
    }

    #[inline]
    fn sent(&mut self, now: u64, start: u64, length: u64, again: bool) -> Segment {
        self.next = self.next.max(start + length);
        self.last = now;
        if self.deadline == NEVER {
            // RFC 6298, 5.1.
            self.deadline = now.saturating_add(self.rtt.timeout);
        }
        self.repairs.retransmissions += u64::from(again);
        Segment { start, length, again }
    }

    /// An acknowledgement of everything before `ack` has come.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        now: u64,
        ack: u64,
        rtt: u64,
        echo: bool,
        blocks: Option<&Blocks>,
        parameters: &Parameters,
    ) {
        let mss = parameters.segment();
        if ack > self.next || ack < self.una {
            return;
        }
        let news = match blocks {
            Some(blocks) => self.hold(ack, blocks),
            None => false,
        };
        if ack > self.una {
            let bytes = ack - self.una;
            self.rtt.sample(rtt);
            self.una = ack;
            let grow = match self.recovery.as_deref_mut() {
                None => true,
                Some(recovery) => {
                    recovery.duplicates = 0;
                    recovery.held.forget(ack);
                    recovery.again = recovery.again.max(ack);
                    match recovery.repair {
                        Repair::None => true,
                        repair if ack >= recovery.point => {
                            if repair == Repair::Fast {
                                // Full acknowledgement (RFC 6582, 3.2 step 3).
                                self.control.window = self.control.threshold;
                            }
                            recovery.repair = Repair::None;
                            repair == Repair::Timeout
                        }
                        repair => repair == Repair::Timeout,
                    }
                }
            };
            // What recovery knows is thrown away when nothing is left of it.
            if self.recovery.as_ref().is_some_and(|r| r.repair == Repair::None && r.held.is_empty()) {
                self.recovery = None;
            }
            let ack = Acknowledged { now, bytes, up_to: ack, sent: self.next, echo, rtt: self.rtt.smoothed };
            self.control.acknowledged(ack, mss, grow);
            // RFC 6298, 5.2 and 5.3.
            self.deadline = if self.una == self.next { NEVER } else { now.saturating_add(self.rtt.timeout) };
        } else if self.una < self.next && (news || blocks.is_none()) {
            self.recovery.get_or_insert_default().duplicates += 1;
        }
        self.look_for_losses(mss);
    }

    /// Notes what the receiver holds; whether that was news.
    fn hold(&mut self, ack: u64, blocks: &Blocks) -> bool {
        let next = self.next;
        let recovery = self.recovery.get_or_insert_default();
        let mut news = false;
        for &(start, end) in blocks.iter().filter(|&&(start, end)| start < end && start >= ack && end <= next)
        {
            news |= recovery.held.add(start, end);
        }
        news
    }

    /// Enters fast recovery where the first unacknowledged segment is lost (RFC 6675, 5).
    fn look_for_losses(&mut self, mss: u64) {
        let (una, next) = (self.una, self.next);
        let Some(recovery) = self.recovery.as_deref_mut() else { return };
        // Once a window: not again for what was under way when the last recovery began (RFC 6582, 3.2 step 1).
        if recovery.repair != Repair::None
            || una >= next
            || una < recovery.point
            || !recovery.is_lost(una, mss)
        {
            return;
        }
        let flight = next - una - recovery.held.bytes_before(next);
        (recovery.repair, recovery.point, recovery.again, recovery.rescued) =
            (Repair::Fast, next, una, false);
        self.repairs.recoveries += 1;
        self.control.lost(flight.max(mss), mss);
        self.control.window = self.control.threshold;
    }

    /// The retransmission timer has run out (RFC 6298, 5.4 to 5.7; RFC 5681, 3.1).
    pub(crate) fn time_out(&mut self, now: u64, parameters: &Parameters) {
        let mss = parameters.segment();
        let first = self.repair() != Repair::Timeout;
        let (una, next) = (self.una, self.next);
        let recovery = self.recovery.get_or_insert_default();
        let flight = next - una - recovery.held.bytes_before(next);
        (recovery.repair, recovery.point, recovery.again) = (Repair::Timeout, next, una);
        recovery.duplicates = 0;
        if first {
            self.control.lost(flight, mss);
        }
        self.control.window = mss;
        self.rtt.back_off();
        self.repairs.timeouts += 1;
        self.deadline = now.saturating_add(self.rtt.timeout);
    }
}
