//! What carries bytes between processes of a job.
//!
//! - [`Transport`]: what a lane's thread asks of a connection;
//! - [`socket`]: TCP and Unix sockets; `tls`: encryption on them; [`certificates`], [`trust`]: who may connect;
//! - `ring`: memory that two processes share; [`shared`]: a transport on it, for members on one host; [`same_host`]: how they
//!   find each other;
//! - [`congestion`]: TCP's congestion control;
//! - [`wires`]: the connections of one thread; [`bell`]: wakes it; `parting`: the end of a connection; `queued`: bytes that a
//!   socket has still to deliver;
//! - [`handshaking`]: a handshake on a socket; [`pending_handshakes`]: those of peers that are not admitted yet;
//!   [`control_connection`]: messages after it; [`random`]: nonces;
//! - [`affinity`]: a CPU for each thread; [`descriptors`]: how many a process may have; [`forks`]: forked children.

pub mod affinity;
pub mod bell;
pub mod certificates;
pub mod congestion;
pub mod control_connection;
pub mod descriptors;
pub mod forks;
pub mod handshaking;
mod parting;
pub mod pending_handshakes;
#[cfg(target_os = "linux")]
mod queued;
pub mod random;
#[cfg(target_os = "linux")]
mod ring;
pub mod same_host;
#[cfg(target_os = "linux")]
pub mod shared;
pub mod socket;
mod tls;
pub mod trust;
pub mod wires;

use mio::event::Event;
use mio::{Registry, Token};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use syncline_protocol::fault::{Broken, Kind, Trouble};

/// A connection between a lane of this member and the same lane of a peer: two streams of bytes, one each way, in order and
/// without gaps. It never blocks. A lane's thread owns it, and asks it in turn with others.
///
/// What a transport has to keep, whatever carries its bytes:
///
/// - **Order.** Bytes arrive as they were sent, each once. What was sent before the peer ended arrives before the end does.
/// - **Ends.** A peer whose process ends is found at once, by an end or an error of [`Transport::receive`], also where
///   nothing is sent. A host that goes silent is found by the signs of life that lanes send on every connection.
/// - **Wake-ups.** What the thread waits for is a `mio` poll. A transport registers what makes it wake
///   ([`Transport::watch`]), and is asked before the thread waits whether it may ([`Transport::rest`]).
/// - **Memory.** [`Transport::send`] has read what it took when it returns, so that a message may be overwritten;
///   what is lent to an [`Intake`] stays as it is until the call returns.
///
/// **RDMA** (InfiniBand, RoCE; there is none here yet) fits like this. Each side registers a ring of memory with its
/// adapter, as in `shared`, and tells the other address and key on the connection over which they met, which stays open
/// beside it. `send` copies into a registered ring of its own, or takes the tensor's memory where that is registered, and
/// posts one-sided writes into the peer's ring, the last of them with immediate data that says how far it is written; it
/// counts bytes as sent once they are posted from the ring, or once their completion has come where they were posted from
/// tensors. `receive` polls the completion queue and lends the ring's memory to the intake, then writes back how far it has
/// read. The completion channel's file is what `watch` registers, and `rest` asks for the next event of it and polls once
/// more. A queue pair in its error state, or the end of the connection beside it, is the end. The adapter checks what it
/// carries: [`Transport::checked`] is false.
pub trait Transport: fmt::Debug + Send {
    /// What it is, for people.
    fn describe(&self) -> String;

    /// Whether payloads have checksums: not where bytes stay in this machine's memory, or TLS or
    /// hardware checks them.
    fn checked(&self) -> bool {
        true
    }

    /// Lets a poll tell when there is something to read, or room to write.
    ///
    /// # Errors
    /// As the system says.
    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()>;

    /// No more of that.
    ///
    /// # Errors
    /// As the system says.
    fn unwatch(&mut self, registry: &Registry) -> io::Result<()>;

    /// The poll has told of it.
    fn told(&mut self, event: &Event);

    /// Gives some of what has come to `intake`, and says how much; 0 is the end. Not all that there is: others wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where there is nothing yet; what the intake says; [`io::ErrorKind::InvalidData`] where
    /// the peer breaks the transport's own rules; anything else where the connection is broken.
    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt>;

    /// Takes bytes to send, from several places, one after the other, and says how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where there is no room yet; else as [`Transport::receive`].
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// The thread is about to wait, for bytes where it `reads`, for room where it `writes`: whether it need not, because
    /// there are some.
    fn rest(&mut self, reads: bool, writes: bool) -> bool {
        _ = (reads, writes);
        false
    }

    /// The thread waits no longer.
    fn rouse(&mut self) {}

    /// Whether a thread that has nothing to do may hear of more without waiting: where asking costs next to nothing.
    fn lively(&self) -> bool {
        false
    }

    /// Bytes that [`Transport::send`] took and that the peer's machine has not got, as far as that is known: what would be lost
    /// if the connection ended now. What waits to be written is written, if there is room.
    fn unsent(&mut self) -> usize {
        0
    }

    /// Sends no more: the peer gets an end behind what was sent.
    ///
    /// # Errors
    /// Where the connection is broken.
    fn finish(&mut self) -> io::Result<()>;
}

/// A connection, whatever carries it.
pub type Connection = Box<dyn Transport>;

/// Where received bytes go.
pub trait Intake {
    /// Has `read` called with memory to read to, once: first where the bytes belong, if that is known, then some to spare.
    ///
    /// # Errors
    /// What `read` says, or that the bytes cannot be believed.
    fn fill(
        &mut self,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, Halt>;

    /// Takes bytes that lie in memory of the transport.
    ///
    /// # Errors
    /// Where they cannot be believed.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Halt>;
}

/// Why nothing was received.
#[derive(Debug)]
pub enum Halt {
    /// How the system says it.
    System(io::Error),
    /// What came cannot be believed.
    Broken(Broken),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Broken> for Halt {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Halt {
    /// Whether there is only nothing yet.
    pub fn waits(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl From<Halt> for Trouble {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Broken(broken) => broken.into(),
            Halt::System(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Self { kind: Kind::Corrupt, what: error.to_string() }
            }
            Halt::System(error) => Self::closed(&error.to_string()),
        }
    }
}
