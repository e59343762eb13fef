//! Computes how much shorter a run would be if one kind of time were shorter.
//!
//! The critical path predicts the effect of a small change. After a large change, another chain may be the longest.
//! So each stretch also stores how much earlier it would begin if compute, or the bytes of one tier, took half as
//! long, or if there were no latency. For a single chain, that is what the chain before the stretch saves. Where
//! several chains join, it is at most what each of the other chains saves plus the time by which that chain was early
//! ([`Trail::meet`]).
//!
//! Like the critical path, this assumes that ports serve messages in the same order after the change. With `lifo` and
//! `priority`, chunks may overtake others after the change, so predictions are less accurate.

use crate::Spent;
use crate::trail::{NO_TIER, Stretch, StretchId, Trail, Work};
use smallvec::SmallVec;
use syncline_units::Time;

/// Number of kinds of time besides the bytes of each tier.
const OTHERS: usize = 5;
const COMPUTE: usize = 0;
const MEMORY: usize = 1;
const REDUCTION: usize = 2;
const LATENCY: usize = 3;
/// Bytes of all tiers.
const LINKS: usize = 4;

/// How much shorter the steps on the critical path would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// In half picoseconds, by kind of time: first the constants above, then the tiers.
    halves: Vec<i64>,
}

impl Savings {
    /// No savings, for `stride` kinds of time.
    pub(crate) fn none(stride: usize) -> Self {
        Self { halves: vec![0; stride] }
    }

    /// Twice the time that is saved if this kind takes half as long, or if there is no latency. The value is doubled
    /// so that half picoseconds stay exact.
    pub fn twice(&self, spent: Spent) -> Time {
        let saved = index(spent).and_then(|index| self.halves.get(index)).copied().unwrap_or_default();
        Time(u64::try_from(saved).unwrap_or_default())
    }

    /// As [`Savings::twice`], if bytes take half as long on the links of all tiers.
    pub fn twice_on_all_links(&self) -> Time {
        let saved = self.halves.get(LINKS).copied().unwrap_or_default();
        Time(u64::try_from(saved).unwrap_or_default())
    }

    /// Adds what `length` of this kind of time saves.
    pub(crate) fn spend(&mut self, spent: Spent, length: u64) {
        if let Some(saved) = index(spent).and_then(|index| self.halves.get_mut(index)) {
            let times = if spent == Spent::Latency { 2 } else { 1 };
            *saved = saved.saturating_add_unsigned(length.saturating_mul(times));
        }
        if let (Spent::Bytes(_) | Spent::Queueing(_), Some(saved)) = (spent, self.halves.get_mut(LINKS)) {
            *saved = saved.saturating_add_unsigned(length);
        }
    }

    /// Adds the savings of the chain that precedes this one.
    pub(crate) fn append(&mut self, behind: &Self) {
        self.add(&behind.halves, 1);
    }

    /// Adds the reduction by a join (`other` is not positive), `times` times.
    pub(crate) fn add(&mut self, other: &[i64], times: u64) {
        for (saved, &less) in self.halves.iter_mut().zip(other) {
            *saved = saved.saturating_add(less.saturating_mul(times as i64));
        }
    }
}

/// The index of a kind of time.
fn index(spent: Spent) -> Option<usize> {
    Some(match spent {
        Spent::Compute => COMPUTE,
        Spent::Memory => MEMORY,
        Spent::Reduction => REDUCTION,
        Spent::Latency => LATENCY,
        Spent::Bytes(NO_TIER) | Spent::Queueing(NO_TIER) => return None,
        Spent::Bytes(tier) | Spent::Queueing(tier) => OTHERS + usize::from(tier),
    })
}

/// The time of something that others may wait for, and the stretch that ended with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    stretch: StretchId,
    /// On the trail's clock ([`Trail::clock`]).
    at: u64,
}

impl Moment {
    /// Nothing that could be waited for.
    pub const NONE: Self = Self { stretch: StretchId::START, at: 0 };

    /// The stretch.
    pub fn stretch(self) -> StretchId {
        self.stretch
    }

