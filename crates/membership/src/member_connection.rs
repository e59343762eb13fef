//! A member's connection to the coordinator, and the thread that keeps it.

use crate::Member;
use crate::arbiter::{Arbiter, Executor};
use crate::assembly::LONELY;
use crate::coordinator_thread::CoordinatorThread;
use crate::hooks::{Notice, Wanted};
use crate::meeting;
use crate::meeting::Listeners;
use crate::message::{Down, Listens, Progress, Up};
use crate::place::{Absence, Place};
use mio::{Events, Token, Waker};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Blame, Kind, Trouble};
use syncline_protocol::handshake::Role;
use syncline_protocol::heartbeat::{Patience, Pulse};
use syncline_protocol::settings::Settings;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::Handshaking;
use syncline_transport::socket::Socket;

const COORDINATOR: Token = Token(0);
const TOLD: Token = Token(1);

/// Who takes part in an epoch, and where each listens.
#[derive(Debug)]
pub struct Meet {
    /// The epoch.
    pub epoch: u16,
    /// Its ranks in ascending order, which is that of seats, and where each listens.
    pub members: Vec<(u32, Listens)>,
}

impl Meet {
    /// Its ranks, in ascending order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|&(rank, _)| rank)
    }

    /// A rank's seat, where it takes part.
    pub fn seat(&self, rank: u32) -> Option<usize> {
        self.members.binary_search_by_key(&rank, |&(rank, _)| rank).ok()
    }

    /// Where a rank listens, where it takes part.
    pub fn listens(&self, rank: u32) -> Option<&Listens> {
        self.seat(rank).map(|seat| &self.members[seat].1)
    }

    /// How many members are on a rank's machine, and which of them it is. Nobody knows where the machine does not say.
    pub fn neighbours(&self, rank: u32) -> Option<(usize, usize)> {
        let machine = self.listens(rank)?.machine.as_ref()?;
        let here = self.members.iter().filter(|(_, listens)| listens.machine.as_ref() == Some(machine));
        let ranks: Vec<u32> = here.map(|&(rank, _)| rank).collect();
        Some((ranks.len(), ranks.iter().position(|&other| other == rank)?))
    }
}

/// A member's connection to the coordinator.
pub struct MemberConnection {
    connection: ControlConnection,
    poll: Watcher,
    waker: Arc<Waker>,
    /// Signs of life before the thread gives them: to the coordinator, and of it.
    pulse: Pulse,
    started: Instant,
    /// Whether a peer was reported that cannot be reached.
    reported: bool,
    /// Who is at fault that an epoch ended before it had begun.
    verdict: Option<Blame>,
}

/// Goes to the coordinator, and waits there until an epoch begins.
pub fn enter(
    place: &Place,
    settings: Settings,
    wanted: &mut Wanted<'_>,
    notice: &mut Notice<'_>,
) -> Result<(MemberConnection, Meet, Listeners), Absence> {
    let deadline = Instant::now() + place.wait;
    let listeners = meeting::listen(place, settings.pace.lanes)?;
    loop {
        let mut post = MemberConnection::connect(place, settings, deadline, wanted, notice)?;
        post.connection.send(&Up::Listens(listeners.listens.clone()));
        // Whoever was cut off before a word was said tries again, and may be told why.
        if let Some(meet) = post.gather(place, settings, Some(deadline), (&mut *wanted, notice))? {
            return Ok((post, meet, listeners));
        }
    }
}

/// Ranks, as a sentence has them: some of them, where they are many.
fn named(ranks: &[u32]) -> String {
    const MOST: usize = 8;
    let some: Vec<String> = ranks.iter().take(MOST).map(u32::to_string).collect();
    match ranks.len() {
        1 => format!("rank {}", some[0]),
        many if many > MOST => format!("{many} ranks, such as {}", some.join(", ")),
        _ => format!("ranks {}", some.join(", ")),
    }
}

/// How soon to try again what did not work.
const AGAIN: Duration = Duration::from_millis(100);

/// Connects to the coordinator, again and again until it is there.
fn greet(
    place: &Place,
    lanes: u32,
    deadline: Instant,
    wanted: &mut Wanted<'_>,
    notice: &mut Notice<'_>,
) -> Result<Socket, Absence> {
    let role = Role::Member { rank: place.rank, world: place.world, lanes };
    let addresses = place.coordinator.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    let mut unwanted = None;
    let mut stop = || {
        wanted().map_err(|absence| {
            let why = absence.why.clone();
            unwanted = Some(absence);
            why
        })
    };
    let (began, mut wait) = (Instant::now(), LONELY);
    loop {
        let until = deadline.min(began + wait);
        let trust = (&place.trust, place.job.as_str());
        let shut = match Handshaking::reach(&place.coordinator, trust, &role, until, &mut stop) {
            Ok(socket) => return Ok(socket),
            Err(shut) => shut,
        };
        if shut.lasts || Instant::now() >= deadline {
            let what = format!("cannot join at the coordinator {addresses}: {}", shut.why);
            return Err(unwanted.unwrap_or_else(|| Absence::here(place.rank, &what)));
        }
        let waited = began.elapsed().as_secs_f64();
        notice(&format!(
            "rank {} has not reached rank 0 at {addresses} for {waited:.0} s: {}",
            place.rank, shut.why
        ));
        wait *= 2;
    }
}

