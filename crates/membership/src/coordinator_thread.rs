//! The coordinator's thread: lets members in, begins epochs, tells members where the others are, and watches them.

use crate::admission::Members;
use crate::assembly::Step;
use crate::message::{Down, Listens, Up};
use crate::place::{Absence, Place};
use crate::{Assembly, Coordinator};
use mio::net::TcpListener;
use mio::{Events, Interest, Token, Waker};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Blame, Kind, Trouble};
use syncline_protocol::handshake::{Hello, Role};
use syncline_protocol::heartbeat::{Patience, Pulse};
use syncline_protocol::settings::Settings;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::MOST;
use syncline_transport::pending_handshakes::PendingHandshakes;

const LISTENER: Token = Token(usize::MAX);
const CLOSE: Token = Token(usize::MAX - 1);

/// How long members have to leave after the one that coordinates them, and how long a verdict has to reach them.
const LEAVING: Duration = Duration::from_secs(2);

/// The thread, as its owner sees it. When it is dropped, members have a moment to leave.
#[derive(Debug)]
pub struct CoordinatorThread {
    closing: Arc<AtomicBool>,
    waker: Waker,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl CoordinatorThread {
    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for CoordinatorThread {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Listeners at all of the coordinator's addresses that this host has, with one port.
///
/// # Errors
/// A clause: why there is none.
fn bind(place: &Place) -> Result<Vec<TcpListener>, String> {
    let listen = |address: SocketAddr, port: u16| TcpListener::bind(SocketAddr::new(address.ip(), port));
    let [first, others @ ..] = &place.coordinator[..] else { return Err("has no address".to_owned()) };
    let (mut whys, mut found): (Vec<String>, Vec<TcpListener>) = (Vec::new(), Vec::new());
    for &address in [first].into_iter().chain(others) {
        // All have the port of the first.
        let known = found.first().and_then(|listener| listener.local_addr().ok()).map(|known| known.port());
        let bound = match known.or((address.port() > 0).then_some(address.port())) {
            Some(port) => listen(address, port).map_err(|error| error.to_string()),
            None => place.listen(address.ip(), 0),
        };
        match bound {
            Ok(listener) => found.push(listener),
            Err(why) => whys.push(format!("cannot listen on {address}, where others look for it: {why}")),
        }
    }
    if found.is_empty() { Err(whys.join("; ")) } else { Ok(found) }
}

/// Listens where members look for the coordinator.
pub fn open(place: &Place, settings: Settings) -> Result<CoordinatorThread, Absence> {
    let fault = |what: String| Absence::here(place.rank, &what);
    let mut listeners = bind(place).map_err(fault)?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let poll = Watcher::new().map_err(|error| fault(format!("cannot wait: {error}")))?;
    for listener in &mut listeners {
        let registered = poll.registry().register(listener, LISTENER, Interest::READABLE);
        registered.map_err(|error| fault(format!("cannot wait: {error}")))?;
    }
    let waker = Waker::new(poll.registry(), CLOSE).map_err(|error| fault(format!("cannot wait: {error}")))?;
    let closing = Arc::new(AtomicBool::new(false));
    let door = CoordinatorLoop {
        place: place.clone(),
        lanes: settings.pace.lanes,
        patience: settings.patience,
        closing: Arc::clone(&closing),
        listeners,
        poll,
        pending: PendingHandshakes::default(),
        guests: BTreeMap::new(),
        assembly: Assembly::new(place.world, place.wait),
        coordinator: None,
        pulse: Pulse::new(settings.patience, Duration::ZERO),
        told: Vec::new(),
        started: Instant::now(),
    };
    let thread = std::thread::Builder::new()
        .name("coordinator".to_owned())
        .spawn(|| door.run())
        .map_err(|error| fault(format!("starts no thread: {error}")))?;
    Ok(CoordinatorThread { closing, waker, addresses, thread: Some(thread) })
}

struct CoordinatorLoop {
    place: Place,
    lanes: u32,
    patience: Patience,
    closing: Arc<AtomicBool>,
    listeners: Vec<TcpListener>,
    poll: Watcher,
    pending: PendingHandshakes,
    /// Members that are there, by rank.
    guests: BTreeMap<u32, ControlConnection>,
    assembly: Assembly,
    /// Of this epoch; none before the first.
    coordinator: Option<Coordinator>,
    /// Signs of life of guests that wait for an epoch.
    pulse: Pulse,
    /// Who waits for the next epoch, as members of this one were told.
    told: Vec<u32>,
    started: Instant,
}

impl CoordinatorLoop {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let (mut closing, mut more) = (None::<Instant>, false);
        loop {
            let wait = self.coordinator.as_ref().map_or(Duration::from_millis(100), Coordinator::interval);
            let wait = if more { Duration::ZERO } else { wait };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                _ => {}
            }
            more = self.accept();
            self.greet();
            self.listen();
            self.gather();
            self.say();
            if closing.is_none() && self.closing.load(Ordering::Relaxed) {
                closing = Some(Instant::now());
                self.guests.values_mut().for_each(|connection| connection.send(&Down::Leave));
                self.say();
            }
            let alone = self.coordinator.as_ref().is_none_or(Coordinator::alone) || self.guests.is_empty();
            if closing.is_some_and(|since| alone || since.elapsed() > LEAVING) {
                return;
            }
        }
    }

    /// Lets some come who connect; whether there may be more. Those who are here are heard in between, however many come.
    fn accept(&mut self) -> bool {
        let mut more = false;
        for listener in &self.listeners {
            let come = std::iter::from_fn(|| listener.accept().ok()).take(MOST);
            let come = come.map(|(stream, _)| {
                self.pending.add(stream, &self.place.trust, Some(&self.place.job), self.poll.registry());
            });
            more |= come.count() == MOST;
        }
        more
    }

    /// Goes on with handshakes.
    fn greet(&mut self) {
        let members = Members {
            world: self.place.world,
            lanes: self.lanes,
            elastic: self.place.elastic,
            begun: self.assembly.begun(),
        };
        loop {
            let (guests, coordinator) = (&self.guests, self.coordinator.as_ref());
            let left = |rank| coordinator.is_some_and(|coordinator| coordinator.has_left(rank));
            let admit = |hello: &Hello| members.admit(&hello.role, |rank| guests.contains_key(&rank), left);
            let Some((_, handshake)) = self.pending.next_admitted(admit) else { return };
            // Two may have been admitted to one place at once; the later is cut off, and tries again.
            if let Some(&Role::Member { rank, .. }) = handshake.role()
                && !self.guests.contains_key(&rank)
            {
                let mut connection = ControlConnection::new(handshake.socket);
                if self.assembly.begun() {
                    connection.send(&Down::Begun);
                }
                self.pulse.join(rank as usize, self.started.elapsed());
                self.pulse.heard(rank as usize, self.started.elapsed());
                self.guests.insert(rank, connection);
            }
        }
    }

    /// Hears what members say.
    fn listen(&mut self) {
        let ranks: Vec<u32> = self.guests.keys().copied().collect();
        for rank in ranks {
            let Some(connection) = self.guests.get_mut(&rank) else { continue };
            let closed = connection.read();
            while let Some(connection) = self.guests.get_mut(&rank) {
                match connection.receive::<Up>() {
                    Ok(Some(message)) => self.heard(rank, message),
                    Ok(None) => break,
                    Err(what) => self.lose(rank, |coordinator| coordinator.doubted(rank, what)),
                }
            }
            if let Err(how) = closed {
                self.lose(rank, |coordinator| coordinator.closed(rank, &how));
            }
        }
    }

    fn heard(&mut self, rank: u32, message: Up) {
        let now = self.started.elapsed();
        let runs = self.coordinator.as_ref().is_some_and(|coordinator| coordinator.has(rank));
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.heard(rank, message.clone(), now);
        }
        if !runs {
            self.pulse.heard(rank as usize, now);
        }
        let fits = |listens: &Listens| listens.lanes.len() == self.lanes as usize;
        match message {
            Up::Listens(listens) | Up::Again { listens, .. } if !fits(&listens) => {
                self.dismiss(rank, "has another number of lanes than the others".to_owned());
            }
            Up::Listens(listens) if !runs => self.assembly.come(rank, listens),
            Up::Again { .. } if !self.place.elastic => {
                self.dismiss(rank, "asks for another epoch, and the job is not elastic".to_owned());
            }
            Up::Again { listens, patience_ms } if runs => match self.unreachable(rank) {
                Some(why) => self.dismiss(rank, why),
                None => {
                    self.pulse.join(rank as usize, now);
                    self.pulse.heard(rank as usize, now);
                    self.assembly.ask(rank, listens, Duration::from_millis(patience_ms), now);
                }
            },
            Up::Leave if !runs => self.lose(rank, |_| {}),
            _ => {}
        }
    }

