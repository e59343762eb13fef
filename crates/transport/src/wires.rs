//! Connections that one thread waits for, and moves bytes between them and its machine.

use super::bell::Bell;
use super::parting::{Parting, ended};
use super::{Connection, Halt, Intake};
use crate::forks::Watcher;
use mio::{Events, Registry, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Kind, Trouble};
use syncline_protocol::heartbeat::{Patience, Pulse};
use syncline_protocol::machine::Machine;

/// Bytes that are read at once, at most, where they cannot be read to their place.
const STAGING: usize = 256 << 10;

/// Bytes that are read beyond a payload that can: the next header, or many small frames.
const NEXT: usize = 4 << 10;

/// Slices that are written at once, at most.
const SLICES: usize = 64;

/// How long a peer has to end a connection on which nothing more is sent.
const PARTING: Duration = Duration::from_secs(2);

/// The token of whoever has commands; connections have that of their peer.
const COMMANDS: Token = Token(usize::MAX);

/// A thread's connections, by peer. The thread works in turns: it [waits](Wires::wait), looks what it was told, and
/// [works](Wires::work).
pub struct Wires {
    poll: Watcher,
    events: Events,
    bell: Arc<Bell>,
    connections: BTreeMap<u32, Connection>,
    /// Connections that send no more, and since when.
    parting: Vec<(Connection, Instant)>,
    pulse: Pulse,
    started: Instant,
    ticked: Duration,
    staging: Vec<u8>,
    /// Whether there are connections that are heard without waiting.
    lively: bool,
    /// Whether there is more to move than one turn may.
    busy: bool,
}

/// Received bytes on their way into the machine.
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
        let straight = place.len();
        // What follows a payload is known once its header is: no more than that is worth a copy.
        let more = if straight > 0 { NEXT } else { STAGING };
        let slices = &mut [IoSliceMut::new(place), IoSliceMut::new(&mut self.staging[..more])];
        let read = read(if straight == 0 { &mut slices[1..] } else { slices })?;
        let placed = read.min(straight);
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

impl Wires {
    /// No connections yet, and what wakes the thread that waits for them.
    pub fn new(patience: Patience) -> io::Result<(Self, Arc<Bell>)> {
        let poll = Watcher::new()?;
        let bell = Arc::new(Bell::new(poll.registry(), COMMANDS)?);
        let wires = Self {
            poll,
            bell: Arc::clone(&bell),
            events: Events::with_capacity(256),
            connections: BTreeMap::new(),
            parting: Vec::new(),
            pulse: Pulse::new(patience, Duration::ZERO),
            started: Instant::now(),
            ticked: Duration::ZERO,
            staging: vec![0; STAGING],
            lively: false,
            busy: false,
        };
        Ok((wires, bell))
    }

    /// One more connection. The peer is watched once it has been heard: it may still be meeting others.
    pub fn add(
        &mut self,
        machine: &mut impl Machine,
        peer: u32,
        mut connection: Connection,
    ) -> io::Result<()> {
        connection.watch(self.poll.registry(), Token(peer as usize))?;
        self.pulse.join(peer as usize, self.started.elapsed());
        if !connection.checked() {
            machine.believe(peer);
        }
        self.lively |= connection.lively();
        self.connections.insert(peer, connection);
        self.busy = true;
        Ok(())
    }

    /// A connection less.
    pub fn remove(&mut self, peer: u32) {
        if let Some(mut connection) = self.connections.remove(&peer) {
            // A closed connection need not be watched; that it cannot be unwatched is no news.
            _ = connection.unwatch(self.poll.registry());
            self.pulse.leave(peer as usize);
        }
    }

    /// A connection less, once the peer has got everything and has ended, too, or a moment has passed.
    pub fn part(&mut self, peer: u32) {
        if let Some(mut connection) = self.connections.remove(&peer) {
            self.pulse.leave(peer as usize);
            if connection.finish().is_ok() {
                self.parting.push((connection, Instant::now()));
            }
        }
    }

