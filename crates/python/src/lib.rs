//! `syncline._core`: the simulator as a Python module. It converts and forwards; it holds no logic.
//!
//! - [`errors`]: turns diagnostics and panics into `syncline.SynclineError`;
//! - [`units`]: parses and formats quantities with the grammar of `syncline-units`;
//! - [`yaml`]: YAML documents as events with line and column;
//! - [`explain`]: renders diagnostics, lists and explains codes;
//! - [`simulate`]: `simulate`, `check`, `show` on a resolved scenario;
//! - [`design`]: searches for a better cluster, and for strategy and topology together;
//! - [`rank_order`]: the search for a cheap order of ranks;
//! - [`nccl`]: times of NCCL's collectives, and the constants of machines;
//! - [`estimate`]: estimates of training steps;
//! - [`kernels`]: models of single kernels;
//! - [`watch`]: runs long work without the interpreter lock, with progress and Ctrl-C;
//! - [`plans`]: proves a user's own plans;
//! - [`run`]: the Python class `Run`, the result of a run;
//! - [`results`]: reads run folders;
//! - [`astra`]: ASTRA-sim 2's simulators;
//! - [`convert`]: conversion between plans and MSCCL's XML, and to Chakra traces;
//! - [`runtime`]: real collectives between processes; [`trace`]: traces of them.
//!
//! `python/syncline/_core.pyi` declares the same functions for type checkers; a test compares it with this module.

mod astra;
mod convert;
mod design;
mod errors;
mod estimate;
mod explain;
mod kernels;
mod nccl;
mod plans;
mod rank_order;
mod results;
mod run;
mod runtime;
mod simulate;
mod trace;
mod units;
mod watch;
mod yaml;

use pyo3::prelude::*;

/// The Rust core of syncline.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::keep_panics_quiet();
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(errors::_panic, module)?)?;
    units::register(module)?;
    yaml::register(module)?;
    explain::register(module)?;
    simulate::register(module)?;
    design::register(module)?;
    plans::register(module)?;
    rank_order::register(module)?;
    nccl::register(module)?;
    estimate::register(module)?;
    kernels::register(module)?;
    results::register(module)?;
    astra::register(module)?;
    convert::register(module)?;
    module.add_class::<run::Run>()?;
    module.add_class::<runtime::communicator::Communicator>()?;
    module.add_class::<runtime::memory::Memory>()?;
    module.add_class::<runtime::pending::Pending>()?;
    module.add_class::<runtime::hub::Hub>()?;
    module.add_class::<runtime::hub::HubService>()?;
    module.add_function(wrap_pyfunction!(runtime::hub::hub_save, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::hub::hub_status, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::hub::two_levels, module)?)?;
    module.add_class::<runtime::certificates::Certificates>()?;
    module.add_function(wrap_pyfunction!(runtime::certificates::certificate_date, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::certificates::make_certificates, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::memory::element_names, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::forked, module)?)?;
    module.add_function(wrap_pyfunction!(trace::measured_trace, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::completions::next_completion, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::completions::stop_completions, module)?)?;
    Ok(())
}

/// The core's version, which equals the package's version.
#[pyfunction]
const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
