//! The connections of one thread. Moves bytes between them and the thread's [`Machine`].

use super::closing::{Closing, ended};
use super::lane_status::LaneStatus;
use super::lane_waker::LaneWaker;
use super::loss_watch::LossWatch;
use super::tcp_info::TcpInfo;
use super::{Connection, Halt, Intake};
use crate::forks::Watcher;
use mio::{Events, Registry, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{FaultKind, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, LostPeer, Patience};
use syncline_protocol::machine::Machine;

/// The most bytes of one read that cannot go directly to their final place.
const STAGING: usize = 256 << 10;

/// The most bytes that a read takes beyond a payload that goes to its final place: the next header, or many small
/// frames.
const NEXT: usize = 4 << 10;

/// The most slices of one write.
const SLICES: usize = 64;

/// How long a peer may take to end a connection on which nothing more is sent.
const CLOSING: Duration = Duration::from_secs(2);

/// The token of the thread's [`LaneWaker`]. The token of a connection is the number of its peer.
const COMMANDS: Token = Token(usize::MAX);

/// After so many waits in which nothing moved on a connection that is cheap to poll, the thread no longer looks at it: it
/// is woken instead.
const IDLE: u32 = 64;

/// A connection, and the bytes that it has carried.
struct CountedConnection {
    connection: Connection,
    sent: u64,
    received: u64,
    /// For how many waits nothing has moved on it.
    idle: u32,
}

/// What a thread knows about the traffic with a peer.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// The peer.
    pub peer: u32,
    /// Bytes that were handed to the connection so far, and bytes that have arrived from it, with frames and
    /// heartbeats.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// What the kernel knows about the connection, if it is TCP.
    pub tcp: Option<TcpInfo>,
}

/// A thread's connections, by peer. The thread repeats three steps: it [waits](Connections::wait), looks for
/// commands, and [moves bytes](Connections::work).
pub struct Connections {
    poll: Watcher,
    events: Events,
    waker: Arc<LaneWaker>,
    status: Arc<LaneStatus>,
    connections: BTreeMap<u32, CountedConnection>,
    /// The peers with which there may be something to do: those with bytes to read, those for which the machine has
    /// something new to write, and those whose connections the poll does not watch completely at present.
    active: BTreeSet<u32>,
    /// The peers for which something waits to be written.
    unsent: BTreeSet<u32>,
    /// The peers of the present round, kept for its memory.
    turn: Vec<u32>,
    /// Connections on which nothing more is sent, and since when.
    closing: Vec<(Connection, Instant)>,
    heartbeats: Heartbeats,
    losses: LossWatch,
    started: Instant,
    last_tick: Duration,
    staging: Vec<u8>,
    /// Whether some connections are cheap to poll.
    cheap_to_poll: bool,
    /// Whether there are bytes left to move after the last call of [`Connections::work`].
    busy: bool,
}

/// Passes received bytes to the machine.
struct Reception<'a, M> {
    machine: &'a mut M,
    peer: u32,
    staging: &'a mut [u8],
}

impl<M: Machine> Intake for Reception<'_, M> {
    fn fill(
        &mut self,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, Halt> {
        let place = self.machine.direct(self.peer).unwrap_or_default();
        let direct = place.len();
        // The next payload's place is known once its header has been read, so reading more than that would only cost
        // a copy.
        let more = if direct > 0 { NEXT } else { STAGING };
        let slices = &mut [IoSliceMut::new(place), IoSliceMut::new(&mut self.staging[..more])];
        let read = read(if direct == 0 { &mut slices[1..] } else { slices })?;
        let placed = read.min(direct);
        if placed > 0 {
            self.machine.read_directly(self.peer, placed)?;
        }
        self.machine.received(self.peer, &self.staging[..read - placed])?;
        Ok(read)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        Ok(self.machine.received(self.peer, bytes)?)
    }
}

