//! A hub's jobs and their workers: who is there, who is lost, and what becomes of the job then. No sockets, clocks or threads.
//!
//! Every worker has a connection to the register, beside those for chunks. The register hears what workers say and what cores
//! report, and says what is to be done: [`Act`].

use super::assignment::Cores;
use super::client::Routes;
use super::events::{Event, Events};
use super::message::{Down, Up};
use super::optimizer::Optimizers;
use super::shard::{HeldUp, Joined, Queue, Which};
use super::terms::{Contract, Pace, Policy};
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use syncline_protocol::fault::{Blame, Kind, Trouble};
use syncline_protocol::heartbeat::{Patience, Pulse};
use syncline_protocol::memory::Pool;

/// How much a hub takes on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most jobs at once.
    pub jobs: usize,
    /// Most bytes of memory that they take together ([`Contract::needs`], and what their workers may be ahead).
    pub memory: u64,
    /// Most bytes that a worker may be ahead of others at each core, before no more is read from it. Where the hub has not
    /// the memory for that, it is less.
    pub ahead: usize,
}

/// Which of a job's chunks each core of a hub has, and what they take.
#[derive(Clone, Debug)]
pub struct Shares {
    /// By core.
    pub chunks: Vec<Vec<u32>>,
    /// Bytes of memory that they need ([`Contract::needs`]), by core.
    pub needs: Vec<u64>,
    /// Bytes of the largest chunk, as memory is given.
    pub largest: u64,
}

/// What a job may take of a hub's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of buffers, by core: those beyond what is in use are not kept.
    pub cores: Vec<usize>,
    /// Bytes that a worker may be ahead of others at a core.
    pub ahead: usize,
}

impl Shares {
    /// Of a hub, by its place among those of the job (in its rack). Takes a while where chunks are many.
    pub fn new(contract: &Contract, hubs: &[Cores], hub: u32) -> Self {
        let chunks = Routes::new(contract, hubs).shares(hub);
        let largest =
            chunks.iter().flatten().map(|&chunk| contract.catalogue.bytes(chunk)).max().unwrap_or(0);
        let needs = chunks.iter().map(|chunks| contract.needs(chunks)).collect();
        Self { needs, largest: Pool::capacity(largest as usize) as u64, chunks }
    }

    /// What a hub lets a job of `workers` take of `free` bytes. A worker may be at least a chunk ahead at each core, and at most
    /// `most` bytes; it takes as much again where it does not read what it asked for, and a chunk on its way each time. Jobs that
    /// come later have half of what is left.
    ///
    /// # Errors
    /// How many bytes it needs, where that is too much.
    pub fn fit(&self, workers: u64, free: u64, most: usize) -> Result<Room, u64> {
        let each = |ahead: u64| workers.saturating_mul(2 * ahead.saturating_add(self.largest));
        let all = |ahead: u64| {
            let needs = self.needs.iter().copied().fold(0, u64::saturating_add);
            needs.saturating_add(each(ahead).saturating_mul(self.needs.len() as u64))
        };
        let least = all(self.largest);
        let Some(spare) = free.checked_sub(least) else { return Err(least) };
        let ways = 2 * workers.max(1) * self.needs.len().max(1) as u64;
        let ahead = (self.largest + spare / 2 / ways).min((most as u64).max(self.largest));
        let core = |needs: &u64| usize::try_from(needs.saturating_add(each(ahead))).unwrap_or(usize::MAX);
        let cores = self.needs.iter().map(core).collect();
        Ok(Room { bytes: all(ahead), cores, ahead: usize::try_from(ahead).unwrap_or(usize::MAX) })
    }
}

/// Workers that are ready, while it is found out which core has which chunk.
#[derive(Debug)]
struct Planning {
    layout: (Vec<Cores>, u32),
    /// Guests, and which workers they are.
    ready: Vec<(u32, u32)>,
}

/// Most characters of what a worker says has happened.
const LONGEST_WHAT: usize = 1 << 10;

/// Most bytes of a job's name.
const LONGEST_NAME: usize = 200;

/// Most hubs of a job.
pub const MOST_HUBS: usize = 1 << 10;

/// Most cores of a hub.
pub const MOST_CORES: u32 = 256;

/// How long a job is kept of which all workers are lost and waited for.
const LINGER: Duration = Duration::from_secs(600);

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Act {
    /// Tell a guest something.
    Say(u32, Down),
    /// Nothing more is to be heard from a guest, once it has been told what there is to tell.
    Dismiss(u32),
    /// Begin a job on all cores.
    Open(u32, Arc<Contract>, u16),
    /// Find out which core has which chunk of a job, and say so ([`Register::planned`]): its hubs, and which of them this is.
    Plan(u32, Arc<Contract>, Vec<Cores>, u32),
    /// Give each core its chunks of a job, and say what the job may take there.
    Lay(u32, Vec<Vec<u32>>, Room),
    /// Connect a job's cores with those of the hubs of lower racks: which rack this is, and which of its hubs.
    Bridge(u32, String, Arc<Contract>, u32, u32),
    /// End it.
    Close(u32),
    /// Workers are through with a job: it ends on all cores once other racks have what they are owed.
    Retire(u32),
    /// A job's worker is lost.
    Lose(u32, u32),
    /// A job's worker is lost before the job has begun: its connections are of no use, and that is all.
    Forget(u32, u32),
    /// A job's worker is there again: what does it owe? Each core answers.
    Resume(u32, u32, Which),
    /// A job's worker wants to be part of it again: another worker will say from when on, and each core answers then.
    Expect(u32, u32, Which),
    /// Who holds up a job's worker, at a step of a vector? Each core answers.
    HeldUp(u32, u32, u32, u64),
}

/// How far a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Absent,
    /// It connects with cores.
    Joining(u32),
    /// It is connected, and waits.
    Ready(u32),
    Here(u32),
    Lost(Trouble),
    Left,
    /// It is in another rack.
    Elsewhere,
}

