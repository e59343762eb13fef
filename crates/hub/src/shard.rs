//! The chunks of all jobs on one core of a hub, and the core's connections to the jobs' workers. No sockets, clocks or
//! threads, and no data shared with other cores (luo2020, section 3.2.4).

use super::bridge::{Bridge, Output, Sum, Tools};
use super::frame::{GIVEN, NOTICE, Notice, PEERS, TOTAL, Verb};
use super::slot::{Context, Expectation, OpenStep, Reply, Slot};
use super::terms::{Contract, LossPolicy, StepMode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::link::{Event, Landing, Link, PartialMessage};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_protocol::wire::{Digest, FrameKind, Header};

/// How much data a core has moved for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Bytes of contributions received.
    pub bytes_in: u64,
    /// Bytes of values sent.
    pub bytes_out: u64,
    /// Contributions to chunks received.
    pub pushes: u64,
    /// Steps of chunks completed.
    pub steps: u64,
}

impl Counters {
    /// Adds two sets of counters.
    pub(super) const fn with(self, other: Self) -> Self {
        Self {
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
            pushes: self.pushes + other.pushes,
            steps: self.steps + other.steps,
        }
    }
}

/// A chunk whose open step waits for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The chunk.
    pub chunk: u32,
    /// The open step.
    pub step: u64,
    /// Workers that have not pushed the open step.
    pub missing: Vec<u32>,
}

/// Which workers wait at a core, and for which workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The first chunk that blocks the step in question, if one does.
    pub blocked: Option<Blocked>,
    /// Workers that wait for others, at any vector of the job.
    pub waiting: BTreeSet<u32>,
}

/// Identifies one attempt of a restarted worker to take part again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The random number that the worker chose when it was started.
    pub incarnation: u64,
    /// Counts the attempts: a later one replaces an earlier one whose leader may be gone.
    pub number: u64,
}

/// A core's report that a restarted worker takes part in a job again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The job.
    pub job: u32,
    /// The worker.
    pub worker: u32,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// The steps behind the worker, of each vector with chunks here.
    pub steps: BTreeMap<u32, u64>,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A worker of the job.
    Worker(u32),
    /// The same core of a hub in another rack.
    Rack(u32),
}

/// The memory of a core that a job may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that a worker may be ahead of others before the core stops reading from it.
    pub ahead: usize,
    /// Bytes of buffers. The core keeps no unused buffers beyond that.
    pub buffers: usize,
}

/// A connection to a worker or to a rack.
#[derive(Debug)]
struct Endpoint {
    job: u32,
    peer: Peer,
    /// The owner of a message is the ticket of its buffer.
    link: Link<u64>,
    /// Bytes that the worker has pushed beyond open steps.
    ahead: usize,
    /// Whether the peer has said that nothing will follow.
    left: bool,
}

/// The connection to a rack, and the frames that wait until there is one.
#[derive(Debug, Default)]
struct RackPath {
    connection: Option<u32>,
    waiting: Vec<(Header, Arc<Buffer>)>,
    /// Whether the rack has finished the job and closed its connection.
    left: bool,
}

/// Work on all chunks of a job. There may be millions, so the core does a part at a time, in turn with other jobs. It
/// reads nothing from the job's connections until the sweep is complete.
#[derive(Debug)]
enum Sweep {
    /// Creates the slots of these chunks. The first `done` exist already.
    Assign { chunks: Vec<u32>, done: usize },
    /// Forgets the requests of a worker whose connection is gone.
    Detach { worker: u32 },
    /// Advances all slots after a worker is lost: the others may go on without it.
    Advance,
    /// Lets a worker continue where it was, and collects the steps behind it.
    Resume { worker: u32, attempt: Attempt, steps: BTreeMap<u32, u64> },
    /// Finds which workers block a step of a vector, and which workers wait.
    ReportWaits { worker: u32, key: u32, step: u64, waits: Waits },
}

/// The most chunks of one part of a sweep: about a millisecond's work.
const PART: usize = 1 << 11;

/// A job's chunks on this core.
#[derive(Debug)]
struct ShardJob {
    contract: Arc<Contract>,
    epoch: u16,
    slots: BTreeMap<u32, Slot>,
    /// The sweeps to do, each with the first chunk that it has not reached.
    sweeps: VecDeque<(Sweep, u32)>,
    /// Whether all slots of this core's chunks exist. Until then the core reads nothing from the job's connections.
    assigned: bool,
    /// Bytes that a worker may be ahead before the core stops reading from it.
    ahead: usize,
    pool: Pool,
    /// Whether this rack's workers have finished. Sums that other racks need are still sent.
    retiring: bool,
    /// Present if there are hubs in other racks.
    bridge: Option<Bridge>,
    /// The connection to each rack.
    racks: Vec<RackPath>,
    /// Whether the open step waits for each worker.
    active: Vec<bool>,
    /// Workers that have left or are lost.
    gone: BTreeSet<u32>,
    /// The connection of each worker.
    worker_connections: Vec<Option<u32>>,
    /// Restarted workers that continue where they were.
    resumed: BTreeSet<u32>,
    /// Restarted workers that another worker must announce, with their attempt.
    expected: BTreeMap<u32, Attempt>,
    counters: Counters,
}

