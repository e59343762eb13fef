//! How a hub is, and how to ask one that is elsewhere.

use super::shard::Counters;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use syncline_protocol::handshake::{Role, Shut};
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::trust::Trust;

/// How a hub is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Seconds since it began.
    pub uptime_s: u64,
    /// Threads that sum.
    pub cores: u32,
    /// Bytes of memory that its jobs may take together.
    #[serde(default)]
    pub memory: u64,
    /// Where it listens.
    pub interfaces: Vec<SocketAddr>,
    /// Whether it takes no new jobs, and ends once there are none.
    pub draining: bool,
    /// Connections that were refused, or broke off before they were known.
    pub refused: u64,
    /// Workers that were lost.
    pub lost: u64,
    /// Jobs that were under way when it ended.
    pub cut_off: usize,
    /// Why it cannot go on, where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What was moved for all jobs so far, those that have ended included.
    #[serde(default)]
    pub moved: Counters,
    /// Its jobs.
    pub jobs: Vec<JobStatus>,
}

/// How a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// Its vectors.
    pub keys: usize,
    /// Its chunks.
    pub chunks: u32,
    /// How far each rank is.
    pub ranks: Vec<String>,
    /// Bytes that came in, by core.
    pub bytes_in: Vec<u64>,
    /// Bytes that went out, by core.
    pub bytes_out: Vec<u64>,
    /// Contributions to chunks that came in.
    pub pushes: u64,
    /// Steps of chunks that were completed.
    pub steps: u64,
    /// Bytes of the hub's memory that it may take, once its chunks are known there.
    #[serde(default)]
    pub memory: u64,
}

/// How a hub elsewhere is; `stop` is asked now and then whether to give up.
///
/// # Errors
/// A clause: why it does not say.
pub fn ask(
    address: SocketAddr,
    trust: &Trust,
    wait: Duration,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Status, String> {
    let deadline = Instant::now() + wait;
    let cannot = |shut: Shut| format!("cannot be asked: {}", shut.why);
    let socket =
        Handshaking::reach(&[address], (trust, ""), &Role::Visitor, deadline, stop).map_err(cannot)?;
    let mut connection = ControlConnection::new(socket);
    loop {
        let closed = connection.read().err();
        if let Some(status) = connection.receive()? {
            return Ok(status);
        }
        if let Some(how) = closed {
            return Err(format!("closed its connection ({how})"));
        }
        if Instant::now() > deadline {
            return Err("does not answer".to_owned());
        }
        stop()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}
