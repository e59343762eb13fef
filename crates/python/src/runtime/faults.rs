//! Faults and errors of joins, as exceptions.

use crate::errors::to_python;
use pyo3::prelude::*;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_membership::join_error::JoinError;
use syncline_protocol::fault::{Fault, FaultKind};

/// Turns the error of a join into a diagnostic. `remedy` says what to do if the settings are valid.
pub(super) fn join_diagnostics(error: JoinError, remedy: &str) -> Diagnostics {
    if error.invalid {
        return Diagnostic::error(Code::BadValue, error.why).into();
    }
    Diagnostic::error(Code::NoMeeting, error.why).help(remedy).into()
}

/// Turns a fault into an exception.
pub(super) fn error(py: Python<'_>, fault: &Fault) -> PyErr {
    let remedy = match fault.trouble.kind {
        FaultKind::Changed => "wait for an operation before you write to its memory",
        FaultKind::Differs => "begin the same operations, of the same sizes, in the same order on all ranks",
        _ => "check the rank or link that is named, then join again, without that rank if it is gone",
    };
    let diagnostic = Diagnostic::error(Code::PeerFailed, fault.to_string());
    to_python(py, &diagnostic.kind(fault.trouble.kind.name()).help(remedy).into())
}