/// Buffers that are being written. Several connections may share one.
#[derive(Debug, Default)]
struct Outgoing {
    buffers: BTreeMap<u64, Arc<Buffer>>,
    ticket: u64,
}

impl Outgoing {
    /// Queues a buffer on a connection, and keeps it until it is written. `digest` is its digest, if known.
    fn write(&mut self, link: &mut Link<u64>, header: Header, buffer: Arc<Buffer>, digest: Option<Digest>) {
        self.ticket += 1;
        link.shared_message(header, Arc::clone(&buffer), digest, self.ticket);
        self.buffers.insert(self.ticket, buffer);
    }

    /// Forgets a buffer that is written or abandoned. Returns it if no other connection uses it.
    fn release(&mut self, ticket: u64) -> Option<Buffer> {
        self.buffers.remove(&ticket).and_then(|buffer| Arc::try_unwrap(buffer).ok())
    }
}

/// A worker that is gone, and that blocks its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissedWorker {
    /// The job.
    pub job: u32,
    /// The worker.
    pub worker: u32,
}

/// A job whose workers have finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredJob {
    /// The job's number.
    pub job: u32,
    /// Whether other racks have received what they need.
    pub delivered: bool,
}

/// A rack that has finished a job that still needs something from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartedRack {
    /// The job.
    pub job: u32,
    /// The rack.
    pub rack: u32,
}

/// An answer to [`Shard::report_waits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsReport {
    /// The job.
    pub job: u32,
    /// The worker that asked.
    pub worker: u32,
    /// Which workers wait, and for which workers.
    pub waits: Waits,
}

/// The chunks of one core, and its connections.
#[derive(Debug, Default)]
pub struct Shard {
    jobs: BTreeMap<u32, ShardJob>,
    /// The counters of jobs that have ended, added up.
    ended: Counters,
    endpoints: BTreeMap<u32, Endpoint>,
    outgoing: Outgoing,
    missed: BTreeSet<MissedWorker>,
    joined: Vec<Joined>,
    departed: Vec<DepartedRack>,
    waits_reports: Vec<WaitsReport>,
    /// Slots of jobs that have ended, which are dropped a part at a time.
    closed: Vec<BTreeMap<u32, Slot>>,
}

impl Shard {
    /// Opens a job.
    pub fn open(&mut self, number: u32, contract: Arc<Contract>, epoch: u16) {
        let workers = contract.terms.workers as usize;
        let job = ShardJob {
            contract,
            epoch,
            slots: BTreeMap::new(),
            sweeps: VecDeque::new(),
            assigned: false,
            ahead: 0,
            pool: Pool::default(),
            retiring: false,
            bridge: None,
            racks: Vec::new(),
            active: vec![true; workers],
            gone: BTreeSet::new(),
            worker_connections: vec![None; workers],
            resumed: BTreeSet::new(),
            expected: BTreeMap::new(),
            counters: Counters::default(),
        };
        self.jobs.insert(number, job);
    }

