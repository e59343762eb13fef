//! Closes a forked child's copies of its parent's sockets. A copy would keep a connection open after its owner has
//! closed it, and peers would take a dead process for a silent one.
//!
//! Every socket of the runtime is registered with a [`Watcher`], and the system lists the sockets of each watcher. A
//! child thus finds the sockets to close, and the runtime needs no list of them.

#![allow(unsafe_code)]

use mio::{Events, Poll};
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::time::Duration;

/// File descriptors of all watchers, and the process that made each: in a forked child, its parent's too.
static WATCHERS: Mutex<BTreeMap<RawFd, u32>> = Mutex::new(BTreeMap::new());

/// A `mio` poll on which a thread waits for its sockets. [`close_inherited_sockets`] closes the
/// sockets that it watches.
#[derive(Debug)]
pub struct Watcher(Poll);

impl Watcher {
    /// Creates a watcher without sockets.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut watchers = WATCHERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        watchers.insert(poll.as_raw_fd(), std::process::id());
        Ok(Self(poll))
    }

    /// The sockets that it watches; empty if the system does not list them.
    fn watched(&self) -> Vec<RawFd> {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd()));
        watched_by(&text.unwrap_or_default()).collect()
    }

    /// The number of sockets that it watches; 0 if the system does not list them.
    pub fn count(&self) -> usize {
        self.watched().len()
    }

    /// Waits for events of the sockets, at most `most`; `None` waits without a limit.
    ///
    /// # Errors
    /// A signal interrupted the wait, or the system cannot wait.
    pub fn poll(&mut self, events: &mut Events, most: Option<Duration>) -> io::Result<()> {
        self.0.poll(events, most)
    }
}

impl Deref for Watcher {
    type Target = Poll;

    fn deref(&self) -> &Poll {
        &self.0
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Before the poll is closed: afterwards another file may get its number.
        WATCHERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&self.0.as_raw_fd());
    }
}

/// Closes a forked child's copies of its parent's sockets. In a process that was not forked, or has closed them already,
/// it does nothing.
///
/// # Safety
/// A forked child neither uses nor drops watchers and sockets that were made before the fork.
pub unsafe fn close_inherited_sockets() {
    // If a thread of the parent held the lock during the fork, nobody releases it in the child.
    let Ok(mut watchers) = WATCHERS.try_lock() else { return };
    let own = std::process::id();
    let (kept, inherited) =
        std::mem::take(&mut *watchers).into_iter().partition(|(_, process)| *process == own);
    *watchers = kept;
    let inherited: BTreeMap<RawFd, u32> = inherited;
    for watcher in inherited.into_keys() {
        let watched = std::fs::read_to_string(format!("/proc/self/fdinfo/{watcher}")).unwrap_or_default();
        for socket in watched_by(&watched).chain([watcher]) {
            // SAFETY: another process made the watcher, so this one is its forked child. By this function's contract, the
            // child neither uses nor drops the watcher and its sockets.
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
        assert_eq!((watcher.watched(), watcher.count()), (vec![listener.as_raw_fd()], 1));
        let number = watcher.as_raw_fd();
        assert!(WATCHERS.lock().unwrap().contains_key(&number));
        drop(watcher);
        assert!(!WATCHERS.lock().unwrap().contains_key(&number));
    }

    #[test]
    fn a_process_keeps_the_sockets_that_it_made() {
        let watcher = Watcher::new().unwrap();
        let mut listener = mio::net::TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        watcher.registry().register(&mut listener, Token(1), Interest::READABLE).unwrap();
        // SAFETY: this process is not a forked child.
        unsafe { close_inherited_sockets() };
        assert_eq!(WATCHERS.lock().unwrap().get(&watcher.as_raw_fd()), Some(&std::process::id()));
        watcher.registry().reregister(&mut listener, Token(2), Interest::READABLE).unwrap();
    }
}
