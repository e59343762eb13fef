//! Where a member is, and where it finds the others.

use mio::net::TcpListener;
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use syncline_protocol::settings::Settings;
use syncline_transport::congestion;
use syncline_transport::descriptors;
use syncline_transport::trust::Trust;

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
    /// Where rank 0 is found as coordinator, at one of these addresses. Rank 0 itself listens at all of them that it has; port 0
    /// is any that is free (of [`Place::ports`]) there.
    pub coordinator: Vec<SocketAddr>,
    /// Where this member listens: its interfaces, which lanes take in turn.
    pub interfaces: Vec<Interface>,
    /// Ports at which to listen, where others can reach no other: the first to the last. Any that is free, without.
    pub ports: Option<(u16, u16)>,
    /// How long to wait until all are there.
    pub wait: Duration,
    /// Whether to share memory with members on this machine: with those that listen at the same address, or that are as this
    /// one reached by loopback alone, that are of the same user and network namespace, and that want it, too. TCP elsewhere.
    pub shared_memory: bool,
    /// Whether each lane's thread has a CPU of its own, where the members on this machine leave each other enough: one more
    /// than it has lanes.
    pub pin: bool,
    /// Whether the job goes on in a new epoch where ranks are lost or come back (`Session::renew`).
    pub elastic: bool,
    /// The congestion control of connections between members (`cubic`, `reno`); the system's where it is absent.
    pub congestion: Option<String>,
}

/// An interface of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The address at which it listens, and from which it connects: all of the host's, where it is unspecified.
    pub listen: IpAddr,
    /// The address at which others find it.
    pub told: IpAddr,
}

impl From<IpAddr> for Interface {
    fn from(address: IpAddr) -> Self {
        Self { listen: address, told: address }
    }
}

/// Most lanes of a member.
const MOST_LANES: u32 = 1 << 12;

impl Place {
    /// That the place and the settings make sense, before anybody is called.
    pub fn check(&self, settings: Settings) -> Result<(), Absence> {
        let Settings { pace, patience, .. } = settings;
        let fault = |what: String| Err(Absence::nonsense(Absence::here(self.rank, &what).why));
        if self.rank >= self.world {
            return fault(format!("is none of {} ranks: they are 0 to one less", self.world));
        }
        if self.interfaces.is_empty() {
            return fault("has no interface to listen on".to_owned());
        }
        if self.coordinator.is_empty() {
            return fault("has no address at which the coordinator is found".to_owned());
        }
        if let Some((first, last)) = self.ports
            && (first == 0 || first > last)
        {
            return fault(format!("cannot listen at ports {first} to {last}: 1 to 65535 are ports"));
        }
        if self.coordinator.iter().any(|address| address.port() == 0) && self.rank != 0 {
            return fault(
                "cannot look for the coordinator at port 0: only rank 0 may take any port".to_owned(),
            );
        }
        let told = self.interfaces.iter().map(|interface| interface.told);
        if let Some(any) = told.clone().find(IpAddr::is_unspecified) {
            return fault(format!(
                "cannot tell others to find it at {any}, which is every address: name those that they reach it at"
            ));
        }
        if let Some(name) = &self.congestion
            && let Err(why) = congestion::check(name, SocketAddr::new(self.interfaces[0].listen, 0))
        {
            return fault(why);
        }
        if !(1..=MOST_LANES).contains(&pace.lanes) {
            let lanes = pace.lanes;
            return fault(format!("cannot have {lanes} as `lanes`: 1 to {MOST_LANES} are allowed"));
        }
        // Rank 0 is connected with all others as their coordinator, too.
        let connections = u64::from(self.world) * (u64::from(pace.lanes) + u64::from(self.rank == 0));
        if let Err(why) = descriptors::reserve(connections) {
            return fault(why);
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

    /// Listens on an address, at a port that this member may have; members of one host begin to look at different ones.
    ///
    /// # Errors
    /// A clause: why it cannot.
    pub fn listen(&self, address: IpAddr, turn: u32) -> Result<TcpListener, String> {
        let bind = |port| TcpListener::bind(SocketAddr::new(address, port));
        let Some((first, last)) = self.ports else { return bind(0).map_err(|error| error.to_string()) };
        let count = u32::from(last - first) + 1;
        let mut taken = None;
        for port in (0..count).map(|more| first + ((self.rank + turn + more) % count) as u16) {
            match bind(port) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse => taken = Some(error),
                Err(error) => return Err(error.to_string()),
            }
        }
        let error = taken.map_or(String::new(), |error| error.to_string());
        Err(format!("none of the ports {first} to {last} is free ({error}): give more of them"))
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
    /// A member is missing or was refused, for a reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), nonsense: false }
    }

    /// That what this member was told is invalid.
    pub fn nonsense(why: impl Into<String>) -> Self {
        Self { why: why.into(), nonsense: true }
    }

    /// That this rank cannot do something.
    pub fn here(rank: u32, what: &str) -> Self {
        Self::new(format!("rank {rank} {what}"))
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Absence {}