impl MemberConnection {
    /// Goes to the coordinator.
    fn connect(
        place: &Place,
        settings: Settings,
        deadline: Instant,
        wanted: &mut Wanted<'_>,
        notice: &mut Notice<'_>,
    ) -> Result<Self, Absence> {
        let fault = |error: std::io::Error| Absence::here(place.rank, &format!("cannot wait: {error}"));
        let mut socket = greet(place, settings.pace.lanes, deadline, wanted, notice)?;
        let poll = Watcher::new().map_err(fault)?;
        socket.watch(poll.registry(), COORDINATOR).map_err(fault)?;
        let waker = Arc::new(Waker::new(poll.registry(), TOLD).map_err(fault)?);
        let mut pulse = Pulse::new(settings.patience, Duration::ZERO);
        pulse.join(0, Duration::ZERO);
        pulse.heard(0, Duration::ZERO);
        let (connection, started) = (ControlConnection::new(socket), Instant::now());
        Ok(Self { connection, poll, waker, pulse, started, reported: false, verdict: None })
    }

    /// Asks for the next epoch, and waits until it begins. The coordinator waits for `patience` for ranks that were lost.
    pub fn again(
        &mut self,
        place: &Place,
        settings: Settings,
        patience: Duration,
        wanted: &mut Wanted<'_>,
    ) -> Result<(Meet, Listeners), Absence> {
        (self.reported, self.verdict) = (false, None);
        // Until now the thread has heard it.
        self.pulse.heard(0, self.started.elapsed());
        let listeners = meeting::listen(place, settings.pace.lanes)?;
        let patience_ms = patience.as_millis() as u64;
        self.connection.send(&Up::Again { listens: listeners.listens.clone(), patience_ms });
        match self.gather(place, settings, None, (wanted, &mut |_| {}))? {
            Some(meet) => Ok((meet, listeners)),
            None => Err(Absence::here(place.rank, "was cut off by the coordinator")),
        }
    }

    /// Waits until an epoch begins; nothing, where a member that has just come was cut off at once. Such a member has a
    /// deadline; those of an epoch that is over leave it to the coordinator how long to wait.
    fn gather(
        &mut self,
        place: &Place,
        settings: Settings,
        deadline: Option<Instant>,
        (wanted, notice): (&mut Wanted<'_>, &mut Notice<'_>),
    ) -> Result<Option<Meet>, Absence> {
        let (lanes, first) = (settings.pace.lanes, deadline.is_some());
        let past = |more: Duration| deadline.is_some_and(|deadline| Instant::now() > deadline + more);
        let fault = |what: String| Absence::here(place.rank, &what);
        let lost = |why: String| fault(format!("lost the coordinator: it {why}"));
        let mut events = Events::with_capacity(8);
        let (began, mut begun) = (Instant::now(), false);
        loop {
            wanted()?;
            self.live();
            let closed = self.connection.write().and_then(|()| self.connection.read()).err();
            // What it said before it went counts.
            let message = self.connection.receive::<Down>().map_err(lost)?;
            let silence = self.silence(message.is_some());
            match message {
                Some(Down::Meet { epoch, members }) => {
                    let meet = Meet { epoch, members };
                    let complete = meet.members.is_sorted_by(|a, b| a.0 < b.0)
                        && meet.seat(place.rank).is_some()
                        && meet.ranks().all(|rank| rank < place.world)
                        && meet.members.iter().all(|(_, member)| member.lanes.len() == lanes as usize);
                    if !complete {
                        return Err(fault("was told of other members than there are".to_owned()));
                    }
                    return Ok(Some(meet));
                }
                // A newcomer may hear of the one whose place it takes.
                Some(Down::Verdict { blame, trouble }) if first && !begun => {
                    return Err(Absence::new(format!("{blame} {trouble}")));
                }
                Some(Down::Dismissed { why }) => return Err(fault(why)),
                Some(Down::Leave) => return Err(lost("left before all had come".to_owned())),
                Some(Down::Begun) => begun = true,
                Some(Down::Missing { ranks }) => {
                    let waited = began.elapsed().as_secs_f64();
                    notice(&format!(
                        "rank {} waits for {} ({waited:.0} s so far)",
                        place.rank,
                        named(&ranks)
                    ));
                }
                // What is still said of an epoch that is over.
                Some(Down::Alive | Down::Roll { .. } | Down::Verdict { .. } | Down::Waiting { .. }) => {}
                None => {
                    if let Some(how) = closed {
                        if first && began.elapsed() < AGAIN && !past(Duration::ZERO) {
                            std::thread::sleep(AGAIN);
                            return Ok(None);
                        }
                        return Err(lost(format!("closed its connection ({how})")));
                    }
                    if let Some(silence) = silence {
                        return Err(lost(silence.what));
                    }
                    // The coordinator knows who is missing: it may say so a little later.
                    if past(Duration::from_secs(2)) {
                        let why = match begun {
                            true => {
                                "waits for the job to begin another epoch, as its ranks have not done yet"
                            }
                            false => "waits for others, and the coordinator does not say for whom",
                        };
                        return Err(fault(why.to_owned()));
                    }
                    self.wait(&mut events, Duration::from_millis(50)).map_err(fault)?;
                }
            }
        }
    }

