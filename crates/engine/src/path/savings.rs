//! What a run would save if one kind of time were shorter.
//!
//! The critical path tells what a small change does. A large one makes other chains the longest. So each stretch also
//! knows how much earlier it would begin if all compute took half as long, or all bytes of a tier, or if there were no
//! latency: what the chain before it saves, but no more than anything else that it waited for saves, plus the time by
//! which that came earlier ([`Trail::meet`]).
//!
//! As on the critical path, ports are taken to serve messages in the same order whatever these take.

use super::Spent;
use super::trail::{NO_TIER, START, Stretch, Trail, Work};
use smallvec::SmallVec;
use syncline_units::Time;

/// Kinds of time that are no tier's bytes.
const OTHERS: usize = 5;
const COMPUTE: usize = 0;
const MEMORY: usize = 1;
const REDUCTION: usize = 2;
const LATENCY: usize = 3;
/// Bytes of all tiers.
const LINKS: usize = 4;

/// By how much the watched steps would be shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// In half picoseconds, by kind of time: those above, then tiers.
    halves: Vec<i64>,
}

impl Savings {
    /// Nothing, of kinds as many as `stride`.
    pub(super) fn none(stride: usize) -> Self {
        Self { halves: vec![0; stride] }
    }

    /// Twice the time by which the watched steps are shorter, if what is spent so takes half as long; of latency, if there
    /// is none. That it is twice as long keeps it exact.
    pub fn twice(&self, spent: Spent) -> Time {
        let saved = index(spent).and_then(|index| self.halves.get(index)).copied().unwrap_or_default();
        Time(u64::try_from(saved).unwrap_or_default())
    }

    /// The same, if bytes take half as long on the links of all tiers.
    pub fn twice_on_all_links(&self) -> Time {
        let saved = self.halves.get(LINKS).copied().unwrap_or_default();
        Time(u64::try_from(saved).unwrap_or_default())
    }

    /// Adds that `length` is spent so.
    pub(super) fn spend(&mut self, spent: Spent, length: u64) {
        if let Some(saved) = index(spent).and_then(|index| self.halves.get_mut(index)) {
            let times = if spent == Spent::Latency { 2 } else { 1 };
            *saved = saved.saturating_add_unsigned(length.saturating_mul(times));
        }
        if let (Spent::Bytes(_) | Spent::Queueing(_), Some(saved)) = (spent, self.halves.get_mut(LINKS)) {
            *saved = saved.saturating_add_unsigned(length);
        }
    }

    /// Adds those of what lies behind.
    pub(super) fn append(&mut self, behind: &Self) {
        self.add(&behind.halves, 1);
    }

    /// Adds what something else that was waited for lets be saved less, so many times.
    pub(super) fn add(&mut self, other: &[i64], times: u64) {
        for (saved, &less) in self.halves.iter_mut().zip(other) {
            *saved = saved.saturating_add(less.saturating_mul(times as i64));
        }
    }
}

/// The place of a kind of time.
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

/// When something was there that others may wait for, and the stretch that ended with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    stretch: u32,
    /// Without the time that was left out so far.
    at: u64,
}

impl Moment {
    /// Nothing to wait for.
    pub const NONE: Self = Self { stretch: START, at: 0 };

    /// Its stretch.
    pub fn stretch(self) -> u32 {
        self.stretch
    }

