//! Members meet over TCP: all go to the coordinator, learn where the others listen, and join each two of them with a
//! connection for each lane: shared memory where both are on one machine, TCP elsewhere.
//!
//! - [`place`]: where a member is, and where it finds the others;
//! - `greeting`: a handshake on a socket; `line`: what is said after it; `meeting`: connections for lanes; `near`: members on one machine;
//! - `hall`: the coordinator's thread; `post`: a member's thread for its connection to it.

pub(crate) mod greeting;
mod hall;
pub(crate) mod line;
mod meeting;
mod near;
pub mod place;
mod post;

use crate::executor::{Communicator, Settings};
use crate::shape::Book;
pub use place::{Absence, Place};
use std::net::SocketAddr;
use std::sync::Arc;

/// Joins the members of a job. Rank 0 is also the coordinator: it must be able to listen where the others look for it. Returns
/// once all are there and joined.
///
/// # Errors
/// Where not all come in time, one is refused, or a connection cannot be made: who, and why.
pub fn join(place: &Place, book: Book, settings: Settings) -> Result<Communicator, Absence> {
    join_announced(place, book, settings, |_| Ok(()))
}

/// The same, where rank 0 takes a port that is free: its coordinator's port is 0, and `announce` has to tell the others at
/// which address it really listens. Only rank 0 announces, before it waits for anybody.
///
/// # Errors
/// As [`join`]; and what `announce` says.
pub fn join_announced(
    place: &Place,
    book: Book,
    settings: Settings,
    announce: impl FnOnce(SocketAddr) -> Result<(), Absence>,
) -> Result<Communicator, Absence> {
    place.check(settings)?;
    let mut place = place.clone();
    let hall = (place.rank == 0).then(|| hall::open(&place, settings)).transpose()?;
    if let Some(hall) = &hall {
        place.coordinator = hall.address();
        announce(hall.address())?;
    }
    let (mut post, meet, listeners) = post::enter(&place, settings)?;
    let connections = meeting::join(&place, &meet, listeners, &mut post)?;
    let court = |verdicts, gauge| post.watch(settings.patience, verdicts, gauge, hall);
    Communicator::under(Arc::new(book), settings, meet.epoch, connections, court)
        .map_err(|error| Absence::here(place.rank, &format!("starts no threads: {error}")))
}
