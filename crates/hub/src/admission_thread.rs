//! The thread of a hub that lets workers in, keeps the register, and tells cores what to do.

use super::assignment::Cores;
use super::core_thread::{Command, Handle, Report};
use super::events::{Event, Events as Journal};
use super::message::Up;
use super::rack_connection::{Crossed, RackConnection};
use super::register::{Act, Register, Room, Shares};
use super::serve::Setup;
use super::shard::{Bounds, Counters, Who};
use super::status::{JobStatus, Status};
use super::terms::Contract;
use mio::net::TcpListener;
use mio::{Events, Interest, Token, Waker};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Kind, Trouble};
use syncline_protocol::handshake::{Hello, Role};
use syncline_transport::congestion;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::MOST;
use syncline_transport::pending_handshakes::PendingHandshakes;
use syncline_transport::random;
use syncline_transport::socket::{Socket, Stream};

const WAKE: Token = Token(usize::MAX);

/// The first listener's; others count down from it, and everybody else counts up from zero.
const LISTENERS: Token = Token(usize::MAX - 1);

/// How long what is said last has to be heard.
const LEAVING: Duration = Duration::from_secs(1);

/// When a hub is to end: never, at once, or in so many milliseconds at most, once its jobs are over.
pub(super) const NEVER: u64 = u64::MAX;

/// Which core has which chunk of a job, by the job's number.
type Planned = (u32, Shares);

/// What others see of the hall, and tell it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) events: Arc<Mutex<Journal>>,
    /// [`NEVER`], or in how many milliseconds at most.
    pub(super) ends: Arc<AtomicU64>,
    /// Has it look.
    pub(super) waker: Arc<Waker>,
}

/// Says so where the thread panics.
struct Farewell(Window);

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "it failed, which is a bug of syncline: please report it".to_owned();
            self.0.status.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(what);
        }
    }
}

/// The thread that lets workers in.
pub(super) struct AdmissionThread {
    setup: Setup,
    poll: Watcher,
    listeners: Vec<TcpListener>,
    pending: PendingHandshakes,
    /// Guests, and whether they go once they have been told everything.
    connections: BTreeMap<u32, (ControlConnection, Option<Instant>)>,
    guests: u32,
    register: Register,
    cores: Vec<Handle>,
    reports: Receiver<Report>,
    crossings: (Sender<Crossed>, Receiver<Crossed>),
    /// Which core has which chunk of a job, by the job's number.
    plans: (Sender<Planned>, Receiver<Planned>),
    /// Jobs that look for hubs of other racks, and whether they are over.
    bridging: BTreeMap<u32, Arc<AtomicBool>>,
    window: Window,
    interfaces: Vec<SocketAddr>,
    started: Instant,
    failure: Option<String>,
    /// When it was told last who was not let in.
    told: Instant,
    /// Jobs that were under way when the hub ended.
    cut_off: usize,
}

/// How often it is told who was not let in.
const LOGGED: Duration = Duration::from_secs(1);

