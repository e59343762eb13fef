//! Stream sockets without TLS: TCP between hosts, Unix sockets within a host.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;

/// A non-blocking socket without TLS.
#[derive(Debug)]
pub enum PlainSocket {
    /// TCP, between hosts.
    Tcp(TcpStream),
    /// A Unix socket, within a host.
    Unix(UnixStream),
}

impl PlainSocket {
    /// Ends the sending direction.
    ///
    /// # Errors
    /// The socket is no longer connected.
    pub(super) fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// The TCP socket; `None` for a Unix socket.
    pub(super) const fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
        }
    }

    /// The number of bytes that the system has accepted and that the other side's system does not have yet; 0 if the
    /// system does not tell.
    pub(super) fn unsent(&self) -> usize {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tcp(stream) => super::queued::bytes(stream),
            #[cfg(target_os = "linux")]
            Self::Unix(stream) => super::queued::bytes(stream),
            #[cfg(not(target_os = "linux"))]
            Self::Tcp(_) | Self::Unix(_) => 0,
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

impl Read for PlainSocket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_vectored(slices),
            Self::Unix(stream) => stream.read_vectored(slices),
        }
    }
}

impl Write for PlainSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
