//! The sending half of a connection.

use super::congestion::{Acknowledged, Control};
use super::ranges::Blocks;
use super::recovery::{Next, Recovery, Repair};
use super::rtt::Rtt;
use crate::flow::{NEVER, Repairs, Segment};
use crate::profile::Profile;

/// Progress of the handshake (RFC 9293, 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Not begun, or lost.
    Closed,
    /// SYN was sent.
    Asked,
    /// Complete.
    Open,
}

/// The sending half.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// Everything before this is acknowledged (SND.UNA).
    pub(crate) una: u64,
    /// Everything before this was sent (SND.NXT).
    pub(crate) next: u64,
    /// Everything before this was written by the application.
    pub(crate) end: u64,
    pub(crate) control: Control,
    pub(crate) rtt: Rtt,
    /// When the retransmission timer runs out.
    pub(crate) deadline: u64,
    /// When something was last sent.
    last: u64,
    opening: Opening,
    /// Marks on data before this belong to congestion that was already answered (RFC 3168, 6.1.2).
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

    /// Called when the application writes `bytes`.
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

    /// Whether everything written has been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.una == self.end
    }

    fn repair(&self) -> Repair {
        self.recovery.as_ref().map_or(Repair::None, |recovery| recovery.repair)
    }

    /// Returns the next segment that may be sent now.
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
            Next::Again { start, end } if pipe + (end - start) <= window || pipe == 0 => {
                recovery.again = recovery.again.max(end);
                Some(self.sent(now, start, end - start, true))
            }
            Next::Rescue { start, end } if pipe + (end - start) <= window || pipe == 0 => {
                recovery.rescue = recovery.point;
                Some(self.sent(now, start, end - start, true))
            }
            // Data sent while a loss is suspected counts as sent, and is not held back.
            Next::New if pipe + length <= window || pipe == 0 => {
                Some(self.sent(now, self.next, length, false))
            }
            _ => None,
        }
    }

    /// Returns the empty segment that opens a connection, if there is something to send.
    #[cold]
    fn ask(&mut self, now: u64) -> Option<Segment> {
        if self.opening == Opening::Asked || self.end == 0 {
            return None;
        }
        self.opening = Opening::Asked;
        self.deadline = now.saturating_add(self.rtt.timeout);
        Some(Segment { start: 0, length: 0, again: false })
    }

    /// Called when the answer to the handshake arrives.
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
        // RFC 6298, 5.1. Fast recovery may take longer than the timer, so each repair restarts it (RFC 6675,
        // 6).
        if self.deadline == NEVER || again && self.repair() == Repair::Fast {
            self.deadline = now.saturating_add(self.rtt.timeout);
        }
        self.repairs.retransmissions += u64::from(again);
        Segment { start, length, again }
    }

    /// Handles an acknowledgement of everything before `ack`.
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
            // Discard the recovery state once it is empty.
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
            // Only an acknowledgement that reports data beyond the gap is a duplicate (RFC 6675, 2); others
            // answer needless repairs.
            self.recovery.get_or_insert_default().duplicates += 1;
        }
        self.look_for_losses(mss);
    }

    /// Responds to marked data as to a lost segment, once per window (RFC 3168, 6.1.2). DCTCP responds in its
    /// own way.
    #[cold]
    fn congested(&mut self, mss: u64) {
        if self.repair() == Repair::None && self.control.answers_marks_as_losses() {
            self.answered = self.next;
            self.control.lost(self.next - self.una, mss, false);
            self.control.window = self.control.threshold;
        }
    }

    /// Records what the receiver holds; returns whether that was new.
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

    /// Enters fast recovery if the first unacknowledged segment is lost (RFC 6675, 5).
    fn look_for_losses(&mut self, mss: u64) {
        let (una, next) = (self.una, self.next);
        let Some(recovery) = self.recovery.as_deref_mut() else { return };
        // Once per window: not again for data that was in flight when the last recovery began (RFC 6582, 3.2
        // step 1).
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

    /// Handles a retransmission time-out (RFC 6298, 5.4 to 5.7; RFC 5681, 3.1).
    pub(crate) fn time_out(&mut self, now: u64, profile: &Profile) {
        if self.opening == Opening::Asked {
            // The SYN or its answer was lost.
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
        // The threshold stays if the timer has sent this segment again before.
        if recovery.timed.replace(una) != Some(una) {
            self.control.lost(next - una, mss, true);
        }
        self.control.window = mss;
        self.rtt.back_off();
        self.repairs.timeouts += 1;
        self.deadline = now.saturating_add(self.rtt.timeout);
    }
}
