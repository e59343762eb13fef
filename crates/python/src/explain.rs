//! Renders diagnostics as text, and lists what each code and each name in results means.

use crate::errors::internal;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline_diagnostics::{Code, Diagnostics, nearest as nearest_name, render as renderer};
use syncline_timeline::schema;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(render, module)?)?;
    module.add_function(wrap_pyfunction!(codes, module)?)?;
    module.add_function(wrap_pyfunction!(result_names, module)?)?;
    module.add_function(wrap_pyfunction!(nearest, module)?)?;
    module.add_function(wrap_pyfunction!(internal_error, module)?)?;
    Ok(())
}

/// Renders a JSON array of diagnostics as terminal text, with an empty line between two diagnostics.
#[pyfunction]
#[pyo3(signature = (diagnostics, *, colour = false))]
fn render(diagnostics: &str, colour: bool) -> PyResult<String> {
    let diagnostics: Diagnostics =
        serde_json::from_str(diagnostics).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let one = if colour { renderer::coloured } else { renderer::plain };
    Ok(diagnostics.0.iter().map(one).collect::<Vec<_>>().join("\n\n"))
}

/// Id, name, title, explanation and exit status of a code.
type CodeRow = (&'static str, &'static str, &'static str, &'static str, i32);

/// Every code as `(id, name, title, explanation, exit status)`.
#[pyfunction]
fn codes() -> Vec<CodeRow> {
    let row = |code: &Code| (code.id(), code.name(), code.title(), code.explanation(), code.exit() as i32);
    Code::ALL.iter().map(row).collect()
}

/// Table, name, type, unit, meaning, and meaning of a row.
type ResultName = (&'static str, String, &'static str, &'static str, &'static str, &'static str);

/// Every name in results as `(table, name, type, unit, meaning, meaning of a row)`: the keys of `summary`, then the
/// columns of each table.
#[pyfunction]
fn result_names() -> Vec<ResultName> {
    let keys = schema::summary().into_iter().map(|(key, name, about)| {
        ("summary", key, name.values, schema::unit(name.name), name.meaning, about)
    });
    let columns = schema::TABLES.iter().flat_map(|table| {
        table.names.iter().map(|column| {
            let unit = schema::unit(column.name);
            (table.name, column.name.to_owned(), column.values, unit, column.meaning, table.meaning)
        })
    });
    keys.chain(columns).collect()
}

/// The one of `names` that the user most likely meant by `found`, if any is close.
#[pyfunction]
fn nearest(found: &str, names: Vec<String>) -> Option<String> {
    nearest_name(found, names.iter().map(String::as_str)).map(str::to_owned)
}

/// A diagnostic that reports `what` as a bug in syncline, as a JSON array.
#[pyfunction]
fn internal_error(what: String) -> String {
    Diagnostics::from(internal(what)).to_json()
}
