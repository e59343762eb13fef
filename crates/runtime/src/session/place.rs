//! Where a member is, and where it finds the others.

use crate::executor::Settings;
use crate::handshake::Trust;
use crate::transport::congestion;
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
    /// Where rank 0 listens as coordinator. For rank 0 itself port 0 is any that is free.
    pub coordinator: SocketAddr,
    /// Where this member listens: an address of each interface. Lanes take them in turn.
    pub interfaces: Vec<IpAddr>,
    /// How long to wait until all are there.
    pub wait: Duration,
    /// Whether to share memory with members on this machine: with those that listen at the same address, or that are as this
    /// one reached by loopback alone, that are of the same user and network namespace, and that want it, too. TCP elsewhere.
    pub shared_memory: bool,
    /// Whether each lane's thread has a CPU of its own, where the members on this machine leave each other enough: one more
    /// than it has lanes.
    pub pin: bool,
    /// Whether the job goes on in a new epoch where ranks are lost or come back ([`super::Session::renew`]).
    pub elastic: bool,
    /// The congestion control of connections between members (`cubic`, `reno`); the system's where it is absent.
    pub congestion: Option<String>,
}

/// Most lanes of a member.
const MOST_LANES: u32 = 1 << 12;

impl Place {
    /// That the place and the settings make sense, before anybody is called.
    pub(crate) fn check(&self, settings: Settings) -> Result<(), Absence> {
        let Settings { pace, patience, .. } = settings;
        let fault = |what: String| Err(Absence::nonsense(Absence::here(self.rank, &what).why));
        if self.rank >= self.world {
            return fault(format!("is none of {} ranks: they are 0 to one less", self.world));
        }
        if self.interfaces.is_empty() {
            return fault("has no interface to listen on".to_owned());
        }
        if self.coordinator.port() == 0 && self.rank != 0 {
            return fault(
                "cannot look for the coordinator at port 0: only rank 0 may take any port".to_owned(),
            );
        }
        if let Some(any) = self.interfaces.iter().find(|address| address.is_unspecified()) {
            return fault(format!(
                "cannot tell others to find it at {any}, which is every address: name those that they reach it at"
            ));
        }
        if let Some(name) = &self.congestion
            && let Err(why) = congestion::check(name, SocketAddr::new(self.interfaces[0], 0))
        {
            return fault(why);
        }
        if !(1..=MOST_LANES).contains(&pace.lanes) {
            let lanes = pace.lanes;
            return fault(format!("cannot have {lanes} as `lanes`: 1 to {MOST_LANES} are allowed"));
        }
        if pace.window == 0 {
            return fault("cannot have 0 as `window`: a byte is the least".to_owned());
        }
        if patience.silence < 2 * patience.interval {
            let (silence, interval) = (patience.silence.as_secs_f64(), patience.interval.as_secs_f64());
            return fault(format!(
                "would take others for dead after {silence} s, and they show that they live every {interval} s: wait for two"
            ));
        }
        Ok(())
    }
}

/// Why members did not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// A sentence that says who is missing or was refused, and why.
    pub why: String,
    /// Whether what this member was told is invalid, so that nobody was called.
    pub nonsense: bool,
}

impl Absence {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), nonsense: false }
    }

    /// That what this member was told is invalid.
    pub(crate) fn nonsense(why: impl Into<String>) -> Self {
        Self { why: why.into(), nonsense: true }
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
