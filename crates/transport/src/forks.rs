//! Closes a forked child's copies of its parent's sockets. A copy would keep a connection open after its owner has
//! closed it, and peers would take a dead process for a silent one.
//!
//! Every socket of the runtime is registered with a [`Watcher`], and the system lists the sockets of each watcher. A
//! child thus finds the sockets to close, and the runtime needs no list of them.

#![allow(unsafe_code)]

use mio::Poll;
use std::collections::BTreeSet;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;

/// File descriptors of all watchers of this process.
static WATCHERS: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// A `mio` poll on which a thread waits for its sockets. [`close_inherited_sockets`] closes the
/// sockets that it watches.
#[derive(Debug)]
pub struct Watcher(Poll);

impl Watcher {
    /// Creates a watcher without sockets.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        WATCHERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(poll.as_raw_fd());
        Ok(Self(poll))
    }
}

impl Deref for Watcher {
    type Target = Poll;

    fn deref(&self) -> &Poll {
        &self.0
    }
}

impl DerefMut for Watcher {
    fn deref_mut(&mut self) -> &mut Poll {
        &mut self.0
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Before the poll is closed: afterwards another file may get its number.
        WATCHERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&self.0.as_raw_fd());
    }
}

/// Closes a forked child's copies of its parent's sockets.
///
/// # Safety
/// Only a forked child calls this, once, right after the fork: before the runtime makes anything in the child. The child
/// neither uses nor drops what the runtime made before the fork.
pub unsafe fn close_inherited_sockets() {
    // If a thread of the parent held the lock during the fork, nobody releases it in the child.
    let Ok(mut watchers) = WATCHERS.try_lock() else { return };
    for watcher in std::mem::take(&mut *watchers) {
        let watched = std::fs::read_to_string(format!("/proc/self/fdinfo/{watcher}")).unwrap_or_default();
        for socket in watched_by(&watched).chain([watcher]) {
            // SAFETY: by this function's contract, the owners are threads of the parent, which the child does not have, and
            // nothing else in the child uses the number.
            unsafe { rustix::io::close(socket) }
        }
    }
}

/// The sockets that a watcher watches, from `text`, the contents of its file in `/proc/self/fdinfo`.
fn watched_by(text: &str) -> impl Iterator<Item = RawFd> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use mio::{Interest, Token};

    #[test]
    fn the_system_lists_the_watched_sockets() {
        let watcher = Watcher::new().unwrap();
        let mut listener = mio::net::TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        watcher.registry().register(&mut listener, Token(1), Interest::READABLE).unwrap();
        let path = format!("/proc/self/fdinfo/{}", watcher.as_raw_fd());
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(watched_by(&text).collect::<Vec<_>>(), [listener.as_raw_fd()]);
        let number = watcher.as_raw_fd();
        assert!(WATCHERS.lock().unwrap().contains(&number));
        drop(watcher);
        assert!(!WATCHERS.lock().unwrap().contains(&number));
    }
}
