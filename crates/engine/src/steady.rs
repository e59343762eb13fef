//! Repetition in time: iterations that are like earlier ones are not simulated again.
//!
//! Whenever rank 0 opens an iteration, and the events of that time are done, everything that decides about the future is
//! written down, relative to the present and to the iteration ([`mod@state`]). Where an earlier boundary reads the same,
//! what lies between the two comes again and again, for as long as no rank runs out of iterations: the engine moves its
//! clock and its counters over as many such periods as there are ([`mod@skip`]), books what they would have left
//! ([`mod@accounts`]), and simulates what is left. Nothing is approximated: equal states have equal futures.

mod accounts;
mod skip;
mod state;

use crate::sets::NUMBERS;
use crate::{Engine, Network};
use accounts::Accounts;
use syncline_units::Time;

/// Boundaries that are remembered: the longest period that is found.
const REMEMBERED: usize = 8;

/// What is known of earlier boundaries.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    /// Nothing more is looked for.
    pub(crate) off: bool,
    boundaries: Vec<Boundary>,
    /// Iterations of rank 0 that were not simulated.
    pub(crate) skipped: u32,
}

#[derive(Debug)]
struct Boundary {
    /// Iterations that rank 0 had opened.
    opened: u32,
    now: Time,
    state: Vec<u64>,
    /// Beginnings of what was not over.
    beginnings: Vec<Time>,
    accounts: Accounts,
}

impl Steady {
    /// Nothing known yet; `off` where nothing is to be looked for.
    pub(crate) fn new(off: bool) -> Self {
        Self { off, ..Self::default() }
    }
}

impl<N: Network> Engine<'_, N> {
    /// Looks for a period that ends here, and leaves out its repetitions up to time `until`.
    #[cold]
    pub(crate) fn look_back(&mut self, until: Time) {
        if self.steady.off {
            return;
        }
        let left = self.iterations_left();
        self.record.too_many_to_repeat |= left > 0 && !self.repeats_order();
        if left == 0 || self.record.too_many_to_repeat {
            self.steady = Steady::new(true);
            return;
        }
        // What is to come must not depend on the hour.
        if self.now < self.job.slow.settled() {
            return;
        }
        let Some(state) = self.state() else { return };
        let (opened, now) = (self.ranks[0].opened, self.now);
        let beginnings: Vec<Time> = self.beginnings().into_iter().map(|time| *time).collect();
        let like = |known: &&Boundary| {
            let length = now.saturating_sub(known.now);
            let pairs = || known.beginnings.iter().zip(&beginnings);
            known.state == state
                && pairs().all(|(&then, &this)| this == then || this == then.saturating_add(length))
        };
        if let Some(known) = self.steady.boundaries.iter().find(like) {
            // What is looked at moment by moment is simulated.
            if self.watching {
                return;
            }
            let (period, length) = (opened - known.opened, now.saturating_sub(known.now));
            let mut times = left / period;
            if let Some(most) = until.saturating_sub(self.now).0.checked_div(length.0) {
                times = times.min(u32::try_from(most).unwrap_or(u32::MAX));
            }
            let before = known.accounts.clone();
            let lasting: Vec<bool> = known.beginnings.iter().zip(&beginnings).map(|(a, b)| a == b).collect();
            self.steady = Steady::new(true);
            if times > 0 {
                self.steady.skipped = period * times;
                self.book_again(&before, times, period, length);
                let by = Time(length.0.saturating_mul(u64::from(times)));
                let begun = self.beginnings().into_iter().zip(lasting);
                for (time, _) in begun.filter(|&(_, lasting)| !lasting) {
                    *time = time.saturating_add(by);
                }
                self.skip(by, period * times);
            }
            return;
        }
        if self.steady.boundaries.len() == REMEMBERED {
            self.steady.boundaries.remove(0);
        }
        let accounts = self.accounts();
        self.steady.boundaries.push(Boundary { opened, now, state, beginnings, accounts });
    }

    /// Iterations that every rank has still to open.
    fn iterations_left(&self) -> u32 {
        (0..self.ranks.len() as u32)
            .map(|rank| self.graph(rank).iterations - self.ranks[rank as usize].opened)
            .min()
            .unwrap_or(0)
    }

    /// Whether all collectives of the run have numbers of their own in keys.
    fn repeats_order(&self) -> bool {
        let iterations = self.job.workload.classes.iter().map(|graph| graph.iterations).max().unwrap_or(0);
        self.numbers.all.saturating_mul(u64::from(iterations)) < NUMBERS - 1
    }
}
