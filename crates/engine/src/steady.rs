//! Repetition in time: iterations that are like earlier ones are not simulated again.
//!
//! Whenever rank 0 opens an iteration, and the events of that time are done, everything that decides about the future is
//! written down, relative to the present and to the iteration ([`mod@state`]). Where an earlier boundary reads the same,
//! what lies between the two comes again and again, for as long as no rank runs out of iterations: the engine moves its
//! clock and its counters over as many such periods as there are ([`mod@skip`]), books what they would have left
//! ([`mod@accounts`]), and simulates what is left. Nothing is approximated: equal states have equal futures.
//!
//! Where a training step has several micro-batches, which are the iterations of the engine, a period is either so many
//! whole steps, or so many micro-batches within a step. The latter comes again only before the step's last micro-batch,
//! whose tasks are others, but does so in every step that is simulated.

mod accounts;
mod skip;
mod state;

use crate::{Engine, Network};
use accounts::Accounts;
use syncline_units::Time;

/// Boundaries of steps, and within a step, that are remembered: the longest period that is found.
const REMEMBERED: usize = 8;

/// What is known of earlier boundaries.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    /// Nothing more is looked for.
    pub(crate) off: bool,
    /// Until then what is to come depends on the hour: ranks begin, or become slower or faster.
    settled: Time,
    /// No more steps are left out.
    steps_off: bool,
    /// No more micro-batches of the present step are left out.
    within_off: bool,
    /// The step that rank 0 has opened last.
    step: u32,
    /// In the order of time: the first of each step, and the others of the present one.
    boundaries: Vec<Boundary>,
    /// Iterations of rank 0 that were not simulated: micro-batches.
    pub(crate) skipped: u32,
    /// Steps of which none was simulated.
    pub(crate) skipped_steps: u32,
}

#[derive(Debug)]
struct Boundary {
    /// Iterations that rank 0 had opened.
    opened: u32,
    /// Whether it was the first that was met in its step.
    first: bool,
    now: Time,
    state: Vec<u64>,
    /// Beginnings of what was not over.
    beginnings: Vec<Time>,
    accounts: Accounts,
}

impl Steady {
    /// Nothing known yet; `off` where nothing is to be looked for, and nothing is before `settled`.
    pub(crate) fn new(off: bool, settled: Time) -> Self {
        Self { off, settled, step: u32::MAX, ..Self::default() }
    }

    /// Forgets everything, and looks for nothing more.
    fn end(&mut self) {
        self.off = true;
        self.boundaries = Vec::new();
    }

    /// Rank 0 is in `step`; whether this is the first boundary there.
    fn enter(&mut self, step: u32) -> bool {
        let first = self.step != step;
        if first {
            (self.step, self.within_off) = (step, false);
            self.boundaries.retain(|known| known.first);
        }
        first
    }

    /// Makes room among the boundaries for one that is the `first` of its step, or not.
    fn make_room(&mut self, first: bool) {
        if self.boundaries.iter().filter(|known| known.first == first).count() == REMEMBERED
            && let Some(oldest) = self.boundaries.iter().position(|known| known.first == first)
        {
            self.boundaries.remove(oldest);
        }
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
            self.steady.end();
            return;
        }
        if self.now < self.steady.settled {
            return;
        }
        let (opened, now) = (self.ranks[0].opened, self.now);
        let micro_batches = self.job.workload.micro_batches();
        let first = self.steady.enter((opened - 1) / micro_batches);
        if self.steady.within_off && (self.steady.steps_off || !first) {
            return;
        }
        let Some(state) = self.state() else { return };
        let beginnings: Vec<Time> = self.beginnings().into_iter().map(|time| *time).collect();
        let like = |known: &Boundary| {
            let length = now.saturating_sub(known.now);
            let pairs = || known.beginnings.iter().zip(&beginnings);
            known.state == state
                && pairs().all(|(&then, &this)| this == then || this == then.saturating_add(length))
        };
        // How often the time since a boundary may come again.
        let often = |known: &Boundary| {
            let period = opened - known.opened;
            if period.is_multiple_of(micro_batches) {
                (!self.steady.steps_off).then_some(left / period)
            } else {
                self.repetitions_within(period)
            }
        };
        let found = (0..).zip(&self.steady.boundaries).filter(|(_, known)| like(known));
        let found = found.filter_map(|(index, known)| Some((index, often(known)?)));
        // Whole steps rather than micro-batches.
        let known = found.min_by_key(|&(index, _)| {
            let period = opened - self.steady.boundaries[index].opened;
            (!period.is_multiple_of(micro_batches), index)
        });
        if let Some((index, times)) = known {
            // What is looked at moment by moment is simulated.
            if !self.watching {
                self.leave_out(index, times, until, &beginnings);
            }
            return;
        }
        self.steady.make_room(first);
        let accounts = self.accounts();
        self.steady.boundaries.push(Boundary { opened, first, now, state, beginnings, accounts });
    }

    /// Goes over up to `most` repetitions of the time since a boundary, given beginnings of what is not over.
    fn leave_out(&mut self, index: usize, most: u32, until: Time, beginnings: &[Time]) {
        let known = &self.steady.boundaries[index];
        let (period, length) = (self.ranks[0].opened - known.opened, self.now.saturating_sub(known.now));
        let mut times = most;
        if let Some(most) = until.saturating_sub(self.now).0.checked_div(length.0) {
            times = times.min(u32::try_from(most).unwrap_or(u32::MAX));
        }
        let before = known.accounts.clone();
        let lasting: Vec<bool> = known.beginnings.iter().zip(beginnings).map(|(a, b)| a == b).collect();
        let micro_batches = self.job.workload.micro_batches();
        if period.is_multiple_of(micro_batches) {
            self.steady.steps_off = true;
            self.steady.skipped_steps += period / micro_batches * times;
            self.steady.boundaries = Vec::new();
            self.steady.off = micro_batches == 1;
        } else {
            self.steady.within_off = true;
        }
        if times == 0 {
            return;
        }
        self.steady.skipped += period * times;
        self.book_again(&before, times, period, length);
        let by = Time(length.0.saturating_mul(u64::from(times)));
        let begun = self.beginnings().into_iter().zip(lasting);
        for (time, _) in begun.filter(|&(_, lasting)| !lasting) {
            *time = time.saturating_add(by);
        }
        self.skip(by, period * times);
        self.steady.step = (self.ranks[0].opened - 1) / micro_batches;
    }

    /// Iterations that every rank has still to open.
    fn iterations_left(&self) -> u32 {
        (0..self.ranks.len() as u32)
            .map(|rank| self.graph(rank).iterations - self.ranks[rank as usize].opened)
            .min()
            .unwrap_or(0)
    }

    /// How often the last `period` iterations may come again within a step; `None` where they are no such.
    fn repetitions_within(&self, period: u32) -> Option<u32> {
        let of_rank = |rank: u32| {
            let (opened, of_step) = (self.ranks[rank as usize].opened, self.graph(rank).micro_batches);
            let first = opened - period;
            let last = first - first % of_step + (of_step - 1);
            Some(last.checked_sub(opened)? / period)
        };
        (0..self.ranks.len() as u32).map(of_rank).min().flatten()
    }

    /// Whether all collectives of the run have numbers of their own in keys.
    fn repeats_order(&self) -> bool {
        let iterations = self.job.workload.classes.iter().map(|graph| graph.iterations).max().unwrap_or(0);
        self.numbers.all_in(0, iterations) < self.keys.numbers() - 1
    }
}
