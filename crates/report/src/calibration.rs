//! What measurements calibrated in a run, when, and how well that holds.

use std::collections::BTreeSet;
use syncline_nccl::Operation;
use syncline_prepare::Prepared;
use syncline_scenario::{CalibrationErrors, Nccl, Scenario};

/// What was calibrated, or `no`: the summary's `calibrated`.
pub(crate) fn calibrated(scenario: &Scenario, prepared: &Prepared) -> String {
    let calls = || prepared.plans.nccl.iter().flatten().map(|call| &call.call);
    let Some(nccl) = scenario.collectives.nccl.as_ref().filter(|_| calls().next().is_some()) else {
        return "no".to_owned();
    };
    let operations: BTreeSet<Operation> = calls().map(|call| call.operation).collect();
    let several = calls().any(|call| call.group.nodes > 1);
    format!("collectives by {}{}", origin(nccl), errors(nccl, &operations, several))
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
