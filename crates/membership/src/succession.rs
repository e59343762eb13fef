//! How a member of an elastic job finds its coordinator again after it lost it.
//!
//! Every member listens for a time when it has to coordinate ([`crate::coordinator_thread`]), and knows where the others of
//! the epoch do. The lowest rank that is left takes over. A member therefore asks one process after the other whether it
//! coordinates: first the old coordinator's, since the network may only have failed for a moment or another process may have
//! taken its place, then those of the other ranks in ascending order, until one admits it or it is its own turn.
//!
//! A process has ended if its host answers that nobody listens there. One that does not answer at all may live. Then the new
//! coordinator begins an epoch only if more ranks have found it than are silent ([`crate::Assembly`]), so that not two parts
//! of a job go on.
//!
//! While the network fails, a firewall may give that answer instead of the host. So it counts only if the connection to the
//! lost coordinator was closed: that of a process that ends is, and if the network fails it is silent.

use crate::assembly::TakeOver;
use crate::coordinator_thread::Standby;
use crate::member_settings::MemberSettings;
use crate::message::{CoordinatorPlace, FromCoordinator};
use crate::roster::Roster;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use syncline_protocol::handshake::Role;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::handshaking::{DialError, DialLimits, Handshaking, Identification};

/// How long a member waits before it asks a process again. Each pause is longer than the one before: many members may wait
/// for one that does not look for the coordinator yet.
const AGAIN: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// A process at the old coordinator's address that refuses for this long to coordinate is another one, if the old one has
/// closed its connection.
const REPLACED: Duration = Duration::from_millis(200);

/// How a member has lost a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its process has ended, or it has left the job.
    Ended,
    /// It is silent, and its process may live.
    Silent,
}

/// What a member needs to know to find its coordinator again.
#[derive(Clone, Debug)]
pub struct Succession {
    standby: Standby,
    /// Where the coordinator was last.
    place: CoordinatorPlace,
    /// The last epoch that this member knows, and where its ranks would coordinate. `None` before the first epoch.
    epoch: Option<(u16, Vec<CoordinatorPlace>)>,
    /// Coordinators that were lost since the last epoch.
    passed: BTreeMap<u32, Loss>,
}

/// Why a process that was asked does not coordinate this member.
#[derive(Debug)]
enum Unanswered {
    /// Nobody listens there: the process has ended.
    Ended,
    /// It does not answer.
    Silent,
    /// It does not coordinate, or does not admit this member now.
    NotYet,
    /// It says that the coordinator is elsewhere.
    Moved(CoordinatorPlace),
    /// It refuses this member for good.
    Refused(String),
    /// This member no longer looks for a coordinator.
    Stopped(String),
}

impl Succession {
    /// Creates the succession of a member that has joined at `place`.
    pub fn new(standby: Standby, place: CoordinatorPlace) -> Self {
        let succession = Self { standby, place, epoch: None, passed: BTreeMap::new() };
        succession.tell();
        succession
    }

    /// Tells this member's own coordinator thread where the coordinator is, for processes that ask it.
    fn tell(&self) {
        self.standby.set_coordinator(Some(self.place.clone()));
    }

    /// Where the coordinator is, or was last.
    pub fn place(&self) -> &CoordinatorPlace {
        &self.place
    }

    /// Where this member would coordinate.
    pub fn own_addresses(&self) -> &[SocketAddr] {
        &self.standby.place().addresses
    }

    /// Whether this member can find another coordinator if it loses this one: an epoch has begun.
    pub fn is_possible(&self) -> bool {
        self.epoch.is_some()
    }

    /// Notes that an epoch begins.
    pub fn begin(&mut self, roster: &Roster) {
        let place = |member: &crate::message::EpochMember| CoordinatorPlace {
            rank: member.rank,
            addresses: member.listens.coordinator.clone(),
        };
        self.epoch = Some((roster.epoch, roster.members.iter().map(place).collect()));
        self.passed.clear();
    }

    /// Notes that the coordinator is lost, before this member looks for another one. `left` says whether it has left the job.
    pub fn lose(&mut self, left: bool) {
        if left {
            self.passed.insert(self.place.rank, Loss::Ended);
        }
        // Others wait until this member looks for the coordinator, too.
        self.standby.set_coordinator(None);
    }

