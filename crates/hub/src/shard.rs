//! The chunks of all jobs on one core of a hub, and the core's connections to the jobs' workers. No sockets, clocks or
//! threads, and no data shared with other cores (luo2020, section 3.2.4).
//!
//! Each of these uses only those before it:
//!
//! - `report`: what a core reports; `endpoint`: its connections; `job`: a job's chunks and peers;
//! - `racks`: sends sums to other racks; `steps`: advances chunks and replies to workers;
//! - `worker_frames`, `rack_frames`: frames from workers and from other racks; `sweep`: work on all chunks of a job.

mod endpoint;
mod job;
mod rack_frames;
mod racks;
mod report;
mod steps;
mod sweep;
mod worker_frames;

pub use endpoint::Peer;
pub use job::Bounds;
pub use report::{
    Attempt, Blocked, Counters, DepartedRack, Joined, MissedWorker, RetiredJob, SavedShare, Waits,
    WaitsReport,
};

use super::frame::PEERS;
use super::saved::SavedChunk;
use super::slot::Slot;
use super::terms::{Contract, LossPolicy, StepMode};
use endpoint::{Endpoint, Endpoints};
use job::ShardJob;
use report::Reports;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use sweep::{PART, Sweep, Sweeps};
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::link::{Event, Landing, Link, PartialMessage};
use syncline_protocol::machine::Machine;
use syncline_protocol::wire::FrameKind;

/// A job, and the sweeps over its chunks.
#[derive(Debug)]
struct SweptJob {
    job: ShardJob,
    sweeps: Sweeps,
}

/// The chunks of one core, and its connections.
#[derive(Debug, Default)]
pub struct Shard {
    jobs: BTreeMap<u32, SweptJob>,
    /// The counters of jobs that have ended, added up.
    ended: Counters,
    endpoints: Endpoints,
    reports: Reports,
    /// Slots of jobs that have ended, which are dropped a part at a time.
    closed: Vec<BTreeMap<u32, Slot>>,
}

impl Shard {
    /// Opens a job.
    pub fn open(&mut self, number: u32, contract: Arc<Contract>, epoch: u16) {
        let job = ShardJob::new(number, contract, epoch);
        self.jobs.insert(number, SweptJob { job, sweeps: Sweeps::default() });
    }

    /// Assigns a job's chunks to this core, before any of them arrives. `rack` is the rack of this hub, if the job has
    /// racks. The job continues from `saved`, which is empty for a new job.
    pub fn assign(
        &mut self,
        number: u32,
        chunks: Vec<u32>,
        rack: Option<u32>,
        bounds: Bounds,
        saved: BTreeMap<u32, SavedChunk>,
    ) {
        if let Some(job) = self.job_mut(number) {
            job.set_up(rack, bounds);
            self.start_sweep(number, Sweep::Assign { chunks, done: 0, saved });
        }
    }

    /// Takes the shares of saves to which all chunks here have come.
    pub fn saved_shares(&mut self) -> Vec<SavedShare> {
        std::mem::take(&mut self.reports.saved)
    }

    /// Does a part of the sweeps of each job. Returns whether more is left to do.
    pub fn sweep(&mut self) -> bool {
        if let Some(slots) = self.closed.last_mut() {
            (0..PART).for_each(|_| drop(slots.pop_first()));
            if slots.is_empty() {
                self.closed.pop();
            }
        }
        for SweptJob { job, sweeps } in self.jobs.values_mut() {
            sweeps.run_part(job, &mut self.endpoints, &mut self.reports);
        }
        !self.closed.is_empty() || self.jobs.values().any(|job| !job.sweeps.is_empty())
    }

    fn start_sweep(&mut self, number: u32, sweep: Sweep) {
        if let Some(SweptJob { job, sweeps }) = self.jobs.get_mut(&number) {
            sweeps.start(sweep, job, &mut self.endpoints, &mut self.reports);
        }
    }

    fn job(&self, number: u32) -> Option<&ShardJob> {
        self.jobs.get(&number).map(|swept| &swept.job)
    }

