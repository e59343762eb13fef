//! Joins: something begins that has waited for several chains.

use crate::savings::{OTHERS, Saved};
use crate::stretch::{Moment, StretchId};
use crate::trail::Trail;
use smallvec::SmallVec;
use syncline_units::{TierId, Time};

impl Trail {
    /// The moment at `time`, at which `stretch` ends.
    #[inline]
    pub fn moment(&self, stretch: StretchId, time: Time) -> Moment {
        if self.on { Moment { stretch, at: self.clock(time) } } else { Moment::NONE }
    }

    /// Notes a lower bound for the message that ends `stretch`. It took `time` on links of `tier`, the slowest on its
    /// path; however fast that tier were, it would still take at least `others` on the other tiers.
    #[inline]
    pub fn bound_by_others(&mut self, stretch: StretchId, tier: TierId, time: Time, others: Time) {
        let twice = others.0.saturating_mul(2);
        if self.on && stretch != StretchId::START && twice > time.0 {
            // Half of `time` would be saved, but at least `others` remains.
            let less = (others.0 - time.0 / 2).min(time.0 / 2) * 2;
            self.earlier.lessen(stretch, OTHERS + tier.index(), less as i64);
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
            least = least.min(there[kind] + others.bytes_of(kind) - here[kind] - own.bytes_of(kind));
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
