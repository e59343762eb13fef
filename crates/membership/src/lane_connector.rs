//! Connects the lanes of members: all of them before an epoch begins ([`connect`]), or each when it is first needed
//! ([`connector_thread`](crate::connector_thread)).

use crate::admission::Lanes;
use crate::dialing::{Dials, PeerLane};
use crate::hooks::Wanted;
use crate::join_error::JoinError;
use crate::listeners::Listeners;
use crate::member_connection::MemberConnection;
use crate::member_settings::MemberSettings;
use crate::message::ListenAddresses;
use crate::roster::Roster;
use mio::net::TcpStream;
use mio::{Events, Interest, Registry, Token};
use socket2::{Domain, Protocol, SockRef, Type};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{FaultKind, Trouble};
use syncline_protocol::handshake::{Hello, Role};
use syncline_transport::Connection;
use syncline_transport::congestion;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::plain_socket::PlainSocket;
use syncline_transport::same_host;
use syncline_transport::same_host::Agreement;
use syncline_transport::socket::{Socket, Stream};
use syncline_transport::source_address;

/// Sets the options that all TCP connections between members have.
fn set_options(stream: &TcpStream, member: &MemberSettings) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    if let Some(name) = &member.congestion {
        congestion::choose(&SockRef::from(stream), name)?;
    }
    Ok(())
}

/// The error of a non-blocking `connect` that has begun.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// Connects from a given address of this host.
fn dial_from(own: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    source_address::bind(&socket, own)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// The token of all listeners. The token of a pending connection is its number.
const LISTENERS: Token = Token(usize::MAX);

/// The token of the caller's waker.
pub(crate) const WAKER: Token = Token(usize::MAX - 1);

/// How long a member that has proved itself waits for the other side's answer. The other side gives up much sooner, unless
/// it has accepted the connection; then it sends heartbeats. So what it sends is lost, and it may be waited for in vain.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whether an error says that this process, or this machine, can open no more sockets.
fn is_shortage(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| short.contains(&number))
}

/// How long members of a later epoch try to connect before they go on without a rank that cannot be reached.
const LATER_EPOCH_WAIT: Duration = Duration::from_secs(10);

/// Connects this member's lanes with all members of the epoch: each member connects to all members of lower rank, and
/// accepts connections from the others. Returns the connections by lane and seat.
pub fn connect(
    member: &MemberSettings,
    roster: &Arc<Roster>,
    listeners: Listeners,
    coordinator: &mut MemberConnection,
    wanted: &mut Wanted<'_>,
) -> Result<Vec<Vec<Option<Connection>>>, JoinError> {
    let lanes = listeners.lanes.len() as u32;
    let world = roster.members.len();
    let mut connections: Vec<Vec<Option<Connection>>> =
        (0..lanes).map(|_| (0..world).map(|_| None).collect()).collect();
    let wait = if roster.epoch == 0 { member.wait } else { member.wait.min(LATER_EPOCH_WAIT) };
    let mut connector = LaneConnector::new(member, roster, listeners, wait)?;
    for rank in roster.ranks().filter(|&rank| rank < member.rank) {
        (0..lanes).for_each(|lane| connector.want(PeerLane { rank, lane }, Duration::ZERO));
    }
    connector.connect();
    let began = Instant::now();
    let mut deadline = began + wait;
    let mut missing = (world - 1) * lanes as usize;
    let mut events = Events::with_capacity(256);
    while missing > 0 {
        if Instant::now() > deadline {
            let unconnected = (roster.ranks().zip(0..)).find(|&(rank, seat): &(u32, usize)| {
                rank != member.rank && connections.iter().any(|lane| lane[seat].is_none())
            });
            let (rank, seconds) = (unconnected.map_or(0, |(rank, _)| rank), began.elapsed().as_secs_f64());
            let why = connector.troubles.get(&rank).map_or(String::new(), |why| format!(": {why}"));
            // In a later epoch, report the rank. The coordinator then decides, and the others go on without one of
            // the two.
            if roster.epoch > 0 && !coordinator.has_reported() {
                coordinator.report(rank, unconnected_trouble(&why));
                deadline = Instant::now() + member.wait;
                continue;
            }
            return Err(JoinError::new(format!(
                "rank {rank} could not be connected with rank {} within {seconds:.0} s{why}",
                member.rank
            )));
        }
        let most = Some(Duration::from_millis(50));
        let connected = connector.advance_until(&mut events, most).map_err(|error| {
            JoinError::about_rank(member.rank, &format!("cannot wait for connections: {error}"))
        })?;
        wanted()?;
        coordinator.exchange(member)?;
        for (PeerLane { rank, lane }, connection) in connected {
            let Some(seat) = roster.seat(rank) else { continue };
            let slot = &mut connections[lane as usize][seat];
            missing -= usize::from(slot.is_none());
            *slot = Some(connection);
        }
    }
    Ok(connections)
}

