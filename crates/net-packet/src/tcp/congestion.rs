//! Congestion control: how the window grows, and to what it falls. In bytes.

use crate::parameters::Congestion;

/// The state of one connection's congestion control.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// cwnd
    pub(crate) window: u64,
    /// ssthresh
    pub(crate) threshold: u64,
    kind: Controller,
}

#[derive(Clone, Debug)]
enum Controller {
    Reno,
    Cubic(Box<Cubic>),
    Dctcp(Box<Dctcp>),
}

/// State of CUBIC (RFC 9438).
#[derive(Clone, Debug, Default)]
struct Cubic {
    /// Window at which the current growth flattens, in segments (W_max).
    most: f64,
    /// Window before the last reduction, in segments (cwnd_prior).
    prior: f64,
    /// Duration of the current growth, without times in which the window was not the limit (5.8).
    grown: u64,
    /// When `grown` was last updated; `None` before growth begins.
    counted: Option<u64>,
    /// Seconds until the window reaches `most` (K).
    period: f64,
    /// The window Reno would have by now, in segments (W_est).
    reno: f64,
    /// Whether a time-out found the last loss.
    timed_out: bool,
}

/// State of DCTCP (RFC 8257).
#[derive(Clone, Debug)]
struct Dctcp {
    /// Estimated fraction of bytes that were marked.
    alpha: f64,
    acknowledged: u64,
    marked: u64,
    /// The observation window ends when this byte is acknowledged.
    end: u64,
    /// Marks on data before this byte belong to congestion that was already answered.
    answered: u64,
}

/// C of RFC 9438, in segments per second cubed.
const C: f64 = 0.4;
/// Beta of RFC 9438.
const BETA: f64 = 0.7;
/// g of RFC 8257, section 3.3 and appendix.
const GAIN: f64 = 1.0 / 16.0;

/// An acknowledgement, as congestion control sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) now: u64,
    /// Bytes that it newly acknowledges.
    pub(crate) bytes: u64,
    /// Everything before this is acknowledged.
    pub(crate) up_to: u64,
    /// Bytes in flight before it arrived.
    pub(crate) flight: u64,
    /// Bytes sent so far.
    pub(crate) sent: u64,
    /// Whether it reports that data met congestion.
    pub(crate) echo: bool,
    /// Smoothed round-trip time in picoseconds.
    pub(crate) rtt: u64,
}

impl Control {
    pub(crate) fn new(congestion: Congestion, initial: u64) -> Self {
        let kind = match congestion {
            Congestion::Cubic => Controller::Cubic(Box::default()),
            // Alpha is initially 1 (RFC 8257, 4.2).
            Congestion::Dctcp => Controller::Dctcp(Box::new(Dctcp {
                alpha: 1.0,
                acknowledged: 0,
                marked: 0,
                end: 0,
                answered: 0,
            })),
            // The other variants belong to RDMA.
            _ => Controller::Reno,
        };
        Self { window: initial, threshold: u64::MAX, kind }
    }

    /// Whether it responds to a mark as to a loss (RFC 3168).
    pub(crate) fn answers_marks_as_losses(&self) -> bool {
        !matches!(self.kind, Controller::Dctcp(_))
    }

