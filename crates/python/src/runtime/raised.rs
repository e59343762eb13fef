//! Exceptions that Python raises while Rust waits, kept until the waiting call returns and can raise them.

use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting call checks for signals.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The first exception that was raised, if any.
#[derive(Default)]
pub(super) struct Raised(Mutex<Option<PyErr>>);

impl Raised {
    /// Keeps an exception, unless there is an earlier one.
    pub(super) fn put(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Checks for signals, and keeps the exception that a signal raises.
    ///
    /// # Errors
    /// A clause that says so, if a signal has raised an exception.
    pub(super) fn look(&self) -> Result<(), String> {
        Python::attach(|py| py.check_signals()).map_err(|error| {
            self.put(error);
            "was interrupted".to_owned()
        })
    }

    /// Returns a function that says whether to go on. It checks for signals every [`LOOK`].
    pub(super) fn wanted(&self) -> impl FnMut() -> bool {
        let mut looked = Instant::now();
        move || {
            if looked.elapsed() < LOOK {
                return true;
            }
            looked = Instant::now();
            self.look().is_ok()
        }
    }

    /// Returns the outcome, unless an exception was raised meanwhile.
    pub(super) fn or<T>(self, outcome: PyResult<T>) -> PyResult<T> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(raised) => Err(raised),
            None => outcome,
        }
    }
}
