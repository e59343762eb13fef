//! What a socket has still to deliver, as the system says. A room with `unsafe` code: one request for one number.

#![allow(unsafe_code)]

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use std::os::fd::AsFd;

/// `SIOCOUTQ`.
const QUEUED: Opcode = 0x5411;

/// Bytes in a socket's queue: of TCP those that the other side's system has not acknowledged, of a Unix socket those that the
/// other side has not read. None where the system does not say.
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
    fn what_is_not_read_yet_is_queued() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(bytes(&one), 0);
        one.write_all(&[1; 1000]).unwrap();
        assert!(bytes(&one) >= 1000);
        other.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(bytes(&one), 0);
    }
}
