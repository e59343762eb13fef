//! Congestion control: how the window grows, and what it falls to. In bytes.

use crate::parameters::Congestion;

/// The state of one connection's congestion control.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// cwnd
    pub(crate) window: u64,
    /// ssthresh
    pub(crate) threshold: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Reno,
    Cubic(Box<Cubic>),
    Dctcp(Box<Dctcp>),
}

/// RFC 9438.
#[derive(Clone, Debug, Default)]
struct Cubic {
    /// Window before the last reduction, in segments.
    most: f64,
    /// When the present growth began; 0 where it has not.
    since: u64,
    /// Seconds until the window is what it was.
    period: f64,
    /// What Reno would have by now, in segments.
    reno: f64,
}

/// RFC 8257.
#[derive(Clone, Debug)]
struct Dctcp {
    /// Estimated fraction of bytes that were marked.
    alpha: f64,
    acknowledged: u64,
    marked: u64,
    /// The observation window ends when this is acknowledged.
    end: u64,
    reduced: bool,
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
    /// Bytes that it is the first to acknowledge.
    pub(crate) bytes: u64,
    /// Up to where.
    pub(crate) up_to: u64,
    /// What was sent up to now.
    pub(crate) sent: u64,
    /// Whether it says that data met congestion.
    pub(crate) echo: bool,
    /// Smoothed round-trip time in picoseconds.
    pub(crate) rtt: u64,
}

impl Control {
    pub(crate) fn new(congestion: Congestion, initial: u64) -> Self {
        let kind = match congestion {
            Congestion::NewReno => Kind::Reno,
            Congestion::Cubic => Kind::Cubic(Box::default()),
            // Alpha begins at 1 (RFC 8257, 4.2).
            Congestion::Dctcp => Kind::Dctcp(Box::new(Dctcp {
                alpha: 1.0,
                acknowledged: 0,
                marked: 0,
                end: 0,
                reduced: false,
            })),
        };
        Self { window: initial, threshold: u64::MAX, kind }
    }

    /// New data was acknowledged. `grow` is false while losses are repaired.
    #[inline]
    pub(crate) fn acknowledged(&mut self, ack: Acknowledged, mss: u64, grow: bool) {
        if let Kind::Dctcp(state) = &mut self.kind
            && let Some(alpha) = state.observe(&ack)
        {
            // RFC 8257, 3.3: once a window, by the extent of congestion.
            self.window = ((self.window as f64 * (1.0 - alpha / 2.0)) as u64).max(2 * mss);
            self.threshold = self.window;
            return;
        }
        if !grow {
            return;
        }
        if self.window < self.threshold {
            // Slow start (RFC 5681, 3.1), not beyond the threshold.
            self.window += ack.bytes.min(mss);
            return;
        }
        match &mut self.kind {
            Kind::Reno | Kind::Dctcp(_) => self.window += (mss * mss / self.window).max(1),
            Kind::Cubic(state) => {
                let target = state.target(&ack, self.window as f64 / mss as f64);
                self.window = self.window.max((target * mss as f64) as u64);
            }
        }
    }

    /// A segment was lost, `flight` bytes were under way: the threshold, once a window (RFC 5681, eq. 4).
    pub(crate) fn lost(&mut self, flight: u64, mss: u64) {
        let left = match &mut self.kind {
            Kind::Reno | Kind::Dctcp(_) => flight / 2,
            Kind::Cubic(state) => {
                let window = self.window as f64 / mss as f64;
                // Fast convergence (RFC 9438, 4.7).
                state.most = if window < state.most { window * (1.0 + BETA) / 2.0 } else { window };
                state.since = 0;
                (flight as f64 * BETA) as u64
            }
        };
        self.threshold = left.max(2 * mss);
    }
}

impl Cubic {
    /// The window in segments (RFC 9438, 4.2 to 4.5).
    fn target(&mut self, ack: &Acknowledged, window: f64) -> f64 {
        if self.since == 0 {
            self.since = ack.now.max(1);
            self.most = self.most.max(window);
            self.period = ((self.most - window) / C).cbrt();
            self.reno = window;
        }
        let rtt = ack.rtt as f64 / 1e12;
        let at = (ack.now - self.since.min(ack.now)) as f64 / 1e12 + rtt;
        let cubic = C * (at - self.period).powi(3) + self.most;
        // Reno-friendly region (4.3).
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / window;
        if cubic < self.reno {
            return self.reno;
        }
        // No more than half as much again in a round trip (4.2).
        window + (cubic.min(1.5 * window) - window).max(0.0) / window
    }
}

impl Dctcp {
    /// The extent of congestion, at the first mark of an observation window.
    fn observe(&mut self, ack: &Acknowledged) -> Option<f64> {
        self.acknowledged += ack.bytes;
        self.marked += if ack.echo { ack.bytes } else { 0 };
        if ack.up_to > self.end {
            let fraction = self.marked as f64 / self.acknowledged.max(1) as f64;
            self.alpha = (1.0 - GAIN) * self.alpha + GAIN * fraction;
            (self.acknowledged, self.marked, self.end, self.reduced) = (0, 0, ack.sent, false);
        }
        if ack.echo && !self.reduced {
            self.reduced = true;
            return Some(self.alpha);
        }
        None
    }
}
