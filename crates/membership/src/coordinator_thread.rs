//! The coordinator's thread: admits members, begins epochs, tells members where the others listen, and detects faults.
//!
//! In an elastic job every member has such a thread. That of rank 0 coordinates. The others stand by: they tell processes
//! that connect where the coordinator is, and one of them takes over when it is lost ([`crate::succession`]).

use crate::admission::Members;
use crate::assembly::{Decision, TakeOver};
use crate::coordinator::LostMember;
use crate::join_error::JoinError;
use crate::member_settings::{Interface, MemberSettings};
use crate::message::{CoordinatorPlace, FromCoordinator, FromMember, ListenAddresses};
use crate::{Assembly, Coordinator};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Token, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::codec::encode;
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::handshake::{Hello, Role};
use syncline_protocol::heartbeat::{Heartbeats, Patience};
use syncline_protocol::settings::Settings;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::{Handshaking, MAX_PENDING};
use syncline_transport::loss_watch::LossWatch;
use syncline_transport::pending_handshakes::PendingHandshakes;
use syncline_units::rank_list;

const LISTENER: Token = Token(usize::MAX);
const CLOSE: Token = Token(usize::MAX - 1);

/// Grace period after the owner drops the coordinator: for members to leave, and for final messages to reach them.
const LEAVING: Duration = Duration::from_secs(2);

/// All connections are read this often, even without events. Members learn at most this often who waits for the next
/// epoch.
const INTERVAL: Duration = Duration::from_millis(50);

/// A thread that stands by looks this often whether handshakes have timed out.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);

/// While only heartbeats arrive, timers advance at most this often: they look at all members.
const TICK: Duration = Duration::from_millis(5);

/// How long a coordinator that takes over waits for survivors, as a multiple of the silence after which a member is lost,
/// plus one second.
const SURVIVORS_WITHIN: u32 = 2;

/// How long a coordinator that takes over waits before it looks which survivors have ended: several may be lost at once.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// How often a coordinator that has taken over tries to reach a process at the address where the job began: a rank 0 that
/// was started again would otherwise begin another job there.
const REDIRECT: Duration = Duration::from_secs(1);

/// A handle of the coordinator's thread. Dropping it tells the members that the coordinator leaves, gives them
/// [`LEAVING`] to leave too, and ends the thread.
#[derive(Debug)]
pub struct CoordinatorThread {
    closing: Arc<AtomicBool>,
    addresses: Vec<SocketAddr>,
    standby: Standby,
    thread: Option<JoinHandle<()>>,
}

impl CoordinatorThread {
    /// The addresses of the job on which this thread listens: those of the first coordinator, and none on other ranks.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What makes this thread stand by for a lost coordinator.
    pub fn standby(&self) -> Standby {
        self.standby.clone()
    }
}

/// Makes a member's coordinator thread stand by for a lost coordinator, and take over.
#[derive(Clone, Debug)]
pub struct Standby {
    /// Where the thread listens for members if it takes over; empty unless the job is elastic.
    place: CoordinatorPlace,
    /// The same, for this process: a host may be unable to reach itself at the addresses that others use, as behind NAT.
    own_addresses: Vec<SocketAddr>,
    orders: Sender<Order>,
    waker: Arc<Waker>,
    coordinates: Arc<AtomicBool>,
}

/// An order to a member's coordinator thread.
#[derive(Debug)]
enum Order {
    /// Tell processes that connect where the coordinator is; `None` while it is lost.
    Redirect(Option<CoordinatorPlace>),
    /// Coordinate the job from now on. The ranks of the last epoch would have coordinated at these places.
    TakeOver(TakeOver, Vec<CoordinatorPlace>),
    /// The process of a survivor has ended.
    End(u32),
}

impl Standby {
    /// Where the thread listens for members if it takes over.
    pub fn place(&self) -> &CoordinatorPlace {
        &self.place
    }

    /// The addresses at which this process reaches the thread.
    pub fn own_addresses(&self) -> &[SocketAddr] {
        &self.own_addresses
    }

    /// Whether the thread coordinates the job now.
    pub fn coordinates(&self) -> bool {
        self.coordinates.load(Ordering::Relaxed)
    }

    /// Tells the thread where the coordinator is; `None` while this member has none. Ignored while the thread itself
    /// coordinates.
    pub fn set_coordinator(&self, place: Option<CoordinatorPlace>) {
        self.order(Order::Redirect(place));
    }

