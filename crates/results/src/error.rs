//! Errors about files.

use std::fmt::Display;
use std::io;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, reason};

/// The error for results that cannot be written to `path`.
pub(crate) fn cannot_write(path: &Path, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::CannotWrite, message).at(path.display().to_string(), 0)
}

/// The error for a system call that failed while results were written to `path`.
pub(crate) fn write_failed(path: &Path, error: &io::Error) -> Diagnostic {
    let diagnostic = cannot_write(path, "the results cannot be written").found(reason(error));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            diagnostic.help("free some space, or choose a folder on another disk")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            diagnostic.help("choose a folder in which you may create files")
        }
        _ => diagnostic,
    }
}

/// The error for a file or folder `path` with wrong content.
pub(crate) fn bad_results(path: &Path, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::BadResults, message).at(path.display().to_string(), 0)
}

/// The error for a file or folder `path` that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error(Code::Unreadable, "the file cannot be read")
        .at(path.display().to_string(), 0)
        .found(reason(error))
}

/// The error for data that cannot be stored, which the caller should have prevented.
pub(crate) fn internal(what: &str, error: impl Display) -> Diagnostics {
    Diagnostic::error(Code::Internal, format!("{what} cannot be stored")).found(error.to_string()).into()
}
