//! Python code that runs while Rust waits. Exceptions that it raises are kept until the waiting call returns and can raise
//! them.

use pyo3::prelude::*;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting call checks for signals.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Runs Python code during a call that has sockets on its stack. If that code forks, the child ends when it returns from
/// the code: its copies of the sockets are closed ([`super::forked`]).
pub(super) fn in_this_process<R>(call: impl FnOnce() -> R) -> R {
    let process = std::process::id();
    let result = call();
    if std::process::id() != process {
        // Nothing is left to do if this fails.
        let _ = writeln!(std::io::stderr(), "a process that was forked during a join must not return to it");
        std::process::exit(1);
    }
    result
}

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
        in_this_process(|| Python::attach(|py| py.check_signals())).map_err(|error| {
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
