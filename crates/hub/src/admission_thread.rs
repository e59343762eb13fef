//! The thread of a hub that admits workers, owns the register, and commands the cores.

use super::assignment::HubList;
use super::core_thread::{Command, CoreHandle, Report};
use super::events::{Event, EventLog};
use super::message::FromWorker;
use super::rack_connection::{RackConnector, RackSocket, RackTarget};
use super::register::{Action, MemoryShare, Register, Shares};
use super::save_folder::{self, SaveFolder, SaveResult, SaveTask};
use super::saved::{FoundSaves, SavedChunk};
use super::setup::{OpenError, SaveSettings, Setup};
use super::shard::{Bounds, Counters, Peer};
use super::status::{JobStatus, Status};
use super::terms::Contract;
use mio::net::TcpListener;
use mio::{Events, Interest, Token, Waker};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use syncline_protocol::fault::{FaultKind, Trouble};
use syncline_protocol::handshake::{Hello, Role};
use syncline_transport::congestion;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::MAX_PENDING;
use syncline_transport::pending_handshakes::{PendingHandshakes, Rejected};
use syncline_transport::random;
use syncline_transport::socket::{Socket, Stream};

const WAKE: Token = Token(usize::MAX);

/// The token of the first listener. Those of other listeners count down from it; all other tokens count up from zero.
const LISTENERS: Token = Token(usize::MAX - 1);

/// How long a client that asks for saves waits for jobs to complete a step.
const SAVING: Duration = Duration::from_secs(20);

/// Grace period for final messages.
const LEAVING: Duration = Duration::from_secs(1);

/// Which core has which chunk of a job, by the job's number, and the state from which the job continues, or why it
/// cannot.
type Planned = (u32, Shares, Result<BTreeMap<u32, SavedChunk>, String>);

/// The saves of a job that workers open, by the job's name.
type Searched = (String, FoundSaves);

/// The state that the admission thread shares with the hub's owner.
#[derive(Clone, Debug)]
pub(super) struct SharedState {
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) events: Arc<Mutex<EventLog>>,
    /// If set, the hub ends once no job has a worker, or after this time.
    pub(super) ends: Arc<Mutex<Option<Duration>>>,
    /// Wakes the admission thread.
    pub(super) waker: Arc<Waker>,
}

/// A control connection.
struct Control {
    connection: ControlConnection,
    /// When it began to close. Nothing more is read from it then.
    closing: Option<Instant>,
}

/// Publishes the failure if the thread panics.
struct PanicReporter(SharedState);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "it failed, which is a bug in syncline: please report it".to_owned();
            self.0.status.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(what);
        }
    }
}

/// The hub, as the admission thread runs it.
pub(super) struct AdmissionThread {
    setup: Setup,
    poll: Watcher,
    listeners: Vec<TcpListener>,
    pending: PendingHandshakes,
    /// Control connections, by number.
    connections: BTreeMap<u32, Control>,
    /// The number of the next control connection.
    next_connection: u32,
    register: Register,
    cores: Vec<CoreHandle>,
    reports: Receiver<Report>,
    /// Connections to hubs of other racks.
    rack_sockets: (Sender<RackSocket>, Receiver<RackSocket>),
    /// Where saves of jobs are kept, if they are.
    saves: Option<SaveFolder>,
    /// Control connections of clients that have asked for saves, and since when.
    save_clients: BTreeMap<u32, Instant>,
    /// Workers that open jobs whose saves are being searched for, or of which one is still being written: their control
    /// connections and messages, by the job's name.
    openings: BTreeMap<String, Vec<(u32, FromWorker)>>,
    /// What searches have found.
    searches: (Sender<Searched>, Receiver<Searched>),
    /// Results of [`Action::Plan`].
    plan_sender: Sender<Planned>,
    plan_receiver: Receiver<Planned>,
    /// Jobs with a thread that connects to hubs of other racks, and whether they are over.
    connecting: BTreeMap<u32, Arc<AtomicBool>>,
    shared: SharedState,
    interfaces: Vec<SocketAddr>,
    started: Instant,
    failure: Option<String>,
    /// When events of refused connections were last published.
    logged: Instant,
    /// The number of jobs that were running when the hub ended.
    cut_off: usize,
}

