//! Members on one machine: who they are, and where they find each other to share memory.
//!
//! A member that may share memory has a *door*: a Unix socket with an abstract name of 16 random bytes, which the coordinator
//! tells the others. Only processes of the same network namespace can reach it, so that hosts that a testbed emulates, and
//! containers with a network of their own, do not. Who knocks is asked for the job's key as on any connection, and must be of
//! the same user.

use std::net::IpAddr;

/// Whether two addresses are of one machine, as far as one can tell.
pub fn together(a: IpAddr, b: IpAddr) -> bool {
    a == b || (a.is_loopback() && b.is_loopback())
}

#[cfg(target_os = "linux")]
pub use crate::shared::{Agreement, CAPACITY};
#[cfg(target_os = "linux")]
pub use linux::{connect, kin, open};
#[cfg(not(target_os = "linux"))]
pub use nowhere::{Agreement, CAPACITY, connect, kin, open};

#[cfg(target_os = "linux")]
mod linux {
    use mio::net::{UnixListener, UnixStream};
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    /// A door, and its name.
    pub fn open() -> io::Result<(UnixListener, String)> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("syncline-{name}");
        Ok((UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?, name))
    }

    /// Goes to a door.
    pub fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    /// That the other side is of the same user.
    ///
    /// # Errors
    /// A clause that says of whom it is.
    pub fn kin(socket: &UnixStream) -> Result<(), String> {
        let theirs = rustix::net::sockopt::socket_peercred(socket).map_err(|error| error.to_string())?.uid;
        let ours = rustix::process::geteuid();
        let (a, b) = (ours.as_raw(), theirs.as_raw());
        if a == b { Ok(()) } else { Err(format!("user {b} there is not user {a} here")) }
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use crate::Connection;
    use mio::net::{UnixListener, UnixStream};
    use std::io;

    pub const CAPACITY: usize = 0;

    /// There is none.
    #[derive(Debug)]
    pub enum Agreement {}

    impl Agreement {
        pub fn offer(_: UnixStream, _: usize) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn answer(_: UnixStream) -> Self {
            unreachable!("nobody has a door here")
        }

        pub fn go_on(&mut self) -> io::Result<bool> {
            match *self {}
        }

        pub fn socket(&mut self) -> &mut UnixStream {
            match *self {}
        }

        pub fn connection(self) -> Connection {
            match self {}
        }
    }

    pub fn open() -> io::Result<(UnixListener, String)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn connect(_: &str) -> io::Result<UnixStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn kin(_: &UnixStream) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_machine_are_equal_or_loopback() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (a, b, same) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", true),
            ("127.0.0.1", "::1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.1", "127.0.0.1", false),
        ] {
            assert_eq!(together(address(a), address(b)), same, "{a} {b}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn doors_lead_to_ones_own() {
        let (door, name) = open().unwrap();
        let here = connect(&name).unwrap();
        let (there, _) = door.accept().unwrap();
        assert_eq!((kin(&here), kin(&there)), (Ok(()), Ok(())));
        drop(door);
        assert!(connect(&name).is_err());
    }
}
