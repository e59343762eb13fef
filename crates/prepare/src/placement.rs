//! Which NPU each rank runs on, and how many ranks there are.

use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::Fabric;
use syncline_scenario::Placement;
use syncline_units::NpuId;

/// Largest number of wrong entries that are reported.
const MAX_PROBLEMS: usize = 8;

/// Checks that a placement suits the fabric: its NPUs exist, and each has only one rank.
///
/// # Errors
/// An empty list, more entries than NPUs, and wrong entries.
pub(crate) fn check(spec: &Placement, fabric: &Fabric) -> Result<()> {
    let Placement::Npus(npus) = spec else { return Ok(()) };
    let bad = |message: String| Diagnostic::error(Code::BadPlacement, message);
    let mut errors = Diagnostics::new();
    if npus.is_empty() {
        let error = bad("the placement lists no NPU, so the job has no rank".to_owned());
        return Err(error.key("placement").help("list an NPU for each rank").into());
    }
    if npus.len() > fabric.npus() as usize {
        let message =
            format!("the placement lists {} NPUs, but the fabric has {}", npus.len(), fabric.npus());
        errors.push(
            bad(message).key("placement").help("every rank needs its own NPU: list at most one for each NPU"),
        );
    }
    let mut taken: Vec<Option<usize>> = vec![None; fabric.npus() as usize];
    let mut wrong = 0;
    for (rank, &npu) in npus.iter().enumerate() {
        let (problem, allowed) = match taken.get_mut(npu as usize) {
            None => {
                let allowed = format!("0 to {}", fabric.npus().saturating_sub(1));
                (format!("rank {rank} is placed on NPU {npu}, which does not exist"), Some(allowed))
            }
            Some(Some(first)) => (format!("NPU {npu} is given to two ranks, {first} and {rank}"), None),
            Some(free) => {
                *free = Some(rank);
                continue;
            }
        };
        wrong += 1;
        if wrong <= MAX_PROBLEMS {
            let mut error = bad(problem).key(format!("placement.{rank}"));
            error.allowed = allowed;
            errors.push(error);
        }
    }
    if let (more @ 1.., Some(last)) = (wrong.saturating_sub(MAX_PROBLEMS), errors.0.last_mut()) {
        last.notes.push(format!("{more} more entries of the placement are wrong"));
    }
    errors.into_result().map(|_| ())
}

/// The NPU of each rank; empty if rank `i` runs on NPU `i`. The placement must have passed [`check`].
///
/// # Errors
/// A job whose number of ranks differs from that of the placement.
pub(crate) fn npus(spec: &Placement, ranks: u32, fabric: &Fabric) -> Result<Vec<NpuId>> {
    if ranks != count(spec, fabric) {
        return Err(mismatch(spec, fabric, &format!("the job has {ranks} ranks"), ranks).into());
    }
    Ok(match spec {
        Placement::Linear => Vec::new(),
        Placement::Npus(npus) => npus.iter().map(|&npu| NpuId(npu)).collect(),
    })
}

/// How many ranks a job has on this fabric: one for each NPU that the placement lists, or one for each NPU of the
/// fabric.
pub(crate) fn count(spec: &Placement, fabric: &Fabric) -> u32 {
    match spec {
        Placement::Linear => fabric.npus(),
        Placement::Npus(npus) => u32::try_from(npus.len()).unwrap_or(u32::MAX),
    }
}

/// Says, for errors, where the number of ranks comes from: `the fabric has 8 NPUs`.
pub(crate) fn counted(spec: &Placement, fabric: &Fabric) -> String {
    let (who, verb) = match spec {
        Placement::Linear => ("the fabric", "has"),
        Placement::Npus(_) => ("the placement", "lists"),
    };
    let count = count(spec, fabric);
    format!("{who} {verb} {count} NPU{}", if count == 1 { "" } else { "s" })
}

/// The error for a number of ranks that does not fit; `what` says it, such as `the trace has 4 ranks`. The error's key
/// is the one that gives the number of NPUs.
pub(crate) fn mismatch(spec: &Placement, fabric: &Fabric, what: &str, ranks: u32) -> Diagnostic {
    let error = Diagnostic::error(Code::RankMismatch, format!("{what}, but {}", counted(spec, fabric)));
    let all = fabric.npus();
    match spec {
        _ if ranks > all => error.key("fabric").help(format!(
            "every rank needs its own NPU: give the fabric at least {ranks} NPUs{}",
            if *spec == Placement::Linear { "" } else { ", and list one for each rank" }
        )),
        Placement::Linear => error
            .key("fabric")
            .help("change the fabric's sizes, or list in `placement` the NPUs that the ranks use"),
        Placement::Npus(_) if ranks == all => error.key("placement").help(
            "list an NPU for each rank, or leave out the placement: the fabric has exactly as many NPUs",
        ),
        Placement::Npus(_) => error.key("placement").help("list an NPU for each rank"),
    }
}
