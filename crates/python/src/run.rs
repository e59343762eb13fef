//! The Python class `Run`: the result of a run.

use crate::errors::{detached, internal};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::path::PathBuf;
use syncline_results::Written;
use syncline_timeline::{Data, Outline};

/// A finished run: summary, tables, warnings.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Run {
    inner: syncline_simulate::Run,
    interrupted: bool,
}

impl Run {
    pub(crate) const fn new(inner: syncline_simulate::Run, interrupted: bool) -> Self {
        Self { inner, interrupted }
    }
}

/// A column as `(name, meaning, values)`.
pub(crate) type PyColumn<'py> = (String, String, Bound<'py, PyList>);

#[pymethods]
impl Run {
    /// Whether Ctrl-C stopped the run.
    #[getter]
    const fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The summary, as a JSON object.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || syncline_results::summary_to_json(&self.inner.timeline.summary))
    }

    /// Warnings, as a JSON array.
    fn diagnostics(&self) -> String {
        self.inner.diagnostics.to_json()
    }

    /// The tables, as `(name, what a row is)`.
    fn tables(&self) -> Vec<(&'static str, &'static str)> {
        self.inner.timeline.tables.iter().map(|table| (table.name, table.meaning)).collect()
    }

    /// The columns of a table, as `(name, meaning, values)`.
    fn table<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<PyColumn<'py>>> {
        let table = self.inner.timeline.table(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let columns = table.columns.iter();
        columns
            .map(|each| Ok((each.name.to_owned(), each.meaning.to_owned(), values(py, &each.data)?)))
            .collect()
    }

    /// What each traced rank did when: at most the first `most` blocks, as a JSON object of columns.
    fn outline(&self, py: Python<'_>, most: usize) -> PyResult<String> {
        detached(py, || {
            let outline = Outline::new(&self.inner.timeline.spans, most);
            serde_json::to_string(&outline).map_err(|error| internal(error.to_string()).into())
        })
    }

    /// Writes the run's folder and returns the names and sizes of its files.
    #[pyo3(signature = (folder, scenario_yaml, seed, *, extra = Vec::new()))]
    fn write(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        scenario_yaml: &str,
        seed: u64,
        extra: Vec<(String, Vec<u8>)>,
    ) -> PyResult<Vec<(String, u64)>> {
        let extra: Vec<(&str, &[u8])> =
            extra.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let run = syncline_results::Run {
            warnings: &self.inner.diagnostics,
            extra: &extra,
            ..syncline_results::Run::new(&self.inner.timeline, scenario_yaml, env!("CARGO_PKG_VERSION"), seed)
        };
        let Written { files, .. } = detached(py, || syncline_results::write(&folder, &run))?;
        Ok(files.into_iter().map(|file| (file.name, file.bytes)).collect())
    }
}

/// The values of a column as a list.
pub(crate) fn values<'py>(py: Python<'py>, data: &Data) -> PyResult<Bound<'py, PyList>> {
    match data {
        Data::Int(all) => PyList::new(py, all),
        Data::Float(all) => PyList::new(py, all),
        Data::OptionalFloat(all) => PyList::new(py, all),
        Data::Text(all) => PyList::new(py, all),
        Data::Bool(all) => PyList::new(py, all),
    }
}
