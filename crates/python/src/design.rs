//! Measures a job again and again while a search changes its cluster.

use crate::errors::detached;
use crate::simulate;
use crate::watch::{Listeners, watched};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use syncline_design::Evaluation;
use syncline_simulate::Control;
use syncline_units::Rate;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Evaluator>()
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