    /// Makes the thread coordinate the job. Does nothing if it does already. The ranks of the last epoch would have coordinated
    /// at `places`.
    pub fn take_over(&self, job: TakeOver, places: &[CoordinatorPlace]) {
        self.order(Order::TakeOver(job, places.to_vec()));
    }

    fn order(&self, order: Order) {
        // Fails only if the thread has ended.
        _ = self.orders.send(order);
        _ = self.waker.wake();
    }
}

impl Drop for CoordinatorThread {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        _ = self.standby.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Listens on all of the coordinator's addresses that this host has, on the same port.
///
/// # Errors
/// A clause: why it cannot listen on any of them.
fn bind(member: &MemberSettings) -> Result<Vec<TcpListener>, String> {
    let listen = |address: SocketAddr, port: u16| TcpListener::bind(SocketAddr::new(address.ip(), port));
    let [first, others @ ..] = &member.coordinator[..] else {
        return Err("has no coordinator address: set MASTER_ADDR".to_owned());
    };
    let (mut whys, mut found): (Vec<String>, Vec<TcpListener>) = (Vec::new(), Vec::new());
    for &address in [first].into_iter().chain(others) {
        // All listeners use the port of the first.
        let known = found.first().and_then(|listener| listener.local_addr().ok()).map(|known| known.port());
        let bound = match known.or((address.port() > 0).then_some(address.port())) {
            Some(port) => listen(address, port).map_err(|error| error.to_string()),
            None => member.listen(address.ip(), 0),
        };
        match bound {
            Ok(listener) => found.push(listener),
            Err(why) => whys.push(format!("cannot listen on {address}, the coordinator's address: {why}")),
        }
    }
    if found.is_empty() { Err(whys.join("; ")) } else { Ok(found) }
}

/// A listener of a thread that may coordinate later.
struct StandbyListener {
    listener: TcpListener,
    /// Its address for other members, and for this process.
    for_others: SocketAddr,
    own: SocketAddr,
}

/// Listens on each of a member's interfaces.
///
/// # Errors
/// A clause: why it cannot listen on one of them.
fn bind_standby(member: &MemberSettings, lanes: u32) -> Result<Vec<StandbyListener>, String> {
    let listen = |&Interface { listen, advertised }: &Interface| {
        let listener =
            member.listen(listen, lanes).map_err(|why| format!("cannot listen on {listen}: {why}"))?;
        let own = listener.local_addr().map_err(|error| error.to_string())?;
        Ok(StandbyListener { listener, for_others: SocketAddr::new(advertised, own.port()), own })
    };
    member.interfaces.iter().map(listen).collect()
}

/// Starts a member's coordinator thread, and listens for members. That of the first coordinator, rank 0, coordinates the
/// job, or learns that another process does. Those of other ranks stand by.
pub fn open(member: &MemberSettings, settings: Settings) -> Result<CoordinatorThread, JoinError> {
    let fault = |what: String| JoinError::about_rank(member.rank, &what);
    let waits = |error: std::io::Error| fault(format!("cannot wait for connections: {error}"));
    let first = member.rank == member.coordinator_rank;
    let mut listeners = if first { bind(member).map_err(fault)? } else { Vec::new() };
    let addresses: Vec<SocketAddr> =
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let mut place = CoordinatorPlace { rank: member.rank, addresses: Vec::new() };
    let mut own_addresses = Vec::new();
    if member.elastic {
        for standby in bind_standby(member, settings.flow.lanes).map_err(fault)? {
            let StandbyListener { listener, for_others, own } = standby;
            listeners.push(listener);
            place.addresses.push(for_others);
            own_addresses.push(own);
        }
    }
    let poll = Watcher::new().map_err(waits)?;
    for listener in &mut listeners {
        poll.registry().register(listener, LISTENER, Interest::READABLE).map_err(waits)?;
    }
    let waker = Arc::new(Waker::new(poll.registry(), CLOSE).map_err(waits)?);
    let (closing, coordinates) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(first)));
    let (sender, orders) = channel();
    let coordinator_loop = CoordinatorLoop {
        member: member.clone(),
        lanes: settings.flow.lanes,
        patience: settings.patience,
        closing: Arc::clone(&closing),
        orders,
        sender: sender.clone(),
        waker: Arc::clone(&waker),
        place: place.clone(),
        coordinates: Arc::clone(&coordinates),
        redirect: None,
        redirecting: None,
        redirected: Instant::now(),
        survivors: BTreeSet::new(),
        listeners,
        poll,
        // All ranks may join at the same time.
        pending: PendingHandshakes::of(MAX_PENDING.max(member.world as usize)),
        connections: BTreeMap::new(),
        tokens: BTreeMap::new(),
        assembly: Assembly::new(member.world, member.wait),
        coordinator: None,
        losses: LossWatch::default(),
        heartbeats: Heartbeats::new(settings.patience, Duration::ZERO),
        announced_waiting: Vec::new(),
        announced: Instant::now(),
        news: false,
        read_all: Instant::now(),
        ticked: Instant::now(),
        started: Instant::now(),
    };
    let thread = std::thread::Builder::new()
        .name("coordinator".to_owned())
        .spawn(|| coordinator_loop.run())
        .map_err(|error| fault(format!("cannot start a thread: {error}")))?;
    let standby = Standby { place, own_addresses, orders: sender, waker, coordinates };
    Ok(CoordinatorThread { closing, addresses, standby, thread: Some(thread) })
}

