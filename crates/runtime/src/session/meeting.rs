//! Connections for lanes: each member connects to all members of lower rank, and is connected to by all others.

use super::greeting::{self, Greeting};
use super::place::{Absence, Place};
use super::post::{Meet, Post};
use crate::executor::stream::Stream;
use crate::handshake::Role;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Sets what connections between members have in common.
fn prepare(stream: &TcpStream, place: &Place) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    if let Some(congestion) = &place.congestion {
        #[cfg(target_os = "linux")]
        SockRef::from(stream)
            .set_tcp_congestion(congestion.as_bytes())
            .map_err(|error| format!("cannot have the congestion control `{congestion}`: {error}"))?;
        #[cfg(not(target_os = "linux"))]
        return Err(format!("cannot choose the congestion control `{congestion}` on this system"));
    }
    Ok(())
}

/// A listener for each lane, on the member's interfaces in turn, and where it is.
pub(super) fn listen(place: &Place, lanes: u32) -> Result<Vec<(TcpListener, SocketAddr)>, Absence> {
    let fault = |what: String| Absence::here(place.rank, &what);
    (0..lanes as usize)
        .map(|lane| {
            let interface = place.interfaces[lane % place.interfaces.len()];
            let listener = TcpListener::bind(SocketAddr::new(interface, 0))
                .map_err(|error| fault(format!("cannot listen on {interface}: {error}")))?;
            let address = listener.local_addr().map_err(|error| fault(error.to_string()))?;
            Ok((listener, address))
        })
        .collect()
}

/// The token of all listeners; handshakes have their number.
const LISTENERS: Token = Token(usize::MAX);

/// Who a connection is with, and for which lane.
type With = (u32, u32);

/// The connections of this member, by lane and member.
pub(super) fn join(
    place: &Place,
    meet: &Meet,
    listeners: Vec<(TcpListener, SocketAddr)>,
    post: &mut Post,
) -> Result<Vec<Vec<Option<Stream>>>, Absence> {
    let lanes = listeners.len() as u32;
    let world = meet.members.len() as u32;
    let mut streams: Vec<Vec<Option<Stream>>> =
        (0..lanes).map(|_| (0..world).map(|_| None).collect()).collect();
    let mut meeting = Meeting::new(place, meet, listeners)?;
    let deadline = Instant::now() + place.wait;
    let mut missing = (world - 1) as usize * lanes as usize;
    let mut events = Events::with_capacity(256);
    while missing > 0 {
        if Instant::now() > deadline {
            let absent = (0..world)
                .find(|&rank| rank != place.rank && streams.iter().any(|lane| lane[rank as usize].is_none()));
            let (rank, seconds) = (absent.unwrap_or(0), place.wait.as_secs_f64());
            let why = meeting.troubles.get(&rank).map_or(String::new(), |why| format!(": {why}"));
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
        post.stay(place)?;
        meeting.accept();
        for ((rank, lane), stream) in meeting.go_on() {
            let slot = &mut streams[lane as usize][rank as usize];
            missing -= usize::from(slot.is_none());
            *slot = Some(Stream::Tcp(stream));
        }
        meeting.connect();
    }
    Ok(streams)
}

struct Meeting<'a> {
    place: &'a Place,
    meet: &'a Meet,
    listeners: Vec<TcpListener>,
    poll: Poll,
    greetings: BTreeMap<usize, (Greeting, Option<With>)>,
    next: usize,
    /// Connections that are to be made, and when to try.
    wanted: Vec<(With, Instant)>,
    /// Lanes of members that have come.
    come: Vec<With>,
    /// What went wrong last with each member.
    troubles: BTreeMap<u32, String>,
}

impl<'a> Meeting<'a> {
    fn new(
        place: &'a Place,
        meet: &'a Meet,
        listeners: Vec<(TcpListener, SocketAddr)>,
    ) -> Result<Self, Absence> {
        let fault = |error: std::io::Error| Absence::here(place.rank, &format!("cannot wait: {error}"));
        let poll = Poll::new().map_err(fault)?;
        let mut listeners: Vec<TcpListener> = listeners.into_iter().map(|(listener, _)| listener).collect();
        for listener in &mut listeners {
            poll.registry().register(listener, LISTENERS, Interest::READABLE).map_err(fault)?;
        }
        let lanes = listeners.len() as u32;
        let wanted = (0..place.rank)
            .flat_map(|rank| (0..lanes).map(move |lane| ((rank, lane), Instant::now())))
            .collect();
        let mut meeting = Self {
            place,
            meet,
            listeners,
            poll,
            greetings: BTreeMap::new(),
            next: 0,
            wanted,
            come: Vec::new(),
            troubles: BTreeMap::new(),
        };
        meeting.connect();
        Ok(meeting)
    }

