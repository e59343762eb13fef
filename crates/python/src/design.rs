//! Searches for a better cluster: jobs that are measured again and again, and the search for strategy and topology.

use crate::errors::{detached, internal};
use crate::simulate;
use crate::watch::{Listeners, News, watched};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;
use syncline_design::Evaluation;
use syncline_design::joint::{self, request::Request};
use syncline_simulate::Control;
use syncline_units::Rate;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Evaluator>()?;
    module.add_function(wrap_pyfunction!(search_jointly, module)?)?;
    module.add_function(wrap_pyfunction!(step_on_circuits, module)?)?;
    module.add_function(wrap_pyfunction!(tree_interfaces, module)?)
}

/// A resolved scenario, given as JSON, whose cluster can be changed and measured again.
#[pyclass(frozen, module = "syncline._core")]
struct Evaluator {
    inner: syncline_design::Evaluator,
}

#[pymethods]
impl Evaluator {
    /// An evaluator of a resolved scenario, given as JSON.
    #[staticmethod]
    fn read(py: Python<'_>, scenario: &str) -> PyResult<Self> {
        let inner = detached(py, || Ok(syncline_design::Evaluator::new(simulate::read(scenario)?)))?;
        Ok(Self { inner })
    }

    /// Simulates the job with these rates: for each dimension what an NPU can send in it, in bits per second.
    ///
    /// Returns the seconds of the whole job, and for each dimension, by name, for how many seconds its busiest link was
    /// sending. Ctrl-C raises `KeyboardInterrupt`.
    fn evaluate(&self, py: Python<'_>, rates: Vec<u64>) -> PyResult<(f64, BTreeMap<String, f64>)> {
        let rates: Vec<Rate> = rates.into_iter().map(Rate).collect();
        let mut changed = self.inner.clone();
        let (Evaluation { total, busy }, interrupted) = watched(py, &Listeners::default(), |cancel, _| {
            changed.set_rates(&rates)?;
            let control = &mut Control { cancel: Some(cancel), ..Control::default() };
            changed.evaluate(control)
        })?;
        // The signal may come when the work is already done.
        if interrupted {
            return Err(PyKeyboardInterrupt::new_err(()));
        }
        Ok((total.as_s(), busy.into_iter().map(|(name, time)| (name, time.as_s())).collect()))
    }
}

/// Searches for a parallelisation strategy, and on direct links a topology. Takes and returns JSON
/// (`syncline_design::joint::request`).
///
/// Calls `progress(part)` with the part that is done, from 0 to 1. Ctrl-C raises `KeyboardInterrupt`. Uses at most
/// `threads` threads, on which the answer does not depend.
#[pyfunction]
#[pyo3(signature = (request, threads = 1, progress = None))]
fn search_jointly(
    py: Python<'_>,
    request: &str,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let listeners = Listeners { progress, warn: None };
    let (answer, interrupted) = watched(py, &listeners, |cancel, sender| {
        let request = Request::read(request)?;
        let all = request.proposals().max(1) as f64;
        let sender = Mutex::new(sender);
        let progress = |number: u64| {
            // Sending fails once the search has been interrupted, because the receiver is gone.
            if let Ok(sender) = sender.lock() {
                let _ = sender.send(News::Searched(number as f64 / all));
            }
        };
        let answer = request.run(joint::SearchControl { cancel, progress: &progress, threads })?;
        serde_json::to_string(&answer).map_err(|error| internal(error.to_string()).into())
    })?;
    if interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    Ok(answer)
}

/// Seconds of a training step on circuits that change during the step; the request is JSON
/// (`syncline_circuits::request`). Ctrl-C raises `KeyboardInterrupt`.
#[pyfunction]
fn step_on_circuits(py: Python<'_>, request: &str) -> PyResult<f64> {
    let (step, interrupted) = watched(py, &Listeners::default(), |cancel, _| {
        syncline_circuits::request::Request::read(request)?.step(cancel)
    })?;
    if interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    Ok(step.as_s())
}

/// Interfaces of a server that a pair of binary trees needs at most, for all-reduces on direct links.
#[pyfunction]
fn tree_interfaces() -> u32 {
    syncline_design::topology::TREE_INTERFACES
}