    /// Why a rank cannot take part in the next epoch: nothing goes through between it and a lower one, which stays.
    fn unreachable(&self, rank: u32) -> Option<String> {
        match self.coordinator.as_ref()?.verdict()? {
            (Blame::Link(lower, higher), trouble) if *higher == rank && trouble.kind == Kind::Silent => {
                Some(format!("cannot be reached from rank {lower}"))
            }
            // All that others cannot reach it tell the same.
            (Blame::Rank(silent), trouble)
                if *silent == rank && rank != 0 && trouble.kind == Kind::Silent =>
            {
                Some("cannot be reached from others".to_owned())
            }
            _ => None,
        }
    }

    /// A member is gone.
    fn lose(&mut self, rank: u32, tell: impl FnOnce(&mut Coordinator)) {
        if self.guests.remove(&rank).is_some() {
            if let Some(coordinator) = &mut self.coordinator {
                tell(coordinator);
            }
            self.assembly.forget(rank);
            self.pulse.leave(rank as usize);
        }
    }

    /// A member takes no part any more.
    fn dismiss(&mut self, rank: u32, why: String) {
        if let Some(connection) = self.guests.get_mut(&rank) {
            connection.send(&Down::Dismissed { why });
            _ = connection.write();
            self.lose(rank, |coordinator| coordinator.closed(rank, "end of file"));
        }
    }

