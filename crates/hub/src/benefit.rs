//! Whether two levels of hubs pay: one in each rack, and an exchange between them (luo2020, section 2.3).

/// Racks, their workers, and what the network gives them. Rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Racks {
    /// Racks.
    pub racks: u32,
    /// Workers in each.
    pub workers: u32,
    /// What a rack's hub can receive or send.
    pub hub_rate: f64,
    /// What the core of the network gives a rack.
    pub core_rate: f64,
    /// What a worker can receive or send.
    pub worker_rate: f64,
}

impl Racks {
    /// Seconds per byte of a model that go between racks where every worker exchanges with hubs in all racks: the left side
    /// of the condition, `N (R - 1) / (R B_core)`.
    pub fn flat(&self) -> f64 {
        let (n, r) = (f64::from(self.workers), f64::from(self.racks));
        n * (r - 1.0) / (r * self.core_rate)
    }

    /// Seconds per byte of the exchange among hubs: `C = (R - 1) / (R B_bn)`, where `B_bn` is the lesser of the hub's rate
    /// and the core's. It is the same where hubs have a part of the vectors each, and where they form a ring.
    pub fn between(&self) -> f64 {
        let r = f64::from(self.racks);
        (r - 1.0) / (r * self.hub_rate.min(self.core_rate))
    }

    /// Seconds per byte with two levels, where racks exchange in `between` seconds per byte (measured, or
    /// [`Racks::between`]): the right side of the condition, `max(N / B_hub, 1 / B_worker) + C`.
    pub fn two_level(&self, between: f64) -> f64 {
        (f64::from(self.workers) / self.hub_rate).max(1.0 / self.worker_rate) + between
    }

    /// Whether two levels may pay.
    pub fn pays(&self, between: f64) -> bool {
        self.flat() > self.two_level(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn racks(racks: u32, core_rate: f64) -> Racks {
        Racks { racks, workers: 8, hub_rate: 10.0, core_rate, worker_rate: 1.25 }
    }

    #[test]
    fn a_thin_core_makes_two_levels_pay() {
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
