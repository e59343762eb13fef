//! The model that invents nothing: only times that the workload states.

use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::{Bytes, Flops};

/// Why operations cannot be timed without an accelerator.
pub(crate) fn refuse(flop: Flops, memory: Bytes) -> Diagnostic {
    Diagnostic::error(
        Code::BadWorkload,
        "the workload gives operations, not times, and no compute model turns them into time",
    )
    .key("compute")
    .found(format!("{flop} and {memory} of memory traffic, with compute model `given`"))
    .allowed("a compute model such as `roofline`")
    .help("name an accelerator: `compute: { model: roofline, accelerator: A100 }`")
}
