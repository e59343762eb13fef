//! A hub that runs: a thread that lets workers in and keeps the register, and one for each core.

use super::assignment::Way;
use super::client::Routes;
use super::core::{Board, Command, Core, Report};
use super::message::Up;
use super::optimizer::Optimizers;
use super::register::{Act, Event, Limits, MOST_CORES, MOST_EVENTS, Register};
use super::shard::{Counters, Joined, Who};
use super::terms::Contract;
use crate::affinity;
use crate::fault::{Kind, Trouble};
use crate::handshake::{Hello, Role, Trust};
use crate::pulse::Patience;
use crate::session::greeting::{self, Greeting};
use crate::session::line::Line;
use crate::session::porch::Porch;
use crate::transport::bell::Bell;
use crate::transport::socket::{Socket, Stream};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a hub is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where it listens: an address of each interface. Port 0 is any that is free.
    pub interfaces: Vec<SocketAddr>,
    /// Threads that sum. Core `c` is reached through interface `c mod interfaces`.
    pub cores: u32,
    /// Whether each of these threads has a CPU of its own: on a host that does nothing else.
    pub pin: bool,
    /// How it knows its workers.
    pub trust: Trust,
    /// Signs of life.
    pub patience: Patience,
    /// Bytes that a worker may be ahead of others, at each core, before no more is read from it.
    pub ahead: usize,
    /// How much it takes on.
    pub limits: Limits,
    /// What it does with gradients.
    pub optimizers: Optimizers,
    /// The congestion control of connections (`cubic`, `reno`); the system's where it is absent.
    pub congestion: Option<String>,
}

/// How a hub is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Seconds since it began.
    pub uptime_s: u64,
    /// Threads that sum.
    pub cores: u32,
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
}

/// Chooses the congestion control of what a listener accepts.
fn choose(listener: &TcpListener, congestion: &str) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return socket2::SockRef::from(listener)
        .set_tcp_congestion(congestion.as_bytes())
        .map_err(|error| format!("cannot have the congestion control `{congestion}`: {error}"));
    #[cfg(not(target_os = "linux"))]
    {
        _ = listener;
        Err(format!("cannot choose the congestion control `{congestion}` on this system"))
    }
}

/// When a hub is to end: never, at once, or in so many milliseconds at most, once its jobs are over.
const NEVER: u64 = u64::MAX;

