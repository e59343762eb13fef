//! The chunks of one core of a hub, of all its jobs, with a connection to each of their workers: no sockets, clocks or
//! threads, and nothing shared with other cores (luo2020, section 3.2.4).

use super::bridge::{Bridge, Step, Sum, Tools};
use super::frame::{GIVEN, NOTICE, Notice, PEERS, TOTAL, Verb};
use super::slot::{Admission, Answer, Setting, Slot};
use super::terms::{Contract, Pace, Policy};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use syncline_protocol::fault::Broken;
use syncline_protocol::link::{Event, Landing, Link};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_protocol::wire::{Digest, Header, Kind};

/// How much a core has moved for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Bytes of contributions that came in.
    pub bytes_in: u64,
    /// Bytes of values that went out.
    pub bytes_out: u64,
    /// Contributions that came in, by chunk.
    pub pushes: u64,
    /// Steps that were completed, by chunk.
    pub steps: u64,
}

impl Counters {
    /// The sums of both.
    pub(super) const fn with(self, other: Self) -> Self {
        Self {
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
            pushes: self.pushes + other.pushes,
            steps: self.steps + other.steps,
        }
    }
}

/// A chunk that some wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The chunk.
    pub chunk: u32,
    /// The step that is open.
    pub step: u64,
    /// Workers that have not pushed.
    pub missing: Vec<u32>,
}

/// Who waits at a core, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// What holds up the step that was asked about, if anything does.
    pub held_up: Option<HeldUp>,
    /// Workers that wait for others, whatever for.
    pub waiting: BTreeSet<u32>,
}

/// Which of those that came back under a worker's number is meant, and which question about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    /// What tells it from what it was before.
    pub incarnation: u64,
    /// Counts the questions: whoever was asked before may have gone.
    pub question: u64,
}

/// A worker that is part of a job again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The job.
    pub job: u32,
    /// The worker.
    pub worker: u32,
    /// Which one, and what question this answers.
    pub which: Which,
    /// The steps behind it, of each vector that has chunks here.
    pub steps: BTreeMap<u32, u64>,
}

/// Who a connection is with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A worker of the job.
    Worker(u32),
    /// The same core of a hub in another rack.
    Rack(u32),
}

/// What a job may take of a core's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that a worker may be ahead of others before no more is read from it.
    pub ahead: usize,
    /// Bytes of buffers: those beyond what is in use are not kept.
    pub most: usize,
}

/// A connection.
#[derive(Debug)]
struct Seat {
    job: u32,
    who: Who,
    link: Link,
    /// Bytes that it has pushed beyond steps that are open.
    ahead: usize,
    left: bool,
}

/// The way to a rack: its connection, and what waits for one.
#[derive(Debug, Default)]
struct Path {
    connection: Option<u32>,
    waiting: Vec<(Header, Arc<Buffer>)>,
    /// Whether the rack was through with the job, and has gone.
    left: bool,
}

/// Something that concerns all chunks of a job. They may be millions, so it is done a part at a time, and nothing is read of the
/// job meanwhile: other jobs on the core notice nothing.
#[derive(Debug)]
enum Sweep {
    /// These chunks are this core's; those before the index are there already.
    Lay(Vec<u32>, usize),
    /// A worker's connection is gone.
    Detach(u32),
    /// A worker is lost: others may go on without it.
    Lose,
    /// A worker takes up where it was.
    Resume(u32, Which, BTreeMap<u32, u64>),
    /// Who holds up a worker, at a step of a vector?
    Question { worker: u32, key: u32, step: u64, queue: Queue },
}

/// Most chunks that are seen to at a time: about a millisecond's work.
const PART: usize = 1 << 11;

/// A job's chunks on this core.
#[derive(Debug)]
struct Job {
    contract: Arc<Contract>,
    epoch: u16,
    slots: BTreeMap<u32, Slot>,
    /// What is to be done with all chunks, and the first chunk that is still to be seen to.
    sweeps: VecDeque<(Sweep, u32)>,
    /// Whether it is known which chunks are this core's: until then nothing is read of the job.
    laid: bool,
    /// Bytes that a worker may be ahead before no more is read from it.
    ahead: usize,
    pool: Pool,
    /// Whether this rack is through with it: what other racks are owed still goes to them.
    retiring: bool,
    /// Where there are hubs in other racks.
    bridge: Option<Bridge>,
    racks: Vec<Path>,
    here: Vec<bool>,
    /// Workers that have left, or are lost.
    gone: BTreeSet<u32>,
    /// Each worker's connection.
    seats: Vec<Option<u32>>,
    /// Workers that were started again, and take up where they were.
    resumed: BTreeSet<u32>,
    /// Workers that another one is to admit, by the number that tells them from what they were before.
    expected: BTreeMap<u32, Which>,
    counters: Counters,
}

