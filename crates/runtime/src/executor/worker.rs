//! The thread of a lane: waits for its connections, and moves bytes between them and the lane.

use super::pending::Completion;
use super::stream::{self, Stream};
use crate::fault::{Blame, Kind, Trouble};
use crate::lane::{Job, Lane};
use crate::machine::Machine;
use crate::pulse::{Patience, Pulse};
use mio::{Events, Poll, Token, Waker};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Bytes that are read at once, at most, where they cannot be read to their place.
const STAGING: usize = 256 << 10;

/// Slices that are written at once, at most.
const SLICES: usize = 64;

/// The token of whoever has commands; links have that of their rank.
const COMMANDS: Token = Token(usize::MAX);

/// What a lane's thread is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Begin an operation.
    Start(Arc<Job>, Arc<Completion>),
    /// Let go of an operation's input.
    Forget(u64),
    /// Give up: restore inputs and say so.
    Abort,
    /// End.
    Stop,
}

/// What a lane's thread tells.
#[derive(Debug)]
pub(super) enum Report {
    /// An operation is over.
    Finished(u64),
    /// Something is wrong with a peer.
    Trouble(u32, Trouble),
    /// Whoever decides has decided who is at fault.
    Verdict(Blame, Trouble),
    /// This rank itself cannot go on.
    Failed(Trouble),
    /// Inputs are as they were.
    Aborted,
    /// The thread ends; whether it has given up before, and said so.
    Stopped { aborted: bool },
}

/// Where to tell another lane's thread something that is not urgent.
pub(super) type Sibling = Sender<Command>;

/// Says that the thread ends, also where it panics.
struct Farewell {
    reports: Sender<Report>,
    aborted: Arc<AtomicBool>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "failed, which is a bug of syncline: please report it".to_owned();
            _ = self.reports.send(Report::Failed(Trouble { kind: Kind::Closed, what }));
        }
        // Nobody listens where the communicator is gone.
        _ = self.reports.send(Report::Stopped { aborted: self.aborted.load(Ordering::Relaxed) });
    }
}

/// A connection, as its thread sees it.
struct Connection {
    stream: Stream,
    readable: bool,
    writable: bool,
    /// The peer closes: what is left to be read ends with an end.
    closing: bool,
}

/// The thread of a lane.
pub(super) struct Worker {
    lane: Lane,
    poll: Poll,
    /// By rank; none for the own, and once something is wrong.
    connections: Vec<Option<Connection>>,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    siblings: Vec<Sibling>,
    completions: BTreeMap<u64, Arc<Completion>>,
    /// Peers without a connection, and why.
    gone: BTreeMap<u32, Trouble>,
    pulse: Pulse,
    started: Instant,
    staging: Vec<u8>,
    aborted: Arc<AtomicBool>,
    /// Whether there is more to move than one round of work may.
    busy: bool,
}