/// A hub that runs, until it is dropped.
#[derive(Debug)]
pub struct Service {
    interfaces: Vec<SocketAddr>,
    status: Arc<Mutex<Status>>,
    events: Arc<Mutex<VecDeque<Event>>>,
    ends: Arc<AtomicU64>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Begins.
    ///
    /// # Errors
    /// A sentence: an address that cannot be had, or cores that the system gives no threads for.
    pub fn open(setup: Setup) -> Result<Self, String> {
        if !(1..=MOST_CORES).contains(&setup.cores) {
            return Err(format!("{} cores: 1 to {MOST_CORES} are allowed", setup.cores));
        }
        let interfaces = setup.interfaces.len();
        if interfaces == 0 || interfaces > setup.cores as usize {
            return Err(format!(
                "{interfaces} interfaces for {} cores: 1 to as many are allowed",
                setup.cores
            ));
        }
        let cpus = if setup.pin { affinity::allowed() } else { Vec::new() };
        if setup.pin && cpus.len() < setup.cores as usize {
            return Err(format!(
                "has no CPU for each of its {} cores: it may use {}. Serve with fewer, or pin none",
                setup.cores,
                cpus.len()
            ));
        }
        let fault = |error: io::Error| format!("cannot begin: {error}");
        let poll = Poll::new().map_err(fault)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(fault)?);
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for (number, &address) in setup.interfaces.iter().enumerate() {
            let mut listener =
                TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
            if let Some(congestion) = &setup.congestion {
                // What is accepted has it, too.
                choose(&listener, congestion)?;
            }
            let token = Token(LISTENERS.0 - number);
            poll.registry().register(&mut listener, token, Interest::READABLE).map_err(fault)?;
            addresses.push(listener.local_addr().map_err(fault)?);
            listeners.push(listener);
        }
        let (reports, listen) = channel();
        let mut cores = Vec::new();
        for number in 0..setup.cores {
            let (commands, obey) = channel();
            let board = Board::default();
            let tell = (reports.clone(), Arc::clone(&waker));
            let (core, bell) = Core::new(number, setup.ahead, setup.patience, obey, tell, Arc::clone(&board))
                .map_err(fault)?;
            let thread = std::thread::Builder::new().name(format!("core {number}"));
            let cpu = cpus.get(number as usize).copied();
            let thread = thread.spawn(move || core.run(cpu)).map_err(fault)?;
            cores.push(Handle { commands: Some(commands), bell, board, thread: Some(thread) });
        }
        let register = Register::new(
            setup.cores,
            addresses.clone(),
            setup.optimizers.clone(),
            setup.limits,
            setup.patience,
        );
        let status = Arc::new(Mutex::new(Status::default()));
        let events = Arc::default();
        let ends = Arc::new(AtomicU64::new(NEVER));
        let mut hall = Hall {
            setup,
            poll,
            listeners,
            porch: Porch::default(),
            lines: BTreeMap::new(),
            guests: 0,
            register,
            cores,
            reports: listen,
            crossings: channel(),
            bridging: BTreeMap::new(),
            waker: Arc::clone(&waker),
            status: Arc::clone(&status),
            events: Arc::clone(&events),
            interfaces: addresses.clone(),
            ends: Arc::clone(&ends),
            started: Instant::now(),
            failure: None,
            told: Instant::now(),
            cut_off: 0,
        };
        hall.publish(false);
        let thread =
            std::thread::Builder::new().name("hub".to_owned()).spawn(|| hall.run()).map_err(fault)?;
        Ok(Self { interfaces: addresses, status, events, ends, waker, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn interfaces(&self) -> &[SocketAddr] {
        &self.interfaces
    }

    /// How it is, not more than a moment ago.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What has happened since it was asked last.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Takes no new jobs, and ends once there are none, or after so long.
    pub fn drain(&self, most: Duration) {
        let most = u64::try_from(most.as_millis()).unwrap_or(NEVER - 1);
        self.ends.store(most, Ordering::Relaxed);
        _ = self.waker.wake();
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
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
    let cannot = |why: String| format!("cannot be asked: {why}");
    let socket = Greeting::reach(address, (trust, ""), &Role::Visitor, deadline, stop).map_err(cannot)?;
    let mut line = Line::new(socket);
    loop {
        let closed = line.read().err();
        if let Some(status) = line.message()? {
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

const WAKE: Token = Token(usize::MAX);

/// The first listener's; others count down from it, and everybody else counts up from zero.
const LISTENERS: Token = Token(usize::MAX - 1);

/// How long what is said last has to be heard.
const LEAVING: Duration = Duration::from_secs(1);

/// A core, as the hall sees it. It ends once nobody can tell it anything.
#[derive(Debug)]
struct Handle {
    commands: Option<Sender<Command>>,
    bell: Arc<Bell>,
    board: Board,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    fn tell(&self, command: Command) {
        // A core that has ended has said so.
        if self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok()) {
            self.bell.ring();
        }
    }

    /// The core ends, soon.
    fn dismiss(&mut self) {
        self.commands = None;
        self.bell.ring();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.dismiss();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// A connection with a core of another rack, or why there is none: the job, the rack and the core.
type Crossed = (u32, u32, u32, Result<Socket, String>);

/// How long hubs of racks look for each other.
const CROSSING: Duration = Duration::from_secs(60);

/// Somebody who goes to the hubs of lower racks.
struct Crossing {
    name: String,
    rack: u32,
    /// Racks, their addresses, and cores.
    ways: Vec<(u32, SocketAddr, u32)>,
    setup: Setup,
    /// Whether the job is over, or the hub has ended.
    over: Arc<AtomicBool>,
    made: Sender<Crossed>,
    waker: Arc<Waker>,
}

impl Crossing {
    fn run(self, job: u32) {
        let deadline = Instant::now() + CROSSING;
        let mut stop = || match self.over.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err("the job is over".to_owned()),
        };
        for &(rack, address, core) in &self.ways {
            let role = Role::Rack { rack: self.rack, core };
            let made = loop {
                let trust = (&self.setup.trust, self.name.as_str());
                let reached = Greeting::reach(address, trust, &role, deadline, &mut stop);
                // The job may not have begun there yet.
                if reached.is_ok() || Instant::now() > deadline || stop().is_err() {
                    break reached;
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            let failed = made.is_err();
            // Nobody listens where the hub has ended.
            if self.made.send((job, rack, core, made)).is_ok() {
                _ = self.waker.wake();
            }
            if failed {
                return;
            }
        }
    }
}

/// Says so where the thread panics.
struct Farewell(Arc<Mutex<Status>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "it failed, which is a bug of syncline: please report it".to_owned();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(what);
        }
    }
}

/// The thread that lets workers in.
struct Hall {
    setup: Setup,
    poll: Poll,
    listeners: Vec<TcpListener>,
    porch: Porch,
    /// Guests, and whether they go once they have been told everything.
    lines: BTreeMap<u32, (Line, Option<Instant>)>,
    guests: u32,
    register: Register,
    cores: Vec<Handle>,
    reports: Receiver<Report>,
    crossings: (Sender<Crossed>, Receiver<Crossed>),
    /// Jobs that look for hubs of other racks, and whether they are over.
    bridging: BTreeMap<u32, Arc<AtomicBool>>,
    waker: Arc<Waker>,
    status: Arc<Mutex<Status>>,
    events: Arc<Mutex<VecDeque<Event>>>,
    interfaces: Vec<SocketAddr>,
    ends: Arc<AtomicU64>,
    started: Instant,
    failure: Option<String>,
    /// When it was told last who was not let in.
    told: Instant,
    /// Jobs that were under way when the hub ended.
    cut_off: usize,
}

/// How often it is told who was not let in.
const LOGGED: Duration = Duration::from_secs(1);

impl Hall {
    fn run(mut self) {
        let _farewell = Farewell(Arc::clone(&self.status));
        let mut events = Events::with_capacity(256);
        let mut draining: Option<Instant> = None;
        let mut leaving: Option<Instant> = None;
        loop {
            match self.poll.poll(&mut events, Some(self.register.interval())) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    self.failure = Some(format!("cannot wait for its connections: {error}"));
                    self.publish(draining.is_some());
                    return;
                }
                _ => {}
            }
            self.accept();
            self.greet();
            self.listen();
            self.cross();
            let sound = self.hear();
            self.register.tick(self.started.elapsed());
            self.act();
            let most = self.ends.load(Ordering::Relaxed);
            if most != NEVER && draining.is_none() {
                draining = Some(Instant::now());
                self.register.drain();
            }
            let over = draining.is_some_and(|since| since.elapsed() >= Duration::from_millis(most));
            if leaving.is_none() && (!sound || draining.is_some() && self.register.idle() || over) {
                leaving = Some(Instant::now());
                self.cut_off = self.register.standings().len();
                self.register.leave();
                self.act();
            }
            self.say();
            self.publish(draining.is_some());
            if leaving.is_some_and(|since| self.lines.is_empty() || since.elapsed() > LEAVING) {
                self.bridging.values().for_each(|over| over.store(true, Ordering::Relaxed));
                // All at once: each has a moment to say goodbye.
                self.cores.iter_mut().for_each(Handle::dismiss);
                return;
            }
        }
    }

    fn accept(&mut self) {
        for listener in &self.listeners {
            while let Ok((stream, _)) = listener.accept() {
                self.porch.come(stream, &self.setup.trust, None, self.poll.registry());
            }
        }
    }

    /// Goes on with handshakes.
    fn greet(&mut self) {
        let cores = self.setup.cores;
        loop {
            let register = &self.register;
            let admit = |hello: &Hello| match hello.role {
                Role::Worker { .. } | Role::Visitor => Ok(()),
                Role::Core { core, .. } | Role::Rack { core, .. } if core >= cores => {
                    Err(format!("there is no core {core} of {cores}").into())
                }
                Role::Core { rank, number, ticket, .. } => Ok(register.admits(number, rank, ticket)?),
                Role::Rack { rack, .. } => Ok(register.bridges(&hello.job, rack).map(drop)?),
                Role::Member { .. } | Role::Lane { .. } => {
                    let why = "this is a hub: ranks that run plans among themselves meet elsewhere";
                    Err(why.to_owned().into())
                }
            };
            let Some((number, greeting)) = self.porch.next_guest(admit) else { return };
            let job = greeting.job().unwrap_or_default().to_owned();
            match greeting.role().cloned() {
                Some(Role::Worker { rank }) => {
                    let guest = self.guest(greeting.socket);
                    self.register.arrived(guest, &job, rank, self.started.elapsed());
                }
                Some(Role::Visitor) => {
                    let guest = self.guest(greeting.socket);
                    let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    if let Some((line, going)) = self.lines.get_mut(&guest) {
                        line.say(&status);
                        *going = Some(Instant::now());
                    }
                }
                Some(Role::Core { rank, number: job, core, .. }) => {
                    self.attach(greeting.socket, (job, Who::Worker(rank)), core, number as u32);
                }
                Some(Role::Rack { rack, core }) => {
                    if let Ok(job) = self.register.bridges(&job, rack) {
                        self.attach(greeting.socket, (job, Who::Rack(rack)), core, number as u32);
                    }
                }
                _ => {}
            }
        }
    }

    /// A guest that is known now, under a number that nobody had before.
    fn guest(&mut self, socket: Socket) -> u32 {
        let guest = self.guests;
        self.guests += 1;
        self.lines.insert(guest, (Line::new(socket), None));
        guest
    }

    /// Gives a worker's connection to a core.
    fn attach(&mut self, mut socket: Socket, (job, who): (u32, Who), core: u32, number: u32) {
        _ = socket.unwatch(self.poll.registry());
        let connection = Box::new(Stream::new(socket));
        self.cores[core as usize].tell(Command::Attach(job, who, number, connection));
    }

    /// Connects the cores of a job with those of the hubs of lower racks, on a thread of its own: they may not be there yet.
    fn bridge(&mut self, job: u32, name: String, contract: &Contract, rack: u32, hub: u32) {
        let Some(racks) = &contract.terms.racks else { return };
        let lower = (0..rack).zip(racks.hubs.iter().map(|hubs| hubs[hub as usize]));
        let ways: Vec<(u32, SocketAddr, u32)> =
            lower.flat_map(|(to, at)| (0..self.setup.cores).map(move |core| (to, at, core))).collect();
        let crossing = Crossing {
            name,
            rack,
            ways,
            setup: self.setup.clone(),
            over: Arc::clone(self.bridging.entry(job).or_default()),
            made: self.crossings.0.clone(),
            waker: Arc::clone(&self.waker),
        };
        // Where the system gives no thread, ranks are told when their time is up.
        _ = std::thread::Builder::new().name("bridge".to_owned()).spawn(move || crossing.run(job));
    }

    /// Gives connections with other racks to their cores.
    fn cross(&mut self) {
        while let Ok((job, rack, core, made)) = self.crossings.1.try_recv() {
            match made {
                Ok(socket) => {
                    let number = self.porch.number() as u32;
                    self.attach(socket, (job, Who::Rack(rack)), core, number);
                }
                Err(why) => {
                    let what = format!("cannot be reached: {why}");
                    self.register.parted(job, rack, Trouble { kind: Kind::Closed, what });
                }
            }
        }
    }

    /// Hears what guests say.
    fn listen(&mut self) {
        let guests: Vec<u32> = self.lines.keys().copied().collect();
        for guest in guests {
            let Some((line, going)) = self.lines.get_mut(&guest) else { continue };
            let closed = line.read();
            if going.is_some() {
                if closed.is_err() {
                    self.lines.remove(&guest);
                }
                continue;
            }
            while let Some((line, None)) = self.lines.get_mut(&guest) {
                let message = line.message::<Up>().and_then(|message| Ok((message, greeting::random()?)));
                match message {
                    Ok((Some(message), random)) => {
                        self.register.heard(guest, message, random, self.started.elapsed());
                        self.act();
                    }
                    Ok((None, _)) => break,
                    Err(what) => {
                        self.register.lost(guest, Trouble { kind: Kind::Corrupt, what });
                        self.lines.remove(&guest);
                    }
                }
            }
            if let (Err(how), true) = (closed, self.lines.contains_key(&guest)) {
                self.register.lost(guest, Trouble::closed(&how));
                self.lines.remove(&guest);
            }
        }
    }

    /// Hears what cores report; whether all of them work.
    fn hear(&mut self) -> bool {
        let mut sound = true;
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Lost(job, Who::Worker(rank), trouble) => self.register.broken(job, rank, trouble),
                Report::Lost(job, Who::Rack(rack), trouble) => self.register.parted(job, rack, trouble),
                Report::Missed(job, worker) => self.register.missed(job, worker),
                Report::Joined(core, Joined { job, worker, incarnation, steps }) => {
                    self.register.joined(job, core, worker, incarnation, steps);
                }
                Report::HeldUp(job, found) => self.register.held_up(job, found),
                Report::Failed(what) => {
                    self.failure = Some(what);
                    sound = false;
                }
            }
        }
        sound
            && self.cores.iter().all(|core| core.thread.as_ref().is_some_and(|thread| !thread.is_finished()))
    }

    /// Does what the register says.
    fn act(&mut self) {
        for act in self.register.acts() {
            match act {
                Act::Say(guest, message) => {
                    if let Some((line, _)) = self.lines.get_mut(&guest) {
                        line.say(&message);
                    }
                }
                Act::Dismiss(guest) => {
                    if let Some((_, going)) = self.lines.get_mut(&guest) {
                        *going = Some(Instant::now());
                    }
                }
                Act::Open(job, contract, epoch) => {
                    let tell = |core: &Handle| core.tell(Command::Open(job, Arc::clone(&contract), epoch));
                    self.cores.iter().for_each(tell);
                }
                Act::Bridge(job, name, contract, rack, hub) => self.bridge(job, name, &contract, rack, hub),
                Act::Lay(job, contract, hubs, hub) => {
                    let rack = self.register.rack(job);
                    let routes = Routes::new(&contract, &hubs);
                    for (core, handle) in (0u32..).zip(&self.cores) {
                        handle.tell(Command::Lay(job, routes.chunks(Way { hub, core }), rack));
                    }
                }
                Act::Close(job) => {
                    if let Some(over) = self.bridging.remove(&job) {
                        over.store(true, Ordering::Relaxed);
                    }
                    self.cores.iter().for_each(|core| core.tell(Command::Close(job)));
                }
                Act::Retire(job) => {
                    self.bridging.remove(&job);
                    self.cores.iter().for_each(|core| core.tell(Command::Retire(job)));
                }
                Act::Lose(job, worker) => {
                    self.cores.iter().for_each(|core| core.tell(Command::Lose(job, worker)));
                }
                Act::Forget(job, worker) => {
                    self.cores.iter().for_each(|core| core.tell(Command::Forget(job, worker)));
                }
                Act::Resume(job, worker, number) => {
                    self.cores.iter().for_each(|core| core.tell(Command::Resume(job, worker, number)));
                }
                Act::Expect(job, worker, number) => {
                    self.cores.iter().for_each(|core| core.tell(Command::Expect(job, worker, number)));
                }
                Act::HeldUp(job, key) => {
                    self.cores.iter().for_each(|core| core.tell(Command::HeldUp(job, key)));
                }
            }
        }
    }

    /// Writes what there is to say; those who have been told everything go.
    fn say(&mut self) {
        let mut gone = Vec::new();
        for (&guest, (line, going)) in &mut self.lines {
            let written = line.write();
            match going {
                Some(since) if line.said() || written.is_err() || since.elapsed() > LEAVING => {
                    _ = line.socket.shutdown();
                    gone.push(guest);
                }
                None if written.is_err() => {
                    // What it said last is read first; then its end is.
                }
                _ => {}
            }
        }
        gone.iter().for_each(|guest| _ = self.lines.remove(guest));
    }

    /// Lets whoever looks know how the hub is, and what has happened.
    fn publish(&mut self, draining: bool) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.extend(self.register.events());
        // As often as nobody's log is flooded.
        if self.told.elapsed() >= LOGGED {
            self.told = Instant::now();
            let refused = std::mem::take(&mut self.porch.turned_away).into_iter();
            events.extend(refused.map(|(from, why)| Event::refused(from, why, self.porch.refused)));
        }
        let surplus = events.len().saturating_sub(MOST_EVENTS);
        events.drain(..surplus);
        drop(events);
        let boards: Vec<_> = self
            .cores
            .iter()
            .map(|core| core.board.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect();
        let jobs = self.register.standings().into_iter().map(|standing| {
            let counters: Vec<_> = boards
                .iter()
                .map(|board| board.jobs.get(&standing.number).copied().unwrap_or_default())
                .collect();
            JobStatus {
                job: standing.job,
                keys: standing.keys,
                chunks: standing.chunks,
                ranks: standing.workers.into_iter().map(str::to_owned).collect(),
                bytes_in: counters.iter().map(|core| core.bytes_in).collect(),
                bytes_out: counters.iter().map(|core| core.bytes_out).collect(),
                pushes: counters.iter().map(|core| core.pushes).sum(),
                steps: counters.iter().map(|core| core.steps).sum(),
            }
        });
        let status = Status {
            uptime_s: self.started.elapsed().as_secs(),
            cores: self.setup.cores,
            interfaces: self.interfaces.clone(),
            draining,
            refused: self.porch.refused,
            lost: self.register.losses(),
            cut_off: self.cut_off,
            failure: self.failure.clone(),
            moved: boards.iter().map(|board| board.all).fold(Counters::default(), Counters::with),
            jobs: jobs.collect(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
