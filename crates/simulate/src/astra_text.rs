//! ASTRA-sim 1 text workloads.

use crate::jobs::Axis;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_workload::Workload;

pub(crate) fn workload(file: &str, _iterations: u32, _axes: &[Axis]) -> Result<Workload> {
    Err(Diagnostic::error(Code::Unreadable, "text workloads are not read yet")
        .key("workload.file")
        .found(file)
        .into())
}
