//! Members of a job meet: all connect to the coordinator, learn where the others listen, and connect each two of them with one
//! connection for each lane: shared memory where both are on one machine, TCP elsewhere.

use crate::Communicator;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use syncline_membership::coordinator_thread::{self, CoordinatorThread};
use syncline_membership::hooks::{Hooks, Wanted};
use syncline_membership::meeting::{self, Listeners};
use syncline_membership::member_connection::{self, Meet, MemberConnection, MemberThread};
use syncline_membership::place::{Absence, Place};
use syncline_protocol::settings::Settings;
use syncline_protocol::shape::Book;
use syncline_transport::affinity;

/// Makes the book of an epoch: of this member's place among the ranks that take part, and those ranks, in their order.
pub type Books<'a> = dyn FnMut(u32, &[u32]) -> syncline_diagnostics::Result<Book> + 'a;

/// A member of a job: a [`Communicator`] of the ranks that take part in this epoch, and the way to the next.
pub struct Session {
    communicator: Communicator,
    watch: Arc<MemberThread>,
    place: Place,
    settings: Settings,
    ranks: Vec<u32>,
    epoch: u16,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session(rank {} of {:?} in epoch {})", self.place.rank, self.ranks, self.epoch)
    }
}

impl Deref for Session {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

/// Joins the members of a job. Rank 0 is also the coordinator: it must be able to listen where the others look for it. Returns
/// once all are there and joined; in a job that is [elastic](Place::elastic) and has begun, once the others have begun an
/// epoch with this member.
///
/// # Errors
/// Where not all come in time, one is refused, or a connection cannot be made: who, and why.
pub fn join(place: &Place, books: &mut Books<'_>, settings: Settings) -> Result<Session, Absence> {
    let (announce, wanted, notice) = (&mut |_: &[SocketAddr]| Ok(()), &mut || true, &mut |_: &str| {});
    join_with(place, books, settings, Hooks { announce, wanted, notice })
}

/// As [`join`], and calls hooks meanwhile.
///
/// # Errors
/// As [`join`]; what [`Hooks::announce`] says; and where the member is not wanted any more.
pub fn join_with(
    place: &Place,
    books: &mut Books<'_>,
    settings: Settings,
    hooks: Hooks<'_>,
) -> Result<Session, Absence> {
    let Hooks { announce, wanted, notice } = hooks;
    place.check(settings)?;
    let mut place = place.clone();
    // What is invalid for all ranks is said before anybody is called.
    let all: Vec<u32> = (0..place.world).collect();
    books(place.rank, &all).map_err(|error| Absence::nonsense(error.to_string()))?;
    let mut wanted = wishes(&place, wanted);
    let hall = (place.rank == 0).then(|| coordinator_thread::open(&place, settings)).transpose()?;
    if let Some(hall) = &hall {
        place.coordinator = hall.addresses().to_vec();
        announce(hall.addresses())?;
    }
    let (post, meet, listeners) = member_connection::enter(&place, settings, &mut wanted, notice)?;
    match begin(&place, books, (post, meet, listeners), &mut wanted) {
        Ok(begun) => begun.session(place, settings, hall),
        Err((post, absence)) if place.elastic && post.may_go_on() => {
            go_on(place, settings, books, (post, hall), absence, Duration::ZERO, &mut wanted)
        }
        Err((_, absence)) => Err(absence),
    }
}

impl Session {
    /// The ranks that take part in this epoch, by their places in it: what ranks were when the job began.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Counts the epochs of the job, from 0.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Ranks that wait for the next epoch, as far as is known here: such as were started again, or have asked for it.
    pub fn waiting(&self) -> Vec<u32> {
        self.watch.waiting()
    }

    /// Why there can be no other epoch, if that is so.
    pub fn binds(&self) -> Option<String> {
        if !self.place.elastic {
            return Some("the job is not elastic".to_owned());
        }
        let (sequence, operation) = self.communicator.consumed()?;
        Some(format!("the input of operation {sequence} ({operation}) was not to be kept, and is gone"))
    }