struct CoordinatorLoop {
    member: MemberSettings,
    lanes: u32,
    patience: Patience,
    closing: Arc<AtomicBool>,
    orders: Receiver<Order>,
    sender: Sender<Order>,
    waker: Arc<Waker>,
    /// Where this thread listens if it takes over.
    place: CoordinatorPlace,
    /// Whether this thread coordinates the job. Otherwise it stands by.
    coordinates: Arc<AtomicBool>,
    /// Where the coordinator is, if this thread stands by and knows it.
    redirect: Option<CoordinatorPlace>,
    /// A handshake with the process at the address where the job began, and when it was begun.
    redirecting: Option<Handshaking>,
    redirected: Instant,
    /// Members of the last epoch that have found this coordinator, and have not asked for the next epoch yet.
    survivors: BTreeSet<u32>,
    listeners: Vec<TcpListener>,
    poll: Watcher,
    pending: PendingHandshakes,
    /// The connections of members, by rank.
    connections: BTreeMap<u32, ControlConnection>,
    /// The ranks of these connections, by the token under which the poll reports them.
    tokens: BTreeMap<usize, u32>,
    assembly: Assembly,
    /// The coordinator of this epoch; `None` before the first.
    coordinator: Option<Coordinator>,
    /// Tells whose packets the network loses.
    losses: LossWatch,
    /// Heartbeats of members that wait for an epoch.
    heartbeats: Heartbeats,
    /// The ranks that wait for the next epoch, as last announced to the members of this one.
    announced_waiting: Vec<u32>,
    /// When they were announced.
    announced: Instant,
    /// Whether something other than heartbeats has happened since timers advanced.
    news: bool,
    /// When all connections were read last, and when timers advanced last.
    read_all: Instant,
    ticked: Instant,
    started: Instant,
}

