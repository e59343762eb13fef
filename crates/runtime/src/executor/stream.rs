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

    /// Writes no more, and takes what the peer has sent until it ends, too, or a moment has passed: to close a connection
    /// with bytes unread would take back bytes that are on their way to the peer.
    pub(super) fn end(&mut self) {
        const MOMENT: Duration = Duration::from_millis(200);
        let shut = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let (started, mut waste) = (Instant::now(), [0; 4096]);
        while shut.is_ok() && started.elapsed() < MOMENT {
            match self.read_vectored(&mut [IoSliceMut::new(&mut waste)]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return,
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
