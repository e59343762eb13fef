//! Joins the members of a job. All members connect to the coordinator and learn where the others listen. Each
//! two of them make one connection for each lane: shared memory if both are on one machine, else TCP. In an epoch of
//! many ranks they make it when it is first needed, otherwise before the epoch begins.

use super::communicator::Communicator;
use super::state::LostInput;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use syncline_membership::connector_thread::OnDemand;
use syncline_membership::coordinator_thread::{self, CoordinatorThread};
use syncline_membership::hooks::{Hooks, Wanted};
use syncline_membership::join_error::JoinError;
use syncline_membership::lane_connector;
use syncline_membership::listeners::Listeners;
use syncline_membership::member_connection::{self, MemberConnection};
use syncline_membership::member_settings::MemberSettings;
use syncline_membership::member_thread::MemberThread;
use syncline_membership::roster::Roster;
use syncline_protocol::plan_book::PlanBook;
use syncline_protocol::settings::Settings;
use syncline_transport::affinity;

/// Makes the book of an epoch, from this member's place among the ranks that take part and from those ranks,
/// in ascending order.
pub type Books<'a> = dyn FnMut(u32, &[u32]) -> syncline_diagnostics::Result<PlanBook> + 'a;

/// A member of a job: a [`Communicator`] of the ranks that take part in this epoch, which can begin the next
/// epoch.
pub struct Session {
    communicator: Communicator,
    member_thread: Arc<MemberThread>,
    member: MemberSettings,
    settings: Settings,
    ranks: Vec<u32>,
    epoch: u16,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session(rank {} of {:?} in epoch {})", self.member.rank, self.ranks, self.epoch)
    }
}

impl Deref for Session {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

/// Joins a job. Rank 0 is also the coordinator: it must be able to listen where the others look for it.
/// Returns once all members have joined. If the job is [elastic](MemberSettings::elastic) and has begun already,
/// returns once the others have begun an epoch with this member.
///
/// # Errors
/// A member does not come in time or is refused, or a connection cannot be made. The error says which, and
/// why.
pub fn join(
    member: &MemberSettings,
    books: &mut Books<'_>,
    settings: Settings,
) -> Result<Session, JoinError> {
    let (announce, wanted, notice) = (&mut |_: &[SocketAddr]| Ok(()), &mut || true, &mut |_: &str| {});
    join_with(member, books, settings, Hooks { announce, wanted, notice })
}

/// As [`join`], and calls hooks while it waits.
///
/// # Errors
/// As [`join`]; the error of [`Hooks::announce`]; and if [`Hooks::wanted`] returns false.
pub fn join_with(
    member: &MemberSettings,
    books: &mut Books<'_>,
    settings: Settings,
    hooks: Hooks<'_>,
) -> Result<Session, JoinError> {
    let Hooks { announce, wanted, notice } = hooks;
    member.check(settings)?;
    let mut member = member.clone();
    // Find invalid plans before the first connection.
    let all: Vec<u32> = (0..member.world).collect();
    books(member.rank, &all).map_err(|error| JoinError::invalid(error.to_string()))?;
    let mut wanted = check_wanted(&member, wanted);
    let first = member.rank == member.coordinator_rank;
    let may_coordinate = first || member.elastic;
    let coordinator = may_coordinate.then(|| coordinator_thread::open(&member, settings)).transpose()?;
    if let Some(coordinator) = coordinator.as_ref().filter(|_| first) {
        member.coordinator = coordinator.addresses().to_vec();
        announce(coordinator.addresses())?;
    }
    let standby = coordinator.as_ref().filter(|_| member.elastic).map(CoordinatorThread::standby);
    let (connection, roster, listeners) =
        member_connection::enter(&member, settings, standby.as_ref(), &mut wanted, notice)?;
    match connect_members(&member, settings, books, connection, (roster, listeners), &mut wanted) {
        Ok(epoch) => epoch.into_session(member, settings, coordinator),
        Err((connection, error)) if member.elastic && connection.may_go_on() => {
            let job = Rejoining { member, settings, connection, coordinator, patience: Duration::ZERO };
            job.begin_next_epoch(books, error, &mut wanted)
        }
        Err((_, error)) => Err(error),
    }
}

impl Session {
    /// The ranks that take part in this epoch, by their places in it. They keep the numbers with which the
    /// job began.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The number of this epoch; the job's first is 0.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Ranks that wait for the next epoch, as far as this rank knows: they were started again, or have called
    /// [`Session::renew`].
    pub fn waiting(&self) -> Vec<u32> {
        self.member_thread.waiting()
    }