    /// Assigns a job's chunks to this core, before any of them arrives. `rack` is the rack of this hub, if the job has
    /// racks.
    pub fn assign(&mut self, number: u32, chunks: Vec<u32>, rack: Option<u32>, bounds: Bounds) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        if let (Some(racks), Some(rack)) = (&job.contract.terms.racks, rack) {
            let all = racks.hubs.len();
            job.bridge = Some(Bridge::new(racks.between, rack, all as u32));
            job.racks = (0..all).map(|_| RackPath::default()).collect();
            for (active, &of) in job.active.iter_mut().zip(&racks.of) {
                *active = of == rack;
            }
        }
        job.ahead = bounds.ahead;
        job.pool = Pool::of(bounds.buffers);
        job.sweeps.push_back((Sweep::Assign { chunks, done: 0 }, 0));
        self.sweep_part(number);
    }

    /// Does a part of the sweeps of each job. Returns whether more is left to do.
    pub fn sweep(&mut self) -> bool {
        if let Some(slots) = self.closed.last_mut() {
            (0..PART).for_each(|_| drop(slots.pop_first()));
            if slots.is_empty() {
                self.closed.pop();
            }
        }
        let jobs: Vec<u32> =
            self.jobs.iter().filter(|(_, job)| !job.sweeps.is_empty()).map(|(&number, _)| number).collect();
        jobs.into_iter().for_each(|job| self.sweep_part(job));
        !self.closed.is_empty() || self.jobs.values().any(|job| !job.sweeps.is_empty())
    }

    /// Does a part of a job's first sweep.
    fn sweep_part(&mut self, number: u32) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let Some((mut sweep, first)) = job.sweeps.pop_front() else { return };
        let chunks: Vec<u32> = match &sweep {
            Sweep::Assign { .. } => Vec::new(),
            _ => job.slots.range(first..).take(PART).map(|(&chunk, _)| chunk).collect(),
        };
        let mut next = chunks.last().filter(|_| chunks.len() == PART).map(|last| last + 1);
        match &mut sweep {
            Sweep::Assign { chunks, done } => {
                let more = &chunks[*done..(*done + PART).min(chunks.len())];
                job.slots.extend(more.iter().map(|&chunk| (chunk, Slot::new(&job.contract, chunk))));
                *done += more.len();
                job.assigned = *done == chunks.len();
                next = (!job.assigned).then_some(0);
            }
            Sweep::Detach { worker } => {
                job.slots.range_mut(first..).take(PART).for_each(|(_, slot)| slot.forget_requests(*worker));
            }
            Sweep::Advance => {
                for chunk in chunks {
                    self.update(number, chunk, |slot, context| slot.advance(context));
                }
            }
            Sweep::Resume { worker, attempt, steps } => {
                for (&chunk, slot) in job.slots.range_mut(first..).take(PART) {
                    slot.resume(*worker);
                    let key = job.contract.catalogue.piece(chunk).key;
                    let pushed = slot.pushed(*worker);
                    steps
                        .entry(key)
                        .and_modify(|least: &mut u64| *least = pushed.min(*least))
                        .or_insert(pushed);
                }
                if next.is_none() {
                    let (worker, attempt, steps) = (*worker, *attempt, std::mem::take(steps));
                    self.joined.push(Joined { job: number, worker, attempt, steps });
                }
            }
            Sweep::ReportWaits { worker, key, step, waits } => {
                for (&chunk, slot) in job.slots.range(first..).take(PART) {
                    let asked = job.contract.catalogue.piece(chunk).key == *key && slot.version() < *step;
                    if asked && waits.blocked.is_none() {
                        let blocked = slot.blocked(&job.active).filter(|open| !open.missing.is_empty());
                        waits.blocked =
                            blocked.map(|OpenStep { step, missing }| Blocked { chunk, step, missing });
                    }
                    waits.waiting.extend(slot.waiting(&job.active));
                }
                if next.is_none() {
                    let waits = std::mem::take(waits);
                    self.waits_reports.push(WaitsReport { job: number, worker: *worker, waits });
                }
            }
        }
        if let (Some(next), Some(job)) = (next, self.jobs.get_mut(&number)) {
            job.sweeps.push_front((sweep, next));
        }
    }

    /// Starts a sweep over all chunks of a job. With few chunks it is complete at once.
    fn sweep_all(&mut self, number: u32, sweep: Sweep) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.sweeps.push_back((sweep, 0));
        if job.sweeps.len() == 1 {
            self.sweep_part(number);
        }
    }

    /// Ends a job whose workers have finished, once other racks have received what they need ([`Shard::retired`]).
    /// Detaches the connections of its workers at once, and returns them.
    pub fn retire(&mut self, job: u32) -> Vec<u32> {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.retiring = true;
        }
        let endpoints = self.endpoints.iter().filter(|(_, endpoint)| endpoint.job == job);
        let (workers, racks): (Vec<_>, Vec<_>) = endpoints
            .map(|(&connection, endpoint)| (connection, endpoint.peer))
            .partition(|(_, peer)| matches!(peer, Peer::Worker(_)));
        let workers: Vec<u32> = workers.into_iter().map(|(connection, _)| connection).collect();
        workers.iter().for_each(|&connection| _ = self.detach(connection));
        racks.into_iter().for_each(|(connection, _)| self.send_control(connection, FrameKind::Leave));
        workers
    }

    /// Returns the jobs whose workers have finished.
    pub fn retired(&self) -> Vec<RetiredJob> {
        let owes = |number: u32, job: &ShardJob| {
            job.racks.iter().any(|path| !path.waiting.is_empty())
                || self
                    .endpoints
                    .values()
                    .any(|endpoint| endpoint.job == number && endpoint.link.waiting() > 0)
        };
        let retiring = self.jobs.iter().filter(|(_, job)| job.retiring);
        retiring.map(|(&number, job)| RetiredJob { job: number, delivered: !owes(number, job) }).collect()
    }

    /// Takes the racks that have finished a job that still needs something from them.
    pub fn departed_racks(&mut self) -> Vec<DepartedRack> {
        std::mem::take(&mut self.departed)
    }

    /// Ends a job. Detaches its connections, and returns them.
    pub fn close(&mut self, job: u32) -> Vec<u32> {
        if let Some(ended) = self.jobs.remove(&job) {
            self.ended = self.ended.with(ended.counters);
            self.closed.push(ended.slots);
        }
        let own = self.endpoints.iter().filter(|(_, endpoint)| endpoint.job == job);
        let own: Vec<u32> = own.map(|(&connection, _)| connection).collect();
        own.iter().for_each(|&connection| _ = self.detach(connection));
        own
    }

    /// Returns the connection of a job's worker.
    pub fn connection(&self, job: u32, worker: u32) -> Option<u32> {
        self.jobs.get(&job).and_then(|job| job.worker_connections[worker as usize])
    }

    /// Adds the connection of a worker or a rack; no other connection has its number. Returns false if there is no such
    /// job any more, or if the peer has another connection.
    pub fn attach(&mut self, connection: u32, job: u32, peer: Peer) -> bool {
        let Some(known) = self.jobs.get_mut(&job) else { return false };
        let mut link = Link::default();
        match peer {
            Peer::Worker(worker) if known.worker_connections[worker as usize].is_some() => return false,
            Peer::Worker(worker) => {
                known.worker_connections[worker as usize] = Some(connection);
                // In an asynchronous job a worker takes part once it is connected.
                known.active[worker as usize] |= known.contract.terms.pace == StepMode::Asynchronous;
            }
            Peer::Rack(rack) => {
                let path = known.racks.get_mut(rack as usize).filter(|path| path.connection.is_none());
                let Some(path) = path else { return false };
                path.connection = Some(connection);
                for (header, value) in path.waiting.drain(..) {
                    self.outgoing.write(&mut link, header, value, None);
                }
            }
        }
        self.endpoints.insert(connection, Endpoint { job, peer, link, ahead: 0, left: false });
        true
    }

    /// Removes a connection that is gone. Returns its job and its peer.
    pub fn detach(&mut self, connection: u32) -> Option<(u32, Peer)> {
        let mut endpoint = self.endpoints.remove(&connection)?;
        let abandoned = endpoint.link.abandon();
        self.release(endpoint.job, abandoned);
        if let Some(job) = self.jobs.get_mut(&endpoint.job) {
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
                    self.sweep_all(endpoint.job, Sweep::Detach { worker });
                }
            }
        }
        Some((endpoint.job, endpoint.peer))
    }

    /// Removes a worker that is lost or has left. Under [`LossPolicy::Shrink`] the others go on without it.
    pub fn lose(&mut self, job: u32, worker: u32) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        known.gone.insert(worker);
        known.expected.remove(&worker);
        known.active[worker as usize] = known.contract.terms.policy != LossPolicy::Shrink;
        self.sweep_all(job, Sweep::Advance);
    }

    /// Lets a restarted worker continue where it was, with the first step that it has not pushed.
    pub fn resume(&mut self, job: u32, worker: u32, attempt: Attempt) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        known.resumed.insert(worker);
        known.gone.remove(&worker);
        known.active[worker as usize] = true;
        self.sweep_all(job, Sweep::Resume { worker, attempt, steps: BTreeMap::new() });
    }

    /// Expects another worker to announce from which step on a restarted worker takes part.
    pub fn expect(&mut self, job: u32, worker: u32, attempt: Attempt) {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.expected.insert(worker, attempt);
        }
    }

    /// Reports which steps are behind a worker that takes part again.
    fn join(&mut self, job: u32, worker: u32, attempt: Attempt) {
        let Some(known) = self.jobs.get(&job) else { return };
        let mut steps = BTreeMap::new();
        for (&chunk, slot) in &known.slots {
            let (key, pushed) = (known.contract.catalogue.piece(chunk).key, slot.pushed(worker));
            steps.entry(key).and_modify(|least: &mut u64| *least = pushed.min(*least)).or_insert(pushed);
        }
        self.joined.push(Joined { job, worker, attempt, steps });
    }

    /// Takes the reports about workers that take part again.
    pub fn joined(&mut self) -> Vec<Joined> {
        std::mem::take(&mut self.joined)
    }

    /// Returns buffers that are written or abandoned to the job's pool.
    fn release(&mut self, job: u32, tickets: Vec<u64>) {
        let buffers = tickets.into_iter().filter_map(|ticket| self.outgoing.release(ticket));
        match self.jobs.get_mut(&job) {
            Some(job) => buffers.for_each(|buffer| job.pool.give(buffer)),
            None => buffers.for_each(drop),
        }
    }

    fn send_control(&mut self, connection: u32, kind: FrameKind) {
        let Some(endpoint) = self.endpoints.get_mut(&connection) else { return };
        let Some(job) = self.jobs.get(&endpoint.job) else { return };
        let epoch = if matches!(endpoint.peer, Peer::Rack(_)) { PEERS } else { job.epoch };
        endpoint.link.control(Header { kind, epoch, sequence: 0, chunk: 0 }, &[]);
    }

    /// Finds the first chunk of a vector whose open step is at most `step`, for which some workers wait and which
    /// others have not pushed. A worker asks; [`Shard::waits_reports`] returns the answer.
    pub fn report_waits(&mut self, job: u32, worker: u32, key: u32, step: u64) {
        self.sweep_all(job, Sweep::ReportWaits { worker, key, step, waits: Waits::default() });
    }

    /// Takes the answers to [`Shard::report_waits`].
    pub fn waits_reports(&mut self) -> Vec<WaitsReport> {
        std::mem::take(&mut self.waits_reports)
    }

    /// Returns a worker that is gone and without which its job cannot go on. Only under [`LossPolicy::Fail`].
    pub fn missed_worker(&mut self) -> Option<MissedWorker> {
        self.missed.pop_first()
    }

    /// Returns the counters of each job.
    pub fn counters(&self) -> BTreeMap<u32, Counters> {
        self.jobs.iter().map(|(&number, job)| (number, job.counters)).collect()
    }

    /// Returns the counters of all jobs together, including those that have ended.
    pub fn moved(&self) -> Counters {
        self.jobs.values().map(|job| job.counters).fold(self.ended, Counters::with)
    }

    /// Runs `f` on a slot, and continues the exchange among racks as far as possible.
    fn update(&mut self, job: u32, chunk: u32, f: impl FnOnce(&mut Slot, &mut Context<'_>)) {
        let mut summed = self.update_once(job, chunk, f);
        while let Some(sum) = summed {
            let total = self.exchange(job, chunk, |bridge, tools| bridge.summed(chunk, sum, tools));
            summed = total.and_then(|total| {
                self.update_once(job, chunk, |slot, context| slot.take_total(total, context))
            });
        }
    }

    /// Runs `f` on a slot and sends its replies. Returns this rack's sum, if it must be exchanged with other racks.
    fn update_once(
        &mut self,
        job: u32,
        chunk: u32,
        f: impl FnOnce(&mut Slot, &mut Context<'_>),
    ) -> Option<Sum> {
        let known = self.jobs.get_mut(&job)?;
        let slot = known.slots.get_mut(&chunk)?;
        let before = slot.version();
        let (mut replies, mut caught_up, mut summed) = (Vec::new(), Vec::new(), None);
        let mut context = Context {
            contract: &known.contract,
            active: &known.active,
            pool: &mut known.pool,
            replies: &mut replies,
            caught_up: &mut caught_up,
            bridge: known.bridge.as_ref().map(|_| &mut summed),
        };
        f(slot, &mut context);
        known.counters.steps += slot.version() - before;
        if known.contract.terms.policy == LossPolicy::Fail && !known.gone.is_empty() {
            let missing = slot.blocked(&known.active).map_or(Vec::new(), |open| open.missing);
            let missed = missing.into_iter().filter(|worker| known.gone.contains(worker));
            self.missed.extend(missed.map(|worker| MissedWorker { job, worker }));
        }
        for worker in caught_up {
            if let Some(endpoint) = known.worker_connections[worker as usize]
                .and_then(|connection| self.endpoints.get_mut(&connection))
            {
                endpoint.ahead = endpoint.ahead.saturating_sub(slot.bytes());
            }
        }
        // Usually all replies carry the same value, so its digest is computed once.
        let mut last: Option<(Arc<Buffer>, Digest)> = None;
        for Reply { worker, value } in replies {
            let Some(endpoint) = known.worker_connections[worker as usize]
                .and_then(|connection| self.endpoints.get_mut(&connection))
            else {
                continue;
            };
            let kind = FrameKind::Message(value.contributors);
            let header = Header { kind, epoch: known.epoch, sequence: value.version as u32, chunk };
            known.counters.bytes_out += slot.bytes() as u64;
            let digest = match last.take() {
                _ if !endpoint.link.checked() => None,
                Some((buffer, digest)) if Arc::ptr_eq(&buffer, &value.buffer) => Some(digest),
                _ => Some(Digest::of(value.buffer.as_slice())),
            };
            last = digest.map(|digest| (Arc::clone(&value.buffer), digest));
            self.outgoing.write(&mut endpoint.link, header, value.buffer, digest);
        }
        summed
    }

    /// Runs `f` on the exchange of a chunk among racks and sends its messages. Returns the sum of all racks once it is
    /// known.
    fn exchange(
        &mut self,
        job: u32,
        chunk: u32,
        f: impl FnOnce(&mut Bridge, &mut Tools<'_>) -> Vec<Output>,
    ) -> Option<Sum> {
        let known = self.jobs.get_mut(&job)?;
        let (slot, bridge) = (known.slots.get(&chunk)?, known.bridge.as_mut()?);
        let (element, step) = (slot.element(), slot.version() + 1);
        let mut tools = Tools { element, reduction: known.contract.reduction, pool: &mut known.pool };
        let (mut total, mut sends) = (None, Vec::new());
        for done in f(bridge, &mut tools) {
            match done {
                Output::Send { to, total, sum, contributors } => {
                    let number = contributors | if total { TOTAL } else { 0 };
                    sends.push((to, number, step, sum));
                }
                Output::Total(sum) => total = Some(sum),
            }
        }
        for (to, number, step, sum) in sends {
            self.send_to_rack(job, to, number, step, chunk, sum);
        }
        total
    }

    /// Sends a chunk's buffer to the hub of a rack, now or once there is a connection.
    fn send_to_rack(&mut self, job: u32, to: u32, number: u16, step: u64, chunk: u32, buffer: Arc<Buffer>) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let header = Header { kind: FrameKind::Message(number), epoch: PEERS, sequence: step as u32, chunk };
        known.counters.bytes_out += buffer.as_slice().len() as u64;
        let path = &mut known.racks[to as usize];
        match path.connection.and_then(|connection| self.endpoints.get_mut(&connection)) {
            Some(endpoint) => self.outgoing.write(&mut endpoint.link, header, buffer, None),
            None if path.left => self.departed.push(DepartedRack { job, rack: to }),
            None => path.waiting.push((header, buffer)),
        }
    }

    fn handle(&mut self, connection: u32, event: Event) -> Result<(), ProtocolError> {
        match self.endpoints.get(&connection).map(|endpoint| endpoint.peer) {
            Some(Peer::Worker(worker)) => self.handle_worker(connection, worker, event),
            Some(Peer::Rack(rack)) => self.handle_rack(connection, rack, event),
            None => Ok(()),
        }
    }

    fn handle_worker(&mut self, connection: u32, worker: u32, event: Event) -> Result<(), ProtocolError> {
        let Some(endpoint) = self.endpoints.get_mut(&connection) else { return Ok(()) };
        let number = endpoint.job;
        let Some(job) = self.jobs.get_mut(&number) else { return Ok(()) };
        match event {
            Event::Header(header) if header.epoch != job.epoch => {
                Err(ProtocolError::Epoch { header, ours: job.epoch })
            }
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    FrameKind::Heartbeat | FrameKind::Leave => (0, Landing::Nothing),
                    FrameKind::Begin => (NOTICE, Landing::Aside(job.pool.take(NOTICE))),
                    FrameKind::Message(verb) => landing(job, worker, verb, header)?,
                    _ => return Err(ProtocolError::Unknown(header)),
                };
                endpoint.link.land(length, landing);
                Ok(())
            }
            Event::Frame { header, landing } => match (header.kind, landing) {
                (FrameKind::Leave, _) => {
                    endpoint.left = true;
                    Ok(())
                }
                (FrameKind::Begin, Landing::Aside(buffer)) => {
                    let notice = buffer.as_slice().try_into().ok().and_then(Notice::decode);
                    job.pool.give(buffer);
                    let notice = notice.ok_or(ProtocolError::Unknown(header))?;
                    self.handle_notice(number, worker, notice, header)
                }
                (FrameKind::Message(verb), landing) => {
                    let verb = Verb::of(verb).ok_or(ProtocolError::Unknown(header))?;
                    self.handle_request(connection, number, worker, verb, header, landing);
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }

    /// Handles what the same core of a hub in another rack has sent.
    fn handle_rack(&mut self, connection: u32, rack: u32, event: Event) -> Result<(), ProtocolError> {
        let Some(endpoint) = self.endpoints.get_mut(&connection) else { return Ok(()) };
        let number = endpoint.job;
        let Some(job) = self.jobs.get_mut(&number) else { return Ok(()) };
        match event {
            Event::Header(header) if header.epoch != PEERS => {
                Err(ProtocolError::Epoch { header, ours: PEERS })
            }
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    FrameKind::Heartbeat | FrameKind::Leave => (0, Landing::Nothing),
                    FrameKind::Message(count) => {
                        let slot = job.slots.get(&header.chunk).ok_or(ProtocolError::Unknown(header))?;
                        let given = count == GIVEN && slot.version() == 0;
                        let next = header.sequence == (slot.version() + 1) as u32;
                        let bridge = job.bridge.as_ref().filter(|_| next);
                        let expected_sum = bridge
                            .is_some_and(|bridge| bridge.expects(rack, header.chunk, count & TOTAL != 0));
                        if !expected_sum && !given {
                            return Err(ProtocolError::Unknown(header));
                        }
                        (slot.bytes(), Landing::Aside(job.pool.take(slot.bytes())))
                    }
                    _ => return Err(ProtocolError::Unknown(header)),
                };
                endpoint.link.land(length, landing);
                Ok(())
            }
            Event::Frame { header, landing } => {
                match (header.kind, landing) {
                    (FrameKind::Leave, _) => endpoint.left = true,
                    (FrameKind::Message(GIVEN), Landing::Aside(buffer)) => {
                        self.update(number, header.chunk, |slot, context| slot.set(buffer, context));
                    }
                    (FrameKind::Message(count), Landing::Aside(buffer)) => {
                        let (total, sum) = (count & TOTAL != 0, Sum { buffer, contributors: count & !TOTAL });
                        job.counters.bytes_in += sum.buffer.as_slice().len() as u64;
                        let chunk = header.chunk;
                        let total = self.exchange(number, chunk, |bridge, tools| {
                            bridge.received(rack, chunk, total, sum, tools)
                        });
                        if let Some(sum) = total {
                            self.update(number, chunk, |slot, context| slot.take_total(sum, context));
                        }
                    }
                    _ => {}
                }
                Ok(())
            }
        }
    }

    /// Handles a worker's request about a chunk.
    fn handle_request(
        &mut self,
        connection: u32,
        job: u32,
        worker: u32,
        verb: Verb,
        header: Header,
        landing: Landing,
    ) {
        let chunk = header.chunk;
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let buffer = match landing {
            Landing::Aside(buffer) => Some(buffer),
            _ => None,
        };
        if let Some(buffer) = &buffer {
            known.counters.bytes_in += buffer.as_slice().len() as u64;
            known.counters.pushes += u64::from(verb != Verb::Set);
        }
        let (mut ahead, mut given) = (0, None);
        let racks = known.bridge.is_some();
        self.update(job, chunk, |slot, context| match (verb, buffer) {
            (Verb::Set, Some(buffer)) => {
                given = racks.then(|| Arc::new(buffer.copy()));
                slot.set(buffer, context);
            }
            (Verb::Push | Verb::PushPull, Some(buffer)) => {
                let bytes = slot.bytes();
                slot.push(worker, buffer, verb == Verb::PushPull, context);
                ahead = if slot.ahead(worker) > 0 { bytes } else { 0 };
            }
            (Verb::Pull, None) => slot.pull(worker, slot.full_version(header.sequence), context),
            // The contribution was received before. It does not count again, but the worker needs the result.
            (Verb::PushPull, None) => {
                slot.pull(worker, slot.full_version(header.sequence), context);
                slot.push_again(worker, header.sequence, context);
            }
            (Verb::Push, None) => slot.push_again(worker, header.sequence, context),
            (Verb::Set, None) | (Verb::Pull, Some(_)) => {}
        });
        if let Some(endpoint) = self.endpoints.get_mut(&connection) {
            endpoint.ahead += ahead;
        }
        // Other racks begin with the same value.
        if let (Some(given), Some(known)) = (given, self.jobs.get(&job)) {
            let own = known.bridge.as_ref().map_or(0, Bridge::rack);
            for rack in (0..known.racks.len() as u32).filter(|&rack| rack != own) {
                self.send_to_rack(job, rack, GIVEN, 0, chunk, Arc::clone(&given));
            }
        }
    }

    /// Handles a notice that holds from here on.
    fn handle_notice(
        &mut self,
        job: u32,
        worker: u32,
        notice: Notice,
        header: Header,
    ) -> Result<(), ProtocolError> {
        let Some(known) = self.jobs.get_mut(&job) else { return Ok(()) };
        match notice {
            Notice::Rate { rate, key } => {
                let asynchronous = known.contract.terms.pace == StepMode::Asynchronous;
                let of = |chunk: u32| known.contract.catalogue.piece(chunk).key;
                let meant =
                    known.slots.iter_mut().filter(|(chunk, _)| key.is_none_or(|key| of(**chunk) == key));
                meant.for_each(|(_, slot)| slot.set_rate(rate, worker, asynchronous));
            }
            Notice::Admit { worker: newcomer, incarnation } => {
                if newcomer >= known.contract.terms.workers || newcomer == worker {
                    return Err(ProtocolError::Unknown(header));
                }
                // Ignore an outdated announcement: the worker may be gone again, or it may have pushed since another
                // leader announced it.
                let begun = known.slots.values().any(|slot| slot.has_begun(newcomer));
                let expected = known.expected.get(&newcomer).copied();
                let Some(attempt) = expected.filter(|attempt| attempt.incarnation == incarnation) else {
                    return Ok(());
                };
                if begun && known.active[newcomer as usize] {
                    return Ok(());
                }
                known.active[newcomer as usize] = true;
                known.gone.remove(&newcomer);
                let chunks: Vec<u32> = known.slots.keys().copied().collect();
                for chunk in chunks {
                    self.update(job, chunk, |slot, context| {
                        slot.admit(newcomer, worker);
                        slot.advance(context);
                    });
                }
                self.join(job, newcomer, attempt);
            }
        }
        Ok(())
    }
}

