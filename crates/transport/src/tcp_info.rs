//! What the kernel knows about a TCP connection. The file has `unsafe` code: one system call (`getsockopt`).

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What the kernel knows about a TCP connection (`tcp(7)`, option `TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip time (RFC 6298).
    pub round_trip: Duration,
    /// Variation of round trip times (RFC 6298).
    pub variation: Duration,
    /// The shortest round trip of the last five minutes or so; zero if the kernel does not know it.
    pub shortest_round_trip: Duration,
    /// Segments that were sent again since the connection began.
    pub retransmits: u32,
    /// The rate at which data reached the peer recently, in bytes per second; 0 if the kernel does not know it.
    pub delivery_rate: u64,
    /// Whether the application sent too little to fill the connection while that rate was measured, so the connection
    /// may be faster.
    pub application_limited: bool,
    /// Time for which the connection had data to send since it began.
    pub busy: Duration,
    /// Whether something is being sent again because no acknowledgement came in time.
    pub sends_again: bool,
    /// Segments that arrived, wrapping.
    pub segments_in: u32,
    /// Segments with data that arrived, also data that had arrived before; wrapping.
    pub data_segments_in: u32,
    /// Segments that arrived after a gap, wrapping; 0 if the kernel does not count them.
    pub out_of_order: u32,
}

/// As [`read`] on Linux: no other system tells.
#[cfg(not(target_os = "linux"))]
pub(super) fn read<T>(_: &T) -> Option<TcpInfo> {
    None
}

/// Bytes of the kernel's structure up to the last field that is read here.
#[cfg(target_os = "linux")]
const LENGTH: usize = 228;

/// Returns what the kernel knows about a socket; `None` if it is not TCP, or the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn read(socket: &impl AsFd) -> Option<TcpInfo> {
    let mut bytes = [0u8; LENGTH];
    let mut length = LENGTH as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes where there is room for as many, and the new length.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // Older kernels write less, and leave the rest zero. The first fields have been there since Linux 2.4.
    (status == 0 && length as usize >= 104).then(|| decode(&bytes))
}

/// Reads the fields by their places in `struct tcp_info` (linux/tcp.h), which never change.
#[cfg(target_os = "linux")]
fn decode(bytes: &[u8; LENGTH]) -> TcpInfo {
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let micros = |at: usize| Duration::from_micros(u64::from(word(at)));
    // The kernel has `u32::MAX` where it has measured no round trip.
    let shortest = if word(148) == u32::MAX { Duration::ZERO } else { micros(148) };
    // A bit field: its lowest bit, where integers are little-endian.
    let limited = if cfg!(target_endian = "little") { bytes[7] & 1 } else { bytes[7] >> 7 };
    TcpInfo {
        round_trip: micros(68),
        variation: micros(72),
        shortest_round_trip: shortest,
        retransmits: word(100),
        delivery_rate: long(160),
        application_limited: limited == 1,
        busy: Duration::from_micros(long(168)),
        sends_again: bytes[2] > 0,
        segments_in: word(140),
        data_segments_in: word(152),
        out_of_order: word(224),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_kernel_tells_the_round_trip_and_the_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let data = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| receiver.read_exact(&mut vec![0; 1 << 20]).unwrap());
            sender.write_all(&data).unwrap();
        });
        let info = read(&sender).unwrap();
        // On loopback: microseconds, and hundreds of megabytes per second.
        assert!(info.round_trip > Duration::ZERO && info.round_trip < Duration::from_secs(1), "{info:?}");
        assert!(info.shortest_round_trip <= info.round_trip + info.variation * 4, "{info:?}");
        assert!(info.delivery_rate > 1_000_000, "{info:?}");
        assert!(info.busy < Duration::from_secs(10), "{info:?}");
        assert!(info.data_segments_in == 0 && !info.sends_again, "{info:?}");
        let info = read(&receiver).unwrap();
        assert!(info.data_segments_in > 0 && info.segments_in >= info.data_segments_in, "{info:?}");
    }

    #[test]
    fn a_socket_without_tcp_tells_nothing() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(read(&one), None);
    }
}
