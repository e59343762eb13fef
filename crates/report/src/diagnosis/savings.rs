//! How much shorter a run is with a faster part of its critical path.

use super::{Busy, Doubts};
use syncline_critical_path::{CriticalPath, Spent};
use syncline_engine::Record;
use syncline_prepare::Prepared;
use syncline_timeline::{PathKind, PathPart, Summary};
use syncline_units::{TierId, Time};

/// Predicts what a run saves with a faster part of its critical path, from that path and from how busy the links and
/// ranks are that may become critical instead.
pub(super) struct RunSavings<'a> {
    parts: &'a [PathPart],
    path: &'a CriticalPath,
    /// Names of tiers.
    tiers: Vec<String>,
    /// Compute of the rank that computes longest, and the busiest link of each tier.
    limits: Vec<Limit<'a>>,
    doubts: Doubts,
}

/// What a [`Limit`] is. A tier may be called `compute`, so names do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitOf<'a> {
    /// Compute of a rank.
    Compute,
    /// A link.
    Links {
        /// Its tier.
        tier: &'a str,
    },
}

impl<'a> LimitOf<'a> {
    /// Its name on screens.
    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Compute => PathKind::Compute.name(),
            Self::Links { tier } => tier,
        }
    }
}

/// A busy link or rank. The run cannot take less time than it is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit<'a> {
    /// What is busy.
    pub(super) of: LimitOf<'a>,
    /// For how much of the run it is busy, in thousandths.
    pub(super) busy: u32,
}

impl Limit<'_> {
    /// The share of the run in which it is idle.
    fn leaves(&self) -> f64 {
        1.0 - f64::from(self.busy) / 1000.0
    }
}

/// What a run saves, in two-thousandths of the run. Half a part per mille is thus a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Saving(pub(super) u32);

impl Saving {
    /// As a share of the run that is rounded up to one part per mille.
    pub(super) fn per_mille(self) -> u32 {
        self.0.div_ceil(2)
    }
}

/// A limit explains a part's saving if the time that it leaves is at most this many times the saving.
const NEARLY: f64 = 1.1;

impl<'a> RunSavings<'a> {
    pub(super) fn new(
        parts: &'a [PathPart],
        summary: &'a Summary,
        busy: Busy<'_>,
        prepared: &'a Prepared,
        record: &'a Record,
    ) -> Self {
        let compute = record.ranks.iter().map(|rank| rank.compute).max().unwrap_or_default();
        let thousandths = |share: f64| (1000.0 * share).clamp(0.0, 1000.0) as u32;
        let of_run = |time: f64| if summary.total_time_s > 0.0 { time / summary.total_time_s } else { 0.0 };
        let limit = |of: LimitOf<'a>, share: f64| Limit { of, busy: thousandths(share) };
        let of_links = |tier: &'a str| LimitOf::Links { tier };
        let links =
            summary.dims.iter().zip(busy.tiers).map(|(tier, &busy)| limit(of_links(&tier.name), busy));
        let limits = [limit(LimitOf::Compute, of_run(compute.as_s()))].into_iter().chain(links).collect();
        let tiers = prepared.fabric.parts().tiers.iter().map(|tier| tier.name.clone()).collect();
        Self { parts, path: &record.path, tiers, limits, doubts: busy.doubts }
    }

    /// What the run saves if `part`, with all that shrinks with it, becomes twice as fast or vanishes.
    pub(super) fn of(&self, part: &PathPart) -> Saving {
        Saving((2000.0 * self.share(part)).round() as u32)
    }

    /// The same as a share of the run: what the engine predicts, but at most the time in which the busiest of the other
    /// links and ranks is idle.
    pub(super) fn share(&self, part: &PathPart) -> f64 {
        let saved = self.saved(part);
        self.busiest_other(part).map_or(saved, |limit| saved.min(limit.leaves()))
    }

    /// What the engine predicts from the chains of the run. Chains do not contain bubble, skew and time-outs; for
    /// these, their whole part of the path.
    fn saved(&self, part: &PathPart) -> f64 {
        let tier = || self.tiers.iter().position(|tier| Some(tier) == part.tier.as_ref());
        let spent = match part.kind {
            PathKind::Compute => Some(Spent::Compute),
            PathKind::Memory => Some(Spent::Memory),
            PathKind::Reduction => Some(Spent::Reduction),
            PathKind::Latency => Some(Spent::Latency),
            PathKind::Bytes | PathKind::Queueing => {
                tier().map(|tier| Spent::Bytes(Some(TierId(tier as u16))))
            }
            PathKind::Bubble | PathKind::Skew | PathKind::Timeout => None,
        };
        match spent {
            Some(spent) => self.path.saved.twice(spent).0 as f64 / 2.0 / self.length().max(1) as f64,
            None => self.by_path(part),
        }
    }