/// Buffers that are being written, which several connections may share.
#[derive(Debug, Default)]
struct Leaving {
    buffers: BTreeMap<u64, Arc<Buffer>>,
    ticket: u64,
}

impl Leaving {
    /// Has a buffer written on a connection, and keeps it until it is. Its digest may be known.
    fn write(&mut self, link: &mut Link, header: Header, buffer: Arc<Buffer>, digest: Option<Digest>) {
        self.ticket += 1;
        link.shared_message(header, Arc::clone(&buffer), digest, (self.ticket, 0, 0));
        self.buffers.insert(self.ticket, buffer);
    }

    /// A buffer is written, or will not be: it, where nobody else has it any more.
    fn release(&mut self, ticket: u64) -> Option<Buffer> {
        self.buffers.remove(&ticket).and_then(|buffer| Arc::try_unwrap(buffer).ok())
    }
}

/// One core's chunks.
#[derive(Debug, Default)]
pub struct Shard {
    jobs: BTreeMap<u32, Job>,
    /// What was moved for jobs that have ended.
    ended: Counters,
    seats: BTreeMap<u32, Seat>,
    leaving: Leaving,
    /// Jobs that somebody who is gone holds up.
    missed: BTreeSet<(u32, u32)>,
    joined: Vec<Joined>,
    deserted: Vec<(u32, u32)>,
    /// Who waits for whom, as it was asked: of which job, and which worker asked.
    answers: Vec<(u32, u32, Queue)>,
    /// Chunks of jobs that are over: to let go of them takes time, too.
    graves: Vec<BTreeMap<u32, Slot>>,
}

impl Shard {
    /// Begins a job under a number.
    pub fn open(&mut self, number: u32, contract: Arc<Contract>, epoch: u16) {
        let workers = contract.terms.workers as usize;
        let job = Job {
            contract,
            epoch,
            slots: BTreeMap::new(),
            sweeps: VecDeque::new(),
            laid: false,
            ahead: 0,
            pool: Pool::default(),
            retiring: false,
            bridge: None,
            racks: Vec::new(),
            here: vec![true; workers],
            gone: BTreeSet::new(),
            seats: vec![None; workers],
            resumed: BTreeSet::new(),
            expected: BTreeMap::new(),
            counters: Counters::default(),
        };
        self.jobs.insert(number, job);
    }

