//! Queues and losses over time: the run is cut into slices, and a slice sums up what happened at all switches
//! of a set of parameters.
//!
//! A run's length is unknown before its end, so slices start short and are joined in pairs when there are too
//! many.

use syncline_net_api::activity::SLICES;

/// Length of the first slices, as a power of two of picoseconds: 1 us.
const SHORTEST: u32 = 20;

/// What happened in a slice of time at the switch ports and connections of one set of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of packets times the picoseconds that they waited. Ports that may be paused count a packet when they
    /// send it, others when it arrives.
    pub queued: u128,
    /// The longest queue that a packet met, in bytes.
    pub longest: u64,
    /// Packets that found no room or were dropped early.
    pub drops: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// How often a port was paused.
    pub pauses: u64,
}

impl Sample {
    fn join(&mut self, other: &Self) {
        self.queued += other.queued;
        self.longest = self.longest.max(other.longest);
        self.drops += other.drops;
        self.marks += other.marks;
        self.retransmissions += other.retransmissions;
        self.timeouts += other.timeouts;
        self.pauses += other.pauses;
    }
}

/// Samples of every set of parameters.
#[derive(Clone, Debug)]
pub struct Meter {
    sets: usize,
    /// Length of a slice, as a power of two of picoseconds.
    shift: u32,
    /// When the current slice ends.
    end: u64,
    present: Vec<Sample>,
    /// Finished slices: all sets of the first slice, then all sets of the next.
    past: Vec<Sample>,
}

impl Meter {
    pub(crate) fn new(sets: usize) -> Self {
        let present = vec![Sample::default(); sets];
        Self { sets, shift: SHORTEST, end: 1 << SHORTEST, present, past: Vec::new() }
    }

    /// Returns the sample of the current slice of `set`.
    #[inline]
    pub(crate) fn at(&mut self, now: u64, set: u16) -> &mut Sample {
        if now >= self.end {
            self.advance(now);
        }
        &mut self.present[set as usize]
    }

    #[cold]
    fn advance(&mut self, now: u64) {
        while now >> self.shift >= SLICES as u64 {
            self.join();
        }
        let slice = (now >> self.shift) as usize;
        if self.past.len() / self.sets < slice {
            self.past.append(&mut self.present);
            self.past.resize(slice * self.sets, Sample::default());
            self.present = vec![Sample::default(); self.sets];
        }
        self.end = (slice as u64 + 1) << self.shift;
    }

    /// Joins slices in pairs, which doubles their length. The current slice absorbs the last one if their
    /// number is odd.
    fn join(&mut self) {
        let slices = self.past.len() / self.sets;
        let joined: Vec<Sample> = (0..slices / 2 * self.sets)
            .map(|at| {
                let (slice, set) = (at / self.sets, at % self.sets);
                let mut sum = self.past[2 * slice * self.sets + set];
                sum.join(&self.past[(2 * slice + 1) * self.sets + set]);
                sum
            })
            .collect();
        if slices % 2 == 1 {
            for (set, present) in self.present.iter_mut().enumerate() {
                present.join(&self.past[(slices - 1) * self.sets + set]);
            }
        }
        self.past = joined;
        self.shift += 1;
    }

    /// Returns the length of a slice in picoseconds.
    pub fn slice(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the samples of `set` from the start of the run, one per slice.
    pub fn samples(&self, set: usize) -> impl Iterator<Item = &Sample> {
        self.past
            .chunks_exact(self.sets)
            .chain(std::iter::once(&self.present[..]))
            .map(move |slice| &slice[set])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the meter with a plain list of what happened when.
        #[test]
        fn nothing_is_lost_and_slices_hold_what_happened_in_them(steps in prop::collection::vec((0u64..1 << 26, 0u16..3), 1..200)) {
            let mut meter = Meter::new(3);
            let (mut now, mut all) = (0, Vec::new());
            for &(later, set) in &steps {
                now += later;
                let sample = meter.at(now, set);
                sample.drops += 1;
                sample.longest = sample.longest.max(now);
                all.push((now, set));
            }
            for set in 0..3u16 {
                let mut slices = 0;
                for (slice, sample) in meter.samples(set as usize).enumerate() {
                    let within = |&&(time, of): &&(u64, u16)| of == set && time / meter.slice() == slice as u64;
                    prop_assert_eq!(sample.drops, all.iter().filter(within).count() as u64);
                    prop_assert_eq!(sample.longest, all.iter().filter(within).map(|each| each.0).max().unwrap_or(0));
                    slices += 1;
                }
                prop_assert!(slices <= SLICES, "{slices}");
            }
        }
    }
}
