//! Skips iterations that repeat earlier ones.
//!
//! Whenever rank 0 opens an iteration and the events of that time are done (a *boundary*), the engine saves
//! everything that the future depends on, relative to the present time and iteration ([`mod@state`]). If the state
//! equals that of an earlier boundary, the period between the two repeats until some rank runs out of iterations. The
//! engine then advances its clock and counters over as many periods as remain ([`mod@skip`]), books what they would
//! have added to the record ([`mod@accounts`]), and simulates the rest. Nothing is approximated: equal states have
//! equal futures.
//!
//! If a training step has several micro-batches (the engine's iterations), a period is either a number of whole
//! steps, or a number of micro-batches within a step. The latter repeats only up to the step's last micro-batch,
//! which has other tasks, but it is found again in every simulated step.

mod accounts;
mod skip;
mod state;

use crate::Engine;
use crate::quotient::RankIndex;
use accounts::Accounts;
use syncline_net_api::NetworkModel;
use syncline_units::Time;

/// Number of boundaries remembered, of steps and within a step. This is the longest period that is found.
const REMEMBERED: usize = 8;

/// What is known about earlier boundaries.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    /// The search is over.
    pub(crate) off: bool,
    /// Before this time, the future depends on absolute time: ranks start late, or become slower or faster.
    settled: Time,
    /// No more whole steps are skipped.
    steps_off: bool,
    /// No more micro-batches of the present step are skipped.
    within_off: bool,
    /// The step that rank 0 opened last.
    step: u32,
    /// In time order: the first boundary of each step, and the others of the present step.
    boundaries: Vec<Boundary>,
    /// Iterations (micro-batches) of rank 0 that were skipped.
    pub(crate) skipped: u32,
    /// Steps that were skipped entirely.
    pub(crate) skipped_steps: u32,
}

#[derive(Debug)]
struct Boundary {
    /// Number of iterations that rank 0 had opened.
    opened: u32,
    /// Whether it was the first boundary of its step.
    first: bool,
    now: Time,
    state: Vec<u64>,
    /// Start times of what was under way.
    beginnings: Vec<Time>,
    accounts: Accounts,
}

impl Steady {
    /// Nothing is known yet. `off` turns the search off; before `settled` nothing is searched.
    pub(crate) fn new(off: bool, settled: Time) -> Self {
        Self { off, settled, step: u32::MAX, ..Self::default() }
    }

    /// Forgets everything and ends the search.
    fn end(&mut self) {
        self.off = true;
        self.boundaries = Vec::new();
    }

    /// Notes that rank 0 is in `step`. Returns whether this is the first boundary of the step.
    fn enter(&mut self, step: u32) -> bool {
        let first = self.step != step;
        if first {
            (self.step, self.within_off) = (step, false);
            self.boundaries.retain(|known| known.first);
        }
        first
    }

    /// Makes room for a boundary that is, or is not, the `first` of its step.
    fn make_room(&mut self, first: bool) {
        if self.boundaries.iter().filter(|known| known.first == first).count() == REMEMBERED
            && let Some(oldest) = self.boundaries.iter().position(|known| known.first == first)
        {
            self.boundaries.remove(oldest);
        }
    }
}

impl<N: NetworkModel> Engine<'_, N> {
    /// Looks for a period that ends now, and skips its repetitions up to time `until`.
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
        // How often the period since a boundary can repeat.
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
        // Prefers whole steps to micro-batches.
        let known = found.min_by_key(|&(index, _)| {
            let period = opened - self.steady.boundaries[index].opened;
            (!period.is_multiple_of(micro_batches), index)
        });
        if let Some((index, times)) = known {
            // Iterations whose activity is recorded are simulated.
            if self.activity.is_stopped() {
                self.leave_out(index, times, until, &beginnings);
            }
            return;
        }
        self.steady.make_room(first);
        let accounts = self.accounts();
        self.steady.boundaries.push(Boundary { opened, first, now, state, beginnings, accounts });
    }

    /// Skips up to `most` repetitions of the period since a boundary. `beginnings` are the start times of what is
    /// under way.
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
        if self.calendar.trail.is_on() {
            self.calendar.trail.leave_out(self.now, length, times);
            self.compute_again(&before, times);
        }
        self.book_again(&before, times, period, length);
        let by = Time(length.0.saturating_mul(u64::from(times)));
        let begun = self.beginnings().into_iter().zip(lasting);
        for (time, _) in begun.filter(|&(_, lasting)| !lasting) {
            *time = time.saturating_add(by);
        }
        self.skip(by, period * times);
        self.steady.step = (self.ranks[0].opened - 1) / micro_batches;
    }

    /// Number of iterations that all ranks have still to open.
    fn iterations_left(&self) -> u32 {
        self.rank_indices()
            .map(|rank| self.graph(rank).iterations - self.ranks[rank.index()].opened)
            .min()
            .unwrap_or(0)
    }

    /// How often the last `period` iterations can repeat within a step; `None` if they are not within one step.
    fn repetitions_within(&self, period: u32) -> Option<u32> {
        let of_rank = |rank: RankIndex| {
            let (opened, of_step) = (self.ranks[rank.index()].opened, self.graph(rank).micro_batches);
            let first = opened - period;
            let last = first - first % of_step + (of_step - 1);
            Some(last.checked_sub(opened)? / period)
        };
        self.rank_indices().map(of_rank).min().flatten()
    }

    /// Whether keys can distinguish all collectives of the run.
    fn repeats_order(&self) -> bool {
        let iterations = self.job.workload.classes.iter().map(|graph| graph.iterations).max().unwrap_or(0);
        self.numbers.all_in(0, iterations) < self.keys.numbers() - 1
    }
}
