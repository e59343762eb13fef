//! Prepares a scenario, which has one job or several.

use crate::files::Files;
use crate::prepared::Prepared;
use crate::watch::Watch;
use crate::{one_job, several};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_scenario::{Scenario, Workload};

/// Builds and checks everything.
///
/// # Errors
/// As many errors as can be found in one pass; `LimitReached` if `watch` says to stop.
pub fn prepare(scenario: &Scenario, watch: &Watch<'_>) -> Result<Prepared> {
    prepare_from(scenario, &Files::default(), watch)
}

/// As [`prepare()`], but takes the workload's files from `files` if they were read before.
///
/// # Errors
/// As [`prepare()`].
pub fn prepare_from(scenario: &Scenario, files: &Files, watch: &Watch<'_>) -> Result<Prepared> {
    in_any_memory_from(scenario, files, watch)?.that_fits()
}

/// As [`prepare()`], but does not fail if the job does not fit into memory.
///
/// # Errors
/// As [`prepare()`], except that the job does not fit.
pub fn in_any_memory(scenario: &Scenario, watch: &Watch<'_>) -> Result<Prepared> {
    in_any_memory_from(scenario, &Files::default(), watch)
}

fn in_any_memory_from(scenario: &Scenario, files: &Files, watch: &Watch<'_>) -> Result<Prepared> {
    if scenario.schema != "syncline/1" {
        return Err(Diagnostic::error(Code::BadValue, "unknown version of the scenario format")
            .key("schema")
            .found(&*scenario.schema)
            .allowed("syncline/1")
            .into());
    }
    match &scenario.workload {
        Workload::Jobs { jobs } => several::prepare_all(scenario, jobs, files, watch),
        _ => one_job::prepare(scenario, files, watch),
    }
}
