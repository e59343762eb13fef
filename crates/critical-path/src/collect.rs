//! Drops unreferenced stretches, and replaces the beginning of chains that are too long with its sums.

use crate::stretch::{Stretch, StretchId};
use crate::sums::Sums;
use crate::trail::Trail;

/// Most stretches kept. The beginning of longer chains is replaced with its sums.
const KEPT: usize = 1 << 19;

/// Visits every reference to a stretch.
pub type Visit<'a> = &'a mut dyn FnMut(&mut StretchId);

impl Trail {
    /// Drops the stretches that cannot be reached. `roots` visits all references from outside.
    pub fn collect(&mut self, roots: impl FnMut(Visit<'_>)) {
        self.collect_to(KEPT, roots);
    }

    /// As [`Trail::collect`], with a limit on the number of stretches kept.
    fn collect_to(&mut self, kept: usize, mut roots: impl FnMut(Visit<'_>)) {
        let mut live = vec![false; self.stretches.len()];
        let mut messages = std::mem::take(&mut self.messages);
        let mut mark = |root: &mut StretchId| {
            if let Some(live) = live.get_mut(root.index()) {
                *live = true;
            }
        };
        messages.iter_mut().for_each(&mut mark);
        roots(&mut mark);
        // Stretches are recorded after their predecessors.
        for stretch in (0..live.len()).rev() {
            if live[stretch]
                && let Some(before) = live.get_mut(self.stretches[stretch].before.index())
            {
                *before = true;
            }
        }
        if live.iter().filter(|&&live| live).count() > kept {
            self.sum_up(&mut live, |visit| {
                messages.iter_mut().for_each(&mut *visit);
                roots(visit);
            });
        }
        // New number of each stretch.
        let mut moved = vec![StretchId::START; live.len()];
        let mut next = 0;
        for stretch in (0..live.len()).filter(|&stretch| live[stretch]) {
            moved[stretch] = StretchId::at(next);
            let Stretch { before, .. } = self.stretches[stretch];
            let before = moved.get(before.index()).copied().unwrap_or(before);
            self.stretches[next] = Stretch { before, ..self.stretches[stretch] };
            self.earlier.move_to(stretch, next);
            next += 1;
        }
        self.stretches.truncate(next);
        self.earlier.truncate(next);
        let mut follow = |root: &mut StretchId| *root = moved.get(root.index()).copied().unwrap_or(*root);
        messages.iter_mut().for_each(&mut follow);
        roots(&mut follow);
        self.messages = messages;
        self.limit = self.limit.max(4 * self.stretches.len());
    }

    /// Replaces the chains before the younger half of the live stretches with their sums.
    fn sum_up(&mut self, live: &mut [bool], mut roots: impl FnMut(Visit<'_>)) {
        let alive: Vec<usize> = (0..live.len()).filter(|&stretch| live[stretch]).collect();
        let cut = alive[alive.len() / 2];
        // Stretches before the cut that are referenced from after it or from outside.
        let mut needed = vec![false; cut];
        let mut need = |root: &mut StretchId| {
            if let Some(needed) = needed.get_mut(root.index()) {
                *needed = true;
            }
        };
        roots(&mut need);
        for &stretch in alive.iter().filter(|&&stretch| stretch >= cut) {
            need(&mut self.stretches[stretch].before.clone());
        }
        let old = std::mem::take(&mut self.sums);
        // For each stretch before the cut: the sums of the chain before it.
        let none = || self.no_sums();
        let mut behind: Vec<Sums> = vec![none(); cut];
        for &stretch in alive.iter().filter(|&&stretch| stretch < cut) {
            let Stretch { before, start, .. } = self.stretches[stretch];
            let mut sums = none();
            if let Some(known) = before.sums() {
                sums.clone_from(&old[known]);
            } else {
                if let Some(known) = behind.get(before.index()) {
                    sums.clone_from(known);
                    self.add(&self.stretches[before.index()], start, &mut sums);
                }
                self.add_jump(StretchId::at(stretch), &mut sums);
            }
            behind[stretch] = sums;
        }
        for stretch in alive {
            let before = self.stretches[stretch].before;
            if stretch >= cut {
                // The chain may already begin with a sum.
                if let Some(known) = before.sums() {
                    self.sums.push(old[known].clone());
                    self.stretches[stretch].before = StretchId::of_sums(self.sums.len() - 1);
                }
            } else if needed[stretch] {
                if before != StretchId::START {
                    self.sums.push(behind[stretch].clone());
                    self.stretches[stretch].before = StretchId::of_sums(self.sums.len() - 1);
                }
            } else {
                live[stretch] = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Purpose, Unit};
    use proptest::prelude::*;
    use std::num::NonZeroU32;
    use syncline_units::{RankId, TierId, Time};

    /// What a chain that ends now with `stretch` is spent on.
    fn spent(trail: &Trail, stretch: StretchId, now: Time) -> Sums {
        trail.walk(stretch, now, &RankId).1
    }

    proptest! {
        /// Chains keep their sums, however often stretches are dropped and chains are summed up.
        #[test]
        fn dropping_stretches_keeps_sums(
            steps in prop::collection::vec((0usize..6, 0usize..6, 1u64..100, 0u8..5, 0u32..4), 1..300),
            every in 1usize..40,
            kept in 1usize..60,
        ) {
            let (mut whole, mut dropping) = (Trail::writing(2), Trail::writing(2));
            let mut ends = [[StretchId::START; 2]; 6];
            let mut now = Time::ZERO;
            for (number, &(from, to, time, kind, visit)) in steps.iter().enumerate() {
                let mut next = [StretchId::START; 2];
                for (which, trail) in [&mut whole, &mut dropping].into_iter().enumerate() {
                    let of = NonZeroU32::new(visit).map_or_else(
                        || Purpose::task(to as u32, kind.into()),
                        |visit| Purpose::phase(to as u32, kind.into(), visit, 0),
                    );
                    let origin = Origin { after: ends[from][which], since: now, of };
                    next[which] = match kind {
                        0 => trail.begin_work(&Origin { of: Purpose::task(0, 0), ..origin }, Unit::Compute),
                        1 => trail.bytes(&origin, TierId(visit as u16 % 2), Time(time)),
                        2 => trail.queueing(&origin, Some(TierId(0)), Time(time / 2)),
                        3 => trail.reduces(&origin, Time(time)),
                        _ => trail.begin_work(&Origin { of: Purpose::task(1, 1), ..origin }, Unit::Memory),
                    };
                }
                ends[to] = next;
                now += Time(time);
                if number % every == 0 {
                    dropping.collect_to(kept, |visit| ends.iter_mut().for_each(|end| visit(&mut end[1])));
                }
            }
            for [end, other] in ends {
                let sums = spent(&whole, end, now);
                prop_assert_eq!(&sums, &spent(&dropping, other, now));
                let length: u64 = sums.spent.values().sum();
                prop_assert!(length <= now.0 && (end == StretchId::START || length > 0));
            }
        }
    }
}
