//! What the mean rank waits for, in parts that add up to its step with compute.

use super::parts::passes_work_on;
use crate::prepare::Prepared;
use crate::report::PS;
use crate::scenario::{Scenario, Workload};
use syncline_engine::Record;
use syncline_engine::record::RankRecord;
use syncline_timeline::{AxisSummary, Ended, Summary};

/// Says in the summary what ranks wait for: exposed communication by axis, bubble, skew, and what is left.
///
/// After its own last task a rank waits for others to end: in a pipeline that is bubble, else skew; of several jobs, of which
/// each has its own end, it is idle.
pub(crate) fn waits(summary: &mut Summary, scenario: &Scenario, prepared: &Prepared, record: &Record) {
    let all = u128::from(prepared.workload.ranks.max(1));
    let members = u128::from(prepared.symmetry.members());
    let sum = |of: fn(&RankRecord) -> u64| {
        record.ranks.iter().map(|rank| u128::from(of(rank)) * members).sum::<u128>()
    };
    let whole = u128::from(record.finish.0) * all;
    let after = match record.ended {
        Ended::Finished if prepared.parts.is_empty() => whole.saturating_sub(sum(|rank| rank.finish.0)),
        _ => 0,
    };
    let (mut bubble, mut skew) = (sum(|rank| rank.bubble.0), sum(|rank| rank.skew.0));
    if passes_work_on(prepared) {
        bubble += after;
    } else {
        skew += after;
    }
    let waits = sum(|rank| rank.compute.0)
        + sum(|rank| rank.exposed_communication.0)
        + sum(|rank| rank.exposed_memory.0)
        + bubble
        + skew;
    let mean = |sum: u128| sum as f64 / PS / all as f64;
    (summary.bubble_s, summary.skew_s) = (mean(bubble), mean(skew));
    // A job without compute waits for nothing.
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

/// Whether messages outside collectives are those of stages.
fn is_pipeline(scenario: &Scenario) -> bool {
    matches!(scenario.workload, Workload::Layers { .. })
}
