//! Connections that carry bytes between the processes of a job.
//!
//! - [`Transport`]: what a lane's thread needs from a connection;
//! - [`plain_socket`]: TCP and Unix sockets; `tls`: encryption on them; [`socket`]: either, and a transport on it;
//!   [`certificates`], [`trust`]: who may connect;
//! - `ring`: memory that two processes share; [`shared`]: a transport on it, for members on one host; [`same_host`]:
//!   how such members find each other;
//! - [`congestion`]: TCP's congestion control; [`source_address`]: the address from which a connection comes;
//! - [`connections`]: the connections of one thread; [`lane_waker`]: wakes that thread, by `wake_flags`;
//!   [`lane_status`]: what that thread knows about its peers; `closing`: ends a connection without losing bytes;
//!   `queued`: bytes that a socket has not delivered yet; [`tcp_info`]: what the kernel knows about a connection;
//!   [`loss_watch`]: tells by it whether a silent peer's packets are lost;
//! - [`handshaking`]: a handshake on a socket; [`pending_handshakes`]: handshakes of peers that are not admitted yet;
//!   [`control_connection`]: messages after the handshake; [`random`]: nonces and other random numbers;
//! - [`affinity`]: a CPU for each thread; [`descriptors`]: the limit on open files; [`forks`]: closes connections in
//!   forked children.

pub mod affinity;
pub mod certificates;
mod closing;
pub mod congestion;
pub mod connections;
pub mod control_connection;
pub mod descriptors;
pub mod forks;
pub mod handshaking;
pub mod lane_status;
pub mod lane_waker;
pub mod loss_watch;
pub mod pending_handshakes;
pub mod plain_socket;
#[cfg(target_os = "linux")]
mod queued;
pub mod random;
#[cfg(target_os = "linux")]
mod ring;
pub mod same_host;
#[cfg(target_os = "linux")]
pub mod shared;
pub mod socket;
pub mod source_address;
pub mod tcp_info;
mod tls;
pub mod trust;
mod wake_flags;

use mio::event::Event;
use mio::{Registry, Token};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use syncline_protocol::fault::{FaultKind, ProtocolError, Trouble};
use tcp_info::TcpInfo;

/// A connection between a lane of this member and the same lane of a peer. It carries two streams of bytes, one in each
/// direction, in order and without gaps. No call blocks. A lane's thread owns its connections and serves them in turn.
///
/// Every transport guarantees:
///
/// - **Order.** Bytes arrive in the order in which they were sent, each exactly once. The end of the connection arrives
///   after all bytes that the peer sent before it.
/// - **Ends.** When the peer's process ends, [`Transport::receive`] returns the end or an error at once, even if
///   nothing is being sent. The heartbeats that lanes send on every connection reveal a host that goes silent.
/// - **Wake-ups.** The thread waits on a `mio` poll. A transport registers what wakes the thread
///   ([`Transport::watch`]). Before the thread waits, it asks the transport whether there is something to do already
///   ([`Transport::prepare_wait`]).
/// - **Memory.** When [`Transport::send`] returns, it has read the bytes that it took, so the caller may overwrite
///   them. Bytes that are lent to an [`Intake`] do not change until the call returns.
///
/// **RDMA** (InfiniBand, RoCE) is not implemented. It would fit this trait as follows. Each side registers a ring of
/// memory with its adapter, as in `shared`, and sends its address and key to the other side on the connection over
/// which they met. That connection stays open. `send` copies into a registered ring of its own, or uses the tensor's
/// memory if that is registered. It posts one-sided writes into the peer's ring; the last of them carries immediate
/// data with the number of bytes written so far. Bytes count as sent once they are posted from the ring; bytes that
/// are posted from a tensor count once their completion arrives. `receive` polls the completion queue and lends the
/// ring's memory to the intake, then writes back how far it has read. `watch` registers the file of the completion
/// channel. `prepare_wait` requests the channel's next event and polls once more. A queue pair in its error state, or
/// the end of the connection beside it, is the end. The adapter checks what it carries, so [`Transport::checked`] is
/// false.
pub trait Transport: fmt::Debug + Send {
    /// A description of the transport, for people.
    fn describe(&self) -> String;

