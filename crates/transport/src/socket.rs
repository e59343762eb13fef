//! Stream sockets: TCP between hosts, Unix sockets within a host, and TLS on either.

use super::plain_socket::PlainSocket;
use super::tcp_info::{self, TcpInfo};
use super::tls::Secured;
use super::{Halt, Intake, Transport};
use crate::certificates::{Identity, Names};
use mio::event::{Event, Source};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use syncline_protocol::handshake::Role;

/// A non-blocking socket.
#[derive(Debug)]
pub enum Socket {
    /// Without TLS.
    Plain(PlainSocket),
    /// With TLS.
    Tls(Box<Secured>),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(PlainSocket::Tcp(stream))
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Plain(PlainSocket::Unix(stream))
    }
}

impl Socket {
    /// Adds TLS to a socket between two ranks. `begins` says whether this side connected.
    ///
    /// # Errors
    /// A clause: why TLS cannot begin.
    pub fn secured(self, identity: &Identity, begins: bool) -> Result<Self, String> {
        let role = Role::Lane { from: 0, to: 0, lane: 0, epoch: 0 };
        if begins { self.connect_tls(identity, &role) } else { self.accept_tls(identity) }
    }

    /// Begins TLS as the side that connected, in a role.
    pub(crate) fn connect_tls(self, identity: &Identity, role: &Role) -> Result<Self, String> {
        let secured = Secured::connect(self.into_plain()?, identity, role)?;
        Ok(Self::Tls(Box::new(secured)))
    }

    /// Begins TLS as the side that accepted the connection.
    pub(crate) fn accept_tls(self, identity: &Identity) -> Result<Self, String> {
        let secured = Secured::accept(self.into_plain()?, identity)?;
        Ok(Self::Tls(Box::new(secured)))
    }

    fn into_plain(self) -> Result<PlainSocket, String> {
        match self {
            Self::Plain(plain) => Ok(plain),
            Self::Tls(_) => Err("has TLS already".to_owned()),
        }
    }

    /// The socket below TLS, or this socket if it has no TLS.
    const fn plain(&self) -> &PlainSocket {
        match self {
            Self::Plain(plain) => plain,
            Self::Tls(secured) => secured.below(),
        }
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    /// The socket is no longer connected.
    pub fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.shutdown(),
            Self::Tls(secured) => secured.finish(),
        }
    }

    /// Whether the socket, or the socket below TLS, is a Unix socket.
    pub fn is_unix(&self) -> bool {
        self.tcp().is_none()
    }

    /// The TCP socket, also below TLS; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<&TcpStream> {
        self.plain().tcp()
    }

    /// What the kernel knows about a TCP connection; `None` for a Unix socket.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.tcp().and_then(tcp_info::read)
    }

    /// The address of the other side of a TCP socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.tcp().and_then(|stream| stream.peer_addr().ok())
    }

    /// The names in the other side's certificate, if there is one.
    pub fn names(&self) -> Option<Names> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(secured) => secured.names(),
        }
    }

    /// Removes TLS from the socket, once both sides have authenticated each other.
    ///
    /// # Errors
    /// TLS still has bytes to read or write.
    pub fn without_tls(self) -> Result<Self, String> {
        match self {
            Self::Tls(secured) => secured.into_below().map(Self::Plain),
            plain => Ok(plain),
        }
    }

    /// Whether bytes that were accepted are still to be written, with [`Write::flush`].
    pub fn has_unwritten(&self) -> bool {
        matches!(self, Self::Tls(secured) if secured.has_unwritten())
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Plain(plain) => plain.source(),
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
            Self::Plain(plain) => plain.read(bytes),
            Self::Tls(secured) => secured.read(bytes),
        }
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(plain) => plain.read_vectored(slices),
            Self::Tls(secured) => secured.read_vectored(slices),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(plain) => plain.write(bytes),
            Self::Tls(secured) => secured.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(plain) => plain.write_vectored(slices),
            Self::Tls(secured) => secured.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.flush(),
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
    pub fn new(socket: impl Into<Socket>) -> Self {
        Self { socket: socket.into(), why: None, readable: true, writable: true, closing: false }
    }

    /// Adds the reason why the connection does not use a better transport.
    #[must_use]
    pub fn because(self, why: Option<String>) -> Self {
        Self { why, ..self }
    }
}

impl Transport for Stream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        self.socket.tcp_info()
    }

    fn describe(&self) -> String {
        let name = match self.socket {
            Socket::Plain(PlainSocket::Tcp(_)) => "TCP",
            Socket::Plain(PlainSocket::Unix(_)) => "Unix socket",
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

    fn needs_polling(&self) -> bool {
        self.closing
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
        usize::from(self.socket.has_unwritten()) + self.socket.plain().unsent()
    }

    fn finish(&mut self) -> io::Result<()> {
        // The poll may no longer report what arrives, so try to read every time.
        self.closing = true;
        self.socket.shutdown()
    }
}
