//! What several jobs hold together in the memory of NPUs that they share.

use crate::prepare::Prepared;
use crate::scenario::Job;
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{Bytes, NpuId};
use syncline_workload::remedy::said;

/// What ranks of several jobs hold on one NPU: numbers of jobs, and bytes.
type Held = Vec<(usize, Bytes)>;

/// Whether all that jobs hold on each NPU fits, as far as they and the NPU say how much that is. Jobs count as there at the
/// same time, whatever their starts: when one ends is not known before. What does not fit alone was refused before.
///
/// `place` gives the NPU of a rank of a job.
pub(crate) fn check(
    jobs: &[Job],
    prepared: &[Prepared],
    place: impl Fn(&Prepared, u32) -> NpuId,
) -> Diagnostics {
    let mut on: BTreeMap<NpuId, Held> = BTreeMap::new();
    for (index, own) in prepared.iter().enumerate() {
        for rank in 0..own.workload.ranks {
            // Ranks of a stage are a class.
            let stage = own.workload.class_of(rank) as usize;
            if let Some(footprint) = own.memory.get(stage) {
                on.entry(place(own, rank)).or_default().push((index, footprint.total()));
            }
        }
    }
    // NPUs that hold the same are told of once, by the first of them.
    let mut told: BTreeMap<Held, (NpuId, u32)> = BTreeMap::new();
    for (npu, held) in on {
        let capacity = held.iter().filter_map(|&(job, _)| jobs[job].npu_memory).min();
        let all = held.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes.0));
        if held.len() > 1 && capacity.is_some_and(|capacity| all > capacity.0) {
            told.entry(held).or_insert((npu, 0)).1 += 1;
        }
    }
    let error = |(held, (npu, alike)): (Held, (NpuId, u32))| {
        let capacity = held.iter().filter_map(|&(job, _)| jobs[job].npu_memory).min().unwrap_or_default();
        let all = Bytes(held.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes.0)));
        let parts: Vec<String> =
            held.iter().map(|&(job, bytes)| format!("{} {}", jobs[job].name, said(bytes))).collect();
        let names: Vec<String> = held.iter().map(|&(job, _)| format!("`{}`", jobs[job].name)).collect();
        let last = held.iter().map(|&(job, _)| job).max().unwrap_or_default();
        let others = match alike - 1 {
            0 => String::new(),
            1 => ", and so does another NPU".to_owned(),
            more => format!(", and so do {more} other NPUs"),
        };
        Diagnostic::error(
            Code::DoesNotFit,
            format!(
                "the jobs {} need {} together on NPU {}, which has {}{others}",
                names.join(" and "),
                said(all),
                npu.0,
                said(capacity)
            ),
        )
        .key(format!("workload.jobs.{last}.placement"))
        .found(parts.join(", "))
        .allowed(format!("{} together", said(capacity)))
        .note("each fits alone; jobs on the same NPU are taken to be there at the same time, whatever their starts")
        .help(
            "place them on NPUs of their own, or make one smaller: `parallel.zero`, `parallel.recompute`, a smaller \
             `batch_per_npu`, or more model-parallel ranks or stages",
        )
    };
    let mut errors = Diagnostics::new();
    for each in told.into_iter().map(error) {
        errors.push(each);
    }
    errors
}
