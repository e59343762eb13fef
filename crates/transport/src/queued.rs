//! The number of bytes that a socket has not delivered yet. The file has `unsafe` code: one system call (`ioctl`).

#![allow(unsafe_code)]

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use std::os::fd::AsFd;

/// The request `SIOCOUTQ`.
const QUEUED: Opcode = 0x5411;

/// The number of bytes in a socket's send queue. On TCP, the peer's system has not acknowledged them; on a Unix
/// socket, the peer has not read them. Returns 0 if the system does not tell.
pub(super) fn bytes(socket: &impl AsFd) -> usize {
    // SAFETY: the request writes one `int` where `Getter` has room for it, and nothing else.
    let queued = unsafe { ioctl(socket, Getter::<QUEUED, c_int>::new()) };
    queued.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_that_the_peer_has_not_read_are_queued() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(bytes(&one), 0);
        one.write_all(&[1; 1000]).unwrap();
        assert!(bytes(&one) >= 1000);
        other.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(bytes(&one), 0);
    }
}