    /// The stretch, for `NetworkModel::visit_stretches`.
    pub fn stretch_mut(&mut self) -> &mut StretchId {
        &mut self.stretch
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::NONE
    }
}

/// What one stretch saves, in half picoseconds, by kind of time.
struct Saved {
    others: [i64; OTHERS],
    /// Index of the bytes of its tier; `usize::MAX` without a tier.
    tier: usize,
    bytes: i64,
}

impl Saved {
    const NOTHING: Self = Self { others: [0; OTHERS], tier: usize::MAX, bytes: 0 };
}

impl Stretch {
    #[inline]
    fn saved(&self, until: u64) -> Saved {
        let whole = until.saturating_sub(self.start);
        let mut saved = Saved::NOTHING;
        match self.work {
            Work::Compute => saved.others[COMPUTE] = whole as i64,
            Work::Memory => saved.others[MEMORY] = whole as i64,
            Work::Messages => {
                let bytes = self.bytes + self.queueing;
                saved.others[REDUCTION] = self.reduction as i64;
                saved.others[LINKS] = bytes as i64;
                saved.others[LATENCY] = 2 * whole.saturating_sub(bytes + self.reduction) as i64;
                if self.tier != NO_TIER {
                    (saved.tier, saved.bytes) = (OTHERS + usize::from(self.tier), bytes as i64);
                }
            }
        }
        saved
    }
}

impl Saved {
    #[inline]
    fn of(&self, kind: usize) -> i64 {
        match self.others.get(kind) {
            Some(&saved) => saved,
            None if kind == self.tier => self.bytes,
            None => 0,
        }
    }
}

/// How much earlier each stretch would begin.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Number of kinds of time.
    pub(crate) stride: usize,
    /// In half picoseconds, by stretch and kind. Reductions by joins during a stretch are subtracted at its
    /// beginning.
    halves: Vec<i64>,
    /// Savings before any stretch: none.
    nothing: Vec<i64>,
}

impl Earlier {
    pub(crate) fn new(tiers: usize) -> Self {
        Self { stride: OTHERS + tiers, halves: Vec::new(), nothing: vec![0; OTHERS + tiers] }
    }

    /// The savings of one stretch.
    #[inline]
    pub(crate) fn of(&self, stretch: StretchId) -> &[i64] {
        let first = stretch.index() * self.stride;
        self.halves.get(first..first + self.stride).unwrap_or_default()
    }

    /// Appends a stretch with the savings of `stretch`.
    #[inline]
    pub(crate) fn copy(&mut self, stretch: StretchId) {
        let first = stretch.index() * self.stride;
        self.halves.extend_from_within(first..first + self.stride);
    }

    /// Appends a stretch with the savings of `stretch` plus `more`.
    fn copy_with(&mut self, stretch: StretchId, more: &[i64]) {
        let length = self.halves.len();
        self.copy(stretch);
        self.halves[length..].iter_mut().zip(more).for_each(|(half, more)| *half += more);
    }

    /// Appends a stretch that begins at `start` after `stretch`.
    #[inline]
    pub(crate) fn follow(&mut self, stretch: StretchId, before: &Stretch, start: u64) {
        let length = self.halves.len();
        self.copy(stretch);
        let saved = before.saved(start);
        let halves = &mut self.halves[length..];
        for (half, saved) in halves.iter_mut().zip(saved.others) {
            *half += saved;
        }
        if let Some(half) = halves.get_mut(saved.tier) {
            *half += saved.bytes;
        }
    }

    /// Appends a stretch that begins a chain.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.halves.resize(self.halves.len() + self.stride, 0);
    }

    /// Moves stretch `from` to index `to`, which is not greater.
    pub(crate) fn move_to(&mut self, from: usize, to: usize) {
        self.halves.copy_within(from * self.stride..(from + 1) * self.stride, to * self.stride);
    }

    /// Subtracts `halves` from the savings of stretch `number` for one kind of time.
    fn lessen(&mut self, number: StretchId, kind: usize, halves: i64) {
        if let Some(half) = self.halves.get_mut(number.index() * self.stride + kind) {
            *half -= halves;
        }
    }

    pub(crate) fn truncate(&mut self, stretches: usize) {
        self.halves.truncate(stretches * self.stride);
    }
}