    /// Finds the coordinator again, or takes over. `connected` returns whether the connection to the old coordinator is not
    /// closed. Calls `stop` repeatedly, and gives up if that returns an error.
    ///
    /// # Errors
    /// A clause about this member: why it cannot go on.
    pub fn find(
        &mut self,
        member: &MemberSettings,
        silence: Duration,
        connected: &mut dyn FnMut() -> bool,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<ControlConnection, String> {
        self.standby.set_coordinator(None);
        let deadline = Instant::now() + member.wait;
        let mut stale_since: Option<(u32, Instant)> = None;
        let (began, mut replaced_since) = (Instant::now(), None::<Instant>);
        let (mut asked, mut pause) = (None, AGAIN);
        // The process to ask next, if it is not the first that is left.
        let mut next = (!self.passed.contains_key(&self.place.rank)).then(|| self.place.clone());
        loop {
            let Some((epoch, places)) = &self.epoch else {
                return Err("has lost the coordinator before the job began".to_owned());
            };
            let first = places.iter().find(|place| !self.passed.contains_key(&place.rank));
            let Some(place) = next.take().or_else(|| first.cloned()) else {
                return Err("has lost the coordinator, and no other rank is left".to_owned());
            };
            let before = asked.replace(place.rank);
            pause = if before == asked { (2 * pause).min(LONGEST_PAUSE) } else { AGAIN };
            let own = place.rank == member.rank;
            let mut addresses = &place.addresses[..];
            if own {
                self.standby.take_over(self.take_over(*epoch, places), places);
                addresses = self.standby.own_addresses();
            }
            let role = Role::Survivor { rank: member.rank, coordinator: place.rank, epoch: *epoch };
            match ask(member, addresses, &role, silence, stop) {
                Ok(connection) => {
                    self.place = place;
                    self.tell();
                    return Ok(connection);
                }
                Err(Unanswered::Stopped(why)) => return Err(why),
                Err(Unanswered::Refused(why)) => return Err(format!("cannot go on: {why}")),
                Err(Unanswered::Silent) => _ = self.passed.insert(place.rank, Loss::Silent),
                // Neither answer is the old coordinator's while the connection to it is open, unless it is about to notice
                // that it has lost this member, too.
                Err(Unanswered::Ended | Unanswered::NotYet) if place == self.place && !own && connected() => {
                    if began.elapsed() > 2 * silence {
                        _ = self.passed.insert(place.rank, Loss::Silent);
                    } else {
                        next = Some(place.clone());
                    }
                }
                Err(Unanswered::Ended) => {
                    let trusted = self.passed.values().all(|&loss| loss == Loss::Ended);
                    _ = self.passed.insert(place.rank, if trusted { Loss::Ended } else { Loss::Silent });
                }
                // The old coordinator would answer. So another process listens in its place, or it is ending just now.
                Err(Unanswered::NotYet) if place == self.place && !own => {
                    if replaced_since.get_or_insert_with(Instant::now).elapsed() > REPLACED {
                        _ = self.passed.insert(place.rank, Loss::Ended);
                    } else {
                        next = Some(place.clone());
                    }
                }
                Err(Unanswered::NotYet) => {}
                Err(Unanswered::Moved(to))
                    if self.passed.contains_key(&to.rank) || to.rank == member.rank =>
                {
                    let (lost, since) = *stale_since.get_or_insert((to.rank, Instant::now()));
                    // If that coordinator were lost for all, the other rank would know it by now.
                    if lost == to.rank && since.elapsed() > 2 * silence + Duration::from_secs(1) {
                        let rank = place.rank;
                        return Err(format!("has lost the coordinator, which rank {rank} still hears"));
                    }
                }
                Err(Unanswered::Moved(to)) => next = Some(to),
            }
            if Instant::now() > deadline {
                let waited = member.wait.as_secs_f64();
                let rank = place.rank;
                return Err(format!(
                    "has lost the coordinator, and rank {rank} has not taken over within {waited:.0} s"
                ));
            }
            std::thread::sleep(pause);
        }
    }

    /// What this member knows when it takes over.
    fn take_over(&self, epoch: u16, places: &[CoordinatorPlace]) -> TakeOver {
        let survivors = places.iter().map(|place| place.rank).filter(|rank| !self.passed.contains_key(rank));
        let silent = self.passed.iter().filter(|&(_, &loss)| loss == Loss::Silent).map(|(&rank, _)| rank);
        let members = places.iter().map(|place| place.rank);
        let (members, survivors) = (members.collect(), survivors.collect());
        TakeOver { epoch, members, survivors, silent: silent.collect() }
    }
}

/// Asks a process to coordinate this member, at each of its addresses. It answers within `silence`, if it lives.
fn ask(
    member: &MemberSettings,
    addresses: &[SocketAddr],
    role: &Role,
    silence: Duration,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<ControlConnection, Unanswered> {
    let mut ended = !addresses.is_empty();
    for &address in addresses {
        match ask_at(member, address, role, silence, stop) {
            Err(Unanswered::Ended) => {}
            Err(Unanswered::Silent) => ended = false,
            answer => return answer,
        }
    }
    Err(if ended { Unanswered::Ended } else { Unanswered::Silent })
}

/// Asks a process at one of its addresses.
fn ask_at(
    member: &MemberSettings,
    address: SocketAddr,
    role: &Role,
    silence: Duration,
    stop: &mut dyn FnMut() -> Result<(), String>,
) -> Result<ControlConnection, Unanswered> {
    let began = Instant::now();
    let own = Identification { trust: &member.trust, job: &member.job };
    let limits = DialLimits { connect: silence, answer: 2 * silence };
    let socket = Handshaking::dial(address, own, role, limits, stop).map_err(|error| match error {
        DialError::NobodyListens(_) => Unanswered::Ended,
        DialError::NoAnswer(_) => Unanswered::Silent,
        DialError::Failed(shut) if shut.permanent => Unanswered::Refused(shut.why),
        // A process that ends meanwhile closes the connection: the next try finds nobody.
        DialError::Failed(_) => Unanswered::NotYet,
        DialError::Stopped(why) => Unanswered::Stopped(why),
    })?;
    // The coordinator says that the job has begun; others say where the coordinator is.
    let mut connection = ControlConnection::new(socket);
    loop {
        let closed = connection.read().is_err();
        match connection.receive() {
            Ok(Some(FromCoordinator::Moved(place))) => return Err(Unanswered::Moved(place)),
            Ok(Some(_)) => return Ok(connection),
            Ok(None) if !closed && began.elapsed() > 2 * silence => return Err(Unanswered::Silent),
            Ok(None) if !closed => {
                stop().map_err(Unanswered::Stopped)?;
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(None) | Err(_) => return Err(Unanswered::NotYet),
        }
    }
}