    /// Begins an epoch once it can begin; says who is missing where they do not come.
    fn gather(&mut self) {
        let now = self.started.elapsed();
        for rank in self.pulse.silent(now).into_iter().map(|(rank, _)| rank as u32) {
            self.lose(rank, |_| {});
        }
        for rank in self.pulse.due(now) {
            if let Some(connection) = self.guests.get_mut(&(rank as u32)) {
                connection.send(&Down::Alive);
            }
        }
        let here: Vec<u32> = self.guests.keys().copied().collect();
        match self.assembly.step(&here, now) {
            Some(Step::Begin(epoch, members)) => {
                let ranks: Vec<u32> = members.iter().map(|&(rank, _)| rank).collect();
                ranks.iter().for_each(|&rank| self.pulse.leave(rank as usize));
                self.coordinator = Some(Coordinator::new(&ranks, self.patience, now));
                self.told.clear();
                self.tell(&ranks, &Down::Meet { epoch, members });
            }
            Some(Step::Awaited(ranks)) => self.tell(&here, &Down::Missing { ranks }),
            Some(Step::Missing(missing)) => {
                let others = missing[1..].iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                let seconds = self.place.wait.as_secs_f64();
                let others = if others.is_empty() { others } else { format!(" (missing, too: {others})") };
                let what = format!("did not come within {seconds:.0} s{others}");
                let trouble = Trouble { kind: Kind::Silent, what };
                self.tell(&here, &Down::Verdict { blame: Blame::Rank(missing[0]), trouble });
            }
            Some(Step::Slow(slow)) => {
                let seconds = self.place.wait.as_secs_f64();
                let why = format!("did not ask for the next epoch within {seconds:.0} s, as others did");
                slow.into_iter().for_each(|rank| self.dismiss(rank, why.clone()));
            }
            None => {}
        }
        let waiting = self.assembly.waiting();
        if self.assembly.begun() && waiting != self.told {
            let runs = |rank: &u32| !waiting.contains(rank);
            let members: Vec<u32> = here.into_iter().filter(runs).collect();
            self.tell(&members, &Down::Waiting { ranks: waiting.clone() });
            self.told = waiting;
        }
    }

    fn tell(&mut self, ranks: &[u32], message: &Down) {
        for rank in ranks {
            if let Some(connection) = self.guests.get_mut(rank) {
                connection.send(message);
            }
        }
    }

    /// Says what is to be said.
    fn say(&mut self) {
        let now = self.started.elapsed();
        // Whoever leaves judges nobody any more.
        let judges = !self.closing.load(Ordering::Relaxed);
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| judges) {
            coordinator.tick(now);
            for (rank, message) in coordinator.say() {
                if let Some(connection) = self.guests.get_mut(&rank) {
                    connection.send(&message);
                }
            }
        }
        let ranks: Vec<u32> = self.guests.keys().copied().collect();
        for rank in ranks {
            let Some(connection) = self.guests.get_mut(&rank) else { continue };
            if let Err(how) = connection.write() {
                self.lose(rank, |coordinator| coordinator.closed(rank, &how));
            }
        }
        // They have been told, if they can still hear; others may come in their place.
        for rank in self.coordinator.as_mut().map_or(Vec::new(), Coordinator::lost) {
            self.lose(rank, |_| {});
        }
    }
}