    /// The addresses on which this process coordinates the job; `None` if another one does.
    pub fn coordinates_at(&self) -> Option<Vec<SocketAddr>> {
        self.member_thread.coordinates_at()
    }

    /// Why no other epoch can begin, if none can.
    pub fn renewal_blocker(&self) -> Option<String> {
        if !self.member.elastic {
            return Some("the job is not elastic: all ranks must join with `elastic`".to_owned());
        }
        let LostInput { sequence, operation } = self.communicator.consumed()?;
        Some(format!(
            "the input of operation {sequence} ({operation}) is lost: the operation was begun without `keep`"
        ))
    }

    /// Ends this epoch, and begins the next with all ranks that are there: survivors that the coordinator
    /// lets go on, and ranks that came back. Every rank that takes part must call this, at the same step of
    /// its work. The coordinator waits for lost ranks for up to `patience`; zero means that it does not wait.
    /// Operations and transfers under way fail.
    ///
    /// If two ranks are both alive but cannot reach each other, the lower one stays in the job. A rank that
    /// is lost while the epoch begins is left behind, too.
    ///
    /// # Errors
    /// As [`join`]; the coordinator is lost; this rank is left behind; or no other epoch can begin
    /// ([`Session::renewal_blocker`]). The member has left the job then.
    pub fn renew(
        self,
        books: &mut Books<'_>,
        patience: Duration,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Self, JoinError> {
        if let Some(why) = self.renewal_blocker() {
            return Err(JoinError::invalid(format!("no other epoch can begin: {why}")));
        }
        let Self { communicator, member_thread, member, settings, .. } = self;
        drop(communicator);
        let member_thread =
            Arc::into_inner(member_thread).expect("the communicator has dropped its link to the coordinator");
        let mut wanted = check_wanted(&member, wanted);
        let (connection, coordinator) = member_thread.recall(&mut wanted)?;
        let connection = connection.map_err(|why| JoinError::about_rank(member.rank, &why))?;
        let not_tried = JoinError::about_rank(member.rank, "has not tried to begin an epoch");
        let job = Rejoining { member, settings, connection, coordinator, patience };
        job.begin_next_epoch(books, not_tried, &mut wanted)
    }
}

/// Turns [`Hooks::wanted`] into a check that fails once the caller no longer wants to join.
fn check_wanted<'a>(
    member: &MemberSettings,
    wanted: &'a mut dyn FnMut() -> bool,
) -> impl FnMut() -> Result<(), JoinError> + use<'a> {
    let stopped = JoinError::about_rank(member.rank, "was cancelled while joining");
    move || if wanted() { Ok(()) } else { Err(stopped.clone()) }
}

/// A member between two epochs.
struct Rejoining {
    member: MemberSettings,
    settings: Settings,
    connection: MemberConnection,
    /// The coordinator's thread, on rank 0 and in elastic jobs.
    coordinator: Option<CoordinatorThread>,
    /// How long the coordinator waits for lost ranks.
    patience: Duration,
}

impl Rejoining {
    /// Tries to begin an epoch until one begins or none can. `last` is the error of the try before.
    fn begin_next_epoch(
        self,
        books: &mut Books<'_>,
        mut last: JoinError,
        wanted: &mut Wanted<'_>,
    ) -> Result<Session, JoinError> {
        // Each try leaves a rank behind or gains one.
        const MORE: u32 = 3;
        let Self { member, settings, mut connection, coordinator, patience } = self;
        for _ in 0..member.world.saturating_add(MORE) {
            let (roster, listeners) = connection.request_epoch(&member, settings, patience, wanted)?;
            match connect_members(&member, settings, books, connection, (roster, listeners), wanted) {
                Ok(epoch) => return epoch.into_session(member, settings, coordinator),
                Err((returned, error)) if returned.may_go_on() => (connection, last) = (returned, error),
                Err((_, error)) => return Err(error),
            }
        }
        Err(last)
    }
}

