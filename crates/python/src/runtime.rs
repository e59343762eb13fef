//! The runtime, for Python: communicators and parameter hubs that work on memory of Python objects.
//!
//! - [`arguments`]: reads and checks arguments;
//! - [`certificates`]: keys and certificates by which members of a job authenticate each other;
//! - [`communicator`]: communicators, which run collectives and transfers between ranks;
//! - [`completions`]: the queue of finished operations, whose callbacks Python runs;
//! - [`faults`]: faults and errors of joins, as exceptions;
//! - [`hub`]: parameter hubs, and workers that join jobs on them;
//! - [`memory`]: memory of Python objects, and what keeps it valid;
//! - [`operations`]: operations under way, and the memory that they use;
//! - [`pending`]: handles to operations under way;
//! - [`raised`]: signals and exceptions that Python raises while Rust waits.

mod arguments;
pub(crate) mod certificates;
pub(crate) mod communicator;
pub(crate) mod completions;
mod faults;
pub(crate) mod hub;
pub(crate) mod memory;
mod operations;
pub(crate) mod pending;
mod raised;

use pyo3::prelude::*;

/// Closes this process's copies of its parent's connections. `syncline.runtime.at_exit` calls it in a forked child, right
/// after the fork. In other processes it does nothing.
#[pyfunction]
#[allow(unsafe_code)]
pub(crate) fn forked() {
    // SAFETY: Python objects hold what the runtime made before the fork in `Own`, which neither uses nor drops it in a
    // child. Everything else is on the stacks of threads that the child does not have, or on the stack of a call that
    // waits, such as a join. A child never returns there: `raised::in_this_process` ends it.
    unsafe { syncline_transport::forks::close_inherited_sockets() }
}
