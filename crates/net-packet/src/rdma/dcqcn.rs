//! DCQCN's reaction point: the rate at which a connection sends (Zhu et al., "Congestion Control for
//! Large-Scale RDMA Deployments", SIGCOMM 2015, section 3 and figure 7).

use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, Rate, Time};

/// Parameters of DCQCN. Defaults are the values of the paper (section 5, figure 14) where it gives them. Its
/// additive increase of 40 Mb/s belongs to links of 40 Gb/s, so here it is a thousandth of the link's rate;
/// hyper increase is ten times that, as in QCN (IEEE 802.1Qau).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dcqcn {
    /// Weight of new information in the estimate of congestion (g).
    pub gain: f64,
    /// Shortest time between two notifications of one connection (N).
    pub cnp_interval: Time,
    /// Time without a notification after which the estimate falls (K).
    pub alpha_timer: Time,
    /// Time after which the rate rises (T).
    pub rate_timer: Time,
    /// Bytes after which the rate rises (B).
    pub bytes: Bytes,
    /// Steps of fast recovery (F).
    pub stages: u32,
    /// Additive increase of the target; by default a thousandth of the link's rate.
    pub additive: Option<Rate>,
    /// Hyper increase of the target; by default a hundredth of the link's rate.
    pub hyper: Option<Rate>,
    /// The rate never falls below this.
    pub minimum: Rate,
}

impl Default for Dcqcn {
    fn default() -> Self {
        Self {
            gain: 1.0 / 256.0,
            cnp_interval: Time(50_000_000),
            alpha_timer: Time(55_000_000),
            rate_timer: Time(55_000_000),
            bytes: Bytes(10_000_000),
            stages: 5,
            additive: None,
            hyper: None,
            minimum: Rate(10_000_000),
        }
    }
}

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// The rate of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    of: Dcqcn,
    /// Bits per second by which the target rises.
    additive: f64,
    hyper: f64,
    /// Bits per second: the link's rate, the current rate, and the target to which it returns.
    line: f64,
    current: f64,
    target: f64,
    /// Estimate of congestion.
    alpha: f64,
    /// When alpha falls next and when the rate rises next; [`NEVER`] while the rate is the link's.
    next_alpha: u64,
    next_rate: u64,
    /// Bytes until the rate rises.
    left: u64,
    /// How often the rate rose by time and by bytes since it last fell.
    by_time: u32,
    by_bytes: u32,
}

impl Control {
    /// A connection that starts at the rate of its link.
    pub(crate) fn new(of: Dcqcn, line: Rate) -> Self {
        let line = line.0 as f64;
        let left = of.bytes.0;
        let or = |rate: Option<Rate>, part: f64| rate.map_or(line / part, |rate| rate.0 as f64);
        Self {
            of,
            additive: or(of.additive, 1000.0),
            hyper: or(of.hyper, 100.0),
            line,
            current: line,
            target: line,
            alpha: 1.0,
            next_alpha: NEVER,
            next_rate: NEVER,
            left,
            by_time: 0,
            by_bytes: 0,
        }
    }

    /// Returns the picoseconds in which `bytes` may be sent; zero at the link's rate.
    pub(crate) fn spacing(&self, bytes: u64) -> u64 {
        if self.current >= self.line { 0 } else { (bytes as f64 * 8e12 / self.current) as u64 }
    }

    /// Returns when the rate rises next if no more bytes are sent.
    pub(crate) fn next_rise(&self) -> u64 {
        self.next_rate
    }

    /// Applies everything that timers do up to `now`.
    pub(crate) fn catch_up(&mut self, now: u64) {
        if now >= self.next_alpha {
            let times = (now - self.next_alpha) / self.of.alpha_timer.0 + 1;
            self.alpha *= (1.0 - self.of.gain).powi(times.min(1 << 20) as i32);
            self.next_alpha += times * self.of.alpha_timer.0;
        }
        while now >= self.next_rate {
            self.next_rate = self.next_rate.saturating_add(self.of.rate_timer.0);
            self.by_time += 1;
            self.rise();
        }
    }

