//! Converts plans from and to MSCCL's XML, and workloads to Chakra traces.

use crate::errors::{detached, internal};
use pyo3::prelude::*;
use std::path::PathBuf;
use syncline_convert::Options;
use syncline_formats::msccl;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(msccl_to_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan_to_msccl, module)?)?;
    module.add_function(wrap_pyfunction!(to_chakra, module)?)?;
    Ok(())
}

/// Reads an MSCCL program and proves it. Returns the plan as JSON, and warnings as a JSON array.
#[pyfunction]
fn msccl_to_plan(py: Python<'_>, path: PathBuf) -> PyResult<(String, String)> {
    detached(py, || {
        let (plan, warnings) = msccl::read(&path)?;
        let text = serde_json::to_string_pretty(&plan).map_err(|error| internal(error.to_string()))?;
        Ok((text, warnings.to_json()))
    })
}

/// Reads a plan from a JSON file and returns it as an MSCCL program.
#[pyfunction]
fn plan_to_msccl(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    detached(py, || syncline_formats::plan_file::to_msccl(&path))
}

/// Writes the workload of a resolved scenario (`.json`) or of an ASTRA-sim 1 text (`.txt`) as one Chakra trace per
/// rank, `<prefix>.<rank>.et`.
///
/// Returns the names of the files, and warnings as a JSON array.
#[pyfunction]
#[pyo3(signature = (input, prefix, dims = Vec::new(), iterations = 1))]
fn to_chakra(
    py: Python<'_>,
    input: PathBuf,
    prefix: PathBuf,
    dims: Vec<u32>,
    iterations: u32,
) -> PyResult<(Vec<String>, String)> {
    let options = Options { dims, iterations };
    let done = detached(py, || syncline_convert::to_chakra(&input, &prefix, &options))?;
    let files = done.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    Ok((files, done.warnings.to_json()))
}
