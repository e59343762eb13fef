//! The congestion control of TCP connections.

use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;

/// Has a connection, or what a listener accepts, use a congestion control (`cubic`, `reno`).
///
/// # Errors
/// A sentence: that the system has none of that name, or that this user may not have it.
pub fn choose(socket: &Socket, name: &str) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        format!("cannot have the congestion control `{name}`: {error} (`sysctl net.ipv4.tcp_allowed_congestion_control` lists those that it can)")
    });
    #[cfg(not(target_os = "linux"))]
    {
        _ = socket;
        Err(format!("cannot choose the congestion control `{name}` on this system"))
    }
}

/// That it can be had for connections of an address, before anybody is called.
///
/// # Errors
/// As [`choose`].
pub fn check(name: &str, address: SocketAddr) -> Result<(), String> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
    choose(&socket.map_err(|error| error.to_string())?, name)
}