impl AdmissionThread {
    /// A hall, where it listens, and what others see of it. Its cores work from now on, on a CPU each where there are some.
    ///
    /// # Errors
    /// A sentence: an address that cannot be had, or cores that the system gives no threads for.
    pub(super) fn open(setup: Setup, cpus: &[usize]) -> Result<(Self, Vec<SocketAddr>, Window), String> {
        let fault = |error: io::Error| format!("cannot begin: {error}");
        let poll = Watcher::new().map_err(fault)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(fault)?);
        let mut listeners = Vec::new();
        let mut interfaces = Vec::new();
        for (number, &address) in setup.interfaces.iter().enumerate() {
            let mut listener =
                TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
            if let Some(name) = &setup.congestion {
                // What is accepted has it, too.
                congestion::choose(&SockRef::from(&listener), name)?;
            }
            let token = Token(LISTENERS.0 - number);
            poll.registry().register(&mut listener, token, Interest::READABLE).map_err(fault)?;
            interfaces.push(listener.local_addr().map_err(fault)?);
            listeners.push(listener);
        }
        let (report, reports) = channel();
        let mut cores = Vec::new();
        for number in 0..setup.cores {
            let tell = (report.clone(), Arc::clone(&waker));
            let cpu = cpus.get(number as usize).copied();
            cores.push(Handle::spawn(number, setup.patience, tell, cpu).map_err(fault)?);
        }
        let register = Register::new(
            setup.cores,
            interfaces.clone(),
            setup.optimizers.clone(),
            setup.limits,
            setup.patience,
        );
        let (status, events) = (Arc::default(), Arc::default());
        let window = Window { status, events, ends: Arc::new(AtomicU64::new(NEVER)), waker };
        let mut hall = Self {
            setup,
            poll,
            listeners,
            pending: PendingHandshakes::default(),
            connections: BTreeMap::new(),
            guests: 0,
            register,
            cores,
            reports,
            crossings: channel(),
            plans: channel(),
            bridging: BTreeMap::new(),
            window: window.clone(),
            interfaces: interfaces.clone(),
            started: Instant::now(),
            failure: None,
            told: Instant::now(),
            cut_off: 0,
        };
        hall.publish(false);
        Ok((hall, interfaces, window))
    }

    /// Works until the hub is to end.
    pub(super) fn run(mut self) {
        let _farewell = Farewell(self.window.clone());
        let mut events = Events::with_capacity(256);
        let mut draining: Option<Instant> = None;
        let mut leaving: Option<Instant> = None;
        let mut more = false;
        loop {
            let wait = if more { Duration::ZERO } else { self.register.interval() };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    self.failure = Some(format!("cannot wait for its connections: {error}"));
                    self.publish(draining.is_some());
                    return;
                }
                _ => {}
            }
            more = self.accept();
            self.greet();
            self.listen();
            self.cross();
            let sound = self.hear();
            while let Ok((job, shares)) = self.plans.1.try_recv() {
                self.register.planned(job, shares);
            }
            self.register.tick(self.started.elapsed());
            self.act();
            let most = self.window.ends.load(Ordering::Relaxed);
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
            if leaving.is_some_and(|since| self.connections.is_empty() || since.elapsed() > LEAVING) {
                self.bridging.values().for_each(|over| over.store(true, Ordering::Relaxed));
                // All at once: each has a moment to say goodbye.
                self.cores.iter_mut().for_each(Handle::dismiss);
                return;
            }
        }
    }

    /// Lets some come who connect; whether there may be more. Those who are here are heard in between, however many come.
    fn accept(&mut self) -> bool {
        let mut more = false;
        for listener in &self.listeners {
            let come = std::iter::from_fn(|| listener.accept().ok()).take(MOST);
            more |= come
                .map(|(stream, _)| self.pending.add(stream, &self.setup.trust, None, self.poll.registry()))
                .count()
                == MOST;
        }
        more
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
            let Some((number, handshake)) = self.pending.next_admitted(admit) else { return };
            let job = handshake.job().unwrap_or_default().to_owned();
            match handshake.role().cloned() {
                Some(Role::Worker { rank }) => {
                    let guest = self.guest(handshake.socket);
                    self.register.arrived(guest, &job, rank, self.started.elapsed());
                }
                Some(Role::Visitor) => {
                    let guest = self.guest(handshake.socket);
                    let status = self.window.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    if let Some((connection, going)) = self.connections.get_mut(&guest) {
                        connection.send(&status);
                        *going = Some(Instant::now());
                    }
                }
                Some(Role::Core { rank, number: job, core, .. }) => {
                    self.attach(handshake.socket, (job, Who::Worker(rank)), core, number as u32);
                }
                Some(Role::Rack { rack, core }) => {
                    if let Ok(job) = self.register.bridges(&job, rack) {
                        self.attach(handshake.socket, (job, Who::Rack(rack)), core, number as u32);
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
        self.connections.insert(guest, (ControlConnection::new(socket), None));
        guest
    }

    /// Gives a worker's connection to a core.
    fn attach(&mut self, mut socket: Socket, (job, who): (u32, Who), core: u32, number: u32) {
        _ = socket.unwatch(self.poll.registry());
        let connection = Box::new(Stream::new(socket));
        self.cores[core as usize].tell(Command::Attach(job, who, number, connection));
    }

    /// Finds out which core has which chunk of a job, on a thread of its own: chunks may be millions, and other jobs go on.
    fn plan(&self, job: u32, contract: Arc<Contract>, hubs: Vec<Cores>, hub: u32) {
        let (tell, waker) = (self.plans.0.clone(), Arc::clone(&self.window.waker));
        let find = move || {
            // Nobody listens where the hub is ending.
            if tell.send((job, Shares::new(&contract, &hubs, hub))).is_ok() {
                _ = waker.wake();
            }
        };
        // Where the system gives no thread, ranks are told when their time is up.
        _ = std::thread::Builder::new().name("plan".to_owned()).spawn(find);
    }

    /// Connects the cores of a job with those of the hubs of lower racks, on a thread of its own: they may not be there yet.
    fn bridge(&mut self, job: u32, name: String, contract: &Contract, rack: u32, hub: u32) {
        let Some(racks) = &contract.terms.racks else { return };
        let lower = (0..rack).zip(racks.hubs.iter().map(|hubs| hubs[hub as usize]));
        let ways: Vec<(u32, SocketAddr, u32)> =
            lower.flat_map(|(to, at)| (0..self.setup.cores).map(move |core| (to, at, core))).collect();
        let crossing = RackConnection {
            name,
            rack,
            ways,
            trust: self.setup.trust.clone(),
            over: Arc::clone(self.bridging.entry(job).or_default()),
            made: self.crossings.0.clone(),
            waker: Arc::clone(&self.window.waker),
        };
        // Where the system gives no thread, ranks are told when their time is up.
        _ = std::thread::Builder::new().name("bridge".to_owned()).spawn(move || crossing.run(job));
    }

    /// Gives connections with other racks to their cores.
    fn cross(&mut self) {
        while let Ok((job, rack, core, made)) = self.crossings.1.try_recv() {
            match made {
                Ok(socket) => {
                    let number = self.pending.next_token() as u32;
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
        let guests: Vec<u32> = self.connections.keys().copied().collect();
        for guest in guests {
            let Some((connection, going)) = self.connections.get_mut(&guest) else { continue };
            if going.is_some() {
                continue;
            }
            let closed = connection.read();
            while let Some((connection, None)) = self.connections.get_mut(&guest) {
                let message = connection.receive::<Up>().and_then(|message| Ok((message, random::random()?)));
                match message {
                    Ok((Some(message), random)) => {
                        self.register.heard(guest, message, random, self.started.elapsed());
                        self.act();
                    }
                    Ok((None, _)) => break,
                    Err(what) => {
                        self.register.lost(guest, Trouble { kind: Kind::Corrupt, what });
                        self.connections.remove(&guest);
                    }
                }
            }
            if let (Err(how), true) = (closed, self.connections.contains_key(&guest)) {
                self.register.lost(guest, Trouble::closed(&how));
                self.connections.remove(&guest);
            }
        }
    }

    /// Hears what cores report; whether all of them work.
    fn hear(&mut self) -> bool {
        let mut sound = true;
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Lost(job, Who::Worker(rank), trouble) => {
                    self.register.broken(job, rank, trouble, self.started.elapsed());
                }
                Report::Lost(job, Who::Rack(rack), trouble) => self.register.parted(job, rack, trouble),
                Report::Missed(job, worker) => self.register.missed(job, worker),
                Report::Joined(core, joined) => self.register.joined(core, joined),
                Report::HeldUp(job, worker, queue) => self.register.held_up(job, worker, queue),
                Report::Failed(what) => {
                    self.failure = Some(what);
                    sound = false;
                }
            }
        }
        sound && self.cores.iter().all(Handle::works)
    }

    /// Does what the register says.
    fn act(&mut self) {
        for act in self.register.acts() {
            match act {
                Act::Say(guest, message) => {
                    if let Some((connection, _)) = self.connections.get_mut(&guest) {
                        connection.send(&message);
                    }
                }
                Act::Dismiss(guest) => {
                    if let Some((_, going)) = self.connections.get_mut(&guest) {
                        *going = Some(Instant::now());
                    }
                }
                Act::Open(job, contract, epoch) => {
                    let tell = |core: &Handle| core.tell(Command::Open(job, Arc::clone(&contract), epoch));
                    self.cores.iter().for_each(tell);
                }
                Act::Bridge(job, name, contract, rack, hub) => self.bridge(job, name, &contract, rack, hub),
                Act::Plan(job, contract, hubs, hub) => self.plan(job, contract, hubs, hub),
                Act::Lay(job, shares, Room { cores, ahead, .. }) => {
                    let rack = self.register.rack(job);
                    for ((share, most), handle) in shares.into_iter().zip(cores).zip(&self.cores) {
                        handle.tell(Command::Lay(job, share, rack, Bounds { ahead, most }));
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
                Act::Resume(job, worker, which) => {
                    self.cores.iter().for_each(|core| core.tell(Command::Resume(job, worker, which)));
                }
                Act::Expect(job, worker, which) => {
                    self.cores.iter().for_each(|core| core.tell(Command::Expect(job, worker, which)));
                }
                Act::HeldUp(job, worker, key, step) => {
                    let tell = |core: &Handle| core.tell(Command::HeldUp(job, worker, key, step));
                    self.cores.iter().for_each(tell);
                }
            }
        }
    }

    /// Writes what there is to say; those who have been told everything go.
    fn say(&mut self) {
        self.connections.retain(|_, (connection, going)| match going {
            Some(since) => !connection.close() && since.elapsed() <= LEAVING,
            None => {
                // Where that fails, what it said last is read first; then its end is.
                _ = connection.write();
                true
            }
        });
    }

    /// Lets whoever looks know how the hub is, and what has happened.
    fn publish(&mut self, draining: bool) {
        let mut events = self.window.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.extend(self.register.events());
        // As often as nobody's log is flooded.
        if self.told.elapsed() >= LOGGED {
            self.told = Instant::now();
            let refused = std::mem::take(&mut self.pending.rejections).into_iter();
            events.extend(refused.map(|(from, why)| Event::refused(from, why, self.pending.refused)));
        }
        drop(events);
        let boards: Vec<_> = self.cores.iter().map(Handle::moved).collect();
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
                memory: standing.memory,
            }
        });
        let status = Status {
            uptime_s: self.started.elapsed().as_secs(),
            cores: self.setup.cores,
            memory: self.setup.limits.memory,
            interfaces: self.interfaces.clone(),
            draining,
            refused: self.pending.refused,
            lost: self.register.losses(),
            cut_off: self.cut_off,
            failure: self.failure.clone(),
            moved: boards.iter().map(|board| board.all).fold(Counters::default(), Counters::with),
            jobs: jobs.collect(),
        };
        *self.window.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
