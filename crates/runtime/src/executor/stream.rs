//! Connections that a lane's thread waits for: TCP, and Unix sockets between members on one host.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Result, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// A connection to a peer that does not block.
#[derive(Debug)]
pub enum Stream {
    /// Between hosts.
    Tcp(TcpStream),
    /// Within a host.
    Unix(UnixStream),
}

impl Stream {
    /// Reads into several places, one after the other.
    pub(super) fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_vectored(slices),
            Self::Unix(stream) => stream.read_vectored(slices),
        }
    }

    /// Writes from several places, one after the other.
    pub(super) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn shut(&self) -> Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Takes what the peer has sent and forgets it; whether more may come.
    fn waste(&mut self) -> bool {
        let mut waste = [0; 4096];
        loop {
            match self.read_vectored(&mut [IoSliceMut::new(&mut waste)]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    /// Lets a poll tell when there is something to read, or room to write.
    pub(super) fn watch(&mut self, registry: &Registry, token: Token) -> Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// No more of that.
    pub(super) fn unwatch(&mut self, registry: &Registry) -> Result<()> {
        self.source().deregister(registry)
    }
}

/// Writes no more, and takes what peers have sent until they end, too, or a moment has passed: to close a connection with bytes
/// unread would take back bytes that are on their way to the peer.
pub(super) fn end(mut streams: Vec<&mut Stream>) {
    const MOMENT: Duration = Duration::from_millis(200);
    streams.retain(|stream| stream.shut().is_ok());
    let started = Instant::now();
    while !streams.is_empty() && started.elapsed() < MOMENT {
        streams.retain_mut(|stream| stream.waste());
        std::thread::sleep(Duration::from_millis(1));
    }
}