impl Connections {
    /// Creates an empty set of connections, and the waker of the thread that waits for them.
    pub fn new(patience: Patience) -> io::Result<(Self, Arc<LaneWaker>)> {
        let poll = Watcher::new()?;
        let waker = Arc::new(LaneWaker::new(poll.registry(), COMMANDS)?);
        let connections = Self {
            poll,
            waker: Arc::clone(&waker),
            status: Arc::default(),
            events: Events::with_capacity(256),
            connections: BTreeMap::new(),
            active: BTreeSet::new(),
            unsent: BTreeSet::new(),
            turn: Vec::new(),
            closing: Vec::new(),
            heartbeats: Heartbeats::new(patience, Duration::ZERO),
            losses: LossWatch::default(),
            started: Instant::now(),
            last_tick: Duration::ZERO,
            staging: vec![0; STAGING],
            cheap_to_poll: false,
            busy: false,
        };
        Ok((connections, waker))
    }

    /// Adds a connection. The peer's silence timer starts at its first message, because the peer may still be
    /// connecting with others.
    pub fn add(
        &mut self,
        machine: &mut impl Machine,
        peer: u32,
        mut connection: Connection,
    ) -> io::Result<()> {
        connection.watch(self.poll.registry(), Token(peer as usize))?;
        self.heartbeats.join(peer as usize, self.started.elapsed());
        if !connection.checked() {
            machine.disable_checksums(peer);
        }
        self.cheap_to_poll |= connection.cheap_to_poll();
        self.connections.insert(peer, CountedConnection { connection, sent: 0, received: 0, idle: 0 });
        self.active.insert(peer);
        self.busy = true;
        Ok(())
    }

    /// As [`Connections::add`], for a peer that has just been heard: its silence counts from now on.
    ///
    /// # Errors
    /// The system cannot watch the connection.
    pub fn add_heard(
        &mut self,
        machine: &mut impl Machine,
        peer: u32,
        connection: Connection,
    ) -> io::Result<()> {
        self.add(machine, peer, connection)?;
        self.heartbeats.heard(peer as usize, self.started.elapsed());
        Ok(())
    }

    /// Closes a connection and removes it.
    pub fn remove(&mut self, peer: u32) {
        if let Some(mut connection) = self.take(peer) {
            // This fails if the connection is broken, which does not matter here.
            _ = connection.unwatch(self.poll.registry());
        }
    }

    /// Removes a connection, and forgets the peer.
    fn take(&mut self, peer: u32) -> Option<Connection> {
        let CountedConnection { connection, .. } = self.connections.remove(&peer)?;
        self.active.remove(&peer);
        self.unsent.remove(&peer);
        self.heartbeats.leave(peer as usize);
        Some(connection)
    }

    /// Removes a connection and sends nothing more on it. Closes it once the peer has ended it too, or after 2 s.
    pub fn finish(&mut self, peer: u32) {
        if let Some(mut connection) = self.take(peer)
            && connection.finish().is_ok()
        {
            self.closing.push((connection, Instant::now()));
        }
    }

