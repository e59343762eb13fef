//! The content of a run folder, and the result of writing it.

use crate::manifest::FileEntry;
use crate::trace::DEFAULT_TRACE_BYTES;
use std::path::PathBuf;
use syncline_diagnostics::Diagnostics;
use syncline_timeline::Timeline;

/// The content of a run folder.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The results of the run.
    pub timeline: &'a Timeline,
    /// The scenario with every default filled in, so that the run can be repeated from the folder alone.
    pub scenario_yaml: &'a str,
    /// The version of the tool.
    pub version: &'a str,
    /// The seed of the run.
    pub seed: u64,
    /// The warnings that the user got. They are stored with file names only, without folders.
    pub warnings: &'a Diagnostics,
    /// The largest size of the trace. Spans beyond it are left out, and the trace says so.
    pub max_trace_bytes: u64,
    /// Further files by name, such as `report.html`.
    pub extra: &'a [(&'a str, &'a [u8])],
}

impl<'a> Run<'a> {
    /// A run with the default trace size, no warnings and no further files.
    pub const fn new(timeline: &'a Timeline, scenario_yaml: &'a str, version: &'a str, seed: u64) -> Self {
        const NONE: &Diagnostics = &Diagnostics::new();
        let max_trace_bytes = DEFAULT_TRACE_BYTES;
        Self { timeline, scenario_yaml, version, seed, warnings: NONE, max_trace_bytes, extra: &[] }
    }
}

/// The result of [`crate::write()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The folder, as the caller named it.
    pub folder: PathBuf,
    /// Every file in it, the manifest last.
    pub files: Vec<FileEntry>,
    /// Spans that the trace does not show, because of its size or because they were never recorded.
    pub spans_left_out: u64,
    /// The folder with the previous results, if it could be renamed but not deleted.
    pub leftover: Option<PathBuf>,
}
