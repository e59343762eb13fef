//! The way to the hubs of other racks.

use mio::Waker;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use syncline_protocol::handshake::Role;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::socket::Socket;
use syncline_transport::trust::Trust;

/// A connection with a core of another rack, or why there is none: the job, the rack and the core.
pub(super) type Crossed = (u32, u32, u32, Result<Socket, String>);

/// How long hubs of racks look for each other.
const CROSSING: Duration = Duration::from_secs(60);

/// Somebody who goes to the hubs of lower racks.
pub(super) struct RackConnection {
    pub(super) name: String,
    pub(super) rack: u32,
    /// Racks, their addresses, and cores.
    pub(super) ways: Vec<(u32, SocketAddr, u32)>,
    pub(super) trust: Trust,
    /// Whether the job is over, or the hub has ended.
    pub(super) over: Arc<AtomicBool>,
    pub(super) made: Sender<Crossed>,
    pub(super) waker: Arc<Waker>,
}

impl RackConnection {
    /// Goes there, again and again until it is let in or its time is up.
    pub(super) fn run(self, job: u32) {
        let deadline = Instant::now() + CROSSING;
        let mut stop = || match self.over.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err("the job is over".to_owned()),
        };
        for &(rack, address, core) in &self.ways {
            let role = Role::Rack { rack: self.rack, core };
            let made = loop {
                let trust = (&self.trust, self.name.as_str());
                let reached = Handshaking::reach(&[address], trust, &role, deadline, &mut stop)
                    .map_err(|shut| shut.why);
                // The job may not have begun there yet.
                if reached.is_ok() || Instant::now() > deadline || stop().is_err() {
                    break reached;
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            let failed = made.is_err();
            // Nobody listens where the hub has ended.
            if self.made.send((job, rack, core, made)).is_ok() {
                _ = self.waker.wake();
            }
            if failed {
                return;
            }
        }
    }
}
