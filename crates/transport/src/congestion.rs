//! The congestion control of TCP connections.

use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;

/// Sets the congestion control (`cubic`, `reno`) of a connection, or of all connections that a listener accepts.
///
/// # Errors
/// A clause: the system has no congestion control of that name, or does not allow it to this user.
pub fn choose(socket: &Socket, name: &str) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        format!(
            "cannot use the congestion control `{name}`: {error} \
             (`sysctl net.ipv4.tcp_allowed_congestion_control` lists those that are allowed)"
        )
    });
    #[cfg(not(target_os = "linux"))]
    {
        _ = socket;
        Err(format!("cannot choose the congestion control `{name}` on this system"))
    }
}

/// Checks whether a congestion control is available for connections from an address, before any are made.
///
/// # Errors
/// As [`choose`].
pub fn check(name: &str, address: SocketAddr) -> Result<(), String> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
    choose(&socket.map_err(|error| error.to_string())?, name)
}
