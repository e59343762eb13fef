//! Third-party data, which is not part of the repository.

use std::io::Write;
use std::path::{Path, PathBuf};

/// This folder of the shared data. If it is missing, returns `None` and prints which test was skipped.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SYNCLINE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    if root.join(folder).is_dir() {
        return Some(root.join(folder));
    }
    // If any shared data exists, all of it must.
    assert!(!root.is_dir(), "{} has no {folder}", root.display());
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Write directly to the terminal, because the test harness hides the output of tests that pass.
    let _ =
        writeln!(std::io::stderr(), "skipped: {test}: there is no {}; set SYNCLINE_SHARED", root.display());
    None
}
