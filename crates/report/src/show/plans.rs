//! The plan of each collective that the workload uses.

use super::Total;
use serde::Serialize;
use syncline_engine::{PhasePlan, PlanId};
use syncline_plan::program::program;
use syncline_plan::{Op, Seat};
use syncline_prepare::Prepared;
use syncline_units::Extent;

#[derive(Serialize)]
pub(super) struct PlanView {
    /// The group's role.
    group: String,
    kind: &'static str,
    bytes: u64,
    chunks: usize,
    chunk_bytes: u64,
    bound_s: f64,
    /// Tasks of one iteration that use it, over all classes.
    uses: usize,
    phases: Vec<PhaseView>,
}

#[derive(Serialize)]
struct PhaseView {
    dimension: String,
    kind: &'static str,
    algorithm: String,
    /// Whether the scenario names no algorithm for it.
    chosen: bool,
    ranks: u32,
    streams: u32,
    queues: u32,
    /// Bytes of one chunk on which the phase's collective works.
    chunk_bytes: u64,
    messages_per_rank: u64,
    sent_bytes_per_rank: u64,
}

/// The plan of each collective.
pub(super) fn views(prepared: &Prepared) -> Vec<PlanView> {
    let names = prepared.dim_names();
    let plans = &prepared.plans;
    plans
        .plans
        .iter()
        .enumerate()
        .map(|(index, plan)| {
            let chunk = plan.chunks.first().copied().unwrap_or_default();
            let phases = plan.phases.iter().zip(&plans.chosen[index]).map(|(phase, &chosen)| {
                let extent = phase.extent(chunk, 0);
                let sent = first_seat(phase, extent, plan.element);
                PhaseView {
                    dimension: names[usize::from(phase.dim)].clone(),
                    kind: phase.kind.name(),
                    algorithm: phase.algorithm.name().to_owned(),
                    chosen,
                    ranks: phase.axis.size,
                    streams: phase.streams,
                    queues: plans.dims[usize::from(phase.dim)].queues_of(phase.kind),
                    chunk_bytes: extent.len() * plan.element,
                    messages_per_rank: sent.count,
                    sent_bytes_per_rank: sent.bytes,
                }
            });
            PlanView {
                group: plans.groups[index].clone(),
                kind: plan.kind.name(),
                bytes: plan.bytes.0,
                chunks: plan.chunks.len(),
                chunk_bytes: chunk.len() * plan.element,
                bound_s: plan.bound.as_s(),
                uses: plans.plan_of.iter().flatten().filter(|&&of| of == Some(PlanId(index as u32))).count(),
                phases: phases.collect(),
            }
        })
        .collect()
}

/// Messages and bytes that the phase's first seat sends for one chunk.
fn first_seat(phase: &PhasePlan, extent: Extent, element: u64) -> Total {
    let mut total = Total::default();
    for stream in 0..phase.streams {
        let seat = Seat { kind: phase.kind, ranks: phase.axis.size, index: 0, stream, reverse: false };
        let part = phase.algorithm.part(phase.kind, phase.axis.size, stream, extent);
        for op in program(&*phase.algorithm, seat) {
            if let Op::Send { blocks, .. } = op {
                total.add(1, blocks.extent(seat.space(blocks.buffer, part)).len() * element);
            }
        }
    }
    total
}
