//! Handles to operations under way.

use super::completions;
use super::faults::error;
use super::operations::{Begun, Held};
use super::raised::LOOK;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An operation or transfer under way.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Pending {
    pub(super) held: Arc<Held>,
}

#[pymethods]
impl Pending {
    /// Whether the operation is over.
    fn done(&self) -> bool {
        drop(self.held.released());
        self.held.begun.pending().outcome().is_some()
    }

    /// Has [`completions::next_completion`] return `callback` once the operation is over.
    fn then(&self, callback: Py<PyAny>) {
        completions::put(&self.held, callback);
    }

    /// The least number of workers that contributed to any chunk of the received vector; `None` if nothing
    /// was received from a hub.
    fn contributors(&self) -> Option<u16> {
        match &self.held.begun {
            Begun::Collective(_) | Begun::Transfer(_) => None,
            Begun::Exchange(exchange) => exchange.contributors(),
        }
    }

    /// The rank at the other side of a transfer that has succeeded.
    fn source(&self) -> Option<u32> {
        self.held.begun.pending().source()
    }

    /// Cancels a receive. It fails, unless part of the message has arrived already.
    fn withdraw(&self) {
        self.held.begun.pending().withdraw();
    }

    /// Waits until the operation is over, at most `seconds`, and returns whether it is. Raises the
    /// operation's fault. Ctrl-C ends the wait, but not the operation.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        if seconds.is_some_and(f64::is_nan) {
            return Err(PyValueError::new_err("NaN is not a number of seconds"));
        }
        let began = Instant::now();
        loop {
            let left = seconds.map(|seconds| seconds - began.elapsed().as_secs_f64());
            let most = left.map_or(LOOK, |left| Duration::from_secs_f64(left.clamp(0.0, LOOK.as_secs_f64())));
            let outcome = py.detach(|| self.held.begun.pending().wait(most));
            drop(self.held.released());
            match outcome {
                Some(Ok(())) => return Ok(true),
                Some(Err(fault)) => return Err(error(py, &fault)),
                None => py.check_signals()?,
            }
            if left.is_some_and(|left| left <= 0.0) {
                return Ok(false);
            }
        }
    }
}
