//! The address from which a connection comes. The file has `unsafe` code: one system call (`setsockopt`).

#![allow(unsafe_code)]

use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Lets a TCP socket that is not connected yet connect from this address of the host.
///
/// The socket gets its port when it connects, because a port then need only be free for connections to the same other side.
/// A port that is free for all of them takes long to find where there are thousands of connections, and there may be none.
///
/// # Errors
/// The host does not have this address.
pub fn bind(socket: &Socket, own: IpAddr) -> io::Result<()> {
    choose_port_later(socket);
    socket.bind(&SocketAddr::new(own, 0).into())
}

/// Sets the option `IP_BIND_ADDRESS_NO_PORT`, if the system has it.
#[cfg(target_os = "linux")]
fn choose_port_later(socket: &Socket) {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    // SAFETY: the call reads one `int`, which lives until it returns. If it fails, the socket is as before.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

#[cfg(not(target_os = "linux"))]
const fn choose_port_later(_: &Socket) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::net::TcpListener;

    #[test]
    fn a_connection_comes_from_its_address_and_takes_its_port_only_when_it_connects() {
        for (own, listener) in [("127.0.0.2", "127.0.0.1:0"), ("::1", "[::1]:0")] {
            let Ok(listener) = TcpListener::bind(listener) else { continue };
            let to = listener.local_addr().unwrap();
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
            let own: IpAddr = own.parse().unwrap();
            bind(&socket, own).unwrap();
            assert_eq!(socket.local_addr().unwrap().as_socket(), Some(SocketAddr::new(own, 0)));
            socket.connect(&to.into()).unwrap();
            assert_eq!(listener.accept().unwrap().1.ip(), own);
        }
    }
}
