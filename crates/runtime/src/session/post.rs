//! A member's connection to the coordinator, and the thread that keeps it.

use super::Wanted;
use super::greeting::Greeting;
use super::hall::Hall;
use super::line::Line;
use super::meeting::{self, Listeners};
use super::place::{Absence, Place};
use crate::control::Member;
use crate::control::message::{Down, Listens, Progress, Up};
use crate::executor::{Court, Gauge, Settings, Verdicts};
use crate::fault::{Blame, Kind, Trouble};
use crate::handshake::Role;
use crate::pulse::Patience;
use crate::transport::socket::Socket;
use mio::{Events, Poll, Token, Waker};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const COORDINATOR: Token = Token(0);
const TOLD: Token = Token(1);

/// Where all members listen, in an epoch.
#[derive(Debug)]
pub(super) struct Meet {
    pub(super) epoch: u16,
    /// By member.
    pub(super) members: Vec<Listens>,
}

/// A member's connection to the coordinator.
#[derive(Debug)]
pub(super) struct Post {
    line: Line,
    poll: Poll,
    /// How often a sign of life is due before the thread gives it, and when it was given last.
    interval: Duration,
    said: Instant,
}

/// Goes to the coordinator, and waits there until all have come.
pub(super) fn enter(
    place: &Place,
    settings: Settings,
    wanted: &mut Wanted<'_>,
) -> Result<(Post, Meet, Listeners), Absence> {
    let deadline = Instant::now() + place.wait;
    let listeners = meeting::listen(place, settings.pace.lanes)?;
    loop {
        // Whoever was cut off before a word was said tries again, and may be told why.
        if let Some((post, meet)) = gather(place, settings, deadline, &listeners, wanted)? {
            return Ok((post, meet, listeners));
        }
    }
}

/// Goes to the coordinator once, and waits there until all have come; nothing, where it was cut off at once.
fn gather(
    place: &Place,
    settings: Settings,
    deadline: Instant,
    listeners: &Listeners,
    wanted: &mut Wanted<'_>,
) -> Result<Option<(Post, Meet)>, Absence> {
    let lanes = settings.pace.lanes;
    let fault = |what: String| Absence::here(place.rank, &what);
    let mut socket = greet(place, lanes, deadline, wanted)?;
    let poll = Poll::new().map_err(|error| fault(format!("cannot wait: {error}")))?;
    socket.watch(poll.registry(), COORDINATOR).map_err(|error| fault(format!("cannot wait: {error}")))?;
    let interval = settings.patience.interval;
    let mut post = Post { line: Line::new(socket), poll, interval, said: Instant::now() };
    post.line.say(&Up::Listens(listeners.listens.clone()));
    let mut events = Events::with_capacity(8);
    let began = Instant::now();
    loop {
        wanted()?;
        let closed = post.line.write().and_then(|()| post.line.read()).err();
        let lost = |why: String| fault(format!("lost the coordinator: it {why}"));
        // What it said before it went counts.
        match post.line.message::<Down>().map_err(lost)? {
            Some(Down::Meet { epoch, members }) => {
                let complete = members.len() == place.world as usize
                    && members.iter().all(|member| member.lanes.len() == lanes as usize);
                if !complete {
                    return Err(fault("was told of other members than there are".to_owned()));
                }
                return Ok(Some((post, Meet { epoch, members })));
            }
            Some(Down::Verdict { blame, trouble }) => return Err(Absence::new(format!("{blame} {trouble}"))),
            Some(Down::Leave) => return Err(lost("left before all had come".to_owned())),
            Some(Down::Alive | Down::Roll { .. }) => continue,
            None => {
                if let Some(how) = closed {
                    if began.elapsed() < AGAIN && Instant::now() < deadline {
                        std::thread::sleep(AGAIN);
                        return Ok(None);
                    }
                    return Err(lost(format!("closed its connection ({how})")));
                }
            }
        }
        // The coordinator knows who is missing: it may say so a little later.
        if Instant::now() > deadline + Duration::from_secs(2) {
            return Err(fault("waits for others, and the coordinator does not say for whom".to_owned()));
        }
        post.wait(&mut events, Duration::from_millis(50)).map_err(fault)?;
    }
}

/// How soon to try again what did not work.
const AGAIN: Duration = Duration::from_millis(100);

/// Connects to the coordinator, again and again until it is there.
fn greet(place: &Place, lanes: u32, deadline: Instant, wanted: &mut Wanted<'_>) -> Result<Socket, Absence> {
    let role = Role::Member { rank: place.rank, world: place.world, lanes };
    let mut unwanted = None;
    let mut stop = || {
        wanted().map_err(|absence| {
            let why = absence.why.clone();
            unwanted = Some(absence);
            why
        })
    };
    let reached = Greeting::reach(place.coordinator, (&place.trust, &place.job), &role, deadline, &mut stop);
    reached.map_err(|why| {
        unwanted.unwrap_or_else(|| {
            let what = format!("cannot join at the coordinator {}: {why}", place.coordinator);
            Absence::here(place.rank, &what)
        })
    })
}

