//! Simulates, checks and describes a resolved scenario.

use crate::errors::{detached, internal, problem};
use crate::run::Run;
use crate::watch::{Listeners, News, watched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::Duration;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_report::Show;
use syncline_scenario::Scenario;
use syncline_scenario::{Collectives, Limits, NetworkSettings, Trace};
use syncline_simulate::{Control, Progress};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(readable, module)?)?;
    module.add_function(wrap_pyfunction!(show, module)?)?;
    module.add_function(wrap_pyfunction!(cost, module)?)?;
    module.add_function(wrap_pyfunction!(defaults, module)?)?;
    Ok(())
}

/// Reads a resolved scenario from JSON.
pub(crate) fn read(scenario: &str) -> syncline_diagnostics::Result<Scenario> {
    serde_json::from_str(scenario).map_err(|error| {
        Diagnostic::error(Code::BadValue, format!("not a resolved scenario: {}", problem(&error)))
            .help("a run writes its resolved scenario into its folder; to write your own, start from `syncline init`")
            .into()
    })
}

/// Simulates a resolved scenario, given as JSON.
///
/// Calls `progress(simulated_s, events, messages, done)` about ten times a second. Ctrl-C stops the run and keeps the
/// results so far; `Run.interrupted` is then true. `spent_s`, the seconds that the command took before this call,
/// counts towards the limit on wall time. Calls `warn(json)` once before the first event if there are diagnostics by
/// then.
#[pyfunction]
#[pyo3(signature = (scenario, progress = None, spent_s = 0.0, warn = None))]
fn simulate(
    py: Python<'_>,
    scenario: &str,
    progress: Option<Py<PyAny>>,
    spent_s: f64,
    warn: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let spent = Duration::try_from_secs_f64(spent_s).unwrap_or_default();
    let (run, interrupted) = watched(py, &Listeners { progress, warn }, |cancel, sender| {
        let scenario = read(scenario)?;
        // Sending fails once the run has been interrupted, because the receiver is gone.
        let mut report = |state: Progress| {
            let _ = sender.send(News::Progress(state));
        };
        let mut warn = |found: &Diagnostics| {
            let _ = sender.send(News::Warnings(found.to_json()));
        };
        let control =
            Control { cancel: Some(cancel), progress: Some(&mut report), warn: Some(&mut warn), spent };
        syncline_simulate::run(&scenario, control)
    })?;
    Ok(Run::new(run, interrupted))
}

/// Fails unless the JSON parses as a resolved scenario. Does not check what the scenario says.
#[pyfunction]
fn readable(py: Python<'_>, scenario: &str) -> PyResult<()> {
    detached(py, || read(scenario).map(drop))
}

/// Checks a resolved scenario without simulating it and returns the diagnostics as a JSON array.
#[pyfunction]
fn check(py: Python<'_>, scenario: &str) -> PyResult<String> {
    detached(py, || Ok(syncline_simulate::check(&read(scenario)?).to_json()))
}

/// Describes the `fabric`, `workload` or `plan` of a resolved scenario as JSON.
#[pyfunction]
fn show(py: Python<'_>, scenario: &str, what: &str) -> PyResult<String> {
    let what = match what {
        "fabric" => Show::Fabric,
        "workload" => Show::Workload,
        "plan" => Show::Plan,
        other => return Err(PyValueError::new_err(format!("no part of a scenario is called {other}"))),
    };
    detached(py, || syncline_report::show(&read(scenario)?, what))
}

/// The bill of a fabric as JSON: its `items`, and their sums `usd` and `watts`. `fabric` and `prices` are those
/// sections of a resolved scenario, as JSON.
#[pyfunction]
fn cost(py: Python<'_>, fabric: &str, prices: &str) -> PyResult<String> {
    let wrong = |key: &str, error: &serde_json::Error| {
        let message = format!("not the section of a resolved scenario: {error}");
        Diagnostics::from(Diagnostic::error(Code::BadValue, message).key(key))
    };
    detached(py, || {
        let fabric = serde_json::from_str(fabric).map_err(|error| wrong("fabric", &error))?;
        let prices = serde_json::from_str(prices).map_err(|error| wrong("prices", &error))?;
        let bill = syncline_report::cost::cost(&fabric, &prices)?;
        serde_json::to_string(&bill).map_err(|error| internal(error.to_string()).into())
    })
}

/// The defaults of `collectives`, `limits`, `trace` and the packet `network`, as a JSON object.
#[pyfunction]
fn defaults() -> PyResult<String> {
    let all = serde_json::json!({
        "collectives": Collectives::default(),
        "limits": Limits::default(),
        "trace": Trace::default(),
        "network": NetworkSettings::Packet(Default::default()),
    });
    serde_json::to_string(&all).map_err(|error| PyValueError::new_err(error.to_string()))
}