    /// All connections less.
    pub fn clear(&mut self) {
        let all: Vec<u32> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|peer| self.remove(peer));
    }

    /// What the thread waits on, for whatever else it waits for: under tokens of 2^32 and more.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Waits until something happens on a connection, somebody rings, or signs of life are due. Tokens of whatever else
    /// something happened to.
    ///
    /// # Errors
    /// Where the system cannot wait.
    pub fn wait(&mut self, machine: &impl Machine) -> io::Result<Vec<Token>> {
        let due = (self.ticked + self.pulse.interval()).saturating_sub(self.started.elapsed());
        let mut ready = self.busy;
        for (&peer, connection) in &mut self.connections {
            ready |= connection.rest(machine.reads(peer), machine.waiting(peer) > 0);
        }
        let sleeps = !ready && self.bell.doze();
        let polled = self.poll.poll(&mut self.events, Some(if sleeps { due } else { Duration::ZERO }));
        self.bell.rouse();
        self.connections.values_mut().for_each(|connection| connection.rouse());
        match polled {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => self.events.clear(),
            Ok(()) => {}
        }
        let mut others = Vec::new();
        for event in &self.events {
            match u32::try_from(event.token().0) {
                Ok(peer) => {
                    if let Some(connection) = self.connections.get_mut(&peer) {
                        connection.told(event);
                    }
                }
                Err(_) if event.token() == COMMANDS => {}
                Err(_) => others.push(event.token()),
            }
        }
        Ok(others)
    }

    /// Moves bytes until every connection blocks, in turn with each peer; not for ever, because there is more to do. After
    /// each round `each` looks what has come of it. Connections that are lost are gone afterwards: the peers, and why.
    ///
    /// Before it gives up it looks a few times whether more comes at once, where that costs next to nothing: to sleep and be
    /// woken takes longer than most peers need. Others that have work to do go first.
    pub fn work<M: Machine>(&mut self, machine: &mut M, mut each: impl FnMut(&mut M)) -> Vec<(u32, Trouble)> {
        const ROUNDS: usize = 64;
        const LOOKS: usize = 10;
        let mut lost = Vec::new();
        let mut looks = if self.lively { LOOKS } else { 0 };
        self.busy = true;
        for _ in 0..ROUNDS {
            let moved = self.round(machine, &mut lost);
            each(machine);
            if self.started.elapsed() >= self.ticked + self.pulse.interval() {
                break;
            }
            if moved {
                continue;
            }
            if looks == 0 || self.bell.rung() {
                self.busy = false;
                break;
            }
            looks -= 1;
            std::thread::yield_now();
        }
        self.tick(machine, &mut lost);
        // Whoever has said that it leaves is not lost.
        lost.into_iter()
            .map(|(peer, trouble)| (peer, if machine.has_left(peer) { Trouble::left() } else { trouble }))
            .collect()
    }

    /// Reads and writes once with every peer; whether there was something.
    fn round(&mut self, machine: &mut impl Machine, lost: &mut Vec<(u32, Trouble)>) -> bool {
        let (mut moved, before) = (false, lost.len());
        let now = self.started.elapsed();
        for (&peer, connection) in &mut self.connections {
            let read = receive(machine, peer, connection, &mut self.staging);
            if let Ok(true) = read {
                self.pulse.heard(peer as usize, now);
                self.bell.set_cut_off(false);
            }
            let written = read.and_then(|read| match send(machine, peer, connection) {
                Ok(wrote) => Ok((read, wrote)),
                Err(trouble) => {
                    // What the peer said before it went counts: it may have left as it should, or made no sense.
                    const LAST: usize = 64;
                    let more = || receive(machine, peer, connection, &mut self.staging);
                    let last = std::iter::repeat_with(more).take(LAST).find(|more| *more != Ok(true));
                    Err(last
                        .and_then(Result::err)
                        .filter(|last| last.kind != Kind::Closed)
                        .unwrap_or(trouble))
                }
            });
            match written {
                Ok((read, wrote)) => {
                    if wrote {
                        self.pulse.said(peer as usize, now);
                    }
                    moved |= read || wrote;
                }
                Err(trouble) => lost.push((peer, trouble)),
            }
        }
        for &(peer, _) in &lost[before..] {
            self.remove(peer);
        }
        moved || lost.len() > before
    }

    /// Gives signs of life and looks for those of others, if that is due.
    fn tick(&mut self, machine: &mut impl Machine, lost: &mut Vec<(u32, Trouble)>) {
        let now = self.started.elapsed();
        if now < self.ticked + self.pulse.interval() {
            return;
        }
        self.ticked = now;
        machine.rest();
        self.parting.retain_mut(|(connection, since)| since.elapsed() < PARTING && !ended(connection));
        let peers: Vec<u32> = self.connections.keys().copied().collect();
        let look = self.pulse.look(machine, &peers, now);
        self.busy |= look.told;
        if look.cut_off {
            self.bell.set_cut_off(true);
        }
        self.bell.set_hears(look.hears);
        look.lost.iter().for_each(|&(peer, _)| self.remove(peer));
        lost.extend(look.lost);
    }

    /// Says goodbye to all peers, and goes once they have got everything and have ended, too, or take no more. Calls `meanwhile`
    /// every millisecond or so.
    pub fn leave(&mut self, machine: &mut impl Machine, mut meanwhile: impl FnMut()) {
        const GLANCE: Duration = Duration::from_millis(1);
        let silence = self.pulse.patience().silence;
        self.connections.keys().for_each(|&peer| machine.leave(peer));
        let mut partings: BTreeMap<u32, Parting> = BTreeMap::new();
        loop {
            self.connections.retain(|&peer, connection| {
                let parting = partings.entry(peer).or_insert_with(|| Parting::new(silence));
                let wrote = std::iter::repeat_with(|| send(machine, peer, connection));
                match wrote.take_while(|wrote| *wrote != Ok(false)).find(Result::is_err) {
                    Some(_) => false,
                    None => !parting.over(connection, machine.waiting(peer)),
                }
            });
            if self.connections.is_empty() {
                return;
            }
            meanwhile();
            // Where that cannot wait, there is still the time.
            if self.poll.poll(&mut self.events, Some(GLANCE)).is_err() {
                std::thread::sleep(GLANCE);
            }
            for event in &self.events {
                if let Ok(peer) = u32::try_from(event.token().0)
                    && let Some(connection) = self.connections.get_mut(&peer)
                {
                    connection.told(event);
                }
            }
        }
    }
}

/// Reads what a peer has sent, up to a fair share of a turn; whether there was something.
fn receive(
    machine: &mut impl Machine,
    peer: u32,
    connection: &mut Connection,
    staging: &mut [u8],
) -> Result<bool, Trouble> {
    let mut got = 0;
    while got < STAGING && machine.reads(peer) {
        match connection.receive(&mut Reception { machine: &mut *machine, peer, staging: &mut *staging }) {
            Ok(0) => return Err(Trouble::closed("end of file")),
            Ok(more) => got += more,
            Err(halt) if halt.waits() => break,
            Err(halt) => return Err(halt.into()),
        }
    }
    Ok(got > 0)
}

/// Writes once to a peer; whether there was something.
fn send(machine: &mut impl Machine, peer: u32, connection: &mut Connection) -> Result<bool, Trouble> {
    if machine.waiting(peer) == 0 {
        return Ok(false);
    }
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
    machine.gather(peer, &mut slices, SLICES);
    match connection.send(&slices) {
        Ok(written) => {
            machine.sent(peer, written);
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(Halt::System(error).into()),
    }
}
