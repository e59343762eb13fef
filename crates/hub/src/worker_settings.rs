//! The settings with which a worker joins a job on hubs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use syncline_protocol::heartbeat::Patience;
use syncline_transport::trust::Trust;

/// A worker's rank, its hubs, and how it connects to them.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The worker's rank.
    pub rank: u32,
    /// The job's name, the same for all workers.
    pub job: String,
    /// An address of each hub, in the same order for all workers. If the terms have racks, [`join`](super::join::join) takes the hubs of
    /// the worker's rack instead.
    pub hubs: Vec<SocketAddr>,
    /// Further addresses of a hub, by its address in `hubs` or in the racks. They are tried in turn with that one.
    pub alternate_addresses: BTreeMap<SocketAddr, Vec<SocketAddr>>,
    /// How worker and hubs authenticate each other.
    pub trust: Trust,
    /// How long to wait until all workers have joined.
    pub wait: Duration,
    /// The congestion control of connections (`cubic`, `reno`); the system's default if absent.
    pub congestion: Option<String>,
    /// Heartbeats: their interval, and how long a silent hub is waited for.
    pub patience: Patience,
    /// The deadline of an exchange.
    pub deadline: Duration,
}
