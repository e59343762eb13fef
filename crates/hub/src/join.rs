//! How a worker joins a job on hubs.
//!
//! The worker opens a control connection to each hub and sends the job's terms, connects to every core, and begins once
//! all workers have joined.

use super::assignment::{Cores, Routes};
use super::client::{Client, Newcomer};
use super::message::{FromHub, FromWorker};
use super::optimizer::Optimizers;
use super::register::MAX_CORES;
use super::terms::{Contract, Mapping, Terms};
use super::worker::{Submitted, Worker};
use super::worker_settings::WorkerSettings;
use super::worker_thread::{Failure, HubControls, WorkerThread};
use socket2::SockRef;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use syncline_membership::join_error::JoinError;
use syncline_protocol::codec::{MAX_MESSAGE_BYTES, encode};
use syncline_protocol::fault::Trouble;
use syncline_protocol::handshake::Role;
use syncline_protocol::heartbeat::{Heartbeats, Patience};
use syncline_transport::congestion;
use syncline_transport::connections::Connections;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::handshaking::{Handshaking, Identification};
use syncline_transport::random::random;
use syncline_transport::socket::{Socket, Stream};

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
    /// The saves from which the job can continue there; `None` if the hub keeps none.
    saves: Option<Vec<u64>>,
    /// Whether the job has begun there.
    live: bool,
}

