//! Processes that are forked have no part in their parent's connections: a copy of a socket would keep a connection open that its
//! owner has closed, and peers would take a dead process for a silent one.
//!
//! Every socket of the runtime is watched by a [`Watcher`], and the system tells which sockets those watch: so a child finds what
//! to close without a list that everything would have to keep.

#![allow(unsafe_code)]

use mio::Poll;
use std::collections::BTreeSet;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;

/// Watchers that there are.
static WATCHERS: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// What a thread waits for its connections with.
#[derive(Debug)]
pub struct Watcher(Poll);

impl Watcher {
    /// Watches nothing yet.
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
        // Before it is closed: its number may be another's then.
        WATCHERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&self.0.as_raw_fd());
    }
}

/// Closes what a process that was just forked has of its parent's connections. Nothing of the runtime that was made before the
/// fork may be used, or dropped, in the child.
pub fn abandon() {
    // A thread that had the lock when the process was forked is not here to give it back.
    let Ok(mut watchers) = WATCHERS.try_lock() else { return };
    for watcher in std::mem::take(&mut *watchers) {
        let watched = std::fs::read_to_string(format!("/proc/self/fdinfo/{watcher}")).unwrap_or_default();
        watched_by(&watched).chain([watcher]).for_each(close);
    }
}

/// What a watcher watches, as the system tells it.
fn watched_by(text: &str) -> impl Iterator<Item = RawFd> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok())
}

fn close(fd: RawFd) {
    // SAFETY: the child has one thread, and nobody in it uses what is closed here: its owners are the parent's threads.
    unsafe { rustix::io::close(fd) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use mio::{Interest, Token};

    #[test]
    fn the_system_tells_what_is_watched() {
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
