//! A worker joins a job on hubs.
//!
//! It goes to each hub and says what the job asks of it, connects with every core, and begins once all workers are there.

use super::assignment::Cores;
use super::client::{Client, Order, Routes};
use super::message::{Down, Up};
use super::optimizer::Optimizers;
use super::register::MOST_CORES;
use super::terms::{Contract, Mapping, Terms};
use super::worker_thread::{Command, Failure, WorkerThread};
use socket2::SockRef;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_executor::pending::{Completion, Pending};
use syncline_membership::place::Absence;
use syncline_protocol::codec::{LONGEST, encode};
use syncline_protocol::fault::{Blame, Errand, Fault, Trouble};
use syncline_protocol::handshake::Role;
use syncline_protocol::heartbeat::{Patience, Pulse};
use syncline_protocol::memory::Region;
use syncline_protocol::operation::Request;
use syncline_transport::bell::Bell;
use syncline_transport::congestion;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::random::random;
use syncline_transport::socket::{Socket, Stream};
use syncline_transport::trust::Trust;
use syncline_transport::wires::Wires;

/// Where a worker is, and where it finds its hubs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which worker it is.
    pub rank: u32,
    /// The job's name, the same for all.
    pub job: String,
    /// An address of each hub, in the same order for all; those of the worker's rack, where terms name racks.
    pub hubs: Vec<SocketAddr>,
    /// How worker and hubs know each other.
    pub trust: Trust,
    /// How long to wait until all are there.
    pub wait: Duration,
    /// The congestion control of connections (`cubic`, `reno`); the system's where it is absent.
    pub congestion: Option<String>,
    /// Signs of life.
    pub patience: Patience,
    /// How long an exchange may take.
    pub deadline: Duration,
}

/// A job on hubs, as one of its workers sees it. Dropped, the worker leaves.
#[derive(Debug)]
pub struct Hub {
    contract: Arc<Contract>,
    rank: u32,
    told: Mutex<Told>,
    failed: Failure,
    fresh: bool,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// What the desk has been told.
#[derive(Debug)]
struct Told {
    commands: Sender<Command>,
    newest: u64,
    /// How often each vector has been pushed.
    steps: Vec<u64>,
    /// Exchanges under way, and the memory that they work on.
    under_way: Vec<Working>,
}

/// An exchange under way, and the memory that it works on.
#[derive(Debug)]
struct Working {
    sequence: u64,
    request: Request,
    key: u32,
    input: Region,
    output: Region,
    completion: Arc<Completion>,
}

impl Working {
    /// Whether another exchange would read what this one writes, or write what it works on.
    fn disturbs(&self, input: Region, output: Region) -> bool {
        let clash = |a: Region, b: Region| !a.is_empty() && !b.is_empty() && a.overlaps(b);
        clash(self.output, input) || clash(self.output, output) || clash(self.input, output)
    }
}

/// An exchange under way.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The exchange.
    pub pending: Pending,
    contributors: Arc<AtomicU16>,
}

impl Exchange {
    /// How many workers had a part in what came, at least; once it is over. Fewer than there are where some were lost.
    ///
    /// None where nothing came: of a push, and of a vector without elements.
    pub fn contributors(&self) -> Option<u16> {
        Some(self.contributors.load(Ordering::Acquire)).filter(|&count| count != u16::MAX)
    }
}

/// What a hub has said when it was gone to.
struct Met {
    connection: ControlConnection,
    number: u32,
    epoch: u16,
    ticket: u64,
    cores: Cores,
    interfaces: Vec<SocketAddr>,
}

