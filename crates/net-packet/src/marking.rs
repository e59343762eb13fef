//! Which packets a queue marks, or drops before it is full: random early detection (Floyd and Jacobson,
//! 1993). A step is its simplest case.

use crate::parameters::Marking;

/// The state of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Early {
    of: Marking,
    /// Average queue in bytes.
    average: f64,
    /// Picoseconds to send a small packet.
    small: u64,
    /// State of the random number generator.
    state: u64,
}

impl Early {
    /// The state of an empty queue whose port sends a packet of the smallest size in `small` picoseconds.
    /// Each queue has its own `seed`.
    pub(crate) fn new(of: Marking, small: u64, seed: u64) -> Self {
        Self { of, average: 0.0, small: small.max(1), state: seed }
    }

    /// Whether packets are dropped instead of marked.
    pub(crate) fn drops(&self) -> bool {
        self.of.drop
    }

    /// Returns whether to mark or drop a packet that finds `queue` bytes ahead of it; the queue was empty for
    /// `idle` picoseconds.
    pub(crate) fn meets(&mut self, queue: u64, idle: u64) -> bool {
        let queue = queue as f64;
        if self.of.weight >= 1.0 {
            self.average = queue;
        } else {
            // Age the average as if small packets had kept arriving while the queue was empty.
            let idle = (idle / self.small).min(1 << 20) as i32;
            self.average *= (1.0 - self.of.weight).powi(idle);
            self.average += self.of.weight * (queue - self.average);
        }
        let (from, to) = (self.of.from.0 as f64, self.of.to.0 as f64);
        if self.average >= to {
            return true;
        }
        self.average >= from && self.draw() < self.of.probability * (self.average - from) / (to - from)
    }

    /// Draws a number that is at least 0 and below 1 (SplitMix64).
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_units::Bytes;

    fn early(weight: f64) -> Early {
        let of = Marking { from: Bytes(1000), to: Bytes(3000), probability: 0.5, weight, drop: false };
        Early::new(of, 1000, 7)
    }

    #[test]
    fn a_step_marks_every_packet_at_or_above_it() {
        let mut step = Early::new(Marking::step(Bytes(1000)), 1, 0);
        assert!(!step.meets(999, 0));
        assert!(step.meets(1000, 0));
    }

    #[test]
    fn between_the_bounds_the_marked_fraction_grows_with_the_queue() {
        let part = |queue: u64| {
            let mut early = early(1.0);
            (0..10_000).filter(|_| early.meets(queue, 0)).count() as f64 / 10_000.0
        };
        assert_eq!(part(1000).to_bits(), 0f64.to_bits());
        assert!((part(2000) - 0.25).abs() < 0.02, "{}", part(2000));
        assert!((part(2999) - 0.5).abs() < 0.02, "{}", part(2999));
        assert_eq!(part(3000).to_bits(), 1f64.to_bits());
    }

    #[test]
    fn the_average_follows_slowly_and_falls_while_the_queue_is_empty() {
        let mut early = early(0.1);
        assert!(!early.meets(4000, 0));
        (0..100).for_each(|_| {
            early.meets(4000, 0);
        });
        assert!(early.meets(4000, 0));
        assert!(!early.meets(0, 100_000));
    }

    #[test]
    fn an_idle_queue_ages_by_a_small_packet_each_time_one_could_be_sent() {
        // 2,500 ps hold two packets of 1,000 ps. Then the next one, of an empty queue, counts.
        let mut early = early(0.25);
        early.average = 1024.0;
        early.meets(0, 2500);
        assert_eq!(early.average.to_bits(), (1024.0 * 0.75f64.powi(3)).to_bits());
    }
}
