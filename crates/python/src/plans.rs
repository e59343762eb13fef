//! Plans of one's own, proved.

use crate::errors::detached;
use pyo3::prelude::*;
use std::path::PathBuf;
use syncline_plan::custom::{Custom, PlanFile};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(prove_plan, module)?)?;
    module.add_function(wrap_pyfunction!(prove_plan_file, module)?)?;
    Ok(())
}

/// Proves that a plan, given as the JSON of a plan file, computes its collective.
#[pyfunction]
fn prove_plan(py: Python<'_>, plan: &str) -> PyResult<()> {
    detached(py, || Custom::new(&PlanFile::from_json(plan, "plan")?).map(|_| ()))
}

/// The JSON of a plan file, or of an MSCCL program, that was proved to compute its collective.
#[pyfunction]
fn prove_plan_file(py: Python<'_>, file: PathBuf) -> PyResult<String> {
    detached(py, || syncline_simulate::plan_file(&file.to_string_lossy()))
}
