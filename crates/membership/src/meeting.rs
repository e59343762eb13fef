//! Connections for lanes: each member connects to all members of lower rank, and is connected to by all others.

use crate::admission::Lanes;
use crate::hooks::Wanted;
use crate::member_connection::{Meet, MemberConnection};
use crate::message::Listens;
use crate::place::{Absence, Interface, Place};
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Events, Interest, Token};
use socket2::{Domain, Protocol, SockRef, Type};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Kind, Trouble};
use syncline_protocol::handshake::{Hello, Role};
use syncline_transport::Connection;
use syncline_transport::affinity;
use syncline_transport::congestion;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::same_host;
use syncline_transport::same_host::Agreement;
use syncline_transport::socket::{Socket, Stream};

/// Sets what connections between members have in common.
fn prepare(stream: &TcpStream, place: &Place) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    if let Some(name) = &place.congestion {
        congestion::choose(&SockRef::from(stream), name)?;
    }
    Ok(())
}

/// The listeners of a member, for its lanes.
#[derive(Debug)]
pub struct Listeners {
    lanes: Vec<TcpListener>,
    /// For members that may share memory.
    door: Option<UnixListener>,
    /// Their addresses, as other members are told.
    pub listens: Listens,
}

/// A listener for each lane, on the member's interfaces in turn, and a door, where memory may be shared.
pub fn listen(place: &Place, lanes: u32) -> Result<Listeners, Absence> {
    let fault = |what: String| Absence::here(place.rank, &what);
    let (listeners, addresses) = (0..lanes as usize)
        .map(|lane| {
            let Interface { listen, told } = place.interfaces[lane % place.interfaces.len()];
            let listener = place
                .listen(listen, lane as u32)
                .map_err(|why| fault(format!("cannot listen on {listen}: {why}")))?;
            let address = listener.local_addr().map_err(|error| fault(error.to_string()))?;
            Ok((listener, SocketAddr::new(told, address.port())))
        })
        .collect::<Result<(Vec<_>, Vec<_>), Absence>>()?;
    // Without a door others come over TCP, and say so.
    let (door, name) = place.shared_memory.then(|| same_host::open().ok()).flatten().unzip();
    let listens = Listens { lanes: addresses, door: name, machine: affinity::machine() };
    Ok(Listeners { lanes: listeners, door, listens })
}

/// What a connection says that is being made.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// Connects from an address of this host.
fn dial_from(own: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(own, 0).into())?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// The token of all listeners; handshakes have their number.
const LISTENERS: Token = Token(usize::MAX);

/// Who a connection is with, and for which lane.
type With = (u32, u32);

/// How long members of a later epoch look for each other before they go on without one that cannot be reached.
const AGAIN: Duration = Duration::from_secs(10);

/// The connections of this member, by lane and seat.
pub fn join(
    place: &Place,
    meet: &Meet,
    listeners: Listeners,
    post: &mut MemberConnection,
    wanted: &mut Wanted<'_>,
) -> Result<Vec<Vec<Option<Connection>>>, Absence> {
    let lanes = listeners.lanes.len() as u32;
    let world = meet.members.len();
    let mut connections: Vec<Vec<Option<Connection>>> =
        (0..lanes).map(|_| (0..world).map(|_| None).collect()).collect();
    let mut meeting = Meeting::new(place, meet, listeners)?;
    let wait = if meet.epoch == 0 { place.wait } else { place.wait.min(AGAIN) };
    let began = Instant::now();
    let mut deadline = began + wait;
    let mut missing = (world - 1) * lanes as usize;
    let mut events = Events::with_capacity(256);
    while missing > 0 {
        if Instant::now() > deadline {
            let absent = (meet.ranks().zip(0..)).find(|&(rank, seat): &(u32, usize)| {
                rank != place.rank && connections.iter().any(|lane| lane[seat].is_none())
            });
            let (rank, seconds) = (absent.map_or(0, |(rank, _)| rank), began.elapsed().as_secs_f64());
            let why = meeting.troubles.get(&rank).map_or(String::new(), |why| format!(": {why}"));
            // The others go on without one of the two, once the coordinator has said so.
            if meet.epoch > 0 && !post.has_reported() {
                post.report(rank, Trouble { kind: Kind::Silent, what: format!("could not be joined{why}") });
                deadline = Instant::now() + place.wait;
                continue;
            }
            return Err(Absence::new(format!(
                "rank {rank} could not be joined with rank {} within {seconds:.0} s{why}",
                place.rank
            )));
        }
        meeting
            .poll
            .poll(&mut events, Some(Duration::from_millis(50)))
            .or_else(
                |error| if error.kind() == std::io::ErrorKind::Interrupted { Ok(()) } else { Err(error) },
            )
            .map_err(|error| Absence::here(place.rank, &format!("cannot wait for connections: {error}")))?;
        wanted()?;
        post.stay(place)?;
        meeting.accept();
        let ready: Vec<usize> = events.iter().map(|event| event.token().0).collect();
        for ((rank, lane), connection) in meeting.go_on(ready) {
            let Some(seat) = meet.seat(rank) else { continue };
            let slot = &mut connections[lane as usize][seat];
            missing -= usize::from(slot.is_none());
            *slot = Some(connection);
        }
        meeting.connect();
    }
    Ok(connections)
}