    /// Says which of a job's chunks are this core's, before any of them comes; in which rack it is, where there are some; and
    /// what it may take.
    pub fn lay(&mut self, number: u32, chunks: Vec<u32>, rack: Option<u32>, bounds: Bounds) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        if let (Some(racks), Some(rack)) = (&job.contract.terms.racks, rack) {
            let all = racks.hubs.len();
            job.bridge = Some(Bridge::new(racks.between, rack, all as u32));
            job.racks = (0..all).map(|_| Path::default()).collect();
            for (here, &of) in job.here.iter_mut().zip(&racks.of) {
                *here = of == rack;
            }
        }
        job.ahead = bounds.ahead;
        job.pool = Pool::of(bounds.most);
        job.sweeps.push_back((Sweep::Lay(chunks, 0), 0));
        self.part(number);
    }

    /// Goes on with what concerns all chunks of a job; whether there is more to do.
    pub fn sweep(&mut self) -> bool {
        if let Some(grave) = self.graves.last_mut() {
            (0..PART).for_each(|_| drop(grave.pop_first()));
            if grave.is_empty() {
                self.graves.pop();
            }
        }
        let jobs: Vec<u32> =
            self.jobs.iter().filter(|(_, job)| !job.sweeps.is_empty()).map(|(&number, _)| number).collect();
        jobs.into_iter().for_each(|job| self.part(job));
        !self.graves.is_empty() || self.jobs.values().any(|job| !job.sweeps.is_empty())
    }

    /// Does a part of what concerns all chunks of a job.
    fn part(&mut self, number: u32) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let Some((mut sweep, first)) = job.sweeps.pop_front() else { return };
        let chunks: Vec<u32> = match &sweep {
            Sweep::Lay(..) => Vec::new(),
            _ => job.slots.range(first..).take(PART).map(|(&chunk, _)| chunk).collect(),
        };
        let mut next = chunks.last().filter(|_| chunks.len() == PART).map(|last| last + 1);
        match &mut sweep {
            Sweep::Lay(chunks, done) => {
                let more = &chunks[*done..(*done + PART).min(chunks.len())];
                job.slots.extend(more.iter().map(|&chunk| (chunk, Slot::new(&job.contract, chunk))));
                *done += more.len();
                job.laid = *done == chunks.len();
                next = (!job.laid).then_some(0);
            }
            Sweep::Detach(worker) => {
                job.slots.range_mut(first..).take(PART).for_each(|(_, slot)| slot.lose(*worker));
            }
            Sweep::Lose => {
                for chunk in chunks {
                    self.with(number, chunk, |slot, setting| slot.settle(setting));
                }
            }
            Sweep::Resume(worker, which, steps) => {
                for (&chunk, slot) in job.slots.range_mut(first..).take(PART) {
                    slot.resume(*worker);
                    let key = job.contract.catalogue.piece(chunk).key;
                    let least: &mut u64 = steps.entry(key).or_insert(u64::MAX);
                    *least = slot.pushed(*worker).min(*least);
                }
                if next.is_none() {
                    let (worker, which, steps) = (*worker, *which, std::mem::take(steps));
                    self.joined.push(Joined { job: number, worker, which, steps });
                }
            }
            Sweep::Question { worker, key, step, queue } => {
                for (&chunk, slot) in job.slots.range(first..).take(PART) {
                    let asked = job.contract.catalogue.piece(chunk).key == *key && slot.version() < *step;
                    if asked && queue.held_up.is_none() {
                        let held_up = slot.held_up(&job.here).filter(|(_, missing)| !missing.is_empty());
                        queue.held_up = held_up.map(|(step, missing)| HeldUp { chunk, step, missing });
                    }
                    queue.waiting.extend(slot.waiting(&job.here));
                }
                if next.is_none() {
                    self.answers.push((number, *worker, std::mem::take(queue)));
                }
            }
        }
        if let (Some(next), Some(job)) = (next, self.jobs.get_mut(&number)) {
            job.sweeps.push_front((sweep, next));
        }
    }

    /// Has something done with all chunks of a job: at once, where they are few.
    fn sweep_all(&mut self, number: u32, sweep: Sweep) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.sweeps.push_back((sweep, 0));
        if job.sweeps.len() == 1 {
            self.part(number);
        }
    }

    /// Workers are through with a job. It ends once other racks have what they are owed ([`Shard::retired`]); connections of
    /// workers are let go of at once: which those were.
    pub fn retire(&mut self, job: u32) -> Vec<u32> {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.retiring = true;
        }
        let seats = self.seats.iter().filter(|(_, seat)| seat.job == job);
        let (workers, racks): (Vec<_>, Vec<_>) = seats
            .map(|(&connection, seat)| (connection, seat.who))
            .partition(|(_, who)| matches!(who, Who::Worker(_)));
        let workers: Vec<u32> = workers.into_iter().map(|(connection, _)| connection).collect();
        workers.iter().for_each(|&connection| _ = self.detach(connection));
        racks.into_iter().for_each(|(connection, _)| self.sign(connection, Kind::Leave));
        workers
    }

    /// Jobs that workers are through with, and whether other racks have what they are owed.
    pub fn retired(&self) -> Vec<(u32, bool)> {
        let owes = |number: u32, job: &Job| {
            job.racks.iter().any(|path| !path.waiting.is_empty())
                || self.seats.values().any(|seat| seat.job == number && seat.link.waiting() > 0)
        };
        let retiring = self.jobs.iter().filter(|(_, job)| job.retiring);
        retiring.map(|(&number, job)| (number, !owes(number, job))).collect()
    }

    /// Racks that are through with a job of which something more is wanted: of which job, and which rack.
    pub fn deserted(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.deserted)
    }

    /// Ends a job, and lets go of its connections: which those were.
    pub fn close(&mut self, job: u32) -> Vec<u32> {
        if let Some(ended) = self.jobs.remove(&job) {
            self.ended = self.ended.with(ended.counters);
            self.graves.push(ended.slots);
        }
        let own = self.seats.iter().filter(|(_, seat)| seat.job == job);
        let own: Vec<u32> = own.map(|(&connection, _)| connection).collect();
        own.iter().for_each(|&connection| _ = self.detach(connection));
        own
    }

    /// The connection of a job's worker.
    pub fn connection(&self, job: u32, worker: u32) -> Option<u32> {
        self.jobs.get(&job).and_then(|job| job.seats[worker as usize])
    }

    /// A worker or a rack has a connection, under a number that no other connection has; whether it may. It may not where
    /// there is no such job any more, or another connection is for the same.
    pub fn attach(&mut self, connection: u32, job: u32, who: Who) -> bool {
        let Some(known) = self.jobs.get_mut(&job) else { return false };
        let mut link = Link::default();
        match who {
            Who::Worker(worker) if known.seats[worker as usize].is_some() => return false,
            Who::Worker(worker) => {
                known.seats[worker as usize] = Some(connection);
                // Without synchrony whoever comes is there.
                known.here[worker as usize] |= known.contract.terms.pace == Pace::Asynchronous;
            }
            Who::Rack(rack) => {
                let path = known.racks.get_mut(rack as usize).filter(|path| path.connection.is_none());
                let Some(path) = path else { return false };
                path.connection = Some(connection);
                for (header, value) in path.waiting.drain(..) {
                    self.leaving.write(&mut link, header, value, None);
                }
            }
        }
        self.seats.insert(connection, Seat { job, who, link, ahead: 0, left: false });
        true
    }

    /// A connection is gone: of which job, and whose it was.
    pub fn detach(&mut self, connection: u32) -> Option<(u32, Who)> {
        let mut seat = self.seats.remove(&connection)?;
        let abandoned = seat.link.abandon();
        self.release(seat.job, abandoned.into_iter().map(|(ticket, ..)| ticket));
        if let Some(job) = self.jobs.get_mut(&seat.job) {
            let place = match seat.who {
                Who::Worker(worker) => &mut job.seats[worker as usize],
                Who::Rack(rack) => {
                    job.racks[rack as usize].left |= seat.left;
                    &mut job.racks[rack as usize].connection
                }
            };
            if *place == Some(connection) {
                *place = None;
                if let (Who::Worker(worker), false) = (seat.who, job.retiring) {
                    self.sweep_all(seat.job, Sweep::Detach(worker));
                }
            }
        }
        Some((seat.job, seat.who))
    }

    /// A worker is lost, or has left. Under [`Policy::Shrink`] the others go on without it.
    pub fn lose(&mut self, job: u32, worker: u32) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        known.gone.insert(worker);
        known.expected.remove(&worker);
        known.here[worker as usize] = known.contract.terms.policy != Policy::Shrink;
        self.sweep_all(job, Sweep::Lose);
    }

    /// A worker that was lost is there again, and takes up where it was: it owes the steps that it has not pushed.
    pub fn resume(&mut self, job: u32, worker: u32, which: Which) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        known.resumed.insert(worker);
        known.gone.remove(&worker);
        known.here[worker as usize] = true;
        self.sweep_all(job, Sweep::Resume(worker, which, BTreeMap::new()));
    }

    /// A worker that was lost is there again, and another one is going to say from when on it is part of the job.
    pub fn expect(&mut self, job: u32, worker: u32, which: Which) {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.expected.insert(worker, which);
        }
    }

    /// Says which steps are behind a worker that is part of a job again.
    fn join(&mut self, job: u32, worker: u32, which: Which) {
        let Some(known) = self.jobs.get(&job) else { return };
        let mut steps = BTreeMap::new();
        for (&chunk, slot) in &known.slots {
            let least: &mut u64 = steps.entry(known.contract.catalogue.piece(chunk).key).or_insert(u64::MAX);
            *least = slot.pushed(worker).min(*least);
        }
        self.joined.push(Joined { job, worker, which, steps });
    }

    /// Workers that are part of a job again since it was asked last.
    pub fn joined(&mut self) -> Vec<Joined> {
        std::mem::take(&mut self.joined)
    }

    /// Buffers of a job are written, or will not be: they may be used again.
    fn release(&mut self, job: u32, tickets: impl Iterator<Item = u64>) {
        let buffers = tickets.filter_map(|ticket| self.leaving.release(ticket));
        match self.jobs.get_mut(&job) {
            Some(job) => buffers.for_each(|buffer| job.pool.give(buffer)),
            None => buffers.for_each(drop),
        }
    }

    fn sign(&mut self, connection: u32, kind: Kind) {
        let Some(seat) = self.seats.get_mut(&connection) else { return };
        let Some(job) = self.jobs.get(&seat.job) else { return };
        let epoch = if matches!(seat.who, Who::Rack(_)) { PEERS } else { job.epoch };
        seat.link.control(Header { kind, epoch, sequence: 0, chunk: 0 }, &[]);
    }

    /// Who waits for whom: the first chunk of a vector that some wait for and others have not pushed, if the step that is open
    /// is none after `step`. A worker asks; [`Shard::answers`] has the answer.
    pub fn question(&mut self, job: u32, worker: u32, key: u32, step: u64) {
        self.sweep_all(job, Sweep::Question { worker, key, step, queue: Queue::default() });
    }

    /// Answers to what was asked: of which job, and which worker asked.
    pub fn answers(&mut self) -> Vec<(u32, u32, Queue)> {
        std::mem::take(&mut self.answers)
    }

    /// A job that cannot go on without a worker that is gone: both. Only under [`Policy::Fail`].
    pub fn missed(&mut self) -> Option<(u32, u32)> {
        self.missed.pop_first()
    }

    /// How much was moved for each job.
    pub fn counters(&self) -> BTreeMap<u32, Counters> {
        self.jobs.iter().map(|(&number, job)| (number, job.counters)).collect()
    }

    /// How much was moved for all jobs, those that have ended included.
    pub fn moved(&self) -> Counters {
        self.jobs.values().map(|job| job.counters).fold(self.ended, Counters::with)
    }

    /// Does something with a slot, and sees to what comes of it.
    fn with(&mut self, job: u32, chunk: u32, act: impl FnOnce(&mut Slot, &mut Setting<'_>)) {
        let mut summed = self.once(job, chunk, act);
        while let Some(sum) = summed {
            let total = self.cross(job, chunk, |bridge, tools| bridge.summed(chunk, sum, tools));
            summed =
                total.and_then(|total| self.once(job, chunk, |slot, setting| slot.concluded(total, setting)));
        }
    }

    /// Does something with a slot, and answers whom it has to; what this rack has summed, where other racks have a part in it.
    fn once(&mut self, job: u32, chunk: u32, act: impl FnOnce(&mut Slot, &mut Setting<'_>)) -> Option<Sum> {
        let known = self.jobs.get_mut(&job)?;
        let slot = known.slots.get_mut(&chunk)?;
        let before = slot.version();
        let (mut answers, mut caught_up, mut summed) = (Vec::new(), Vec::new(), None);
        let mut setting = Setting {
            contract: &known.contract,
            here: &known.here,
            pool: &mut known.pool,
            answers: &mut answers,
            caught_up: &mut caught_up,
            bridge: known.bridge.as_ref().map(|_| &mut summed),
        };
        act(slot, &mut setting);
        known.counters.steps += slot.version() - before;
        if known.contract.terms.policy == Policy::Fail && !known.gone.is_empty() {
            let missing = slot.held_up(&known.here).map_or(Vec::new(), |(_, missing)| missing);
            let missed = missing.into_iter().filter(|worker| known.gone.contains(worker));
            self.missed.extend(missed.map(|worker| (job, worker)));
        }
        for worker in caught_up {
            if let Some(seat) = known.seats[worker as usize].and_then(|seat| self.seats.get_mut(&seat)) {
                seat.ahead = seat.ahead.saturating_sub(slot.bytes());
            }
        }
        // The same value goes to all, as a rule.
        let mut last: Option<(Arc<Buffer>, Digest)> = None;
        for Answer { worker, value } in answers {
            let Some(seat) = known.seats[worker as usize].and_then(|seat| self.seats.get_mut(&seat)) else {
                continue;
            };
            let kind = Kind::Message(value.contributors);
            let header = Header { kind, epoch: known.epoch, sequence: value.version as u32, chunk };
            known.counters.bytes_out += slot.bytes() as u64;
            let digest = match last.take() {
                _ if !seat.link.checked() => None,
                Some((buffer, digest)) if Arc::ptr_eq(&buffer, &value.buffer) => Some(digest),
                _ => Some(Digest::of(value.buffer.as_slice())),
            };
            last = digest.map(|digest| (Arc::clone(&value.buffer), digest));
            self.leaving.write(&mut seat.link, header, value.buffer, digest);
        }
        summed
    }

    /// Goes on with the exchange among racks; the sum of all, once it is there.
    fn cross(
        &mut self,
        job: u32,
        chunk: u32,
        act: impl FnOnce(&mut Bridge, &mut Tools<'_>) -> Vec<Step>,
    ) -> Option<Sum> {
        let known = self.jobs.get_mut(&job)?;
        let (slot, bridge) = (known.slots.get(&chunk)?, known.bridge.as_mut()?);
        let (element, step) = (slot.element(), slot.version() + 1);
        let mut tools = Tools { element, reduction: known.contract.reduction, pool: &mut known.pool };
        let (mut concluded, mut sends) = (None, Vec::new());
        for done in act(bridge, &mut tools) {
            match done {
                Step::Send { to, total, sum, contributors } => {
                    let number = contributors | if total { TOTAL } else { 0 };
                    sends.push((to, number, step, sum));
                }
                Step::Conclude(sum) => concluded = Some(sum),
            }
        }
        for (to, number, step, sum) in sends {
            self.post(job, to, (number, step, chunk), sum);
        }
        concluded
    }

    /// Sends something of a chunk to the hub of a rack, now or once there is a connection.
    fn post(&mut self, job: u32, to: u32, (number, step, chunk): (u16, u64, u32), buffer: Arc<Buffer>) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let header = Header { kind: Kind::Message(number), epoch: PEERS, sequence: step as u32, chunk };
        known.counters.bytes_out += buffer.as_slice().len() as u64;
        let path = &mut known.racks[to as usize];
        match path.connection.and_then(|connection| self.seats.get_mut(&connection)) {
            Some(seat) => self.leaving.write(&mut seat.link, header, buffer, None),
            None if path.left => self.deserted.push((job, to)),
            None => path.waiting.push((header, buffer)),
        }
    }

    fn happened(&mut self, connection: u32, event: Event) -> Result<(), Broken> {
        match self.seats.get(&connection).map(|seat| seat.who) {
            Some(Who::Worker(worker)) => self.hear_worker(connection, worker, event),
            Some(Who::Rack(rack)) => self.hear_rack(connection, rack, event),
            None => Ok(()),
        }
    }

    fn hear_worker(&mut self, connection: u32, worker: u32, event: Event) -> Result<(), Broken> {
        let Some(seat) = self.seats.get_mut(&connection) else { return Ok(()) };
        let number = seat.job;
        let Some(job) = self.jobs.get_mut(&number) else { return Ok(()) };
        match event {
            Event::Header(header) if header.epoch != job.epoch => Err(Broken::Epoch(header, job.epoch)),
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    Kind::Heartbeat | Kind::Leave => (0, Landing::Nothing),
                    Kind::Begin => (NOTICE, Landing::Aside(job.pool.take(NOTICE))),
                    Kind::Message(verb) => landing(job, worker, verb, header)?,
                    _ => return Err(Broken::Unknown(header)),
                };
                seat.link.land(length, landing);
                Ok(())
            }
            Event::Frame(header, landing) => match (header.kind, landing) {
                (Kind::Leave, _) => {
                    seat.left = true;
                    Ok(())
                }
                (Kind::Begin, Landing::Aside(buffer)) => {
                    let notice = buffer.as_slice().try_into().ok().and_then(Notice::decode);
                    job.pool.give(buffer);
                    let notice = notice.ok_or(Broken::Unknown(header))?;
                    self.noticed(number, worker, notice, header)
                }
                (Kind::Message(verb), landing) => {
                    let verb = Verb::of(verb).ok_or(Broken::Unknown(header))?;
                    self.asked(connection, number, worker, verb, header, landing);
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }

    /// What comes from the same core of a hub in another rack.
    fn hear_rack(&mut self, connection: u32, rack: u32, event: Event) -> Result<(), Broken> {
        let Some(seat) = self.seats.get_mut(&connection) else { return Ok(()) };
        let number = seat.job;
        let Some(job) = self.jobs.get_mut(&number) else { return Ok(()) };
        match event {
            Event::Header(header) if header.epoch != PEERS => Err(Broken::Epoch(header, PEERS)),
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    Kind::Heartbeat | Kind::Leave => (0, Landing::Nothing),
                    Kind::Message(count) => {
                        let slot = job.slots.get(&header.chunk).ok_or(Broken::Unknown(header))?;
                        let given = count == GIVEN && slot.version() == 0;
                        let next = header.sequence == (slot.version() + 1) as u32;
                        let bridge = job.bridge.as_ref().filter(|_| next);
                        let awaited = bridge
                            .is_some_and(|bridge| bridge.admits(rack, header.chunk, count & TOTAL != 0));
                        if !awaited && !given {
                            return Err(Broken::Unknown(header));
                        }
                        (slot.bytes(), Landing::Aside(job.pool.take(slot.bytes())))
                    }
                    _ => return Err(Broken::Unknown(header)),
                };
                seat.link.land(length, landing);
                Ok(())
            }
            Event::Frame(header, landing) => {
                match (header.kind, landing) {
                    (Kind::Leave, _) => seat.left = true,
                    (Kind::Message(GIVEN), Landing::Aside(buffer)) => {
                        self.with(number, header.chunk, |slot, setting| slot.set(buffer, setting));
                    }
                    (Kind::Message(count), Landing::Aside(buffer)) => {
                        let (total, sum) = (count & TOTAL != 0, (buffer, count & !TOTAL));
                        job.counters.bytes_in += sum.0.as_slice().len() as u64;
                        let chunk = header.chunk;
                        let concluded = self.cross(number, chunk, |bridge, tools| {
                            bridge.received(rack, chunk, total, sum, tools)
                        });
                        if let Some(sum) = concluded {
                            self.with(number, chunk, |slot, setting| slot.concluded(sum, setting));
                        }
                    }
                    _ => {}
                }
                Ok(())
            }
        }
    }

    /// A worker wants something of a chunk.
    fn asked(
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
        self.with(job, chunk, |slot, setting| match (verb, buffer) {
            (Verb::Set, Some(buffer)) => {
                given = racks.then(|| Arc::new(buffer.copy()));
                slot.set(buffer, setting);
            }
            (Verb::Push | Verb::PushPull, Some(buffer)) => {
                let bytes = slot.bytes();
                slot.push(worker, buffer, verb == Verb::PushPull, setting);
                ahead = if slot.ahead(worker) > 0 { bytes } else { 0 };
            }
            (Verb::Pull, None) => slot.pull(worker, slot.whole(header.sequence), setting),
            // What came twice is not taken twice; its result is wanted all the same.
            (Verb::PushPull, None) => {
                slot.pull(worker, slot.whole(header.sequence), setting);
                slot.skip(worker, header.sequence, setting);
            }
            (Verb::Push, None) => slot.skip(worker, header.sequence, setting),
            (Verb::Set, None) | (Verb::Pull, Some(_)) => {}
        });
        if let Some(seat) = self.seats.get_mut(&connection) {
            seat.ahead += ahead;
        }
        // Other racks begin with the same.
        if let (Some(given), Some(known)) = (given, self.jobs.get(&job)) {
            let own = known.bridge.as_ref().map_or(0, Bridge::rack);
            for rack in (0..known.racks.len() as u32).filter(|&rack| rack != own) {
                self.post(job, rack, (GIVEN, 0, chunk), Arc::clone(&given));
            }
        }
    }

    /// A worker says something that holds from here on.
    fn noticed(&mut self, job: u32, worker: u32, notice: Notice, header: Header) -> Result<(), Broken> {
        let Some(known) = self.jobs.get_mut(&job) else { return Ok(()) };
        match notice {
            Notice::Rate(rate, key) => {
                let asynchronous = known.contract.terms.pace == Pace::Asynchronous;
                let of = |chunk: u32| known.contract.catalogue.piece(chunk).key;
                let meant =
                    known.slots.iter_mut().filter(|(chunk, _)| key.is_none_or(|key| of(**chunk) == key));
                meant.for_each(|(_, slot)| slot.set_rate(rate, worker, asynchronous));
            }
            Notice::Admit(newcomer, incarnation) => {
                if newcomer >= known.contract.terms.workers || newcomer == worker {
                    return Err(Broken::Unknown(header));
                }
                // It may have gone again meanwhile, or another one been asked before, and have pushed.
                let begun = known.slots.values().any(|slot| slot.has_begun(newcomer));
                let expected = known.expected.get(&newcomer).copied();
                let Some(which) = expected.filter(|which| which.incarnation == incarnation) else {
                    return Ok(());
                };
                if begun && known.here[newcomer as usize] {
                    return Ok(());
                }
                known.here[newcomer as usize] = true;
                known.gone.remove(&newcomer);
                let chunks: Vec<u32> = known.slots.keys().copied().collect();
                for chunk in chunks {
                    self.with(job, chunk, |slot, setting| {
                        slot.admit(newcomer, worker);
                        slot.settle(setting);
                    });
                }
                self.join(job, newcomer, which);
            }
        }
        Ok(())
    }
}

