//! The status of a hub, and how to ask a hub for it.

use super::register::{LastSave, SaveReport};
use super::shard::Counters;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use syncline_protocol::handshake::{HandshakeError, Role};
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::handshaking::{Handshaking, Identification};
use syncline_transport::trust::Trust;

/// The status of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Seconds since the hub started.
    pub uptime_s: u64,
    /// The number of threads that sum.
    pub cores: u32,
    /// The most bytes of memory for all jobs together.
    #[serde(default)]
    pub memory: u64,
    /// The addresses where it listens.
    pub interfaces: Vec<SocketAddr>,
    /// Whether it takes no new jobs, and ends once no job has a worker.
    pub draining: bool,
    /// Connections that were refused or lost before they were admitted.
    pub refused: u64,
    /// The number of workers that were lost.
    pub lost: u64,
    /// Jobs that were running when it ended.
    pub cut_off: usize,
    /// Why the hub cannot go on, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The data moved for all jobs so far, including those that have ended.
    #[serde(default)]
    pub moved: Counters,
    /// Its jobs.
    pub jobs: Vec<JobStatus>,
}

/// The state of a rank at a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankState {
    /// It has not joined.
    Absent,
    /// It is connecting to cores.
    Joining,
    /// It is connected to all cores, and waits until it may begin.
    Waiting,
    /// It takes part in the job.
    Active,
    /// It was lost.
    Lost,
    /// It has left.
    Left,
    /// It belongs to another rack.
    OtherRack,
}

/// The status of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// The number of its vectors.
    pub keys: usize,
    /// The number of its chunks.
    pub chunks: u32,
    /// The state of each rank.
    pub ranks: Vec<RankState>,
    /// Bytes received by each core.
    pub bytes_in: Vec<u64>,
    /// Bytes sent by each core.
    pub bytes_out: Vec<u64>,
    /// Contributions to chunks received.
    pub pushes: u64,
    /// Steps of chunks completed.
    pub steps: u64,
    /// Bytes of the hub's memory that it may use; 0 until its chunks are assigned.
    #[serde(default)]
    pub memory: u64,
    /// Its last save, if the hub keeps saves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<LastSave>,
    /// Why the newest attempt to save it has failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save_failure: Option<String>,
}

/// Asks a hub for its status. Calls `stop` regularly; an error from it ends the request.
///
/// # Errors
/// A clause with the hub as subject: why there is no answer.
pub fn ask(
    address: SocketAddr,
    trust: &Trust,
    wait: Duration,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Status, String> {
    ask_as(&Role::StatusClient, address, trust, wait, stop)
}

/// Asks a hub to save its jobs, at the end of the step that is open. Returns what has become of each job; `None` if the
/// hub keeps no saves. Calls `stop` regularly; an error from it ends the request.
///
/// # Errors
/// As [`ask`].
pub fn save(
    address: SocketAddr,
    trust: &Trust,
    wait: Duration,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Option<Vec<SaveReport>>, String> {
    ask_as(&Role::SaveClient, address, trust, wait, stop)
}

/// Connects to a hub in a role that gets one message, and returns it.
fn ask_as<T: DeserializeOwned>(
    role: &Role,
    address: SocketAddr,
    trust: &Trust,
    wait: Duration,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<T, String> {
    let deadline = Instant::now() + wait;
    let cannot = |shut: HandshakeError| format!("cannot be reached: {}", shut.why);
    let socket = Handshaking::reach(&[address], Identification { trust, job: "" }, role, deadline, stop)
        .map_err(cannot)?;
    let mut connection = ControlConnection::new(socket);
    loop {
        let closed = connection.read().err();
        if let Some(answer) = connection.receive()? {
            return Ok(answer);
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