/// How far a connection is.
enum Stage {
    /// Both sides get to know each other.
    Handshaking(Box<Handshaking>),
    /// They do, and agree on shared memory.
    Agreement(With, Agreement, Instant),
}

struct Meeting<'a> {
    place: &'a Place,
    meet: &'a Meet,
    listeners: Listeners,
    poll: Watcher,
    /// And with whom, where this member connects.
    stages: BTreeMap<usize, (Stage, Option<With>)>,
    next: usize,
    /// When all of them were looked at last.
    looked: Instant,
    /// Connections that are to be made, and when to try.
    wanted: Vec<(With, Instant)>,
    /// Lanes of members that have come.
    come: Vec<With>,
    /// How often a connection was tried in vain.
    tries: BTreeMap<With, u32>,
    /// What went wrong last with each member.
    troubles: BTreeMap<u32, String>,
    /// Why memory is not shared with a member that is near.
    barred: BTreeMap<u32, String>,
}

impl<'a> Meeting<'a> {
    fn new(place: &'a Place, meet: &'a Meet, mut listeners: Listeners) -> Result<Self, Absence> {
        let fault = |error: std::io::Error| Absence::here(place.rank, &format!("cannot wait: {error}"));
        let poll = Watcher::new().map_err(fault)?;
        for listener in &mut listeners.lanes {
            poll.registry().register(listener, LISTENERS, Interest::READABLE).map_err(fault)?;
        }
        if let Some(door) = &mut listeners.door {
            poll.registry().register(door, LISTENERS, Interest::READABLE).map_err(fault)?;
        }
        let lanes = listeners.lanes.len() as u32;
        let wanted = (meet.ranks().filter(|&rank| rank < place.rank))
            .flat_map(|rank| (0..lanes).map(move |lane| ((rank, lane), Instant::now())))
            .collect();
        let mut meeting = Self {
            place,
            meet,
            listeners,
            poll,
            stages: BTreeMap::new(),
            next: 0,
            looked: Instant::now(),
            wanted,
            come: Vec::new(),
            tries: BTreeMap::new(),
            troubles: BTreeMap::new(),
            barred: BTreeMap::new(),
        };
        meeting.connect();
        Ok(meeting)
    }

    fn add(&mut self, mut handshake: Handshaking, with: Option<With>) {
        let token = self.next;
        self.next += 1;
        if handshake.socket.watch(self.poll.registry(), Token(token)).is_ok() {
            self.stages.insert(token, (Stage::Handshaking(Box::new(handshake)), with));
        }
    }