    fn job_mut(&mut self, number: u32) -> Option<&mut ShardJob> {
        self.jobs.get_mut(&number).map(|swept| &mut swept.job)
    }

    /// Ends a job whose workers have finished, once other racks have received what they need ([`Shard::retired`]).
    /// Detaches the connections of its workers at once, and returns them.
    pub fn retire(&mut self, job: u32) -> Vec<u32> {
        if let Some(known) = self.job_mut(job) {
            known.retiring = true;
        }
        let (workers, racks): (Vec<_>, Vec<_>) = self
            .endpoints
            .of_job(job)
            .map(|(connection, endpoint)| (connection, endpoint.peer))
            .partition(|(_, peer)| matches!(peer, Peer::Worker(_)));
        let workers: Vec<u32> = workers.into_iter().map(|(connection, _)| connection).collect();
        workers.iter().for_each(|&connection| _ = self.detach(connection));
        racks.into_iter().for_each(|(connection, _)| self.send_control(connection, FrameKind::Leave));
        workers
    }

    /// Returns the jobs whose workers have finished.
    pub fn retired(&self) -> Vec<RetiredJob> {
        let owes = |job: &ShardJob| {
            job.racks.iter().any(|path| !path.waiting.is_empty())
                || self.endpoints.of_job(job.number).any(|(_, endpoint)| endpoint.link.waiting() > 0)
        };
        let retiring = self.jobs.values().map(|swept| &swept.job).filter(|job| job.retiring);
        retiring.map(|job| RetiredJob { job: job.number, delivered: !owes(job) }).collect()
    }

    /// Takes the racks that have finished a job that still needs something from them.
    pub fn departed_racks(&mut self) -> Vec<DepartedRack> {
        std::mem::take(&mut self.reports.departed)
    }

    /// Ends a job. Detaches its connections, and returns them.
    pub fn close(&mut self, job: u32) -> Vec<u32> {
        if let Some(SweptJob { job: ended, .. }) = self.jobs.remove(&job) {
            self.ended = self.ended.with(ended.counters);
            self.closed.push(ended.slots);
        }
        let own: Vec<u32> = self.endpoints.of_job(job).map(|(connection, _)| connection).collect();
        own.iter().for_each(|&connection| _ = self.detach(connection));
        own
    }

    /// Returns the connection of a job's worker.
    pub fn connection(&self, job: u32, worker: u32) -> Option<u32> {
        self.job(job).and_then(|job| job.worker_connections[worker as usize])
    }

    /// Adds the connection of a worker or a rack; no other connection has its number. Returns false if there is no such
    /// job any more, or if the peer has another connection.
    pub fn attach(&mut self, connection: u32, job: u32, peer: Peer) -> bool {
        let Some(SweptJob { job: known, .. }) = self.jobs.get_mut(&job) else { return false };
        let mut link = Link::default();
        let epoch = match peer {
            Peer::Worker(worker) if known.worker_connections[worker as usize].is_some() => return false,
            Peer::Worker(worker) => {
                known.worker_connections[worker as usize] = Some(connection);
                // In an asynchronous job a worker takes part once it is connected.
                known.active[worker as usize] |= known.contract.terms.step_mode == StepMode::Asynchronous;
                known.epoch
            }
            Peer::Rack(rack) => {
                let path = known.racks.get_mut(rack as usize).filter(|path| path.connection.is_none());
                let Some(path) = path else { return false };
                path.connection = Some(connection);
                for (header, value) in path.waiting.drain(..) {
                    self.endpoints.outgoing.write(&mut link, header, value, None);
                }
                PEERS
            }
        };
        let endpoint = Endpoint { job, peer, epoch, link, ahead: 0, left: false };
        self.endpoints.connections.insert(connection, endpoint);
        true
    }