/// Where goes what a worker is about to send of a chunk, and how long it is.
fn landing(job: &mut Job, worker: u32, verb: u16, header: Header) -> Result<(usize, Landing), Broken> {
    let slot = job.slots.get(&header.chunk).ok_or(Broken::Unknown(header))?;
    let mut aside = || (slot.bytes(), Landing::Aside(job.pool.take(slot.bytes())));
    match Verb::of(verb).ok_or(Broken::Unknown(header))? {
        Verb::Pull if slot.owes_answers(worker) => Err(Broken::Unknown(header)),
        Verb::Pull => Ok((0, Landing::Nothing)),
        // Racks would differ, if they were told at different steps.
        Verb::Set if job.bridge.is_some() && slot.version() > 0 => Err(Broken::Unknown(header)),
        Verb::Set => Ok(aside()),
        Verb::Push | Verb::PushPull if slot.lacks_parameters() => {
            Err(Broken::NoParameters(job.contract.name(header.chunk).to_owned()))
        }
        Verb::Push | Verb::PushPull => {
            let resumed = job.resumed.contains(&worker);
            match slot.admits(worker, header.sequence, job.contract.terms.pace, resumed) {
                Admission::Take => Ok(aside()),
                Admission::Again => Ok((slot.bytes(), Landing::Nothing)),
                Admission::Unknown => Err(Broken::Unknown(header)),
            }
        }
    }
}