    /// What the run saves if all links are twice as fast.
    pub(super) fn of_all_links(&self) -> Saving {
        let saved = 1000.0 * self.path.saved.twice_on_all_links().0 as f64 / self.length().max(1) as f64;
        let compute =
            self.limits.iter().find(|limit| limit.of == LimitOf::Compute).map_or(0, |limit| limit.busy);
        Saving((saved.round() as u32).min(2 * (1000 - compute)))
    }

    /// The most that links of twice the rate can save if chunks come in another order: all but the time of the link or
    /// rank that is then busy longest. `None` if chunks keep their order. `is_faster` selects the links.
    pub(super) fn most_with(&self, is_faster: impl Fn(LimitOf<'_>) -> bool) -> Option<Saving> {
        let left = |limit: &Limit<'_>| if is_faster(limit.of) { limit.busy } else { 2 * limit.busy };
        let longest = self.limits.iter().map(left).max().unwrap_or(0);
        self.doubts.reorders.then(|| Saving(2000u32.saturating_sub(longest)))
    }

    /// The word before a prediction for faster links: "about", or "up to" if windows make it uncertain.
    pub(super) fn links_by(&self) -> &'static str {
        if self.doubts.windows { "up to" } else { "about" }
    }

    /// Whether a limit is one of the links of `tier`, or of any links if `tier` is `None`.
    pub(super) fn is_of(&self, limit: LimitOf<'_>, tier: Option<&str>) -> bool {
        match limit {
            LimitOf::Compute => false,
            LimitOf::Links { tier: own } => tier.is_none_or(|tier| own == tier || self.limits.len() == 2),
        }
    }

    /// The length of the critical path.
    fn length(&self) -> u64 {
        self.path.spent.iter().map(|&(_, Time(time))| time).sum()
    }

    /// The link or rank that limits the saving of `part` to less than its share of the critical path, if there is one.
    pub(super) fn limit(&self, part: &PathPart) -> Option<Limit<'a>> {
        let limits = |limit: &Limit<'_>| {
            limit.leaves() < self.by_path(part) && limit.leaves() <= NEARLY * self.saved(part)
        };
        self.busiest_other(part).filter(limits)
    }

    /// The busiest link or rank that does not become faster with `part`.
    fn busiest_other(&self, part: &PathPart) -> Option<Limit<'a>> {
        let others = self.limits.iter().filter(|limit| match part.kind {
            PathKind::Bytes | PathKind::Queueing => match limit.of {
                LimitOf::Compute => true,
                // If there is only one tier, `part` may have another name for it.
                LimitOf::Links { tier } => Some(tier) != part.tier.as_deref() && self.limits.len() > 2,
            },
            PathKind::Compute | PathKind::Skew | PathKind::Bubble => limit.of != LimitOf::Compute,
            PathKind::Memory | PathKind::Reduction | PathKind::Latency | PathKind::Timeout => true,
        });
        others.max_by_key(|limit| limit.busy).copied()
    }

    /// The part that saves most. Among equal ones, the one with the larger share of the path, then the first.
    pub(super) fn most(&self, among: impl Fn(&PathPart) -> bool) -> Option<&'a PathPart> {
        let parts = self.parts.iter().rev().filter(|part| among(part));
        parts.max_by_key(|part| (self.of(part), (2000.0 * self.by_path(part)).round() as u32))
    }

    /// What `part` saves as a share of the critical path, if no other chain becomes critical.
    fn by_path(&self, part: &PathPart) -> f64 {
        let shrinks = |other: &&PathPart| is_relieved_with(other, part) || is_compute_of_others(other, part);
        let time: f64 = self.parts.iter().filter(shrinks).map(|part| part.time_s).sum();
        let share = time / Time(self.length().max(1)).as_s();
        match part.kind {
            PathKind::Bubble | PathKind::Skew | PathKind::Latency | PathKind::Timeout => share,
            PathKind::Compute
            | PathKind::Memory
            | PathKind::Reduction
            | PathKind::Bytes
            | PathKind::Queueing => share / 2.0,
        }
    }
}

/// Whether both parts shrink together.
pub(super) fn is_relieved_with(part: &PathPart, other: &PathPart) -> bool {
    part.tier == other.tier && (part.tier.is_some() || part.kind == other.kind)
}

/// Whether one part is compute, and the other a wait for compute of other ranks.
fn is_compute_of_others(part: &PathPart, compute: &PathPart) -> bool {
    compute.kind == PathKind::Compute && matches!(part.kind, PathKind::Bubble | PathKind::Skew)
}
