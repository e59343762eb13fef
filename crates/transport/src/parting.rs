//! The end of a connection on which nothing more is to be sent.
//!
//! To close it with bytes unread would take back bytes that are on their way to the peer, and TLS keeps some in this process:
//! so it is read until the peer ends, too, and kept as long as the peer takes what was sent.

use super::{Connection, Halt, Intake};
use std::io::{self, IoSliceMut};
use std::time::{Duration, Instant};

/// How long a peer that has got everything has to end the connection.
const MOMENT: Duration = Duration::from_millis(200);

/// How long a peer may take at most, however little it takes at a time.
const MOST: Duration = Duration::from_secs(60);

/// How far a connection is with its end.
#[derive(Debug)]
pub(super) struct Parting {
    silence: Duration,
    began: Instant,
    finished: bool,
    /// Bytes that the peer has still to get, and since when it is that many.
    left: usize,
    since: Instant,
}

impl Parting {
    /// It begins to end. A peer that takes nothing for longer than `silence` is not waited for.
    pub(super) fn new(silence: Duration) -> Self {
        let now = Instant::now();
        Self { silence, began: now, finished: false, left: 0, since: now }
    }

    /// Whether the connection may go; to be asked again and again. `waiting` bytes are still to be given to it.
    pub(super) fn over(&mut self, connection: &mut Connection, waiting: usize) -> bool {
        if waiting == 0 && !self.finished {
            self.finished = true;
            if connection.finish().is_err() {
                return true;
            }
        }
        if ended(connection) {
            return true;
        }
        let left = waiting + connection.unsent();
        if left != self.left {
            (self.left, self.since) = (left, Instant::now());
        }
        let patience = if left > 0 { self.silence } else { MOMENT };
        self.since.elapsed() > patience || self.began.elapsed() > MOST
    }
}

/// Takes bytes and forgets them.
struct Waste([u8; 4096]);

impl Intake for Waste {
    fn fill(
        &mut self,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, Halt> {
        Ok(read(&mut [IoSliceMut::new(&mut self.0)])?)
    }

    fn take(&mut self, _: &[u8]) -> Result<(), Halt> {
        Ok(())
    }
}

/// Takes what a peer has sent, and forgets it; whether the peer has ended, too. Not for ever, however much it sends.
pub(super) fn ended(connection: &mut Connection) -> bool {
    const LOOKS: usize = 64;
    for _ in 0..LOOKS {
        // Nobody tells any more: it is asked.
        connection.rouse();
        match connection.receive(&mut Waste([0; 4096])) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(halt) => return !halt.waits(),
        }
    }
    false
}
