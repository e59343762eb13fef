//! Ranks whose compute is slower for some time.

use std::collections::BTreeMap;
use syncline_units::{RankId, Time};

/// Factors are stored in millionths.
const ONE: u64 = 1_000_000;

/// The compute of one rank takes `factor` times as long from `from` to `until`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// The rank.
    pub rank: RankId,
    /// The factor in millionths, at least one million.
    pub factor: u64,
    /// Start of the slowdown.
    pub from: Time,
    /// End of the slowdown; [`Time::MAX`] means forever.
    pub until: Time,
}

/// All slowdowns of a job. The factors of overlapping slowdowns multiply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowdowns {
    of: BTreeMap<RankId, Vec<Slowdown>>,
}

impl Slowdowns {
    /// Collects slowdowns.
    pub fn new(slowdowns: impl IntoIterator<Item = Slowdown>) -> Self {
        let mut of: BTreeMap<RankId, Vec<Slowdown>> = BTreeMap::new();
        for slowdown in slowdowns {
            of.entry(slowdown.rank).or_default().push(slowdown);
        }
        Self { of }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Whether two ranks have the same slowdowns.
    pub fn alike(&self, a: RankId, b: RankId) -> bool {
        let of = |rank| self.of.get(&rank).map_or(&[][..], Vec::as_slice);
        let same = |(a, b): (&Slowdown, &Slowdown)| Slowdown { rank: b.rank, ..*a } == *b;
        of(a).len() == of(b).len() && of(a).iter().zip(of(b)).all(same)
    }

    /// The time after which no slowdown begins or ends.
    pub(crate) fn settled(&self) -> Time {
        let edges = self.of.values().flatten().flat_map(|slow| [slow.from, slow.until]);
        edges.filter(|&edge| edge != Time::MAX).max().unwrap_or(Time::ZERO)
    }

    /// When compute of `rank` ends that starts at `start` and takes `work` at full speed.
    #[inline]
    pub(crate) fn end(&self, rank: RankId, start: Time, work: Time) -> Time {
        if self.of.is_empty() {
            return start.saturating_add(work);
        }
        match self.of.get(&rank) {
            Some(slowdowns) => end(slowdowns, start, work),
            None => start.saturating_add(work),
        }
    }
}

/// Steps from one begin or end of a slowdown to the next; the speed is constant in between.
fn end(slowdowns: &[Slowdown], start: Time, work: Time) -> Time {
    let (mut now, mut left) = (start, work.0);
    loop {
        let holds = |slow: &&Slowdown| slow.from <= now && now < slow.until;
        let factor = slowdowns
            .iter()
            .filter(holds)
            .fold(ONE, |all, slow| (u128::from(all) * u128::from(slow.factor) / u128::from(ONE)) as u64);
        let needed = (u128::from(left) * u128::from(factor)).div_ceil(u128::from(ONE));
        let end = u64::try_from(u128::from(now.0) + needed).unwrap_or(u64::MAX);
        let edges = slowdowns.iter().flat_map(|slow| [slow.from, slow.until]);
        match edges.filter(|&edge| edge > now && edge.0 < end).min() {
            None => return Time(end),
            Some(edge) => {
                let done = u128::from(edge.0 - now.0) * u128::from(ONE) / u128::from(factor);
                left -= (done as u64).min(left);
                now = edge;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(factor: u64, from: u64, until: u64) -> Slowdown {
        Slowdown { rank: RankId(3), factor, from: Time(from), until: Time(until) }
    }

    #[test]
    fn compute_is_slower_only_during_a_slowdown() {
        let slowdowns = Slowdowns::new([slow(2 * ONE, 100, 200), slow(3 * ONE / 2, 150, u64::MAX)]);
        let end = |rank, start, work| slowdowns.end(RankId(rank), Time(start), Time(work)).0;
        assert_eq!(end(2, 0, 1000), 1000);
        assert_eq!(end(3, 0, 100), 100);
        // 100 at full speed; 25 from 100 to 150 at half speed; 10 in 30 at a third.
        assert_eq!(end(3, 0, 100 + 25 + 10), 180);
        // 50 / 3 = 16.7 until 200; for the rest only the second factor applies.
        assert_eq!(end(3, 150, 16 + 100), 200 + 150);
        assert_eq!(end(3, 300, 3), 305);
        assert_eq!(slowdowns.settled(), Time(200));
    }

    #[test]
    fn ranks_with_equal_slowdowns_are_alike() {
        let twin = Slowdown { rank: RankId(4), ..slow(2 * ONE, 0, 9) };
        let slowdowns = Slowdowns::new([slow(2 * ONE, 0, 9), twin]);
        let alike = |a, b| slowdowns.alike(RankId(a), RankId(b));
        assert!(alike(3, 4) && alike(0, 1) && !alike(0, 3));
        let other = Slowdowns::new([slow(2 * ONE, 0, 9), Slowdown { factor: ONE, ..twin }]);
        assert!(!other.alike(RankId(3), RankId(4)));
    }

    #[test]
    fn endless_work_ends_at_the_end_of_time() {
        let slowdowns = Slowdowns::new([slow(u64::MAX, 0, u64::MAX)]);
        assert_eq!(slowdowns.end(RankId(3), Time(5), Time(u64::MAX / 2)), Time(u64::MAX));
    }
}
