//! How a worker joins a job on hubs.
//!
//! The worker opens a control connection to each hub and sends the job's terms, connects to every core, and begins once
//! all workers have joined.

use super::assignment::Cores;
use super::client::{Client, HubExchange, Routes};
use super::message::{FromHub, FromWorker};
use super::optimizer::Optimizers;
use super::register::MOST_CORES;
use super::terms::{Contract, Mapping, Terms};
use super::worker_thread::{Command, Failure, WorkerThread};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_executor::pending::{Completion, Pending};
use syncline_membership::join_error::JoinError;
use syncline_protocol::codec::{LONGEST, encode};
use syncline_protocol::fault::{Blame, FailedOperation, Fault, Task, Trouble};
use syncline_protocol::handshake::Role;
use syncline_protocol::heartbeat::{Heartbeats, Patience};
use syncline_protocol::memory::Region;
use syncline_protocol::operation::Request;
use syncline_transport::congestion;
use syncline_transport::connections::Connections;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::lane_waker::LaneWaker;
use syncline_transport::random::random;
use syncline_transport::socket::{Socket, Stream};
use syncline_transport::trust::Trust;

/// A worker's rank, its hubs, and how it connects to them.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The worker's rank.
    pub rank: u32,
    /// The job's name, the same for all workers.
    pub job: String,
    /// An address of each hub, in the same order for all workers. If the terms have racks, [`join`] takes the hubs of
    /// the worker's rack instead.
    pub hubs: Vec<SocketAddr>,
    /// Further addresses of a hub, by its address in `hubs` or in the racks. They are tried in turn with that one.
    pub elsewhere: BTreeMap<SocketAddr, Vec<SocketAddr>>,
    /// How worker and hubs authenticate each other.
    pub trust: Trust,
    /// How long to wait until all workers have joined.
    pub wait: Duration,
    /// The congestion control of connections (`cubic`, `reno`); the system's default if absent.
    pub congestion: Option<String>,
    /// Heartbeats: their interval, and how long a silent hub is waited for.
    pub patience: Patience,
    /// The deadline of an exchange.
    pub deadline: Duration,
}

/// A worker's membership in a job on hubs. Dropping it leaves the job.
#[derive(Debug)]
pub struct Hub {
    contract: Arc<Contract>,
    rank: u32,
    submitted: Mutex<Submitted>,
    failed: Failure,
    fresh: bool,
    waker: Arc<LaneWaker>,
    thread: Option<JoinHandle<()>>,
}

/// What has been submitted to the worker's thread.
#[derive(Debug)]
struct Submitted {
    commands: Sender<Command>,
    /// The number of the newest exchange.
    newest: u64,
    /// How often each vector has been pushed.
    steps: Vec<u64>,
    /// The exchanges that are not complete.
    in_flight: Vec<InFlight>,
}

/// An exchange that is not complete, and its memory.
#[derive(Debug)]
struct InFlight {
    sequence: u64,
    request: Request,
    key: u32,
    input: Region,
    output: Region,
    completion: Arc<Completion>,
}

impl InFlight {
    /// Returns whether another exchange would read memory that this one writes, or write memory that this one uses.
    fn conflicts_with(&self, input: Region, output: Region) -> bool {
        let clash = |a: Region, b: Region| !a.is_empty() && !b.is_empty() && a.overlaps(b);
        clash(self.output, input) || clash(self.output, output) || clash(self.input, output)
    }
}

/// A handle to an exchange that has begun.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The exchange's completion.
    pub pending: Pending,
    /// Set once an exchange with a result is complete.
    contributors: Arc<OnceLock<u16>>,
}

impl Exchange {
    /// Returns the least number of workers that contributed to a chunk of the result, once the exchange is complete.
    /// Fewer than all workers if some were lost.
    ///
    /// `None` without a result: for a push or a set, and for a vector without elements.
    pub fn contributors(&self) -> Option<u16> {
        self.contributors.get().copied()
    }
}