    fn add(&mut self, greeting: Greeting, with: Option<With>) {
        let (token, mut greeting) = (self.next, greeting);
        self.next += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut greeting.stream, Token(token), interest).is_ok() {
            self.greetings.insert(token, (greeting, with));
        }
    }

    /// Makes connections whose time has come.
    fn connect(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.wanted.drain(..).partition(|(_, when)| *when <= now);
        self.wanted = later;
        for (with, _) in due {
            let (rank, lane) = with;
            let address = self.meet.members[rank as usize][lane as usize];
            let role = Role::Lane { from: self.place.rank, to: rank, lane, epoch: self.meet.epoch };
            let greeting = TcpStream::connect(address)
                .map_err(|error| error.to_string())
                .and_then(|stream| Greeting::begin(stream, self.place.trust.clone(), &self.place.job, role));
            match greeting {
                Ok(greeting) => self.add(greeting, Some(with)),
                Err(why) => self.again(with, why),
            }
        }
    }

    /// Tries again a little later.
    fn again(&mut self, with: With, why: String) {
        const LATER: Duration = Duration::from_millis(100);
        self.troubles.insert(with.0, why);
        self.wanted.push((with, Instant::now() + LATER));
    }

    /// Lets in whoever connects, as long as they are not too many.
    fn accept(&mut self) {
        let streams: Vec<TcpStream> = (self.listeners.iter())
            .flat_map(|listener| std::iter::from_fn(|| listener.accept().ok()))
            .map(|(stream, _)| stream)
            .take(greeting::MOST)
            .collect();
        // Whoever has been silent for longest makes room; those that this member calls itself stay.
        let strangers: Vec<usize> =
            self.greetings.iter().filter(|(_, (_, with))| with.is_none()).map(|(&token, _)| token).collect();
        let most = greeting::MOST + self.meet.members.len() * self.listeners.len();
        for token in strangers.iter().take((strangers.len() + streams.len()).saturating_sub(most)) {
            self.greetings.remove(token);
        }
        for stream in streams {
            if let Ok(greeting) = Greeting::answer(stream, self.place.trust.clone(), &self.place.job) {
                self.add(greeting, None);
            }
        }
    }

    /// Goes on with handshakes; gives connections that are made.
    fn go_on(&mut self) -> Vec<(With, TcpStream)> {
        let mut made = Vec::new();
        let tokens: Vec<usize> = self.greetings.keys().copied().collect();
        for token in tokens {
            let Some((greeting, with)) = self.greetings.get_mut(&token) else { continue };
            let with = *with;
            let (rank, world, epoch) = (self.place.rank, self.meet.members.len() as u32, self.meet.epoch);
            let (lanes, come) = (self.listeners.len() as u32, &self.come);
            let admit = |role: &Role| match *role {
                Role::Lane { from, to, lane, epoch: theirs } => {
                    if to != rank || from <= rank || from >= world || lane >= lanes {
                        Err(format!("no lane {lane} leads from rank {from} to rank {to} here"))
                    } else if theirs != epoch {
                        Err(format!("epoch {theirs} is not this epoch {epoch}"))
                    } else if come.contains(&(from, lane)) {
                        Err(format!("lane {lane} of rank {from} is here already"))
                    } else {
                        Ok(())
                    }
                }
                Role::Member { .. } => Err("members join at the coordinator".to_owned()),
            };
            let done = greeting.go_on(admit);
            let late = greeting.began.elapsed() > greeting::LONGEST;
            let who = match greeting.role() {
                Some(&Role::Lane { from, lane, .. }) => Some((from, lane)),
                _ => None,
            };
            let outcome = match done {
                Ok(true) => Ok(()),
                Ok(false) if late => Err("takes too long over its handshake".to_owned()),
                Ok(false) => continue,
                Err(shut) => Err(shut.why),
            };
            let Some((mut greeting, _)) = self.greetings.remove(&token) else { continue };
            // Whoever takes the connection registers it anew.
            _ = self.poll.registry().deregister(&mut greeting.stream);
            let outcome = outcome.and_then(|()| prepare(&greeting.stream, self.place));
            match (outcome, with, who) {
                (Ok(()), Some(with), _) => made.push((with, greeting.stream)),
                (Ok(()), None, Some(with)) => {
                    self.come.push(with);
                    made.push((with, greeting.stream));
                }
                (Err(why), Some(with), _) => self.again(with, why),
                (Err(why), None, Some((rank, _))) => _ = self.troubles.insert(rank, why),
                (_, None, None) => {}
            }
        }
        made
    }
}
