//! What the mean rank waits for. These parts and compute add up to its step.

use super::parts::passes_work_on;
use crate::links::PS;
use std::collections::BTreeSet;
use syncline_engine::Record;
use syncline_engine::record::RankRecord;
use syncline_prepare::Prepared;
use syncline_scenario::{Scenario, Workload};
use syncline_timeline::{AxisSummary, Ended, Span, Summary, Track};
use syncline_units::{Bytes, NpuId, RankId};

/// Writes into the summary what ranks wait for: exposed communication by axis, bubble, skew, and idle time.
///
/// After its own last task a rank waits for the other ranks. In a pipeline that time is bubble, otherwise skew. With
/// several jobs, each of which has its own end, it is idle time.
pub(crate) fn waits(summary: &mut Summary, scenario: &Scenario, prepared: &Prepared, record: &Record) {
    let all = u128::from(prepared.workload.ranks.max(1));
    let members = u128::from(prepared.symmetry.members());
    let sum = |of: fn(&RankRecord) -> u64| {
        record.ranks.iter().map(|rank| u128::from(of(rank)) * members).sum::<u128>()
    };
    let whole = u128::from(record.finish.0) * all;
    let after = match record.ended {
        Ended::Finished if prepared.jobs.is_empty() => whole.saturating_sub(sum(|rank| rank.finish.0)),
        _ => 0,
    };
    let (mut bubble, mut skew) = (sum(|rank| rank.bubble.0), sum(|rank| rank.skew.0));
    *(if at_end(prepared) == Track::Bubble { &mut bubble } else { &mut skew }) += after;
    let waits = sum(|rank| rank.compute.0)
        + sum(|rank| rank.exposed_communication.0)
        + sum(|rank| rank.exposed_memory.0)
        + bubble
        + skew;
    let mean = |sum: u128| sum as f64 / PS / all as f64;
    (summary.bubble_s, summary.skew_s) = (mean(bubble), mean(skew));
    // In a job without compute, nothing waits.
    let computes = summary.compute_s > 0.0;
    summary.idle_s = if computes { mean(whole.saturating_sub(waits)) } else { 0.0 };
    let roles = prepared.workload.roles.iter().map(|role| role.name.clone());
    let last = if is_pipeline(scenario) { "pipeline" } else { "point_to_point" };
    let names = roles.chain([last.to_owned()]);
    summary.exposed_by_axis = names
        .zip(&record.axes)
        .filter(|&(_, &exposed)| exposed > 0)
        .map(|(name, &exposed)| AxisSummary { name, exposed_communication_s: mean(exposed) })
        .collect();
}

/// What the time after a rank's last task counts as, in a single job.
fn at_end(prepared: &Prepared) -> Track {
    if passes_work_on(prepared) { Track::Bubble } else { Track::Skew }
}

/// Adds a span for the time after the last task of each traced rank, of the track that [`waits`] books it to. Adds
/// nothing if spans are missing, if there are `most` of them, or if the job has no compute.
pub(crate) fn trace_ends(prepared: &Prepared, record: &mut Record, most: u64) {
    let computes = record.ranks.iter().any(|rank| !rank.compute.is_zero());
    if !computes || record.ended != Ended::Finished || !prepared.jobs.is_empty() || record.spans.left_out > 0
    {
        return;
    }
    let spans = &mut record.spans;
    let ranks: BTreeSet<u32> = spans.spans.iter().map(|span| span.rank.0).collect();
    let label = spans.labels.len() as u32;
    let before = spans.spans.len();
    for rank in ranks {
        let start = record.ranks[prepared.symmetry.class(NpuId(rank)) as usize].finish;
        if start >= record.finish {
            continue;
        }
        if spans.spans.len() as u64 >= most {
            spans.left_out += 1;
        } else {
            let (rank, track, end) = (RankId(rank), at_end(prepared), record.finish);
            spans.spans.push(Span { rank, track, start, end, label, bytes: Bytes(0) });
        }
    }
    if spans.spans.len() > before {
        spans.labels.push("waits for the other ranks to finish".to_owned());
    }
}

/// Whether messages outside collectives are those between pipeline stages.
fn is_pipeline(scenario: &Scenario) -> bool {
    matches!(scenario.workload, Workload::Layers { .. })
}
