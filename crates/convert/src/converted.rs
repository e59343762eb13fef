//! What a conversion reports.

use std::path::PathBuf;
use syncline_diagnostics::Diagnostics;

/// Result of a conversion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// Ranks of the job.
    pub ranks: u32,
    /// Nodes of all traces.
    pub nodes: u64,
    /// Communicator groups.
    pub groups: u32,
    /// Every file that was written.
    pub files: Vec<PathBuf>,
    /// Differences between input and output.
    pub warnings: Diagnostics,
}
