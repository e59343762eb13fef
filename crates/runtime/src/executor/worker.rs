//! The thread of a lane: waits for its connections, and moves bytes between them and the lane.

use super::pending::Completion;
use crate::fault::{Blame, Kind, Trouble};
use crate::lane::{Job, Lane};
use crate::machine::Machine;
use crate::pulse::{Patience, Pulse};
use crate::transport::{self, Connection, Halt, Intake};
use mio::{Events, Poll, Token, Waker};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
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

/// Wakes a lane's thread that has been told something.
#[derive(Debug)]
pub(super) struct Bell {
    waker: Waker,
    asleep: AtomicBool,
    /// Whether the thread hears nobody, of two or more: this rank is cut off.
    cut_off: AtomicBool,
}

impl Bell {
    /// The thread sees what it was told before this, soon: it is woken where it sleeps.
    pub(super) fn ring(&self) {
        // What it was told comes before the look whether it sleeps; there it is the other way round (`doze`).
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // A thread that is gone hears nothing.
            _ = self.waker.wake();
        }
    }

    /// Whether the thread hears nobody, of two or more.
    pub(super) fn cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// The thread is about to sleep: it looks once more what it was told before it does.
    fn doze(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn rouse(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
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

/// Received bytes on their way into the lane.
struct Reception<'a> {
    lane: &'a mut Lane,
    rank: u32,
    staging: &'a mut [u8],
}

impl Intake for Reception<'_> {
    fn fill(
        &mut self,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<usize, Halt> {
        let place = self.lane.direct(self.rank).map_or(&mut [][..], crate::memory::Region::bytes_mut);
        let straight = place.len();
        let slices = &mut [IoSliceMut::new(place), IoSliceMut::new(self.staging)];
        let read = read(if straight == 0 { &mut slices[1..] } else { slices })?;
        let placed = read.min(straight);
        if placed > 0 {
            self.lane.read_directly(self.rank, placed)?;
        }
        self.lane.received(self.rank, &self.staging[..read - placed])?;
        Ok(read)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        Ok(self.lane.received(self.rank, bytes)?)
    }
}

/// The thread of a lane.
pub(super) struct Worker {
    lane: Lane,
    poll: Poll,
    /// By rank; none for the own, and once something is wrong.
    connections: Vec<Option<Connection>>,
    commands: Receiver<Command>,
    bell: Arc<Bell>,
    reports: Sender<Report>,
    siblings: Vec<Sibling>,
    completions: BTreeMap<u64, Arc<Completion>>,
    /// Peers without a connection, and why.
    gone: BTreeMap<u32, Trouble>,
    pulse: Pulse,
    started: Instant,
    staging: Vec<u8>,
    aborted: Arc<AtomicBool>,
    /// Whether there are connections that are heard without waiting.
    lively: bool,
    /// Whether there is more to move than one round of work may.
    busy: bool,
}

impl Worker {
    /// A worker with connections to ranks, and what wakes it after a command.
    pub(super) fn new(
        mut lane: Lane,
        mut connections: Vec<Option<Connection>>,
        patience: Patience,
        commands: Receiver<Command>,
        siblings: Vec<Sibling>,
        reports: Sender<Report>,
    ) -> io::Result<(Self, Arc<Bell>)> {
        let poll = Poll::new()?;
        let bell = Waker::new(poll.registry(), COMMANDS)?;
        let bell =
            Arc::new(Bell { waker: bell, asleep: AtomicBool::new(false), cut_off: AtomicBool::new(false) });
        let started = Instant::now();
        let mut pulse = Pulse::new(patience, started.elapsed());
        for (rank, connection) in connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            connection.watch(poll.registry(), Token(rank))?;
            // It is watched once it has been heard, by a sign of life at the latest: it may still be meeting others.
            pulse.join(rank, started.elapsed());
            if !connection.checked() {
                lane.believe(rank as u32);
            }
            lane.beat(rank as u32);
        }
        let worker = Self {
            lively: connections.iter().flatten().any(|connection| connection.lively()),
            bell: Arc::clone(&bell),
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
        Ok((worker, bell))
    }

    /// Works until it is told to end, or nobody is left to tell it.
    pub(super) fn run(mut self) {
        let _farewell = Farewell { reports: self.reports.clone(), aborted: Arc::clone(&self.aborted) };
        let mut events = Events::with_capacity(256);
        let mut ticked = self.started.elapsed();
        loop {
            let due = (ticked + self.pulse.interval()).saturating_sub(self.started.elapsed());
            if self.linger().is_none() {
                return;
            }
            let wait = match self.busy || self.rest() {
                true => Duration::ZERO,
                false => match self.doze() {
                    None => return,
                    Some(true) => Duration::ZERO,
                    Some(false) => due,
                },
            };
            let polled = self.poll.poll(&mut events, Some(wait));
            self.bell.rouse();
            self.connections.iter_mut().flatten().for_each(|connection| connection.rouse());
            match polled {
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
                    connection.told(event);
                }
            }
            if self.obey().is_none() {
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

    /// Looks a few times whether more comes at once, where that costs next to nothing: to sleep and be woken takes longer than
    /// most peers need. Others that have work to do go first. None where it is to end.
    fn linger(&mut self) -> Option<()> {
        const LOOKS: usize = 10;
        for _ in 0..LOOKS {
            if self.busy || !self.lively {
                break;
            }
            std::thread::yield_now();
            self.obey()?;
            if self.work() {
                break;
            }
        }
        Some(())
    }

    /// About to sleep: looks what it was told meanwhile.
    fn doze(&mut self) -> Option<bool> {
        self.bell.doze();
        self.obey()
    }

    /// About to wait: whether it need not.
    fn rest(&mut self) -> bool {
        let mut ready = false;
        for (rank, connection) in (0u32..).zip(&mut self.connections) {
            if let Some(connection) = connection {
                ready |= connection.rest(self.lane.reads(rank), self.lane.waiting(rank) > 0);
            }
        }
        ready
    }

    /// Does what it is told; whether that was something. None where it is to end.
    fn obey(&mut self) -> Option<bool> {
        let mut told = false;
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
                        return None;
                    }
                }
                Ok(Command::Stop) | Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    self.leave();
                    self.abort();
                    return None;
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return Some(told),
            }
            told = true;
        }
    }

    /// Moves bytes until every connection blocks, in turn with each peer; not for ever, because there is more to do.
    fn work(&mut self) -> bool {
        const ROUNDS: usize = 64;
        self.busy = true;
        for round in 0..ROUNDS {
            let mut moved = false;
            for rank in 0..self.connections.len() as u32 {
                moved |= self.read(rank);
                moved |= self.write(rank);
            }
            self.finish();
            if !moved {
                self.busy = false;
                return round > 0;
            }
        }
        true
    }

    /// Reads once from a peer; whether there was something.
    fn read(&mut self, rank: u32) -> bool {
        let Some(connection) = &mut self.connections[rank as usize] else { return false };
        if !self.lane.reads(rank) {
            return false;
        }
        let mut reception = Reception { lane: &mut self.lane, rank, staging: &mut self.staging };
        let trouble = match connection.receive(&mut reception) {
            Ok(0) => Trouble::closed("end of file"),
            Ok(_) => {
                self.pulse.heard(rank as usize, self.started.elapsed());
                self.bell.cut_off.store(false, Ordering::Relaxed);
                return true;
            }
            Err(halt) if halt.waits() => return false,
            Err(halt) => halt.into(),
        };
        self.drop_connection(rank, trouble);
        true
    }

    /// Writes once to a peer; whether there was something.
    fn write(&mut self, rank: u32) -> bool {
        let Some(connection) = &mut self.connections[rank as usize] else { return false };
        if self.lane.waiting(rank) == 0 {
            return false;
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
        self.lane.gather(rank, &mut slices, SLICES);
        match connection.send(&slices) {
            Ok(written) => {
                self.pulse.said(rank as usize, self.started.elapsed());
                self.lane.sent(rank, written);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => {
                // What the peer said before it went counts: it may have left as it should.
                while self.read(rank) {}
                self.drop_connection(rank, Halt::System(error).into());
            }
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
        let silent = self.pulse.silent(now);
        if self.pulse.cut_off(now, None) {
            self.bell.cut_off.store(true, Ordering::Relaxed);
        }
        for (peer, silence) in silent {
            self.drop_connection(peer as u32, Trouble::silent(silence));
        }
        self.work();
    }

    fn drop_connection(&mut self, rank: u32, trouble: Trouble) {
        if let Some(mut connection) = self.connections[rank as usize].take() {
            // A closed connection need not be watched; that it cannot be unwatched is no news.
            _ = connection.unwatch(self.poll.registry());
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
        transport::end(self.connections.iter_mut().flatten().collect());
    }
}