    /// The peers that have connections.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        self.connections.keys().copied()
    }

    /// Whether something waited to be written when [`Connections::work`] returned.
    pub fn has_unsent(&self) -> bool {
        // If busy, the thread may not have looked at everything yet, such as heartbeats.
        self.busy || !self.unsent.is_empty()
    }

    /// What this thread and the kernel know about the traffic with each peer.
    pub fn traffic(&self) -> Vec<Traffic> {
        let each = self.connections.iter().map(|(&peer, carrier)| Traffic {
            peer,
            sent: carrier.sent,
            received: carrier.received,
            tcp: carrier.connection.tcp_info(),
        });
        each.collect()
    }

    /// Closes and removes all connections.
    pub fn clear(&mut self) {
        let all: Vec<u32> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|peer| self.remove(peer));
    }

    /// The registry of the poll on which the thread waits. The caller may register other sources under tokens of 2^32
    /// and more.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// What the thread knows about its peers.
    pub fn status(&self) -> Arc<LaneStatus> {
        Arc::clone(&self.status)
    }

    /// Waits for an event on a connection, for a call of [`LaneWaker::wake`], or until heartbeats are due. Returns the
    /// tokens of the caller's other sources that had events.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn wait(&mut self, machine: &impl Machine) -> io::Result<Vec<Token>> {
        let due = (self.last_tick + self.heartbeats.interval()).saturating_sub(self.started.elapsed());
        let mut ready = self.busy;
        let mut idle = std::mem::take(&mut self.turn);
        for &peer in &self.active {
            let Some(carrier) = self.connections.get_mut(&peer) else { continue };
            let (reads, writes) = (machine.reads(peer), machine.waiting(peer) > 0);
            let ready_now = carrier.connection.prepare_wait(reads, writes);
            ready |= ready_now;
            carrier.idle = carrier.idle.saturating_add(1);
            let wakes = !ready_now && reads && !writes && carrier.connection.cheap_to_poll();
            if wakes && carrier.idle > IDLE {
                idle.push(peer);
            }
        }
        idle.drain(..).for_each(|peer| _ = self.active.remove(&peer));
        self.turn = idle;
        let sleeps = !ready && self.waker.prepare_sleep();
        let polled = self.poll.poll(&mut self.events, Some(if sleeps { due } else { Duration::ZERO }));
        self.waker.end_sleep();
        for peer in &self.active {
            let carrier = self.connections.get_mut(peer);
            carrier.into_iter().for_each(|carrier| carrier.connection.end_wait());
        }
        self.note_events(polled)
    }

    /// As [`Connections::wait`], but returns at once, and peers need not wake this thread.
    ///
    /// # Errors
    /// The system cannot look.
    pub fn look(&mut self) -> io::Result<Vec<Token>> {
        self.waker.end_sleep();
        if self.busy {
            return Ok(Vec::new());
        }
        let polled = self.poll.poll(&mut self.events, Some(Duration::ZERO));
        self.note_events(polled)
    }

    /// Passes events on to their connections. Returns the tokens of the caller's other sources that had some.
    fn note_events(&mut self, polled: io::Result<()>) -> io::Result<Vec<Token>> {
        match polled {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => self.events.clear(),
            Ok(()) => {}
        }
        let mut others = Vec::new();
        for event in &self.events {
            match u32::try_from(event.token().0) {
                Ok(peer) => {
                    if let Some(CountedConnection { connection, .. }) = self.connections.get_mut(&peer) {
                        connection.note_event(event);
                        self.active.insert(peer);
                    }
                }
                Err(_) if event.token() == COMMANDS => {}
                Err(_) => others.push(event.token()),
            }
        }
        Ok(others)
    }

    /// Moves bytes until every connection blocks. Serves the peers in turn, for a limited number of rounds, because
    /// the thread has other things to do. Calls `each` after each round. Removes connections that are lost, and
    /// returns their peers and the reasons.
    ///
    /// If some connections are cheap to poll, an idle thread polls a few more times before this returns: most peers
    /// answer sooner than the thread could sleep and wake up. Between polls it yields to threads that have work to
    /// do.
    pub fn work<M: Machine>(&mut self, machine: &mut M, mut each: impl FnMut(&mut M)) -> Vec<LostPeer> {
        const ROUNDS: usize = 64;
        const POLLS: usize = 10;
        let mut lost = Vec::new();
        let mut polls = if self.cheap_to_poll { POLLS } else { 0 };
        self.busy = true;
        for _ in 0..ROUNDS {
            let moved = self.round(machine, &mut lost);
            each(machine);
            if self.started.elapsed() >= self.last_tick + self.heartbeats.interval() {
                break;
            }
            if moved {
                continue;
            }
            if polls == 0 || self.waker.is_signalled() {
                self.busy = false;
                break;
            }
            polls -= 1;
            std::thread::yield_now();
        }
        self.tick(machine, &mut lost);
        // A peer that announced that it leaves is not lost.
        lost.into_iter()
            .map(|lost| match machine.has_left(lost.peer) {
                true => LostPeer { trouble: Trouble::left(), ..lost },
                false => lost,
            })
            .collect()
    }

    /// Reads from and writes to every peer with which there may be something to do once. Returns whether any bytes moved
    /// or a connection was lost.
    fn round(&mut self, machine: &mut impl Machine, lost: &mut Vec<LostPeer>) -> bool {
        let (mut moved, before) = (false, lost.len());
        let now = self.started.elapsed();
        let knows = machine.take_changed(&mut self.active);
        let mut turn = std::mem::take(&mut self.turn);
        match knows {
            true => turn.extend(&self.active),
            false => turn.extend(self.connections.keys()),
        }
        for peer in turn.drain(..) {
            let Some(CountedConnection { connection, sent, received, idle }) =
                self.connections.get_mut(&peer)
            else {
                // The frames wait in the machine until there is a connection.
                self.active.remove(&peer);
                continue;
            };
            let read = receive(machine, peer, connection, &mut self.staging);
            if let Ok(bytes @ 1..) = read {
                *received += bytes as u64;
                self.heartbeats.heard(peer as usize, now);
                self.status.heard();
            }
            let written = read.and_then(|read| match send(machine, peer, connection) {
                Ok(wrote) => {
                    *sent += wrote as u64;
                    Ok((read > 0, wrote > 0))
                }
                Err(trouble) => {
                    // Read what the peer sent before the connection broke: it may have left in order, or sent invalid
                    // data.
                    const LAST_READS: usize = 64;
                    let more = || receive(machine, peer, connection, &mut self.staging);
                    let last =
                        std::iter::repeat_with(more).take(LAST_READS).find(|more| !matches!(more, Ok(1..)));
                    Err(last
                        .and_then(Result::err)
                        .filter(|last| last.kind != FaultKind::Closed)
                        .unwrap_or(trouble))
                }
            });
            match written {
                Ok((read, wrote)) => {
                    if wrote {
                        self.heartbeats.sent(peer as usize, now);
                    }
                    if read || wrote {
                        (moved, *idle) = (true, 0);
                    }
                    // A peer from which the machine does not read now may have sent something before.
                    if !read && !wrote && machine.reads(peer) && !connection.needs_polling() {
                        self.active.remove(&peer);
                    }
                    match machine.waiting(peer) {
                        0 => _ = self.unsent.remove(&peer),
                        _ => _ = self.unsent.insert(peer),
                    }
                }
                Err(trouble) => lost.push(LostPeer { peer, trouble }),
            }
        }
        self.turn = turn;
        for lost in &lost[before..] {
            self.remove(lost.peer);
        }
        moved || lost.len() > before
    }

    /// Sends heartbeats and looks for silent peers, if that is due.
    fn tick(&mut self, machine: &mut impl Machine, lost: &mut Vec<LostPeer>) {
        let now = self.started.elapsed();
        if now < self.last_tick + self.heartbeats.interval() {
            return;
        }
        self.last_tick = now;
        machine.free_unused_memory();
        self.closing.retain_mut(|(connection, since)| since.elapsed() < CLOSING && !ended(connection));
        let peers: Vec<u32> = self.connections.keys().copied().collect();
        let carriers = self.connections.iter();
        let known = carriers.map(|(&peer, carrier)| (peer as usize, carrier.connection.tcp_info()));
        self.heartbeats.set_lossy(self.losses.look(&self.heartbeats.quiet(now), known, now));
        let check = self.heartbeats.check(machine, &peers, now);
        self.busy |= check.sent_heartbeats;
        if check.cut_off {
            self.status.set_cut_off();
        }
        self.status.set_hears(check.hears);
        check.lost.iter().for_each(|lost| self.remove(lost.peer));
        lost.extend(check.lost);
    }

    /// Tells all peers that this member leaves. Returns once each peer has received everything and has ended its
    /// connection too, or takes no more. Calls `meanwhile` about every millisecond.
    pub fn leave(&mut self, machine: &mut impl Machine, mut meanwhile: impl FnMut()) {
        const INTERVAL: Duration = Duration::from_millis(1);
        let silence = self.heartbeats.patience().silence;
        self.connections.keys().for_each(|&peer| machine.leave(peer));
        let mut closings: BTreeMap<u32, Closing> = BTreeMap::new();
        loop {
            self.connections.retain(|&peer, CountedConnection { connection, .. }| {
                let closing = closings.entry(peer).or_insert_with(|| Closing::new(silence));
                let wrote = std::iter::repeat_with(|| send(machine, peer, connection));
                match wrote.take_while(|wrote| *wrote != Ok(0)).find(Result::is_err) {
                    Some(_) => false,
                    None => !closing.advance(connection, machine.waiting(peer)),
                }
            });
            if self.connections.is_empty() {
                return;
            }
            meanwhile();
            // If the poll cannot wait, sleep for the same time.
            if self.poll.poll(&mut self.events, Some(INTERVAL)).is_err() {
                std::thread::sleep(INTERVAL);
            }
            for event in &self.events {
                if let Ok(peer) = u32::try_from(event.token().0)
                    && let Some(CountedConnection { connection, .. }) = self.connections.get_mut(&peer)
                {
                    connection.note_event(event);
                }
            }
        }
    }
}

