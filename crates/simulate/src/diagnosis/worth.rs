//! By how much a run is shorter once a part of its critical path is.

use crate::prepare::Prepared;
use syncline_engine::Record;
use syncline_engine::path::{CriticalPath, Spent};
use syncline_timeline::{PathKind, PathPart, Summary};
use syncline_units::Time;

/// What a run spends its time on: the critical path, and how busy everything is that may become critical instead.
pub(super) struct Worth<'a> {
    parts: &'a [PathPart],
    path: &'a CriticalPath,
    /// Names of tiers.
    tiers: Vec<String>,
    /// Compute of the rank that computes longest, and the busiest link of each tier, as thousandths of the run.
    busy: Vec<(&'a str, u32)>,
}

/// Something that keeps a run from becoming shorter than the time for which it is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit<'a> {
    /// A tier of links, or compute.
    pub(super) name: &'a str,
    /// Thousandths of the run for which it is busy.
    pub(super) busy: u32,
}

impl Limit<'_> {
    /// The share of the run that is left beside it.
    fn leaves(&self) -> f64 {
        1.0 - f64::from(self.busy) / 1000.0
    }
}

const COMPUTE: &str = "compute";

/// What is so much more than the worth of a part still explains it.
const NEARLY: f64 = 1.1;

impl<'a> Worth<'a> {
    pub(super) fn new(
        parts: &'a [PathPart],
        summary: &'a Summary,
        busy: &[f64],
        prepared: &'a Prepared,
        record: &'a Record,
    ) -> Self {
        let compute = record.ranks.iter().map(|rank| rank.compute).max().unwrap_or_default();
        let thousandths = |share: f64| (1000.0 * share).clamp(0.0, 1000.0) as u32;
        let of_run = |time: f64| if summary.total_time_s > 0.0 { time / summary.total_time_s } else { 0.0 };
        let links =
            summary.dims.iter().zip(busy).map(|(tier, &busy)| (tier.name.as_str(), thousandths(busy)));
        let busy = [(COMPUTE, thousandths(of_run(compute.as_s())))].into_iter().chain(links).collect();
        let tiers = prepared.fabric.parts().tiers.iter().map(|tier| tier.name.clone()).collect();
        Self { parts, path: &record.path, tiers, busy }
    }

    /// By how many two-thousandths the run is shorter where `part`, and what is relieved with it, is twice as fast; or where
    /// it is done without.
    pub(super) fn of(&self, part: &PathPart) -> u32 {
        (2000.0 * self.share(part)).round() as u32
    }

    /// The same as a share of the run: what other chains of work and messages let be saved of the critical path's part,
    /// unless something else is busy for longer than the rest.
    pub(super) fn share(&self, part: &PathPart) -> f64 {
        let saved = self.saved(part);
        self.busiest_other(part).map_or(saved, |limit| saved.min(limit.leaves()))
    }

    /// What the chains let be saved: of bubble, skew and time-outs, which are not known by chains, all of the path's part.
    fn saved(&self, part: &PathPart) -> f64 {
        let tier = || self.tiers.iter().position(|tier| *tier == part.tier);
        let spent = match part.kind {
            PathKind::Compute => Some(Spent::Compute),
            PathKind::Memory => Some(Spent::Memory),
            PathKind::Reduction => Some(Spent::Reduction),
            PathKind::Latency => Some(Spent::Latency),
            PathKind::Bytes | PathKind::Queueing => tier().map(|tier| Spent::Bytes(tier as u16)),
            PathKind::Bubble | PathKind::Skew | PathKind::Timeout => None,
        };
        match spent {
            Some(spent) => self.path.saved.twice(spent).0 as f64 / 2.0 / self.length().max(1) as f64,
            None => self.by_path(part),
        }
    }

    /// By how many two-thousandths the run is shorter where all links are twice as fast.
    pub(super) fn of_all_links(&self) -> u32 {
        let saved = 1000.0 * self.path.saved.twice_on_all_links().0 as f64 / self.length().max(1) as f64;
        let compute = self.busy.iter().find(|(name, _)| *name == COMPUTE).map_or(0, |(_, busy)| *busy);
        (saved.round() as u32).min(2 * (1000 - compute))
    }

    /// The length of the critical path.
    fn length(&self) -> u64 {
        self.path.spent.iter().map(|&(_, Time(time))| time).sum()
    }

    /// What makes the worth of `part` smaller than the critical path says.
    pub(super) fn limit(&self, part: &PathPart) -> Option<Limit<'a>> {
        let limits = |limit: &Limit<'_>| {
            limit.leaves() < self.by_path(part) && limit.leaves() <= NEARLY * self.saved(part)
        };
        self.busiest_other(part).filter(limits)
    }

    /// What is busy longest, of what is not faster where `part` is.
    fn busiest_other(&self, part: &PathPart) -> Option<Limit<'a>> {
        let others = self.busy.iter().filter(|(name, _)| match part.kind {
            // Of one tier alone, the name may be another one.
            PathKind::Bytes | PathKind::Queueing => {
                *name != part.tier && (self.busy.len() > 2 || *name == COMPUTE)
            }
            PathKind::Compute | PathKind::Skew | PathKind::Bubble => *name != COMPUTE,
            PathKind::Memory | PathKind::Reduction | PathKind::Latency | PathKind::Timeout => true,
        });
        others.max_by_key(|(_, busy)| *busy).map(|&(name, busy)| Limit { name, busy })
    }

    /// The part that is worth most. Of equal ones the one with the larger share of the path, then the first.
    pub(super) fn most(&self, among: impl Fn(&PathPart) -> bool) -> Option<&'a PathPart> {
        let parts = self.parts.iter().rev().filter(|part| among(part));
        parts.max_by_key(|part| (self.of(part), (2000.0 * self.by_path(part)).round() as u32))
    }

    /// What the critical path alone says.
    fn by_path(&self, part: &PathPart) -> f64 {
        let shrinks = |other: &&PathPart| is_relieved_with(other, part) || is_compute_of_others(other, part);
        let share: u32 = self.parts.iter().filter(shrinks).map(|part| part.per_mille).sum();
        match part.kind {
            PathKind::Bubble | PathKind::Skew | PathKind::Latency | PathKind::Timeout => {
                f64::from(share) / 1000.0
            }
            PathKind::Compute
            | PathKind::Memory
            | PathKind::Reduction
            | PathKind::Bytes
            | PathKind::Queueing => f64::from(share) / 2000.0,
        }
    }
}

/// Whether what makes one part shorter makes the other one shorter, too.
pub(super) fn is_relieved_with(part: &PathPart, other: &PathPart) -> bool {
    part.tier == other.tier && (!part.tier.is_empty() || part.kind == other.kind)
}

/// Whether one part is compute, and the other a wait for compute of other ranks.
fn is_compute_of_others(part: &PathPart, compute: &PathPart) -> bool {
    compute.kind == PathKind::Compute && matches!(part.kind, PathKind::Bubble | PathKind::Skew)
}