impl Trail {
    /// The moment at `time`, at which `stretch` ends.
    #[inline]
    pub fn moment(&self, stretch: StretchId, time: Time) -> Moment {
        if self.on { Moment { stretch, at: self.clock(time) } } else { Moment::NONE }
    }

    /// Notes a lower bound for the message that ends `stretch`. It took `time` on links of `tier`, the slowest on its
    /// path; however fast that tier were, it would still take at least `others` on the other tiers.
    #[inline]
    pub fn bound_by_others(&mut self, stretch: StretchId, tier: u16, time: Time, others: Time) {
        let twice = others.0.saturating_mul(2);
        if self.on && stretch != StretchId::START && tier != NO_TIER && twice > time.0 {
            // Half of `time` would be saved, but at least `others` remains.
            let less = (others.0 - time.0 / 2).min(time.0 / 2) * 2;
            self.earlier.lessen(stretch, OTHERS + usize::from(tier), less as i64);
        }
    }

    /// The later of two moments; the returned moment accounts for having waited for both.
    #[inline]
    pub fn later(&mut self, one: Moment, other: Moment) -> Moment {
        let (first, last) = if other.at < one.at { (other, one) } else { (one, other) };
        if !self.on
            || first.stretch == last.stretch
            || first == Moment::NONE
            || last.stretch == StretchId::START
        {
            return last;
        }
        Moment { stretch: self.meet_other(last.stretch, last.at, first), at: last.at }
    }

    /// A join: something begins at `now` because `last` has ended, and it has waited for `other` too. Returns `last`,
    /// or a copy of it whose savings are limited by `other`.
    #[inline]
    pub fn meet(&mut self, last: StretchId, now: Time, other: Moment) -> StretchId {
        if !self.on || other.stretch == last || other == Moment::NONE || last == StretchId::START {
            return last;
        }
        self.meet_other(last, self.clock(now), other)
    }

    fn meet_other(&mut self, last: StretchId, now: u64, other: Moment) -> StretchId {
        let Some(stretch) = self.stretches.get(last.index()) else { return last };
        // Something that begins late without having waited, such as a rank, saves nothing.
        let before = self.stretches.get(other.stretch.index());
        let (copy, own) = (*stretch, stretch.saved(now));
        let others = before.map_or(Saved::NOTHING, |before| before.saved(other.at));
        let slack = 2 * now.saturating_sub(other.at) as i64;
        let here = self.earlier.of(last);
        let there = if before.is_some() { self.earlier.of(other.stretch) } else { &self.earlier.nothing };
        let less = |kind: usize| (there[kind] + others.of(kind) + slack) - (here[kind] + own.of(kind));
        let mut least = i64::MAX;
        for kind in 0..OTHERS {
            least = least.min(there[kind] + others.others[kind] - here[kind] - own.others[kind]);
        }
        for kind in OTHERS..self.earlier.stride {
            let bytes = |saved: &Saved| if kind == saved.tier { saved.bytes } else { 0 };
            least = least.min(there[kind] + bytes(&others) - here[kind] - bytes(&own));
        }
        if least + slack >= 0 {
            return last;
        }
        let less: SmallVec<[i64; 12]> = (0..self.earlier.stride).map(|kind| less(kind).min(0)).collect();
        self.earlier.copy_with(last, &less);
        self.stretches.push(copy);
        StretchId::at(self.stretches.len() - 1)
    }

    /// The reduction by joins at the beginning of a stretch: its savings there minus those at the end of the stretch
    /// before. Never positive.
    pub(crate) fn jump(&self, stretch: StretchId) -> SmallVec<[i64; 12]> {
        let here = &self.stretches[stretch.index()];
        let own = self.earlier.of(stretch).iter();
        match self.stretches.get(here.before.index()) {
            Some(before) => {
                let saved = before.saved(here.start);
                let then = self.earlier.of(here.before).iter().enumerate();
                own.zip(then).map(|(own, (kind, then))| own - then - saved.of(kind)).collect()
            }
            None => own.copied().collect(),
        }
    }
}