/// Reads what a peer has sent, up to a fair share of a round. Returns the number of bytes.
fn receive(
    machine: &mut impl Machine,
    peer: u32,
    connection: &mut Connection,
    staging: &mut [u8],
) -> Result<usize, Trouble> {
    let mut got = 0;
    while got < STAGING && machine.reads(peer) {
        match connection.receive(&mut Reception { machine: &mut *machine, peer, staging: &mut *staging }) {
            Ok(0) => return Err(Trouble::closed("end of file")),
            Ok(more) => got += more,
            Err(halt) if halt.would_block() => break,
            Err(halt) => return Err(halt.into()),
        }
    }
    Ok(got)
}

/// Writes once to a peer. Returns the number of bytes.
fn send(machine: &mut impl Machine, peer: u32, connection: &mut Connection) -> Result<usize, Trouble> {
    if machine.waiting(peer) == 0 {
        return Ok(0);
    }
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
    machine.gather(peer, &mut slices, SLICES);
    match connection.send(&slices) {
        Ok(written) => {
            machine.sent(peer, written);
            Ok(written)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(Halt::System(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;
    #[cfg(target_os = "linux")]
    use crate::shared::Agreement;
    use crate::socket::Stream;
    use mio::event::Event;
    use mio::net::UnixStream;
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use syncline_protocol::fault::ProtocolError;

    /// A connection that counts how often it is looked at.
    #[derive(Debug)]
    struct Counted {
        connection: Connection,
        looks: Arc<AtomicUsize>,
    }

    impl Counted {
        fn look(&mut self) -> &mut Connection {
            self.looks.fetch_add(1, Ordering::Relaxed);
            &mut self.connection
        }
    }

    impl Transport for Counted {
        fn describe(&self) -> String {
            self.connection.describe()
        }
        fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
            self.connection.watch(registry, token)
        }
        fn unwatch(&mut self, registry: &Registry) -> io::Result<()> {
            self.connection.unwatch(registry)
        }
        fn note_event(&mut self, event: &Event) {
            self.connection.note_event(event);
        }
        fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt> {
            self.look().receive(intake)
        }
        fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.look().send(slices)
        }
        fn prepare_wait(&mut self, reads: bool, writes: bool) -> bool {
            self.look().prepare_wait(reads, writes)
        }
        fn end_wait(&mut self) {
            self.look().end_wait();
        }
        fn needs_polling(&self) -> bool {
            self.connection.needs_polling()
        }
        fn cheap_to_poll(&self) -> bool {
            self.connection.cheap_to_poll()
        }
        fn finish(&mut self) -> io::Result<()> {
            self.connection.finish()
        }
    }

    /// Bytes to and from peers. `knows` says whether it tells for which peers it has new bytes.
    #[derive(Default)]
    struct Post {
        out: Vec<Vec<u8>>,
        received: Vec<Vec<u8>>,
        changed: BTreeSet<u32>,
        /// Peers from which it does not read.
        deaf: BTreeSet<u32>,
        knows: bool,
    }

    impl Post {
        fn write(&mut self, peer: u32, bytes: &[u8]) {
            self.out[peer as usize].extend(bytes);
            self.changed.insert(peer);
        }
    }

    impl Machine for Post {
        fn waiting(&self, peer: u32) -> usize {
            self.out[peer as usize].len()
        }
        fn take_changed(&mut self, peers: &mut BTreeSet<u32>) -> bool {
            peers.append(&mut self.changed);
            self.knows
        }
        fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, _: usize) {
            slices.push(IoSlice::new(&self.out[peer as usize]));
        }
        fn sent(&mut self, peer: u32, bytes: usize) {
            self.out[peer as usize].drain(..bytes);
        }
        fn reads(&self, peer: u32) -> bool {
            !self.deaf.contains(&peer)
        }
        fn direct(&mut self, _: u32) -> Option<&mut [u8]> {
            None
        }
        fn read_directly(&mut self, _: u32, _: usize) -> Result<(), ProtocolError> {
            Ok(())
        }
        fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), ProtocolError> {
            self.received[peer as usize].extend(bytes);
            Ok(())
        }
        fn disable_checksums(&mut self, _: u32) {}
        fn send_heartbeat(&mut self, _: u32) {}
        fn leave(&mut self, _: u32) {}
        fn has_left(&self, _: u32) -> bool {
            false
        }
    }

    /// A thread's connections with peers, and the peers' ends.
    struct Office<E> {
        post: Post,
        connections: Connections,
        ends: Vec<E>,
        looks: Vec<Arc<AtomicUsize>>,
    }

    fn socket() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Box::new(Stream::new(ours)), theirs)
    }

    impl<E> Office<E> {
        fn new(peers: u32, knows: bool, pair: impl Fn() -> (Connection, E)) -> Self {
            // No heartbeats while the test runs.
            let long = Duration::from_secs(3600);
            let patience = Patience { interval: long, silence: 3 * long };
            let (mut connections, _) = Connections::new(patience).unwrap();
            let none = || vec![Vec::new(); peers as usize];
            let mut post = Post { out: none(), received: none(), knows, ..Post::default() };
            let (mut ends, mut looks) = (Vec::new(), Vec::new());
            for peer in 0..peers {
                let (connection, end) = pair();
                let count = Arc::new(AtomicUsize::new(0));
                let counted = Counted { connection, looks: Arc::clone(&count) };
                connections.add(&mut post, peer, Box::new(counted)).unwrap();
                ends.push(end);
                looks.push(count);
            }
            let mut office = Self { post, connections, ends, looks };
            office.turn();
            office
        }

        fn turn(&mut self) {
            assert!(self.connections.work(&mut self.post, |_| {}).is_empty());
        }

        fn wait(&mut self) {
            self.connections.wait(&self.post).unwrap();
            self.turn();
        }

        /// How often others than these peers were looked at since the last call.
        fn looks_at_others(&self, than: &[usize]) -> usize {
            let looks = self.looks.iter().map(|looks| looks.swap(0, Ordering::Relaxed)).enumerate();
            looks.filter(|(peer, _)| !than.contains(peer)).map(|(_, looks)| looks).sum()
        }
    }

    #[test]
    fn only_peers_with_something_to_do_are_looked_at() {
        let mut office = Office::new(100, true, socket);
        // The poll reports once that there is room on each.
        office.wait();
        office.looks_at_others(&[]);
        for turn in 1..50 {
            office.ends[3].write_all(b"word").unwrap();
            office.wait();
            assert_eq!(office.post.received[3].len(), 4 * turn);
            office.post.write(7, b"answer");
            office.turn();
            let mut bytes = [0; 6];
            office.ends[7].read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"answer");
        }
        assert_eq!(office.looks_at_others(&[3, 7]), 0, "they have nothing to do");
    }

    #[cfg(target_os = "linux")]
    fn shared() -> (Connection, Connection) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut sides = (Agreement::offer(ours, 4096).unwrap(), Agreement::answer(theirs));
        assert!(sides.1.advance().unwrap() && sides.0.advance().unwrap());
        (sides.0.connection(), sides.1.connection())
    }

    /// Bytes that have arrived at a peer's end.
    #[cfg(target_os = "linux")]
    #[derive(Default)]
    struct Arrived(Vec<u8>);

    #[cfg(target_os = "linux")]
    impl Intake for Arrived {
        fn fill(
            &mut self,
            _: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
        ) -> Result<usize, Halt> {
            unreachable!("bytes come from memory")
        }
        fn take(&mut self, bytes: &[u8]) -> Result<(), Halt> {
            self.0.extend(bytes);
            Ok(())
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn peers_that_share_memory_and_are_idle_wake_the_thread_instead() {
        let mut office = Office::new(30, true, shared);
        let say = |office: &mut Office<Connection>, peer: usize| {
            let before = office.post.received[peer].len();
            assert_eq!(office.ends[peer].send(&[IoSlice::new(b"word")]).unwrap(), 4);
            while office.post.received[peer].len() == before {
                office.wait();
            }
            assert_eq!(office.post.received[peer].len(), before + 4);
        };
        (0..3 * IDLE).for_each(|_| say(&mut office, 3));
        office.looks_at_others(&[3]);
        (0..3 * IDLE).for_each(|_| say(&mut office, 3));
        assert_eq!(office.looks_at_others(&[3]), 0, "they are idle");
        // Each of the others is still heard, and gets what is written to it.
        for peer in 0..30 {
            say(&mut office, peer);
        }
        (0..3 * IDLE).for_each(|_| say(&mut office, 3));
        for peer in 0..30u32 {
            office.post.write(peer, b"answer");
            office.turn();
            let mut arrived = Arrived::default();
            _ = office.ends[peer as usize].receive(&mut arrived);
            assert_eq!(arrived.0, b"answer");
        }
        // What a peer says while it is not read is read later.
        (0..3 * IDLE).for_each(|_| say(&mut office, 3));
        office.post.deaf.insert(9);
        office.ends[9].send(&[IoSlice::new(b"early")]).unwrap();
        (0..3 * IDLE).for_each(|_| say(&mut office, 3));
        let before = office.post.received[9].len();
        office.post.deaf.clear();
        say(&mut office, 3);
        office.turn();
        assert_eq!(office.post.received[9].len(), before + 5);
        // The end of one that is idle is found.
        (0..3 * IDLE).for_each(|_| say(&mut office, 3));
        office.ends.remove(20);
        let mut lost = Vec::new();
        while lost.is_empty() {
            office.connections.wait(&office.post).unwrap();
            lost = office.connections.work(&mut office.post, |_| {});
        }
        assert_eq!((lost[0].peer, lost.len()), (20, 1));
    }

    #[test]
    fn a_connection_without_room_goes_on_when_there_is_room() {
        for knows in [false, true] {
            let mut office = Office::new(3, knows, socket);
            let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
            office.post.write(1, &bytes);
            office.turn();
            assert!(office.connections.has_unsent());
            let mut got: Vec<u8> = Vec::new();
            while got.len() < bytes.len() {
                let mut some = vec![0; 100_000];
                match office.ends[1].read(&mut some) {
                    Ok(read) => got.extend(&some[..read]),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        office.wait();
                    }
                }
            }
            office.turn();
            assert!(got == bytes && !office.connections.has_unsent());
        }
    }

    #[test]
    fn what_arrived_while_a_peer_was_not_read_is_read_later() {
        for knows in [false, true] {
            let mut office = Office::new(3, knows, socket);
            office.post.deaf.insert(2);
            office.ends[2].write_all(b"early").unwrap();
            office.ends[0].write_all(b"other").unwrap();
            office.wait();
            office.turn();
            assert!(office.post.received[2].is_empty() && office.post.received[0] == b"other");
            office.post.deaf.clear();
            // The poll reported it before: no other event comes.
            office.turn();
            assert_eq!(office.post.received[2], b"early");
        }
    }

    #[test]
    fn the_end_of_a_connection_is_found_although_nothing_is_expected() {
        for knows in [false, true] {
            let mut office = Office::new(3, knows, socket);
            let mut end = office.ends.remove(1);
            end.write_all(b"last").unwrap();
            drop(end);
            let mut lost = Vec::new();
            while lost.is_empty() {
                office.connections.wait(&office.post).unwrap();
                lost = office.connections.work(&mut office.post, |_| {});
            }
            assert_eq!((lost[0].peer, lost.len()), (1, 1));
            assert_eq!(office.post.received[1], b"last");
        }
    }
}
