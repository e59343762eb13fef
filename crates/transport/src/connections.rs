//! The connections of one thread. Moves bytes between them and the thread's [`Machine`].

use super::closing::{Closing, ended};
use super::lane_status::LaneStatus;
use super::lane_waker::LaneWaker;
use super::loss_watch::LossWatch;
use super::tcp_info::TcpInfo;
use super::{Connection, Halt, Intake};
use crate::forks::Watcher;
use mio::{Events, Registry, Token};
use std::collections::BTreeMap;
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

/// A connection, and the bytes that it has carried.
struct CountedConnection {
    connection: Connection,
    sent: u64,
    received: u64,
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
        self.connections.insert(peer, CountedConnection { connection, sent: 0, received: 0 });
        self.busy = true;
        Ok(())
    }

    /// Closes a connection and removes it.
    pub fn remove(&mut self, peer: u32) {
        if let Some(CountedConnection { mut connection, .. }) = self.connections.remove(&peer) {
            // This fails if the connection is broken, which does not matter here.
            _ = connection.unwatch(self.poll.registry());
            self.heartbeats.leave(peer as usize);
        }
    }

    /// Removes a connection and sends nothing more on it. Closes it once the peer has ended it too, or after 2 s.
    pub fn finish(&mut self, peer: u32) {
        if let Some(CountedConnection { mut connection, .. }) = self.connections.remove(&peer) {
            self.heartbeats.leave(peer as usize);
            if connection.finish().is_ok() {
                self.closing.push((connection, Instant::now()));
            }
        }
    }

    /// The peers that have connections.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        self.connections.keys().copied()
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
        for (&peer, CountedConnection { connection, .. }) in &mut self.connections {
            ready |= connection.prepare_wait(machine.reads(peer), machine.waiting(peer) > 0);
        }
        let sleeps = !ready && self.waker.prepare_sleep();
        let polled = self.poll.poll(&mut self.events, Some(if sleeps { due } else { Duration::ZERO }));
        self.waker.end_sleep();
        self.connections.values_mut().for_each(|carrier| carrier.connection.end_wait());
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

    /// Reads from and writes to every peer once. Returns whether any bytes moved or a connection was lost.
    fn round(&mut self, machine: &mut impl Machine, lost: &mut Vec<LostPeer>) -> bool {
        let (mut moved, before) = (false, lost.len());
        let now = self.started.elapsed();
        for (&peer, CountedConnection { connection, sent, received }) in &mut self.connections {
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
                    moved |= read || wrote;
                }
                Err(trouble) => lost.push(LostPeer { peer, trouble }),
            }
        }
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
        self.heartbeats.set_lossy(self.losses.look(self.heartbeats.quiet(now), known));
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
