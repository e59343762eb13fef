//! Plans from and to MSCCL's XML.

use crate::errors::{detached, internal};
use pyo3::prelude::*;
use std::path::PathBuf;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::msccl;
use syncline_plan::custom::PlanFile;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(msccl_to_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan_to_msccl, module)?)?;
    Ok(())
}

/// An MSCCL program as a plan, in JSON. It is proved.
#[pyfunction]
fn msccl_to_plan(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    detached(py, || {
        let plan = msccl::read(&path)?;
        serde_json::to_string_pretty(&plan).map_err(|error| internal(error.to_string()).into())
    })
}

/// A plan, read from a JSON file, as an MSCCL program.
#[pyfunction]
fn plan_to_msccl(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    detached(py, || {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Diagnostic::error(Code::Unreadable, "the plan cannot be read")
                .at(name.as_str(), 0)
                .found(error.to_string())
        })?;
        msccl::write(&PlanFile::from_json(&text, &name)?)
    })
}
