//! The sockets on which a member listens for the lanes of others.

use crate::join_error::JoinError;
use crate::member_settings::{Interface, MemberSettings};
use crate::message::ListenAddresses;
use mio::net::{TcpListener, UnixListener};
use std::net::SocketAddr;
use syncline_transport::affinity;
use syncline_transport::same_host;

/// The sockets on which a member listens.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) lanes: Vec<TcpListener>,
    /// The listener for members that may share memory ([`same_host`]).
    pub(crate) unix_socket: Option<UnixListener>,
    /// The addresses of the listeners, for other members.
    pub listens: ListenAddresses,
}

/// Opens a listener for each lane, on the member's interfaces in turn, and a Unix socket if memory may be shared.
/// `coordinator` is where the member would coordinate the job; empty unless the job is elastic.
pub fn listen(
    member: &MemberSettings,
    lanes: u32,
    coordinator: &[SocketAddr],
) -> Result<Listeners, JoinError> {
    let fault = |what: String| JoinError::about_rank(member.rank, &what);
    let (listeners, addresses) = (0..lanes as usize)
        .map(|lane| {
            let Interface { listen, advertised } = member.interfaces[lane % member.interfaces.len()];
            let listener = member
                .listen(listen, lane as u32)
                .map_err(|why| fault(format!("cannot listen on {listen}: {why}")))?;
            let address = listener.local_addr().map_err(|error| fault(error.to_string()))?;
            Ok((listener, SocketAddr::new(advertised, address.port())))
        })
        .collect::<Result<(Vec<_>, Vec<_>), JoinError>>()?;
    // If the socket cannot be opened, other members connect over TCP.
    let (unix_socket, name) = member.shared_memory.then(|| same_host::open().ok()).flatten().unzip();
    let listens = ListenAddresses {
        lanes: addresses,
        unix_socket: name,
        machine: affinity::machine(),
        coordinator: coordinator.to_vec(),
    };
    Ok(Listeners { lanes: listeners, unix_socket, listens })
}
