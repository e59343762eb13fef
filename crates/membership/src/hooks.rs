//! Callbacks while a member joins.

use crate::join_error::JoinError;
use std::net::SocketAddr;

/// Called repeatedly. An error makes the member give up.
pub type Wanted<'a> = dyn FnMut() -> Result<(), JoinError> + 'a;

/// Called with a sentence that says what the member waits for, if it waits for long.
pub type Notice<'a> = dyn FnMut(&str) + 'a;

/// Callbacks while a member joins.
pub struct Hooks<'a> {
    /// Called on rank 0 with the addresses on which the coordinator listens, before rank 0 waits for others. If the
    /// coordinator's port is 0, it uses any free port, which the other ranks have to learn.
    pub announce: &'a mut dyn FnMut(&[SocketAddr]) -> Result<(), JoinError>,
    /// Returns whether the member should go on joining. Called about every 50 ms.
    pub wanted: &'a mut dyn FnMut() -> bool,
    /// Called with a sentence that says which ranks the member waits for: after 3 s, and again later.
    pub notice: &'a mut dyn FnMut(&str),
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooks")
    }
}