/// A hub that has admitted the worker.
struct OpenedHub {
    connection: ControlConnection,
    /// The address at which it was reached.
    reached: SocketAddr,
    number: u32,
    epoch: u16,
    ticket: u64,
    cores: Cores,
    interfaces: Vec<SocketAddr>,
}

/// Joins a job. Returns once all its workers have joined. Calls `stop` regularly; an error from it ends the attempt.
///
/// # Errors
/// The terms are invalid, a hub cannot be reached or refuses the worker, or some worker does not join in time.
pub fn join(
    place: &WorkerSettings,
    terms: Terms,
    optimizers: &Optimizers,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Hub, JoinError> {
    let here = |what: String| JoinError::here(place.rank, &what);
    let invalid = |what: String| JoinError { invalid: true, ..JoinError::new(what) };
    let contract = Arc::new(terms.clone().contract(optimizers).map_err(invalid)?);
    let mut place = place.clone();
    if let Some(racks) = &terms.racks {
        let own = racks.of.get(place.rank as usize);
        let rack = own.ok_or_else(|| invalid(format!("rank {} is in no rack", place.rank)))?;
        place.hubs.clone_from(&racks.hubs[*rack as usize]);
    }
    let place = &place;
    if let Some(twice) = (1..place.hubs.len()).find(|&hub| place.hubs[..hub].contains(&place.hubs[hub])) {
        return Err(invalid(format!("the hub {} is listed twice: list each hub once", place.hubs[twice])));
    }
    if place.hubs.is_empty() {
        return Err(invalid("no hub is given: name one or more, or set SYNCLINE_HUBS".to_owned()));
    }
    let deadline = Instant::now() + place.wait;
    let incarnation = random().map_err(here)?;
    let interval_ms = u64::try_from(place.patience.interval.as_millis()).unwrap_or(u64::MAX);
    let open = FromWorker::Open { terms: Box::new(terms.clone()), incarnation, interval_ms };
    let length = encode(&open).len();
    if length > LONGEST {
        let keys = terms.keys.len();
        return Err(invalid(format!(
            "the terms of {keys} vectors have {length} bytes, and at most {LONGEST} are allowed: put several \
             parameters into one vector"
        )));
    }
    let mut refused: Option<JoinError> = None;
    loop {
        let failed = match attempt(place, &contract, &open, deadline, stop) {
            Ok(hub) => return Ok(hub),
            Err(failed) => failed,
        };
        match failed {
            AttemptError::Later(error) if Instant::now() < deadline => refused = Some(error),
            AttemptError::Later(error) | AttemptError::Final(error) => return Err(error),
            AttemptError::Unreached(error) if Instant::now() < deadline => return Err(error),
            // An earlier refusal says more than the timeout that followed.
            AttemptError::Unreached(error) => return Err(refused.unwrap_or(error)),
        }
        stop().map_err(JoinError::new)?;
        std::thread::sleep(AGAIN);
    }
}

/// How long to wait before asking a hub again.
const AGAIN: Duration = Duration::from_millis(100);

/// Tries to join once.
fn attempt(
    place: &WorkerSettings,
    contract: &Arc<Contract>,
    open: &FromWorker,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Hub, AttemptError> {
    let here = |what: String| JoinError::here(place.rank, &what);
    let mut opened: Vec<OpenedHub> = Vec::new();
    let mut heartbeats = HubHeartbeats::new(place.patience);
    for &address in &place.hubs {
        let at = |what: String| {
            AttemptError::Unreached(here(format!("cannot join through hub {address}: {what}")))
        };
        let mut keep_alive = || heartbeats.keep_alive(&mut opened, place, stop);
        let hub = open_hub(place, address, open, deadline, &mut keep_alive).map_err(at)?;
        heartbeats.join(opened.len());
        opened.push(hub);
    }
    let hubs: Vec<Cores> = opened.iter().map(|hub| hub.cores).collect();
    // There may be millions of chunks: send heartbeats to hubs while their cores are computed.
    let routes = std::thread::scope(|scope| {
        let finding = scope.spawn(|| Routes::new(contract, &hubs));
        while !finding.is_finished() {
            heartbeats
                .keep_alive(&mut opened, place, stop)
                .map_err(|what| AttemptError::Unreached(here(format!("cannot join: {what}"))))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        finding.join().map_err(|_| AttemptError::from(here("failed, which is a bug in syncline".to_owned())))
    })?;
    let routes = Arc::new(routes);
    let epochs = opened.iter().map(|hub| hub.epoch).collect();
    let mut client = Client::new(Arc::clone(contract), Arc::clone(&routes), epochs);
    let (mut cores, waker) = Connections::new(place.patience).map_err(|error| here(error.to_string()))?;
    for core in 0..routes.cores() {
        let way = routes.way(core);
        let hub = &opened[way.hub as usize];
        let number = match contract.terms.mapping {
            Mapping::KeyByInterface => way.core,
            Mapping::WorkerByInterface => place.rank,
        };
        let mut address = hub.interfaces[number as usize % hub.interfaces.len()];
        if address.ip().is_unspecified() {
            // A hub that listens on all interfaces has the address at which it was reached.
            address.set_ip(hub.reached.ip());
        }
        let (number, ticket) = (hub.number, hub.ticket);
        let role = Role::Core { rank: place.rank, number, ticket, core: way.core };
        let trust = (&place.trust, place.job.as_str());
        let socket = Handshaking::reach(&[address], trust, &role, deadline, &mut || {
            heartbeats.keep_alive(&mut opened, place, stop)
        })
        .map_err(|shut| shut.why)
        .and_then(|socket| prepare(socket, place.congestion.as_deref()))
        .map_err(|what| {
            AttemptError::Unreached(here(format!(
                "cannot reach core {} of the hub {address}: {what}",
                way.core
            )))
        })?;
        let connection = Box::new(Stream::new(socket));
        cores.add(&mut client, core, connection).map_err(|error| here(error.to_string()))?;
    }
    for (hub, opened) in (0u32..).zip(&mut opened) {
        opened.connection.send(&FromWorker::Ready { hubs: hubs.clone(), hub });
    }
    let mut connections: Vec<ControlConnection> =
        opened.into_iter().map(|opened| opened.connection).collect();
    let Begun { steps, fresh, newcomers } =
        begin(place, contract, (&mut connections, &mut heartbeats), deadline, stop)?;
    client.set_steps(&steps);
    // They arrived while this worker still waited for other hubs.
    newcomers.into_iter().for_each(|(worker, incarnation)| client.admit(worker, incarnation));
    let (commands, receiver) = channel();
    let failed = Failure::default();
    let worker = WorkerThread::new(
        place,
        Arc::clone(contract),
        client,
        cores,
        connections,
        receiver,
        Arc::clone(&failed),
    )
    .map_err(|error| here(format!("cannot wait: {error}")))?;
    let thread = std::thread::Builder::new().name("worker".to_owned()).spawn(|| worker.run());
    let thread = Some(thread.map_err(|error| here(format!("cannot start its thread: {error}")))?);
    let submitted = Mutex::new(Submitted { commands, newest: 0, steps, in_flight: Vec::new() });
    Ok(Hub { contract: Arc::clone(contract), rank: place.rank, submitted, failed, fresh, waker, thread })
}

/// Heartbeats between a worker that has not begun and the hubs that have admitted it.
struct HubHeartbeats {
    heartbeats: Heartbeats,
    began: Instant,
}

impl HubHeartbeats {
    fn new(patience: Patience) -> Self {
        Self { heartbeats: Heartbeats::new(patience, Duration::ZERO), began: Instant::now() }
    }

    /// Adds a hub.
    fn join(&mut self, hub: usize) {
        let now = self.began.elapsed();
        self.heartbeats.join(hub, now);
        self.heartbeats.heard(hub, now);
    }

    /// Writes to and reads from all hubs, and sends heartbeats that are due. Returns how each connection ended, if it
    /// has, and the first hub that has been silent for too long.
    fn exchange<'a>(
        &mut self,
        connections: impl Iterator<Item = &'a mut ControlConnection>,
    ) -> (Vec<Option<String>>, Option<(usize, String)>) {
        let now = self.began.elapsed();
        let due = self.heartbeats.due(now);
        let ends = connections.enumerate().map(|(hub, connection)| {
            if due.contains(&hub) {
                connection.send(&FromWorker::Alive);
            }
            let end = connection.write().and_then(|()| connection.read()).err();
            if connection.take_heard() {
                self.heartbeats.heard(hub, now);
            }
            end
        });
        let ends = ends.collect();
        let silent = self.heartbeats.silent(now).into_iter().next();
        (ends, silent.map(|(hub, silence)| (hub, Trouble::silent(silence).what)))
    }

    /// Keeps the connections to hubs alive while the worker connects to others. Calls `stop`.
    ///
    /// # Errors
    /// A clause: a hub is lost, or `stop` returns an error.
    fn keep_alive(
        &mut self,
        opened: &mut [OpenedHub],
        place: &WorkerSettings,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let (ends, silent) = self.exchange(opened.iter_mut().map(|hub| &mut hub.connection));
        if let Some((hub, how)) = ends.into_iter().enumerate().find_map(|(hub, end)| Some((hub, end?))) {
            let address = place.hubs[hub];
            // The hub may have sent the reason.
            while let Some(message) = opened[hub].connection.receive::<FromHub>()? {
                match message {
                    FromHub::Verdict { blame, trouble } => return Err(format!("{blame} {trouble}")),
                    FromHub::Refused { why, .. } => {
                        return Err(format!("the hub {address} refused: {why}"));
                    }
                    FromHub::Leave => return Err(format!("the hub {address} is shutting down")),
                    FromHub::Alive
                    | FromHub::Opened { .. }
                    | FromHub::Begin { .. }
                    | FromHub::Newcomer { .. } => {}
                }
            }
            return Err(format!("the hub {address} closed its connection ({how})"));
        }
        if let Some((hub, what)) = silent {
            return Err(format!("the hub {} {what}", place.hubs[hub]));
        }
        stop()
    }
}

/// Why an attempt to join failed.
enum AttemptError {
    /// Another attempt would fail, too.
    Final(JoinError),
    /// A hub or one of its cores could not be reached or has not admitted the worker.
    Unreached(JoinError),
    /// A later attempt may succeed.
    Later(JoinError),
}

impl From<JoinError> for AttemptError {
    fn from(error: JoinError) -> Self {
        Self::Final(error)
    }
}

/// Sets the congestion control of a connection to a core.
fn prepare(socket: Socket, congestion: Option<&str>) -> Result<Socket, String> {
    if let (Some(stream), Some(name)) = (socket.tcp(), congestion) {
        congestion::choose(&SockRef::from(stream), name)?;
    }
    Ok(socket)
}

/// Connects to a hub and opens the job. Retries until the hub admits the worker.
fn open_hub(
    place: &WorkerSettings,
    address: SocketAddr,
    open: &FromWorker,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<OpenedHub, String> {
    let role = Role::Worker { rank: place.rank };
    let further = place.elsewhere.get(&address).into_iter().flatten();
    let addresses: Vec<SocketAddr> = [address].into_iter().chain(further.copied()).collect();
    let mut before: Option<String> = None;
    loop {
        let trust = (&place.trust, place.job.as_str());
        let socket = Handshaking::reach(&addresses, trust, &role, deadline, stop).map_err(|shut| shut.why);
        // An earlier refusal says more than the timeout that followed.
        let socket = socket.map_err(|why| before.take().unwrap_or(why))?;
        let reached = socket.peer().unwrap_or(address);
        let mut connection = ControlConnection::new(socket);
        connection.send(open);
        let why = loop {
            let closed = connection.write().and_then(|()| connection.read()).err();
            match connection.receive::<FromHub>()? {
                Some(FromHub::Opened { job, epoch, ticket, cores, interfaces }) => {
                    let count = interfaces.len() as u32;
                    if !(1..=MOST_CORES).contains(&cores) || count == 0 || count > cores {
                        return Err(format!(
                            "it reports {cores} cores and {count} interfaces, which is invalid"
                        ));
                    }
                    let cores = Cores { cores, interfaces: count };
                    return Ok(OpenedHub {
                        connection,
                        reached,
                        number: job,
                        epoch,
                        ticket,
                        cores,
                        interfaces,
                    });
                }
                Some(FromHub::Refused { why, permanent: true }) => return Err(format!("refused: {why}")),
                Some(FromHub::Refused { why, .. }) => break format!("refused: {why}"),
                Some(FromHub::Verdict { blame, trouble }) => break format!("{blame} {trouble}"),
                Some(FromHub::Leave) => return Err("it is shutting down".to_owned()),
                Some(FromHub::Alive | FromHub::Begin { .. } | FromHub::Newcomer { .. }) => {}
                None => {
                    if let Some(how) = closed {
                        break format!("it closed its connection ({how})");
                    }
                    if Instant::now() > deadline {
                        break "it does not answer".to_owned();
                    }
                    stop()?;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        };
        if Instant::now() > deadline {
            return Err(why);
        }
        before = Some(why);
        std::thread::sleep(AGAIN);
    }
}

/// What hubs say when a worker may begin.
struct Begun {
    /// The steps of each vector that are behind the worker.
    steps: Vec<u64>,
    /// Whether the job begins now.
    fresh: bool,
    /// Restarted workers to announce.
    newcomers: Vec<(u32, u64)>,
}

/// Waits until all hubs say that the worker may begin.
fn begin(
    place: &WorkerSettings,
    contract: &Contract,
    (connections, heartbeats): (&mut [ControlConnection], &mut HubHeartbeats),
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Begun, AttemptError> {
    let mut begun: Vec<Option<Vec<Option<u64>>>> = vec![None; connections.len()];
    let (mut fresh_everywhere, mut all_exact, mut newcomers) = (true, false, Vec::new());
    let mut asked = false;
    while begun.iter().any(Option::is_none) || all_exact && !agree(&begun) {
        let late = Instant::now() > deadline;
        if late && asked && Instant::now() > deadline + 2 * place.patience.silence {
            let what = "timed out while waiting for other ranks; no hub reported which ones";
            return Err(JoinError::here(place.rank, what).into());
        }
        if late && !asked {
            asked = true;
            connections
                .iter_mut()
                .for_each(|connection| connection.send(&FromWorker::Late { key: 0, step: 0 }));
        }
        let lost = |hub: usize, what: String| {
            JoinError::here(place.rank, &format!("lost the hub {}: it {what}", place.hubs[hub]))
        };
        let (ends, silent) = heartbeats.exchange(connections.iter_mut());
        for (hub, end) in ends.into_iter().enumerate() {
            while let Some(message) = connections[hub].receive::<FromHub>().map_err(|what| lost(hub, what))? {
                match message {
                    FromHub::Begin { steps, fresh, exact }
                        if steps.len() == contract.catalogue.keys().len() =>
                    {
                        fresh_everywhere &= fresh;
                        all_exact |= exact;
                        begun[hub] = Some(steps);
                    }
                    FromHub::Begin { .. } => {
                        return Err(lost(hub, "lists other vectors".to_owned()).into());
                    }
                    FromHub::Verdict { blame, trouble } => {
                        let error = JoinError::new(format!("{blame} {trouble}"));
                        // The job has begun at this hub, but not at another: the other may have refused some worker
                        // temporarily.
                        let half = begun[hub].is_some() && !late;
                        return Err(if half { AttemptError::Later } else { AttemptError::Final }(error));
                    }
                    FromHub::Refused { why, permanent } => {
                        let what = format!("cannot join through hub {}: refused: {why}", place.hubs[hub]);
                        let error = JoinError::here(place.rank, &what);
                        return Err(if permanent { AttemptError::Final } else { AttemptError::Later }(error));
                    }
                    FromHub::Leave => return Err(lost(hub, "is shutting down".to_owned()).into()),
                    FromHub::Newcomer { worker, incarnation } => newcomers.push((worker, incarnation)),
                    FromHub::Alive | FromHub::Opened { .. } => {}
                }
            }
            if let (Some(how), None) = (end, &begun[hub]) {
                return Err(lost(hub, format!("closed its connection ({how})")).into());
            }
        }
        if let Some((hub, what)) = silent {
            return Err(lost(hub, what).into());
        }
        stop().map_err(JoinError::new)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    // A hub without chunks of a vector does not know its steps.
    let steps = (0..contract.catalogue.keys().len()).map(|key| {
        let known = begun.iter().flatten().filter_map(|steps| steps[key]);
        known.min().unwrap_or(0)
    });
    let mut steps: Vec<u64> = steps.collect();
    // Some of the vectors that are pushed together may be a step ahead: that step is pushed again, and counts once.
    let together = contract.together.iter();
    if let Some(least) = together.clone().map(|&key| steps[key as usize]).min() {
        together.for_each(|&key| steps[key as usize] = least);
    }
    Ok(Begun { steps, fresh: fresh_everywhere, newcomers })
}

/// Returns whether all hubs report the same steps, for each vector with chunks at several hubs.
fn agree(begun: &[Option<Vec<Option<u64>>>]) -> bool {
    let keys = begun.iter().flatten().map(Vec::len).max().unwrap_or(0);
    (0..keys).all(|key| {
        let mut known = begun.iter().flatten().filter_map(|steps| steps[key]);
        let first = known.next();
        known.all(|each| Some(each) == first)
    })
}

impl Hub {
    /// Returns this worker's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns what the job asks of its hubs.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Returns how often each vector has been pushed, by this worker or before it joined.
    pub fn steps(&self) -> Vec<u64> {
        self.lock().steps.clone()
    }

    /// Returns whether the job began when this worker joined, so that no worker had pushed before.
    pub fn fresh(&self) -> bool {
        self.fresh
    }

    /// Returns the fault that ended the worker, if there is one. No exchange can begin then.
    pub fn failed(&self) -> Option<Arc<Fault>> {
        self.failed.get().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Submitted> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an exchange of a vector. `input` is the memory to send and `output` the memory for the result, which may
    /// be the same; each is empty if the request does not use it. With `keep`, a failed exchange restores the input.
    ///
    /// # Errors
    /// There is no such vector, a region has the wrong length, or an exchange that is not complete uses the same memory
    /// and one of the two writes it. Nothing has begun then. Later failures are the exchange's outcome.
    pub fn begin(
        &self,
        key: u32,
        request: Request,
        input: Region,
        output: Region,
        keep: bool,
    ) -> syncline_diagnostics::Result<Exchange> {
        let keys = self.contract.catalogue.keys();
        let Some(vector) = keys.get(key as usize) else {
            let message = format!("vector {key} does not exist: the job has {} vectors", keys.len());
            return Err(Diagnostic::error(Code::BadValue, message).into());
        };
        let bytes = vector.bytes().unwrap_or(0);
        let length = |there: bool| if there { bytes as usize } else { 0 };
        let lengths =
            [("input", input, length(request.sends())), ("output", output, length(request.receives()))];
        for (name, region, length) in lengths {
            if region.len() != length {
                let message =
                    format!("the {name} of {} of `{}` has the wrong length", request.name(), vector.name);
                return Err(Diagnostic::error(Code::BadValue, message)
                    .found(format!("{} bytes", region.len()))
                    .allowed(format!("{length} bytes"))
                    .into());
            }
        }
        if !input.same(output) && input.overlaps(output) {
            let message =
                format!("input and output of {} of `{}` overlap in part", request.name(), vector.name);
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed("the same memory, or memory that does not overlap")
                .into());
        }
        let completion = Completion::new(1);
        let exchange =
            Exchange { pending: Pending::new(Arc::clone(&completion)), contributors: Arc::default() };
        let mut submitted = self.lock();
        submitted.in_flight.retain(|other| !other.completion.over());
        if let Some(other) = submitted.in_flight.iter().find(|other| other.conflicts_with(input, output)) {
            let InFlight { sequence, request: theirs, key, .. } = other;
            let (ours, theirs) = (request.name(), theirs.name());
            let message = format!(
                "memory of {ours} of `{}` is in use by {theirs} of `{}` (exchange {sequence})",
                vector.name, keys[*key as usize].name
            );
            let help = format!("wait for exchange {sequence} before you begin this one");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        submitted.newest += 1;
        let sequence = submitted.newest;
        let in_flight =
            InFlight { sequence, request, key, input, output, completion: Arc::clone(&completion) };
        submitted.in_flight.push(in_flight);
        if matches!(request, Request::Push | Request::PushPull) {
            submitted.steps[key as usize] += 1;
        }
        let hub_exchange = HubExchange { sequence, key, request, input, output, keep };
        let contributors = Arc::clone(&exchange.contributors);
        let start =
            Command::Start { exchange: hub_exchange, completion: Arc::clone(&completion), contributors };
        if submitted.commands.send(start).is_ok() {
            self.waker.ring();
        } else {
            let task = Task::Exchange { request, vector: vector.name.clone(), bytes };
            let during = Some(FailedOperation { number: sequence, task, elapsed: Duration::ZERO });
            let (blame, trouble) = (Blame::Rank(self.rank), Trouble::left());
            completion.end(Err(Arc::new(Fault { blame, trouble, during })));
        }
        Ok(exchange)
    }

    /// Changes the learning rate of a vector or of all, from this worker's next push on. One worker does so for all; if
    /// several do, they must set the same rate before the same step.
    ///
    /// # Errors
    /// The rate is invalid, there is no such vector, it has no optimizer, or the job has hubs in several racks.
    pub fn set_rate(&self, rate: f64, key: Option<u32>) -> syncline_diagnostics::Result<()> {
        if self.contract.terms.racks.as_ref().is_some_and(|racks| racks.hubs.len() > 1) {
            let message = "the learning rate cannot change in a job with hubs in several racks";
            let help = "use hubs in one rack, or set the rate in the optimizer with which you join";
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        let optimizers = &self.contract.optimizers;
        let optimized = match key {
            Some(key) => optimizers.get(key as usize).is_some_and(Option::is_some),
            None => optimizers.iter().any(Option::is_some),
        };
        if !optimized {
            let message = "there is no optimizer whose learning rate could change";
            let help = "give the vector an optimizer when you join";
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(Diagnostic::error(Code::BadValue, "the learning rate is invalid")
                .found(rate.to_string())
                .allowed("0 or more")
                .into());
        }
        if self.lock().commands.send(Command::Rate { rate, key }).is_ok() {
            self.waker.ring();
        }
        Ok(())
    }
}

impl Drop for Hub {
    /// Leaves the job. Exchanges that are not complete fail.
    fn drop(&mut self) {
        let (disconnected, _) = channel();
        self.lock().commands = disconnected;
        self.waker.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended its exchanges with a fault.
            _ = thread.join();
        }
    }
}
