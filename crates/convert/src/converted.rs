//! What a conversion reports.

use std::path::PathBuf;
use syncline_diagnostics::Diagnostics;

/// Result of a conversion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// The form of the input, in words.
    pub from: String,
    /// The form of the output, in words.
    pub to: String,
    /// Ranks of the job or collective.
    pub ranks: u32,
    /// Nodes of all traces, or instructions of the plan.
    pub nodes: u64,
    /// Communicator groups.
    pub groups: u32,
    /// Every file that was written.
    pub files: Vec<PathBuf>,
    /// Differences between input and output.
    pub warnings: Diagnostics,
}
