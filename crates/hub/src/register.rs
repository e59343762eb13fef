//! A hub's jobs and their workers: who takes part, who is lost, and what happens to a job that loses a worker. No
//! sockets, clocks or threads.
//!
//! Each worker has a control connection to its hub, besides its connections to the hub's cores. The register handles
//! messages of control connections and reports of cores, and returns what the admission thread must do: [`Action`].
//!
//! - `action`: what the register asks of the admission thread;
//! - `admission`: admits workers and jobs; `memory`: the share of the hub's memory that a job may use;
//! - `saving`: saves of jobs;
//! - `rejoining`: lets workers begin, and lets restarted workers take part again;
//! - `blame`: decides who is at fault when a worker or a hub is lost, or an exchange takes too long.

mod action;
mod admission;
mod blame;
mod memory;
mod rejoining;
mod saving;
#[cfg(test)]
mod test_hub;

pub use action::Action;
pub use memory::{MemoryShare, Shares};
pub use saving::{LastSave, SaveReport};

use super::assignment::HubList;
use super::events::{Event, EventKind, EventLog};
use super::message::{FromHub, FromWorker};
use super::optimizer::Optimizers;
use super::saved::FoundSaves;
use super::status::RankState;
use super::terms::{Contract, LossPolicy};
use admission::{Opening, Planning};
use blame::{Inquiry, LostConnection};
use rejoining::Rejoining;
use saving::JobSaves;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use syncline_protocol::fault::{Blame, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, Patience};

/// The limits of a hub.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most jobs at the same time.
    pub jobs: usize,
    /// The most bytes of memory for all jobs together (that of their chunks, and what their workers may be ahead).
    pub memory: u64,
    /// The most bytes that a worker may be ahead of others at each core before the core stops reading from it. The
    /// limit is lower if the hub does not have the memory for it.
    pub ahead: usize,
}

/// The most hubs of a job.
pub const MAX_HUBS: usize = 1 << 10;

/// The most cores of a hub.
pub const MAX_CORES: u32 = 256;

/// How long a job whose workers are all lost waits for one of them to come back.
const LINGER: Duration = Duration::from_secs(600);

/// The state of a worker. A state of a worker that is connected holds the number of its control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It has not joined.
    Absent,
    /// It is connecting to cores.
    Joining(u32),
    /// It is connected to all cores, and waits until it may begin.
    Ready(u32),
    /// It takes part in the job.
    Active(u32),
    /// It was lost, for this reason.
    Lost(Trouble),
    /// It has left.
    Left,
    /// It belongs to another rack.
    OtherRack,
}

impl State {
    const fn connection(&self) -> Option<u32> {
        match self {
            Self::Joining(connection) | Self::Ready(connection) | Self::Active(connection) => {
                Some(*connection)
            }
            Self::Absent | Self::Lost(_) | Self::Left | Self::OtherRack => None,
        }
    }

    /// The state as a hub's status shows it.
    const fn status(&self) -> RankState {
        match self {
            Self::Absent => RankState::Absent,
            Self::Joining(_) => RankState::Joining,
            Self::Ready(_) => RankState::Waiting,
            Self::Active(_) => RankState::Active,
            Self::Lost(_) => RankState::Lost,
            Self::Left => RankState::Left,
            Self::OtherRack => RankState::OtherRack,
        }
    }
}

#[derive(Debug)]
struct RegisteredJob {
    number: u32,
    contract: Arc<Contract>,
    epoch: u16,
    /// The ticket that each worker must show when it connects to a core.
    tickets: Vec<u64>,
    /// The job's hubs, once it is known which core has which chunk.
    hubs: Option<HubList>,
    /// Present while that is being computed.
    planning: Option<Planning>,
    /// Bytes of this hub's memory that the job may use; 0 until its chunks are assigned.
    memory: u64,
    /// The rack of this hub, if the job has racks.
    rack: Option<u32>,
    begun: bool,
    workers: Vec<State>,
    /// The random number that each worker chose when it was started.
    incarnations: Vec<u64>,
    /// When all its workers were first found lost.
    deserted: Option<Duration>,
    /// Restarted workers that want to take part again.
    rejoining: BTreeMap<u32, Rejoining>,
    /// Workers that came with different terms before the job began, and what was different.
    different: BTreeMap<u32, String>,
    /// Late workers that have asked which workers they wait for.
    inquiries: BTreeMap<u32, Inquiry>,
    /// Workers that have lost another hub, or a connection to a core of this hub.
    lost_connections: BTreeMap<u32, LostConnection>,
    saves: JobSaves,
    /// Whether a worker has reported the loss of a hub, without which the job cannot go on.
    hub_lost: bool,
}

impl RegisteredJob {
    /// Whether no worker has a control connection.
    fn is_deserted(&self) -> bool {
        self.workers.iter().all(|state| state.connection().is_none())
    }
}

/// A control connection.
#[derive(Debug)]
struct Connection {
    job: String,
    worker: u32,
    /// Whether the worker was admitted on this connection.
    admitted: bool,
}