/// The trouble with a rank that could not be connected. `why` is empty, or `: ` and the reason.
pub(crate) fn unconnected_trouble(why: &str) -> Trouble {
    Trouble { kind: FaultKind::Silent, what: format!("could not be connected{why}") }
}

/// A connection that is being made.
struct Pending {
    stage: Stage,
    /// The lane to which this member connects; `None` if the other side connected.
    target: Option<PeerLane>,
    /// Whether this member has accepted the other side.
    accepted: bool,
}

/// How far a pending connection is.
enum Stage {
    /// Both sides authenticate each other.
    Handshaking(Box<Handshaking>),
    /// Both sides are authenticated, and agree on shared memory.
    Agreement(LaneAgreement),
}

/// An agreement on shared memory for a lane.
struct LaneAgreement {
    peer: PeerLane,
    agreement: Agreement,
    began: Instant,
}

/// Connects this member's lanes.
pub(crate) struct LaneConnector {
    member: MemberSettings,
    roster: Arc<Roster>,
    listeners: Listeners,
    poll: Watcher,
    /// Connections that are being made, by token.
    pending: BTreeMap<usize, Pending>,
    /// The tokens of those that this member makes.
    own: BTreeMap<PeerLane, usize>,
    next_token: usize,
    started: Instant,
    /// When all pending connections were advanced last.
    advanced_all: Instant,
    dials: Dials,
    /// The latest error with each member.
    troubles: BTreeMap<u32, String>,
    /// Why memory is not shared with a member on this machine.
    unshared: BTreeMap<u32, String>,
    /// The bytes of each direction of shared memory.
    capacity: usize,
    /// Since when this process can open no more sockets, and why.
    shortage: Option<(Duration, String)>,
    patience: Duration,
    /// How long this side waits for an answer to its proof.
    longest_wait: Duration,
    /// Watches complete connections until their lanes do.
    transit: Option<Arc<Watcher>>,
}

impl LaneConnector {
    /// Creates a connector that makes no connections yet. `patience` is how long the hosts of others may take to
    /// answer.
    pub(crate) fn new(
        member: &MemberSettings,
        roster: &Arc<Roster>,
        mut listeners: Listeners,
        patience: Duration,
    ) -> Result<Self, JoinError> {
        let fault = |error: std::io::Error| {
            JoinError::about_rank(member.rank, &format!("cannot wait for connections: {error}"))
        };
        let poll = Watcher::new().map_err(fault)?;
        for listener in &mut listeners.lanes {
            poll.registry().register(listener, LISTENERS, Interest::READABLE).map_err(fault)?;
        }
        if let Some(unix_socket) = &mut listeners.unix_socket {
            poll.registry().register(unix_socket, LISTENERS, Interest::READABLE).map_err(fault)?;
        }
        let neighbours = roster.neighbours(member.rank).map_or(1, |(neighbours, _)| neighbours);
        let capacity = same_host::capacity(neighbours * listeners.lanes.len());
        Ok(Self {
            member: member.clone(),
            roster: Arc::clone(roster),
            listeners,
            poll,
            pending: BTreeMap::new(),
            own: BTreeMap::new(),
            next_token: 0,
            started: Instant::now(),
            advanced_all: Instant::now(),
            dials: Dials::new(member.rank, patience),
            troubles: BTreeMap::new(),
            unshared: BTreeMap::new(),
            capacity,
            shortage: None,
            patience,
            longest_wait: LONGEST_WAIT,
            transit: None,
        })
    }

    /// Registers complete connections with this watcher.
    pub(crate) fn with_transit(self, transit: Arc<Watcher>) -> Self {
        Self { transit: Some(transit), ..self }
    }

