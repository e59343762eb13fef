//! Stream sockets: TCP between hosts, and Unix sockets within one; as they are, or with TLS.

use super::tls::Secured;
use super::{Halt, Intake, Transport};
use crate::certificates::{Identity, Names};
use mio::event::{Event, Source};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use syncline_protocol::handshake::Role;

/// A socket that does not block.
#[derive(Debug)]
pub enum Socket {
    /// Between hosts.
    Tcp(TcpStream),
    /// Within a host.
    Unix(UnixStream),
    /// One of these, with TLS.
    Tls(Box<Secured>),
}

impl Socket {
    /// The same with TLS, between two ranks: of whoever `begins` (connects), or of whoever is connected to.
    ///
    /// # Errors
    /// A clause, where TLS cannot begin.
    pub fn secured(self, identity: &Identity, begins: bool) -> Result<Self, String> {
        let role = Role::Lane { from: 0, to: 0, lane: 0, epoch: 0 };
        let secured =
            if begins { Secured::connect(self, identity, &role)? } else { Secured::accept(self, identity)? };
        Ok(Self::Tls(Box::new(secured)))
    }

    /// Ends what is sent.
    ///
    /// # Errors
    /// Where it is not connected any more.
    pub fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(secured) => secured.finish(),
        }
    }

    /// Whether it stays within this host.
    pub fn is_unix(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Unix(_) => true,
            Self::Tls(secured) => secured.below().is_unix(),
        }
    }

    /// What it is between hosts.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
            Self::Tls(secured) => secured.below().tcp(),
        }
    }

    /// Where the other side is, between hosts.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.tcp().and_then(|stream| stream.peer_addr().ok())
    }

    /// What the other side's certificate says, where there is one.
    pub fn names(&self) -> Option<Names> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => None,
            Self::Tls(secured) => secured.names(),
        }
    }

    /// The same without TLS, once both sides are known.
    ///
    /// # Errors
    /// Where something is under way.
    pub fn bare(self) -> Result<Self, String> {
        match self {
            Self::Tls(secured) => secured.into_below(),
            bare => Ok(bare),
        }
    }

    /// Whether what was taken has still to be written, with [`Write::flush`].
    pub fn waits(&self) -> bool {
        matches!(self, Self::Tls(secured) if secured.waits())
    }

    /// Bytes that the system has taken and that the other side's has not got; none where the system does not say.
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

    /// Lets a poll tell when there is something to read, or room to write.
    ///
    /// # Errors
    /// As the system says.
    pub fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// No more of that.
    ///
    /// # Errors
    /// As the system says.
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

/// A socket as a transport.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// Why it is no better transport, where it could be one.
    why: Option<String>,
    readable: bool,
    writable: bool,
    /// The peer closes: what is left to be read ends with an end.
    closing: bool,
}

impl Stream {
    /// A connected socket.
    pub fn new(socket: Socket) -> Self {
        Self { socket, why: None, readable: true, writable: true, closing: false }
    }

    /// The same, which says why it is no better transport.
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

    fn told(&mut self, event: &Event) {
        self.closing |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.closing;
        self.writable |= event.is_writable() || event.is_write_closed();
        if self.writable && self.socket.waits() {
            // That is told once, and there may be nothing more to send. What cannot be written is found by reading.
            _ = self.socket.flush();
        }
    }

    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt> {
        if !self.readable {
            return Err(io::Error::from(ErrorKind::WouldBlock).into());
        }
        // What TLS has read and not decrypted is told by nobody: it says itself when it waits.
        let secured = matches!(self.socket, Socket::Tls(_));
        loop {
            let mut room = 0;
            let read = intake.fill(&mut |slices| {
                room = slices.iter().map(|slice| slice.len()).sum();
                self.socket.read_vectored(slices)
            });
            match &read {
                // Edges are told once: what fills less than the room was all, but for the end.
                Ok(read) => self.readable = *read == room || self.closing || secured,
                Err(Halt::System(error)) if error.kind() == ErrorKind::Interrupted => continue,
                Err(halt) => self.readable &= !halt.waits(),
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
                // TLS takes what it has room for, and then writes it: the socket tells where that waits.
                Ok(_) if secured => self.writable = !self.socket.waits(),
                Ok(written) => self.writable = *written == offered,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                // What came before it broke is still there to be read.
                Err(_) => (self.readable, self.closing) = (true, true),
            }
            return written;
        }
    }

    fn rouse(&mut self) {
        // The end is told once, and may come behind more than one read takes.
        self.readable |= self.closing;
    }

    fn unsent(&mut self) -> usize {
        if self.socket.waits() {
            // What cannot be written is found by reading.
            _ = self.socket.flush();
        }
        usize::from(self.socket.waits()) + self.socket.unsent()
    }

    fn finish(&mut self) -> io::Result<()> {
        // Nobody tells any more what has come.
        self.closing = true;
        self.socket.shutdown()
    }
}