/// Joins a job; returns once all its workers are there. `stop` is asked now and then whether to give up.
///
/// # Errors
/// Where terms make no sense, a hub cannot be reached or refuses, or workers do not all come in time.
pub fn join(
    place: &Place,
    terms: Terms,
    optimizers: &Optimizers,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Hub, Absence> {
    let here = |what: String| Absence::here(place.rank, &what);
    let nonsense = |what: String| Absence { nonsense: true, ..Absence::new(what) };
    let contract = Arc::new(terms.clone().contract(optimizers).map_err(nonsense)?);
    let mut place = place.clone();
    if let Some(racks) = &terms.racks {
        let own = racks.of.get(place.rank as usize);
        let rack = own.ok_or_else(|| nonsense(format!("there is no rank {} in the racks", place.rank)))?;
        place.hubs.clone_from(&racks.hubs[*rack as usize]);
    }
    let place = &place;
    if let Some(twice) = (1..place.hubs.len()).find(|&hub| place.hubs[..hub].contains(&place.hubs[hub])) {
        return Err(nonsense(format!("the hub {} is named twice", place.hubs[twice])));
    }
    if place.hubs.is_empty() {
        return Err(nonsense("there is no hub to join at".to_owned()));
    }
    let deadline = Instant::now() + place.wait;
    let incarnation = random().map_err(here)?;
    let interval_ms = u64::try_from(place.patience.interval.as_millis()).unwrap_or(u64::MAX);
    let open = Up::Open { terms: Box::new(terms.clone()), incarnation, interval_ms };
    let length = encode(&open).len();
    if length > LONGEST {
        let keys = terms.keys.len();
        return Err(nonsense(format!(
            "{keys} vectors take {length} bytes to name, and {LONGEST} are allowed: put several parameters into a vector"
        )));
    }
    let mut refused: Option<Absence> = None;
    loop {
        let setback = match attempt(place, &contract, &open, deadline, stop) {
            Ok(hub) => return Ok(hub),
            Err(setback) => setback,
        };
        match setback {
            Setback::Later(absence) if Instant::now() < deadline => refused = Some(absence),
            Setback::Later(absence) | Setback::Absence(absence) => return Err(absence),
            Setback::Unmet(absence) if Instant::now() < deadline => return Err(absence),
            // Why it was refused before says more than that time was up then.
            Setback::Unmet(absence) => return Err(refused.unwrap_or(absence)),
        }
        stop().map_err(Absence::new)?;
        std::thread::sleep(AGAIN);
    }
}

/// How long to wait before a hub is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Tries once to join.
fn attempt(
    place: &Place,
    contract: &Arc<Contract>,
    open: &Up,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Hub, Setback> {
    let here = |what: String| Absence::here(place.rank, &what);
    let mut met: Vec<Met> = Vec::new();
    let mut vigil = Vigil::new(place.patience);
    for &address in &place.hubs {
        let at = |what: String| Setback::Unmet(here(format!("cannot join at the hub {address}: {what}")));
        let mut stay = || vigil.stay(&mut met, place, stop);
        let found = meet(place, address, open, deadline, &mut stay).map_err(at)?;
        vigil.join(met.len());
        met.push(found);
    }
    let hubs: Vec<Cores> = met.iter().map(|hub| hub.cores).collect();
    // Chunks may be millions: hubs hear meanwhile that this worker lives.
    let routes = std::thread::scope(|scope| {
        let finding = scope.spawn(|| Routes::new(contract, &hubs));
        while !finding.is_finished() {
            vigil.stay(&mut met, place, stop).map_err(|what| Setback::Unmet(here(what)))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        finding.join().map_err(|_| Setback::from(here("failed, which is a bug of syncline".to_owned())))
    })?;
    let routes = Arc::new(routes);
    let epochs = met.iter().map(|hub| hub.epoch).collect();
    let mut client = Client::new(Arc::clone(contract), Arc::clone(&routes), epochs);
    let (mut wires, bell) = Wires::new(place.patience).map_err(|error| here(error.to_string()))?;
    for core in 0..routes.cores() {
        let way = routes.way(core);
        let hub = &met[way.hub as usize];
        let number = match contract.terms.mapping {
            Mapping::KeyByInterface => way.core,
            Mapping::WorkerByInterface => place.rank,
        };
        let mut address = hub.interfaces[number as usize % hub.interfaces.len()];
        if address.ip().is_unspecified() {
            // A hub that listens everywhere is where it was found.
            address.set_ip(place.hubs[way.hub as usize].ip());
        }
        let (number, ticket) = (hub.number, hub.ticket);
        let role = Role::Core { rank: place.rank, number, ticket, core: way.core };
        let trust = (&place.trust, place.job.as_str());
        let socket =
            Handshaking::reach(&[address], trust, &role, deadline, &mut || vigil.stay(&mut met, place, stop))
                .map_err(|shut| shut.why)
                .and_then(|socket| prepare(socket, place.congestion.as_deref()))
                .map_err(|what| {
                    Setback::Unmet(here(format!(
                        "cannot reach core {} of the hub {address}: {what}",
                        way.core
                    )))
                })?;
        let connection = Box::new(Stream::new(socket));
        wires.add(&mut client, core, connection).map_err(|error| here(error.to_string()))?;
    }
    for (hub, met) in (0u32..).zip(&mut met) {
        met.connection.send(&Up::Ready { hubs: hubs.clone(), hub });
    }
    let mut connections: Vec<ControlConnection> = met.into_iter().map(|met| met.connection).collect();
    let Begun { steps, fresh, newcomers } =
        begin(place, contract, (&mut connections, &mut vigil), deadline, stop)?;
    client.skip(&steps);
    // They came while this worker still waited for other hubs.
    newcomers.into_iter().for_each(|(worker, incarnation)| client.admit(worker, incarnation));
    let (commands, obey) = channel();
    let failed = Failure::default();
    let desk =
        WorkerThread::new(place, Arc::clone(contract), client, wires, connections, obey, Arc::clone(&failed))
            .map_err(|error| here(format!("cannot wait: {error}")))?;
    let thread = std::thread::Builder::new().name("desk".to_owned()).spawn(|| desk.run());
    let thread = Some(thread.map_err(|error| here(format!("starts no thread: {error}")))?);
    let told = Mutex::new(Told { commands, newest: 0, steps, under_way: Vec::new() });
    Ok(Hub { contract: Arc::clone(contract), rank: place.rank, told, failed, fresh, bell, thread })
}

/// Signs of life between a worker that has not begun and hubs that it has met.
struct Vigil {
    pulse: Pulse,
    began: Instant,
}

impl Vigil {
    fn new(patience: Patience) -> Self {
        Self { pulse: Pulse::new(patience, Duration::ZERO), began: Instant::now() }
    }

    /// A hub has been met.
    fn join(&mut self, hub: usize) {
        let now = self.began.elapsed();
        self.pulse.join(hub, now);
        self.pulse.heard(hub, now);
    }

    /// Writes and reads, and says that the worker lives, where that is due: how connections ended, by hub, and the hub that has
    /// been silent for too long.
    fn keep<'a>(
        &mut self,
        connections: impl Iterator<Item = &'a mut ControlConnection>,
    ) -> (Vec<Option<String>>, Option<(usize, String)>) {
        let now = self.began.elapsed();
        let due = self.pulse.due(now);
        let ends = connections.enumerate().map(|(hub, connection)| {
            if due.contains(&hub) {
                connection.send(&Up::Alive);
            }
            let end = connection.write().and_then(|()| connection.read()).err();
            if connection.take_heard() {
                self.pulse.heard(hub, now);
            }
            end
        });
        let ends = ends.collect();
        let silent = self.pulse.silent(now).into_iter().next();
        (ends, silent.map(|(hub, silence)| (hub, Trouble::silent(silence).what)))
    }

    /// The worker is on its way to other hubs: those that it has met are still there, and it does not give up.
    fn stay(
        &mut self,
        met: &mut [Met],
        place: &Place,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let (ends, silent) = self.keep(met.iter_mut().map(|hub| &mut hub.connection));
        if let Some((hub, how)) = ends.into_iter().enumerate().find_map(|(hub, end)| Some((hub, end?))) {
            let address = place.hubs[hub];
            // It may have said why.
            while let Some(message) = met[hub].connection.receive::<Down>()? {
                match message {
                    Down::Verdict { blame, trouble } => return Err(format!("{blame} {trouble}")),
                    Down::Refused { why, .. } => {
                        return Err(format!("the hub {address} refused meanwhile: {why}"));
                    }
                    Down::Leave => return Err(format!("the hub {address} ends")),
                    Down::Alive | Down::Opened { .. } | Down::Begin { .. } | Down::Newcomer { .. } => {}
                }
            }
            return Err(format!("the hub {address} closed its connection meanwhile ({how})"));
        }
        if let Some((hub, what)) = silent {
            return Err(format!("the hub {} {what} meanwhile", place.hubs[hub]));
        }
        stop()
    }
}

/// Why a worker does not join.
enum Setback {
    /// For good.
    Absence(Absence),
    /// A hub, or a core of one, has not let it in.
    Unmet(Absence),
    /// There may be room for it later.
    Later(Absence),
}

impl From<Absence> for Setback {
    fn from(absence: Absence) -> Self {
        Self::Absence(absence)
    }
}

/// Sets what connections for chunks have in common.
fn prepare(socket: Socket, congestion: Option<&str>) -> Result<Socket, String> {
    if let (Some(stream), Some(name)) = (socket.tcp(), congestion) {
        congestion::choose(&SockRef::from(stream), name)?;
    }
    Ok(socket)
}

/// Goes to a hub, again and again until it lets the worker in.
fn meet(
    place: &Place,
    address: SocketAddr,
    open: &Up,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Met, String> {
    let role = Role::Worker { rank: place.rank };
    let mut before: Option<String> = None;
    loop {
        let trust = (&place.trust, place.job.as_str());
        let socket = Handshaking::reach(&[address], trust, &role, deadline, stop).map_err(|shut| shut.why);
        // Why it was refused says more than that time was up then.
        let mut connection = ControlConnection::new(socket.map_err(|why| before.take().unwrap_or(why))?);
        connection.send(open);
        let why = loop {
            let closed = connection.write().and_then(|()| connection.read()).err();
            match connection.receive::<Down>()? {
                Some(Down::Opened { job, epoch, ticket, cores, interfaces }) => {
                    let count = interfaces.len() as u32;
                    if !(1..=MOST_CORES).contains(&cores) || count == 0 || count > cores {
                        return Err(format!("it says that it has {cores} cores and {count} interfaces"));
                    }
                    let cores = Cores { cores, interfaces: count };
                    return Ok(Met { connection, number: job, epoch, ticket, cores, interfaces });
                }
                Some(Down::Refused { why, lasts: true }) => return Err(format!("refused: {why}")),
                Some(Down::Refused { why, .. }) => break format!("refused: {why}"),
                Some(Down::Verdict { blame, trouble }) => break format!("{blame} {trouble}"),
                Some(Down::Leave) => return Err("it ends".to_owned()),
                Some(Down::Alive | Down::Begin { .. } | Down::Newcomer { .. }) => {}
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

/// How a worker begins.
struct Begun {
    /// How many steps of each vector are behind it.
    steps: Vec<u64>,
    /// Whether the job begins with it.
    fresh: bool,
    /// Others that want to be part of the job already.
    newcomers: Vec<(u32, u64)>,
}

/// Waits until all hubs say that all workers are there.
fn begin(
    place: &Place,
    contract: &Contract,
    (connections, vigil): (&mut [ControlConnection], &mut Vigil),
    deadline: Instant,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Begun, Setback> {
    let mut begun: Vec<Option<Vec<u64>>> = vec![None; connections.len()];
    let (mut fresh_everywhere, mut all_exact, mut newcomers) = (true, false, Vec::new());
    let mut asked = false;
    while begun.iter().any(Option::is_none) || all_exact && !agree(&begun) {
        let late = Instant::now() > deadline;
        if late && asked && Instant::now() > deadline + 2 * place.patience.silence {
            let what = "waits for others, and no hub says for whom";
            return Err(Absence::here(place.rank, what).into());
        }
        if late && !asked {
            asked = true;
            connections.iter_mut().for_each(|connection| connection.send(&Up::Late { key: 0, step: 0 }));
        }
        let lost = |hub: usize, what: String| {
            Absence::here(place.rank, &format!("lost the hub {}: it {what}", place.hubs[hub]))
        };
        let (ends, silent) = vigil.keep(connections.iter_mut());
        for (hub, end) in ends.into_iter().enumerate() {
            while let Some(message) = connections[hub].receive::<Down>().map_err(|what| lost(hub, what))? {
                match message {
                    Down::Begin { steps, fresh, exact } if steps.len() == contract.catalogue.keys().len() => {
                        fresh_everywhere &= fresh;
                        all_exact |= exact;
                        begun[hub] = Some(steps);
                    }
                    Down::Begin { .. } => {
                        return Err(lost(hub, "says that there are other vectors".to_owned()).into());
                    }
                    Down::Verdict { blame, trouble } => {
                        let absence = Absence::new(format!("{blame} {trouble}"));
                        // The job has begun here, and not at another hub: that one may have refused somebody for now.
                        let half = begun[hub].is_some() && !late;
                        return Err(if half { Setback::Later } else { Setback::Absence }(absence));
                    }
                    Down::Refused { why, lasts } => {
                        let what = format!("cannot join at the hub {}: refused: {why}", place.hubs[hub]);
                        let absence = Absence::here(place.rank, &what);
                        return Err(if lasts { Setback::Absence } else { Setback::Later }(absence));
                    }
                    Down::Leave => return Err(lost(hub, "ends".to_owned()).into()),
                    Down::Newcomer { worker, incarnation } => newcomers.push((worker, incarnation)),
                    Down::Alive | Down::Opened { .. } => {}
                }
            }
            if let (Some(how), None) = (end, &begun[hub]) {
                return Err(lost(hub, format!("closed its connection ({how})")).into());
            }
        }
        if let Some((hub, what)) = silent {
            return Err(lost(hub, what).into());
        }
        stop().map_err(Absence::new)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    // A hub that has no chunk of a vector knows nothing of its steps.
    let steps = (0..contract.catalogue.keys().len()).map(|key| {
        let known = begun.iter().flatten().map(|steps| steps[key]).filter(|&steps| steps != u64::MAX);
        known.min().unwrap_or(0)
    });
    let mut steps: Vec<u64> = steps.collect();
    // Of vectors that are pushed together some may have been pushed once more: that counts once, and is pushed again.
    let together = contract.together.iter();
    if let Some(least) = together.clone().map(|&key| steps[key as usize]).min() {
        together.for_each(|&key| steps[key as usize] = least);
    }
    Ok(Begun { steps, fresh: fresh_everywhere, newcomers })
}

/// Whether all hubs say the same of every vector that they have chunks of.
fn agree(begun: &[Option<Vec<u64>>]) -> bool {
    let keys = begun.iter().flatten().map(Vec::len).max().unwrap_or(0);
    (0..keys).all(|key| {
        let mut known = begun.iter().flatten().map(|steps| steps[key]).filter(|&steps| steps != u64::MAX);
        let first = known.next();
        known.all(|each| Some(each) == first)
    })
}

impl Hub {
    /// Which worker this is.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// What the job asked for.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// How often each vector has been pushed, by this worker or before it joined.
    pub fn steps(&self) -> Vec<u64> {
        self.lock().steps.clone()
    }

    /// Whether the job began with this worker: nobody has pushed before.
    pub fn fresh(&self) -> bool {
        self.fresh
    }

    /// Why nothing can begin any more, if that is so.
    pub fn failed(&self) -> Option<Arc<Fault>> {
        self.failed.get().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an exchange of a vector. `input` is what this worker brings and `output` where what comes goes, which may be
    /// the same memory; either is empty where there is none. With `keep`, the input is as it was if the exchange fails.
    ///
    /// # Errors
    /// Where there is no such vector, memory has another length, or an exchange that is under way works on the same memory (both
    /// may read it). Nothing has begun then. Everything that happens later is
    /// the exchange's outcome.
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
            let message = format!("there is no vector {key}: the job has {}", keys.len());
            return Err(Diagnostic::error(Code::BadValue, message).into());
        };
        let bytes = vector.bytes().unwrap_or(0);
        let length = |there: bool| if there { bytes as usize } else { 0 };
        let lengths =
            [("input", input, length(request.sends())), ("output", output, length(request.receives()))];
        for (name, region, length) in lengths {
            if region.len() != length {
                let message =
                    format!("the {name} of {} of `{}` has another length", request.name(), vector.name);
                return Err(Diagnostic::error(Code::BadValue, message)
                    .found(format!("{} bytes", region.len()))
                    .allowed(format!("{length} bytes"))
                    .into());
            }
        }
        if !input.same(output) && input.overlaps(output) {
            let message = format!("input and output of {} of `{}` overlap", request.name(), vector.name);
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed("the same memory, or memory apart")
                .into());
        }
        let completion = Completion::new(1);
        let exchange = Exchange {
            pending: Pending::new(Arc::clone(&completion)),
            contributors: Arc::new(AtomicU16::new(u16::MAX)),
        };
        let mut told = self.lock();
        told.under_way.retain(|other| !other.completion.over());
        if let Some(other) = told.under_way.iter().find(|other| other.disturbs(input, output)) {
            let Working { sequence, request: theirs, key, .. } = other;
            let (ours, theirs) = (request.name(), theirs.name());
            let message = format!(
                "memory of {ours} of `{}` is in use by {theirs} of `{}` (exchange {sequence})",
                vector.name, keys[*key as usize].name
            );
            let help = format!("wait for exchange {sequence} before this one begins");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        told.newest += 1;
        let sequence = told.newest;
        let working = Working { sequence, request, key, input, output, completion: Arc::clone(&completion) };
        told.under_way.push(working);
        if matches!(request, Request::Push | Request::PushPull) {
            told.steps[key as usize] += 1;
        }
        let order = Order { sequence, key, request, input, output, keep };
        let contributors = Arc::clone(&exchange.contributors);
        let start = Command::Start(order, Arc::clone(&completion), contributors);
        if told.commands.send(start).is_ok() {
            self.bell.ring();
        } else {
            let errand = Errand::Exchange(request, vector.name.clone(), bytes);
            let during = Some((sequence, errand, Duration::ZERO));
            let (blame, trouble) = (Blame::Rank(self.rank), Trouble::left());
            completion.end(Err(Arc::new(Fault { blame, trouble, during })));
        }
        Ok(exchange)
    }

    /// Another learning rate of a vector or of all, from this worker's next push on. One worker says it, for all; where several
    /// do, they say the same before the same step.
    ///
    /// # Errors
    /// Where it is no learning rate, or there is no such vector or no optimizer.
    pub fn set_rate(&self, rate: f64, key: Option<u32>) -> syncline_diagnostics::Result<()> {
        if self.contract.terms.racks.as_ref().is_some_and(|racks| racks.hubs.len() > 1) {
            let message = "with hubs in several racks the learning rate stays as it is";
            return Err(Diagnostic::error(Code::BadValue, message).into());
        }
        let optimizers = &self.contract.optimizers;
        let optimized = match key {
            Some(key) => optimizers.get(key as usize).is_some_and(Option::is_some),
            None => optimizers.iter().any(Option::is_some),
        };
        if !optimized {
            let message = "the hub has no optimizer whose learning rate could change";
            return Err(Diagnostic::error(Code::BadValue, message).into());
        }
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(Diagnostic::error(Code::BadValue, "this is no learning rate")
                .found(rate.to_string())
                .allowed("0 or more")
                .into());
        }
        if self.lock().commands.send(Command::Rate(rate, key)).is_ok() {
            self.bell.ring();
        }
        Ok(())
    }
}

impl Drop for Hub {
    /// Says goodbye. What is under way fails.
    fn drop(&mut self) {
        let (nobody, _) = channel();
        self.lock().commands = nobody;
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
}