    /// Whether payloads need checksums. False if the bytes stay in this machine's memory, or if TLS or hardware checks
    /// them.
    fn checked(&self) -> bool {
        true
    }

    /// Registers the connection with a poll, which then reports when there are bytes to read or room to write.
    ///
    /// # Errors
    /// The system's error.
    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()>;

    /// Removes the connection from the poll.
    ///
    /// # Errors
    /// The system's error.
    fn unwatch(&mut self, registry: &Registry) -> io::Result<()>;

    /// Takes note of an event that the poll reported for this connection.
    fn note_event(&mut self, event: &Event);

    /// Passes some of the received bytes to `intake` and returns their number; 0 is the end of the connection. Bytes
    /// may be left: other connections get their turn.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no bytes have arrived; the intake's error; [`io::ErrorKind::InvalidData`] if
    /// the peer violates the transport's protocol; any other error if the connection is broken.
    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt>;

    /// Takes bytes to send, from the slices in order, and returns their number.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room; otherwise as [`Transport::receive`].
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Prepares for the thread to wait: for bytes if `reads`, for room if `writes`. Returns true if there are some
    /// already, so the thread must not wait.
    fn prepare_wait(&mut self, reads: bool, writes: bool) -> bool {
        _ = (reads, writes);
        false
    }

    /// The thread has stopped waiting.
    fn end_wait(&mut self) {}

    /// Whether [`Transport::receive`] costs next to nothing if no bytes have arrived. An idle thread then calls it a
    /// few more times before it waits. If [`Transport::prepare_wait`] has returned false, such a connection wakes the
    /// thread until [`Transport::end_wait`] is called, however often the thread wakes for others.
    fn cheap_to_poll(&self) -> bool {
        false
    }

    /// Whether the thread has to look for bytes, for room and for the end every time it wakes. If false, the poll reports
    /// whatever comes after [`Transport::receive`] or [`Transport::send`] had to wait, and until then there is nothing to
    /// do on the connection.
    fn needs_polling(&self) -> bool {
        true
    }

    /// The number of bytes that [`Transport::send`] took and that the peer's machine does not have yet, as far as is
    /// known: these would be lost if the connection ended now. First writes what is still buffered, if there is room.
    fn unsent(&mut self) -> usize {
        0
    }

    /// What the kernel knows about the connection, if it is TCP.
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    /// Ends the sending direction. The peer receives an end after all bytes that were sent.
    ///
    /// # Errors
    /// The connection is broken.
    fn finish(&mut self) -> io::Result<()>;
}

/// A connection over any transport.
pub type Connection = Box<dyn Transport>;

/// The destination of received bytes.
pub trait Intake {
    /// Calls `read` once with memory to read into: first the bytes' final place, if that is known, then spare memory.
    ///
    /// # Errors
    /// The error of `read`, or that the bytes are invalid.
    fn fill(
        &mut self,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, Halt>;

    /// Takes bytes from memory of the transport.
    ///
    /// # Errors
    /// The bytes are invalid.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Halt>;
}

/// Why nothing was received.
#[derive(Debug)]
pub enum Halt {
    /// The system's error.
    System(io::Error),
    /// The received bytes are invalid.
    ProtocolError(ProtocolError),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<ProtocolError> for Halt {
    fn from(broken: ProtocolError) -> Self {
        Self::ProtocolError(broken)
    }
}

impl Halt {
    /// Whether no bytes have arrived yet, which is no failure.
    pub fn would_block(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl From<Halt> for Trouble {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::ProtocolError(broken) => broken.into(),
            Halt::System(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Self { kind: FaultKind::Corrupt, what: error.to_string() }
            }
            Halt::System(error) => Self::closed(&error.to_string()),
        }
    }
}
