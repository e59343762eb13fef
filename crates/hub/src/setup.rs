//! The setup of a hub, and why a hub cannot be opened.

use super::optimizer::Optimizers;
use super::register::Limits;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use syncline_protocol::heartbeat::Patience;
use syncline_transport::trust::Trust;

/// The setup of a hub.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The addresses where it listens, one per interface. Port 0 chooses a free port.
    pub interfaces: Vec<SocketAddr>,
    /// The number of threads that sum. Workers reach core `c` through interface `c mod interfaces`.
    pub cores: u32,
    /// Whether to pin each of these threads to its own CPU, for a host that does nothing else.
    pub pin: bool,
    /// How hub and workers authenticate each other.
    pub trust: Trust,
    /// Heartbeats: their interval, and how long a silent worker is waited for.
    pub patience: Patience,
    /// The limits on jobs and memory.
    pub limits: Limits,
    /// The optimizers that jobs may choose.
    pub optimizers: Optimizers,
    /// The congestion control of connections (`cubic`, `reno`); the system's default if absent.
    pub congestion: Option<String>,
    /// Where jobs are saved, if they are.
    pub saves: Option<SaveSettings>,
}

/// Where and how often a hub saves its jobs.
#[derive(Clone, Debug)]
pub struct SaveSettings {
    /// The folder. Only one hub may use it.
    pub folder: PathBuf,
    /// How often; `None` if only when a user asks.
    pub every: Option<Duration>,
}

/// Why a hub cannot be opened. Its text is a clause with the hub as subject.
#[derive(Debug)]
pub enum OpenError {
    /// Another process uses an address.
    AddressInUse {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The folder of saves cannot be used, as a clause.
    Saves(String),
    /// Anything else, as a clause: an invalid setup, an address that this host does not have, a lack of threads.
    Other(String),
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Saves(why) | Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OpenError {}
