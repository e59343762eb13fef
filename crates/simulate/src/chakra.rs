//! Chakra execution traces as a workload.

use crate::jobs::Axis;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_workload::Workload;

pub(crate) fn workload(prefix: &str, _groups: Option<&str>, _axes: &[Axis]) -> Result<Workload> {
    Err(Diagnostic::error(Code::Unreadable, "Chakra traces are not read yet")
        .key("workload.chakra")
        .found(prefix)
        .into())
}
