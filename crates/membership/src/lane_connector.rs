//! Connects the lanes of members. Each member connects to all members of lower rank, and accepts connections from the
//! others.

use crate::admission::Lanes;
use crate::hooks::Wanted;
use crate::join_error::JoinError;
use crate::listeners::Listeners;
use crate::member_connection::MemberConnection;
use crate::member_settings::MemberSettings;
use crate::message::ListenAddresses;
use crate::roster::Roster;
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use socket2::{Domain, Protocol, SockRef, Type};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
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
    socket.bind(&SocketAddr::new(own, 0).into())?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// The token of all listeners. The token of a pending connection is its number.
const LISTENERS: Token = Token(usize::MAX);

/// A lane of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PeerLane {
    rank: u32,
    lane: u32,
}

/// How long members of a later epoch try to connect before they go on without a rank that cannot be reached.
const LATER_EPOCH_WAIT: Duration = Duration::from_secs(10);

/// Connects this member's lanes with all members of the epoch. Returns the connections by lane and seat.
pub fn connect(
    member: &MemberSettings,
    roster: &Roster,
    listeners: Listeners,
    coordinator: &mut MemberConnection,
    wanted: &mut Wanted<'_>,
) -> Result<Vec<Vec<Option<Connection>>>, JoinError> {
    let lanes = listeners.lanes.len() as u32;
    let world = roster.members.len();
    let mut connections: Vec<Vec<Option<Connection>>> =
        (0..lanes).map(|_| (0..world).map(|_| None).collect()).collect();
    let mut connector = LaneConnector::new(member, roster, listeners)?;
    let wait = if roster.epoch == 0 { member.wait } else { member.wait.min(LATER_EPOCH_WAIT) };
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
                let what = format!("could not be connected{why}");
                coordinator.report(rank, Trouble { kind: FaultKind::Silent, what });
                deadline = Instant::now() + member.wait;
                continue;
            }
            return Err(JoinError::new(format!(
                "rank {rank} could not be connected with rank {} within {seconds:.0} s{why}",
                member.rank
            )));
        }
        connector
            .poll
            .poll(&mut events, Some(Duration::from_millis(50)))
            .or_else(
                |error| if error.kind() == std::io::ErrorKind::Interrupted { Ok(()) } else { Err(error) },
            )
            .map_err(|error| {
                JoinError::about_rank(member.rank, &format!("cannot wait for connections: {error}"))
            })?;
        wanted()?;
        coordinator.exchange(member)?;
        connector.accept();
        let ready: Vec<usize> = events.iter().map(|event| event.token().0).collect();
        for (PeerLane { rank, lane }, connection) in connector.advance(ready) {
            let Some(seat) = roster.seat(rank) else { continue };
            let slot = &mut connections[lane as usize][seat];
            missing -= usize::from(slot.is_none());
            *slot = Some(connection);
        }
        connector.connect();
    }
    Ok(connections)
}

/// A connection that is being made.
struct Pending {
    stage: Stage,
    /// The lane to which this member connects; `None` if the other side connected.
    target: Option<PeerLane>,
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
struct LaneConnector<'a> {
    member: &'a MemberSettings,
    roster: &'a Roster,
    listeners: Listeners,
    poll: Watcher,
    /// Connections that are being made, by token.
    pending: BTreeMap<usize, Pending>,
    next_token: usize,
    /// When all pending connections were advanced last.
    advanced_all: Instant,
    /// Lanes to which this member has to connect, and when to try.
    to_connect: Vec<(PeerLane, Instant)>,
    /// Lanes of other members that have connected to this one.
    accepted: Vec<PeerLane>,
    /// The number of failed tries to connect to each lane.
    tries: BTreeMap<PeerLane, u32>,
    /// The latest error with each member.
    troubles: BTreeMap<u32, String>,
    /// Why memory is not shared with a member on this machine.
    unshared: BTreeMap<u32, String>,
}

impl<'a> LaneConnector<'a> {
    fn new(
        member: &'a MemberSettings,
        roster: &'a Roster,
        mut listeners: Listeners,
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
        let lanes = listeners.lanes.len() as u32;
        let to_connect = (roster.ranks().filter(|&rank| rank < member.rank))
            .flat_map(|rank| (0..lanes).map(move |lane| (PeerLane { rank, lane }, Instant::now())))
            .collect();
        let mut connector = Self {
            member,
            roster,
            listeners,
            poll,
            pending: BTreeMap::new(),
            next_token: 0,
            advanced_all: Instant::now(),
            to_connect,
            accepted: Vec::new(),
            tries: BTreeMap::new(),
            troubles: BTreeMap::new(),
            unshared: BTreeMap::new(),
        };
        connector.connect();
        Ok(connector)
    }

