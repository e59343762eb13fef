//! A member's connection to the coordinator.

use crate::assembly::FIRST_NOTICE_AFTER;
use crate::coordinator_thread::Standby;
use crate::hooks::{Notice, Wanted};
use crate::join_error::JoinError;
use crate::listeners::{self, Listeners};
use crate::member::PlanNews;
use crate::member_settings::MemberSettings;
use crate::message::{CoordinatorPlace, FromCoordinator, FromMember, Progress};
use crate::roster::Roster;
use crate::succession::Succession;
use mio::{Events, Token, Waker};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::handshake::Role;
use syncline_protocol::heartbeat::{Heartbeats, Patience};
use syncline_protocol::settings::Settings;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::{Handshaking, Identification};
use syncline_transport::socket::Socket;
use syncline_units::rank_list;

/// Why no other epoch can begin without the coordinator.
pub(crate) const LOST: &str = "has lost the coordinator, without which no other epoch can begin";

const COORDINATOR: Token = Token(0);
const WAKER: Token = Token(1);

/// A member's connection to the coordinator.
pub struct MemberConnection {
    pub(crate) control: ControlConnection,
    poll: Watcher,
    pub(crate) waker: Arc<Waker>,
    /// Heartbeats to and from the coordinator, while no [`MemberThread`](crate::member_thread::MemberThread) serves the connection.
    heartbeats: Heartbeats,
    started: Instant,
    /// Whether this member has reported a peer that it cannot reach.
    reported: bool,
    /// Who is at fault, if the epoch failed before all lanes were connected.
    verdict: Option<Blame>,
    /// How this member finds its coordinator again; `None` unless the job is elastic.
    succession: Option<Succession>,
    /// Whether the coordinator is lost, and this member has not found another one yet.
    lost: bool,
    /// What the coordinator has said about plans of this epoch before its lanes were connected.
    pub(crate) plan_news: Vec<PlanNews>,
}

/// Joins at the coordinator, and waits until an epoch begins. `standby` is this member's own coordinator thread; `None`
/// unless the job is elastic.
pub fn enter(
    member: &MemberSettings,
    settings: Settings,
    standby: Option<&Standby>,
    wanted: &mut Wanted<'_>,
    notice: &mut Notice<'_>,
) -> Result<(MemberConnection, Roster, Listeners), JoinError> {
    let deadline = Instant::now() + member.wait;
    let own = standby.map_or(&[][..], |standby| &standby.place().addresses);
    let listeners = listeners::listen(member, settings.flow.lanes, own)?;
    let first = CoordinatorPlace { rank: member.coordinator_rank, addresses: member.coordinator.clone() };
    let mut place = first.clone();
    loop {
        // The process to which this member was sent may have ended meanwhile.
        let soon = Instant::now() + 2 * settings.patience.silence;
        let until = if place == first { deadline } else { deadline.min(soon) };
        let connected = MemberConnection::connect(member, settings, &place, until, wanted, notice);
        let mut connection = match connected {
            // The process at the first address may know another one.
            Err(_) if place != first && Instant::now() < deadline => {
                wanted()?;
                std::thread::sleep(RETRY);
                place = first.clone();
                continue;
            }
            connected => connected?,
        };
        connection.succession = standby.map(|standby| Succession::new(standby.clone(), place.clone()));
        connection.control.send(&FromMember::ListenAddresses(listeners.listens.clone()));
        match connection.wait_for_epoch(member, settings, Some(deadline), &mut *wanted, notice)? {
            Waited::Begun(roster) => return Ok((connection, roster, listeners)),
            // Try again: the coordinator may then say why.
            Waited::Disconnected => {}
            Waited::Lost => place = first.clone(),
            Waited::Moved(to) => {
                if Instant::now() > deadline {
                    let what =
                        format!("was sent on by rank {}, and has not reached a coordinator", place.rank);
                    return Err(JoinError::about_rank(member.rank, &what));
                }
                // Two processes may send it to and fro while the coordinator changes.
                std::thread::sleep(RETRY);
                place = to;
            }
        }
    }
}

