//! Connects the cores of a hub to the hubs of other racks.

use mio::Waker;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use syncline_protocol::handshake::Role;
use syncline_transport::handshaking::{Handshaking, Identification};
use syncline_transport::socket::Socket;
use syncline_transport::trust::Trust;

/// The connection of a core to the same core of another rack, or why there is none.
pub(super) struct RackSocket {
    pub(super) job: u32,
    pub(super) rack: u32,
    pub(super) core: u32,
    pub(super) socket: Result<Socket, String>,
}

/// How long to try to connect to other racks.
const CONNECTING: Duration = Duration::from_secs(60);

/// A connection to a core of the hub in another rack.
#[derive(Clone, Copy, Debug)]
pub(super) struct RackTarget {
    pub(super) rack: u32,
    /// The address of the rack's hub.
    pub(super) address: SocketAddr,
    pub(super) core: u32,
}

/// Connects the cores of a job to the same cores of the hubs of lower racks.
pub(super) struct RackConnector {
    /// The job's name.
    pub(super) name: String,
    /// The rack of this hub.
    pub(super) rack: u32,
    /// The connections to make.
    pub(super) targets: Vec<RackTarget>,
    pub(super) trust: Trust,
    /// Whether the job is over, or the hub has ended.
    pub(super) over: Arc<AtomicBool>,
    pub(super) sockets: Sender<RackSocket>,
    /// Wakes the admission thread after a connection.
    pub(super) waker: Arc<Waker>,
}

impl RackConnector {
    /// Makes one connection after the other, and retries each until it is admitted or time is up.
    pub(super) fn run(self, job: u32) {
        let deadline = Instant::now() + CONNECTING;
        let mut stop = || match self.over.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err("the job is over".to_owned()),
        };
        for &RackTarget { rack, address, core } in &self.targets {
            let role = Role::Rack { rack: self.rack, core };
            let socket = loop {
                let own = Identification { trust: &self.trust, job: &self.name };
                let reached =
                    Handshaking::reach(&[address], own, &role, deadline, &mut stop).map_err(|shut| shut.why);
                // Retry: the job may not have begun there yet.
                if reached.is_ok() || Instant::now() > deadline || stop().is_err() {
                    break reached;
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            let failed = socket.is_err();
            // Sending fails if the hub has ended.
            if self.sockets.send(RackSocket { job, rack, core, socket }).is_ok() {
                _ = self.waker.wake();
            }
            if failed {
                return;
            }
        }
    }
}