    /// Handles an acknowledgement of new data. `grow` is false while losses are repaired.
    #[inline]
    pub(crate) fn acknowledged(&mut self, ack: Acknowledged, mss: u64, grow: bool) {
        if let Controller::Dctcp(state) = &mut self.kind
            && let Some(alpha) = state.observe(&ack)
        {
            // RFC 8257, 3.3: once per window, in proportion to the extent of congestion.
            self.window = ((self.window as f64 * (1.0 - alpha / 2.0)) as u64).max(2 * mss);
            self.threshold = self.window;
            return;
        }
        if !grow {
            return;
        }
        let slow_start = self.window < self.threshold;
        // A flow limited by the receiver or the application learns nothing about the network (RFC 9438, 5.8;
        // RFC 7661). In slow start, where the window doubles each round trip, using half of it is enough.
        if ack.flight.saturating_add(mss) <= if slow_start { self.window / 2 } else { self.window } {
            if let Controller::Cubic(state) = &mut self.kind {
                state.rest(ack.now);
            }
            return;
        }
        if slow_start {
            // Slow start (RFC 5681, 3.1), up to the threshold.
            self.window += ack.bytes.min(mss);
            return;
        }
        match &mut self.kind {
            Controller::Reno | Controller::Dctcp(_) => self.window += (mss * mss / self.window).max(1),
            Controller::Cubic(state) => {
                let target = state.target(&ack, self.window as f64 / mss as f64, mss);
                self.window = self.window.max((target * mss as f64) as u64);
            }
        }
    }

    /// Called when the application writes again after nothing was in flight.
    pub(crate) fn resume(&mut self, now: u64) {
        if let Controller::Cubic(state) = &mut self.kind {
            state.rest(now);
        }
    }

    /// Handles a lost segment with `flight` bytes in flight: sets the threshold, once per window (RFC 5681,
    /// eq. 4).
    pub(crate) fn lost(&mut self, flight: u64, mss: u64, timed_out: bool) {
        let left = match &mut self.kind {
            Controller::Reno | Controller::Dctcp(_) => flight / 2,
            Controller::Cubic(state) => {
                let window = self.window as f64 / mss as f64;
                // Fast convergence (RFC 9438, 4.7).
                state.most = if window < state.most { window * (1.0 + BETA) / 2.0 } else { window };
                (state.prior, state.counted, state.timed_out) = (window, None, timed_out);
                (flight as f64 * BETA) as u64
            }
        };
        self.threshold = left.max(2 * mss);
    }
}

impl Cubic {
    /// Excludes the time up to `now` from growth.
    fn rest(&mut self, now: u64) {
        if let Some(counted) = &mut self.counted {
            *counted = now;
        }
    }

