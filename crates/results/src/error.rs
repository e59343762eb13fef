//! The sentences in which files are refused.

use std::fmt::Display;
use std::io;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, reason};

/// Results cannot be written to `path`.
pub(crate) fn cannot_write(path: &Path, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::CannotWrite, message).at(path.display().to_string(), 0)
}

/// The operating system refused an operation on the way to results in `path`.
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

/// `path` is not what it should be.
pub(crate) fn bad_results(path: &Path, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::BadResults, message).at(path.display().to_string(), 0)
}

/// `path` cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error(Code::Unreadable, "the file cannot be read")
        .at(path.display().to_string(), 0)
        .found(reason(error))
}

/// Something that the caller has to prevent happened.
pub(crate) fn internal(what: &str, error: impl Display) -> Diagnostics {
    Diagnostic::error(Code::Internal, format!("{what} cannot be stored")).found(error.to_string()).into()
}
