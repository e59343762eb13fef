//! Round-trip times and the retransmission time-out (RFC 6298).

/// The longest time-out (RFC 6298, 2.5).
const LONGEST: u64 = 60_000_000_000_000;

/// Granularity of the clock, G of RFC 6298: 1 us.
const GRANULARITY: u64 = 1_000_000;

/// What a sender knows of its round-trip time, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// SRTT; 0 before the first sample.
    pub smoothed: u64,
    /// RTTVAR.
    variation: u64,
    /// RTO, doubled by every time-out since the last sample.
    pub timeout: u64,
    /// Time-outs since the last sample.
    pub in_a_row: u32,
    shortest: u64,
}

impl Rtt {
    /// The state before the first sample: `initial` is the time-out, at least `shortest` and the clock's
    /// granularity.
    pub fn new(initial: u64, shortest: u64) -> Self {
        let shortest = shortest.max(GRANULARITY);
        Self { smoothed: 0, variation: 0, timeout: initial.max(shortest), in_a_row: 0, shortest }
    }

    /// Takes a sample from a segment that was sent once (Karn), or from a time stamp (RFC 7323).
    #[inline]
    pub fn sample(&mut self, rtt: u64) {
        if self.smoothed == 0 {
            // (2.2)
            (self.smoothed, self.variation) = (rtt, rtt / 2);
        } else {
            // (2.3), alpha 1/8 and beta 1/4
            self.variation = (3 * self.variation + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
        }
        let timeout = self.smoothed + GRANULARITY.max(4 * self.variation);
        self.timeout = timeout.min(LONGEST).max(self.shortest);
        self.in_a_row = 0;
    }

    /// Doubles the time-out after the timer ran out (5.5).
    pub fn back_off(&mut self) {
        self.in_a_row += 1;
        self.timeout = self.timeout.saturating_mul(2).min(LONGEST).max(self.shortest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    #[test]
    fn samples_set_the_time_out_as_rfc_6298_requires() {
        let mut rtt = Rtt::new(1000 * MS, MS);
        assert_eq!(rtt.timeout, 1000 * MS);
        rtt.sample(80 * MS);
        assert_eq!((rtt.smoothed, rtt.variation, rtt.timeout), (80 * MS, 40 * MS, 240 * MS));
        rtt.sample(160 * MS);
        assert_eq!((rtt.smoothed, rtt.variation, rtt.timeout), (90 * MS, 50 * MS, 290 * MS));
    }

    #[test]
    fn the_time_out_is_never_zero_and_the_shortest_may_be_long() {
        assert_eq!(Rtt::new(0, 0).timeout, GRANULARITY);
        let mut rtt = Rtt::new(0, 2 * LONGEST);
        rtt.sample(MS);
        assert_eq!(rtt.timeout, 2 * LONGEST);
        rtt.back_off();
        assert_eq!(rtt.timeout, 2 * LONGEST);
    }

    #[test]
    fn time_outs_double_up_to_a_minute_and_are_never_too_short() {
        let mut rtt = Rtt::new(MS, 50 * MS);
        assert_eq!(rtt.timeout, 50 * MS);
        rtt.sample(MS / 100);
        assert_eq!(rtt.timeout, 50 * MS);
        rtt.back_off();
        assert_eq!(rtt.timeout, 100 * MS);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout, 60_000 * MS);
    }
}
