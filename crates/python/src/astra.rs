//! ASTRA-sim 2's analytical simulators: same input files, same output lines, same nanoseconds.

use crate::errors::detached;
use crate::run::Run;
use crate::watch::{Listeners, watched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use syncline_astra_compat::{Backend, Ended, Inputs, Options};
use syncline_convert::AstraFiles;
use syncline_diagnostics::Diagnostics;
use syncline_scenario::NetworkSettings;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(astra_sim, module)?)?;
    module.add_function(wrap_pyfunction!(astra_scenario, module)?)
}

/// Translates ASTRA-sim 2's input files into a scenario for syncline's own network models. Returns the scenario as
/// JSON, and diagnostics as a JSON array.
#[pyfunction]
#[pyo3(signature = (workload, system, network, memory = None, groups = None, *, model = "analytical"))]
fn astra_scenario(
    py: Python<'_>,
    workload: PathBuf,
    system: PathBuf,
    network: PathBuf,
    memory: Option<PathBuf>,
    groups: Option<PathBuf>,
    model: &str,
) -> PyResult<(String, String)> {
    let model = match model {
        "analytical" => NetworkSettings::Analytical,
        "queued" => NetworkSettings::Queued,
        other => return Err(PyValueError::new_err(format!("no network model is called {other}"))),
    };
    let groups = groups.map(|path| path.to_string_lossy().into_owned());
    let files = AstraFiles {
        workload: &workload.to_string_lossy(),
        system: &system,
        network: &network,
        memory: memory.as_deref(),
        groups: groups.as_deref(),
    };
    let (scenario, warnings) = detached(py, || syncline_convert::astra_scenario(&files, model))?;
    let text = serde_json::to_string(&scenario).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((text, warnings.to_json()))
}

/// Simulates ASTRA-sim 2's input files.
///
/// Returns the lines that ASTRA-sim prints, the outcome as a JSON object, diagnostics as a JSON array, whether the
/// simulation ran to its end, and the run for its results folder.
#[pyfunction]
#[pyo3(signature = (workload, system, network, memory = None, groups = None, *, backend = "unaware",
    queues_per_dim = 1, injection_scale = 1.0, rendezvous = false, max_events = None, max_time_ns = None))]
#[expect(clippy::too_many_arguments, reason = "they are ASTRA-sim's options, one for one")]
fn astra_sim(
    py: Python<'_>,
    workload: PathBuf,
    system: PathBuf,
    network: PathBuf,
    memory: Option<PathBuf>,
    groups: Option<PathBuf>,
    backend: &str,
    queues_per_dim: u32,
    injection_scale: f64,
    rendezvous: bool,
    max_events: Option<u64>,
    max_time_ns: Option<u64>,
) -> PyResult<(String, String, String, bool, Run)> {
    let backend = match backend {
        "unaware" => Backend::Unaware,
        "aware" => Backend::Aware,
        other => return Err(PyValueError::new_err(format!("no backend is called {other}"))),
    };
    let inputs = Inputs { workload, system, network, memory, groups };
    let (outcome, _) = watched(py, &Listeners::default(), |cancel, _| {
        let cancel = Some(cancel);
        let options =
            Options { backend, queues_per_dim, injection_scale, rendezvous, max_events, max_time_ns, cancel };
        syncline_astra_compat::run(&inputs, &options)
    })?;
    let mut diagnostics: Diagnostics = outcome.warnings.clone();
    outcome.limit().into_iter().for_each(|limit| diagnostics.push(limit));
    let finished = outcome.ended == Ended::Finished;
    let timeline = syncline_astra_compat::report::timeline(&outcome, backend);
    let found = diagnostics.to_json();
    let run = syncline_simulate::Run { timeline, diagnostics };
    let run = Run::new(run, outcome.ended == Ended::Cancelled);
    let text = serde_json::to_string(&outcome).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((outcome.astra_text(), text, found, finished, run))
}
