//! A member's settings: its rank, its addresses and the coordinator's.

use crate::join_error::JoinError;
use mio::net::TcpListener;
use socket2::SockRef;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use syncline_protocol::settings::Settings;
use syncline_transport::congestion;
use syncline_transport::descriptors;
use syncline_transport::trust::Trust;

/// A member's settings: its rank, its addresses and the coordinator's.
#[derive(Clone, Debug)]
pub struct MemberSettings {
    /// The rank of this member.
    pub rank: u32,
    /// The number of ranks of the job.
    pub world: u32,
    /// The job's name, the same on all ranks.
    pub job: String,
    /// How members authenticate each other.
    pub trust: Trust,
    /// The coordinator's addresses: the member tries one after the other. Rank 0 listens on all of them that its host
    /// has. There, port 0 means any free port (of [`MemberSettings::ports`]).
    pub coordinator: Vec<SocketAddr>,
    /// The rank that coordinates there: 0, or in a running elastic job the rank that has taken over.
    pub coordinator_rank: u32,
    /// The interfaces on which this member listens. Lanes use them in turn.
    pub interfaces: Vec<Interface>,
    /// The ports on which to listen, if a firewall admits no others. `None` means any free port.
    pub ports: Option<PortRange>,
    /// How long to wait for all ranks to join.
    pub wait: Duration,
    /// Whether to share memory with members on this machine. It is shared with a member that wants it too, that
    /// belongs to the same user and network namespace, and that listens at the same address, or at a loopback address
    /// as this member does. Other members are reached over TCP.
    pub shared_memory: bool,
    /// Whether each lane's thread gets a CPU of its own. This needs enough CPUs for all members on this machine: for
    /// each, one more than it has lanes.
    pub pin: bool,
    /// The most ranks of an epoch in which every two are connected before it begins, usually [`MESH`]. In an epoch of
    /// more ranks, connections are made when they are first needed. The same on all ranks.
    pub mesh: u32,
    /// Whether the job goes on in a new epoch if ranks are lost or come back (`Session::renew`).
    pub elastic: bool,
    /// The congestion control of connections between members (`cubic`, `reno`). `None` means the system's default.
    pub congestion: Option<String>,
}

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

/// An interface of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The address on which the member listens and from which it connects. If unspecified, it listens on all
    /// addresses of the host.
    pub listen: IpAddr,
    /// The address to which others connect.
    pub advertised: IpAddr,
}

impl From<IpAddr> for Interface {
    fn from(address: IpAddr) -> Self {
        Self { listen: address, advertised: address }
    }
}

/// The most ranks of an epoch in which every two are connected before it begins.
pub const MESH: u32 = 32;

/// The most connections that may wait to be accepted. The system may allow fewer.
const WAITING: i32 = 4096;

/// The most lanes of a member.
const MAX_LANES: u32 = 1 << 12;

impl MemberSettings {
    /// Checks these settings and those of the job, before any connection is made.
    pub fn check(&self, settings: Settings) -> Result<(), JoinError> {
        let Settings { flow, patience, .. } = settings;
        let fault = |what: String| Err(JoinError::invalid(JoinError::about_rank(self.rank, &what).why));
        if self.rank >= self.world {
            return fault(format!("does not exist: the job has {} ranks, numbered from 0", self.world));
        }
        if self.interfaces.is_empty() {
            return fault("has no interface to listen on: set SYNCLINE_ADDRESSES".to_owned());
        }
        if self.coordinator.is_empty() {
            return fault("has no coordinator address: set MASTER_ADDR".to_owned());
        }
        if let Some(PortRange { first, last }) = self.ports
            && (first == 0 || first > last)
        {
            return fault(format!(
                "cannot listen on ports {first} to {last}: give the lowest port, which is at least 1, then the highest"
            ));
        }
        if self.coordinator.iter().any(|address| address.port() == 0) && self.rank != self.coordinator_rank {
            return fault(
                "cannot connect to the coordinator at port 0: give the port on which rank 0 listens"
                    .to_owned(),
            );
        }
        let advertised = self.interfaces.iter().map(|interface| interface.advertised);
        if let Some(any) = advertised.clone().find(IpAddr::is_unspecified) {
            return fault(format!(
                "cannot tell others to connect to {any}, which stands for every address: \
                 give the addresses at which others reach this host"
            ));
        }
        if let Some(name) = &self.congestion
            && let Err(why) = congestion::check(name, SocketAddr::new(self.interfaces[0].listen, 0))
        {
            return fault(why);
        }
        if !(1..=MAX_LANES).contains(&flow.lanes) {
            let lanes = flow.lanes;
            return Err(JoinError::invalid(format!("`lanes` is {lanes}: it must be 1 to {MAX_LANES}")));
        }
        // A coordinator also has a connection to each other rank.
        let coordinates = self.rank == self.coordinator_rank || self.elastic;
        let connections = u64::from(self.world) * (u64::from(flow.lanes) + u64::from(coordinates));
        if let Err(why) = descriptors::reserve(connections) {
            return fault(why);
        }
        if flow.window == 0 {
            return Err(JoinError::invalid("`window` is 0: it must be at least 1 byte"));
        }
        if patience.silence < 2 * patience.interval {
            let (silence, interval) = (patience.silence.as_secs_f64(), patience.interval.as_secs_f64());
            return fault(format!(
                "would declare others dead after {silence} s of silence, but each sends a heartbeat only every \
                 {interval} s: allow for at least two heartbeats"
            ));
        }
        Ok(())
    }

    /// Listens on an address, on a free port of [`MemberSettings::ports`]. Members on one host, and calls with different
    /// `turn`s, try the ports in different orders.
    ///
    /// # Errors
    /// A clause: why the member cannot listen.
    pub fn listen(&self, address: IpAddr, turn: u32) -> Result<TcpListener, String> {
        // All other ranks may connect at the same time. A connection for which there is no room would be made a second
        // later.
        let bind = |port| {
            let listener = TcpListener::bind(SocketAddr::new(address, port))?;
            SockRef::from(&listener).listen(WAITING)?;
            Ok::<_, std::io::Error>(listener)
        };
        let Some(PortRange { first, last }) = self.ports else {
            return bind(0).map_err(|error| error.to_string());
        };
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
        Err(format!("none of the ports {first} to {last} is free ({error}): allow more ports"))
    }
}
