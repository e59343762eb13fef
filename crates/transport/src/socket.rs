//! Stream sockets: TCP between hosts, Unix sockets within a host, and TLS on either.

use super::tls::Secured;
use super::{Halt, Intake, Transport};
use crate::certificates::{Identity, Names};
use mio::event::{Event, Source};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use syncline_protocol::handshake::Role;

/// A non-blocking socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP, between hosts.
    Tcp(TcpStream),
    /// A Unix socket, within a host.
    Unix(UnixStream),
    /// TLS on one of the above.
    Tls(Box<Secured>),
}

impl Socket {
    /// Adds TLS to a socket between two ranks. `begins` says whether this side connected.
    ///
    /// # Errors
    /// A clause: why TLS cannot begin.
    pub fn secured(self, identity: &Identity, begins: bool) -> Result<Self, String> {
        let role = Role::Lane { from: 0, to: 0, lane: 0, epoch: 0 };
        let secured =
            if begins { Secured::connect(self, identity, &role)? } else { Secured::accept(self, identity)? };
        Ok(Self::Tls(Box::new(secured)))
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    /// The socket is no longer connected.
    pub fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(secured) => secured.finish(),
        }
    }

    /// Whether the socket, or the socket below TLS, is a Unix socket.
    pub fn is_unix(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Unix(_) => true,
            Self::Tls(secured) => secured.below().is_unix(),
        }
    }

    /// The TCP socket, also below TLS; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
            Self::Tls(secured) => secured.below().tcp(),
        }
    }

    /// The address of the other side of a TCP socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.tcp().and_then(|stream| stream.peer_addr().ok())
    }

    /// The names in the other side's certificate, if there is one.
    pub fn names(&self) -> Option<Names> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => None,
            Self::Tls(secured) => secured.names(),
        }
    }

    /// Removes TLS from the socket, once both sides have authenticated each other.
    ///
    /// # Errors
    /// TLS still has bytes to read or write.
    pub fn without_tls(self) -> Result<Self, String> {
        match self {
            Self::Tls(secured) => secured.into_below(),
            plain => Ok(plain),
        }
    }

    /// Whether bytes that were accepted are still to be written, with [`Write::flush`].
    pub fn has_unwritten(&self) -> bool {
        matches!(self, Self::Tls(secured) if secured.has_unwritten())
    }

    /// The number of bytes that the system has accepted and that the other side's system does not have yet; 0 if the
    /// system does not tell.
    fn unsent(&self) -> usize {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tcp(stream) => super::queued::bytes(stream),
            #[cfg(target_os = "linux")]
            Self::Unix(stream) => super::queued::bytes(stream),
            Self::Tls(secured) => secured.below().unsent(),
            #[cfg(not(target_os = "linux"))]
            Self::Tcp(_) | Self::Unix(_) => 0,
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Tls(secured) => secured.below_mut().source(),
        }
    }

    /// Registers the socket with a poll, which then reports when there are bytes to read or room to write.
    ///
    /// # Errors
    /// The system's error.
    pub fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Removes the socket from the poll.
    ///
    /// # Errors
    /// The system's error.
    pub fn unwatch(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
            Self::Tls(secured) => secured.read(bytes),
        }
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_vectored(slices),
            Self::Unix(stream) => stream.read_vectored(slices),
            Self::Tls(secured) => secured.read_vectored(slices),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(secured) => secured.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Unix(stream) => stream.write_vectored(slices),
            Self::Tls(secured) => secured.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(secured) => secured.flush(),
        }
    }
}

/// A transport on a socket.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// Why the connection does not use a better transport, such as shared memory, if it could.
    why: Option<String>,
    readable: bool,
    writable: bool,
    /// Whether one side has closed the connection. The end follows the bytes that are left to be read; the poll does
    /// not report it again.
    closing: bool,
}

impl Stream {
    /// Creates a transport on a connected socket.
    pub fn new(socket: Socket) -> Self {
        Self { socket, why: None, readable: true, writable: true, closing: false }
    }

    /// Adds the reason why the connection does not use a better transport.
    #[must_use]
    pub fn because(self, why: Option<String>) -> Self {
        Self { why, ..self }
    }
}

impl Transport for Stream {
    fn describe(&self) -> String {
        let name = match self.socket {
            Socket::Tcp(_) => "TCP",
            Socket::Unix(_) => "Unix socket",
            Socket::Tls(_) => "TLS",
        };
        self.why.as_ref().map_or(name.to_owned(), |why| format!("{name} ({why})"))
    }

    fn checked(&self) -> bool {
        !matches!(self.socket, Socket::Tls(_))
    }

    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.watch(registry, token)
    }

    fn unwatch(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.unwatch(registry)
    }

    fn note_event(&mut self, event: &Event) {
        self.closing |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.closing;
        self.writable |= event.is_writable() || event.is_write_closed();
        if self.writable && self.socket.has_unwritten() {
            // The poll reports room only once, and the caller may have nothing more to send. A read will find the
            // error if this fails.
            _ = self.socket.flush();
        }
    }

    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt> {
        if !self.readable {
            return Err(io::Error::from(ErrorKind::WouldBlock).into());
        }
        // The poll does not report bytes that TLS has read and not decrypted: TLS itself says when it has to wait.
        let secured = matches!(self.socket, Socket::Tls(_));
        loop {
            let mut room = 0;
            let read = intake.fill(&mut |slices| {
                room = slices.iter().map(|slice| slice.len()).sum();
                self.socket.read_vectored(slices)
            });
            match &read {
                // The poll reports new bytes once. A read that leaves room has taken them all; only the end may follow.
                Ok(read) => self.readable = *read == room || self.closing || secured,
                Err(Halt::System(error)) if error.kind() == ErrorKind::Interrupted => continue,
                Err(halt) => self.readable &= !halt.would_block(),
            }
            return read;
        }
    }

    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.writable {
            return Err(ErrorKind::WouldBlock.into());
        }
        let secured = matches!(self.socket, Socket::Tls(_));
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        loop {
            let written = self.socket.write_vectored(slices);
            match &written {
                // TLS accepts what it has room for, then writes it. If some is unwritten, the socket is full.
                Ok(_) if secured => self.writable = !self.socket.has_unwritten(),
                Ok(written) => self.writable = *written == offered,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                // Bytes that arrived before the connection broke can still be read.
                Err(_) => (self.readable, self.closing) = (true, true),
            }
            return written;
        }
    }

    fn end_wait(&mut self) {
        // The poll reports the end once, and more bytes than one read takes may precede it.
        self.readable |= self.closing;
    }

    fn unsent(&mut self) -> usize {
        if self.socket.has_unwritten() {
            // A read will find the error if this fails.
            _ = self.socket.flush();
        }
        usize::from(self.socket.has_unwritten()) + self.socket.unsent()
    }

    fn finish(&mut self) -> io::Result<()> {
        // The poll may no longer report what arrives, so try to read every time.
        self.closing = true;
        self.socket.shutdown()
    }
}
