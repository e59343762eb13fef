//! Diagnostics as people read them, and what each code means.

use crate::errors::internal;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline_diagnostics::{Code, Diagnostics, nearest as nearest_name, render as renderer};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(render, module)?)?;
    module.add_function(wrap_pyfunction!(codes, module)?)?;
    module.add_function(wrap_pyfunction!(nearest, module)?)?;
    module.add_function(wrap_pyfunction!(internal_error, module)?)?;
    Ok(())
}

/// The diagnostics of a JSON array in their terminal form, an empty line between two.
#[pyfunction]
#[pyo3(signature = (diagnostics, *, colour = false))]
fn render(diagnostics: &str, colour: bool) -> PyResult<String> {
    let diagnostics: Diagnostics =
        serde_json::from_str(diagnostics).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let one = if colour { renderer::coloured } else { renderer::plain };
    Ok(diagnostics.0.iter().map(one).collect::<Vec<_>>().join("\n\n"))
}

/// Every code as `(id, title, explanation, exit status)`.
#[pyfunction]
fn codes() -> Vec<(&'static str, &'static str, &'static str, i32)> {
    Code::ALL.iter().map(|code| (code.id(), code.title(), code.explanation(), code.exit() as i32)).collect()
}

/// The name that `found` was most likely meant to be.
#[pyfunction]
fn nearest(found: &str, names: Vec<String>) -> Option<String> {
    nearest_name(found, names.iter().map(String::as_str)).map(str::to_owned)
}

/// The diagnostic of a bug in this project, as a JSON array.
#[pyfunction]
fn internal_error(what: String) -> String {
    Diagnostics::from(internal(what)).to_json()
}
