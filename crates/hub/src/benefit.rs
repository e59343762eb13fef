//! Estimates whether two levels of hubs are worthwhile: hubs in each rack, and an exchange among racks (luo2020,
//! section 2.3).

/// Racks, their workers and the rates of their network, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RackModel {
    /// The number of racks.
    pub racks: u32,
    /// The number of workers in each rack.
    pub workers: u32,
    /// The rate at which a rack's hub can receive or send.
    pub hub_rate: f64,
    /// The rate between a rack and the core of the network.
    pub core_rate: f64,
    /// The rate at which a worker can receive or send.
    pub worker_rate: f64,
}

impl RackModel {
    /// Returns the seconds per byte of a model between racks, if every worker exchanges with hubs in all racks: the
    /// left side of the condition, `N (R - 1) / (R B_core)`.
    pub fn flat(&self) -> f64 {
        let (n, r) = (f64::from(self.workers), f64::from(self.racks));
        n * (r - 1.0) / (r * self.core_rate)
    }

    /// Returns the seconds per byte of the exchange among hubs: `C = (R - 1) / (R B_bn)`, where `B_bn` is the lower of
    /// the hub's and the core's rate. It is the same whether each hub sums a part of the vectors or the hubs form a
    /// ring.
    pub fn between(&self) -> f64 {
        let r = f64::from(self.racks);
        (r - 1.0) / (r * self.hub_rate.min(self.core_rate))
    }

    /// Returns the seconds per byte with two levels, if the exchange among hubs takes `between` seconds per byte
    /// (measured, or [`RackModel::between`]): the right side of the condition, `max(N / B_hub, 1 / B_worker) + C`.
    pub fn two_level(&self, between: f64) -> f64 {
        (f64::from(self.workers) / self.hub_rate).max(1.0 / self.worker_rate) + between
    }

    /// Returns whether two levels may be worthwhile.
    pub fn pays(&self, between: f64) -> bool {
        self.flat() > self.two_level(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn racks(racks: u32, core_rate: f64) -> RackModel {
        RackModel { racks, workers: 8, hub_rate: 10.0, core_rate, worker_rate: 1.25 }
    }

    #[test]
    fn two_levels_pay_if_the_core_is_slow() {
        // By hand: flat 8 * 1 / (2 * 1.25) = 3.2; two levels max(0.8, 0.8) + 1 / (2 * 1.25) = 1.2.
        let thin = racks(2, 1.25);
        let between = thin.between();
        assert!((thin.flat() - 3.2).abs() < 1e-12 && (thin.two_level(between) - 1.2).abs() < 1e-12);
        assert!(thin.pays(between));
        // flat 8 / (2 * 20) = 0.2, which is less than the rack's own exchange.
        assert!(!racks(2, 20.0).pays(0.0));
        assert!(!racks(1, 0.001).pays(0.0));
    }
}