    /// Removes a connection that is gone. Returns its job and its peer.
    pub fn detach(&mut self, connection: u32) -> Option<(u32, Peer)> {
        let mut endpoint = self.endpoints.connections.remove(&connection)?;
        let abandoned = endpoint.link.abandon();
        self.release(endpoint.job, abandoned);
        if let Some(job) = self.job_mut(endpoint.job) {
            let place = match endpoint.peer {
                Peer::Worker(worker) => &mut job.worker_connections[worker as usize],
                Peer::Rack(rack) => {
                    job.racks[rack as usize].left |= endpoint.left;
                    &mut job.racks[rack as usize].connection
                }
            };
            if *place == Some(connection) {
                *place = None;
                if let (Peer::Worker(worker), false) = (endpoint.peer, job.retiring) {
                    self.start_sweep(endpoint.job, Sweep::Detach { worker });
                }
            }
        }
        Some((endpoint.job, endpoint.peer))
    }

    /// Removes a worker that is lost or has left. Under [`LossPolicy::Shrink`] the others go on without it.
    pub fn lose(&mut self, job: u32, worker: u32) {
        let Some(known) = self.job_mut(job) else { return };
        known.gone.insert(worker);
        known.expected.remove(&worker);
        known.set_rates.retain(|&(by, _), _| by != worker);
        known.active[worker as usize] = known.contract.terms.policy != LossPolicy::Shrink;
        self.start_sweep(job, Sweep::Advance);
    }

    /// Lets a restarted worker continue where it was, with the first step that it has not pushed.
    pub fn resume(&mut self, job: u32, worker: u32, attempt: Attempt) {
        let Some(known) = self.job_mut(job) else { return };
        known.resumed.insert(worker);
        known.gone.remove(&worker);
        known.active[worker as usize] = true;
        self.start_sweep(job, Sweep::Resume { worker, attempt, steps: BTreeMap::new() });
    }

    /// Expects another worker to announce from which step on a restarted worker takes part.
    pub fn expect(&mut self, job: u32, worker: u32, attempt: Attempt) {
        if let Some(known) = self.job_mut(job) {
            known.expected.insert(worker, attempt);
        }
    }

    /// Takes the reports about workers that take part again.
    pub fn joined(&mut self) -> Vec<Joined> {
        std::mem::take(&mut self.reports.joined)
    }

    /// Returns buffers that are written or abandoned to the job's pool.
    fn release(&mut self, job: u32, tickets: Vec<u64>) {
        let outgoing = &mut self.endpoints.outgoing;
        let buffers = tickets.into_iter().filter_map(|ticket| outgoing.release(ticket));
        match self.jobs.get_mut(&job) {
            Some(SweptJob { job, .. }) => buffers.for_each(|buffer| job.pool.give(buffer)),
            None => buffers.for_each(drop),
        }
    }

    fn send_control(&mut self, connection: u32, kind: FrameKind) {
        if let Some(endpoint) = self.endpoints.get_mut(connection) {
            endpoint.send_control(kind);
        }
    }

    /// Finds the first chunk of a vector whose open step is at most `step`, for which some workers wait and which
    /// others have not pushed. A worker asks; [`Shard::waits_reports`] returns the answer.
    pub fn report_waits(&mut self, job: u32, worker: u32, key: u32, step: u64) {
        self.start_sweep(job, Sweep::ReportWaits { worker, key, step, waits: Waits::default() });
    }

    /// Takes the answers to [`Shard::report_waits`].
    pub fn waits_reports(&mut self) -> Vec<WaitsReport> {
        std::mem::take(&mut self.reports.waits)
    }

    /// Returns a worker that is gone and without which its job cannot go on. Only under [`LossPolicy::Fail`].
    pub fn missed_worker(&mut self) -> Option<MissedWorker> {
        self.reports.missed.pop_first()
    }

    /// Returns the counters of each job.
    pub fn counters(&self) -> BTreeMap<u32, Counters> {
        self.jobs.iter().map(|(&number, swept)| (number, swept.job.counters)).collect()
    }

    /// Returns the counters of all jobs together, including those that have ended.
    pub fn moved(&self) -> Counters {
        self.jobs.values().map(|swept| swept.job.counters).fold(self.ended, Counters::with)
    }

