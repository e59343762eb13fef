//! Ends a connection without losing bytes that were sent on it.
//!
//! If a socket is closed while received bytes are unread, the system discards bytes that are on their way to the
//! peer. TLS also buffers some in this process. So the connection is read until the peer ends it too, and stays open
//! as long as the peer takes what was sent.

use super::{Connection, Halt, Intake};
use std::io::{self, IoSliceMut};
use std::time::{Duration, Instant};

/// How long a peer that has received everything may take to end the connection.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// The longest time that a connection stays open while the peer takes bytes slowly.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// A connection that is being ended.
#[derive(Debug)]
pub(super) struct Closing {
    silence: Duration,
    began: Instant,
    /// Whether the sending direction has ended.
    finished: bool,
    /// Bytes that the peer has not received yet, and when this number changed last.
    left: usize,
    since: Instant,
}

impl Closing {
    /// Begins to end a connection. Gives up if the peer takes nothing for longer than `silence`.
    pub(super) fn new(silence: Duration) -> Self {
        let now = Instant::now();
        Self { silence, began: now, finished: false, left: 0, since: now }
    }

    /// Advances the shutdown. Call until it returns true: the connection may then be closed. `waiting` is the number of
    /// bytes that the caller has not passed to the connection yet.
    pub(super) fn advance(&mut self, connection: &mut Connection, waiting: usize) -> bool {
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
        let patience = if left > 0 { self.silence } else { LAST_WAIT };
        self.since.elapsed() > patience || self.began.elapsed() > MAX_DURATION
    }
}

/// An intake that discards received bytes.
struct Discard([u8; 4096]);

impl Intake for Discard {
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

/// Reads and discards what the peer has sent. Returns whether the peer has ended the connection, or it is broken. The
/// number of reads is limited, however much the peer sends.
pub(super) fn ended(connection: &mut Connection) -> bool {
    const MAX_READS: usize = 64;
    for _ in 0..MAX_READS {
        // The poll may not report this connection any more, so look for bytes and the end without an event.
        connection.end_wait();
        match connection.receive(&mut Discard([0; 4096])) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(halt) => return !halt.would_block(),
        }
    }
    false
}
