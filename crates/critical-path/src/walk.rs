//! Walks back over the stretches of a chain from its end.

use crate::savings::Savings;
use crate::stretch::{Stretch, StretchId};
use crate::sums::Sums;
use crate::trail::{Repeat, Trail};
use crate::{CriticalPath, Segment};
use std::collections::BTreeMap;
use syncline_units::{RankId, Time};

/// The task that ended last.
#[derive(Clone, Copy, Debug)]
pub struct LastTask {
    /// When it ended.
    pub end: Time,
    /// Index of its rank in the engine's tables.
    pub rank: u32,
    /// The stretch that ended with it.
    pub stretch: StretchId,
}

/// Notes taken while the steps on the critical path run.
#[derive(Debug, Default)]
pub struct Watched {
    /// Number of iterations on the path, from the first.
    pub iterations: u32,
    /// The task of these iterations that ended last.
    pub last: Option<LastTask>,
    /// Compute time of each rank.
    pub computed: Vec<Time>,
    /// The path, once all of these iterations are over.
    pub found: CriticalPath,
}

impl Watched {
    /// A task of these iterations ends on the rank with index `rank` at `now` with `stretch`.
    #[inline]
    pub fn ends(&mut self, now: Time, rank: u32, stretch: StretchId, trail: &mut Trail) {
        self.last = Some(match self.last {
            Some(last) if now == last.end && rank > last.rank => {
                LastTask { stretch: trail.meet(last.stretch, now, trail.moment(stretch, now)), ..last }
            }
            Some(last) => {
                let stretch = trail.meet(stretch, now, trail.moment(last.stretch, last.end));
                LastTask { end: now, rank, stretch }
            }
            None => LastTask { end: now, rank, stretch },
        });
    }

    /// The path. `number` gives the rank at an index of the engine's tables.
    pub fn path(&mut self, trail: &Trail, number: &dyn Fn(u32) -> RankId) -> CriticalPath {
        let computed = std::mem::take(&mut self.computed);
        let Some(LastTask { end, rank, stretch }) = self.last else {
            return CriticalPath { computed, ..CriticalPath::default() };
        };
        let (segments, Sums { spent, saved }) = trail.walk(stretch, end, number);
        let spent = spent.into_iter().map(|(spent, length)| (spent, Time(length))).collect();
        CriticalPath { segments, spent, saved, computed, rank: number(rank) }
    }
}

/// How much longer the time from `start` to `end` becomes with the skipped iterations.
fn repeated(repeats: &[Repeat], start: u64, end: u64) -> u64 {
    let again = |repeat: &Repeat| {
        let from = start.max(repeat.at.saturating_sub(repeat.length));
        end.min(repeat.at).saturating_sub(from).saturating_mul(repeat.times)
    };
    repeats.iter().map(again).fold(0, u64::saturating_add)
}

impl Trail {
    /// Adds the parts of a stretch, including skipped iterations.
    pub(crate) fn add(&self, stretch: &Stretch, end: u64, sums: &mut Sums) {
        let mut start = stretch.start;
        for (spent, length) in stretch.parts(end) {
            if length > 0 {
                let all = length + repeated(&self.repeats, start, start + length);
                *sums.spent.entry(spent).or_default() += all;
                sums.saved.spend(spent, all);
                start += length;
            }
        }
    }

    /// Adds the reduction by joins at the beginning of a stretch, including skipped iterations.
    pub(crate) fn add_jump(&self, stretch: StretchId, sums: &mut Sums) {
        let jump = self.jump(stretch);
        if jump.iter().any(|&less| less != 0) {
            let at = self.stretches[stretch.index()].start;
            let times = |repeat: &Repeat| {
                let again = repeat.at.saturating_sub(repeat.length) <= at && at < repeat.at;
                if again { repeat.times } else { 0 }
            };
            sums.saved.add(&jump, 1 + self.repeats.iter().map(times).sum::<u64>());
        }
    }

    /// The sums of an empty chain.
    pub(crate) fn no_sums(&self) -> Sums {
        Sums { spent: BTreeMap::new(), saved: Savings::none(self.earlier.stride) }
    }

    /// Converts a time on the trail's clock to simulated time.
    fn simulated(&self, time: u64, ends: bool) -> Time {
        let before = |repeat: &&Repeat| if ends { repeat.at < time } else { repeat.at <= time };
        let skipped =
            self.repeats.iter().filter(before).map(|repeat| repeat.length * repeat.times).sum::<u64>();
        Time(time + skipped)
    }

    /// The segments and sums of the chain that ends with `stretch` at `end`.
    pub(crate) fn walk(
        &self,
        mut stretch: StretchId,
        end: Time,
        number: &dyn Fn(u32) -> RankId,
    ) -> (Vec<Segment>, Sums) {
        let mut now = end.0.wrapping_sub(self.skipped);
        let (mut sums, mut segments) = (self.no_sums(), Vec::new());
        while stretch != StretchId::START {
            if let Some(known) = stretch.sums() {
                sums.append(&self.sums[known]);
                break;
            }
            let here = &self.stretches[stretch.index()];
            self.add(here, now, &mut sums);
            let mut until = now;
            for (spent, length) in here.parts(now).into_iter().rev().filter(|&(_, length)| length > 0) {
                self.between_skips((until - length, until), |start, end| {
                    let (rank, task, dim) = (number(here.of.rank), here.of.task, here.of.dim());
                    segments.push(Segment { start, end, rank, task, dim, spent });
                });
                until -= length;
            }
            if here.before.sums().is_none() {
                self.add_jump(stretch, &mut sums);
            }
            (stretch, now) = (here.before, here.start.min(now));
        }
        segments.reverse();
        (segments, sums)
    }

    /// Calls `visit` for the parts of a time span between skips, last part first.
    fn between_skips(&self, (start, end): (u64, u64), mut visit: impl FnMut(Time, Time)) {
        let mut until = end;
        for repeat in self.repeats.iter().rev().filter(|repeat| start < repeat.at && repeat.at < end) {
            visit(self.simulated(repeat.at, false), self.simulated(until, true));
            until = repeat.at;
        }
        visit(self.simulated(start, false), self.simulated(until, true));
    }
}