impl State {
    const fn guest(&self) -> Option<u32> {
        match self {
            Self::Joining(guest) | Self::Ready(guest) | Self::Here(guest) => Some(*guest),
            Self::Absent | Self::Lost(_) | Self::Left | Self::Elsewhere => None,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Joining(_) => "joining",
            Self::Ready(_) => "waiting",
            Self::Here(_) => "here",
            Self::Lost(_) => "lost",
            Self::Left => "left",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// A worker that is there again.
#[derive(Debug)]
struct Rejoining {
    /// The question that cores answer.
    question: u64,
    /// The guest that says from when on, where one does, so that all cores have to say the same.
    asked: Option<u32>,
    /// What cores have answered: the steps behind it, of each vector that they have chunks of.
    answers: BTreeMap<u32, BTreeMap<u32, u64>>,
}

/// A worker asks who holds it up.
#[derive(Debug)]
struct Question {
    since: Duration,
    /// How many cores have answered.
    answers: u32,
    /// What they have found.
    queue: Queue,
}

#[derive(Debug)]
struct Job {
    number: u32,
    contract: Arc<Contract>,
    epoch: u16,
    /// What connections of each worker with cores have to show.
    tickets: Vec<u64>,
    /// Its hubs, and which of them this is.
    layout: Option<(Vec<Cores>, u32)>,
    /// Until that is known.
    planning: Option<Planning>,
    /// Bytes of this hub's memory that it may take, once its chunks are known.
    needs: u64,
    /// The rack that this hub is in, where there are some.
    rack: Option<u32>,
    begun: bool,
    workers: Vec<State>,
    incarnations: Vec<u64>,
    /// Since when all its workers are lost.
    deserted: Option<Duration>,
    /// Workers that are there again.
    joining: BTreeMap<u32, Rejoining>,
    /// Workers that came with other terms before the job had begun, and what was different.
    refused: BTreeMap<u32, String>,
    /// Workers that ask who holds them up.
    late: BTreeMap<u32, Question>,
    /// Workers that have lost another hub, or a connection with a core of this one: which hub, how and when.
    doubts: BTreeMap<u32, (Option<u32>, Trouble, Duration)>,
}

/// A worker's connection.
#[derive(Debug)]
struct Guest {
    job: String,
    worker: u32,
    /// Whether it has its worker's place.
    holds: bool,
}

/// A hub's jobs and their workers.
#[derive(Debug)]
pub struct Register {
    cores: u32,
    interfaces: Vec<SocketAddr>,
    optimizers: Optimizers,
    limits: Limits,
    jobs: BTreeMap<String, Job>,
    guests: BTreeMap<u32, Guest>,
    pulse: Pulse,
    numbers: u32,
    /// Questions about workers that are there again.
    questions: u64,
    /// Workers that were lost.
    losses: u64,
    /// Whether new jobs are refused.
    draining: bool,
    acts: Vec<Act>,
    events: Events,
}

/// A job, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// The job's number on the cores.
    #[serde(skip)]
    pub number: u32,
    /// Its name.
    pub job: String,
    /// Its vectors.
    pub keys: usize,
    /// Its chunks.
    pub chunks: u32,
    /// How far each worker is.
    pub workers: Vec<&'static str>,
    /// Bytes of the hub's memory that it may take.
    pub memory: u64,
}

impl Register {
    /// A register of a hub with these cores and interfaces.
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
            guests: BTreeMap::new(),
            pulse: Pulse::new(patience, Duration::ZERO),
            numbers: 0,
            questions: 0,
            losses: 0,
            draining: false,
            acts: Vec::new(),
            events: Events::default(),
        }
    }

    /// A worker of a job has connected, under a number of its own.
    pub fn arrived(&mut self, guest: u32, job: &str, worker: u32, now: Duration) {
        self.pulse.join(guest as usize, now);
        self.pulse.heard(guest as usize, now);
        self.guests.insert(guest, Guest { job: job.to_owned(), worker, holds: false });
    }

    /// Whether a connection with a core may be made: by a worker that has opened the job, and knows the ticket.
    ///
    /// # Errors
    /// A clause that says why not.
    pub fn admits(&self, job: u32, worker: u32, ticket: u64) -> Result<(), String> {
        let known = self.jobs.values().find(|known| known.number == job);
        let shown = known.filter(|known| known.tickets.get(worker as usize) == Some(&ticket));
        match shown.map(|known| &known.workers[worker as usize]) {
            Some(State::Joining(_)) => Ok(()),
            Some(_) => Err(format!("rank {worker} is not about to connect")),
            None => Err("there is no such job, or the ticket is not for it".to_owned()),
        }
    }

    /// A guest says something. `random` is a number that nobody can guess.
    pub fn heard(&mut self, guest: u32, message: Up, random: u64, now: Duration) {
        self.pulse.heard(guest as usize, now);
        let Some(Guest { job, worker, holds }) = self.guests.get(&guest) else { return };
        let (name, worker, holds) = (job.clone(), *worker, *holds);
        match message {
            Up::Alive => {}
            Up::Open { terms, incarnation, interval_ms } if !holds => {
                self.open(guest, &name, worker, (*terms, incarnation, interval_ms), random);
            }
            Up::Ready { hubs, hub } if holds => self.ready(guest, &name, worker, (hubs, hub)),
            Up::Late { key, step } if holds => self.late(guest, &name, worker, (key, step), now),
            Up::GivesUp { blame, trouble } if holds => {
                self.gives_up(guest, &name, worker, (blame, trouble), now);
            }
            Up::Leave => {
                self.release(guest);
                self.gone(guest, &name, worker, State::Left);
            }
            Up::Open { .. } | Up::Ready { .. } | Up::Late { .. } | Up::GivesUp { .. } => {
                self.refuse(guest, "said something out of turn", true);
                self.gone(guest, &name, worker, State::Left);
            }
        }
    }

    /// A guest's connection is lost.
    pub fn lost(&mut self, guest: u32, trouble: Trouble) {
        let Some(Guest { job, worker, .. }) = self.guests.get(&guest) else { return };
        let (name, worker) = (job.clone(), *worker);
        self.release(guest);
        // Why it goes is known then, and soon decided.
        let doubts = self.jobs.get(&name).and_then(|job| job.doubts.get(&worker));
        if !matches!(doubts, Some((Some(_), ..))) {
            self.gone(guest, &name, worker, State::Lost(trouble));
        }
    }

    /// Whether a hub of another rack may connect with a core: the number of its job here.
    ///
    /// # Errors
    /// A clause that says why not.
    pub fn bridges(&self, job: &str, rack: u32) -> Result<u32, String> {
        let known = self.jobs.get(job).filter(|job| job.layout.is_some());
        let Some((job, own)) = known.and_then(|job| Some((job, job.rack?))) else {
            return Err("the job has not begun in this rack".to_owned());
        };
        let racks = job.contract.terms.racks.as_ref().map_or(0, |racks| racks.hubs.len());
        // Higher racks come to lower ones.
        if rack > own && (rack as usize) < racks {
            Ok(job.number)
        } else {
            Err(format!("rack {rack} has no business at rack {own} of {racks}"))
        }
    }

