//! What Python raises while Rust waits, kept until somebody may raise it.

use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting call looks for signals.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// What was raised first, if anything was.
#[derive(Default)]
pub(super) struct Raised(Mutex<Option<PyErr>>);

impl Raised {
    /// Something was raised.
    pub(super) fn put(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Looks for signals.
    ///
    /// # Errors
    /// A clause, where one has come that raises something.
    pub(super) fn look(&self) -> Result<(), String> {
        Python::attach(|py| py.check_signals()).map_err(|error| {
            self.put(error);
            "it is interrupted".to_owned()
        })
    }

    /// Says whether to go on, and looks for signals now and then.
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

    /// What came of it, or what was raised meanwhile.
    pub(super) fn or<T>(self, outcome: PyResult<T>) -> PyResult<T> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(raised) => Err(raised),
            None => outcome,
        }
    }
}
