//! Data of others, which is not part of the repository.

use std::io::Write;
use std::path::{Path, PathBuf};

/// This folder of the shared data. Where it is not at hand: nothing, and the terminal says which test was skipped for it.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SYNCLINE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    if root.join(folder).is_dir() {
        return Some(root.join(folder));
    }
    // Where there is shared data, all of it is.
    assert!(!root.is_dir(), "{} has no {folder}", root.display());
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Straight to the terminal: what a test that passes prints is not shown.
    let _ =
        writeln!(std::io::stderr(), "skipped: {test}: there is no {}; set SYNCLINE_SHARED", root.display());
    None
}