impl CoordinatorLoop {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let (mut closing, mut more_connections) = (None::<Instant>, false);
        loop {
            let wait = match &self.coordinator {
                _ if !self.coordinates() => STANDBY_INTERVAL,
                Some(coordinator) => coordinator.interval(),
                None => Duration::from_millis(100),
            };
            let wait = if more_connections { Duration::ZERO } else { wait };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                _ => {}
            }
            let mut ready: Vec<usize> = events.iter().map(|event| event.token().0).collect();
            ready.iter().for_each(|&token| self.pending.note_event(Token(token)));
            self.follow_orders();
            more_connections = self.accept();
            self.advance_handshakes(&mut ready);
            self.redirect_first_address();
            self.read_messages(&ready);
            let ticks = std::mem::take(&mut self.news) || self.ticked.elapsed() >= TICK;
            if ticks && self.coordinates() {
                self.ticked = Instant::now();
                self.advance_epoch();
            }
            self.send_messages(ticks);
            if closing.is_none() && self.closing.load(Ordering::Relaxed) {
                closing = Some(Instant::now());
                self.connections.values_mut().for_each(|connection| connection.send(&FromCoordinator::Leave));
                self.send_messages(true);
            }
            let all_left = !self.coordinates()
                || self.coordinator.as_ref().is_none_or(Coordinator::is_empty)
                || self.connections.is_empty();
            if closing.is_some_and(|since| all_left || since.elapsed() > LEAVING) {
                return;
            }
        }
    }

    fn coordinates(&self) -> bool {
        self.coordinates.load(Ordering::Relaxed)
    }

    fn follow_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::End(rank) => {
                    self.assembly.end(rank);
                    self.news = true;
                }
                _ if self.coordinates() => {}
                Order::Redirect(place) => self.redirect = place,
                Order::TakeOver(job, places) => {
                    let patience = SURVIVORS_WITHIN * self.patience.silence + Duration::from_secs(1);
                    // If some process is silent, the network may fail, and others answer for a host.
                    if job.silent.is_empty() {
                        let survives = |place: &CoordinatorPlace| job.survivors.contains(&place.rank);
                        self.look_for_ended(places.into_iter().filter(survives).collect());
                    }
                    self.assembly.take_over(job, self.started.elapsed() + patience);
                    (self.redirect, self.coordinator) = (None, None);
                    self.heartbeats = Heartbeats::new(self.patience, self.started.elapsed());
                    self.connections.clear();
                    self.tokens.clear();
                    self.coordinates.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Starts a thread that finds out which survivors have ended: nobody listens where they would coordinate.
    fn look_for_ended(&self, mut places: Vec<CoordinatorPlace>) {
        let (orders, waker, closing) =
            (self.sender.clone(), Arc::clone(&self.waker), Arc::clone(&self.closing));
        let (own, silence) = (self.member.rank, self.patience.silence);
        places.retain(|place| place.rank != own && !place.addresses.is_empty());
        let look = move || {
            std::thread::sleep(LOOK_AFTER);
            let refuses = |address: &SocketAddr| {
                let answer = std::net::TcpStream::connect_timeout(address, silence);
                answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            };
            for CoordinatorPlace { rank, addresses } in places {
                if closing.load(Ordering::Relaxed) {
                    return;
                }
                if addresses.iter().all(refuses) {
                    _ = orders.send(Order::End(rank));
                    _ = waker.wake();
                }
            }
        };
        // Without the thread, those that have ended count as silent.
        _ = std::thread::Builder::new().name("survivors".to_owned()).spawn(look);
    }

    /// Leaves the job to another process, and tells those that have joined here. That process may take the place of one to
    /// which this thread has left the job before.
    fn hand_over(&mut self, place: CoordinatorPlace) {
        self.coordinates.store(false, Ordering::Relaxed);
        let here: Vec<u32> = self.connections.keys().copied().collect();
        self.send_to(&here, &FromCoordinator::Moved(place.clone()));
        self.redirect = Some(place);
    }

    /// Once an epoch has begun after a take-over, tells a process at the address where the job began that the job goes on
    /// here.
    fn redirect_first_address(&mut self) {
        let first = self.member.coordinator_rank;
        let has_moved = self.coordinates() && self.coordinator.is_some() && self.member.rank != first;
        if !has_moved || self.connections.contains_key(&first) {
            self.redirecting = None;
            return;
        }
        if self.redirected.elapsed() > REDIRECT {
            // One address after the other.
            let turn = (self.started.elapsed().as_secs() / REDIRECT.as_secs()) as usize;
            let address = self.member.coordinator[turn % self.member.coordinator.len()];
            let role =
                Role::Successor { rank: self.place.rank, first, addresses: self.place.addresses.clone() };
            let (trust, job) = (self.member.trust.clone(), &self.member.job);
            let stream = TcpStream::connect(address).ok();
            self.redirecting =
                stream.and_then(|stream| Handshaking::begin(stream.into(), trust, job, role).ok());
            self.redirected = Instant::now();
        }
        // Ends with an error where no process listens.
        if let Some(handshake) = &mut self.redirecting
            && handshake.advance(|_| Ok(())) != Ok(false)
        {
            self.redirecting = None;
        }
    }

    /// Accepts a limited number of connections, so that members that have joined are served however many others
    /// connect. Returns whether there may be more.
    fn accept(&mut self) -> bool {
        let mut more = false;
        for listener in &self.listeners {
            let accepted = std::iter::from_fn(|| listener.accept().ok()).take(MAX_PENDING);
            let accepted = accepted.map(|(stream, _)| {
                self.pending.add(stream, &self.member.trust, Some(&self.member.job), self.poll.registry());
            });
            more |= accepted.count() == MAX_PENDING;
        }
        more
    }

    /// Advances handshakes, and adds the members whose handshakes are complete. Adds their tokens to `ready`.
    fn advance_handshakes(&mut self, ready: &mut Vec<usize>) {
        let members = Members {
            world: self.member.world,
            lanes: self.lanes,
            elastic: self.member.elastic,
            begun: self.assembly.begun(),
        };
        loop {
            let (connections, coordinator) = (&self.connections, self.coordinator.as_ref());
            let left = |rank| coordinator.is_some_and(|coordinator| coordinator.has_left(rank));
            let (coordinates, redirect, own) = (self.coordinates(), &self.redirect, self.member.rank);
            let joined = |rank| connections.contains_key(&rank);
            let survived = |rank, epoch| self.assembly.has_survivor(rank, epoch);
            let admit = |hello: &Hello| match coordinates {
                true => members.admit(&hello.role, joined, left, survived),
                false => members.redirect(&hello.role, own, redirect.is_some()),
            };
            let Some((token, handshake)) = self.pending.next_admitted(admit) else { return };
            let (rank, survived) = match handshake.role() {
                Some(Role::Successor { rank, addresses, .. }) => {
                    self.hand_over(CoordinatorPlace { rank: *rank, addresses: addresses.clone() });
                    continue;
                }
                Some(&Role::Member { rank, .. }) => (rank, None),
                Some(&Role::Survivor { rank, epoch, .. }) => (rank, Some(epoch)),
                _ => continue,
            };
            // A process that this thread has sent to the coordinator may have died without closing its connection.
            if !self.coordinates() {
                self.forget_connection(rank);
            }
            // Two processes may have been admitted as the same rank. The later one is disconnected, and tries again.
            if !self.connections.contains_key(&rank) {
                let mut connection = ControlConnection::new(handshake.socket);
                if let Some(place) = self.redirect.clone() {
                    connection.send(&FromCoordinator::Moved(place));
                } else if self.assembly.begun() {
                    connection.send(&FromCoordinator::Begun);
                }
                if let Some(epoch) = survived {
                    self.assembly.find(rank, epoch);
                    self.survivors.insert(rank);
                }
                self.heartbeats.join(rank as usize, self.started.elapsed());
                self.heartbeats.heard(rank as usize, self.started.elapsed());
                self.connections.insert(rank, connection);
                self.tokens.insert(token, rank);
                self.news = true;
                ready.push(token);
            }
        }
    }

    /// Reads and handles messages from the members whose connections had events, by their tokens.
    fn read_messages(&mut self, ready: &[usize]) {
        let ranks: BTreeSet<u32> = if self.read_all.elapsed() >= INTERVAL {
            self.read_all = Instant::now();
            self.connections.keys().copied().collect()
        } else {
            ready.iter().filter_map(|token| self.tokens.get(token).copied()).collect()
        };
        for rank in ranks {
            let Some(connection) = self.connections.get_mut(&rank) else { continue };
            let closed = connection.read();
            while let Some(connection) = self.connections.get_mut(&rank) {
                match connection.receive::<FromMember>() {
                    Ok(Some(message)) => self.handle(rank, message),
                    Ok(None) => break,
                    Err(what) => self.lose(rank, |coordinator| coordinator.received_invalid(rank, what)),
                }
            }
            if let Err(how) = closed {
                self.lose(rank, |coordinator| coordinator.closed(rank, &how));
            }
        }
    }

    fn handle(&mut self, rank: u32, message: FromMember) {
        // A process may have sent something before it learned that the coordinator is elsewhere.
        if !self.coordinates() {
            return;
        }
        let now = self.started.elapsed();
        self.news |= message != FromMember::Alive;
        let in_epoch = self.coordinator.as_ref().is_some_and(|coordinator| coordinator.has(rank));
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.receive(rank, message.clone(), now);
        }
        if !in_epoch {
            self.heartbeats.heard(rank as usize, now);
        }
        let fits = |listens: &ListenAddresses| listens.lanes.len() == self.lanes as usize;
        let survived = matches!(message, FromMember::RequestEpoch { .. }) && self.survivors.remove(&rank);
        match message {
            FromMember::ListenAddresses(listens) | FromMember::RequestEpoch { listens, .. }
                if !fits(&listens) =>
            {
                self.dismiss(rank, "has a different number of lanes than the others".to_owned());
            }
            FromMember::ListenAddresses(listens) if !in_epoch => self.assembly.add(rank, listens),
            FromMember::RequestEpoch { .. } if !self.member.elastic => {
                self.dismiss(rank, "asked for another epoch, but the job is not elastic".to_owned());
            }
            FromMember::RequestEpoch { listens, patience_ms } if in_epoch || survived => {
                match self.unreachable(rank, survived) {
                    Some(why) => self.dismiss(rank, why),
                    None => {
                        self.heartbeats.join(rank as usize, now);
                        self.heartbeats.heard(rank as usize, now);
                        self.assembly.ask(rank, listens, Duration::from_millis(patience_ms), now);
                    }
                }
            }
            FromMember::Leave if !in_epoch => self.lose(rank, |_| {}),
            // It does not hear this coordinator, and will look for another one. Then it must not count as ended.
            FromMember::CannotHearCoordinator { .. } => self.lose_sight(rank, in_epoch),
            FromMember::Trouble { peer, trouble } if peer == rank && trouble.kind == FaultKind::Silent => {
                self.lose_sight(rank, in_epoch);
            }
            _ => {}
        }
    }

    /// Returns why a rank cannot take part in the next epoch, if the network carries nothing between it and another one
    /// that stays: the rank in whose process the coordinator runs, else the lower of the two. `found_again` says that the
    /// rank has connected again since.
    fn unreachable(&self, rank: u32, found_again: bool) -> Option<String> {
        let verdict = self.coordinator.as_ref()?.verdict()?;
        let (silent, host) = (verdict.trouble.kind == FaultKind::Silent, self.member.rank);
        match verdict.blame {
            Blame::Link { lower, higher } if found_again && [lower, higher].contains(&host) => None,
            Blame::Rank(_) if found_again => None,
            Blame::Link { lower, higher } if silent => {
                let (stays, goes) = if higher == host { (higher, lower) } else { (lower, higher) };
                (goes == rank).then(|| format!("cannot be reached from rank {stays}"))
            }
            // The verdict was that none of the other ranks can reach it.
            Blame::Rank(blamed) if blamed == rank && rank != host && silent => {
                Some("cannot be reached from the other ranks".to_owned())
            }
            _ => None,
        }
    }

    /// Closes the connection of a rank. Returns whether there was one.
    fn forget_connection(&mut self, rank: u32) -> bool {
        self.tokens.retain(|_, of| *of != rank);
        self.connections.remove(&rank).is_some()
    }

    /// Removes a member whose connection has ended. `tell` tells the coordinator why.
    fn lose(&mut self, rank: u32, tell: impl FnOnce(&mut Coordinator)) {
        if self.forget_connection(rank) {
            self.news = true;
            let mut may_live = false;
            if let Some(coordinator) = &mut self.coordinator {
                tell(coordinator);
                may_live = coordinator.is_unreachable(rank);
            }
            match may_live {
                true => self.assembly.lose_sight(rank),
                false => self.assembly.forget(rank),
            }
            self.survivors.remove(&rank);
            self.heartbeats.leave(rank as usize);
        }
    }

    /// Notes that a member does not hear this coordinator. If it is `in_epoch`, the coordinator of the epoch decides who is at
    /// fault.
    fn lose_sight(&mut self, rank: u32, in_epoch: bool) {
        if !in_epoch {
            self.lose(rank, |_| {});
        }
        self.assembly.lose_sight(rank);
    }

    /// Excludes a member from the job, and tells it why.
    fn dismiss(&mut self, rank: u32, why: String) {
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.send(&FromCoordinator::Dismissed { why });
            _ = connection.write();
            self.lose(rank, |coordinator| coordinator.closed(rank, "end of file"));
        }
    }

    /// Begins the next epoch if it can begin, and tells members which ranks are missing. Sends heartbeats to waiting
    /// members.
    fn advance_epoch(&mut self) {
        let now = self.started.elapsed();
        for rank in self.heartbeats.silent(now).into_iter().map(|(rank, _)| rank as u32) {
            self.lose(rank, |_| {});
            self.assembly.lose_sight(rank);
        }
        for rank in self.heartbeats.due(now) {
            if let Some(connection) = self.connections.get_mut(&(rank as u32)) {
                connection.send(&FromCoordinator::Alive);
            }
        }
        let here: Vec<u32> = self.connections.keys().copied().collect();
        match self.assembly.step(&here, now) {
            Some(Decision::Begin { epoch, members }) => {
                let ranks: Vec<u32> = members.iter().map(|member| member.rank).collect();
                ranks.iter().for_each(|&rank| self.heartbeats.leave(rank as usize));
                self.coordinator = Some(Coordinator::new(&ranks, self.member.rank, self.patience, now));
                self.announced_waiting.clear();
                self.send_to(&ranks, &FromCoordinator::BeginEpoch { epoch, members });
            }
            Some(Decision::Awaited(ranks)) => self.send_to(&here, &FromCoordinator::Missing { ranks }),
            Some(Decision::Missing(missing)) => {
                let others = missing[1..].iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                let seconds = self.member.wait.as_secs_f64();
                let others = if others.is_empty() { others } else { format!(" (also missing: {others})") };
                let what = format!("did not join within {seconds:.0} s{others}");
                let trouble = Trouble { kind: FaultKind::Silent, what };
                self.send_to(&here, &FromCoordinator::Verdict { blame: Blame::Rank(missing[0]), trouble });
            }
            Some(Decision::Slow(slow)) => {
                let seconds = self.member.wait.as_secs_f64();
                let why =
                    format!("did not ask for the next epoch within {seconds:.0} s after other ranks did");
                slow.into_iter().for_each(|rank| self.dismiss(rank, why.clone()));
            }
            Some(Decision::Outnumbered(silent)) => {
                let (silent, verb) = (rank_list(&silent), if silent.len() == 1 { "is" } else { "are" });
                let why = format!(
                    "cannot go on: {silent} {verb} silent, and may be going on without the ranks that are here"
                );
                here.iter().for_each(|&rank| self.dismiss(rank, why.clone()));
            }
            None => {}
        }
        let waiting = self.assembly.waiting();
        let due = self.announced.elapsed() >= INTERVAL;
        if self.assembly.begun() && due && waiting != self.announced_waiting {
            self.announced = Instant::now();
            let not_waiting = |rank: &u32| !waiting.contains(rank);
            let members: Vec<u32> = here.into_iter().filter(not_waiting).collect();
            self.send_to(&members, &FromCoordinator::Waiting { ranks: waiting.clone() });
            self.announced_waiting = waiting;
        }
    }

    fn send_to(&mut self, ranks: &[u32], message: &FromCoordinator) {
        let message = encode(message);
        for rank in ranks {
            if let Some(connection) = self.connections.get_mut(rank) {
                connection.send_encoded(&message);
                // A long message to many members does not wait in memory for all of them. The next write finds an error.
                _ = connection.write();
            }
        }
    }

    /// Sends the coordinator's messages. If `ticks`, advances its timers first.
    fn send_messages(&mut self, ticks: bool) {
        let now = self.started.elapsed();
        // A coordinator that leaves makes no more decisions.
        let decides = !self.closing.load(Ordering::Relaxed);
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| decides) {
            if ticks {
                let known = self.connections.iter();
                let known = known.map(|(&rank, connection)| (rank as usize, connection.socket.tcp_info()));
                coordinator.set_lossy(self.losses.look(&coordinator.quiet(now), known, now));
                coordinator.tick(now);
            }
            for (rank, message) in coordinator.take_messages() {
                if let Some(connection) = self.connections.get_mut(&rank) {
                    connection.send(&message);
                }
            }
        }
        let ranks: Vec<u32> = self.connections.keys().copied().collect();
        for rank in ranks {
            let Some(connection) = self.connections.get_mut(&rank) else { continue };
            if connection.is_flushed() {
                continue;
            }
            if let Err(how) = connection.write() {
                self.lose(rank, |coordinator| coordinator.closed(rank, &how));
            }
        }
        // The verdict was sent to lost members, in case they can still hear. Other processes may now take their ranks.
        for LostMember { rank, may_live } in
            self.coordinator.as_mut().map_or(Vec::new(), Coordinator::take_lost)
        {
            self.lose(rank, |_| {});
            if may_live {
                self.assembly.lose_sight(rank);
            }
        }
    }
}