/// What ends a member's wait for an epoch.
enum Waited {
    /// The epoch begins.
    Begun(Roster),
    /// Another process coordinates the job.
    Moved(CoordinatorPlace),
    /// The coordinator disconnected a member that has just joined, without a message.
    Disconnected,
    /// The coordinator of a running job is lost, and another one may take over.
    Lost,
}

/// How long to wait before another try to join.
const RETRY: Duration = Duration::from_millis(100);

/// Connects to the coordinator. Tries again until it listens, or until the deadline.
fn connect_to_coordinator(
    member: &MemberSettings,
    lanes: u32,
    place: &CoordinatorPlace,
    deadline: Instant,
    wanted: &mut Wanted<'_>,
    notice: &mut Notice<'_>,
) -> Result<Socket, JoinError> {
    let role = Role::Member { rank: member.rank, world: member.world, lanes, coordinator: place.rank };
    let addresses = place.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    let mut gave_up = None;
    let mut stop = || {
        wanted().map_err(|error| {
            let why = error.why.clone();
            gave_up = Some(error);
            why
        })
    };
    let (began, mut wait) = (Instant::now(), FIRST_NOTICE_AFTER);
    loop {
        let until = deadline.min(began + wait);
        let own = Identification { trust: &member.trust, job: &member.job };
        let shut = match Handshaking::reach(&place.addresses, own, &role, until, &mut stop) {
            Ok(socket) => return Ok(socket),
            Err(shut) => shut,
        };
        if shut.permanent || Instant::now() >= deadline {
            let what = format!("cannot reach the coordinator {addresses}: {}", shut.why);
            return Err(gave_up.unwrap_or_else(|| JoinError::about_rank(member.rank, &what)));
        }
        let waited = began.elapsed().as_secs_f64();
        notice(&format!(
            "rank {} has not reached rank {} at {addresses} for {waited:.0} s: {}",
            member.rank, place.rank, shut.why
        ));
        wait *= 2;
    }
}

