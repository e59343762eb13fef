//! Reads run folders; reads and writes single tables.

use crate::errors::{detached, internal};
use crate::run::{PyColumn, values};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use syncline_results::{OwnedColumn, OwnedTable};
use syncline_timeline::Data;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_manifest, module)?)?;
    module.add_function(wrap_pyfunction!(read_summary, module)?)?;
    module.add_function(wrap_pyfunction!(read_table, module)?)?;
    module.add_function(wrap_pyfunction!(table_csv, module)?)?;
    module.add_function(wrap_pyfunction!(table_to_parquet, module)?)?;
    module.add_function(wrap_pyfunction!(table_from_parquet, module)?)?;
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

/// A table as the bytes of a Parquet file. Columns are `(name, meaning, kind, values)`; kinds are `int`, `float`,
/// `optional_float`, `text` and `bool`.
#[pyfunction]
fn table_to_parquet<'py>(
    py: Python<'py>,
    name: String,
    meaning: String,
    columns: Vec<(String, String, String, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let columns = columns.into_iter().map(|(name, meaning, kind, values)| {
        let data = match kind.as_str() {
            "int" => Data::Int(values.extract()?),
            "float" => Data::Float(values.extract()?),
            "optional_float" => Data::OptionalFloat(values.extract()?),
            "text" => Data::Text(values.extract()?),
            "bool" => Data::Bool(values.extract()?),
            _ => return Err(PyValueError::new_err(format!("no kind of column: {kind}"))),
        };
        Ok(OwnedColumn { name, meaning, data })
    });
    let table = OwnedTable { name, meaning, columns: columns.collect::<PyResult<_>>()? };
    let bytes = detached(py, || syncline_results::table_to_parquet(&table))?;
    Ok(PyBytes::new(py, &bytes))
}

/// The columns of a table in a Parquet file of its own, as `(name, meaning, values)`.
#[pyfunction]
fn table_from_parquet<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Vec<PyColumn<'py>>> {
    let table = detached(py, || syncline_results::read_table_file(&path))?;
    table.columns.into_iter().map(|each| Ok((each.name, each.meaning, values(py, &each.data)?))).collect()
}