impl Worker {
    /// A worker with connections to ranks, and what wakes it after a command.
    pub(super) fn new(
        lane: Lane,
        streams: Vec<Option<Stream>>,
        patience: Patience,
        commands: Receiver<Command>,
        siblings: Vec<Sibling>,
        reports: Sender<Report>,
    ) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), COMMANDS)?;
        let started = Instant::now();
        let mut pulse = Pulse::new(patience, streams.len(), started.elapsed());
        let mut connections = Vec::new();
        for (rank, stream) in streams.into_iter().enumerate() {
            connections.push(match stream {
                Some(mut stream) => {
                    stream.watch(poll.registry(), Token(rank))?;
                    // It is watched once it has been heard: peers may still be meeting others.
                    pulse.join(rank, started.elapsed());
                    Some(Connection { stream, readable: true, writable: true, closing: false })
                }
                None => None,
            });
        }
        let worker = Self {
            lane,
            poll,
            connections,
            commands,
            reports,
            siblings,
            completions: BTreeMap::new(),
            gone: BTreeMap::new(),
            pulse,
            started,
            staging: vec![0; STAGING],
            aborted: Arc::new(AtomicBool::new(false)),
            busy: false,
        };
        Ok((worker, waker))
    }

    /// Works until it is told to end, or nobody is left to tell it.
    pub(super) fn run(mut self) {
        let _farewell = Farewell { reports: self.reports.clone(), aborted: Arc::clone(&self.aborted) };
        let mut events = Events::with_capacity(256);
        let mut ticked = self.started.elapsed();
        loop {
            let due = (ticked + self.pulse.interval()).saturating_sub(self.started.elapsed());
            let wait = if self.busy { Duration::ZERO } else { due };
            match self.poll.poll(&mut events, Some(wait)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    let what = format!("cannot wait for its connections: {error}");
                    _ = self.reports.send(Report::Failed(Trouble { kind: Kind::Closed, what }));
                    return;
                }
            }
            for event in &events {
                if let Some(Some(connection)) = self.connections.get_mut(event.token().0) {
                    connection.closing |= event.is_read_closed() || event.is_error();
                    connection.readable |= event.is_readable() || connection.closing;
                    connection.writable |= event.is_writable() || event.is_write_closed();
                }
            }
            if !self.obey() {
                return;
            }
            self.work();
            let now = self.started.elapsed();
            if now >= ticked + self.pulse.interval() {
                ticked = now;
                self.tick();
            }
        }
    }

    /// Does what it is told; whether it goes on.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Start(job, completion)) => {
                    // After an abort nothing begins; whoever asked is told by whoever aborted.
                    if self.aborted.load(Ordering::Relaxed) {
                        continue;
                    }
                    self.completions.insert(job.sequence, completion);
                    let shape = Arc::clone(&job.shape);
                    if let Err((rank, broken)) = self.lane.start(job) {
                        self.drop_connection(rank, broken.into());
                    }
                    let needed = shape.script.peers();
                    for rank in needed.into_iter().map(|seat| shape.ranks()[seat as usize]) {
                        if let Some(trouble) = self.gone.get(&rank)
                            && (trouble.kind != Kind::Left || self.lane.needs(rank))
                        {
                            _ = self.reports.send(Report::Trouble(rank, trouble.clone()));
                        }
                    }
                }
                Ok(Command::Forget(sequence)) => {
                    self.completions.remove(&sequence);
                    self.lane.forget(sequence);
                }
                Ok(Command::Abort) => {
                    self.abort();
                    self.connections.iter_mut().for_each(|connection| *connection = None);
                    if self.reports.send(Report::Aborted).is_err() {
                        return false;
                    }
                }
                Ok(Command::Stop) | Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    self.leave();
                    self.abort();
                    return false;
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    /// Moves bytes until every connection blocks, in turn with each peer; not for ever, because there is more to do.
    fn work(&mut self) {
        const ROUNDS: usize = 64;
        self.busy = true;
        for _ in 0..ROUNDS {
            let mut moved = false;
            for rank in 0..self.connections.len() as u32 {
                moved |= self.read(rank);
                moved |= self.write(rank);
            }
            self.finish();
            if !moved {
                self.busy = false;
                return;
            }
        }
    }

    /// Reads once from a peer; whether there was something.
    fn read(&mut self, rank: u32) -> bool {
        let Some(connection) = &mut self.connections[rank as usize] else { return false };
        if !connection.readable || !self.lane.reads(rank) {
            return false;
        }
        let direct = self.lane.direct(rank);
        let place = direct.map_or(&mut [][..], crate::memory::Region::bytes_mut);
        let straight = place.len();
        let staging = IoSliceMut::new(&mut self.staging);
        let slices = &mut [IoSliceMut::new(place), staging];
        let slices = if straight == 0 { &mut slices[1..] } else { &mut slices[..] };
        let room: usize = slices.iter().map(|slice| slice.len()).sum();
        let read = match connection.stream.read_vectored(slices) {
            Ok(0) => Err(Trouble::closed("end of file")),
            Ok(read) => {
                // Edges are told once: what fills less than the room was all, but for the end.
                connection.readable = read == room || connection.closing;
                Ok(read)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.readable = false;
                return false;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) => Err(Trouble::closed(&error.to_string())),
        };
        let taken = read.and_then(|read| {
            self.pulse.heard(rank as usize, self.started.elapsed());
            let placed = read.min(straight);
            if placed > 0 {
                self.lane.read_directly(rank, placed).map_err(Trouble::from)?;
            }
            self.lane.received(rank, &self.staging[..read - placed]).map_err(Trouble::from)
        });
        if let Err(trouble) = taken {
            self.drop_connection(rank, trouble);
        }
        true
    }

    /// Writes once to a peer; whether there was something.
    fn write(&mut self, rank: u32) -> bool {
        let Some(connection) = &mut self.connections[rank as usize] else { return false };
        let waiting = self.lane.waiting(rank);
        if !connection.writable || waiting == 0 {
            return false;
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
        self.lane.gather(rank, &mut slices, SLICES);
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        match connection.stream.write_vectored(&slices) {
            Ok(written) => {
                connection.writable = written == offered;
                self.pulse.said(rank as usize, self.started.elapsed());
                self.lane.sent(rank, written);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.writable = false;
                return false;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => self.drop_connection(rank, Trouble::closed(&error.to_string())),
        }
        true
    }

    /// Tells which operations are through. What an input was is kept until the last lane is: until then another may fail.
    fn finish(&mut self) {
        while let Some(sequence) = self.lane.finished() {
            let Some(completion) = self.completions.get(&sequence) else { continue };
            if !completion.lane_done() || !completion.end(Ok(())) {
                continue;
            }
            _ = self.reports.send(Report::Finished(sequence));
            self.completions.remove(&sequence);
            self.lane.forget(sequence);
            for sibling in &self.siblings {
                _ = sibling.send(Command::Forget(sequence));
            }
        }
    }

    /// Gives up what is not over: its inputs are as they were. What another lane has ended stays.
    fn abort(&mut self) {
        self.aborted.store(true, Ordering::Relaxed);
        for (sequence, completion) in std::mem::take(&mut self.completions) {
            if !completion.seal() {
                self.lane.forget(sequence);
            }
        }
        self.lane.abort();
    }

    /// Gives signs of life, and looks for those of others.
    fn tick(&mut self) {
        let now = self.started.elapsed();
        for peer in self.pulse.due(now) {
            self.lane.beat(peer as u32);
        }
        // Whoever is not listened to cannot be heard.
        for peer in (0..self.connections.len()).filter(|&peer| !self.lane.reads(peer as u32)) {
            if self.connections[peer].is_some() {
                self.pulse.heard(peer, now);
            }
        }
        for (peer, silence) in self.pulse.silent(now) {
            self.drop_connection(peer as u32, Trouble::silent(silence));
        }
        self.work();
    }

    fn drop_connection(&mut self, rank: u32, trouble: Trouble) {
        if let Some(mut connection) = self.connections[rank as usize].take() {
            // A closed connection need not be watched; that it cannot be unwatched is no news.
            _ = connection.stream.unwatch(self.poll.registry());
            self.pulse.leave(rank as usize);
            let left = self.lane.has_left(rank);
            let trouble = if left { Trouble::left() } else { trouble };
            // Whoever leaves is missed only where it is needed.
            if !left || self.lane.needs(rank) {
                _ = self.reports.send(Report::Trouble(rank, trouble.clone()));
            }
            self.gone.insert(rank, trouble);
        }
    }

    /// Says goodbye, and lets what is under way arrive.
    fn leave(&mut self) {
        for rank in 0..self.connections.len() as u32 {
            if self.connections[rank as usize].is_some() {
                self.lane.leave(rank);
                while self.write(rank) {}
            }
        }
        let streams = self.connections.iter_mut().flatten().map(|connection| &mut connection.stream);
        stream::end(streams.collect());
    }
}