    /// Counts sent bytes.
    pub(crate) fn sent(&mut self, bytes: u64) {
        if self.next_rate == NEVER {
            return;
        }
        self.left = self.left.saturating_sub(bytes);
        if self.left == 0 {
            self.left = self.of.bytes.0;
            self.by_bytes += 1;
            self.rise();
        }
    }

    /// Handles a congestion notification.
    pub(crate) fn notified(&mut self, now: u64) {
        self.catch_up(now);
        self.target = self.current;
        self.current =
            (self.current * (1.0 - self.alpha / 2.0)).max((self.of.minimum.0 as f64).min(self.line));
        self.alpha = (1.0 - self.of.gain) * self.alpha + self.of.gain;
        self.next_alpha = now.saturating_add(self.of.alpha_timer.0);
        self.next_rate = now.saturating_add(self.of.rate_timer.0);
        (self.by_time, self.by_bytes, self.left) = (0, 0, self.of.bytes.0);
    }

    /// Raises the rate: fast recovery, additive or hyper increase.
    fn rise(&mut self) {
        let (least, most) = (self.by_time.min(self.by_bytes), self.by_time.max(self.by_bytes));
        let stages = self.of.stages;
        if least > stages {
            self.target += f64::from(least - stages) * self.hyper;
        } else if most >= stages {
            self.target += self.additive;
        }
        self.target = self.target.min(self.line);
        self.current = f64::midpoint(self.target, self.current);
        // Close enough: the rest would be approached forever.
        if self.target >= self.line && self.current >= 0.999 * self.line {
            (self.current, self.next_rate) = (self.line, NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    fn control() -> Control {
        Control::new(Dcqcn::default(), Rate(40_000_000_000))
    }

    #[test]
    fn the_first_notification_halves_the_rate_and_recovery_halves_the_gap() {
        let mut control = control();
        assert_eq!(control.spacing(1500), 0);
        control.notified(0);
        // Alpha is initially 1.
        assert!((control.current - 20e9).abs() < 1.0);
        assert_eq!(control.spacing(1500), 600_000);
        control.catch_up(55 * US);
        assert!((control.current - 30e9).abs() < 1.0);
        control.catch_up(4 * 55 * US);
        assert!((control.current - 38.75e9).abs() < 1.0);
    }

    #[test]
    fn after_fast_recovery_the_target_rises_by_steps() {
        let mut control = control();
        control.notified(0);
        control.notified(1);
        let target = control.target;
        control.catch_up(1 + 4 * 55 * US);
        assert_eq!(control.target.to_bits(), target.to_bits());
        control.catch_up(1 + 5 * 55 * US);
        assert!((control.target - target - 40e6).abs() < 1.0);
        // More rises by time and by bytes than stages of recovery: hyper increase.
        (0..6).for_each(|_| control.sent(10_000_000));
        let target = control.target;
        control.catch_up(1 + 6 * 55 * US);
        assert!((control.target - target - 400e6).abs() < 1.0);
    }

    #[test]
    fn alpha_falls_without_notifications() {
        let mut control = control();
        control.notified(0);
        control.catch_up(55 * US * 256);
        assert!((control.alpha - (1.0f64 - 1.0 / 256.0).powi(256)).abs() < 1e-9);
        // A single notification then costs little.
        let before = control.current;
        control.notified(55 * US * 256);
        assert!(control.current > 0.8 * before);
    }

    #[test]
    fn the_rate_has_bounds() {
        let mut control = control();
        (0..200).for_each(|at| control.notified(at));
        assert!((control.current - 10e6).abs() < 1.0);
        control.catch_up(1_000_000 * US);
        assert_eq!(control.spacing(1500), 0);
    }
}
