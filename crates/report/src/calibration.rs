//! What measurements calibrated in a run, when, and how well that holds.

use std::collections::BTreeSet;
use syncline_nccl::{Algorithm, Operation, Phase, Protocol};
use syncline_prepare::Prepared;
use syncline_scenario::{CalibrationErrors, MeasuredExchange, Nccl, Scenario};

/// What was calibrated, or `no`: the summary's `calibrated`.
pub(crate) fn calibrated(scenario: &Scenario, prepared: &Prepared) -> String {
    let calls = || prepared.plans.nccl.iter().flatten();
    let Some(nccl) = scenario.collectives.nccl.as_ref().filter(|_| calls().next().is_some()) else {
        return "no".to_owned();
    };
    let of_nccl = || calls().filter(|call| call.estimate.protocol != Protocol::Other);
    let operations: BTreeSet<Operation> = of_nccl().map(|call| call.call.operation).collect();
    let several = of_nccl().any(|call| call.call.group.nodes > 1);
    let mut found = format!("collectives by {}{}", origin(nccl), errors(nccl, &operations, several));
    let beyond: BTreeSet<&str> = of_nccl()
        .filter(|call| nccl.extrapolates(&call.call))
        .map(|call| call.call.operation.name())
        .collect();
    if !beyond.is_empty() {
        let names: Vec<&str> = beyond.into_iter().collect();
        found.push_str(&format!(
            "; beyond the sizes or numbers of GPUs that were measured: {}",
            names.join(", ")
        ));
    }
    if calls().any(|call| call.by_sharp()) {
        found.push_str("; SHARP by NCCL's tuning model, not measured");
    }
    if let Some(framework) = &nccl.custom_all_reduce
        && calls().any(|call| matches!(call.estimate.algorithm, Algorithm::OneShot | Algorithm::TwoShots))
    {
        let range = range(&[framework.errors]).unwrap_or_default();
        found.push_str(&format!("; small all-reduces by {}, errors {range}", framework.name));
    }
    if let Some(deepep) = &nccl.deepep {
        let is_used = |each: &&MeasuredExchange| {
            calls().any(|call| {
                each.is_of(call.call.group)
                    && match each.phase {
                        Phase::Dispatch => call.estimate.algorithm == Algorithm::Dispatch,
                        Phase::Combine => call.estimate.algorithm == Algorithm::Combine,
                    }
            })
        };
        let used: Vec<_> = deepep.exchanges.iter().filter(is_used).map(|each| each.errors).collect();
        if let Some(range) = range(&used) {
            found.push_str(&format!("; tokens of experts by {}, errors {range}", deepep.software));
        }
    }
    found
}

/// The machine, its library and the day.
fn origin(nccl: &Nccl) -> String {
    let known: Vec<&str> =
        [&*nccl.software, &*nccl.date].into_iter().filter(|each| !each.is_empty()).collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    format!("{}{known}", nccl.name)
}

/// The errors of the operations that the run uses.
fn errors(nccl: &Nccl, operations: &BTreeSet<Operation>, several: bool) -> String {
    let all: Vec<_> = operations.iter().filter_map(|&of| nccl.errors_of(of)).collect();
    let mut found = String::new();
    if let Some(range) = range(&all) {
        found = format!("; errors in a node {range}");
    }
    if several {
        found.push_str(&match nccl.network_errors {
            Some(errors) => {
                range(&[errors]).map(|range| format!("; between nodes {range}")).unwrap_or_default()
            }
            None => "; between nodes not measured".to_owned(),
        });
    }
    found
}

/// The range of some errors in words.
fn range(all: &[CalibrationErrors]) -> Option<String> {
    let of = |part: fn(&CalibrationErrors) -> f64| {
        let least = all.iter().map(part).reduce(f64::min)?;
        let most = all.iter().map(part).reduce(f64::max)?;
        let (least, most) = (format!("{:.1}", 100.0 * least), format!("{:.1}", 100.0 * most));
        Some(if least == most { format!("{most} %") } else { format!("{least} to {most} %") })
    };
    Some(format!("median {}, 90th percentile {}", of(|each| each.median)?, of(|each| each.p90)?))
}