    /// The registry of the poll on which [`LaneConnector::advance_until`] waits. The caller may register a waker under
    /// [`WAKER`].
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// The lane of the member in this seat; `None` if there is no such member.
    pub(crate) fn peer(&self, seat: u32, lane: u32) -> Option<PeerLane> {
        Some(PeerLane { rank: self.roster.members.get(seat as usize)?.rank, lane })
    }

    /// The seat of a member.
    pub(crate) fn seat(&self, rank: u32) -> Option<u32> {
        self.roster.seat(rank).map(|seat| seat as u32)
    }

    /// Asks for a connection, which this member makes after `delay` unless the other side has connected before.
    pub(crate) fn want(&mut self, peer: PeerLane, delay: Duration) {
        self.dials.want(peer, self.started.elapsed() + delay);
    }

    /// The lanes that are needed and could not be reached for too long, each once, and why.
    pub(crate) fn overdue(&mut self) -> Vec<(PeerLane, Trouble)> {
        if self.shortage.is_some() {
            return Vec::new();
        }
        let overdue = self.dials.overdue(self.started.elapsed()).into_iter();
        overdue
            .map(|(peer, why)| {
                (peer, unconnected_trouble(&why.map_or(String::new(), |why| format!(": {why}"))))
            })
            .collect()
    }

    /// How long [`LaneConnector::advance_until`] may wait; `None` without a limit.
    pub(crate) fn patience(&self) -> Option<Duration> {
        if self.shortage.is_some() {
            return Some(SHORTAGE_PAUSE);
        }
        let due = self.dials.next_due().map(|due| due.saturating_sub(self.started.elapsed()));
        let all = (!self.pending.is_empty()).then_some(ADVANCE_ALL);
        due.into_iter().chain(all).min()
    }

