//! The coordinator's thread: lets members in, tells them where the others are, and watches them.

use super::line::Line;
use super::place::{Absence, Place};
use super::porch::Porch;
use crate::control::Coordinator;
use crate::control::message::{Down, Listens, Up};
use crate::executor::Settings;
use crate::fault::{Blame, Kind, Trouble};
use crate::handshake::{Hello, Role};
use crate::pulse::Patience;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(usize::MAX);
const CLOSE: Token = Token(usize::MAX - 1);

/// How long members have to leave after the one that coordinates them, and how long a verdict has to reach them.
const LEAVING: Duration = Duration::from_secs(2);

/// The thread, as its owner sees it. When it is dropped, members have a moment to leave.
#[derive(Debug)]
pub(super) struct Hall {
    closing: Arc<AtomicBool>,
    waker: Waker,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Hall {
    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Listens where members look for the coordinator.
pub(super) fn open(place: &Place, settings: Settings) -> Result<Hall, Absence> {
    let fault = |what: String| Absence::here(place.rank, &what);
    let address = place.coordinator;
    let mut listener = TcpListener::bind(address)
        .map_err(|error| fault(format!("cannot listen on {address}, where others look for it: {error}")))?;
    let address = listener.local_addr().map_err(|error| fault(error.to_string()))?;
    let poll = Poll::new().map_err(|error| fault(format!("cannot wait: {error}")))?;
    let registered = poll.registry().register(&mut listener, LISTENER, Interest::READABLE);
    registered.map_err(|error| fault(format!("cannot wait: {error}")))?;
    let waker = Waker::new(poll.registry(), CLOSE).map_err(|error| fault(format!("cannot wait: {error}")))?;
    let closing = Arc::new(AtomicBool::new(false));
    let door = Door {
        place: place.clone(),
        lanes: settings.pace.lanes,
        patience: settings.patience,
        closing: Arc::clone(&closing),
        listener,
        poll,
        porch: Porch::default(),
        guests: (0..place.world).map(|_| None).collect(),
        coordinator: None,
        started: Instant::now(),
        absent: false,
    };
    let thread = std::thread::Builder::new()
        .name("coordinator".to_owned())
        .spawn(|| door.run())
        .map_err(|error| fault(format!("starts no thread: {error}")))?;
    Ok(Hall { closing, waker, address, thread: Some(thread) })
}

/// A member that has come.
#[derive(Debug)]
struct Guest {
    line: Line,
    listens: Option<Listens>,
}

struct Door {
    place: Place,
    lanes: u32,
    patience: Patience,
    closing: Arc<AtomicBool>,
    listener: TcpListener,
    poll: Poll,
    porch: Porch,
    guests: Vec<Option<Guest>>,
    /// Once all have come.
    coordinator: Option<Coordinator>,
    started: Instant,
    /// Whether some did not come in time.
    absent: bool,
}

impl Door {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut closing: Option<Instant> = None;
        loop {
            let wait = self.coordinator.as_ref().map_or(Duration::from_millis(100), Coordinator::interval);
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                _ => {}
            }
            self.accept();
            self.greet();
            self.listen();
            self.gather();
            self.say();
            if closing.is_none() && self.closing.load(Ordering::Relaxed) {
                closing = Some(Instant::now());
                self.guests.iter_mut().flatten().for_each(|guest| guest.line.say(&Down::Leave));
                self.say();
            }
            let alone = self.coordinator.as_ref().is_none_or(Coordinator::alone)
                || self.guests.iter().all(Option::is_none);
            if closing.is_some_and(|since| alone || since.elapsed() > LEAVING) {
                return;
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.porch.come(stream, &self.place.trust, Some(&self.place.job), self.poll.registry());
        }
    }

    /// Goes on with handshakes.
    fn greet(&mut self) {
        let (world, lanes, begun) = (self.place.world, self.lanes, self.coordinator.is_some());
        loop {
            let guests = &self.guests;
            let admit = |hello: &Hello| match hello.role {
                Role::Member { world: theirs, .. } if theirs != world => {
                    Err(format!("{theirs} ranks there meet {world} ranks here"))
                }
                Role::Member { rank, .. } if rank >= world => {
                    Err(format!("there is no rank {rank} of {world}: ranks are 0 to {}", world - 1))
                }
                Role::Member { lanes: theirs, .. } if theirs != lanes => {
                    Err(format!("{theirs} lanes there meet {lanes} lanes here"))
                }
                Role::Member { rank, .. } if guests[rank as usize].is_some() => {
                    Err(format!("rank {rank} is here already"))
                }
                Role::Member { rank, .. } if begun => {
                    Err(format!("the job has begun, and rank {rank} is no part of it any more"))
                }
                Role::Member { .. } => Ok(()),
                _ => Err("only members join at the coordinator".to_owned()),
            };
            let Some((_, greeting)) = self.porch.next_guest(admit) else { return };
            // Two may have been admitted to one place at once; the later is cut off, and tries again.
            if let Some(&Role::Member { rank, .. }) = greeting.role()
                && self.guests[rank as usize].is_none()
            {
                self.guests[rank as usize] = Some(Guest { line: Line::new(greeting.socket), listens: None });
            }
        }
    }

    /// Hears what members say.
    fn listen(&mut self) {
        let now = self.started.elapsed();
        for rank in 0..self.guests.len() {
            let Some(guest) = &mut self.guests[rank] else { continue };
            let closed = guest.line.read();
            loop {
                match (guest.line.message::<Up>(), &mut self.coordinator) {
                    (Ok(Some(message)), Some(coordinator)) => coordinator.heard(rank as u32, message, now),
                    (Ok(Some(Up::Listens(listens))), None) => guest.listens = Some(listens),
                    (Ok(Some(_)), None) => {}
                    (Ok(None), _) => break,
                    (Err(what), coordinator) => {
                        if let Some(coordinator) = coordinator {
                            coordinator.doubted(rank as u32, what);
                        }
                        self.guests[rank] = None;
                        break;
                    }
                }
            }
            if let Err(how) = closed {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.closed(rank as u32, &how);
                }
                self.guests[rank] = None;
            }
        }
    }

