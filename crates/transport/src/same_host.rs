//! How members on one machine find each other to share memory.
//!
//! A member that may share memory has a listening Unix socket with an abstract name of 16 random bytes. The
//! coordinator sends the name to the other members. Only processes of the same network namespace can connect to it,
//! so hosts that a testbed emulates, and containers with a network of their own, cannot. A connecting process
//! authenticates as on any connection, and must belong to the same user.

use std::net::IpAddr;

/// Whether two addresses belong to one machine: they are equal, or both are loopback addresses.
pub fn same_machine(a: IpAddr, b: IpAddr) -> bool {
    a == b || (a.is_loopback() && b.is_loopback())
}

/// The bytes of each direction of shared memory, on a member that may share memory on this many connections. All
/// together take at most 32 MiB of a member, because each is shared by two, unless there are more than 2,048.
pub fn capacity(connections: usize) -> usize {
    const ALL: usize = 32 << 20;
    const LEAST: usize = 16 << 10;
    let share = (ALL / connections.max(1)).next_power_of_two();
    let share = if share > ALL / connections.max(1) { share / 2 } else { share };
    share.clamp(LEAST, CAPACITY.max(LEAST))
}

#[cfg(target_os = "linux")]
pub use crate::shared::Agreement;
#[cfg(target_os = "linux")]
use crate::shared::CAPACITY;
#[cfg(target_os = "linux")]
pub use linux::{check_same_user, connect, open};
#[cfg(not(target_os = "linux"))]
use unsupported::CAPACITY;
#[cfg(not(target_os = "linux"))]
pub use unsupported::{Agreement, check_same_user, connect, open};

#[cfg(target_os = "linux")]
mod linux {
    use mio::net::{UnixListener, UnixStream};
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    /// Opens the socket and returns it with its name.
    pub fn open() -> io::Result<(UnixListener, String)> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("syncline-{name}");
        Ok((UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?, name))
    }

    /// Connects to the socket of this name.
    pub fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    /// Checks that the process at the other side belongs to the same user.
    ///
    /// # Errors
    /// A sentence that names both users.
    pub fn check_same_user(socket: &UnixStream) -> Result<(), String> {
        let theirs = rustix::net::sockopt::socket_peercred(socket).map_err(|error| error.to_string())?.uid;
        let ours = rustix::process::geteuid();
        let (a, b) = (ours.as_raw(), theirs.as_raw());
        if a == b { Ok(()) } else { Err(format!("it runs as user {b}, and this process as user {a}")) }
    }
}

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use crate::Connection;
    use mio::net::{UnixListener, UnixStream};
    use std::io;

    pub const CAPACITY: usize = 0;

    /// Has no values: memory cannot be shared on this system.
    #[derive(Debug)]
    pub enum Agreement {}

    impl Agreement {
        pub fn offer(_: UnixStream, _: usize) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn answer(_: UnixStream) -> Self {
            unreachable!("members have no Unix sockets on this system")
        }

        pub fn advance(&mut self) -> io::Result<bool> {
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

    pub fn check_same_user(_: &UnixStream) -> Result<(), String> {
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
            assert_eq!(same_machine(address(a), address(b)), same, "{a} {b}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn many_connections_share_the_memory_of_a_member() {
        for (connections, bytes) in [(0, 256 << 10), (31, 256 << 10), (128, 256 << 10), (129, 128 << 10)] {
            assert_eq!(capacity(connections), bytes, "{connections}");
        }
        for connections in (1..3000usize).step_by(7) {
            let each = capacity(connections);
            assert!(each.is_power_of_two() && (connections > 2048 || each * connections <= 32 << 20));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn both_ends_belong_to_one_user() {
        let (listener, name) = open().unwrap();
        let here = connect(&name).unwrap();
        let (there, _) = listener.accept().unwrap();
        assert_eq!((check_same_user(&here), check_same_user(&there)), (Ok(()), Ok(())));
        drop(listener);
        assert!(connect(&name).is_err());
    }
}
