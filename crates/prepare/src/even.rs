//! Suggests a size for a bare collective at which one rank represents all.

use crate::plans::Plans;
use syncline_engine::CollectivePlan;
use syncline_scenario::{Collectives, Scenario, Workload};
use syncline_units::lcm;

/// The remedy for a job of bare collectives if one of them cannot be cut evenly: the next larger size that can. `None`
/// for other jobs, and if all collectives are cut evenly.
pub(crate) fn remedy(scenario: &Scenario, plans: &Plans) -> Option<String> {
    if !matches!(scenario.workload, Workload::Collectives { .. }) {
        return None;
    }
    let plan = plans
        .plans
        .iter()
        .find(|plan| plan.chunks.iter().any(|chunk| !chunk.len().is_multiple_of(blocks(plan))))?;
    let Collectives { chunks, min_chunk, .. } = &scenario.collectives;
    let chunks = u64::from(*scenario.collectives.chunks_of.get(&plan.kind).unwrap_or(chunks));
    // Smaller collectives are cut into fewer chunks.
    let unit = chunks.checked_mul(blocks(plan))?.checked_mul(plan.element)?;
    let least = plan.bytes.0.max(chunks.checked_mul(min_chunk.0)?);
    let bytes = least.checked_next_multiple_of(unit)?;
    Some(format!(
        "give `bytes: {bytes}B` instead of {}: ranks divide it evenly, and one can represent all if their routes are alike",
        plan.bytes
    ))
}

/// Least common multiple of the numbers of blocks into which the phases cut a chunk.
fn blocks(plan: &CollectivePlan) -> u64 {
    let of_phases = plan.phases.iter().map(|phase| {
        let cuts = phase.cuts.iter().map(|axis| u64::from(axis.size));
        cuts.product::<u64>() * u64::from(phase.axis.size)
    });
    of_phases.fold(1, lcm)
}
