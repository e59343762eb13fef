//! Computes how much shorter a run would be if one kind of time were shorter.
//!
//! The critical path predicts the effect of a small change. After a large change, another chain may be the longest.
//! So each stretch also stores how much earlier it would begin if compute, or the bytes of one tier, took half as
//! long, or if there were no latency. For a single chain, that is what the chain before the stretch saves. Where
//! several chains join, it is at most what each of the other chains saves plus the time by which that chain was early
//! (`Trail::meet`).
//!
//! Like the critical path, this assumes that ports serve messages in the same order after the change. With `lifo` and
//! `priority`, chunks may overtake others after the change, so predictions are less accurate.

use crate::Spent;
use crate::stretch::{Stretch, StretchId, Work};
use syncline_units::Time;

/// Number of kinds of time besides the bytes of each tier.
pub(crate) const OTHERS: usize = 5;
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
        Spent::Bytes(tier) | Spent::Queueing(tier) => OTHERS + tier?.index(),
    })
}

/// What one stretch saves, in half picoseconds, by kind of time.
pub(crate) struct Saved {
    pub(crate) others: [i64; OTHERS],
    /// Index of the bytes of its tier, if it is known.
    tier: Option<usize>,
    bytes: i64,
}

impl Saved {
    pub(crate) const NOTHING: Self = Self { others: [0; OTHERS], tier: None, bytes: 0 };
}

impl Stretch {
    #[inline]
    pub(crate) fn saved(&self, until: u64) -> Saved {
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
                if let Some(tier) = self.tier.get() {
                    (saved.tier, saved.bytes) = (Some(OTHERS + tier.index()), bytes as i64);
                }
            }
        }
        saved
    }
}

impl Saved {
    #[inline]
    pub(crate) fn of(&self, kind: usize) -> i64 {
        self.others.get(kind).copied().unwrap_or_else(|| self.bytes_of(kind))
    }

    /// What is saved of the bytes of a tier, given by its kind of time.
    #[inline]
    pub(crate) fn bytes_of(&self, kind: usize) -> i64 {
        if self.tier == Some(kind) { self.bytes } else { 0 }
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
    pub(crate) nothing: Vec<i64>,
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
    pub(crate) fn copy_with(&mut self, stretch: StretchId, more: &[i64]) {
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
        if let Some(half) = saved.tier.and_then(|tier| halves.get_mut(tier)) {
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
    pub(crate) fn lessen(&mut self, number: StretchId, kind: usize, halves: i64) {
        if let Some(half) = self.halves.get_mut(number.index() * self.stride + kind) {
            *half -= halves;
        }
    }

    pub(crate) fn truncate(&mut self, stretches: usize) {
        self.halves.truncate(stretches * self.stride);
    }
}
