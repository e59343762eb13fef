//! Proves a user's own plans and counts what the library's plans cost.

use crate::errors::detached;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use syncline_plan::by_name;
use syncline_plan::cost::count;
use syncline_plan::custom::{Custom, PlanFile};
use syncline_units::{Bytes, CollectiveKind};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(prove_plan, module)?)?;
    module.add_function(wrap_pyfunction!(prove_plan_file, module)?)?;
    module.add_function(wrap_pyfunction!(count_plan, module)?)?;
    Ok(())
}

/// Proves that a plan, given as the JSON of a plan file, computes its collective; fails otherwise.
#[pyfunction]
fn prove_plan(py: Python<'_>, plan: &str) -> PyResult<()> {
    detached(py, || Custom::new(&PlanFile::from_json(plan, "plan")?).map(|_| ()))
}

/// Reads a plan file or an MSCCL program, proves that it computes its collective, and returns the plan as JSON.
#[pyfunction]
fn prove_plan_file(py: Python<'_>, file: PathBuf) -> PyResult<String> {
    detached(py, || syncline_formats::plan_file::proved_json(&file.to_string_lossy()))
}

/// Counts, message by message, what a plan of the library costs: rounds, messages, bytes on the wire, bytes between
/// groups, and the bytes that each seat sends and receives. `groups` holds the group of each seat, ranks first.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a count as the tuple that Python gets")]
fn count_plan(
    py: Python<'_>,
    algorithm: &str,
    kind: &str,
    ranks: u32,
    nbytes: u64,
    groups: Vec<u32>,
) -> PyResult<(u32, u64, u64, u64, Vec<u64>, Vec<u64>)> {
    let kind: CollectiveKind =
        kind.parse().map_err(|_| PyValueError::new_err(format!("there is no collective `{kind}`")))?;
    let plan = detached(py, || by_name(algorithm))?;
    detached(py, || syncline_plan::registry::check(&*plan, kind, ranks))?;
    let seats = plan.seats(ranks) as usize;
    if groups.len() != seats {
        let message = format!("the plan has {seats} seats, but `groups` has {} entries", groups.len());
        return Err(PyValueError::new_err(message));
    }
    let found = detached(py, || count(&*plan, kind, ranks, Bytes(nbytes), |seat| groups[seat as usize]))?;
    let plain = |bytes: Vec<Bytes>| bytes.into_iter().map(|each| each.0).collect();
    Ok((found.rounds, found.messages, found.wire.0, found.across.0, plain(found.sent), plain(found.received)))
}