    fn add(&mut self, mut handshake: Handshaking, target: Option<PeerLane>) {
        let token = self.next_token;
        self.next_token += 1;
        if handshake.socket.watch(self.poll.registry(), Token(token)).is_ok() {
            let stage = Stage::Handshaking(Box::new(handshake));
            self.pending.insert(token, Pending { stage, target });
        }
    }

    /// The name of the Unix socket of a lane's member, if memory may be shared with it.
    fn unix_socket(&self, PeerLane { rank, lane }: PeerLane) -> Option<&'a str> {
        let (ours, theirs) = (self.roster.listens(self.member.rank)?, self.roster.listens(rank)?);
        let address = |listens: &ListenAddresses| listens.lanes[lane as usize].ip();
        let near = self.member.shared_memory && same_host::same_machine(address(ours), address(theirs));
        theirs.unix_socket.as_deref().filter(|_| near && !self.unshared.contains_key(&rank))
    }

    /// Begins the connections that are due.
    fn connect(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.to_connect.drain(..).partition(|(_, when)| *when <= now);
        self.to_connect = later;
        for (target, _) in due {
            let PeerLane { rank, lane } = target;
            let role = Role::Lane { from: self.member.rank, to: rank, lane, epoch: self.roster.epoch };
            let unix = self.unix_socket(target).and_then(|name| {
                let socket = same_host::connect(name).map_err(|error| error.to_string());
                match socket.and_then(|socket| same_host::check_same_user(&socket).map(|()| socket)) {
                    Ok(socket) => Some(Socket::from(socket)),
                    Err(why) => {
                        self.do_not_share(rank, &why);
                        None
                    }
                }
            });
            let Some(listens) = self.roster.listens(rank) else { continue };
            let socket =
                unix.map_or_else(|| self.dial(target, listens.lanes[lane as usize]).map(Socket::from), Ok);
            let handshake = socket.map_err(|error| error.to_string()).and_then(|socket| {
                Handshaking::begin(socket, self.member.trust.clone(), &self.member.job, role)
            });
            match handshake {
                Ok(handshake) => self.add(handshake, Some(target)),
                Err(why) => self.retry(target, why),
            }
        }
    }

    /// Connects from the lane's interface. Every second try connects from any interface.
    fn dial(&self, target: PeerLane, to: SocketAddr) -> std::io::Result<TcpStream> {
        let interfaces = &self.member.interfaces;
        let own = interfaces[target.lane as usize % interfaces.len()].listen;
        let fits = own.is_ipv4() == to.is_ipv4() && own.is_loopback() == to.ip().is_loopback();
        let tries = self.tries.get(&target).copied().unwrap_or(0);
        match own.is_unspecified() || !fits || tries % 2 == 1 {
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
        const DELAY: Duration = Duration::from_millis(100);
        self.troubles.insert(target.rank, why);
        *self.tries.entry(target).or_default() += 1;
        self.to_connect.push((target, Instant::now() + DELAY));
    }

    /// Accepts connections. At the limit, drops those that have been silent longest.
    fn accept(&mut self) {
        let tcp = (self.listeners.lanes.iter())
            .flat_map(|listener| std::iter::from_fn(|| listener.accept().ok()))
            .take(handshaking::MAX_PENDING)
            .map(|(stream, _)| Socket::from(stream));
        let unix = (self.listeners.unix_socket.iter())
            .flat_map(|unix_socket| std::iter::from_fn(|| unix_socket.accept().ok()))
            .take(handshaking::MAX_PENDING)
            .filter(|(stream, _)| same_host::check_same_user(stream).is_ok())
            .map(|(stream, _)| Socket::from(stream));
        let sockets: Vec<Socket> = tcp.chain(unix).collect();
        // Connections that this member makes itself are never dropped.
        let heard = |stage: &Stage| match stage {
            Stage::Handshaking(handshake) => handshake.heard,
            Stage::Agreement(agreement) => agreement.began,
        };
        let incoming = self.pending.iter().filter(|(_, pending)| pending.target.is_none());
        let mut incoming: Vec<(Instant, usize)> =
            incoming.map(|(&token, pending)| (heard(&pending.stage), token)).collect();
        incoming.sort_unstable();
        let most = handshaking::MAX_PENDING + self.roster.members.len() * self.listeners.lanes.len();
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
        const ALL: Duration = Duration::from_millis(500);
        let mut made = Vec::new();
        if self.advanced_all.elapsed() > ALL {
            self.advanced_all = Instant::now();
            ready = self.pending.keys().copied().collect();
        }
        for token in ready {
            let Some(Pending { stage, target }) = self.pending.remove(&token) else { continue };
            match stage {
                Stage::Handshaking(handshake) => self.advance_handshake(token, handshake, target, &mut made),
                Stage::Agreement(agreement) => self.advance_agreement(token, agreement, target, &mut made),
            }
        }
        made
    }

    fn advance_handshake(
        &mut self,
        token: usize,
        mut handshake: Box<Handshaking>,
        target: Option<PeerLane>,
        made: &mut Vec<(PeerLane, Connection)>,
    ) {
        let (rank, lanes) = (self.member.rank, self.listeners.lanes.len() as u32);
        let rules = Lanes { rank, lanes, epoch: self.roster.epoch };
        let (roster, accepted) = (self.roster, &self.accepted);
        let admit = |hello: &Hello| {
            let here = |rank, lane| accepted.contains(&PeerLane { rank, lane });
            rules.admit(&hello.role, |from| roster.seat(from).is_some(), here)
        };
        let done = handshake.advance(admit);
        let late = handshake.began.elapsed() > handshaking::TIMEOUT && !handshake.is_binding();
        let peer = match handshake.role() {
            Some(&Role::Lane { from, lane, .. }) => Some(PeerLane { rank: from, lane }),
            _ => target,
        };
        let outcome = match done {
            Ok(true) => Ok(()),
            Ok(false) if late => {
                let seconds = handshaking::TIMEOUT.as_secs_f64();
                Err(format!("did not finish its handshake within {seconds} s"))
            }
            Ok(false) => {
                self.pending.insert(token, Pending { stage: Stage::Handshaking(handshake), target });
                return;
            }
            Err(shut) => Err(shut.why),
        };
        let unix = handshake.socket.is_unix();
        let (peer, socket) = match (outcome, peer) {
            (Ok(()), Some(peer)) => (peer, handshake.socket),
            (Err(why), _) => return self.failed(target, peer, unix, why),
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
                    Some(_) => {
                        Agreement::offer(socket, same_host::CAPACITY).map_err(|error| error.to_string())
                    }
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
                match socket.tcp().map_or(Ok(()), |stream| set_options(stream, self.member)) {
                    Ok(()) => {
                        let ours = self.unshared.get(&peer.rank).cloned();
                        let theirs = || format!("rank {} could not share memory", peer.rank);
                        let why = ours.or_else(|| self.unix_socket(peer).map(|_| theirs()));
                        let stream = Stream::new(socket).because(why);
                        self.connected(target, peer, Box::new(stream), made);
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
                self.connected(target, pending.peer, pending.agreement.connection(), made);
            }
            // There is no timeout: both sides are members of this job, and after one has agreed, a timeout on the
            // other would leave them with different transports.
            Ok(false) => _ = self.pending.insert(token, Pending { stage: Stage::Agreement(pending), target }),
            Err(error) => self.failed(target, Some(pending.peer), true, error.to_string()),
        }
    }

    /// Adds a complete connection to `made`.
    fn connected(
        &mut self,
        target: Option<PeerLane>,
        peer: PeerLane,
        connection: Connection,
        made: &mut Vec<(PeerLane, Connection)>,
    ) {
        if target.is_none() {
            // A lane may have connected twice at the same time. The first connection counts.
            if self.accepted.contains(&peer) {
                return;
            }
            self.accepted.push(peer);
        }
        made.push((peer, connection));
    }

    /// Handles a failed connection: tries again if this member made it. After a failure over a Unix socket, the next
    /// try uses TCP.
    fn failed(&mut self, target: Option<PeerLane>, peer: Option<PeerLane>, unix: bool, why: String) {
        match (target, peer) {
            (Some(target), _) => {
                if unix {
                    self.do_not_share(target.rank, &why);
                }
                self.retry(target, why);
            }
            (None, Some(peer)) => _ = self.troubles.insert(peer.rank, why),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_comes_from_the_given_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own: IpAddr = "127.0.0.2".parse().unwrap();
        let stream = dial_from(own, listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), own);
        drop(stream);
        // This host does not have this address.
        assert!(dial_from("192.0.2.1".parse().unwrap(), listener.local_addr().unwrap()).is_err());
    }
}
