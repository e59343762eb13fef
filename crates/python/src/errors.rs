//! Errors that cross from Rust to Python: one exception, `syncline.SynclineError`, built from diagnostics as JSON.
//!
//! A panic is a bug in syncline. It never reaches the user as a traceback: the panic hook prints nothing, [`guarded`]
//! catches the panic, and the user gets a diagnostic with code SL0901 that says how to report it.

use pyo3::prelude::*;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Replaces the hook that prints panics with one that stores the message for [`guarded`].
pub(crate) fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!(" at {}:{}", short(at.file()), at.line()));
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        LAST_PANIC.with(|last| *last.borrow_mut() = Some(format!("{text}{}", place.unwrap_or_default())));
    }));
}

/// A source path from `crates/` on. Drops what precedes it, which is specific to the machine that built the module.
fn short(file: &str) -> &str {
    file.find("crates/").map_or_else(|| file.rsplit('/').next().unwrap_or(file), |at| &file[at..])
}

/// What is wrong with JSON text that the front end made, without line and column: the user never sees the text.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what).to_owned()
}

/// Runs `work` and converts a panic in it into a diagnostic.
pub(crate) fn guarded<T>(
    work: impl FnOnce() -> syncline_diagnostics::Result<T>,
) -> syncline_diagnostics::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what =
            LAST_PANIC.with(|last| last.borrow_mut().take()).unwrap_or_else(|| "no message".to_owned());
        Err(internal(what).into())
    })
}

/// The diagnostic for a bug in syncline.
pub(crate) fn internal(what: String) -> Diagnostic {
    Diagnostic::error(Code::Internal, "internal error")
        .found(what)
        .note(format!("syncline {}", env!("CARGO_PKG_VERSION")))
        .help(format!(
            "this is a bug in syncline, not in your input. Please report it at {}/issues with the scenario and \
             this message",
            env!("CARGO_PKG_REPOSITORY")
        ))
}

/// Builds a `syncline.SynclineError` from diagnostics.
pub(crate) fn to_python(py: Python<'_>, diagnostics: &Diagnostics) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let class = py.import("syncline.errors")?.getattr("SynclineError")?;
        let error = class.call_method1("from_json", (diagnostics.to_json(), diagnostics.exit() as i32))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|error| error)
}

/// Runs `work` without the interpreter lock and raises its diagnostics as an exception.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> syncline_diagnostics::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| guarded(work)).map_err(|diagnostics| to_python(py, &diagnostics))
}

/// Panics with `message`. A test uses it to check that a panic arrives as a diagnostic.
#[pyfunction]
pub(crate) fn _panic(py: Python<'_>, message: String) -> PyResult<()> {
    detached(py, || panic!("{message}"))
}
