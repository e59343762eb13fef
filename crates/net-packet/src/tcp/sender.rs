//! The sending half of a connection.

use super::congestion::{Acknowledged, Control};
use super::ranges::Blocks;
use super::recovery::{Next, Recovery, Repair};
use super::rtt::Rtt;
use crate::flow::{NEVER, Repairs, Segment};
use crate::profile::Profile;

/// How far the handshake is (RFC 9293, 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// It has not begun, or was lost.
    Closed,
    /// SYN was sent.
    Asked,
    /// It is over.
    Open,
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
    opening: Opening,
    /// Marks met before this is acknowledged belong to the congestion that was answered (RFC 3168, 6.1.2).
    answered: u64,
    recovery: Option<Box<Recovery>>,
    pub(crate) repairs: Repairs,
}

impl Sender {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            una: 0,
            next: 0,
            end: 0,
            control: Control::new(profile.congestion, profile.initial_window),
            rtt: Rtt::new(profile.initial_timeout, profile.min_timeout),
            deadline: NEVER,
            last: 0,
            opening: if profile.handshake { Opening::Closed } else { Opening::Open },
            answered: 0,
            recovery: None,
            repairs: Repairs::default(),
        }
    }

    /// The application writes `bytes`.
    pub(crate) fn write(&mut self, now: u64, bytes: u64, profile: &Profile) {
        // RFC 5681, 4.1.
        if profile.restart && self.una == self.end && now.saturating_sub(self.last) > self.rtt.timeout {
            self.control.window = self.control.window.min(profile.initial_window);
        }
        if self.una == self.end {
            self.control.resume(now);
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
    pub(crate) fn segment(&mut self, now: u64, profile: &Profile) -> Option<Segment> {
        let mss = profile.segment;
        let window = self.control.window.min(profile.window);
        if self.opening != Opening::Open {
            return self.ask(now);
        }
        let Some(recovery) = self.recovery.as_deref_mut() else {
            let length = mss.min(self.end - self.next);
            let flight = self.next - self.una;
            if length == 0 || (flight + length > window && flight > 0) {
                return None;
            }
            return Some(self.sent(now, self.next, length, false));
        };
        let pipe = recovery.pipe(self.una, self.next, mss);
        let room = (self.una + profile.window).saturating_sub(self.next);
        let length = mss.min(self.end - self.next);
        let more = length > 0 && length <= room;
        if std::mem::take(&mut recovery.entered)
            && let Some((start, end)) = recovery.head(self.una, self.next, mss)
        {
            (recovery.again, recovery.rescue) = (end, end);
            return Some(self.sent(now, start, end - start, true));
        }
        let next = match recovery.repair {
            Repair::None if more => Next::New,
            Repair::None => Next::Nothing,
            _ => recovery.next(self.una, self.next, mss, more),
        };
        match next {
            Next::Again(start, end) if pipe + (end - start) <= window || pipe == 0 => {
                recovery.again = recovery.again.max(end);
                Some(self.sent(now, start, end - start, true))
            }
            Next::Rescue(start, end) if pipe + (end - start) <= window || pipe == 0 => {
                recovery.rescue = recovery.point;
                Some(self.sent(now, start, end - start, true))
            }
            // Data that is sent while a loss is suspected is counted as sent, not held back.
            Next::New if pipe + length <= window || pipe == 0 => {
                Some(self.sent(now, self.next, length, false))
            }
            _ => None,
        }
    }

    /// The segment that asks for a connection, where there is something to send: of no bytes.
    #[cold]
    fn ask(&mut self, now: u64) -> Option<Segment> {
        if self.opening == Opening::Asked || self.end == 0 {
            return None;
        }
        self.opening = Opening::Asked;
        self.deadline = now.saturating_add(self.rtt.timeout);
        Some(Segment { start: 0, length: 0, again: false })
    }

    /// The answer to the handshake has come.
    pub(crate) fn open(&mut self, rtt: u64) {
        if self.opening != Opening::Open {
            self.rtt.sample(rtt);
            (self.opening, self.deadline) = (Opening::Open, NEVER);
        }
    }

    #[inline]
    fn sent(&mut self, now: u64, start: u64, length: u64, again: bool) -> Segment {
        self.next = self.next.max(start + length);
        self.last = now;
        // RFC 6298, 5.1. In fast recovery, which may take longer than the timer, each repair starts it anew (RFC 6675, 6).
        if self.deadline == NEVER || again && self.repair() == Repair::Fast {
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
        profile: &Profile,
    ) {
        let mss = profile.segment;
        if ack > self.next || ack < self.una {
            return;
        }
        let news = match blocks {
            Some(blocks) => self.hold(ack, blocks),
            None => false,
        };
        if ack > self.una {
            let (bytes, flight) = (ack - self.una, self.next - self.una);
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
            if echo && ack > self.answered {
                self.congested(mss);
            }
            let ack = Acknowledged {
                now,
                bytes,
                up_to: ack,
                flight,
                sent: self.next,
                echo,
                rtt: self.rtt.smoothed,
            };
            self.control.acknowledged(ack, mss, grow);
            // RFC 6298, 5.2 and 5.3.
            self.deadline = if self.una == self.next { NEVER } else { now.saturating_add(self.rtt.timeout) };
        } else if self.una < self.next && news {
            // Only what tells of data beyond the gap is a duplicate (RFC 6675, 2): others answer needless repairs.
            self.recovery.get_or_insert_default().duplicates += 1;
        }
        self.look_for_losses(mss);
    }

    /// Data met congestion: the window falls as if a segment was lost, once a window (RFC 3168, 6.1.2). DCTCP answers in
    /// its own way.
    #[cold]
    fn congested(&mut self, mss: u64) {
        if self.repair() == Repair::None && self.control.answers_marks_as_losses() {
            self.answered = self.next;
            self.control.lost(self.next - self.una, mss, false);
            self.control.window = self.control.threshold;
        }
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
        (recovery.repair, recovery.point, recovery.again) = (Repair::Fast, next, una);
        (recovery.entered, recovery.rescue) = (true, una);
        self.repairs.recoveries += 1;
        self.control.lost(next - una, mss, false);
        self.control.window = self.control.threshold;
    }

    /// The retransmission timer has run out (RFC 6298, 5.4 to 5.7; RFC 5681, 3.1).
    pub(crate) fn time_out(&mut self, now: u64, profile: &Profile) {
        if self.opening == Opening::Asked {
            // The question or the answer was lost.
            self.opening = Opening::Closed;
            self.rtt.back_off();
            self.repairs.timeouts += 1;
            self.deadline = NEVER;
            // RFC 5681, 3.1.
            self.control.window = profile.segment;
            return;
        }
        let mss = profile.segment;
        let (una, next) = (self.una, self.next);
        let recovery = self.recovery.get_or_insert_default();
        (recovery.repair, recovery.point, recovery.again) = (Repair::Timeout, next, una);
        (recovery.duplicates, recovery.entered) = (0, false);
        // Held constant where the timer has sent this segment again before.
        if recovery.timed.replace(una) != Some(una) {
            self.control.lost(next - una, mss, true);
        }
        self.control.window = mss;
        self.rtt.back_off();
        self.repairs.timeouts += 1;
        self.deadline = now.saturating_add(self.rtt.timeout);
    }
}