/// Chooses a CPU for each lane of a member. Empty if lanes are not pinned, or there are too few CPUs.
fn cpus(member: &MemberSettings, roster: &Roster, lanes: usize) -> Vec<usize> {
    let (neighbours, which) = roster.neighbours(member.rank).filter(|_| member.pin).unzip();
    let chosen = neighbours.zip(which).and_then(|(neighbours, which)| {
        affinity::choose(
            &affinity::allowed(),
            neighbours,
            which,
            lanes,
            crc32c::crc32c(member.job.as_bytes()),
        )
    });
    chosen.unwrap_or_default()
}

/// The settings of an epoch: callers poll only if each member on this machine has a CPU to itself. Otherwise they would take
/// the CPU from those for whose messages they wait.
fn without_crowded_polling(member: &MemberSettings, roster: &Roster, settings: Settings) -> Settings {
    let crowded =
        roster.neighbours(member.rank).is_some_and(|(neighbours, _)| neighbours > affinity::allowed().len());
    let polling = if crowded { Duration::ZERO } else { settings.polling };
    Settings { polling, ..settings }
}

/// An epoch whose members are connected, or can be.
struct ConnectedEpoch {
    connection: MemberConnection,
    roster: Arc<Roster>,
    book: PlanBook,
    /// By lane and seat.
    connections: Vec<Vec<Option<syncline_transport::Connection>>>,
    /// Makes connections when they are first needed, if there are not all.
    on_demand: Option<OnDemand>,
}

/// Connects this member with the others of an epoch, or prepares to, if there are many. On failure, returns the
/// connection to the coordinator with the error.
fn connect_members(
    member: &MemberSettings,
    settings: Settings,
    books: &mut Books<'_>,
    mut connection: MemberConnection,
    (roster, listeners): (Roster, Listeners),
    wanted: &mut Wanted<'_>,
) -> Result<ConnectedEpoch, (MemberConnection, JoinError)> {
    let ranks: Vec<u32> = roster.ranks().collect();
    let seat = roster.seat(member.rank).unwrap_or_default() as u32;
    let book = match books(seat, &ranks) {
        Ok(book) => book.called(ranks),
        Err(error) => return Err((connection, JoinError::invalid(error.to_string()))),
    };
    let roster = Arc::new(roster);
    let made = if roster.members.len() > member.mesh as usize {
        let none = || roster.members.iter().map(|_| None).collect();
        OnDemand::new(member, &roster, listeners, settings.patience.silence)
            .map(|on_demand| ((0..settings.flow.lanes).map(|_| none()).collect(), Some(on_demand)))
    } else {
        lane_connector::connect(member, &roster, listeners, &mut connection, wanted)
            .map(|connections| (connections, None))
    };
    match made {
        Ok((connections, on_demand)) => {
            Ok(ConnectedEpoch { connection, roster, book, connections, on_demand })
        }
        Err(error) => Err((connection, error)),
    }
}

impl ConnectedEpoch {
    /// Starts the communicator's threads, and hands the connection to the coordinator to a thread.
    fn into_session(
        self,
        member: MemberSettings,
        settings: Settings,
        coordinator: Option<CoordinatorThread>,
    ) -> Result<Session, JoinError> {
        let Self { connection, roster, book, connections, on_demand } = self;
        let mut started = None;
        let link = |executor| {
            let thread =
                MemberThread::start(connection, member.clone(), settings.patience, executor, coordinator)?;
            let thread = Arc::new(thread);
            started = Some(Arc::clone(&thread));
            Ok(thread)
        };
        let cpus = cpus(&member, &roster, connections.len());
        let communicator = Communicator::with_coordinator(
            Arc::new(book),
            without_crowded_polling(&member, &roster, settings),
            roster.epoch,
            (connections, on_demand),
            cpus,
            link,
        )
        .map_err(|error| JoinError::about_rank(member.rank, &format!("cannot start threads: {error}")))?;
        let member_thread = started.expect("the communicator has its link to the coordinator");
        let ranks = roster.ranks().collect();
        Ok(Session { communicator, member_thread, member, settings, ranks, epoch: roster.epoch })
    }
}