/// Returns the length of the payload that a worker is about to send for a chunk, and where to put it.
fn landing(
    job: &mut ShardJob,
    worker: u32,
    verb: u16,
    header: Header,
) -> Result<(usize, Landing), ProtocolError> {
    let slot = job.slots.get(&header.chunk).ok_or(ProtocolError::Unknown(header))?;
    let mut aside = || (slot.bytes(), Landing::Aside(job.pool.take(slot.bytes())));
    match Verb::of(verb).ok_or(ProtocolError::Unknown(header))? {
        Verb::Pull if slot.has_too_many_pulls(worker) => Err(ProtocolError::Unknown(header)),
        Verb::Pull => Ok((0, Landing::Nothing)),
        // Racks would end up with different values if they took this one in at different steps.
        Verb::Set if job.bridge.is_some() && slot.version() > 0 => Err(ProtocolError::Unknown(header)),
        Verb::Set => Ok(aside()),
        Verb::Push | Verb::PushPull if slot.lacks_parameters() => {
            Err(ProtocolError::NoParameters(job.contract.name(header.chunk).to_owned()))
        }
        Verb::Push | Verb::PushPull => {
            let resumed = job.resumed.contains(&worker);
            match slot.expects(worker, header.sequence, job.contract.terms.pace, resumed) {
                Expectation::New => Ok(aside()),
                Expectation::Again => Ok((slot.bytes(), Landing::Nothing)),
                Expectation::Unexpected => Err(ProtocolError::Unknown(header)),
            }
        }
    }
}