/// A hub's jobs and their workers.
#[derive(Debug)]
pub struct Register {
    cores: u32,
    interfaces: Vec<SocketAddr>,
    optimizers: Optimizers,
    limits: Limits,
    jobs: BTreeMap<String, RegisteredJob>,
    connections: BTreeMap<u32, Connection>,
    heartbeats: Heartbeats,
    /// How many jobs were opened so far.
    opened: u32,
    /// How many attempts to rejoin there were so far.
    attempts: u64,
    /// How many workers were lost so far.
    losses: u64,
    /// Whether new jobs are refused.
    draining: bool,
    /// Present if saves of jobs are kept: how often they are taken, if not only when a user asks.
    saves: Option<Option<Duration>>,
    /// The saves of jobs that are about to open.
    found_saves: BTreeMap<String, FoundSaves>,
    actions: Vec<Action>,
    events: EventLog,
}

/// A job, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSummary {
    /// The job's number on the cores.
    #[serde(skip)]
    pub number: u32,
    /// The job's name.
    pub job: String,
    /// The number of its vectors.
    pub keys: usize,
    /// The number of its chunks.
    pub chunks: u32,
    /// The state of each worker.
    pub workers: Vec<RankState>,
    /// Bytes of the hub's memory that it may use.
    pub memory: u64,
    /// Its last save here.
    pub saved: Option<LastSave>,
    /// Why the newest attempt to save it has failed, if it has.
    pub save_failure: Option<String>,
}

impl Register {
    /// Creates the register of a hub with these cores and interfaces.
    pub fn new(
        cores: u32,
        interfaces: Vec<SocketAddr>,
        optimizers: Optimizers,
        limits: Limits,
        patience: Patience,
    ) -> Self {
        Self {
            cores,
            interfaces,
            optimizers,
            limits,
            jobs: BTreeMap::new(),
            connections: BTreeMap::new(),
            heartbeats: Heartbeats::new(patience, Duration::ZERO),
            opened: 0,
            attempts: 0,
            losses: 0,
            draining: false,
            saves: None,
            found_saves: BTreeMap::new(),
            actions: Vec::new(),
            events: EventLog::default(),
        }
    }

    /// Adds a control connection of a worker. No other connection has had its number.
    pub fn connected(&mut self, connection: u32, job: &str, worker: u32, now: Duration) {
        self.heartbeats.join(connection as usize, now);
        self.heartbeats.heard(connection as usize, now);
        self.connections.insert(connection, Connection { job: job.to_owned(), worker, admitted: false });
    }

    /// Handles a message from a control connection. `random` is an unpredictable number.
    pub fn received(&mut self, connection: u32, message: FromWorker, random: u64, now: Duration) {
        self.heartbeats.heard(connection as usize, now);
        let Some(Connection { job, worker, admitted }) = self.connections.get(&connection) else { return };
        let (name, worker, admitted) = (job.clone(), *worker, *admitted);
        match message {
            FromWorker::Alive => {}
            FromWorker::Open { terms, incarnation, interval_ms } if !admitted => {
                let opening = Opening { terms: *terms, incarnation, interval_ms };
                self.open(connection, &name, worker, opening, random);
            }
            FromWorker::Ready { hubs, hub, save } if admitted => {
                self.ready(connection, &name, worker, HubList { hubs, own: hub }, save);
            }
            FromWorker::SavedByAll { number } if admitted => self.saved_by_all(&name, number),
            FromWorker::Late { key, step } if admitted => {
                self.late(connection, &name, worker, key, step, now);
            }
            FromWorker::GivesUp { blame, trouble } if admitted => {
                self.gives_up(connection, &name, worker, blame, trouble, now);
            }
            FromWorker::Leave => {
                self.release(connection);
                self.remove_worker(connection, &name, worker, State::Left);
            }
            FromWorker::Open { .. }
            | FromWorker::Ready { .. }
            | FromWorker::SavedByAll { .. }
            | FromWorker::Late { .. }
            | FromWorker::GivesUp { .. } => {
                self.refuse(connection, "sent a message that is not allowed at this point", true);
                self.remove_worker(connection, &name, worker, State::Left);
            }
        }
    }