    /// Waits for events, for at most `most`, and advances the connections. Returns those that are complete.
    ///
    /// # Errors
    /// The system cannot wait.
    pub(crate) fn advance_until(
        &mut self,
        events: &mut Events,
        most: Option<Duration>,
    ) -> std::io::Result<Vec<(PeerLane, Connection)>> {
        match self.poll.poll(events, most) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => events.clear(),
            Ok(()) => {}
        }
        // The listeners report connections once. What could not be accepted then may be accepted now.
        let again = self.shortage.is_some() || self.advanced_all.elapsed() > ADVANCE_ALL;
        if again || events.iter().any(|event| event.token() == LISTENERS) {
            self.accept();
        }
        let ready: Vec<usize> = events.iter().map(|event| event.token().0).collect();
        let made = self.advance(ready);
        self.connect();
        Ok(made)
    }

    fn add(&mut self, mut handshake: Handshaking, target: Option<PeerLane>) {
        let token = self.next_token;
        self.next_token += 1;
        match handshake.socket.watch(self.poll.registry(), Token(token)) {
            Ok(()) => {
                let stage = Stage::Handshaking(Box::new(handshake));
                self.pending.insert(token, Pending { stage, target, accepted: false });
                target.into_iter().for_each(|target| _ = self.own.insert(target, token));
            }
            Err(error) => target.into_iter().for_each(|target| self.retry(target, error.to_string())),
        }
    }

    /// The name of the Unix socket of a lane's member, if memory may be shared with it.
    fn unix_socket(&self, PeerLane { rank, lane }: PeerLane) -> Option<&str> {
        let (ours, theirs) = (self.roster.listens(self.member.rank)?, self.roster.listens(rank)?);
        let address = |listens: &ListenAddresses| listens.lanes[lane as usize].ip();
        let near = self.member.shared_memory && same_host::same_machine(address(ours), address(theirs));
        theirs.unix_socket.as_deref().filter(|_| near && !self.unshared.contains_key(&rank))
    }

    /// Begins the connections that are due.
    fn connect(&mut self) {
        for target in self.dials.due(self.started.elapsed()) {
            match self.begin(target) {
                Ok(handshake) => self.add(handshake, Some(target)),
                Err(why) => self.retry(target, why),
            }
        }
    }

    /// Begins a connection to a lane: over a Unix socket if memory may be shared with its member, else over TCP.
    fn begin(&mut self, target: PeerLane) -> Result<Handshaking, String> {
        let PeerLane { rank, lane } = target;
        let mut unix = None;
        if let Some(name) = self.unix_socket(target).map(str::to_owned) {
            match same_host::connect(&name) {
                Ok(socket) => match same_host::check_same_user(&socket) {
                    Ok(()) => unix = Some(Socket::from(socket)),
                    Err(why) => self.do_not_share(rank, &why),
                },
                // Too many others connect to this member at this moment.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error.to_string()),
                Err(error) if is_shortage(&error) => return Err(self.lacks_sockets(&error)),
                Err(error) => self.do_not_share(rank, &error.to_string()),
            }
        }
        let listens = self.roster.listens(rank).ok_or("does not take part")?.lanes[lane as usize];
        let socket = match unix {
            Some(socket) => socket,
            None => match self.dial(target, listens) {
                Ok(stream) => Socket::from(stream),
                Err(error) if is_shortage(&error) => return Err(self.lacks_sockets(&error)),
                Err(error) => return Err(error.to_string()),
            },
        };
        self.end_shortage();
        let role = Role::Lane { from: self.member.rank, to: rank, lane, epoch: self.roster.epoch };
        Handshaking::begin(socket, self.member.trust.clone(), &self.member.job, role)
    }

    /// Notes that this process can open no more sockets. Returns why.
    fn lacks_sockets(&mut self, error: &std::io::Error) -> String {
        let now = self.started.elapsed();
        self.shortage.get_or_insert_with(|| (now, error.to_string())).1.clone()
    }

    /// Notes that this process can open sockets.
    fn end_shortage(&mut self) {
        if self.shortage.take().is_some() {
            self.dials.excuse_all(self.started.elapsed());
        }
    }

    /// The trouble with this member, if it has been unable to open sockets for too long.
    pub(crate) fn exhausted(&self) -> Option<Trouble> {
        let (since, why) = self.shortage.as_ref()?;
        let what = format!(
            "can open no more connections ({why}): raise the limit of open files (`ulimit -n`), open fewer, or free memory"
        );
        (self.started.elapsed() > *since + self.patience).then_some(Trouble { kind: FaultKind::Closed, what })
    }

    /// Connects from the lane's interface, or from any if the host does not answer: every second time.
    fn dial(&self, target: PeerLane, to: SocketAddr) -> std::io::Result<TcpStream> {
        let interfaces = &self.member.interfaces;
        let own = interfaces[target.lane as usize % interfaces.len()].listen;
        let fits = own.is_ipv4() == to.is_ipv4() && own.is_loopback() == to.ip().is_loopback();
        match own.is_unspecified() || !fits || self.dials.unanswered(target) % 2 == 1 {
            true => TcpStream::connect(to),
            false => dial_from(own, to),
        }
    }

    /// Shares no memory with a member from now on.
    fn do_not_share(&mut self, rank: u32, why: &str) {
        self.unshared
            .entry(rank)
            .or_insert_with(|| format!("memory cannot be shared with rank {rank}: {why}"));
    }

    /// Schedules another try to connect to a lane.
    fn retry(&mut self, target: PeerLane, why: String) {
        self.own.remove(&target);
        self.troubles.insert(target.rank, why.clone());
        self.dials.failed(target, why, self.started.elapsed());
    }

    /// Accepts connections. At the limit, drops those that have been silent longest.
    fn accept(&mut self) {
        let most = handshaking::MAX_PENDING + self.roster.members.len() * self.listeners.lanes.len();
        let (mut sockets, mut short) = (Vec::new(), None);
        for listener in &self.listeners.lanes {
            let each = |(stream, _)| sockets.push(Socket::from(stream));
            short = accept_waiting(most, || listener.accept(), each).or(short);
        }
        if let Some(listener) = &self.listeners.unix_socket {
            let each = |(stream, _)| {
                if same_host::check_same_user(&stream).is_ok() {
                    sockets.push(Socket::from(stream));
                }
            };
            short = accept_waiting(most, || listener.accept(), each).or(short);
        }
        match short {
            Some(error) => _ = self.lacks_sockets(&error),
            None => self.end_shortage(),
        }
        // Connections that this member makes itself are never dropped.
        let heard = |stage: &Stage| match stage {
            Stage::Handshaking(handshake) => handshake.heard,
            Stage::Agreement(agreement) => agreement.began,
        };
        let incoming =
            self.pending.iter().filter(|(_, pending)| pending.target.is_none() && !pending.accepted);
        let mut incoming: Vec<(Instant, usize)> =
            incoming.map(|(&token, pending)| (heard(&pending.stage), token)).collect();
        incoming.sort_unstable();
        for (_, token) in incoming.iter().take((incoming.len() + sockets.len()).saturating_sub(most)) {
            self.pending.remove(token);
        }
        for socket in sockets {
            if let Ok(handshake) =
                Handshaking::accept(socket, self.member.trust.clone(), Some(&self.member.job))
            {
                self.add(handshake, None);
            }
        }
    }

    /// Advances the pending connections with these tokens, which had events. Every 500 ms advances all of them,
    /// because some may have timed out. Returns the connections that are complete.
    fn advance(&mut self, mut ready: Vec<usize>) -> Vec<(PeerLane, Connection)> {
        let mut made = Vec::new();
        if self.advanced_all.elapsed() > ADVANCE_ALL {
            self.advanced_all = Instant::now();
            ready = self.pending.keys().copied().collect();
        }
        for token in ready {
            let Some(Pending { stage, target, accepted }) = self.pending.remove(&token) else { continue };
            match stage {
                Stage::Handshaking(handshake) => {
                    self.advance_handshake(token, handshake, (target, accepted), &mut made);
                }
                Stage::Agreement(agreement) => self.advance_agreement(token, agreement, target, &mut made),
            }
        }
        made
    }

    fn advance_handshake(
        &mut self,
        token: usize,
        mut handshake: Box<Handshaking>,
        (target, accepted): (Option<PeerLane>, bool),
        made: &mut Vec<(PeerLane, Connection)>,
    ) {
        let (rank, lanes) = (self.member.rank, self.listeners.lanes.len() as u32);
        let rules = Lanes { rank, lanes, epoch: self.roster.epoch };
        let (roster, dials, accepted) = (&self.roster, &self.dials, Cell::new(accepted));
        let admit = |hello: &Hello| {
            let may_accept = |rank, lane| dials.may_accept(PeerLane { rank, lane });
            rules.admit(&hello.role, |from| roster.seat(from).is_some(), may_accept)?;
            accepted.set(true);
            Ok(())
        };
        let done = handshake.advance(admit);
        let accepted = accepted.get();
        let limit = if handshake.is_binding() { self.longest_wait } else { handshaking::TIMEOUT };
        let late = handshake.began.elapsed() > limit;
        let peer = match handshake.role() {
            Some(&Role::Lane { from, lane, .. }) => Some(PeerLane { rank: from, lane }),
            _ => target,
        };
        if let (None, Some(peer), true) = (target, peer, accepted) {
            self.accepted(peer);
        }
        let answered = handshake.socket.is_unix() || handshake.socket.peer().is_some();
        if let Some(target) = target.filter(|_| answered) {
            self.dials.answered(target);
        }
        let outcome = match done {
            Ok(true) => Ok(()),
            Ok(false) if late => {
                let (seconds, now) = (limit.as_secs_f64(), self.started.elapsed());
                target.into_iter().for_each(|target| self.dials.slow(target, now));
                Err(format!("did not finish its handshake within {seconds} s"))
            }
            Ok(false) => {
                let stage = Stage::Handshaking(handshake);
                self.pending.insert(token, Pending { stage, target, accepted });
                return;
            }
            Err(shut) => {
                // A process that has too much to do gives handshakes up. It can be reached, and may have time later.
                if let Some(target) = target.filter(|_| !shut.permanent) {
                    self.dials.slow(target, self.started.elapsed());
                }
                Err(shut.why)
            }
        };
        let unix = handshake.socket.is_unix();
        // A member that has answered can share memory, although it refuses this connection or is slow.
        let deaf = unix && handshake.heard == handshake.began && !late;
        let (peer, socket) = match (outcome, peer) {
            (Ok(()), Some(peer)) => (peer, handshake.socket),
            (Err(why), _) => return self.failed(target, peer.filter(|_| accepted), deaf, why),
            (Ok(()), None) => return,
        };
        // A Unix socket or shared memory needs no TLS after the handshake: both sides are authenticated, and the
        // bytes stay on this host.
        let socket = match if unix { socket.without_tls() } else { Ok(socket) } {
            Ok(socket) => socket,
            Err(why) => return self.failed(target, Some(peer), unix, why),
        };
        match socket {
            Socket::Plain(PlainSocket::Unix(socket)) => {
                let agreement = match target {
                    Some(_) => Agreement::offer(socket, self.capacity).map_err(|error| error.to_string()),
                    None => Ok(Agreement::answer(socket)),
                };
                match agreement {
                    Ok(agreement) => {
                        let agreement = LaneAgreement { peer, agreement, began: Instant::now() };
                        self.advance_agreement(token, agreement, target, made);
                    }
                    Err(why) => self.failed(target, Some(peer), true, why),
                }
            }
            mut socket => {
                // The lane's thread registers the connection with its own poll.
                _ = socket.unwatch(self.poll.registry());
                match socket.tcp().map_or(Ok(()), |stream| set_options(stream, &self.member)) {
                    Ok(()) => {
                        let ours = self.unshared.get(&peer.rank).cloned();
                        let theirs = || format!("rank {} could not share memory", peer.rank);
                        let why = ours.or_else(|| self.unix_socket(peer).map(|_| theirs()));
                        let stream = Stream::new(socket).because(why);
                        self.connected(peer, Box::new(stream), made);
                    }
                    Err(why) => self.failed(target, Some(peer), false, why),
                }
            }
        }
    }

    fn advance_agreement(
        &mut self,
        token: usize,
        mut pending: LaneAgreement,
        target: Option<PeerLane>,
        made: &mut Vec<(PeerLane, Connection)>,
    ) {
        match pending.agreement.advance() {
            Ok(true) => {
                _ = self.poll.registry().deregister(pending.agreement.socket());
                self.connected(pending.peer, pending.agreement.connection(), made);
            }
            // There is no timeout: both sides are members of this job, and after one has agreed, a timeout on the
            // other would leave them with different transports.
            Ok(false) => {
                let (stage, accepted) = (Stage::Agreement(pending), target.is_none());
                self.pending.insert(token, Pending { stage, target, accepted });
            }
            Err(error) => self.failed(target, Some(pending.peer), true, error.to_string()),
        }
    }

    /// Notes that this member has accepted a lane, and gives up its own try to connect to it.
    fn accepted(&mut self, peer: PeerLane) {
        self.dials.accept(peer);
        if let Some(token) = self.own.remove(&peer) {
            self.pending.remove(&token);
        }
    }

    /// Adds a complete connection to `made`.
    fn connected(
        &mut self,
        peer: PeerLane,
        mut connection: Connection,
        made: &mut Vec<(PeerLane, Connection)>,
    ) {
        if let Some(transit) = &self.transit {
            // If this fails, only a forked child might miss the connection.
            _ = connection.watch(transit.registry(), Token(0));
        }
        self.own.remove(&peer);
        self.dials.connected(peer);
        made.push((peer, connection));
    }

    /// Handles a failed connection: tries again if this member made it, over TCP if memory `cannot_share`. Without a
    /// target, `peer` is the lane that this member has accepted.
    fn failed(&mut self, target: Option<PeerLane>, peer: Option<PeerLane>, cannot_share: bool, why: String) {
        match (target, peer) {
            (Some(target), _) => {
                if cannot_share {
                    self.do_not_share(target.rank, &why);
                }
                self.retry(target, why);
            }
            (None, Some(peer)) => {
                self.troubles.insert(peer.rank, why.clone());
                self.dials.accepting_failed(peer, why, self.started.elapsed());
            }
            (None, None) => {}
        }
    }
}

/// All pending connections are advanced this often.
const ADVANCE_ALL: Duration = Duration::from_millis(500);

/// How long to wait before another try to open a socket, if there can be no more.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Accepts waiting connections, up to a limit. Returns the error if the process can open no more sockets.
fn accept_waiting<S>(
    most: usize,
    mut accept: impl FnMut() -> std::io::Result<S>,
    mut each: impl FnMut(S),
) -> Option<std::io::Error> {
    for _ in 0..most {
        match accept() {
            Ok(socket) => each(socket),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) if is_shortage(&error) => return Some(error),
            // This connection has ended already, and others may follow.
            Err(_) => {}
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests;
