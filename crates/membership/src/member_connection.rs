//! A member's connection to the coordinator.

use crate::assembly::FIRST_NOTICE_AFTER;
use crate::hooks::{Notice, Wanted};
use crate::join_error::JoinError;
use crate::listeners::{self, Listeners};
use crate::member::PlanNews;
use crate::member_settings::MemberSettings;
use crate::message::{FromCoordinator, FromMember, Progress};
use crate::roster::Roster;
use mio::{Events, Token, Waker};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Blame, Trouble};
use syncline_protocol::handshake::Role;
use syncline_protocol::heartbeat::Heartbeats;
use syncline_protocol::settings::Settings;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::forks::Watcher;
use syncline_transport::handshaking::{Handshaking, Identification};
use syncline_transport::socket::Socket;
use syncline_units::rank_list;

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
    /// What the coordinator has said about plans of this epoch before its lanes were connected.
    pub(crate) plan_news: Vec<PlanNews>,
}

/// Joins at the coordinator, and waits until an epoch begins.
pub fn enter(
    member: &MemberSettings,
    settings: Settings,
    wanted: &mut Wanted<'_>,
    notice: &mut Notice<'_>,
) -> Result<(MemberConnection, Roster, Listeners), JoinError> {
    let deadline = Instant::now() + member.wait;
    let listeners = listeners::listen(member, settings.flow.lanes)?;
    loop {
        let mut connection = MemberConnection::connect(member, settings, deadline, wanted, notice)?;
        connection.control.send(&FromMember::ListenAddresses(listeners.listens.clone()));
        // `None` means that the coordinator disconnected this member without a message. Try again: it may then say why.
        if let Some(roster) =
            connection.wait_for_epoch(member, settings, Some(deadline), &mut *wanted, notice)?
        {
            return Ok((connection, roster, listeners));
        }
    }
}

/// How long to wait before another try to join.
const RETRY: Duration = Duration::from_millis(100);

/// Connects to the coordinator. Tries again until it listens, or until the deadline.
fn connect_to_coordinator(
    member: &MemberSettings,
    lanes: u32,
    deadline: Instant,
    wanted: &mut Wanted<'_>,
    notice: &mut Notice<'_>,
) -> Result<Socket, JoinError> {
    let role = Role::Member { rank: member.rank, world: member.world, lanes };
    let addresses = member.coordinator.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
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
        let shut = match Handshaking::reach(&member.coordinator, own, &role, until, &mut stop) {
            Ok(socket) => return Ok(socket),
            Err(shut) => shut,
        };
        if shut.permanent || Instant::now() >= deadline {
            let what = format!("cannot reach the coordinator {addresses}: {}", shut.why);
            return Err(gave_up.unwrap_or_else(|| JoinError::about_rank(member.rank, &what)));
        }
        let waited = began.elapsed().as_secs_f64();
        notice(&format!(
            "rank {} has not reached rank 0 at {addresses} for {waited:.0} s: {}",
            member.rank, shut.why
        ));
        wait *= 2;
    }
}

impl MemberConnection {
    /// Connects to the coordinator.
    fn connect(
        member: &MemberSettings,
        settings: Settings,
        deadline: Instant,
        wanted: &mut Wanted<'_>,
        notice: &mut Notice<'_>,
    ) -> Result<Self, JoinError> {
        let fault = |error: std::io::Error| {
            JoinError::about_rank(member.rank, &format!("cannot wait for the coordinator: {error}"))
        };
        let mut socket = connect_to_coordinator(member, settings.flow.lanes, deadline, wanted, notice)?;
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
            plan_news: Vec::new(),
        })
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
        let listeners = listeners::listen(member, settings.flow.lanes)?;
        let patience_ms = patience.as_millis() as u64;
        self.control.send(&FromMember::RequestEpoch { listens: listeners.listens.clone(), patience_ms });
        match self.wait_for_epoch(member, settings, None, wanted, &mut |_| {})? {
            Some(roster) => Ok((roster, listeners)),
            None => Err(JoinError::about_rank(member.rank, "was disconnected by the coordinator")),
        }
    }

    /// Waits until an epoch begins. A member that has just joined has a `deadline`; for a member of an earlier epoch,
    /// the coordinator decides how long to wait. Returns `None` if a member that has just joined was disconnected at
    /// once.
    fn wait_for_epoch(
        &mut self,
        member: &MemberSettings,
        settings: Settings,
        deadline: Option<Instant>,
        wanted: &mut Wanted<'_>,
        notice: &mut Notice<'_>,
    ) -> Result<Option<Roster>, JoinError> {
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
                    return Ok(Some(roster));
                }
                // After the job has begun, the verdict may be about the lost process whose rank this one takes.
                Some(FromCoordinator::Verdict { blame, trouble }) if first && !begun => {
                    return Err(JoinError::new(format!("{blame} {trouble}")));
                }
                Some(FromCoordinator::Dismissed { why }) => return Err(fault(why)),
                Some(FromCoordinator::Leave) => {
                    return Err(lost("left before all ranks had joined".to_owned()));
                }
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
                            return Ok(None);
                        }
                        return Err(lost(format!("closed its connection ({how})")));
                    }
                    if let Some(silence) = silence {
                        return Err(lost(silence.what));
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
    /// at fault, and not the coordinator.
    pub const fn may_go_on(&self) -> bool {
        matches!(self.verdict, Some(Blame::Rank(_) | Blame::Link { .. } | Blame::SomeRank))
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
                | FromCoordinator::Missing { .. }
                | FromCoordinator::Waiting { .. } => {}
            }
        }
        let silence = self.silence(heard).map(|trouble| trouble.what);
        match closed.map(|how| format!("closed its connection ({how})")).or(silence) {
            Some(why) => Err(lost(why)),
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