impl MemberConnection {
    /// Connects to the coordinator.
    fn connect(
        member: &MemberSettings,
        settings: Settings,
        place: &CoordinatorPlace,
        deadline: Instant,
        wanted: &mut Wanted<'_>,
        notice: &mut Notice<'_>,
    ) -> Result<Self, JoinError> {
        let fault = |error: std::io::Error| {
            JoinError::about_rank(member.rank, &format!("cannot wait for the coordinator: {error}"))
        };
        let mut socket =
            connect_to_coordinator(member, settings.flow.lanes, place, deadline, wanted, notice)?;
        let poll = Watcher::new().map_err(fault)?;
        socket.watch(poll.registry(), COORDINATOR).map_err(fault)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(fault)?);
        let mut heartbeats = Heartbeats::new(settings.patience, Duration::ZERO);
        heartbeats.join(0, Duration::ZERO);
        heartbeats.heard(0, Duration::ZERO);
        let (control, started) = (ControlConnection::new(socket), Instant::now());
        Ok(Self {
            control,
            poll,
            waker,
            heartbeats,
            started,
            reported: false,
            verdict: None,
            succession: None,
            lost: false,
            plan_news: Vec::new(),
        })
    }

    /// The rank in whose process the coordinator runs.
    pub fn host(&self) -> u32 {
        self.succession.as_ref().map_or(0, |succession| succession.place().rank)
    }

    /// Whether this member can find another coordinator if it loses this one.
    pub fn can_find_another(&self) -> bool {
        self.succession.as_ref().is_some_and(Succession::is_possible)
    }

    /// Notes that the coordinator is lost. `left` says whether it has announced that it leaves.
    pub fn lose(&mut self, left: bool) {
        self.lost = true;
        if let Some(succession) = &mut self.succession {
            succession.lose(left);
        }
    }

    /// In an elastic job, tells a silent coordinator, which may live, that this member will look for another one. Otherwise
    /// it would take this member for one that has ended, and might go on beside it.
    fn leave_silent_coordinator(&mut self, member: &MemberSettings, silence: &Trouble) {
        if self.succession.is_some() {
            let what = format!("does not hear the coordinator, which {}", silence.what);
            let trouble = Trouble { kind: FaultKind::Silent, what };
            self.control.send(&FromMember::Trouble { peer: member.rank, trouble });
            // Fails only if the connection has ended.
            _ = self.control.write();
        }
    }

    /// Finds the coordinator again, or takes over. Calls `stop` repeatedly, and gives up if that returns an error.
    ///
    /// # Errors
    /// A clause about this member: why it cannot go on.
    pub fn find_coordinator(
        &mut self,
        member: &MemberSettings,
        patience: Patience,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(succession) = &mut self.succession else { return Err(LOST.to_owned()) };
        let old = &mut self.control;
        let mut control = succession.find(member, patience.silence, &mut || old.read().is_ok(), stop)?;
        let watched = control.socket.watch(self.poll.registry(), COORDINATOR);
        watched.map_err(|error| format!("cannot wait for the coordinator: {error}"))?;
        self.control = control;
        self.started = Instant::now();
        self.heartbeats = Heartbeats::new(patience, Duration::ZERO);
        self.heartbeats.join(0, Duration::ZERO);
        self.heartbeats.heard(0, Duration::ZERO);
        self.lost = false;
        Ok(())
    }

    /// Asks for the next epoch, and waits until it begins. The coordinator waits up to `patience` for lost ranks to
    /// come back.
    pub fn request_epoch(
        &mut self,
        member: &MemberSettings,
        settings: Settings,
        patience: Duration,
        wanted: &mut Wanted<'_>,
    ) -> Result<(Roster, Listeners), JoinError> {
        (self.reported, self.verdict) = (false, None);
        // Until now the thread has received the coordinator's heartbeats.
        self.heartbeats.heard(0, self.started.elapsed());
        let own = self.succession.as_ref().map_or(&[][..], Succession::own_addresses);
        let listeners = listeners::listen(member, settings.flow.lanes, own)?;
        let patience_ms = patience.as_millis() as u64;
        loop {
            if self.lost {
                let mut gave_up = None;
                let mut stop = || wanted().map_err(|error| gave_up.insert(error).why.clone());
                let found = self.find_coordinator(member, settings.patience, &mut stop);
                found.map_err(|why| gave_up.unwrap_or_else(|| JoinError::about_rank(member.rank, &why)))?;
            }
            let listens = listeners.listens.clone();
            self.control.send(&FromMember::RequestEpoch { listens, patience_ms });
            match self.wait_for_epoch(member, settings, None, wanted, &mut |_| {})? {
                Waited::Begun(roster) => return Ok((roster, listeners)),
                Waited::Lost => {}
                Waited::Moved(_) | Waited::Disconnected => {
                    return Err(JoinError::about_rank(member.rank, "was disconnected by the coordinator"));
                }
            }
        }
    }

    /// Waits until an epoch begins. A member that has just joined has a `deadline`; for a member of an earlier epoch,
    /// the coordinator decides how long to wait.
    fn wait_for_epoch(
        &mut self,
        member: &MemberSettings,
        settings: Settings,
        deadline: Option<Instant>,
        wanted: &mut Wanted<'_>,
        notice: &mut Notice<'_>,
    ) -> Result<Waited, JoinError> {
        let (lanes, first) = (settings.flow.lanes, deadline.is_some());
        let past = |more: Duration| deadline.is_some_and(|deadline| Instant::now() > deadline + more);
        let fault = |what: String| JoinError::about_rank(member.rank, &what);
        let lost = |why: String| fault(format!("lost the coordinator: it {why}"));
        let mut events = Events::with_capacity(8);
        let (began, mut begun) = (Instant::now(), false);
        loop {
            wanted()?;
            self.send_heartbeat();
            let closed = self.control.write().and_then(|()| self.control.read()).err();
            // If the connection has ended, still handle the messages that arrived before.
            let message = self.control.receive::<FromCoordinator>().map_err(lost)?;
            let silence = self.silence(message.is_some());
            match message {
                Some(FromCoordinator::BeginEpoch { epoch, members }) => {
                    self.plan_news.clear();
                    let roster = Roster { epoch, members };
                    let valid = roster.members.is_sorted_by(|a, b| a.rank < b.rank)
                        && roster.seat(member.rank).is_some()
                        && roster.ranks().all(|rank| rank < member.world)
                        && roster.members.iter().all(|each| each.listens.lanes.len() == lanes as usize);
                    if !valid {
                        return Err(fault(
                            "received an invalid list of members from the coordinator".to_owned(),
                        ));
                    }
                    if let Some(succession) = &mut self.succession {
                        succession.begin(&roster);
                    }
                    return Ok(Waited::Begun(roster));
                }
                // After the job has begun, the verdict may be about the lost process whose rank this one takes.
                Some(FromCoordinator::Verdict { blame, trouble }) if first && !begun => {
                    return Err(JoinError::new(format!("{blame} {trouble}")));
                }
                Some(FromCoordinator::Dismissed { why }) => return Err(fault(why)),
                Some(FromCoordinator::Leave) => {
                    let error = lost("left before all ranks had joined".to_owned());
                    return self.lose_or_fail(error, true, begun);
                }
                Some(FromCoordinator::Moved(place)) => return Ok(Waited::Moved(place)),
                Some(FromCoordinator::Begun) => begun = true,
                Some(FromCoordinator::Missing { ranks }) => {
                    let waited = began.elapsed().as_secs_f64();
                    notice(&format!(
                        "rank {} waits for {} ({waited:.0} s so far)",
                        member.rank,
                        rank_list(&ranks)
                    ));
                }
                // Messages about an epoch that is over.
                Some(
                    FromCoordinator::Alive
                    | FromCoordinator::ProgressRequest { .. }
                    | FromCoordinator::PreparePlans { .. }
                    | FromCoordinator::DecidePlans(_)
                    | FromCoordinator::Verdict { .. }
                    | FromCoordinator::Waiting { .. },
                ) => {}
                None => {
                    if let Some(how) = closed {
                        if first && began.elapsed() < RETRY && !past(Duration::ZERO) {
                            std::thread::sleep(RETRY);
                            return Ok(Waited::Disconnected);
                        }
                        let error = lost(format!("closed its connection ({how})"));
                        return self.lose_or_fail(error, false, begun);
                    }
                    if let Some(silence) = silence {
                        self.leave_silent_coordinator(member, &silence);
                        return self.lose_or_fail(lost(silence.what), false, begun);
                    }
                    // The coordinator knows which ranks are missing, and may say so a little after the deadline.
                    if past(Duration::from_secs(2)) {
                        let why = match begun {
                            true => {
                                "timed out: the running ranks did not begin a new epoch (call `renew` on them)"
                            }
                            false => "timed out while waiting for other ranks; the coordinator sent no list",
                        };
                        return Err(fault(why.to_owned()));
                    }
                    self.wait(&mut events, Duration::from_millis(50)).map_err(fault)?;
                }
            }
        }
    }

    /// Notes that the coordinator is lost. Fails if there cannot be another one. `left` says whether it has announced that it
    /// leaves, and `begun` whether this member has just joined a running job.
    fn lose_or_fail(&mut self, error: JoinError, left: bool, begun: bool) -> Result<Waited, JoinError> {
        self.lose(left);
        let another = self.can_find_another() || (begun && self.succession.is_some());
        if another { Ok(Waited::Lost) } else { Err(error) }
    }

    /// Sends a heartbeat to the coordinator, if one is due.
    fn send_heartbeat(&mut self) {
        if !self.heartbeats.due(self.started.elapsed()).is_empty() {
            self.control.send(&FromMember::Alive);
        }
    }

    /// Returns the coordinator's silence, if it has lasted too long. `heard` says that a message has arrived, which
    /// ends it.
    fn silence(&mut self, heard: bool) -> Option<Trouble> {
        let now = self.started.elapsed();
        if heard {
            self.heartbeats.heard(0, now);
        }
        self.heartbeats.silent(now).first().map(|&(_, silence)| Trouble::silent(silence))
    }

    /// Reports trouble with a peer to the coordinator, before all lanes are connected.
    pub fn report(&mut self, peer: u32, trouble: Trouble) {
        self.reported = true;
        self.control.send(&FromMember::Trouble { peer, trouble });
    }

    /// Whether this member has reported a peer that it cannot reach.
    pub const fn has_reported(&self) -> bool {
        self.reported
    }

    /// Whether another epoch may succeed after this one failed before all lanes were connected: a rank or a link is
    /// at fault, or there can be another coordinator.
    pub fn may_go_on(&self) -> bool {
        let lost = self.lost && self.can_find_another();
        lost || matches!(self.verdict, Some(Blame::Rank(_) | Blame::Link { .. } | Blame::SomeRank))
    }

    /// Exchanges messages with the coordinator while lanes are being connected. Call it often, so that the
    /// coordinator gets heartbeats and answers.
    ///
    /// # Errors
    /// The coordinator is lost, has left, has dismissed this member, or has sent a verdict.
    pub fn exchange(&mut self, member: &MemberSettings) -> Result<(), JoinError> {
        self.send_heartbeat();
        let closed = self.control.write().and_then(|()| self.control.read()).err();
        let lost =
            |why: String| JoinError::about_rank(member.rank, &format!("lost the coordinator: it {why}"));
        let mut heard = false;
        while let Some(message) = self.control.receive::<FromCoordinator>().map_err(lost)? {
            heard = true;
            match message {
                FromCoordinator::ProgressRequest { call, .. } => {
                    self.control.send(&FromMember::Progress {
                        call,
                        progress: Progress::default(),
                        hears: Vec::new(),
                    });
                }
                FromCoordinator::Verdict { blame, trouble } => {
                    self.verdict = Some(blame);
                    return Err(JoinError::new(format!("{blame} {trouble}")));
                }
                FromCoordinator::Leave => {
                    self.lose(true);
                    return Err(lost("left before all ranks were connected".to_owned()));
                }
                FromCoordinator::Dismissed { why } => return Err(JoinError::about_rank(member.rank, &why)),
                // Other ranks have connected all lanes, and already work.
                FromCoordinator::PreparePlans { edition, proposal } => {
                    self.plan_news.push(PlanNews::Prepare { edition, proposal });
                }
                FromCoordinator::DecidePlans(decision) => self.plan_news.push(PlanNews::Decide(decision)),
                FromCoordinator::Alive
                | FromCoordinator::BeginEpoch { .. }
                | FromCoordinator::Begun
                | FromCoordinator::Moved(_)
                | FromCoordinator::Missing { .. }
                | FromCoordinator::Waiting { .. } => {}
            }
        }
        let silence = self.silence(heard);
        if let Some(silence) = silence.as_ref().filter(|_| closed.is_none()) {
            self.leave_silent_coordinator(member, silence);
        }
        let silence = silence.map(|trouble| trouble.what);
        match closed.map(|how| format!("closed its connection ({how})")).or(silence) {
            Some(why) => {
                self.lose(false);
                Err(lost(why))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn wait(&mut self, events: &mut Events, most: Duration) -> Result<(), String> {
        match self.poll.poll(events, Some(most)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                Err(format!("cannot wait for the coordinator: {error}"))
            }
            _ => Ok(()),
        }
    }
}