    fn handle(&mut self, connection: u32, event: Event) -> Result<(), ProtocolError> {
        let Self { jobs, endpoints, reports, .. } = self;
        let Some(endpoint) = endpoints.get_mut(connection) else { return Ok(()) };
        let Some(SweptJob { job, .. }) = jobs.get_mut(&endpoint.job) else { return Ok(()) };
        let peer = endpoint.peer;
        match event {
            Event::Header(header) if header.epoch != endpoint.epoch => {
                Err(ProtocolError::Epoch { header, ours: endpoint.epoch })
            }
            Event::Header(header) => {
                let (length, landing) = match (header.kind, peer) {
                    (FrameKind::Heartbeat | FrameKind::Leave, _) => (0, Landing::Nothing),
                    (_, Peer::Worker(worker)) => job.worker_landing(worker, header)?,
                    (_, Peer::Rack(rack)) => job.rack_landing(rack, header)?,
                };
                endpoint.link.land(length, landing);
                Ok(())
            }
            Event::Frame { header, landing } => match (header.kind, peer) {
                (FrameKind::Leave, _) => {
                    endpoint.left = true;
                    Ok(())
                }
                (_, Peer::Worker(worker)) => job.handle_worker(worker, header, landing, endpoints, reports),
                (_, Peer::Rack(rack)) => job.handle_rack(rack, header, landing, endpoints, reports),
            },
        }
    }
}

impl Machine for Shard {
    fn waiting(&self, peer: u32) -> usize {
        self.endpoints.get(peer).map_or(0, |endpoint| endpoint.link.waiting())
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        if let Some(endpoint) = self.endpoints.get_mut(peer) {
            endpoint.link.gather(slices, most);
        }
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let Some(endpoint) = self.endpoints.get_mut(peer) else { return };
        let mut done = Vec::new();
        endpoint.link.sent(bytes, &mut done);
        let job = endpoint.job;
        self.release(job, done);
    }

    /// Does not read from a worker that is too far ahead or does not take part in the job yet, nor before the job's
    /// chunks are assigned.
    fn reads(&self, peer: u32) -> bool {
        let Some(endpoint) = self.endpoints.get(peer) else { return false };
        let Some(SweptJob { job, sweeps }) = self.jobs.get(&endpoint.job) else { return false };
        if !job.assigned || !sweeps.is_empty() {
            return false;
        }
        // Do not read from a peer that does not read what it asked for.
        if endpoint.link.waiting() > job.ahead {
            return false;
        }
        let Peer::Worker(worker) = endpoint.peer else { return true };
        job.active[worker as usize] && endpoint.ahead <= job.ahead
    }

    fn coming(&self, peer: u32) -> Option<PartialMessage> {
        self.endpoints.get(peer).and_then(|endpoint| endpoint.link.coming())
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.endpoints.get_mut(peer).and_then(|endpoint| endpoint.link.direct())
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        let Some(endpoint) = self.endpoints.get_mut(peer) else { return Ok(()) };
        match endpoint.link.read_directly(bytes)? {
            Some(event) => self.handle(peer, event),
            None => Ok(()),
        }
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while let Some(endpoint) = self.endpoints.get_mut(peer) {
            let Some(event) = endpoint.link.take(&mut bytes)? else { return Ok(()) };
            self.handle(peer, event)?;
        }
        Ok(())
    }

    fn disable_checksums(&mut self, peer: u32) {
        if let Some(endpoint) = self.endpoints.get_mut(peer) {
            endpoint.link.disable_checksums();
        }
    }

    fn send_heartbeat(&mut self, peer: u32) {
        if self.waiting(peer) == 0 {
            self.send_control(peer, FrameKind::Heartbeat);
        }
    }

    fn leave(&mut self, peer: u32) {
        self.send_control(peer, FrameKind::Leave);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.endpoints.get(peer).is_some_and(|endpoint| endpoint.left)
    }
}
