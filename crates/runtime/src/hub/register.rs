//! A hub's jobs and their workers: who is there, who is lost, and what becomes of the job then. No sockets, clocks or threads.
//!
//! Every worker has a connection to the register, beside those for chunks. The register hears what workers say and what cores
//! report, and says what is to be done: [`Act`].

use super::assignment::Cores;
use super::message::{Down, Up};
use super::optimizer::Optimizers;
use super::shard::HeldUp;
use super::terms::{Contract, Pace, Policy};
use crate::fault::{Blame, Kind, Trouble};
use crate::pulse::{Patience, Pulse};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
    /// Give all cores their chunks of a job, which has these hubs, of which this is which.
    Lay(u32, Arc<Contract>, Vec<Cores>, u32),
    /// Connect a job's cores with those of the hubs of lower racks: which rack this is, and which of its hubs.
    Bridge(u32, String, Arc<Contract>, u32, u32),
    /// End it.
    Close(u32),
    /// A job's worker is lost.
    Lose(u32, u32),
    /// A job's worker is there again: what does it owe? Each core answers.
    Resume(u32, u32),
    /// Who holds up a job, at a vector? Each core answers.
    HeldUp(u32, u32),
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

#[derive(Debug)]
struct Job {
    number: u32,
    contract: Arc<Contract>,
    epoch: u16,
    ticket: u64,
    /// Its hubs, and which of them this is.
    layout: Option<(Vec<Cores>, u32)>,
    /// The rack that this hub is in, where there are some.
    rack: Option<u32>,
    begun: bool,
    workers: Vec<State>,
    incarnations: Vec<u64>,
    /// Since when all its workers are lost.
    deserted: Option<Duration>,
    /// What cores have answered about workers that are there again: how many, and the steps behind them.
    resuming: BTreeMap<u32, (u32, Vec<u64>)>,
    /// What cores have answered about who holds others up: how many, and the first that was found.
    late: Option<(u32, Option<HeldUp>, Trouble)>,
}

/// A worker's connection.
#[derive(Debug)]
struct Guest {
    job: String,
    worker: u32,
}

/// A hub's jobs and their workers.
#[derive(Debug)]
pub struct Register {
    cores: u32,
    interfaces: Vec<SocketAddr>,
    optimizers: Optimizers,
    most_jobs: usize,
    jobs: BTreeMap<String, Job>,
    guests: BTreeMap<u32, Guest>,
    pulse: Pulse,
    numbers: u32,
    /// Workers that were lost.
    losses: u64,
    /// Whether new jobs are refused.
    draining: bool,
    acts: Vec<Act>,
    events: VecDeque<Event>,
}

/// Something that happened, for whoever keeps a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What: `job_begins`, `job_ends`, `job_fails`, `rank_is_here`, `rank_leaves`, `rank_is_lost`, `rank_is_refused`.
    pub event: &'static str,
    /// The job.
    pub job: String,
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Most events that wait for somebody who keeps a log.
pub const MOST_EVENTS: usize = 1 << 12;

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
}

