//! Checks options, network, system file and groups.

use super::Problems;
use crate::algorithms::Pattern;
use crate::job::{Backend, Job, Options};
use crate::system::layout::implementations;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::astra2::Topology;

/// The endpoint delay if the system file has none. ASTRA-sim 2, `Sys.cc`.
const ENDPOINT_DELAY: u64 = 10;
/// More queues than this are not useful, and cost memory on every rank.
const MAX_QUEUES: u32 = 4096;

/// Checks what does not depend on the traces, and returns the endpoint delay.
pub(super) fn check(job: &Job, options: &Options<'_>, problems: &mut Problems) -> u64 {
    if options.backend == Backend::Aware {
        aware(job, problems);
    }
    if options.queues_per_dim == 0 || options.queues_per_dim > MAX_QUEUES {
        problems.add(
            Diagnostic::error(Code::BadValue, "a dimension needs one queue or more")
                .key("num-queues-per-dim")
                .found(options.queues_per_dim.to_string())
                .allowed(format!("1 to {MAX_QUEUES}")),
        );
    }
    implementation_lists(job, problems);
    groups(job, problems);
    let Some(delay) = job.system.endpoint_delay else { return ENDPOINT_DELAY };
    let scaled = delay as f64 * options.injection_scale;
    if (1.0..crate::MAX_TIME as f64).contains(&scaled) {
        return scaled as u64;
    }
    problems.add(
        Diagnostic::error(
            Code::BadValue,
            "the endpoint delay times the injection scale must be 1 ns or more",
        )
        .in_place(job.system.source.json_key("endpoint-delay"))
        .key("injection-scale")
        .found(format!("{delay} ns x {}", options.injection_scale))
        .note("ASTRA-sim cuts the product to whole nanoseconds and aborts at 0"),
    );
    ENDPOINT_DELAY
}

fn aware(job: &Job, problems: &mut Problems) {
    let source = &job.network.source;
    match job.network.dims.as_slice() {
        [dim] if dim.topology == Topology::Ring && dim.npus == 2 => problems.add(
            Diagnostic::error(Code::AstraUnsupported, "congestion_aware has no ring of 2 NPUs")
                .at(source.file(), 0)
                .key("npus_count")
                .note("ASTRA-sim connects the two twice and aborts")
                .help("use FullyConnected, which is the same for 2 NPUs, or congestion_unaware"),
        ),
        [_] => {}
        dims => problems.add(
            Diagnostic::error(Code::AstraUnsupported, "congestion_aware supports one dimension only")
                .at(source.file(), 0)
                .key("topology")
                .found(format!("{} dimensions", dims.len()))
                .help("use congestion_unaware"),
        ),
    }
}

fn implementation_lists(job: &Job, problems: &mut Problems) {
    for pattern in [Pattern::AllReduce, Pattern::AllGather, Pattern::ReduceScatter, Pattern::AllToAll] {
        let Some(list) = implementations(&job.system, pattern) else { continue };
        let place = || job.system.source.json_key(pattern.key());
        if let Some(entry) = list.iter().skip(1).find(|entry| entry.flat)
            && !list[0].flat
        {
            problems.add(
                Diagnostic::error(
                    Code::AstraUnsupported,
                    format!("{} names a flat algorithm behind another one", pattern.key()),
                )
                .in_place(place())
                .key(pattern.key())
                .found(entry.name())
                .help("a flat algorithm covers all NPUs: name it alone"),
            );
        }
        if list.len() > job.network.dims.len() {
            problems.add(
                Diagnostic::error(
                    Code::BadAstraFile,
                    format!("{} has more entries than the network has dimensions", pattern.key()),
                )
                .in_place(place())
                .key(pattern.key())
                .found(format!("{} entries, {} dimensions", list.len(), job.network.dims.len()))
                .help("give one algorithm for each dimension, lowest first"),
            );
        }
    }
}

fn groups(job: &Job, problems: &mut Problems) {
    let npus = job.network.npus();
    for (id, members) in &job.groups.members {
        if let Some(rank) = members.iter().find(|&&rank| rank >= npus) {
            problems.add(
                Diagnostic::error(Code::BadGroup, "a communicator group names a rank that does not exist")
                    .in_place(job.groups.source.json_key(&id.to_string()))
                    .key(format!("group {id}"))
                    .found(format!("rank {rank}"))
                    .allowed(format!("0 to {}", npus - 1)),
            );
        }
    }
}