    /// Returns the window in segments (RFC 9438, 4.2 to 4.5).
    fn target(&mut self, ack: &Acknowledged, window: f64, mss: u64) -> f64 {
        match &mut self.counted {
            Some(counted) => self.grown += ack.now - std::mem::replace(counted, ack.now),
            None => {
                // After a time-out, growth is convex from its start (4.8).
                self.most = if self.timed_out { window } else { self.most.max(window) };
                self.period = ((self.most - window) / C).cbrt();
                (self.grown, self.counted, self.reno) = (0, Some(ack.now), window);
                // The very first growth follows slow start (4.10).
                self.prior = self.prior.max(window);
            }
        }
        let at = (self.grown + ack.rtt) as f64 / 1e12;
        let cubic = C * (at - self.period).powi(3) + self.most;
        // Reno-friendly region (4.3); as fast as Reno once the window is back at its old size.
        let alpha = if self.reno >= self.prior { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
        self.reno += alpha * ack.bytes as f64 / mss as f64 / window;
        if cubic < self.reno {
            return self.reno;
        }
        // At most 50 % growth in a round trip (4.2).
        window + (cubic.min(1.5 * window) - window).max(0.0) / window
    }
}

impl Dctcp {
    /// Returns the extent of congestion at a mark, unless it belongs to a window already answered (RFC 8257,
    /// 3.3).
    fn observe(&mut self, ack: &Acknowledged) -> Option<f64> {
        self.acknowledged += ack.bytes;
        self.marked += if ack.echo { ack.bytes } else { 0 };
        if ack.up_to > self.end {
            let fraction = self.marked as f64 / self.acknowledged.max(1) as f64;
            self.alpha = (1.0 - GAIN) * self.alpha + GAIN * fraction;
            (self.acknowledged, self.marked, self.end) = (0, 0, ack.sent);
        }
        if ack.echo && ack.up_to > self.answered {
            self.answered = ack.sent;
            return Some(self.alpha);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000_000;

    /// Acknowledges a segment while a whole window is in flight and more follows.
    fn ack(now: u64, up_to: u64, window: u64) -> Acknowledged {
        let sent = up_to + window;
        Acknowledged { now, bytes: MSS, up_to, flight: window, sent, echo: false, rtt: SECOND / 10 }
    }

    fn segments(control: &Control) -> f64 {
        control.window as f64 / MSS as f64
    }

    #[test]
    fn slow_start_doubles_and_congestion_avoidance_adds_a_segment_in_a_round_trip() {
        let mut control = Control::new(Congestion::NewReno, 10 * MSS);
        (0..10).for_each(|at| control.acknowledged(ack(0, at, control.window), MSS, true));
        assert_eq!(control.window, 20 * MSS);
        control.threshold = 20 * MSS;
        (0..20).for_each(|at| control.acknowledged(ack(0, at, control.window), MSS, true));
        assert!((20.9..21.0).contains(&segments(&control)), "{}", segments(&control));
        // While losses are repaired it stays (RFC 6675: the pipe limits what may be sent).
        let before = control.window;
        control.acknowledged(ack(0, 0, before), MSS, false);
        assert_eq!(control.window, before);
    }

    /// RFC 5681, eq. 4, and RFC 9438, 4.6.
    #[test]
    fn the_threshold_is_a_fraction_of_what_was_in_flight() {
        for (congestion, left) in
            [(Congestion::NewReno, 50), (Congestion::Cubic, 70), (Congestion::Dctcp, 50)]
        {
            let mut control = Control::new(congestion, 100 * MSS);
            control.lost(100 * MSS, MSS, false);
            assert_eq!(control.threshold, left * MSS);
            control.lost(MSS, MSS, false);
            assert_eq!(control.threshold, 2 * MSS, "never less");
        }
    }

    /// RFC 9438, 4.7: only a loss at a smaller window than before leaves room for others.
    #[test]
    fn a_smaller_window_at_a_loss_lowers_the_next_plateau() {
        let mut control = Control::new(Congestion::Cubic, 100 * MSS);
        for (window, plateau) in [(100, 100.0), (100, 100.0), (80, 80.0 * (1.0 + BETA) / 2.0), (90, 90.0)] {
            control.window = window * MSS;
            control.lost(window * MSS, MSS, false);
            let Controller::Cubic(state) = &control.kind else { panic!("{control:?}") };
            assert_eq!(state.most.to_bits(), f64::to_bits(plateau), "{window}");
        }
    }

    #[test]
    fn a_window_that_is_not_the_limit_does_not_grow() {
        for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
            let mut control = Control::new(congestion, 100 * MSS);
            let small = Acknowledged { flight: 49 * MSS, ..ack(0, 0, 0) };
            control.acknowledged(small, MSS, true);
            assert_eq!(control.window, 100 * MSS, "slow start");
            control.threshold = 100 * MSS;
            control.acknowledged(Acknowledged { flight: 99 * MSS, ..small }, MSS, true);
            assert_eq!(control.window, 100 * MSS, "congestion avoidance");
        }
    }

    /// Acknowledges whole windows, with round trips of a tenth of a second, until a given time.
    fn grow(control: &mut Control, from: u64, until: u64) {
        let mut now = from;
        while now < until {
            let count = control.window / MSS;
            for at in 0..count {
                control.acknowledged(ack(now + at * (SECOND / 10) / count, at, control.window), MSS, true);
            }
            now += SECOND / 10;
        }
    }

    /// RFC 9438, 4.2: W(t) = C (t - K)^3 + W_max.
    #[test]
    fn cubic_follows_the_function_of_rfc_9438() {
        let mut control = Control::new(Congestion::Cubic, 1_000 * MSS);
        control.lost(1_000 * MSS, MSS, false);
        control.window = control.threshold;
        assert_eq!(segments(&control), 700.0);
        let period = (300.0 / 0.4_f64).cbrt();
        for (from, until) in [(0, 3), (3, 8), (8, 12)] {
            grow(&mut control, from * SECOND, until * SECOND);
            let due = 0.4 * (until as f64 - period).powi(3) + 1_000.0;
            assert!(
                (segments(&control) - due).abs() < 0.01 * due,
                "{} at {until}, {due}",
                segments(&control)
            );
        }
    }

    /// RFC 9438, 4.7 and 4.8.
    #[test]
    fn cubic_yields_to_new_flows_and_starts_flat_after_a_time_out() {
        let mut control = Control::new(Congestion::Cubic, 1_000 * MSS);
        control.lost(1_000 * MSS, MSS, false);
        control.window = 700 * MSS;
        control.lost(700 * MSS, MSS, false);
        let Controller::Cubic(state) = &control.kind else { panic!() };
        assert!((state.most - 595.0).abs() < 1e-9, "fast convergence: {}", state.most);
        control.lost(490 * MSS, MSS, true);
        control.window = control.threshold;
        let start = segments(&control);
        grow(&mut control, 0, 5 * SECOND);
        let due = 0.4 * 5.0_f64.powi(3) + start;
        assert!((segments(&control) - due).abs() < 0.01 * due, "{} for {due}", segments(&control));
    }

    /// RFC 9438, 5.8: time in which the application sends nothing does not count towards growth.
    #[test]
    fn cubic_does_not_grow_while_it_is_idle() {
        let mut control = Control::new(Congestion::Cubic, 1_000 * MSS);
        control.lost(1_000 * MSS, MSS, false);
        control.window = control.threshold;
        let mut resting = control.clone();
        grow(&mut control, 0, 4 * SECOND);
        grow(&mut resting, 0, 2 * SECOND);
        resting.resume(1_000 * SECOND);
        grow(&mut resting, 1_000 * SECOND, 1_002 * SECOND);
        let (went, rested) = (segments(&control), segments(&resting));
        assert!((went - rested).abs() < 0.01 * went, "{went} {rested}");
    }

    /// RFC 8257, 3.3: alpha follows the marked fraction, and a mark takes alpha / 2 of the window, once per
    /// window.
    #[test]
    fn dctcp_responds_in_proportion_to_congestion() {
        let mut control = Control::new(Congestion::Dctcp, 100 * MSS);
        control.threshold = 100 * MSS;
        let marked = |at: u64, echo| Acknowledged { echo, ..ack(0, at * MSS, 0) };
        // Every fourth of 100 segments is marked, for 80 windows of constant size: alpha approaches a
        // quarter.
        let mut at = 0;
        for _ in 0..80 * 100 {
            at += 1;
            control.window = 100 * MSS;
            control.acknowledged(
                Acknowledged { sent: (at + 100) * MSS, ..marked(at, at % 4 == 0) },
                MSS,
                true,
            );
        }
        let Controller::Dctcp(state) = &control.kind else { panic!() };
        let alpha = state.alpha;
        assert!((alpha - 0.25).abs() < 0.03, "{alpha}");
        // The next window's first mark takes alpha / 2; later marks in it take nothing.
        control.window = 100 * MSS;
        let before = control.window as f64;
        let mut cuts = Vec::new();
        let sent = (at + 300) * MSS;
        for next in at + 101..at + 290 {
            let window = control.window;
            control.acknowledged(Acknowledged { sent, flight: 0, ..marked(next, true) }, MSS, true);
            if control.window < window {
                cuts.push(control.window as f64 / before);
            }
        }
        assert_eq!(cuts.len(), 1, "{cuts:?}");
        assert!((cuts[0] - (1.0 - 0.25 / 2.0)).abs() < 0.04, "{cuts:?}");
    }
}
