//! Divides the critical path into parts.

use std::cmp::Reverse;
use syncline_critical_path::{CriticalPath, Segment, Spent};
use syncline_prepare::{Member, Prepared};
use syncline_timeline::{PathKind, PathPart};
use syncline_units::{TierId, Time};
use syncline_workload::TaskKind;

/// The times at which the path consists of messages.
pub(super) fn under_way(path: &CriticalPath) -> Vec<(Time, Time)> {
    let messages =
        |segment: &&Segment| matches!(segment.spent, Spent::Bytes(_) | Spent::Queueing(_) | Spent::Latency);
    path.segments.iter().filter(messages).map(|segment| (segment.start, segment.end)).collect()
}

/// A part of a path before its share is known.
#[derive(Clone, Copy, Debug)]
struct PartLength<'a> {
    kind: PathKind,
    /// The tier of its links; `None` for other kinds of time.
    tier: Option<&'a str>,
    /// In picoseconds.
    length: u64,
}

/// The parts of a path, longest first. `stood_still` is the time in which no packet was sent until a time-out; it is
/// taken from queueing.
pub(super) fn parts(prepared: &Prepared, path: &CriticalPath, stood_still: Time) -> Vec<PathPart> {
    let fabric = prepared.fabric.parts();
    let name = |tier: Option<TierId>| tier.map_or("network", |tier| fabric.tiers[tier.index()].name.as_str());
    let mut lengths: Vec<PartLength<'_>> = Vec::new();
    let part = |kind, length| PartLength { kind, tier: None, length };
    // Time-outs are taken from queueing on known tiers first.
    let mut spent = path.spent.clone();
    spent.sort_by_key(|&(spent, _)| spent == Spent::Queueing(None));
    for (spent, Time(length)) in spent {
        match spent {
            Spent::Compute => {
                lengths.extend(compute(prepared, path, length).map(|(kind, length)| part(kind, length)))
            }
            Spent::Memory => lengths.push(part(PathKind::Memory, length)),
            Spent::Reduction => lengths.push(part(PathKind::Reduction, length)),
            Spent::Bytes(tier) => {
                lengths.push(PartLength { tier: Some(name(tier)), ..part(PathKind::Bytes, length) })
            }
            Spent::Queueing(tier) => {
                lengths.push(PartLength { tier: Some(name(tier)), ..part(PathKind::Queueing, length) })
            }
            Spent::Latency => lengths.push(part(PathKind::Latency, length)),
        }
    }
    let mut rest = stood_still.0;
    for queueing in lengths.iter_mut().filter(|part| part.kind == PathKind::Queueing) {
        let still = rest.min(queueing.length);
        (rest, queueing.length) = (rest - still, queueing.length - still);
    }
    lengths.push(part(PathKind::Timeout, stood_still.0 - rest));
    lengths.retain(|part| part.length > 0);
    lengths.sort_by_key(|part| (Reverse(part.length), part.kind, part.tier));
    let shares = shares(&lengths.iter().map(|part| part.length).collect::<Vec<_>>());
    let part = |(PartLength { kind, tier, length }, per_mille): (PartLength<'_>, u32)| PathPart {
        kind,
        tier: tier.map(str::to_owned),
        time_s: Time(length).as_s(),
        per_mille,
        saves_s: 0.0,
    };
    lengths.into_iter().zip(shares).map(part).collect()
}

/// Divides compute on the path into three parts: compute, as much as the mean rank computes; skew, from there up to the
/// rank that computes longest; and bubble, the rest, which several ranks compute one after the other.
fn compute(prepared: &Prepared, path: &CriticalPath, length: u64) -> [(PathKind, u64); 3] {
    let ranks = ranks_of_job(prepared, path);
    let count = ranks.len().max(1) as u128;
    let all: u128 = ranks.iter().map(|&Time(compute)| u128::from(compute)).sum();
    let (mean, most) = ((all / count) as u64, ranks.iter().map(|&Time(compute)| compute).max().unwrap_or(0));
    let own = length.min(mean);
    // Without messages between ranks there are no stages: all compute above the mean is skew.
    let skew = if passes_work_on(prepared) { length.min(most) - own } else { length - own };
    [(PathKind::Compute, own), (PathKind::Skew, skew), (PathKind::Bubble, length - own - skew)]
}

/// Compute time of each rank of the job that the path's last rank belongs to.
fn ranks_of_job<'a>(prepared: &Prepared, path: &'a CriticalPath) -> &'a [Time] {
    let has = |job: &&Member| path.rank.0.wrapping_sub(job.share.first_rank) < job.share.ranks;
    let job = prepared.jobs.iter().find(has);
    job.map_or(&path.computed, |job| {
        let first = job.share.first_rank as usize;
        &path.computed[first..first + job.share.ranks as usize]
    })
}

/// Whether ranks send each other messages outside collectives, as stages of a pipeline do.
pub(super) fn passes_work_on(prepared: &Prepared) -> bool {
    let tasks = prepared.workload.classes.iter().flat_map(|graph| &graph.tasks);
    tasks.into_iter().any(|task| matches!(task.kind, TaskKind::Send { .. }))
}

/// Lengths as thousandths of their sum. The thousandths add up to 1000: those with the largest remainders are rounded
/// up.
fn shares(lengths: &[u64]) -> Vec<u32> {
    let whole: u128 = lengths.iter().map(|&length| u128::from(length)).sum();
    let scaled = |&length: &u64| u128::from(length) * 1000;
    let mut shares: Vec<u32> = lengths.iter().map(|length| (scaled(length) / whole) as u32).collect();
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&part| (Reverse(scaled(&lengths[part]) % whole), part));
    let rest = 1000u32.saturating_sub(shares.iter().sum());
    for &part in order.iter().take(if whole > 0 { rest as usize } else { 0 }) {
        shares[part] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::shares;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_add_up_and_are_rounded(lengths in prop::collection::vec(1u64..u64::MAX / 1000, 1..12)) {
            let whole: f64 = lengths.iter().map(|&length| length as f64).sum();
            let shares = shares(&lengths);
            prop_assert_eq!(shares.iter().sum::<u32>(), 1000);
            for (&share, &length) in shares.iter().zip(&lengths) {
                prop_assert!((f64::from(share) - 1000.0 * length as f64 / whole).abs() < 1.0 + 1e-6);
            }
        }
    }
}
