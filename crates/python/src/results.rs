//! Reads run folders.

use crate::errors::{detached, internal};
use crate::run::{PyColumn, values};
use pyo3::prelude::*;
use std::path::PathBuf;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_manifest, module)?)?;
    module.add_function(wrap_pyfunction!(read_summary, module)?)?;
    module.add_function(wrap_pyfunction!(read_table, module)?)?;
    module.add_function(wrap_pyfunction!(table_csv, module)?)?;
    Ok(())
}

/// The manifest of a run's folder as JSON. With `verify`, also compares every file with its hash.
#[pyfunction]
#[pyo3(signature = (folder, *, verify = false))]
fn read_manifest(py: Python<'_>, folder: PathBuf, verify: bool) -> PyResult<String> {
    let read = if verify { syncline_results::verify } else { syncline_results::read_manifest };
    detached(py, || {
        let manifest = read(&folder)?;
        serde_json::to_string(&manifest).map_err(|error| internal(error.to_string()).into())
    })
}

/// The summary of a run's folder as JSON.
#[pyfunction]
fn read_summary(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    detached(py, || syncline_results::summary_to_json(&syncline_results::read_summary(&folder)?))
}

/// The columns of a table of a run's folder, as `(name, meaning, values)`.
#[pyfunction]
fn read_table<'py>(py: Python<'py>, folder: PathBuf, name: &str) -> PyResult<Vec<PyColumn<'py>>> {
    let table = detached(py, || syncline_results::read_table(&folder, name))?;
    table.columns.into_iter().map(|each| Ok((each.name, each.meaning, values(py, &each.data)?))).collect()
}

/// A table of a run's folder as CSV.
#[pyfunction]
fn table_csv(py: Python<'_>, folder: PathBuf, name: &str) -> PyResult<String> {
    detached(py, || syncline_results::table_to_csv(&syncline_results::read_table(&folder, name)?))
}