impl Post {
    /// Shows that the member lives while it is not watched yet, and hears whether it is all over.
    pub(super) fn stay(&mut self, place: &Place) -> Result<(), Absence> {
        if self.said.elapsed() >= self.interval {
            self.said = Instant::now();
            self.line.say(&Up::Alive);
        }
        let closed = self.line.write().and_then(|()| self.line.read()).err();
        let lost = |why: String| Absence::here(place.rank, &format!("lost the coordinator: it {why}"));
        while let Some(message) = self.line.message::<Down>().map_err(lost)? {
            match message {
                Down::Roll { call } => {
                    self.line.say(&Up::Here { call, progress: Progress { begun: 0, over: 0 } });
                }
                Down::Verdict { blame, trouble } => return Err(Absence::new(format!("{blame} {trouble}"))),
                Down::Leave => return Err(lost("left before all had met".to_owned())),
                Down::Alive | Down::Meet { .. } => {}
            }
        }
        match closed {
            Some(how) => Err(lost(format!("closed its connection ({how})"))),
            None => Ok(()),
        }
    }

    fn wait(&mut self, events: &mut Events, most: Duration) -> Result<(), String> {
        match self.poll.poll(events, Some(most)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(format!("cannot wait: {error}")),
            _ => Ok(()),
        }
    }

    /// Keeps the connection on a thread of its own.
    pub(super) fn watch(
        self,
        patience: Patience,
        verdicts: Verdicts,
        gauge: Arc<Gauge>,
        hall: Option<Hall>,
    ) -> std::io::Result<Watch> {
        let (tell, told) = channel();
        let waker = Waker::new(self.poll.registry(), TOLD)?;
        let keeper = Keeper { post: self, verdicts, gauge, told, patience };
        let thread = std::thread::Builder::new().name("post".to_owned()).spawn(|| keeper.run())?;
        Ok(Watch { tell, waker, thread: Some(thread), _hall: hall })
    }
}

/// What the thread is told.
enum Tell {
    Report(u32, Trouble),
    Late(u64, Duration),
}

/// The thread, as the communicator sees it. When it is dropped, the member leaves; after it the coordinator, where it is
/// ours.
pub(super) struct Watch {
    tell: Sender<Tell>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    _hall: Option<Hall>,
}

impl Court for Watch {
    fn report(&self, peer: u32, trouble: Trouble) {
        self.tell(Tell::Report(peer, trouble));
    }

    fn late(&self, sequence: u64, elapsed: Duration) {
        self.tell(Tell::Late(sequence, elapsed));
    }
}

impl Watch {
    fn tell(&self, what: Tell) {
        // A thread that has ended has given its verdict.
        if self.tell.send(what).is_ok() {
            _ = self.waker.wake();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (nobody, _) = channel();
        self.tell = nobody;
        _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// The thread.
struct Keeper {
    post: Post,
    verdicts: Verdicts,
    gauge: Arc<Gauge>,
    told: Receiver<Tell>,
    patience: Patience,
}

impl Keeper {
    fn run(mut self) {
        let started = Instant::now();
        let mut member = Member::new(self.patience, started.elapsed());
        let mut events = Events::with_capacity(8);
        let (mut given, mut leaving) = (false, None);
        loop {
            if self.post.wait(&mut events, member.interval()).is_err() {
                return;
            }
            loop {
                match self.told.try_recv() {
                    Ok(Tell::Report(peer, trouble)) => member.report(peer, trouble),
                    Ok(Tell::Late(sequence, elapsed)) => member.late(sequence, elapsed),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        if leaving.is_none() {
                            member.leave();
                            leaving = Some(Instant::now());
                        }
                        break;
                    }
                }
            }
            let mut lost = self.post.line.read().err().map(|how| Trouble::closed(&how));
            loop {
                match self.post.line.message::<Down>() {
                    Ok(Some(message)) => member.heard(message, self.gauge.read(), started.elapsed()),
                    Ok(None) => break,
                    Err(what) => {
                        lost = Some(Trouble { kind: Kind::Corrupt, what });
                        break;
                    }
                }
            }
            member.tick(started.elapsed());
            member.say().iter().for_each(|message| self.post.line.say(message));
            let written = self.post.line.write().map_err(|how| Trouble::closed(&how));
            if let Some(trouble) = lost.or(written.err()) {
                member.lost(trouble);
            }
            if let Some((blame, trouble)) = member.verdict().filter(|_| !given) {
                self.verdicts.give(*blame, trouble.clone());
                given = true;
            }
            if member.alone() {
                // It waits until its members have heard it.
                _ = self.post.line.socket.shutdown();
            }
            let gone =
                member.alone() || given && member.verdict().is_some_and(|(b, _)| *b == Blame::Coordinator);
            let said = leaving
                .is_some_and(|since| self.post.line.said() || since.elapsed() > Duration::from_secs(1));
            if said || (gone && leaving.is_some()) {
                return;
            }
            if gone {
                // Nothing more comes; wait for the communicator to end.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