    /// Shows now and then that the member lives.
    fn live(&mut self) {
        if !self.pulse.due(self.started.elapsed()).is_empty() {
            self.connection.send(&Up::Alive);
        }
    }

    /// The coordinator's silence, if that is too long; it ends where it was `heard`.
    fn silence(&mut self, heard: bool) -> Option<Trouble> {
        let now = self.started.elapsed();
        if heard {
            self.pulse.heard(0, now);
        }
        self.pulse.silent(now).first().map(|&(_, silence)| Trouble::silent(silence))
    }

    /// Something is wrong with a peer before the epoch has begun.
    pub fn report(&mut self, peer: u32, trouble: Trouble) {
        self.reported = true;
        self.connection.send(&Up::Trouble { peer, trouble });
    }

    /// Whether this member has reported a peer that it cannot reach.
    pub const fn has_reported(&self) -> bool {
        self.reported
    }

    /// Whether a rank or a link is at fault that an epoch ended before it had begun: the next may do better.
    pub const fn may_go_on(&self) -> bool {
        matches!(self.verdict, Some(Blame::Rank(_) | Blame::Link(..) | Blame::Nobody))
    }

    /// Shows that the member lives while it is not watched yet, and hears whether it is all over.
    pub fn stay(&mut self, place: &Place) -> Result<(), Absence> {
        self.live();
        let closed = self.connection.write().and_then(|()| self.connection.read()).err();
        let lost = |why: String| Absence::here(place.rank, &format!("lost the coordinator: it {why}"));
        let mut heard = false;
        while let Some(message) = self.connection.receive::<Down>().map_err(lost)? {
            heard = true;
            match message {
                Down::Roll { call, .. } => {
                    self.connection.send(&Up::Here {
                        call,
                        progress: Progress::default(),
                        hears: Vec::new(),
                    });
                }
                Down::Verdict { blame, trouble } => {
                    self.verdict = Some(blame);
                    return Err(Absence::new(format!("{blame} {trouble}")));
                }
                Down::Leave => return Err(lost("left before all had met".to_owned())),
                Down::Dismissed { why } => return Err(Absence::here(place.rank, &why)),
                Down::Alive
                | Down::Meet { .. }
                | Down::Begun
                | Down::Missing { .. }
                | Down::Waiting { .. } => {}
            }
        }
        let silence = self.silence(heard).map(|trouble| trouble.what);
        match closed.map(|how| format!("closed its connection ({how})")).or(silence) {
            Some(why) => Err(lost(why)),
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
    pub fn watch(
        self,
        patience: Patience,
        executor: Box<dyn Executor>,
        hall: Option<CoordinatorThread>,
    ) -> std::io::Result<MemberThread> {
        let (tell, told) = channel();
        let waker = Arc::clone(&self.waker);
        let waiting = Arc::default();
        let keeper = MemberLoop { post: self, executor, told, patience, waiting: Arc::clone(&waiting) };
        let thread = std::thread::Builder::new().name("post".to_owned()).spawn(|| keeper.run())?;
        Ok(MemberThread { tell, waker, waiting, thread: Some(thread), hall })
    }
}

/// Why there is no other epoch, as a rule.
const LOST: &str = "has lost the coordinator: there is no other epoch without it";

/// What the thread is told.
enum Tell {
    Report(u32, Trouble),
    Late((u64, Vec<u32>), u64, Trouble),
    /// Give the connection back.
    Recall,
}

/// The thread, as the communicator sees it. When it is dropped, the member leaves; after it the coordinator, where it is
/// ours.
pub struct MemberThread {
    tell: Sender<Tell>,
    waker: Arc<Waker>,
    /// Ranks that wait for the next epoch.
    waiting: Arc<Mutex<Vec<u32>>>,
    thread: Option<JoinHandle<Result<MemberConnection, String>>>,
    hall: Option<CoordinatorThread>,
}

impl Arbiter for Arc<MemberThread> {
    fn report(&self, peer: u32, trouble: Trouble) {
        self.tell(Tell::Report(peer, trouble));
    }

    fn late(&self, group: (u64, Vec<u32>), sequence: u64, trouble: Trouble) {
        self.tell(Tell::Late(group, sequence, trouble));
    }
}

impl MemberThread {
    /// Ranks that wait for the next epoch.
    pub fn waiting(&self) -> Vec<u32> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the thread, without a word to the coordinator: the connection to it, unless it is lost, and the coordinator,
    /// where it is ours.
    ///
    /// # Errors
    /// A clause about this rank: why there is no connection any more.
    pub fn recall(mut self) -> (Result<MemberConnection, String>, Option<CoordinatorThread>) {
        self.tell(Tell::Recall);
        let lost = || Err(LOST.to_owned());
        let post = self.thread.take().map_or_else(lost, |thread| thread.join().unwrap_or_else(|_| lost()));
        (post, self.hall.take())
    }

    fn tell(&self, what: Tell) {
        // A thread that has ended has given its verdict.
        if self.tell.send(what).is_ok() {
            _ = self.waker.wake();
        }
    }
}

impl Drop for MemberThread {
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
struct MemberLoop {
    post: MemberConnection,
    executor: Box<dyn Executor>,
    told: Receiver<Tell>,
    patience: Patience,
    waiting: Arc<Mutex<Vec<u32>>>,
}

impl MemberLoop {
    /// Until the member leaves, or wants its connection back.
    fn run(mut self) -> Result<MemberConnection, String> {
        let started = Instant::now();
        let mut member = Member::new(self.patience, started.elapsed());
        let mut events = Events::with_capacity(8);
        let (mut given, mut ended, mut leaving) = (false, false, None);
        loop {
            if self.post.wait(&mut events, member.interval()).is_err() {
                return Err(LOST.to_owned());
            }
            loop {
                match self.told.try_recv() {
                    Ok(Tell::Report(peer, trouble)) => member.report(peer, trouble),
                    Ok(Tell::Late(group, sequence, trouble)) => member.late(group, sequence, trouble),
                    Ok(Tell::Recall) => {
                        let lost = member.verdict().is_some_and(|(blame, _)| *blame == Blame::Coordinator);
                        return match member.dismissed() {
                            Some(why) => Err(why.to_owned()),
                            None if lost || member.alone() => Err(LOST.to_owned()),
                            None => Ok(self.post),
                        };
                    }
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
            member.hears(self.executor.hears());
            let mut lost = self.post.connection.read().err().map(|how| Trouble::closed(&how));
            loop {
                match self.post.connection.receive::<Down>() {
                    Ok(Some(message)) => {
                        member.heard(message, |group| self.executor.progress(group), started.elapsed());
                    }
                    Ok(None) => break,
                    Err(what) => {
                        lost = Some(Trouble { kind: Kind::Corrupt, what });
                        break;
                    }
                }
            }
            member.tick(started.elapsed());
            if *member.waiting() != *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
                *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = member.waiting().to_vec();
            }
            member.say().iter().for_each(|message| self.post.connection.send(message));
            let written = self.post.connection.write().map_err(|how| Trouble::closed(&how));
            if let Some(trouble) = lost.or(written.err()) {
                member.lost(trouble);
            }
            if let Some((blame, trouble)) = member.verdict().filter(|_| !given) {
                self.executor.verdict(*blame, trouble.clone());
                given = true;
            }
            if member.alone() && !ended {
                self.executor.alone();
                ended = true;
            }
            let gone =
                member.alone() || given && member.verdict().is_some_and(|(b, _)| *b == Blame::Coordinator);
            if gone {
                // One that leaves waits until its members have heard it. One that is lost may hear us, where we do not hear it:
                // then it knows at once who is at fault.
                _ = self.post.connection.socket.shutdown();
            }
            let said = leaving.is_some_and(|since| {
                self.post.connection.close() || since.elapsed() > Duration::from_secs(1)
            });
            if said || (gone && leaving.is_some()) {
                return Err(LOST.to_owned());
            }
            if gone {
                // Nothing more comes; wait for the communicator to end.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