    /// The hub of another rack is lost.
    pub fn parted(&mut self, job: u32, rack: u32, trouble: Trouble) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let name = name.clone();
        // A rack that has done all its steps may go first.
        if !known.workers.iter().any(|state| state.guest().is_some()) {
            return;
        }
        self.fail(&name, Blame::Rack(rack), trouble);
    }

    /// A worker's connection with a core is lost. Where all are needed, it may be about to say why.
    pub fn broken(&mut self, job: u32, worker: u32, trouble: Trouble, now: Duration) {
        let known = self.jobs.values_mut().find(|known| known.number == job);
        if let Some(known) = known
            && known.begun
            && known.contract.terms.policy == Policy::Fail
            && trouble.kind == Kind::Closed
        {
            known.doubts.entry(worker).or_insert((None, trouble, now));
        } else {
            self.throw_out(job, worker, trouble);
        }
    }

    /// A job goes on without a worker, or ends because of it: that one is told.
    fn throw_out(&mut self, job: u32, worker: u32, trouble: Trouble) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let name = name.clone();
        let Some(guest) = known.workers[worker as usize].guest() else { return };
        let verdict = Down::Verdict { blame: Blame::Rank(worker), trouble: trouble.clone() };
        self.acts.push(Act::Say(guest, verdict));
        self.acts.push(Act::Dismiss(guest));
        self.release(guest);
        self.gone(guest, &name, worker, State::Lost(trouble));
    }

    /// A core says that a job cannot go on without a worker that is gone.
    pub fn missed(&mut self, job: u32, worker: u32) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let trouble = match &known.workers[worker as usize] {
            State::Lost(trouble) => trouble.clone(),
            State::Left => Trouble::left(),
            _ => return,
        };
        let name = name.clone();
        self.fail(&name, Blame::Rank(worker), trouble);
    }

    /// Time has passed. To be told about every [`Register::interval`].
    pub fn tick(&mut self, now: Duration) {
        for guest in self.pulse.due(now) {
            self.acts.push(Act::Say(guest as u32, Down::Alive));
        }
        for (guest, silence) in self.pulse.silent(now) {
            self.acts.push(Act::Dismiss(guest as u32));
            self.lost(guest as u32, Trouble::silent(silence));
        }
        self.decide(now);
        for job in self.jobs.values_mut() {
            let alone = job.workers.iter().all(|state| state.guest().is_none());
            job.deserted = alone.then(|| job.deserted.unwrap_or(now));
        }
        let over = self.jobs.iter().filter(|(_, job)| job.deserted.is_some_and(|since| now > since + LINGER));
        for name in over.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            if let Some(job) = self.jobs.remove(&name) {
                self.acts.push(Act::Close(job.number));
                self.note("job_ends", &name, None, Some("nobody came back".to_owned()));
            }
        }
    }

    /// How often [`Register::tick`] is to be told.
    pub fn interval(&self) -> Duration {
        self.pulse.interval()
    }

    /// New jobs are refused from now on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The rack that a job has this hub in.
    pub fn rack(&self, job: u32) -> Option<u32> {
        self.jobs.values().find(|known| known.number == job).and_then(|known| known.rack)
    }

    /// How many workers were lost so far.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether no job has a worker: those that are kept for workers to come back to do not count.
    pub fn idle(&self) -> bool {
        self.jobs.values().all(|job| job.workers.iter().all(|state| state.guest().is_none()))
    }

    /// What is to be done, in this order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// The jobs.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |(name, job): (&String, &Job)| Standing {
            number: job.number,
            job: name.clone(),
            keys: job.contract.catalogue.keys().len(),
            chunks: job.contract.catalogue.chunks(),
            workers: job.workers.iter().map(State::name).collect(),
            memory: job.needs,
        };
        self.jobs.iter().map(standing).collect()
    }

    /// What has happened since it was asked last: the newest, where that is much.
    pub fn events(&mut self) -> impl Iterator<Item = Event> {
        self.events.take()
    }

    fn note(&mut self, event: &'static str, job: &str, rank: Option<u32>, why: Option<String>) {
        self.events.note(event, job, rank, why);
    }

    /// A guest is no longer listened to.
    fn release(&mut self, guest: u32) {
        self.guests.remove(&guest);
        self.pulse.leave(guest as usize);
    }

    fn refuse(&mut self, guest: u32, why: impl Into<String>, lasts: bool) {
        let why = why.into();
        if let Some(Guest { job, worker, .. }) = self.guests.get(&guest) {
            let (job, worker) = (job.clone(), *worker);
            self.note("rank_is_refused", &job, Some(worker), Some(why.clone()));
        }
        self.acts.push(Act::Say(guest, Down::Refused { why, lasts }));
        self.acts.push(Act::Dismiss(guest));
        self.release(guest);
    }

    fn open(
        &mut self,
        guest: u32,
        name: &str,
        worker: u32,
        (terms, incarnation, interval_ms): (super::terms::Terms, u64, u64),
        random: u64,
    ) {
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let why = format!("a job's name has 1 to {LONGEST_NAME} bytes, and no control characters");
            return self.refuse(guest, why, true);
        }
        let silence = self.pulse.patience().silence;
        if 2 * Duration::from_millis(interval_ms) > silence {
            let (theirs, ours) = (interval_ms as f64 / 1e3, silence.as_secs_f64());
            let why = format!(
                "it shows that it lives every {theirs} s, and the hub takes it for lost after {ours} s: have it do so twice as often"
            );
            return self.refuse(guest, why, true);
        }
        if worker >= terms.workers {
            let why = format!("there is no rank {worker} of {}", terms.workers);
            return self.refuse(guest, why, true);
        }
        if !self.jobs.contains_key(name) {
            if self.draining {
                return self.refuse(guest, "the hub is about to end, and takes no new jobs", true);
            }
            if self.jobs.len() >= self.limits.jobs {
                let why = format!("the hub has {} jobs already, which is the most", self.limits.jobs);
                return self.refuse(guest, why, false);
            }
            let workers = terms.workers as usize;
            let rack = terms.racks.as_ref().and_then(|racks| racks.of.get(worker as usize)).copied();
            let contract = match terms.contract(&self.optimizers) {
                Ok(contract) => Arc::new(contract),
                Err(why) => return self.refuse(guest, why, true),
            };
            // Workers of other racks are the business of hubs there.
            let elsewhere = |worker: usize| {
                contract.terms.racks.as_ref().is_some_and(|racks| Some(racks.of[worker]) != rack)
            };
            let state = |worker| if elsewhere(worker) { State::Elsewhere } else { State::Absent };
            let states = (0..workers).map(state).collect();
            self.numbers += 1;
            let (number, epoch) = (self.numbers, self.numbers as u16);
            self.acts.push(Act::Open(number, Arc::clone(&contract), epoch));
            let job = Job {
                number,
                contract,
                epoch,
                tickets: vec![0; workers],
                layout: None,
                planning: None,
                needs: 0,
                rack,
                begun: false,
                workers: states,
                incarnations: vec![0; workers],
                deserted: None,
                joining: BTreeMap::new(),
                refused: BTreeMap::new(),
                late: BTreeMap::new(),
                doubts: BTreeMap::new(),
            };
            self.jobs.insert(name.to_owned(), job);
            self.note("job_begins", name, None, None);
        } else if let Some(what) = self.jobs[name].contract.terms.differs(&terms) {
            let job =
                self.jobs.get_mut(name).filter(|job| !job.begun && (worker as usize) < job.workers.len());
            job.and_then(|job| job.refused.insert(worker, what.clone()));
            return self.refuse(guest, format!("job `{name}` has other terms: {what}"), true);
        }
        let job = self.jobs.get_mut(name).expect("put there above");
        let policy = job.contract.terms.policy;
        match &job.workers[worker as usize] {
            State::Absent => {}
            State::Elsewhere => {
                let why = format!("rank {worker} is in another rack than this hub");
                return self.refuse(guest, why, true);
            }
            State::Lost(_) | State::Left if policy != Policy::Fail => {}
            State::Lost(_) | State::Left => {
                let why = format!("rank {worker} has been part of job `{name}`, whose policy is to fail");
                return self.refuse(guest, why, false);
            }
            _ => return self.refuse(guest, format!("rank {worker} of job `{name}` is here already"), false),
        }
        job.workers[worker as usize] = State::Joining(guest);
        job.incarnations[worker as usize] = incarnation;
        job.tickets[worker as usize] = random;
        let opened = Down::Opened {
            job: job.number,
            epoch: job.epoch,
            ticket: random,
            cores: self.cores,
            interfaces: self.interfaces.clone(),
        };
        self.acts.push(Act::Say(guest, opened));
        if let Some(known) = self.guests.get_mut(&guest) {
            known.holds = true;
        }
        self.note("rank_is_here", name, Some(worker), None);
    }

    fn ready(&mut self, guest: u32, name: &str, worker: u32, layout: (Vec<Cores>, u32)) {
        let own = Cores { cores: self.cores, interfaces: self.interfaces.len() as u32 };
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.workers[worker as usize] != State::Joining(guest) {
            return;
        }
        let sane =
            |hub: &Cores| (1..=MOST_CORES).contains(&hub.cores) && (1..=hub.cores).contains(&hub.interfaces);
        let (hubs, hub) = &layout;
        let racks = job.contract.terms.racks.as_ref().zip(job.rack);
        let expected = racks.map_or(hubs.len(), |(racks, rack)| racks.hubs[rack as usize].len());
        if hubs.len() != expected
            || hubs.len() > MOST_HUBS
            || hubs.get(*hub as usize) != Some(&own)
            || !hubs.iter().all(sane)
        {
            self.refuse(guest, "the hubs are others than there are", true);
            return self.gone(guest, name, worker, State::Left);
        }
        let known = job.layout.as_ref().or(job.planning.as_ref().map(|planning| &planning.layout));
        if known.is_some_and(|known| *known != layout) {
            self.refuse(guest, format!("job `{name}` has other hubs, or in another order"), true);
            return self.gone(guest, name, worker, State::Left);
        }
        match &mut job.planning {
            _ if job.layout.is_some() => self.enlist(guest, name, worker),
            Some(planning) => planning.ready.push((guest, worker)),
            None => {
                let plan = Act::Plan(job.number, Arc::clone(&job.contract), layout.0.clone(), layout.1);
                job.planning = Some(Planning { layout, ready: vec![(guest, worker)] });
                self.acts.push(plan);
            }
        }
    }

    /// It is known which core has which chunk of a job.
    pub fn planned(&mut self, number: u32, shares: Shares) {
        // A job may have ended meanwhile.
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == number) else {
            return;
        };
        let Some(Planning { layout, ready }) = job.planning.take() else { return };
        let name = name.clone();
        let here = job.workers.iter().filter(|state| **state != State::Elsewhere).count() as u64;
        let others = self.jobs.values().map(|job| job.needs).fold(0, u64::saturating_add);
        let fit = shares.fit(here, self.limits.memory.saturating_sub(others), self.limits.ahead);
        let room = match fit {
            Ok(room) => room,
            Err(needs) => {
                let [needs_gb, others_gb, most_gb] =
                    [needs, others, self.limits.memory].map(|bytes| bytes as f64 / 1e9);
                let why = format!(
                    "job `{name}` needs {needs_gb:.3} GB of the hub's memory, where other jobs have {others_gb:.3} GB of \
                     {most_gb:.3} GB: let it have more (--memory), or take more hubs"
                );
                for (guest, worker) in ready {
                    // Others may have gone meanwhile, and come again.
                    if self.holds(&name, worker, guest) {
                        self.refuse(guest, why.clone(), needs > self.limits.memory);
                        self.gone(guest, &name, worker, State::Left);
                    }
                }
                return;
            }
        };
        let Some(job) = self.jobs.get_mut(&name) else { return };
        let needs = room.bytes;
        self.acts.push(Act::Lay(number, shares.chunks, room));
        if let Some(rack) = job.rack {
            let contract = Arc::clone(&job.contract);
            self.acts.push(Act::Bridge(number, name.clone(), contract, rack, layout.1));
        }
        (job.layout, job.needs) = (Some(layout), needs);
        for (guest, worker) in ready {
            if self.holds(&name, worker, guest) {
                self.enlist(guest, &name, worker);
            }
        }
    }

    /// Whether a guest is about to connect as a job's worker.
    fn holds(&self, name: &str, worker: u32, guest: u32) -> bool {
        self.jobs.get(name).is_some_and(|job| job.workers[worker as usize] == State::Joining(guest))
    }

    /// A worker is connected, and waits.
    fn enlist(&mut self, guest: u32, name: &str, worker: u32) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        job.workers[worker as usize] = State::Ready(guest);
        if !job.begun {
            if job.workers.iter().all(|state| matches!(state, State::Ready(_) | State::Elsewhere)) {
                job.begun = true;
                (0..job.workers.len() as u32).for_each(|worker| self.begin(name, worker, true));
            }
        } else if job.contract.terms.pace == Pace::Asynchronous {
            self.begin(name, worker, false);
        } else {
            self.rejoin(name);
        }
    }

    /// Sees to those that want to be part of a job again: others say from when on, or they take up where they were.
    fn rejoin(&mut self, name: &str) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let leader = job.workers.iter().find_map(|state| match state {
            State::Here(guest) => Some(*guest),
            _ => None,
        });
        let shrinks = job.contract.terms.policy == Policy::Shrink;
        for (worker, state) in (0u32..).zip(&job.workers) {
            if !matches!(state, State::Ready(_)) {
                continue;
            }
            let incarnation = job.incarnations[worker as usize];
            let asked = leader.filter(|_| shrinks);
            // Whoever has been asked and is still there says it once.
            if asked.is_some() && job.joining.get(&worker).is_some_and(|joining| joining.asked == asked) {
                continue;
            }
            self.questions += 1;
            let which = Which { incarnation, question: self.questions };
            match asked {
                Some(guest) => {
                    self.acts.push(Act::Expect(job.number, worker, which));
                    self.acts.push(Act::Say(guest, Down::Newcomer { worker, incarnation }));
                }
                None => self.acts.push(Act::Resume(job.number, worker, which)),
            }
            let rejoining = Rejoining { question: self.questions, asked, answers: BTreeMap::new() };
            job.joining.insert(worker, rejoining);
        }
    }

    /// Lets a worker begin that waits for it.
    fn begin(&mut self, name: &str, worker: u32, fresh: bool) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let (State::Ready(guest) | State::Here(guest)) = job.workers[worker as usize] else { return };
        job.workers[worker as usize] = State::Here(guest);
        let keys = job.contract.catalogue.keys().len() as u32;
        // It stays: where others have to say the same at another hub, they may say it here once more.
        let cores = job.joining.get(&worker);
        // A vector without chunks at this hub has no steps behind it that matter here.
        let behind = |key| {
            let answers = cores.into_iter().flat_map(|joining| joining.answers.values());
            answers.filter_map(move |core| core.get(&key)).min()
        };
        let none = if cores.is_some() { u64::MAX } else { 0 };
        let steps = (0..keys).map(|key| behind(key).copied().unwrap_or(none)).collect();
        let exact = cores.is_some_and(|joining| joining.asked.is_some());
        self.acts.push(Act::Say(guest, Down::Begin { steps, fresh, exact }));
    }

    /// A core says which steps of each vector that it has chunks of are behind a worker that is there again. Only the
    /// worker that is there now counts, and what was asked about it last.
    pub fn joined(&mut self, core: u32, Joined { job, worker, which, steps }: Joined) {
        let cores = self.cores as usize;
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == job) else { return };
        let joining = job.joining.get_mut(&worker).filter(|joining| joining.question == which.question);
        let Some(Rejoining { asked, answers, .. }) = joining else { return };
        answers.insert(core, steps);
        // Where workers admit, cores agree once the same word has reached all of them.
        let agree = (0..job.contract.catalogue.keys().len() as u32).all(|key| {
            let mut known = answers.values().filter_map(|core| core.get(&key));
            let first = known.next();
            asked.is_none() || known.all(|each| Some(each) == first)
        });
        if answers.len() == cores && agree {
            let name = name.clone();
            self.begin(&name, worker, false);
        }
    }

    /// A worker cannot go on: what it has found, or been told by another hub, counts for all, where all are needed.
    fn gives_up(
        &mut self,
        guest: u32,
        name: &str,
        worker: u32,
        (blame, mut trouble): (Blame, Trouble),
        now: Duration,
    ) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if !job.begun || job.contract.terms.policy != Policy::Fail {
            self.release(guest);
            return self.gone(guest, name, worker, State::Left);
        }
        trouble.what = trouble.what.chars().take(LONGEST_WHAT).collect();
        match (blame, &job.layout) {
            // Others lose it, too, if it is the hub and not the way there.
            (Blame::Hub(hub), Some((hubs, own))) if hub != *own && (hub as usize) < hubs.len() => {
                job.doubts.insert(worker, (Some(hub), trouble, now));
                self.decide(now);
            }
            (Blame::Rank(rank), _) if rank < job.contract.terms.workers => self.fail(name, blame, trouble),
            (Blame::Rack(_) | Blame::Nobody, _) => self.fail(name, blame, trouble),
            _ => self.fail(name, Blame::Rank(worker), trouble),
        }
    }

    /// Decides what has been asked and found long enough ago that others would have said so, too.
    fn decide(&mut self, now: Duration) {
        let grace = self.pulse.patience().interval * 3 / 2;
        let (mut verdicts, mut answered, mut broken) = (Vec::new(), Vec::new(), Vec::new());
        for (name, job) in &self.jobs {
            for (&worker, (hub, trouble, since)) in &job.doubts {
                let ripe = now >= *since + grace;
                let Some(lost) = hub else {
                    broken.extend(ripe.then(|| (job.number, worker, trouble.clone())));
                    continue;
                };
                let others = job.doubts.values().filter(|(other, ..)| other == hub).count() > 1;
                if others || job.workers.iter().filter(|state| state.guest().is_some()).count() <= 1 {
                    verdicts.push((name.clone(), Blame::Hub(*lost), trouble.clone()));
                } else if ripe {
                    let trouble =
                        Trouble { what: format!("has lost hub {lost}, which {trouble}"), ..trouble.clone() };
                    verdicts.push((name.clone(), Blame::Rank(worker), trouble));
                }
            }
            let ripe = |(_, question): &(&u32, &Question)| {
                question.answers >= self.cores && now >= question.since + self.pulse.patience().interval
            };
            answered.extend(job.late.iter().filter(ripe).map(|(&asker, _)| (name.clone(), asker)));
        }
        verdicts.into_iter().for_each(|(name, blame, trouble)| self.fail(&name, blame, trouble));
        broken.into_iter().for_each(|(job, worker, trouble)| self.throw_out(job, worker, trouble));
        answered.into_iter().for_each(|(name, asker)| self.answer(&name, asker));
    }

    fn late(&mut self, guest: u32, name: &str, worker: u32, (key, step): (u32, u64), now: Duration) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if !job.begun {
            let absent = (0u32..)
                .zip(&job.workers)
                .find(|(_, state)| !matches!(state, State::Ready(_) | State::Elsewhere));
            let refused = absent.and_then(|(worker, _)| job.refused.get(&worker));
            let what = match refused {
                Some(what) => format!("has come with other terms: {what}"),
                None => "has not come".to_owned(),
            };
            let trouble = Trouble { kind: Kind::Deadline, what };
            let blame = absent.map_or(Blame::Nobody, |(worker, _)| Blame::Rank(worker));
            return self.fail(name, blame, trouble);
        }
        if job.workers[worker as usize] != State::Here(guest) {
            // Whoever is not part of the job yet holds nobody up, and is held up alone.
            let what = "was not let into the job in time by the ranks that are part of it".to_owned();
            let trouble = Trouble { kind: Kind::Deadline, what };
            self.acts.push(Act::Say(guest, Down::Verdict { blame: Blame::Rank(worker), trouble }));
            self.acts.push(Act::Dismiss(guest));
            self.release(guest);
            return self.gone(guest, name, worker, State::Left);
        }
        if key as usize >= job.contract.catalogue.keys().len() {
            return;
        }
        if let Entry::Vacant(question) = job.late.entry(worker) {
            question.insert(Question { since: now, answers: 0, queue: Queue::default() });
            self.acts.push(Act::HeldUp(job.number, worker, key, step));
        }
    }

    /// A core says who holds up a job's worker.
    pub fn held_up(&mut self, number: u32, asker: u32, queue: Queue) {
        let Some(job) = self.jobs.values_mut().find(|known| known.number == number) else { return };
        let Some(question) = job.late.get_mut(&asker) else { return };
        question.answers += 1;
        question.queue.held_up = question.queue.held_up.take().or(queue.held_up);
        question.queue.waiting.extend(queue.waiting);
    }

    /// Sees to a worker that all cores have answered. Where none knows of anybody that holds it up, it goes on meanwhile, or is
    /// held up by something else: it finds out.
    fn answer(&mut self, name: &str, asker: u32) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        // Whoever asks waits as well, perhaps at another hub.
        let asking: Vec<u32> = job.late.keys().copied().collect();
        let Some(Queue { held_up: Some(HeldUp { chunk, step, missing }), mut waiting }) =
            job.late.remove(&asker).map(|question| question.queue)
        else {
            return;
        };
        waiting.extend(asking);
        let number = job.number;
        // Whoever waits for others has not pushed because of them, as a rule.
        let (held_up, idle): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|worker| waiting.contains(worker));
        let at_fault = if idle.is_empty() { held_up } else { idle };
        let key = job.contract.name(chunk);
        let trouble = |worker: u32| {
            let what = match &job.workers[worker as usize] {
                State::Lost(trouble) => format!("{trouble}, and has not come back"),
                State::Left => "has left and is needed".to_owned(),
                _ => format!("has not pushed `{key}` (step {step}), for which others wait"),
            };
            (worker, Trouble { kind: Kind::Deadline, what })
        };
        let at_fault: Vec<_> = at_fault.into_iter().map(trouble).collect();
        if job.contract.terms.policy == Policy::Shrink {
            at_fault.into_iter().for_each(|(worker, trouble)| self.throw_out(number, worker, trouble));
        } else if let Some((worker, trouble)) = at_fault.into_iter().next() {
            self.fail(name, Blame::Rank(worker), trouble);
        }
    }

    /// A worker is not there any more: whoever has its place, and nobody else.
    fn gone(&mut self, guest: u32, name: &str, worker: u32, state: State) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let place = job.workers.get_mut(worker as usize).filter(|place| place.guest() == Some(guest));
        let Some(place) = place else { return };
        let (number, begun, policy) = (job.number, job.begun, job.contract.terms.policy);
        // Before the job has begun nothing depends on it: it may come again.
        *place = if begun { state.clone() } else { State::Absent };
        self.acts.push(if begun { Act::Lose(number, worker) } else { Act::Forget(number, worker) });
        job.joining.remove(&worker);
        job.late.remove(&worker);
        let over = job.workers.iter().all(|state| state.guest().is_none())
            && !(policy == Policy::Wait
                && begun
                && job.workers.iter().any(|state| matches!(state, State::Lost(_))));
        let through = job.workers.iter().all(|state| matches!(state, State::Left | State::Elsewhere));
        self.note_gone(name, worker, &state);
        if over {
            self.acts.push(if through { Act::Retire(number) } else { Act::Close(number) });
            self.jobs.remove(name);
            self.note("job_ends", name, None, None);
            return;
        }
        match (policy, state) {
            (Policy::Fail, State::Lost(trouble)) if begun => self.fail(name, Blame::Rank(worker), trouble),
            // Whoever was asked about newcomers may have been this one.
            (Policy::Shrink, _) if begun => self.rejoin(name),
            _ => {}
        }
    }

    fn note_gone(&mut self, name: &str, worker: u32, state: &State) {
        match state {
            State::Lost(trouble) => {
                self.losses += 1;
                self.note("rank_is_lost", name, Some(worker), Some(trouble.what.clone()));
            }
            State::Left => self.note("rank_leaves", name, Some(worker), None),
            _ => {}
        }
    }

    /// A job is over, and all its workers are told why.
    fn fail(&mut self, name: &str, blame: Blame, trouble: Trouble) {
        let Some(job) = self.jobs.remove(name) else { return };
        for guest in job.workers.iter().filter_map(State::guest) {
            let verdict = Down::Verdict { blame, trouble: trouble.clone() };
            self.acts.push(Act::Say(guest, verdict));
            self.acts.push(Act::Dismiss(guest));
            self.release(guest);
        }
        self.acts.push(Act::Close(job.number));
        self.note("job_fails", name, None, Some(format!("{blame} {trouble}")));
    }

    /// The hub ends: all workers of all jobs are told.
    pub fn leave(&mut self) {
        for guest in self.guests.keys() {
            self.acts.push(Act::Say(*guest, Down::Leave));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn terms(workers: u32, policy: &str) -> super::super::terms::Terms {
        let text = format!(
            "{{\"workers\": {workers}, \"policy\": \"{policy}\", \
             \"keys\": [{{\"name\": \"w\", \"element\": \"f32\", \"elements\": 9}}]}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    /// A register of a hub with two cores, and what has been done since it was looked at last.
    struct Hub(Register);

    impl Hub {
        const HUBS: [Cores; 1] = [Cores { cores: 2, interfaces: 1 }];

        fn new() -> Self {
            let interfaces = vec!["127.0.0.1:1".parse().unwrap()];
            // Enough for one job of [`terms`], and for no more.
            let one = terms(2, "wait").contract(&Optimizers::default()).unwrap();
            let shares = Shares::new(&one, &Self::HUBS, 0);
            let memory = shares.fit(2, 0, 0).unwrap_err();
            let limits = Limits { jobs: 4, memory, ahead: 1 << 20 };
            Self(Register::new(2, interfaces, Optimizers::default(), limits, Patience::default()))
        }

        /// A guest comes as a rank, and opens the job.
        fn open(&mut self, guest: u32, rank: u32, terms: &super::super::terms::Terms) {
            self.0.arrived(guest, "job", rank, NOW);
            let (terms, incarnation) = (Box::new(terms.clone()), u64::from(guest));
            let open = Up::Open { terms, incarnation, interval_ms: 100 };
            self.0.heard(guest, open, 1000 + u64::from(guest), NOW);
        }

        fn ready(&mut self, guest: u32) {
            self.0.heard(guest, Up::Ready { hubs: Self::HUBS.to_vec(), hub: 0 }, 0, NOW);
            self.plan();
        }

        /// It is found out which core has which chunk, wherever that is asked.
        fn plan(&mut self) {
            let acts = self.0.acts();
            for act in &acts {
                if let Act::Plan(number, contract, hubs, hub) = act {
                    self.0.planned(*number, Shares::new(contract, hubs, *hub));
                }
            }
            let more = self.0.acts();
            self.0.acts.extend(acts.into_iter().chain(more));
        }

        /// What a guest is told.
        fn told(acts: &[Act], guest: u32) -> Vec<&Down> {
            let told = |act| match act {
                &Act::Say(whom, ref what) if whom == guest => Some(what),
                _ => None,
            };
            acts.iter().filter_map(told).collect()
        }

        /// A job of two ranks that has begun, as guests 0 and 1.
        fn begun(policy: &str) -> Self {
            let mut hub = Self::new();
            for guest in 0..2 {
                hub.open(guest, guest, &terms(2, policy));
                hub.ready(guest);
            }
            let acts = hub.0.acts();
            let fresh = |guest| {
                let last = Self::told(&acts, guest).pop().cloned();
                last == Some(Down::Begin { steps: vec![0], fresh: true, exact: false })
            };
            assert!(fresh(0) && fresh(1), "{acts:?}");
            hub
        }

        /// Both cores say what is behind a rank.
        fn joined(&mut self, rank: u32, question: u64, steps: [u64; 2]) {
            for (core, steps) in (0..).zip(steps) {
                let which = Which { incarnation: 5, question };
                let joined = Joined { job: 1, worker: rank, which, steps: BTreeMap::from([(0, steps)]) };
                self.0.joined(core, joined);
            }
        }
    }

    #[test]
    fn a_job_takes_no_more_than_it_is_given() {
        // 64 ranks, and vectors of 100 MB in chunks of 32 KiB at 8 cores, on a host of 16 GB whose hub has half of that.
        let text = r#"{"workers": 64, "keys": [{"name": "w", "element": "f32", "elements": 25000000}]}"#;
        let terms: super::super::terms::Terms = serde_json::from_str(text).unwrap();
        let contract = terms.contract(&Optimizers::default()).unwrap();
        let shares = Shares::new(&contract, &[Cores { cores: 8, interfaces: 1 }], 0);
        let room = shares.fit(64, 8_000_000_000, 64 << 20).unwrap();
        assert!(room.bytes < 8_000_000_000 && room.ahead > 1 << 20, "{room:?}");
        // By hand: three vectors; at 8 cores for each of 64 ranks what it may be ahead and behind, and two chunks on their way.
        let counted = 3 * 100_000_000 + 64 * 8 * 2 * (room.ahead as u64 + 32_768);
        // What is known of each rank comes besides, and chunks of the vector's end count as the next power of two.
        assert!((counted..counted + 20_000_000).contains(&room.bytes), "{counted} {room:?}");
        assert_eq!(room.cores.iter().map(|&core| core as u64).sum::<u64>(), room.bytes);
        // With memory without end it is what the hub was told; with too little, the job is refused.
        assert_eq!(shares.fit(64, u64::MAX, 64 << 20).unwrap().ahead, 64 << 20);
        let least = shares.fit(64, 0, 64 << 20).unwrap_err();
        assert_eq!(shares.fit(64, least, 64 << 20).unwrap().bytes, least);
        assert_eq!(shares.fit(64, least - 1, 64 << 20), Err(least));
    }

    #[test]
    fn jobs_have_the_memory_that_there_is() {
        let refused = |hub: &mut Hub, guest| {
            let acts = hub.0.acts();
            Hub::told(&acts, guest).into_iter().find_map(|down| match down {
                Down::Refused { why, lasts } => Some((why.clone(), *lasts)),
                _ => None,
            })
        };
        let ready = |hub: &mut Hub, guest, job: &str, elements| {
            let mut terms = terms(1, "fail");
            terms.keys[0].elements = elements;
            hub.0.arrived(guest, job, 0, NOW);
            let open = Up::Open { terms: Box::new(terms), incarnation: 1, interval_ms: 100 };
            hub.0.heard(guest, open, 1000, NOW);
            hub.ready(guest);
            refused(hub, guest)
        };
        let mut hub = Hub::new();
        // More than there is, for ever: buffers are powers of two.
        let (why, lasts) = ready(&mut hub, 0, "large", 17).unwrap();
        assert!(why.contains("job `large` needs") && lasts, "{why}");
        assert_eq!(ready(&mut hub, 1, "fits", 9), None);
        // There is room once the other has ended.
        let (why, lasts) = ready(&mut hub, 2, "small", 1).unwrap();
        assert!(why.contains("other jobs have") && !lasts, "{why}");
        hub.0.heard(1, Up::Leave, 0, NOW);
        hub.0.acts();
        assert_eq!(ready(&mut hub, 3, "small", 1), None);
    }

    #[test]
    fn whoever_holds_no_place_loses_nobodys() {
        let mut hub = Hub::begun("fail");
        hub.0.arrived(7, "job", 0, NOW);
        hub.0.lost(7, Trouble::left());
        hub.0.arrived(8, "job", 1, NOW);
        hub.0.heard(8, Up::Leave, 0, NOW);
        assert!(hub.0.acts().is_empty());
        hub.0.arrived(9, "job", 1, NOW);
        hub.0.heard(9, Up::Late { key: 0, step: 1 }, 0, NOW);
        let acts = hub.0.acts();
        assert!(acts.iter().all(|act| matches!(act, Act::Say(9, _) | Act::Dismiss(9))), "{acts:?}");
        assert_eq!(hub.0.standings()[0].workers, ["here", "here"]);
    }

    #[test]
    fn whoever_opens_twice_gives_up_its_place() {
        let mut hub = Hub::new();
        hub.open(0, 0, &terms(2, "fail"));
        let open = Up::Open { terms: Box::new(terms(2, "fail")), incarnation: 0, interval_ms: 100 };
        hub.0.heard(0, open, 5, NOW);
        let acts = hub.0.acts();
        assert!(matches!(Hub::told(&acts, 0).last(), Some(Down::Refused { .. })), "{acts:?}");
        assert!(hub.0.idle() && hub.0.standings().is_empty());
    }

    #[test]
    fn tickets_are_for_one_rank_that_is_about_to_connect() {
        let mut hub = Hub::new();
        hub.open(0, 0, &terms(2, "fail"));
        hub.open(1, 1, &terms(2, "fail"));
        assert_eq!(hub.0.admits(1, 0, 1000), Ok(()));
        assert!(hub.0.admits(1, 0, 1001).is_err() && hub.0.admits(2, 0, 1000).is_err());
        hub.ready(0);
        assert!(hub.0.admits(1, 0, 1000).is_err());
    }

    #[test]
    fn others_say_from_when_on_a_newcomer_is_there() {
        let mut hub = Hub::begun("shrink");
        hub.0.lost(1, Trouble::closed("reset"));
        assert!(matches!(hub.0.acts()[..], [Act::Lose(1, 1)]));
        hub.open(5, 1, &terms(2, "shrink"));
        hub.ready(5);
        let acts = hub.0.acts();
        assert!(
            acts.iter().any(|act| matches!(act, Act::Expect(1, 1, Which { incarnation: 5, question: 1 }))),
            "{acts:?}"
        );
        assert_eq!(Hub::told(&acts, 0), [&Down::Newcomer { worker: 1, incarnation: 5 }]);
        // What it was before does not count, nor do cores that have not heard the same.
        hub.joined(1, 0, [3, 3]);
        hub.joined(1, 1, [3, 4]);
        assert!(hub.0.acts().is_empty());
        hub.joined(1, 1, [4, 4]);
        let acts = hub.0.acts();
        let begin = Down::Begin { steps: vec![4], fresh: false, exact: true };
        assert_eq!(Hub::told(&acts, 5).last(), Some(&&begin), "{acts:?}");
        // Another hub's question has reached cores here, too.
        hub.joined(1, 1, [5, 5]);
        let acts = hub.0.acts();
        let begin = Down::Begin { steps: vec![5], fresh: false, exact: true };
        assert_eq!(Hub::told(&acts, 5), [&begin], "{acts:?}");
    }

    #[test]
    fn whoever_is_asked_about_newcomers_may_go() {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        for guest in 0..3 {
            hub.open(guest, guest, &terms(3, "shrink"));
            hub.ready(guest);
        }
        hub.0.lost(2, Trouble::closed("reset"));
        hub.open(5, 2, &terms(3, "shrink"));
        hub.ready(5);
        hub.0.acts();
        hub.0.lost(0, Trouble::closed("reset"));
        let acts = hub.0.acts();
        assert_eq!(Hub::told(&acts, 1), [&Down::Newcomer { worker: 2, incarnation: 5 }]);
        // Nobody is left to be asked: it takes up the job where that is.
        hub.0.lost(1, Trouble::closed("reset"));
        assert!(
            hub.0
                .acts()
                .iter()
                .any(|act| matches!(act, Act::Resume(1, 2, Which { incarnation: 5, question: 3 })))
        );
        // What those answer who were asked before comes too late.
        hub.joined(2, 2, [5, 5]);
        assert!(hub.0.acts().is_empty());
        hub.joined(2, 3, [7, 6]);
        let acts = hub.0.acts();
        let begin = Down::Begin { steps: vec![6], fresh: false, exact: false };
        assert_eq!(Hub::told(&acts, 5).last(), Some(&&begin), "{acts:?}");
    }

    /// A job of four ranks that has begun, of which 0 and 1 find that it takes too long.
    fn late(policy: &str) -> Hub {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        for guest in 0..4 {
            hub.open(guest, guest, &terms(4, policy));
            hub.ready(guest);
        }
        hub.0.acts();
        for guest in 0..2 {
            hub.0.heard(guest, Up::Late { key: 0, step: 7 }, 0, NOW);
            // Who asks again before there is an answer is not asked about twice.
            hub.0.heard(guest, Up::Late { key: 0, step: 7 }, 0, NOW);
        }
        let asked = hub.0.acts();
        assert!(matches!(asked[..], [Act::HeldUp(1, 0, 0, 7), Act::HeldUp(1, 1, 0, 7)]), "{asked:?}");
        hub
    }

    /// What a core has found: who is missing, and who waits.
    fn found(missing: &[u32], waiting: &[u32]) -> Queue {
        let held_up = HeldUp { chunk: 0, step: 7, missing: missing.to_vec() };
        let held_up = (!missing.is_empty()).then_some(held_up);
        Queue { held_up, waiting: waiting.iter().copied().collect() }
    }

    /// Late enough for what was asked to be decided, and too soon for anybody to be silent.
    const SOON: Duration = Duration::from_millis(700);

    #[test]
    fn all_who_hold_others_up_are_lost_and_nobody_else() {
        let mut hub = late("shrink");
        hub.0.held_up(1, 0, found(&[], &[]));
        hub.0.held_up(1, 0, found(&[1, 2, 3], &[0]));
        hub.0.tick(NOW);
        assert!(hub.0.acts().is_empty());
        // Rank 1 waits for others itself: it has asked, too.
        hub.0.tick(SOON);
        assert_eq!(hub.0.standings()[0].workers, ["here", "here", "lost", "lost"]);
        let acts = hub.0.acts();
        let verdict = |guest| {
            let named =
                |down: &&Down| matches!(down, Down::Verdict { blame, .. } if *blame == Blame::Rank(guest));
            Hub::told(&acts, guest).into_iter().any(|down| named(&down))
        };
        assert!(verdict(2) && verdict(3), "{acts:?}");
        // There is nobody any more who holds up the other.
        hub.0.held_up(1, 1, found(&[], &[]));
        hub.0.held_up(1, 1, found(&[], &[]));
        hub.0.tick(SOON);
        assert_eq!(hub.0.standings()[0].workers, ["here", "here", "lost", "lost"]);
        assert!(hub.0.acts().is_empty());
    }

    #[test]
    fn where_all_wait_for_each_other_the_first_is_named() {
        let mut hub = late("fail");
        hub.0.held_up(1, 0, found(&[1], &[0, 1]));
        hub.0.held_up(1, 0, found(&[], &[0, 1]));
        hub.0.tick(SOON);
        let acts = hub.0.acts();
        for guest in 0..4 {
            let told = Hub::told(&acts, guest);
            assert!(matches!(told.last(), Some(Down::Verdict { blame: Blame::Rank(1), .. })), "{told:?}");
        }
        assert!(hub.0.standings().is_empty());
    }

    /// A job of three ranks at two hubs, of which this is the first; it has begun.
    fn at_two_hubs(policy: &str) -> Hub {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        for guest in 0..3 {
            hub.open(guest, guest, &terms(3, policy));
            let hubs = vec![Cores { cores: 2, interfaces: 1 }; 2];
            hub.0.heard(guest, Up::Ready { hubs, hub: 0 }, 0, NOW);
            hub.plan();
        }
        hub.0.acts();
        hub
    }

    /// Whom all ranks are told is at fault.
    fn verdict(hub: &mut Hub) -> Option<Blame> {
        let acts = hub.0.acts();
        let blamed = |guest| {
            Hub::told(&acts, guest).into_iter().find_map(|down| match down {
                Down::Verdict { blame, .. } => Some(*blame),
                _ => None,
            })
        };
        let first = blamed(0);
        assert!((1..3).all(|guest| blamed(guest) == first), "{acts:?}");
        first
    }

    #[test]
    fn a_hub_is_lost_where_two_say_so_and_the_way_there_where_one_does() {
        let trouble = Trouble::closed("reset");
        let says = |hub: &mut Hub, guest, blame| {
            let trouble = Trouble { what: "x".repeat(1 << 20), ..trouble.clone() };
            hub.0.heard(guest, Up::GivesUp { blame, trouble }, 0, NOW);
            hub.0.lost(guest, Trouble::closed("end of file"));
        };
        let mut both = at_two_hubs("fail");
        says(&mut both, 2, Blame::Hub(1));
        assert_eq!(verdict(&mut both), None);
        says(&mut both, 0, Blame::Hub(1));
        assert!(both.0.standings().is_empty());
        let acts = both.0.acts();
        let Some(Down::Verdict { blame: Blame::Hub(1), trouble: told }) = Hub::told(&acts, 1).pop() else {
            panic!("{acts:?}")
        };
        assert!(told.what.len() <= LONGEST_WHAT);
        let mut one = at_two_hubs("fail");
        says(&mut one, 2, Blame::Hub(1));
        one.0.tick(SOON);
        let acts = one.0.acts();
        for guest in 0..2 {
            let told = Hub::told(&acts, guest);
            assert!(matches!(told.last(), Some(Down::Verdict { blame: Blame::Rank(2), .. })), "{told:?}");
        }
        // What nobody can know is what is wrong with whoever says it.
        for nonsense in [Blame::Hub(0), Blame::Hub(7), Blame::Rank(3), Blame::Coordinator] {
            let mut hub = at_two_hubs("fail");
            hub.0.heard(1, Up::GivesUp { blame: nonsense, trouble: trouble.clone() }, 0, NOW);
            assert_eq!(verdict(&mut hub), Some(Blame::Rank(1)));
        }
    }

    #[test]
    fn what_another_hub_has_decided_ends_the_job_for_all_where_all_are_needed() {
        let gives_up = Up::GivesUp { blame: Blame::Rank(0), trouble: Trouble::closed("reset") };
        let mut hub = at_two_hubs("fail");
        hub.0.heard(2, gives_up.clone(), 0, NOW);
        assert_eq!(verdict(&mut hub), Some(Blame::Rank(0)));
        // Others go on without it.
        let mut hub = at_two_hubs("shrink");
        hub.0.heard(2, gives_up, 0, NOW);
        assert_eq!(hub.0.standings()[0].workers, ["here", "here", "left"]);
    }

    #[test]
    fn a_job_that_is_refused_has_no_memory() {
        let mut hub = Hub::new();
        let mut large = terms(2, "fail");
        large.keys[0].elements = 1 << 20;
        hub.open(0, 0, &large);
        hub.open(1, 1, &large);
        hub.ready(0);
        assert!(hub.0.acts().iter().any(|act| matches!(act, Act::Say(0, Down::Refused { lasts: true, .. }))));
        // One of its ranks is still on its way, and takes nothing from others.
        hub.0.arrived(2, "small", 0, NOW);
        let open = Up::Open { terms: Box::new(terms(1, "fail")), incarnation: 1, interval_ms: 100 };
        hub.0.heard(2, open, 7, NOW);
        hub.ready(2);
        let acts = hub.0.acts();
        assert!(matches!(Hub::told(&acts, 2).last(), Some(Down::Begin { .. })), "{acts:?}");
    }

    #[test]
    fn whoever_is_not_let_in_in_time_goes_alone() {
        let mut hub = Hub::begun("shrink");
        hub.0.lost(1, Trouble::closed("reset"));
        hub.open(5, 1, &terms(2, "shrink"));
        hub.ready(5);
        hub.0.acts();
        hub.0.heard(5, Up::Late { key: 0, step: 1 }, 0, NOW);
        let acts = hub.0.acts();
        assert!(matches!(Hub::told(&acts, 5)[..], [Down::Verdict { blame: Blame::Rank(1), .. }]), "{acts:?}");
        assert_eq!(hub.0.standings()[0].workers, ["here", "left"]);
    }

    #[test]
    fn hubs_that_a_rank_makes_up_are_refused() {
        let mut hub = Hub::new();
        let racks =
            serde_json::json!({"of": [0, 1], "hubs": [["127.0.0.1:1"], ["127.0.0.1:2"]], "between": "ring"});
        let mut made_up = terms(2, "fail");
        made_up.racks = serde_json::from_value(racks).unwrap();
        hub.open(0, 0, &made_up);
        let hubs = vec![Cores { cores: 2, interfaces: 1 }; 2];
        hub.0.heard(0, Up::Ready { hubs, hub: 1 }, 0, NOW);
        hub.plan();
        let acts = hub.0.acts();
        assert!(matches!(Hub::told(&acts, 0).last(), Some(Down::Refused { .. })), "{acts:?}");
        assert!(hub.0.standings().is_empty());
    }
}
