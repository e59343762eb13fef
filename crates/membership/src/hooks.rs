//! What is called while a member joins.

use crate::place::Absence;
use std::net::SocketAddr;

/// Asked now and then: an error where the member is not to go on.
pub type Wanted<'a> = dyn FnMut() -> Result<(), Absence> + 'a;

/// Told what a member waits for, where that takes long.
pub type Notice<'a> = dyn FnMut(&str) + 'a;

/// What is called while a member joins.
pub struct Hooks<'a> {
    /// Told at which addresses rank 0 really listens, before it waits for anybody: where the coordinator's port is 0 it takes one
    /// that is free, and others have to learn it.
    pub announce: &'a mut dyn FnMut(&[SocketAddr]) -> Result<(), Absence>,
    /// Whether the member is to go on; asked about every 50 ms.
    pub wanted: &'a mut dyn FnMut() -> bool,
    /// Told whom a member waits for after three seconds, and now and then again.
    pub notice: &'a mut dyn FnMut(&str),
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooks")
    }
}
