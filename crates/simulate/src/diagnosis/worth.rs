//! By how much a run is shorter once a part of its critical path is.

use syncline_engine::Record;
use syncline_timeline::{PathKind, PathPart, Summary};

/// What a run spends its time on: the critical path, and how busy everything is that may become critical instead.
pub(super) struct Worth<'a> {
    parts: &'a [PathPart],
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

const COMPUTE: &str = "compute";

impl<'a> Worth<'a> {
    pub(super) fn new(parts: &'a [PathPart], summary: &'a Summary, busy: &[f64], record: &Record) -> Self {
        let compute = record.ranks.iter().map(|rank| rank.compute).max().unwrap_or_default();
        let thousandths = |share: f64| (1000.0 * share).clamp(0.0, 1000.0) as u32;
        let of_run = |time: f64| if summary.total_time_s > 0.0 { time / summary.total_time_s } else { 0.0 };
        let links =
            summary.dims.iter().zip(busy).map(|(tier, &busy)| (tier.name.as_str(), thousandths(busy)));
        let busy = [(COMPUTE, thousandths(of_run(compute.as_s())))].into_iter().chain(links).collect();
        Self { parts, busy }
    }

    /// By how many two-thousandths the run is shorter where `part`, and what is relieved with it, is twice as fast; or where
    /// it is done without. Half of the critical path's part, or all of it, unless something else is busy for longer than the
    /// rest.
    pub(super) fn of(&self, part: &PathPart) -> u32 {
        let by_path = self.by_path(part);
        self.limit(part).map_or(by_path, |limit| 2 * (1000 - limit.busy))
    }

    /// What makes the worth of `part` smaller than the critical path says.
    pub(super) fn limit(&self, part: &PathPart) -> Option<Limit<'a>> {
        let others = self.busy.iter().filter(|(name, _)| match part.kind {
            // Of one tier alone, the name may be another one.
            PathKind::Bytes | PathKind::Queueing => {
                *name != part.tier && (self.busy.len() > 2 || *name == COMPUTE)
            }
            PathKind::Compute | PathKind::Skew | PathKind::Bubble => *name != COMPUTE,
            PathKind::Memory | PathKind::Reduction | PathKind::Latency | PathKind::Timeout => true,
        });
        let &(name, busy) = others.max_by_key(|(_, busy)| *busy)?;
        (2 * (1000 - busy) < self.by_path(part)).then_some(Limit { name, busy })
    }

    /// The part that is worth most. Of equal ones the one with the larger share of the path, then the first.
    pub(super) fn most(&self, among: impl Fn(&PathPart) -> bool) -> Option<&'a PathPart> {
        let parts = self.parts.iter().rev().filter(|part| among(part));
        parts.max_by_key(|part| (self.of(part), self.by_path(part)))
    }

    fn by_path(&self, part: &PathPart) -> u32 {
        let shrinks = |other: &&PathPart| is_relieved_with(other, part) || is_compute_of_others(other, part);
        let share: u32 = self.parts.iter().filter(shrinks).map(|part| part.per_mille).sum();
        match part.kind {
            PathKind::Bubble | PathKind::Skew | PathKind::Latency | PathKind::Timeout => 2 * share,
            PathKind::Compute
            | PathKind::Memory
            | PathKind::Reduction
            | PathKind::Bytes
            | PathKind::Queueing => share,
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