impl Machine for Shard {
    fn waiting(&self, peer: u32) -> usize {
        self.endpoints.get(&peer).map_or(0, |endpoint| endpoint.link.waiting())
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        if let Some(endpoint) = self.endpoints.get_mut(&peer) {
            endpoint.link.gather(slices, most);
        }
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let Some(endpoint) = self.endpoints.get_mut(&peer) else { return };
        let mut done = Vec::new();
        endpoint.link.sent(bytes, &mut done);
        let job = endpoint.job;
        self.release(job, done);
    }

    /// Does not read from a worker that is too far ahead or does not take part in the job yet, nor before the job's
    /// chunks are assigned.
    fn reads(&self, peer: u32) -> bool {
        let Some(endpoint) = self.endpoints.get(&peer) else { return false };
        let Some(job) = self.jobs.get(&endpoint.job).filter(|job| job.assigned && job.sweeps.is_empty())
        else {
            return false;
        };
        // Do not read from a peer that does not read what it asked for.
        if endpoint.link.waiting() > job.ahead {
            return false;
        }
        let Peer::Worker(worker) = endpoint.peer else { return true };
        job.active[worker as usize] && endpoint.ahead <= job.ahead
    }

    fn coming(&self, peer: u32) -> Option<PartialMessage> {
        self.endpoints.get(&peer).and_then(|endpoint| endpoint.link.coming())
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.endpoints.get_mut(&peer).and_then(|endpoint| endpoint.link.direct())
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        let Some(endpoint) = self.endpoints.get_mut(&peer) else { return Ok(()) };
        match endpoint.link.read_directly(bytes)? {
            Some(event) => self.handle(peer, event),
            None => Ok(()),
        }
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while let Some(endpoint) = self.endpoints.get_mut(&peer) {
            let Some(event) = endpoint.link.take(&mut bytes)? else { return Ok(()) };
            self.handle(peer, event)?;
        }
        Ok(())
    }

    fn disable_checksums(&mut self, peer: u32) {
        if let Some(endpoint) = self.endpoints.get_mut(&peer) {
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
        self.endpoints.get(&peer).is_some_and(|endpoint| endpoint.left)
    }
}