/// Reads the state from which a job continues.
///
/// # Errors
/// A clause with the save as subject.
fn restore(
    file: &Path,
    contract: &Contract,
    hubs: &HubList,
    shares: &Shares,
) -> Result<BTreeMap<u32, SavedChunk>, String> {
    let saved =
        save_folder::read(file, contract, hubs).map_err(|error| format!("{} {error}", file.display()))?;
    let expected: usize = shares.chunks.iter().map(Vec::len).sum();
    if saved.len() != expected || shares.chunks.iter().flatten().any(|chunk| !saved.contains_key(chunk)) {
        return Err(format!(
            "{} has {} chunks, and not the {expected} that this hub has",
            file.display(),
            saved.len()
        ));
    }
    Ok(saved)
}

/// How often events of refused connections are published.
const LOG_EVERY: Duration = Duration::from_secs(1);

impl AdmissionThread {
    /// Creates a hub, and starts its cores, each on one of `cpus` if there are any. Returns the addresses where it
    /// listens and its shared state, too.
    ///
    /// # Errors
    /// An address is not available, or the system cannot start a thread for a core.
    pub(super) fn open(
        setup: Setup,
        cpus: &[usize],
    ) -> Result<(Self, Vec<SocketAddr>, SharedState), OpenError> {
        let fault = |error: io::Error| format!("cannot start: {error}");
        let poll = Watcher::new().map_err(fault)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(fault)?);
        let mut listeners = Vec::new();
        let mut interfaces = Vec::new();
        for (number, &address) in setup.interfaces.iter().enumerate() {
            let mut listener = TcpListener::bind(address).map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => OpenError::AddressInUse { address, error },
                _ => OpenError::Other(format!("cannot listen on {address}: {error}")),
            })?;
            if let Some(name) = &setup.congestion {
                // Accepted connections inherit the congestion control.
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
            let (reports, waker) = (report.clone(), Arc::clone(&waker));
            let cpu = cpus.get(number as usize).copied();
            cores.push(CoreHandle::spawn(number, setup.patience, reports, waker, cpu).map_err(fault)?);
        }
        let mut register = Register::new(
            setup.cores,
            interfaces.clone(),
            setup.optimizers.clone(),
            setup.limits,
            setup.patience,
        );
        let mut saves = None;
        if let Some(SaveSettings { folder, every }) = &setup.saves {
            let opened = SaveFolder::open(folder, Arc::clone(&waker)).map_err(OpenError::Saves)?;
            saves = Some(opened);
            register.keep_saves(*every);
        }
        let (status, events) = (Arc::default(), Arc::default());
        let shared = SharedState { status, events, ends: Arc::default(), waker };
        let (plan_sender, plan_receiver) = channel();
        let mut thread = Self {
            setup,
            poll,
            listeners,
            pending: PendingHandshakes::default(),
            connections: BTreeMap::new(),
            next_connection: 0,
            register,
            cores,
            reports,
            rack_sockets: channel(),
            saves,
            save_clients: BTreeMap::new(),
            openings: BTreeMap::new(),
            searches: channel(),
            plan_sender,
            plan_receiver,
            connecting: BTreeMap::new(),
            shared: shared.clone(),
            interfaces: interfaces.clone(),
            started: Instant::now(),
            failure: None,
            logged: Instant::now(),
            cut_off: 0,
        };
        thread.publish(false);
        Ok((thread, interfaces, shared))
    }

    /// Works until the hub ends.
    pub(super) fn run(mut self) {
        let _panic_reporter = PanicReporter(self.shared.clone());
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
                _ => events.iter().for_each(|event| self.pending.note_event(event.token())),
            }
            more = self.accept();
            self.advance_handshakes();
            self.receive();
            self.attach_racks();
            let healthy = self.take_reports();
            while let Ok((job, shares, saved)) = self.plan_receiver.try_recv() {
                self.register.planned(job, shares, saved);
            }
            self.take_save_results();
            self.take_searches();
            self.register.tick(self.started.elapsed());
            self.act();
            self.answer_save_clients();
            let most = *self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner);
            if most.is_some() && draining.is_none() {
                draining = Some(Instant::now());
                self.register.drain();
                self.register.want_saves();
            }
            let over = draining.zip(most).is_some_and(|(since, most)| since.elapsed() >= most);
            if leaving.is_none() && (!healthy || draining.is_some() && self.register.idle() || over) {
                leaving = Some(Instant::now());
                self.cut_off = self.register.jobs(self.started.elapsed()).len();
                self.register.leave();
                self.act();
            }
            self.write();
            self.publish(draining.is_some());
            if leaving.is_some_and(|since| self.connections.is_empty() || since.elapsed() > LEAVING) {
                self.connecting.values().for_each(|over| over.store(true, Ordering::Relaxed));
                // Stop all cores before their handles wait for each: each core has a grace period.
                self.cores.iter_mut().for_each(CoreHandle::stop);
                return;
            }
        }
    }

    /// Accepts some connections. Returns whether there may be more: known connections have their turn in between.
    fn accept(&mut self) -> bool {
        let mut more = false;
        for listener in &self.listeners {
            let accepted = std::iter::from_fn(|| listener.accept().ok()).take(MAX_PENDING);
            more |= accepted
                .map(|(stream, _)| self.pending.add(stream, &self.setup.trust, None, self.poll.registry()))
                .count()
                == MAX_PENDING;
        }
        more
    }

    /// Advances handshakes, and takes over connections that are admitted.
    fn advance_handshakes(&mut self) {
        let cores = self.setup.cores;
        loop {
            let register = &self.register;
            let admit = |hello: &Hello| match hello.role {
                Role::Worker { .. } | Role::StatusClient | Role::SaveClient => Ok(()),
                Role::Core { core, .. } | Role::Rack { core, .. } if core >= cores => {
                    Err(format!("core {core} does not exist: the hub has {cores} cores").into())
                }
                Role::Core { rank, number, ticket, .. } => Ok(register.admits_core(number, rank, ticket)?),
                Role::Rack { rack, .. } => Ok(register.admits_rack(&hello.job, rack).map(drop)?),
                Role::Member { .. } | Role::Survivor { .. } | Role::Successor { .. } | Role::Lane { .. } => {
                    let why = "this is a hub: ranks that communicate among themselves must connect to rank 0";
                    Err(why.to_owned().into())
                }
            };
            let Some((number, handshake)) = self.pending.next_admitted(admit) else { return };
            let job = handshake.job().unwrap_or_default().to_owned();
            match handshake.role().cloned() {
                Some(Role::Worker { rank }) => {
                    let number = self.add_connection(handshake.socket);
                    self.register.connected(number, &job, rank, self.started.elapsed());
                }
                Some(Role::StatusClient) => {
                    let number = self.add_connection(handshake.socket);
                    let status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    if let Some(control) = self.connections.get_mut(&number) {
                        control.connection.send(&status);
                        control.closing = Some(Instant::now());
                    }
                }
                Some(Role::SaveClient) => {
                    let number = self.add_connection(handshake.socket);
                    self.register.want_saves();
                    self.save_clients.insert(number, Instant::now());
                }
                Some(Role::Core { rank, number: job, core, .. }) => {
                    self.attach(handshake.socket, job, Peer::Worker(rank), core, number as u32);
                }
                Some(Role::Rack { rack, core }) => {
                    if let Ok(job) = self.register.admits_rack(&job, rack) {
                        self.attach(handshake.socket, job, Peer::Rack(rack), core, number as u32);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds a control connection, and returns its number.
    fn add_connection(&mut self, socket: Socket) -> u32 {
        let number = self.next_connection;
        self.next_connection += 1;
        let control = Control { connection: ControlConnection::new(socket), closing: None };
        self.connections.insert(number, control);
        number
    }

    /// Gives a connection to a core.
    fn attach(&mut self, mut socket: Socket, job: u32, peer: Peer, core: u32, number: u32) {
        _ = socket.unwatch(self.poll.registry());
        let connection = Box::new(Stream::new(socket));
        self.cores[core as usize].send(Command::Attach { job, peer, number, connection });
    }

    /// Takes in what has become of saves.
    fn take_save_results(&mut self) {
        while let Some(SaveResult { job, name, number, step, outcome }) =
            self.saves.as_mut().and_then(SaveFolder::result)
        {
            self.register.save_written(job, number, step, outcome, self.started.elapsed());
            if self.openings.contains_key(&name) {
                self.search(&name);
            }
        }
    }

    /// Answers clients that have asked for saves, once all jobs are saved or have had [`SAVING`] to complete a step.
    fn answer_save_clients(&mut self) {
        if self.save_clients.is_empty() {
            return;
        }
        let pending = self.register.saves_pending();
        let answer = self.saves.as_ref().map(|_| self.register.save_reports());
        let connections = &mut self.connections;
        self.save_clients.retain(|number, since| {
            let due = !pending || since.elapsed() > SAVING;
            if let Some(control) = connections.get_mut(number).filter(|_| due) {
                control.connection.send(&answer);
                control.closing = Some(Instant::now());
            }
            !due
        });
    }

    /// Computes on another thread which core has which chunk of a job, because there may be millions of chunks. Reads
    /// the save from which the job continues there, too.
    fn plan(
        &self,
        job: u32,
        contract: Arc<Contract>,
        hubs: HubList,
        save: Option<(String, u64)>,
        saves: bool,
    ) {
        let (plans, waker) = (self.plan_sender.clone(), Arc::clone(&self.shared.waker));
        let file = save.and_then(|(name, number)| Some(self.saves.as_ref()?.file(&name, number)));
        let compute = move || {
            let shares = Shares::new(&contract, &hubs, saves);
            let saved =
                file.map_or_else(|| Ok(BTreeMap::new()), |file| restore(&file, &contract, &hubs, &shares));
            // Sending fails if the hub is ending.
            if plans.send((job, shares, saved)).is_ok() {
                _ = waker.wake();
            }
        };
        // If the system cannot start a thread, ranks time out.
        _ = std::thread::Builder::new().name("plan".to_owned()).spawn(compute);
    }

    /// Connects the cores of a job to those of the hubs of lower racks on another thread, because those may not be
    /// ready yet.
    fn connect_racks(&mut self, job: u32, name: String, contract: &Contract, rack: u32, hub: u32) {
        let Some(racks) = &contract.terms.racks else { return };
        let lower = (0..rack).zip(racks.hubs.iter().map(|hubs| hubs[hub as usize]));
        let cores = 0..self.setup.cores;
        let targets = lower
            .flat_map(|(rack, address)| cores.clone().map(move |core| RackTarget { rack, address, core }))
            .collect();
        let connector = RackConnector {
            name,
            rack,
            targets,
            trust: self.setup.trust.clone(),
            over: Arc::clone(self.connecting.entry(job).or_default()),
            sockets: self.rack_sockets.0.clone(),
            waker: Arc::clone(&self.shared.waker),
        };
        // If the system cannot start a thread, ranks time out.
        _ = std::thread::Builder::new().name("bridge".to_owned()).spawn(move || connector.run(job));
    }

    /// Gives connections to other racks to their cores.
    fn attach_racks(&mut self) {
        while let Ok(RackSocket { job, rack, core, socket }) = self.rack_sockets.1.try_recv() {
            match socket {
                Ok(socket) => {
                    let number = self.pending.next_token() as u32;
                    self.attach(socket, job, Peer::Rack(rack), core, number);
                }
                Err(why) => {
                    let what = format!("cannot be reached: {why}");
                    self.register.rack_lost(job, rack, Trouble { kind: FaultKind::Closed, what });
                }
            }
        }
    }

    /// Receives messages from control connections.
    fn receive(&mut self) {
        let numbers: Vec<u32> = self.connections.keys().copied().collect();
        for number in numbers {
            let Some(Control { connection, closing: None }) = self.connections.get_mut(&number) else {
                continue;
            };
            let closed = connection.read();
            while let Some(Control { connection, closing: None }) = self.connections.get_mut(&number) {
                let message =
                    connection.receive::<FromWorker>().and_then(|message| Ok((message, random::random()?)));
                match message {
                    Ok((Some(message), random)) => {
                        if let Some(message) = self.open_later(number, message) {
                            self.register.received(number, message, random, self.started.elapsed());
                            self.act();
                        }
                    }
                    Ok((None, _)) => break,
                    Err(what) => {
                        self.register.disconnected(number, Trouble { kind: FaultKind::Corrupt, what });
                        self.connections.remove(&number);
                    }
                }
            }
            if let (Err(how), true) = (closed, self.connections.contains_key(&number)) {
                self.register.disconnected(number, Trouble::closed(&how));
                self.connections.remove(&number);
            }
        }
    }

    /// Keeps a worker's message that opens a job until the job's saves are found. Returns other messages.
    fn open_later(&mut self, connection: u32, message: FromWorker) -> Option<FromWorker> {
        let new = |name: &&str| self.saves.is_some() && !self.register.has_job(name);
        let name = match message {
            FromWorker::Open { .. } => self.register.job_of(connection).filter(new).map(str::to_owned),
            _ => None,
        };
        let Some(name) = name else { return Some(message) };
        let waiting = self.openings.entry(name.clone()).or_default();
        let first = waiting.is_empty();
        // A worker says once what it opens.
        if waiting.iter().all(|&(known, _)| known != connection) {
            waiting.push((connection, message));
        }
        if first {
            self.search(&name);
        }
        None
    }

    /// Searches for the saves of a job on another thread, because disks may be slow. Does nothing while a save of an
    /// earlier job with this name is being written: its result starts the search.
    fn search(&self, name: &str) {
        let Some(folder) = self.saves.as_ref().filter(|folder| !folder.writes(name)) else { return };
        let (found, waker) = (self.searches.0.clone(), Arc::clone(&self.shared.waker));
        let (folder, name) = (folder.folder(name), name.to_owned());
        let search = move || {
            let saves = save_folder::find(&folder, &name);
            // Sending fails if the hub is ending.
            if found.send((name, saves)).is_ok() {
                _ = waker.wake();
            }
        };
        // If the system cannot start a thread, ranks time out.
        _ = std::thread::Builder::new().name("search".to_owned()).spawn(search);
    }

    /// Lets workers open jobs whose saves are found.
    fn take_searches(&mut self) {
        while let Ok((name, found)) = self.searches.1.try_recv() {
            for (number, message) in self.openings.remove(&name).unwrap_or_default() {
                // A worker may be refused before its job is created. The next one finds the same saves.
                if !self.register.has_job(&name) {
                    self.register.found_saves(&name, found.clone());
                }
                match random::random() {
                    Ok(random) => self.register.received(number, message, random, self.started.elapsed()),
                    Err(what) => {
                        self.register.disconnected(number, Trouble { kind: FaultKind::Corrupt, what });
                        self.connections.remove(&number);
                    }
                }
                self.act();
            }
        }
    }

    /// Takes in reports of cores. Returns whether all cores work.
    fn take_reports(&mut self) -> bool {
        let mut healthy = true;
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Lost { job, peer: Peer::Worker(rank), trouble } => {
                    self.register.core_connection_lost(job, rank, trouble, self.started.elapsed());
                }
                Report::Lost { job, peer: Peer::Rack(rack), trouble } => {
                    self.register.rack_lost(job, rack, trouble);
                }
                Report::Missed { job, worker } => self.register.worker_missed(job, worker),
                Report::Joined { core, joined } => self.register.rejoined(core, joined),
                Report::Saved { core, share } => {
                    self.register.share_saved(core, share, self.started.elapsed());
                }
                Report::Waits { job, worker, waits } => self.register.waits_reported(job, worker, waits),
                Report::Failed(what) => {
                    self.failure = Some(what);
                    healthy = false;
                }
            }
        }
        healthy && self.cores.iter().all(CoreHandle::is_running)
    }

    /// Carries out the register's actions.
    fn act(&mut self) {
        for action in self.register.actions() {
            match action {
                Action::Send { connection, message } => {
                    if let Some(control) = self.connections.get_mut(&connection) {
                        control.connection.send(&message);
                    }
                }
                Action::Close { connection } => {
                    if let Some(control) = self.connections.get_mut(&connection) {
                        control.closing = Some(Instant::now());
                    }
                }
                Action::OpenJob { job, contract, epoch } => {
                    self.command(|| Command::OpenJob { job, contract: Arc::clone(&contract), epoch });
                }
                Action::ConnectRacks { job, name, contract, rack, hub } => {
                    self.connect_racks(job, name, &contract, rack, hub);
                }
                Action::Plan { job, contract, hubs, save, saves } => {
                    self.plan(job, contract, hubs, save, saves);
                }
                Action::WriteSave { job, header, chunks, common } => {
                    if let Some(folder) = &mut self.saves {
                        folder.write(SaveTask { job, header: *header, chunks, common });
                    }
                }
                Action::RemoveSaves { job, above } => {
                    if let Some(folder) = &self.saves {
                        folder.remove_above(job, above);
                    }
                }
                Action::AssignChunks { job, chunks, memory, mut saved } => {
                    let MemoryShare { cores, ahead, .. } = memory;
                    let rack = self.register.rack(job);
                    for ((chunks, buffers), handle) in chunks.into_iter().zip(cores).zip(&self.cores) {
                        let bounds = Bounds { ahead, buffers };
                        let own =
                            chunks.iter().filter_map(|chunk| Some((*chunk, saved.remove(chunk)?))).collect();
                        handle.send(Command::AssignChunks { job, chunks, rack, bounds, saved: own });
                    }
                }
                Action::EndJob { job } => {
                    if let Some(over) = self.connecting.remove(&job) {
                        over.store(true, Ordering::Relaxed);
                    }
                    self.command(|| Command::EndJob { job });
                }
                Action::RetireJob { job } => {
                    self.connecting.remove(&job);
                    self.command(|| Command::RetireJob { job });
                }
                Action::LoseWorker { job, worker } => self.command(|| Command::LoseWorker { job, worker }),
                Action::DropWorker { job, worker } => self.command(|| Command::DropWorker { job, worker }),
                Action::Resume { job, worker, attempt } => {
                    self.command(|| Command::Resume { job, worker, attempt });
                }
                Action::Expect { job, worker, attempt } => {
                    self.command(|| Command::Expect { job, worker, attempt });
                }
                Action::ReportWaits { job, worker, key, step } => {
                    self.command(|| Command::ReportWaits { job, worker, key, step });
                }
            }
        }
    }

    /// Sends a command to all cores.
    fn command(&self, command: impl Fn() -> Command) {
        self.cores.iter().for_each(|core| core.send(command()));
    }

    /// Writes queued messages, and drops connections that are closed.
    fn write(&mut self) {
        self.connections.retain(|_, Control { connection, closing }| match closing {
            Some(since) => !connection.close() && since.elapsed() <= LEAVING,
            None => {
                // If writing fails, the next read returns the peer's last messages and then the end of the connection.
                _ = connection.write();
                true
            }
        });
    }

    /// Publishes the hub's status and events.
    fn publish(&mut self, draining: bool) {
        let mut events = self.shared.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.extend(self.register.events());
        // Rarely enough not to flood a log.
        if self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            let refused = std::mem::take(&mut self.pending.rejections).into_iter();
            events.extend(
                refused.map(|Rejected { address, why }| Event::refused(address, why, self.pending.refused)),
            );
        }
        drop(events);
        let moved: Vec<_> = self.cores.iter().map(CoreHandle::moved).collect();
        let jobs = self.register.jobs(self.started.elapsed()).into_iter().map(|summary| {
            let counters: Vec<_> = moved
                .iter()
                .map(|moved| moved.jobs.get(&summary.number).copied().unwrap_or_default())
                .collect();
            JobStatus {
                job: summary.job,
                keys: summary.keys,
                chunks: summary.chunks,
                ranks: summary.workers,
                bytes_in: counters.iter().map(|core| core.bytes_in).collect(),
                bytes_out: counters.iter().map(|core| core.bytes_out).collect(),
                pushes: counters.iter().map(|core| core.pushes).sum(),
                steps: counters.iter().map(|core| core.steps).sum(),
                memory: summary.memory,
                saved: summary.saved,
                save_failure: summary.save_failure,
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
            moved: moved.iter().map(|moved| moved.all).fold(Counters::default(), Counters::with),
            jobs: jobs.collect(),
        };
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