    /// Its stretch, to be visited.
    pub fn stretch_mut(&mut self) -> &mut u32 {
        &mut self.stretch
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a stretch saves until some time, by kind.
struct Saved {
    others: [i64; OTHERS],
    /// Place of the tier; none has so high a number.
    tier: usize,
    bytes: i64,
}

impl Stretch {
    #[inline]
    fn saved(&self, until: u64) -> Saved {
        let whole = until.saturating_sub(self.start);
        let mut saved = Saved { others: [0; OTHERS], tier: usize::MAX, bytes: 0 };
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

/// Of each stretch, by how much earlier it would begin.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// How many kinds of time there are.
    pub(super) stride: usize,
    /// In half picoseconds, by stretch and kind. What a stretch that goes on saves less than before counts at its begin.
    halves: Vec<i64>,
}

impl Earlier {
    pub(super) fn new(tiers: usize) -> Self {
        Self { stride: OTHERS + tiers, halves: Vec::new() }
    }

    /// Those of one stretch.
    #[inline]
    pub(super) fn of(&self, stretch: u32) -> &[i64] {
        let first = stretch as usize * self.stride;
        self.halves.get(first..first + self.stride).unwrap_or_default()
    }

    /// Of a new stretch the same as of another one.
    #[inline]
    pub(super) fn copy(&mut self, stretch: u32) {
        let first = stretch as usize * self.stride;
        self.halves.extend_from_within(first..first + self.stride);
    }

    /// Of a new stretch the same as of another one, and so much more.
    fn copy_with(&mut self, stretch: u32, more: &[i64]) {
        let length = self.halves.len();
        self.copy(stretch);
        self.halves[length..].iter_mut().zip(more).for_each(|(half, more)| *half += more);
    }

    /// Of a new stretch that begins at `start`, after another one.
    #[inline]
    pub(super) fn follow(&mut self, stretch: u32, before: &Stretch, start: u64) {
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

    /// Of a new stretch before which there is none.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.halves.resize(self.halves.len() + self.stride, 0);
    }

    /// Stretch `from` becomes stretch `to`, which is not later.
    pub(super) fn move_to(&mut self, from: usize, to: usize) {
        self.halves.copy_within(from * self.stride..(from + 1) * self.stride, to * self.stride);
    }

    pub(super) fn truncate(&mut self, stretches: usize) {
        self.halves.truncate(stretches * self.stride);
    }
}

impl Trail {
    /// That something is there at `time` with the end of `stretch`.
    #[inline]
    pub fn moment(&self, stretch: u32, time: Time) -> Moment {
        if self.on { Moment { stretch, at: self.clock(time) } } else { Moment::NONE }
    }

    /// When both of two things are there.
    #[inline]
    pub fn later(&mut self, one: Moment, other: Moment) -> Moment {
        let (first, last) = if other.at < one.at { (other, one) } else { (one, other) };
        if !self.on || first.stretch == last.stretch || first.stretch == START || last.stretch == START {
            return last;
        }
        Moment { stretch: self.meet_other(last.stretch, last.at, first), at: last.at }
    }

    /// What begins at `now` because `last` has ended, and has waited for `other` as well: a stretch like `last` that saves no
    /// more than both let it save.
    #[inline]
    pub fn meet(&mut self, last: u32, now: Time, other: Moment) -> u32 {
        if !self.on || other.stretch == last || other.stretch == START || last == START {
            return last;
        }
        self.meet_other(last, self.clock(now), other)
    }

    fn meet_other(&mut self, last: u32, now: u64, other: Moment) -> u32 {
        let (Some(stretch), Some(before)) =
            (self.stretches.get(last as usize), self.stretches.get(other.stretch as usize))
        else {
            return last;
        };
        let (copy, own, others) = (*stretch, stretch.saved(now), before.saved(other.at));
        let slack = 2 * now.saturating_sub(other.at) as i64;
        let (here, there) = (self.earlier.of(last), self.earlier.of(other.stretch));
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
        self.stretches.len() as u32 - 1
    }

    /// By how much more a stretch that follows another one saves at its begin than that one does at its end: nothing, or
    /// less than nothing.
    pub(super) fn jump(&self, stretch: u32) -> SmallVec<[i64; 12]> {
        let here = &self.stretches[stretch as usize];
        let own = self.earlier.of(stretch).iter();
        match self.stretches.get(here.before as usize) {
            Some(before) => {
                let saved = before.saved(here.start);
                let then = self.earlier.of(here.before).iter().enumerate();
                own.zip(then).map(|(own, (kind, then))| own - then - saved.of(kind)).collect()
            }
            None => own.copied().collect(),
        }
    }
}
