//! The model `given`: uses only times that the workload gives.

use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::{Bytes, Flops};

/// The error for operations, which cannot be timed without an accelerator.
pub(crate) fn refuse(flop: Flops, memory: Bytes) -> Diagnostic {
    Diagnostic::error(
        Code::BadWorkload,
        "the workload gives operations instead of times, and no compute model converts them to time",
    )
    .key("compute")
    .found(format!("{flop} and {memory} of memory traffic, with compute model `given`"))
    .allowed("a compute model such as `roofline`")
    .help("name an accelerator: `compute: { model: roofline, accelerator: A100 }`")
}
