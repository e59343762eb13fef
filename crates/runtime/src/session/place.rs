//! Where a member is, and where it finds the others.

use crate::handshake::Trust;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Where a member is, and where it finds the others.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which member it is.
    pub rank: u32,
    /// How many there are.
    pub world: u32,
    /// The job's name, the same for all.
    pub job: String,
    /// How members know each other.
    pub trust: Trust,
    /// Where rank 0 listens as coordinator.
    pub coordinator: SocketAddr,
    /// Where this member listens: an address of each interface. Lanes take them in turn.
    pub interfaces: Vec<IpAddr>,
    /// How long to wait until all are there.
    pub wait: Duration,
    /// The congestion control of connections between members (`cubic`, `reno`); the system's where it is absent.
    pub congestion: Option<String>,
}

/// Why members did not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// A sentence that says who is missing or was refused, and why.
    pub why: String,
}

impl Absence {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }

    /// That this rank cannot do something.
    pub(crate) fn here(rank: u32, what: &str) -> Self {
        Self::new(format!("rank {rank} {what}"))
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Absence {}