    /// Begins once all are there; says who is missing where they do not come.
    fn gather(&mut self) {
        if self.coordinator.is_some() || self.absent {
            return;
        }
        let listens = self.guests.iter().map(|guest| guest.as_ref().and_then(|guest| guest.listens.clone()));
        let message = match listens.collect::<Option<Vec<_>>>() {
            Some(members) => {
                let now = self.started.elapsed();
                self.coordinator = Some(Coordinator::new(self.place.world, self.patience, now));
                Down::Meet { epoch: 0, members }
            }
            None if self.started.elapsed() > self.place.wait => {
                self.absent = true;
                let there =
                    |rank: usize| self.guests[rank].as_ref().is_some_and(|guest| guest.listens.is_some());
                let missing: Vec<u32> =
                    (0..self.guests.len()).filter(|&rank| !there(rank)).map(|rank| rank as u32).collect();
                let others = missing[1..].iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                let seconds = self.place.wait.as_secs_f64();
                let others = if others.is_empty() { others } else { format!(" (missing, too: {others})") };
                let what = format!("did not come within {seconds:.0} s{others}");
                Down::Verdict {
                    blame: Blame::Rank(missing[0]),
                    trouble: Trouble { kind: Kind::Silent, what },
                }
            }
            None => return,
        };
        self.guests.iter_mut().flatten().for_each(|guest| guest.line.say(&message));
    }

    /// Says what is to be said.
    fn say(&mut self) {
        let now = self.started.elapsed();
        // Whoever leaves judges nobody any more.
        let judges = !self.closing.load(Ordering::Relaxed);
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| judges) {
            coordinator.tick(now);
            for (rank, message) in coordinator.say() {
                if let Some(guest) = &mut self.guests[rank as usize] {
                    guest.line.say(&message);
                }
            }
        }
        for rank in 0..self.guests.len() {
            let Some(guest) = &mut self.guests[rank] else { continue };
            if let Err(how) = guest.line.write() {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.closed(rank as u32, &how);
                }
                self.guests[rank] = None;
            }
        }
    }
}
