//! How processes of a job authenticate each other.

use crate::certificates::Identity;
use syncline_protocol::handshake::{Authentication, Key};

/// How processes of a job authenticate each other.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Not at all. For one machine, or a network on which every host is trusted.
    Everybody,
    /// By a shared key.
    Key(Key),
    /// By certificates of the job's CA, on TLS connections.
    Tls(Identity),
}

impl Trust {
    /// How the handshake on a connection authenticates the two sides.
    pub fn authentication(&self) -> Authentication {
        match self {
            Self::Everybody => Authentication::None,
            Self::Key(key) => Authentication::Key(key.clone()),
            Self::Tls(_) => Authentication::Tls,
        }
    }
}