    /// The door of a member with which memory may be shared on a lane.
    fn door(&self, (rank, lane): With) -> Option<&'a str> {
        let (ours, theirs) = (self.meet.listens(self.place.rank)?, self.meet.listens(rank)?);
        let address = |listens: &Listens| listens.lanes[lane as usize].ip();
        let near = self.place.shared_memory && same_host::together(address(ours), address(theirs));
        theirs.door.as_deref().filter(|_| near && !self.barred.contains_key(&rank))
    }

    /// Makes connections whose time has come.
    fn connect(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.wanted.drain(..).partition(|(_, when)| *when <= now);
        self.wanted = later;
        for (with, _) in due {
            let (rank, lane) = with;
            let role = Role::Lane { from: self.place.rank, to: rank, lane, epoch: self.meet.epoch };
            let near = self.door(with).and_then(|name| {
                let kin = same_host::connect(name).map_err(|error| error.to_string());
                match kin.and_then(|socket| same_host::kin(&socket).map(|()| socket)) {
                    Ok(socket) => Some(Socket::Unix(socket)),
                    Err(why) => {
                        self.bar(rank, &why);
                        None
                    }
                }
            });
            let Some(listens) = self.meet.listens(rank) else { continue };
            let socket =
                near.map_or_else(|| self.dial(with, listens.lanes[lane as usize]).map(Socket::Tcp), Ok);
            let handshake = socket.map_err(|error| error.to_string()).and_then(|socket| {
                Handshaking::begin(socket, self.place.trust.clone(), &self.place.job, role)
            });
            match handshake {
                Ok(handshake) => self.add(handshake, Some(with)),
                Err(why) => self.again(with, why),
            }
        }
    }

    /// Connects from the interface that the lane is to use; where that came to nothing, from any, and in turn.
    fn dial(&self, with: With, to: SocketAddr) -> std::io::Result<TcpStream> {
        let interfaces = &self.place.interfaces;
        let own = interfaces[with.1 as usize % interfaces.len()].listen;
        let fits = own.is_ipv4() == to.is_ipv4() && own.is_loopback() == to.ip().is_loopback();
        let tries = self.tries.get(&with).copied().unwrap_or(0);
        match own.is_unspecified() || !fits || tries % 2 == 1 {
            true => TcpStream::connect(to),
            false => dial_from(own, to),
        }
    }

    /// Shares no memory with a member.
    fn bar(&mut self, rank: u32, why: &str) {
        self.barred.entry(rank).or_insert_with(|| format!("memory cannot be shared with rank {rank}: {why}"));
    }

    /// Tries again a little later.
    fn again(&mut self, with: With, why: String) {
        const LATER: Duration = Duration::from_millis(100);
        self.troubles.insert(with.0, why);
        *self.tries.entry(with).or_default() += 1;
        self.wanted.push((with, Instant::now() + LATER));
    }

    /// Lets in whoever connects, as long as they are not too many.
    fn accept(&mut self) {
        let tcp = (self.listeners.lanes.iter())
            .flat_map(|listener| std::iter::from_fn(|| listener.accept().ok()))
            .take(handshaking::MOST)
            .map(|(stream, _)| Socket::Tcp(stream));
        let unix = (self.listeners.door.iter())
            .flat_map(|door| std::iter::from_fn(|| door.accept().ok()))
            .take(handshaking::MOST)
            .filter(|(stream, _)| same_host::kin(stream).is_ok())
            .map(|(stream, _)| Socket::Unix(stream));
        let sockets: Vec<Socket> = tcp.chain(unix).collect();
        // Whoever has been silent for longest makes room; those that this member calls itself stay.
        let heard = |stage: &Stage| match stage {
            Stage::Handshaking(handshake) => handshake.heard,
            Stage::Agreement(_, _, began) => *began,
        };
        let strangers = self.stages.iter().filter(|(_, (_, with))| with.is_none());
        let mut strangers: Vec<(Instant, usize)> =
            strangers.map(|(&token, (stage, _))| (heard(stage), token)).collect();
        strangers.sort_unstable();
        let most = handshaking::MOST + self.meet.members.len() * self.listeners.lanes.len();
        for (_, token) in strangers.iter().take((strangers.len() + sockets.len()).saturating_sub(most)) {
            self.stages.remove(token);
        }
        for socket in sockets {
            if let Ok(handshake) =
                Handshaking::accept(socket, self.place.trust.clone(), Some(&self.place.job))
            {
                self.add(handshake, None);
            }
        }
    }

    /// Goes on with handshakes and agreements to which something has happened, and now and then with all, as some may take too
    /// long; gives connections that are made.
    fn go_on(&mut self, mut ready: Vec<usize>) -> Vec<(With, Connection)> {
        const ALL: Duration = Duration::from_millis(500);
        let mut made = Vec::new();
        if self.looked.elapsed() > ALL {
            self.looked = Instant::now();
            ready = self.stages.keys().copied().collect();
        }
        for token in ready {
            let Some((stage, with)) = self.stages.remove(&token) else { continue };
            match stage {
                Stage::Handshaking(handshake) => self.greet(token, handshake, with, &mut made),
                Stage::Agreement(who, agreement, began) => {
                    self.agree(token, (who, agreement, began), with, &mut made);
                }
            }
        }
        made
    }

    fn greet(
        &mut self,
        token: usize,
        mut handshake: Box<Handshaking>,
        with: Option<With>,
        made: &mut Vec<(With, Connection)>,
    ) {
        let (rank, lanes) = (self.place.rank, self.listeners.lanes.len() as u32);
        let (door, meet, come) = (Lanes { rank, lanes, epoch: self.meet.epoch }, self.meet, &self.come);
        let admit = |hello: &Hello| {
            let here = |from, lane| come.contains(&(from, lane));
            door.admit(&hello.role, |from| meet.seat(from).is_some(), here)
        };
        let done = handshake.advance(admit);
        let late = handshake.began.elapsed() > handshaking::LONGEST && !handshake.is_binding();
        let who = match handshake.role() {
            Some(&Role::Lane { from, lane, .. }) => Some((from, lane)),
            _ => with,
        };
        let outcome = match done {
            Ok(true) => Ok(()),
            Ok(false) if late => Err("takes too long over its handshake".to_owned()),
            Ok(false) => {
                self.stages.insert(token, (Stage::Handshaking(handshake), with));
                return;
            }
            Err(shut) => Err(shut.why),
        };
        let unix = handshake.socket.is_unix();
        let (who, socket) = match (outcome, who) {
            (Ok(()), Some(who)) => (who, handshake.socket),
            (Err(why), _) => return self.failed(with, who, unix, why),
            (Ok(()), None) => return,
        };
        // Where memory is shared nobody listens in: both sides are known, and need TLS no longer.
        let socket = match if unix { socket.bare() } else { Ok(socket) } {
            Ok(socket) => socket,
            Err(why) => return self.failed(with, Some(who), unix, why),
        };
        match socket {
            Socket::Unix(socket) => {
                let agreement = match with {
                    Some(_) => {
                        Agreement::offer(socket, same_host::CAPACITY).map_err(|error| error.to_string())
                    }
                    None => Ok(Agreement::answer(socket)),
                };
                match agreement {
                    Ok(agreement) => self.agree(token, (who, agreement, Instant::now()), with, made),
                    Err(why) => self.failed(with, Some(who), true, why),
                }
            }
            mut socket => {
                // Whoever takes the connection registers it anew.
                _ = socket.unwatch(self.poll.registry());
                match socket.tcp().map_or(Ok(()), |stream| prepare(stream, self.place)) {
                    Ok(()) => {
                        let barred = self.barred.get(&who.0).cloned();
                        let apart = || format!("rank {} could not share memory", who.0);
                        let why = barred.or_else(|| self.door(who).map(|_| apart()));
                        let stream = Stream::new(socket).because(why);
                        self.made(with, who, Box::new(stream), made);
                    }
                    Err(why) => self.failed(with, Some(who), false, why),
                }
            }
        }
    }

    fn agree(
        &mut self,
        token: usize,
        (who, mut agreement, began): (With, Agreement, Instant),
        with: Option<With>,
        made: &mut Vec<(With, Connection)>,
    ) {
        match agreement.go_on() {
            Ok(true) => {
                _ = self.poll.registry().deregister(agreement.socket());
                self.made(with, who, agreement.connection(), made);
            }
            // Both are members of this job: one may be slow, and the other must not take back what it has agreed to.
            Ok(false) => _ = self.stages.insert(token, (Stage::Agreement(who, agreement, began), with)),
            Err(error) => self.failed(with, Some(who), true, error.to_string()),
        }
    }

    fn made(
        &mut self,
        with: Option<With>,
        who: With,
        connection: Connection,
        made: &mut Vec<(With, Connection)>,
    ) {
        if with.is_none() {
            // Two may have been under way at once: the first has come.
            if self.come.contains(&who) {
                return;
            }
            self.come.push(who);
        }
        made.push((who, connection));
    }

    /// A connection was not made. What fails over a door goes on over TCP.
    fn failed(&mut self, with: Option<With>, who: Option<With>, unix: bool, why: String) {
        match (with, who) {
            (Some(with), _) => {
                if unix {
                    self.bar(with.0, &why);
                }
                self.again(with, why);
            }
            (None, Some((rank, _))) => _ = self.troubles.insert(rank, why),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn whoever_connects_comes_from_the_interface_that_it_is_to_use() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own: IpAddr = "127.0.0.2".parse().unwrap();
        let stream = dial_from(own, listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), own);
        drop(stream);
        // An address that this host has not.
        assert!(dial_from("192.0.2.1".parse().unwrap(), listener.local_addr().unwrap()).is_err());
    }
}