impl Machine for Shard {
    fn waiting(&self, peer: u32) -> usize {
        self.seats.get(&peer).map_or(0, |seat| seat.link.waiting())
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        if let Some(seat) = self.seats.get_mut(&peer) {
            seat.link.gather(slices, most);
        }
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let Some(seat) = self.seats.get_mut(&peer) else { return };
        let mut done = Vec::new();
        seat.link.sent(bytes, &mut done);
        let job = seat.job;
        self.release(job, done.into_iter().map(|(ticket, ..)| ticket));
    }

    /// Not while it is too far ahead, nor before it is part of the job, nor before its chunks are known here.
    fn reads(&self, peer: u32) -> bool {
        let Some(seat) = self.seats.get(&peer) else { return false };
        let Some(job) = self.jobs.get(&seat.job).filter(|job| job.laid && job.sweeps.is_empty()) else {
            return false;
        };
        // Whoever does not read what it asked for is not read either.
        if seat.link.waiting() > job.ahead {
            return false;
        }
        let Who::Worker(worker) = seat.who else { return true };
        job.here[worker as usize] && seat.ahead <= job.ahead
    }

    fn coming(&self, peer: u32) -> Option<(u32, usize)> {
        self.seats.get(&peer).and_then(|seat| seat.link.coming())
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.seats.get_mut(&peer).and_then(|seat| seat.link.direct())
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), Broken> {
        let Some(seat) = self.seats.get_mut(&peer) else { return Ok(()) };
        match seat.link.read_directly(bytes)? {
            Some(event) => self.happened(peer, event),
            None => Ok(()),
        }
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), Broken> {
        while let Some(seat) = self.seats.get_mut(&peer) {
            let Some(event) = seat.link.take(&mut bytes)? else { return Ok(()) };
            self.happened(peer, event)?;
        }
        Ok(())
    }

    fn believe(&mut self, peer: u32) {
        if let Some(seat) = self.seats.get_mut(&peer) {
            seat.link.believe();
        }
    }

    fn beat(&mut self, peer: u32) {
        if self.waiting(peer) == 0 {
            self.sign(peer, Kind::Heartbeat);
        }
    }

    fn leave(&mut self, peer: u32) {
        self.sign(peer, Kind::Leave);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.seats.get(&peer).is_some_and(|seat| seat.left)
    }
}