    /// Advances timers; call once per [`Register::interval`].
    pub fn tick(&mut self, now: Duration) {
        for connection in self.heartbeats.due(now) {
            self.send(connection as u32, FromHub::Alive);
        }
        for (connection, silence) in self.heartbeats.silent(now) {
            let (connection, trouble) = (connection as u32, Trouble::silent(silence));
            // A rank that was only stopped finds out why its connections are closed.
            if let Some(&Connection { worker, .. }) = self.connections.get(&connection) {
                let blame = Blame::Rank(worker);
                self.send(connection, FromHub::Verdict { blame, trouble: trouble.clone() });
            }
            self.actions.push(Action::Close { connection });
            self.disconnected(connection, trouble);
        }
        self.decide(now);
        self.tick_saves(now);
        for job in self.jobs.values_mut() {
            job.deserted = job.is_deserted().then(|| job.deserted.unwrap_or(now));
        }
        let over = self.jobs.iter().filter(|(_, job)| job.deserted.is_some_and(|since| now > since + LINGER));
        for name in over.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            if let Some(job) = self.jobs.remove(&name) {
                self.actions.push(Action::EndJob { job: job.number });
                self.note(EventKind::JobEnded, &name, None, Some("no rank came back".to_owned()));
            }
        }
    }

    /// How often to call [`Register::tick`].
    pub fn interval(&self) -> Duration {
        self.heartbeats.interval()
    }

    /// Refuses new jobs from now on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Returns the rack of this hub in a job, if the job has racks.
    pub fn rack(&self, job: u32) -> Option<u32> {
        self.jobs.values().find(|known| known.number == job).and_then(|known| known.rack)
    }

    /// Returns how many workers were lost so far.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Returns whether no job has a connected worker. Jobs that wait for lost workers to come back do not count.
    pub fn idle(&self) -> bool {
        self.jobs.values().all(RegisteredJob::is_deserted)
    }

    /// Takes the actions to carry out, in this order.
    pub fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Summarises the jobs.
    pub fn jobs(&self, now: Duration) -> Vec<JobSummary> {
        let summary = |(name, job): (&String, &RegisteredJob)| JobSummary {
            number: job.number,
            job: name.clone(),
            keys: job.contract.catalogue.keys().len(),
            chunks: job.contract.catalogue.chunks(),
            workers: job.workers.iter().map(State::status).collect(),
            memory: job.memory,
            saved: job.saves.last(now),
            save_failure: job.saves.failure().map(str::to_owned),
        };
        self.jobs.iter().map(summary).collect()
    }

    /// Takes the events since the last call; only the newest if there are too many.
    pub fn events(&mut self) -> impl Iterator<Item = Event> {
        self.events.take()
    }

    /// Sends all workers of all jobs that the hub ends.
    pub fn leave(&mut self) {
        for &connection in self.connections.keys() {
            self.actions.push(Action::Send { connection, message: FromHub::Leave });
        }
    }

    fn note(&mut self, kind: EventKind, job: &str, rank: Option<u32>, why: Option<String>) {
        self.events.note(kind, job, rank, why);
    }

    fn send(&mut self, connection: u32, message: FromHub) {
        self.actions.push(Action::Send { connection, message });
    }

    /// Ignores a control connection from now on.
    fn release(&mut self, connection: u32) {
        self.connections.remove(&connection);
        self.heartbeats.leave(connection as usize);
    }

    /// Sends a worker the verdict, and closes its control connection.
    fn send_verdict(&mut self, connection: u32, blame: Blame, trouble: Trouble) {
        self.send(connection, FromHub::Verdict { blame, trouble });
        self.actions.push(Action::Close { connection });
        self.release(connection);
    }

    /// Removes the worker that was admitted on a control connection. Does nothing if the worker has another connection
    /// or none.
    fn remove_worker(&mut self, connection: u32, name: &str, worker: u32, state: State) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let place =
            job.workers.get_mut(worker as usize).filter(|place| place.connection() == Some(connection));
        let Some(place) = place else { return };
        let (number, begun, policy) = (job.number, job.begun, job.contract.terms.policy);
        // Before the job has begun nothing depends on the worker: it may come again.
        *place = if begun { state.clone() } else { State::Absent };
        let removed = if begun {
            Action::LoseWorker { job: number, worker }
        } else {
            Action::DropWorker { job: number, worker }
        };
        self.actions.push(removed);
        job.rejoining.remove(&worker);
        job.inquiries.remove(&worker);
        let waits = policy == LossPolicy::Wait
            && begun
            && !job.hub_lost
            && job.workers.iter().any(|state| matches!(state, State::Lost(_)));
        let over = job.is_deserted() && !waits;
        let finished = job.workers.iter().all(|state| matches!(state, State::Left | State::OtherRack));
        self.note_removed(name, worker, &state);
        if over {
            let end =
                if finished { Action::RetireJob { job: number } } else { Action::EndJob { job: number } };
            self.actions.push(end);
            self.jobs.remove(name);
            self.note(EventKind::JobEnded, name, None, None);
            return;
        }
        match (policy, state) {
            (LossPolicy::Fail, State::Lost(trouble)) if begun => {
                self.fail(name, Blame::Rank(worker), trouble)
            }
            // This may be the worker that was asked to announce others.
            (LossPolicy::Shrink, _) if begun => self.rejoin(name),
            _ => {}
        }
    }

    fn note_removed(&mut self, name: &str, worker: u32, state: &State) {
        match state {
            State::Lost(trouble) => {
                self.losses += 1;
                self.note(EventKind::RankLost, name, Some(worker), Some(trouble.what.clone()));
            }
            State::Left => self.note(EventKind::RankLeft, name, Some(worker), None),
            _ => {}
        }
    }
}
