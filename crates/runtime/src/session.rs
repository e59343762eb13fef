//! Members meet over TCP: all go to the coordinator, learn where the others listen, and join each two of them with a
//! connection for each lane: shared memory where both are on one machine, TCP elsewhere.
//!
//! - [`place`]: where a member is, and where it finds the others;
//! - `greeting`: a handshake on a socket; `porch`: those with strangers at a door; `line`: what is said after it;
//! - `meeting`: connections for lanes; `near`: members on one machine;
//! - `hall`: the coordinator's thread; `post`: a member's thread for its connection to it.

pub(crate) mod greeting;
mod hall;
pub(crate) mod line;
mod meeting;
mod near;
pub mod place;
pub(crate) mod porch;
mod post;

use crate::executor::{Communicator, Settings};
use crate::shape::Book;
pub use place::{Absence, Place};
use std::net::SocketAddr;
use std::sync::Arc;

/// Asked now and then: an error where the member is not to go on.
type Wanted<'a> = dyn FnMut() -> Result<(), Absence> + 'a;

/// Joins the members of a job. Rank 0 is also the coordinator: it must be able to listen where the others look for it. Returns
/// once all are there and joined.
///
/// # Errors
/// Where not all come in time, one is refused, or a connection cannot be made: who, and why.
pub fn join(place: &Place, book: Book, settings: Settings) -> Result<Communicator, Absence> {
    join_with(place, book, settings, &mut |_| Ok(()), &mut || true)
}

/// As [`join`]. Where the coordinator's port is 0, rank 0 takes one that is free: `announce` has to tell the others at which
/// address it really listens, and is called before rank 0 waits for anybody. Members go on as long as `wanted` says so, which is
/// asked about every 50 ms.
///
/// # Errors
/// As [`join`]; what `announce` says; and where the member is not wanted any more.
pub fn join_with(
    place: &Place,
    book: Book,
    settings: Settings,
    announce: &mut dyn FnMut(SocketAddr) -> Result<(), Absence>,
    wanted: &mut dyn FnMut() -> bool,
) -> Result<Communicator, Absence> {
    place.check(settings)?;
    let mut place = place.clone();
    let gives_up = Absence::here(place.rank, "was told to give up");
    let mut wanted = || if wanted() { Ok(()) } else { Err(gives_up.clone()) };
    let hall = (place.rank == 0).then(|| hall::open(&place, settings)).transpose()?;
    if let Some(hall) = &hall {
        place.coordinator = hall.address();
        announce(hall.address())?;
    }
    let (mut post, meet, listeners) = post::enter(&place, settings, &mut wanted)?;
    let connections = meeting::join(&place, &meet, listeners, &mut post, &mut wanted)?;
    let court = |verdicts, gauge| post.watch(settings.patience, verdicts, gauge, hall);
    Communicator::under(Arc::new(book), settings, meet.epoch, connections, court)
        .map_err(|error| Absence::here(place.rank, &format!("starts no threads: {error}")))
}
