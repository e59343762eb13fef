//! Checks that several jobs together fit into the memory of NPUs that they share.

use crate::prepared::Prepared;
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_scenario::JobEntry;
use syncline_units::{Bytes, NpuId};
use syncline_workload::remedy::memory_size;

/// The jobs that have a rank on one NPU: number of each job, and bytes that its rank holds.
type Held = Vec<(usize, Bytes)>;

/// Checks that what the jobs hold on each NPU fits together, as far as footprints and capacities are known. All jobs
/// count as present at the same time, whenever they start, because their ends are not known in advance. A job that does
/// not fit alone was refused earlier.
///
/// `place` returns the NPU of a rank of a job.
pub(crate) fn check(
    jobs: &[JobEntry],
    prepared: &[Prepared],
    place: impl Fn(&Prepared, u32) -> NpuId,
) -> Diagnostics {
    let mut on: BTreeMap<NpuId, Held> = BTreeMap::new();
    for (index, own) in prepared.iter().enumerate() {
        for rank in 0..own.workload.ranks {
            // Classes of ranks are stages.
            let stage = own.workload.class_of(rank) as usize;
            if let Some(footprint) = own.memory.get(stage) {
                on.entry(place(own, rank)).or_default().push((index, footprint.total()));
            }
        }
    }
    // Report NPUs with the same contents once: the first of them, and how many there are.
    let mut overfull: BTreeMap<Held, (NpuId, u32)> = BTreeMap::new();
    for (npu, held) in on {
        let capacity = held.iter().filter_map(|&(job, _)| jobs[job].npu_memory).min();
        let all = held.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes.0));
        if held.len() > 1 && capacity.is_some_and(|capacity| all > capacity.0) {
            overfull.entry(held).or_insert((npu, 0)).1 += 1;
        }
    }
    let error = |(held, (npu, alike)): (Held, (NpuId, u32))| {
        let capacity = held.iter().filter_map(|&(job, _)| jobs[job].npu_memory).min().unwrap_or_default();
        let all = Bytes(held.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes.0)));
        let parts: Vec<String> =
            held.iter().map(|&(job, bytes)| format!("{} {}", jobs[job].name, memory_size(bytes))).collect();
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
                memory_size(all),
                npu.0,
                memory_size(capacity)
            ),
        )
        .key(format!("workload.jobs.{last}.placement"))
        .found(parts.join(", "))
        .allowed(format!("{} together", memory_size(capacity)))
        .note("each fits alone; jobs on the same NPU count as present at the same time, whenever they start")
        .help(
            "place them on different NPUs, or make one smaller: `parallel.zero`, `parallel.recompute`, a smaller \
             `batch_per_npu`, or more tensor-parallel ranks or stages",
        )
    };
    let mut errors = Diagnostics::new();
    for each in overfull.into_iter().map(error) {
        errors.push(each);
    }
    errors
}