    /// Ends this epoch, and begins the next with all ranks that are there: survivors, those that came back, and those that
    /// the coordinator lets go on. Every rank that is to take part has to call it, at the same step of its work. Ranks that
    /// were lost are waited for as long as `patience` says, which is not at all where it is zero. What is under way fails.
    ///
    /// Where only nothing goes through between two ranks, the lower one stays. A rank that is lost while the epoch begins is
    /// left behind, too.
    ///
    /// # Errors
    /// As [`join`]; where the coordinator is lost; where this rank is left behind; and where there can be no other epoch
    /// ([`Session::binds`]). The member has left the job then.
    pub fn renew(
        self,
        books: &mut Books<'_>,
        patience: Duration,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Self, Absence> {
        if let Some(why) = self.binds() {
            return Err(Absence::nonsense(format!("there is no other epoch: {why}")));
        }
        let Self { communicator, watch, place, settings, .. } = self;
        drop(communicator);
        let watch = Arc::into_inner(watch).expect("a communicator that is gone has no court");
        let (post, hall) = watch.recall();
        let mut wanted = wishes(&place, wanted);
        let post = post.map_err(|why| Absence::here(place.rank, &why))?;
        let never = Absence::here(place.rank, "never met the others");
        go_on(place, settings, books, (post, hall), never, patience, &mut wanted)
    }
}

/// Asks whether the member is to go on.
fn wishes<'a>(
    place: &Place,
    wanted: &'a mut dyn FnMut() -> bool,
) -> impl FnMut() -> Result<(), Absence> + use<'a> {
    let gives_up = Absence::here(place.rank, "was told to give up");
    move || if wanted() { Ok(()) } else { Err(gives_up.clone()) }
}

/// Tries to begin one epoch after the other, until one has begun, or none can; `why` the last did not, then.
fn go_on(
    place: Place,
    settings: Settings,
    books: &mut Books<'_>,
    (mut post, hall): (MemberConnection, Option<CoordinatorThread>),
    mut why: Absence,
    patience: Duration,
    wanted: &mut Wanted<'_>,
) -> Result<Session, Absence> {
    // Each try leaves somebody behind, or meets somebody new.
    const MORE: u32 = 3;
    for _ in 0..place.world.saturating_add(MORE) {
        let (meet, listeners) = post.again(&place, settings, patience, wanted)?;
        match begin(&place, books, (post, meet, listeners), wanted) {
            Ok(begun) => return begun.session(place, settings, hall),
            Err((back, absence)) if back.may_go_on() => (post, why) = (back, absence),
            Err((_, absence)) => return Err(absence),
        }
    }
    Err(why)
}

/// The CPUs of a member's lanes, where each is to have one.
fn cpus(place: &Place, meet: &Meet, lanes: usize) -> Vec<usize> {
    let (neighbours, which) = meet.neighbours(place.rank).filter(|_| place.pin).unzip();
    let chosen = neighbours.zip(which).and_then(|(neighbours, which)| {
        affinity::choose(&affinity::allowed(), neighbours, which, lanes, crc32c::crc32c(place.job.as_bytes()))
    });
    chosen.unwrap_or_default()
}

/// An epoch that has begun.
struct Begun {
    post: MemberConnection,
    meet: Meet,
    book: Book,
    connections: Vec<Vec<Option<syncline_transport::Connection>>>,
}

/// Joins this member with the others of an epoch. The connection to the coordinator comes back where that fails.
fn begin(
    place: &Place,
    books: &mut Books<'_>,
    (mut post, meet, listeners): (MemberConnection, Meet, Listeners),
    wanted: &mut Wanted<'_>,
) -> Result<Begun, (MemberConnection, Absence)> {
    let ranks: Vec<u32> = meet.ranks().collect();
    let seat = meet.seat(place.rank).unwrap_or_default() as u32;
    let book = match books(seat, &ranks) {
        Ok(book) => book.called(ranks),
        Err(error) => return Err((post, Absence::nonsense(error.to_string()))),
    };
    match meeting::join(place, &meet, listeners, &mut post, wanted) {
        Ok(connections) => Ok(Begun { post, meet, book, connections }),
        Err(absence) => Err((post, absence)),
    }
}

impl Begun {
    fn session(
        self,
        place: Place,
        settings: Settings,
        hall: Option<CoordinatorThread>,
    ) -> Result<Session, Absence> {
        let Self { post, meet, book, connections } = self;
        let mut kept = None;
        let arbiter = |executor| {
            let watch = Arc::new(post.watch(settings.patience, executor, hall)?);
            kept = Some(Arc::clone(&watch));
            Ok(watch)
        };
        let cpus = cpus(&place, &meet, connections.len());
        let communicator =
            Communicator::under(Arc::new(book), settings, meet.epoch, connections, cpus, arbiter)
                .map_err(|error| Absence::here(place.rank, &format!("starts no threads: {error}")))?;
        let watch = kept.expect("a communicator under a court");
        let ranks = meet.ranks().collect();
        Ok(Session { communicator, watch, place, settings, ranks, epoch: meet.epoch })
    }
}