impl Register {
    /// A register of a hub with these cores and interfaces, that has at most `most_jobs` jobs at once.
    pub fn new(
        cores: u32,
        interfaces: Vec<SocketAddr>,
        optimizers: Optimizers,
        most_jobs: usize,
        patience: Patience,
    ) -> Self {
        Self {
            cores,
            interfaces,
            optimizers,
            most_jobs,
            jobs: BTreeMap::new(),
            guests: BTreeMap::new(),
            pulse: Pulse::new(patience, 0, Duration::ZERO),
            numbers: 0,
            losses: 0,
            draining: false,
            acts: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// A worker of a job has connected, under a number of its own.
    pub fn arrived(&mut self, guest: u32, job: &str, worker: u32, now: Duration) {
        self.pulse.join(guest as usize, now);
        self.pulse.heard(guest as usize, now);
        self.guests.insert(guest, Guest { job: job.to_owned(), worker });
    }

    /// Whether a connection with a core may be made: by a worker that has opened the job, and knows the ticket.
    ///
    /// # Errors
    /// A clause that says why not.
    pub fn admits(&self, job: u32, worker: u32, ticket: u64) -> Result<(), String> {
        let known = self.jobs.values().find(|known| known.number == job);
        let state = known.filter(|known| known.ticket == ticket).and_then(|k| k.workers.get(worker as usize));
        match state {
            Some(State::Joining(_)) => Ok(()),
            Some(_) => Err(format!("rank {worker} is connected already")),
            None => Err("there is no such job, or the ticket is not for it".to_owned()),
        }
    }

    /// A guest says something. `random` is a number that nobody can guess.
    pub fn heard(&mut self, guest: u32, message: Up, random: u64, now: Duration) {
        self.pulse.heard(guest as usize, now);
        let Some(Guest { job, worker }) = self.guests.get(&guest) else { return };
        let (name, worker) = (job.clone(), *worker);
        match message {
            Up::Open { terms, incarnation } => self.open(guest, &name, worker, (*terms, incarnation), random),
            Up::Alive => {}
            Up::Ready { hubs, hub } => self.ready(guest, &name, worker, (hubs, hub)),
            Up::Late { key, trouble } => self.late(&name, key, trouble),
            Up::Admitted { worker, incarnation, steps } => self.admitted(&name, worker, incarnation, steps),
            Up::Leave => {
                self.release(guest);
                self.gone(&name, worker, State::Left);
            }
        }
    }

    /// A guest's connection is lost.
    pub fn lost(&mut self, guest: u32, trouble: Trouble) {
        let Some(Guest { job, worker }) = self.guests.get(&guest) else { return };
        let (name, worker) = (job.clone(), *worker);
        self.release(guest);
        self.gone(&name, worker, State::Lost(trouble));
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

    /// A worker's connection with a core is lost.
    pub fn broken(&mut self, job: u32, worker: u32, trouble: Trouble) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let name = name.clone();
        let Some(guest) = known.workers[worker as usize].guest() else { return };
        let verdict = Down::Verdict { blame: Blame::Rank(worker), trouble: trouble.clone() };
        self.acts.push(Act::Say(guest, verdict));
        self.acts.push(Act::Dismiss(guest));
        self.release(guest);
        self.gone(&name, worker, State::Lost(trouble));
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
        for job in self.jobs.values_mut() {
            let alone = job.workers.iter().all(|state| state.guest().is_none());
            job.deserted = alone.then(|| job.deserted.unwrap_or(now));
        }
        let acts = &mut self.acts;
        self.jobs.retain(|_, job| {
            let over = job.deserted.is_some_and(|since| now > since + LINGER);
            acts.extend(over.then_some(Act::Close(job.number)));
            !over
        });
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

    /// Whether there is no job.
    pub fn idle(&self) -> bool {
        self.jobs.is_empty()
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
        };
        self.jobs.iter().map(standing).collect()
    }

    /// What has happened since it was asked last: the newest, where that is much.
    pub fn events(&mut self) -> impl Iterator<Item = Event> {
        std::mem::take(&mut self.events).into_iter()
    }

    fn note(&mut self, event: &'static str, job: &str, rank: Option<u32>, why: Option<String>) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event { event, job: job.to_owned(), rank, why });
    }

    /// A guest is no longer listened to.
    fn release(&mut self, guest: u32) {
        self.guests.remove(&guest);
        self.pulse.leave(guest as usize);
    }

    fn refuse(&mut self, guest: u32, why: impl Into<String>, lasts: bool) {
        let why = why.into();
        if let Some(Guest { job, worker }) = self.guests.get(&guest) {
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
        (terms, incarnation): (super::terms::Terms, u64),
        random: u64,
    ) {
        if worker >= terms.workers {
            let why = format!("there is no rank {worker} of {}", terms.workers);
            return self.refuse(guest, why, true);
        }
        if !self.jobs.contains_key(name) {
            if self.draining {
                return self.refuse(guest, "the hub is about to end, and takes no new jobs", true);
            }
            if self.jobs.len() >= self.most_jobs {
                let why = format!("the hub has {} jobs already, which is the most", self.most_jobs);
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
                ticket: random,
                layout: None,
                rack,
                begun: false,
                workers: states,
                incarnations: vec![0; workers],
                deserted: None,
                resuming: BTreeMap::new(),
                late: None,
            };
            self.jobs.insert(name.to_owned(), job);
            self.note("job_begins", name, None, None);
        } else if let Some(what) = self.jobs[name].contract.terms.differs(&terms) {
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
        let opened = Down::Opened {
            job: job.number,
            epoch: job.epoch,
            ticket: job.ticket,
            cores: self.cores,
            interfaces: self.interfaces.clone(),
        };
        self.acts.push(Act::Say(guest, opened));
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
        if hubs.len() > MOST_HUBS || hubs.get(*hub as usize) != Some(&own) || !hubs.iter().all(sane) {
            self.refuse(guest, "the hubs are others than there are", true);
            return self.gone(name, worker, State::Absent);
        }
        match &job.layout {
            None => {
                let contract = Arc::clone(&job.contract);
                self.acts.push(Act::Lay(job.number, Arc::clone(&contract), hubs.clone(), *hub));
                if let Some(rack) = job.rack {
                    self.acts.push(Act::Bridge(job.number, name.to_owned(), contract, rack, *hub));
                }
                job.layout = Some(layout);
            }
            Some(known) if *known != layout => {
                self.refuse(guest, format!("job `{name}` has other hubs, or in another order"), true);
                return self.gone(name, worker, State::Absent);
            }
            Some(_) => {}
        }
        let state = &mut job.workers[worker as usize];
        *state = State::Ready(guest);
        let steps = vec![0; job.contract.catalogue.keys().len()];
        if !job.begun {
            if job.workers.iter().all(|state| matches!(state, State::Ready(_) | State::Elsewhere)) {
                job.begun = true;
                for state in &mut job.workers {
                    if let State::Ready(guest) = *state {
                        *state = State::Here(guest);
                        self.acts.push(Act::Say(guest, Down::Begin { steps: steps.clone() }));
                    }
                }
            }
            return;
        }
        if job.contract.terms.pace == Pace::Asynchronous {
            *state = State::Here(guest);
            self.acts.push(Act::Say(guest, Down::Begin { steps }));
            return;
        }
        match job.contract.terms.policy {
            Policy::Wait => {
                job.resuming.insert(worker, (0, vec![u64::MAX; steps.len()]));
                self.acts.push(Act::Resume(job.number, worker));
            }
            Policy::Shrink | Policy::Fail => self.ask_for(name, worker),
        }
    }

    /// Has the first worker of a job say from when on another one is part of it.
    fn ask_for(&mut self, name: &str, worker: u32) {
        let Some(job) = self.jobs.get(name) else { return };
        let leader = job.workers.iter().find_map(|state| match state {
            State::Here(guest) => Some(*guest),
            _ => None,
        });
        if let Some(guest) = leader {
            let incarnation = job.incarnations[worker as usize];
            self.acts.push(Act::Say(guest, Down::Newcomer { worker, incarnation }));
        }
    }

    fn admitted(&mut self, name: &str, worker: u32, incarnation: u64, steps: Vec<u64>) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let keys = job.contract.catalogue.keys().len();
        let same = job.incarnations.get(worker as usize) == Some(&incarnation) && steps.len() == keys;
        let Some(&State::Ready(guest)) = job.workers.get(worker as usize).filter(|_| same) else { return };
        job.workers[worker as usize] = State::Here(guest);
        self.acts.push(Act::Say(guest, Down::Begin { steps }));
    }

    /// A core says what a worker owes that is there again: the first step of each vector that it has chunks of.
    pub fn resumed(&mut self, job: u32, worker: u32, owed: &BTreeMap<u32, u64>) {
        let cores = self.cores;
        let Some(job) = self.jobs.values_mut().find(|known| known.number == job) else { return };
        let Some((answers, steps)) = job.resuming.get_mut(&worker) else { return };
        *answers += 1;
        for (&key, &first) in owed {
            let steps = &mut steps[key as usize];
            *steps = (first - 1).min(*steps);
        }
        if *answers < cores {
            return;
        }
        // A vector without chunks at this hub has no steps behind it that matter here.
        let steps = std::mem::take(steps);
        job.resuming.remove(&worker);
        if let State::Ready(guest) = job.workers[worker as usize] {
            job.workers[worker as usize] = State::Here(guest);
            self.acts.push(Act::Say(guest, Down::Begin { steps }));
        }
    }

    fn late(&mut self, name: &str, key: u32, trouble: Trouble) {
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.late.is_none()) else { return };
        if !job.begun {
            let absent = (0u32..)
                .zip(&job.workers)
                .find(|(_, state)| !matches!(state, State::Ready(_) | State::Elsewhere));
            let trouble = Trouble { kind: Kind::Deadline, what: "has not come".to_owned() };
            let blame = absent.map_or(Blame::Nobody, |(worker, _)| Blame::Rank(worker));
            return self.fail(name, blame, trouble);
        }
        job.late = Some((0, None, trouble));
        self.acts.push(Act::HeldUp(job.number, key));
    }

    /// A core says who holds up a job.
    pub fn held_up(&mut self, number: u32, found: Option<HeldUp>) {
        let cores = self.cores;
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == number) else {
            return;
        };
        let Some((answers, first, _)) = &mut job.late else { return };
        *answers += 1;
        *first = first.take().or(found);
        if *answers < cores {
            return;
        }
        let (_, found, trouble) = job.late.take().expect("it is there");
        let name = name.clone();
        let Some(HeldUp { chunk, step, missing }) = found else {
            return self.fail(&name, Blame::Nobody, trouble);
        };
        let worker = missing[0];
        let key = job.contract.name(chunk);
        let what = match &job.workers[worker as usize] {
            State::Lost(trouble) => format!("{trouble}, and has not come back"),
            State::Left => "has left and is needed".to_owned(),
            _ => format!("has not pushed `{key}` (step {step}), for which others wait"),
        };
        let trouble = Trouble { kind: Kind::Deadline, what };
        if job.contract.terms.policy == Policy::Shrink {
            self.broken(number, worker, trouble);
        } else {
            self.fail(&name, Blame::Rank(worker), trouble);
        }
    }

    /// A worker is not there any more.
    fn gone(&mut self, name: &str, worker: u32, state: State) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let Some(place) = job.workers.get_mut(worker as usize).filter(|place| place.guest().is_some()) else {
            return;
        };
        if !job.begun && matches!(place, State::Joining(_) | State::Ready(_)) {
            // Nothing depends on it yet: it may come again.
            *place = State::Absent;
        } else {
            *place = state.clone();
        }
        self.acts.push(Act::Lose(job.number, worker));
        job.resuming.remove(&worker);
        if job.workers.iter().all(|state| state.guest().is_none()) {
            let lasting = job.contract.terms.policy == Policy::Wait
                && job.begun
                && job.workers.iter().any(|state| matches!(state, State::Lost(_)));
            if !lasting {
                let number = job.number;
                self.jobs.remove(name);
                self.acts.push(Act::Close(number));
            }
            self.note_gone(name, worker, &state);
            if !lasting {
                self.note("job_ends", name, None, None);
            }
            return;
        }
        let waiting: Vec<u32> = (0u32..)
            .zip(&job.workers)
            .filter(|(_, state)| matches!(state, State::Ready(_)))
            .map(|(worker, _)| worker)
            .collect();
        let (policy, begun) = (job.contract.terms.policy, job.begun);
        self.note_gone(name, worker, &state);
        match (policy, state) {
            (Policy::Fail, State::Lost(trouble)) if begun => {
                self.fail(name, Blame::Rank(worker), trouble);
            }
            // Whoever was asked about newcomers may have been this one.
            (Policy::Shrink, _) if begun => {
                waiting.into_iter().for_each(|waiting| self.ask_for(name, waiting));
            }
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