/// Joins a job. Returns once all its workers have joined. Calls `stop` regularly; an error from it ends the attempt.
///
/// # Errors
/// The terms are invalid, a hub cannot be reached or refuses the worker, or some worker does not join in time.
pub fn join(
    worker: &WorkerSettings,
    terms: Terms,
    optimizers: &Optimizers,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Worker, JoinError> {
    let about_rank = |what: String| JoinError::about_rank(worker.rank, &what);
    let invalid = |what: String| JoinError { invalid: true, ..JoinError::new(what) };
    let contract = Arc::new(terms.clone().contract(optimizers).map_err(invalid)?);
    let mut worker = worker.clone();
    if let Some(racks) = &terms.racks {
        let own = racks.rack_of_worker.get(worker.rank as usize);
        let rack = own.ok_or_else(|| invalid(format!("rank {} is in no rack", worker.rank)))?;
        worker.hubs.clone_from(&racks.hubs[*rack as usize]);
    }
    let worker = &worker;
    if let Some(twice) = (1..worker.hubs.len()).find(|&hub| worker.hubs[..hub].contains(&worker.hubs[hub])) {
        return Err(invalid(format!("the hub {} is listed twice: list each hub once", worker.hubs[twice])));
    }
    if worker.hubs.is_empty() {
        return Err(invalid("no hub is given: name one or more, or set SYNCLINE_HUBS".to_owned()));
    }
    let deadline = Instant::now() + worker.wait;
    let incarnation = random().map_err(about_rank)?;
    let interval_ms = u64::try_from(worker.patience.interval.as_millis()).unwrap_or(u64::MAX);
    let open = FromWorker::Open { terms: Box::new(terms.clone()), incarnation, interval_ms };
    let length = encode(&open).len();
    if length > MAX_MESSAGE_BYTES {
        let keys = terms.keys.len();
        return Err(invalid(format!(
            "the terms of {keys} vectors have {length} bytes, and at most {MAX_MESSAGE_BYTES} are allowed: put several \
             parameters into one vector"
        )));
    }
    let mut refused: Option<JoinError> = None;
    loop {
        let failed = match attempt(worker, &contract, &open, deadline, stop) {
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
    worker: &WorkerSettings,
    contract: &Arc<Contract>,
    open: &FromWorker,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Worker, AttemptError> {
    let about_rank = |what: String| JoinError::about_rank(worker.rank, &what);
    let mut opened: Vec<OpenedHub> = Vec::new();
    let mut heartbeats = HubHeartbeats::new(worker.patience);
    for &address in &worker.hubs {
        let at = |what: String| {
            AttemptError::Unreached(about_rank(format!("cannot join through hub {address}: {what}")))
        };
        let mut keep_alive = || heartbeats.keep_alive(&mut opened, worker, stop);
        let hub = open_hub(worker, address, open, deadline, &mut keep_alive).map_err(at)?;
        heartbeats.join(opened.len());
        opened.push(hub);
    }
    let save = choose_save(worker, &opened)?;
    let hubs: Vec<Cores> = opened.iter().map(|hub| hub.cores).collect();
    // There may be millions of chunks: send heartbeats to hubs while their cores are computed.
    let routes = std::thread::scope(|scope| {
        let finding = scope.spawn(|| Routes::new(contract, &hubs));
        while !finding.is_finished() {
            heartbeats
                .keep_alive(&mut opened, worker, stop)
                .map_err(|what| AttemptError::Unreached(about_rank(format!("cannot join: {what}"))))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        finding
            .join()
            .map_err(|_| AttemptError::from(about_rank("failed, which is a bug in syncline".to_owned())))
    })?;
    let routes = Arc::new(routes);
    let epochs = opened.iter().map(|hub| hub.epoch).collect();
    let mut client = Client::new(Arc::clone(contract), Arc::clone(&routes), epochs);
    let (mut cores, waker) =
        Connections::new(worker.patience).map_err(|error| about_rank(error.to_string()))?;
    for core in 0..routes.cores() {
        let hub_core = routes.hub_core(core);
        let hub = &opened[hub_core.hub as usize];
        let number = match contract.terms.mapping {
            Mapping::KeyByInterface => hub_core.core,
            Mapping::WorkerByInterface => worker.rank,
        };
        let mut address = hub.interfaces[number as usize % hub.interfaces.len()];
        if address.ip().is_unspecified() {
            // A hub that listens on all interfaces has the address at which it was reached.
            address.set_ip(hub.reached.ip());
        }
        let (number, ticket) = (hub.number, hub.ticket);
        let role = Role::Core { rank: worker.rank, number, ticket, core: hub_core.core };
        let own = Identification { trust: &worker.trust, job: &worker.job };
        let socket = Handshaking::reach(&[address], own, &role, deadline, &mut || {
            heartbeats.keep_alive(&mut opened, worker, stop)
        })
        .map_err(|shut| shut.why)
        .and_then(|socket| prepare(socket, worker.congestion.as_deref()))
        .map_err(|what| {
            AttemptError::Unreached(about_rank(format!(
                "cannot reach core {} of the hub {address}: {what}",
                hub_core.core
            )))
        })?;
        let connection = Box::new(Stream::new(socket));
        cores.add(&mut client, core, connection).map_err(|error| about_rank(error.to_string()))?;
    }
    for (hub, opened) in (0u32..).zip(&mut opened) {
        opened.connection.send(&FromWorker::Ready { hubs: hubs.clone(), hub, save });
    }
    let saving = (0..opened.len()).filter(|&hub| opened[hub].saves.is_some()).collect();
    let mut connections: Vec<ControlConnection> =
        opened.into_iter().map(|opened| opened.connection).collect();
    let Begun { steps, fresh, newcomers, save_wanted } =
        begin(worker, contract, &mut connections, &mut heartbeats, deadline, stop)?;
    client.set_steps(&steps);
    // They arrived while this worker still waited for other hubs.
    newcomers.into_iter().for_each(|newcomer| client.admit(newcomer));
    let (commands, receiver) = channel();
    let failed = Failure::default();
    let thread = WorkerThread::new(
        worker,
        Arc::clone(contract),
        client,
        cores,
        HubControls { controls: connections, saving, save_wanted },
        receiver,
        Arc::clone(&failed),
    )
    .map_err(|error| about_rank(format!("cannot wait: {error}")))?;
    let thread = std::thread::Builder::new().name("worker".to_owned()).spawn(|| thread.run());
    let thread = Some(thread.map_err(|error| about_rank(format!("cannot start its thread: {error}")))?);
    let submitted = Mutex::new(Submitted::new(commands, steps));
    Ok(Worker { contract: Arc::clone(contract), rank: worker.rank, submitted, failed, fresh, waker, thread })
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
        worker: &WorkerSettings,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let (ends, silent) = self.exchange(opened.iter_mut().map(|hub| &mut hub.connection));
        if let Some((hub, how)) = ends.into_iter().enumerate().find_map(|(hub, end)| Some((hub, end?))) {
            let address = worker.hubs[hub];
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
                    | FromHub::Newcomer { .. }
                    | FromHub::Save { .. }
                    | FromHub::Saved { .. } => {}
                }
            }
            return Err(format!("the hub {address} closed its connection ({how})"));
        }
        if let Some((hub, what)) = silent {
            return Err(format!("the hub {} {what}", worker.hubs[hub]));
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
    worker: &WorkerSettings,
    address: SocketAddr,
    open: &FromWorker,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<OpenedHub, String> {
    let role = Role::Worker { rank: worker.rank };
    let further = worker.alternate_addresses.get(&address).into_iter().flatten();
    let addresses: Vec<SocketAddr> = [address].into_iter().chain(further.copied()).collect();
    let mut before: Option<String> = None;
    loop {
        let own = Identification { trust: &worker.trust, job: &worker.job };
        let socket = Handshaking::reach(&addresses, own, &role, deadline, stop).map_err(|shut| shut.why);
        // An earlier refusal says more than the timeout that followed.
        let socket = socket.map_err(|why| before.take().unwrap_or(why))?;
        let reached = socket.peer().unwrap_or(address);
        let mut connection = ControlConnection::new(socket);
        connection.send(open);
        let mut alive = Instant::now();
        let why = loop {
            // The hub may still write a save of an earlier job with this name, and search for it then.
            if alive.elapsed() >= worker.patience.interval {
                alive = Instant::now();
                connection.send(&FromWorker::Alive);
            }
            let closed = connection.write().and_then(|()| connection.read()).err();
            match connection.receive::<FromHub>()? {
                Some(FromHub::Opened { job, epoch, ticket, cores, interfaces, saves, live }) => {
                    let count = interfaces.len() as u32;
                    if !(1..=MAX_CORES).contains(&cores) || count == 0 || count > cores {
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
                        saves,
                        live,
                    });
                }
                Some(FromHub::Refused { why, permanent: true }) => return Err(format!("refused: {why}")),
                Some(FromHub::Refused { why, .. }) => break format!("refused: {why}"),
                Some(FromHub::Verdict { blame, trouble }) => break format!("{blame} {trouble}"),
                Some(FromHub::Leave) => return Err("it is shutting down".to_owned()),
                Some(
                    FromHub::Alive
                    | FromHub::Begin { .. }
                    | FromHub::Newcomer { .. }
                    | FromHub::Save { .. }
                    | FromHub::Saved { .. },
                ) => {}
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

/// Chooses the save from which the job continues: the newest that all its hubs have; `None` if there is nothing to
/// continue from, or the job is still in the memory of all hubs.
fn choose_save(worker: &WorkerSettings, opened: &[OpenedHub]) -> Result<Option<u64>, AttemptError> {
    let of = |hub: &OpenedHub| hub.saves.clone().unwrap_or_default();
    let Some(has) = opened.iter().position(|hub| !hub.live && !of(hub).is_empty()) else { return Ok(None) };
    let about = |what: String| JoinError::about_rank(worker.rank, &what);
    if let Some(live) = opened.iter().position(|hub| hub.live) {
        let (live, has) = (worker.hubs[live], worker.hubs[has]);
        return Err(AttemptError::Later(about(format!(
            "cannot join: the hub {has} was started again and has a save of the job, and the hub {live} still runs the job"
        ))));
    }
    let common =
        of(&opened[has]).into_iter().filter(|save| opened.iter().all(|hub| of(hub).contains(save))).max();
    if common.is_none() {
        let lacks = opened.iter().position(|hub| of(hub).is_empty()).map_or_else(
            || "its hubs have no save in common".to_owned(),
            |lacks| {
                let (has, lacks) = (worker.hubs[has], worker.hubs[lacks]);
                format!("the hub {has} has a save of the job, and the hub {lacks} has none")
            },
        );
        return Err(AttemptError::Final(about(format!(
            "cannot join: {lacks}. Start all hubs with the folders of their saves; or use another job name, or move \
             the job's saves away, to begin anew"
        ))));
    }
    Ok(common)
}

/// What hubs say when a worker may begin.
struct Begun {
    /// The steps that the worker has completed, of each vector.
    steps: Vec<u64>,
    /// Whether the job begins now.
    fresh: bool,
    /// Restarted workers to announce.
    newcomers: Vec<Newcomer>,
    /// A hub asks for a save beyond this number.
    save_wanted: Option<u64>,
}

/// Waits until all hubs say that the worker may begin.
fn begin(
    worker: &WorkerSettings,
    contract: &Contract,
    connections: &mut [ControlConnection],
    heartbeats: &mut HubHeartbeats,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Begun, AttemptError> {
    let mut begun: Vec<Option<Vec<Option<u64>>>> = vec![None; connections.len()];
    let (mut fresh_everywhere, mut all_exact, mut newcomers) = (true, false, Vec::new());
    let mut save_wanted = None;
    let mut asked = false;
    while begun.iter().any(Option::is_none) || all_exact && !agree(&begun) {
        let late = Instant::now() > deadline;
        if late && asked && Instant::now() > deadline + 2 * worker.patience.silence {
            let what = "timed out while waiting for other ranks; no hub reported which ones";
            return Err(JoinError::about_rank(worker.rank, what).into());
        }
        if late && !asked {
            asked = true;
            connections
                .iter_mut()
                .for_each(|connection| connection.send(&FromWorker::Late { key: 0, step: 0 }));
        }
        let lost = |hub: usize, what: String| {
            JoinError::about_rank(worker.rank, &format!("lost the hub {}: it {what}", worker.hubs[hub]))
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
                        return Err(lost(hub, "lists different vectors".to_owned()).into());
                    }
                    FromHub::Verdict { blame, trouble } => {
                        let error = JoinError::new(format!("{blame} {trouble}"));
                        // The job has begun at this hub, but not at another: the other may have refused some worker
                        // temporarily.
                        let half = begun[hub].is_some() && !late;
                        return Err(if half { AttemptError::Later } else { AttemptError::Final }(error));
                    }
                    FromHub::Refused { why, permanent } => {
                        let what = format!("cannot join through hub {}: refused: {why}", worker.hubs[hub]);
                        let error = JoinError::about_rank(worker.rank, &what);
                        return Err(if permanent { AttemptError::Final } else { AttemptError::Later }(error));
                    }
                    FromHub::Leave => return Err(lost(hub, "is shutting down".to_owned()).into()),
                    FromHub::Newcomer { worker, incarnation } => {
                        newcomers.push(Newcomer { worker, incarnation })
                    }
                    FromHub::Save { above } => save_wanted = save_wanted.max(Some(above)),
                    FromHub::Alive | FromHub::Opened { .. } | FromHub::Saved { .. } => {}
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
    Ok(Begun { steps, fresh: fresh_everywhere, newcomers, save_wanted })
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
