//! Why a member could not join a job.

use std::fmt;

/// Why a member could not join the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinError {
    /// A sentence that says which rank is missing or was refused, and why.
    pub why: String,
    /// Whether this member's settings are invalid, so it made no connection.
    pub invalid: bool,
}

impl JoinError {
    /// An error for a rank that is missing or was refused.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), invalid: false }
    }

    /// An error for invalid settings.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self { why: why.into(), invalid: true }
    }

    /// An error about this rank. `what` is a clause about it.
    pub fn about_rank(rank: u32, what: &str) -> Self {
        Self::new(format!("rank {rank} {what}"))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for JoinError {}
