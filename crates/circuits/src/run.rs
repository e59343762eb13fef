//! A job on a network of reconfigurable circuits, event by event.

use crate::{Circuits, PairDemand, allocate};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{Bytes, CollectiveKind, Time};
use syncline_workload::{Peer, RoleId, TaskGraph, TaskKind, Workload};

/// Events between two checks for cancellation.
const CHECK_INTERVAL: u64 = 1024;
/// Most changes of circuits in a run.
const MAX_CHANGES: u64 = 10_000_000;

/// Simulates `steps` training steps, one after the other, and returns the end of each. Circuits stay as they are from
/// one step to the next, so later steps show how long a step takes in the middle of training. Once `cancel` is set,
/// the step ends early and is the last one.
///
/// `durations` holds the time of each class's compute tasks. `workload` has one iteration.
///
/// # Errors
/// `BadValue` for circuits that pause as long as they are kept; `BadWorkload` for collectives other than all-reduces;
/// `Deadlock` if some tasks never start or finish; `LimitReached` after ten million changes of circuits.
pub fn run(
    workload: &Workload,
    durations: &[Vec<Time>],
    circuits: &Circuits,
    steps: u32,
    cancel: &AtomicBool,
) -> Result<Vec<Time>> {
    if circuits.pause >= circuits.period {
        return Err(Diagnostic::error(Code::BadValue, "the period must be longer than the pause")
            .key("period")
            .found(format!("a period of {}, and a pause of {}", circuits.period, circuits.pause))
            .into());
    }
    if circuits.degree == 0 || circuits.rate.0 == 0 {
        return Err(Diagnostic::error(Code::BadValue, "circuits need interfaces with a rate above 0").into());
    }
    let mut simulation = Simulation::new(workload, durations, circuits);
    let mut ends = Vec::new();
    while ends.len() < steps as usize && !cancel.load(Ordering::Relaxed) {
        ends.push(simulation.step(cancel)?);
    }
    Ok(ends)
}

/// A task of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    rank: u32,
    task: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A computation or memory operation is done.
    Done(At),
    /// The first transfer of a pair is done, unless the pair has changed since.
    Sent { pair: u32, version: u32 },
    /// A message has arrived.
    Arrived { message: u32 },
    /// An all-reduce is done.
    Reduced { collective: u32 },
    /// The demand is measured.
    Measure,
    /// The circuits have changed.
    Changed,
}

/// What a transfer between two servers belongs to.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    Message(u32),
    Ring(u32),
}

/// The transfers from one server to another.
#[derive(Debug, Default)]
struct Pair {
    /// Bits that are left, and what they belong to.
    queue: VecDeque<(u128, Transfer)>,
    circuits: u32,
    /// When the bits of the first transfer were last counted.
    since: u64,
    version: u32,
}

/// An all-reduce of a group.
#[derive(Debug, Default)]
struct Collective {
    arrived: Vec<At>,
    /// Transfers that are not done.
    left: u32,
    latency: u64,
}

/// What of a server does a task.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Compute,
    Memory,
}

impl Unit {
    fn of(task: &TaskKind) -> Self {
        if matches!(task, TaskKind::Compute(_)) { Self::Compute } else { Self::Memory }
    }
}

/// A resource of a server that does one task at a time, in the order in which they become ready.
#[derive(Debug, Default)]
struct Worker {
    busy: bool,
    ready: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Rank {
    /// For each task, how many others it still waits for.
    waits: Vec<u32>,
    compute: Worker,
    memory: Worker,
}

/// A message: its send and receive tasks once each is ready, and whether it has arrived.
#[derive(Debug, Default)]
struct Message {
    send: Option<At>,
    receive: Option<At>,
    arrived: bool,
}

/// What the send and the receive of a message have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MessageKey {
    from: u32,
    to: u32,
    tag: u32,
    /// Its number among the messages that are alike otherwise.
    ordinal: u32,
}

/// What the tasks of an all-reduce have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CollectiveKey {
    role: RoleId,
    group: u32,
    /// Its number among the all-reduces of the group.
    ordinal: u32,
}

struct Simulation<'a> {
    workload: &'a Workload,
    durations: &'a [Vec<Time>],
    circuits: &'a Circuits,
    now: u64,
    /// Events so far, which orders those of the same time.
    scheduled: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    ranks: Vec<Rank>,
    pairs: Vec<Pair>,
    /// Pairs with transfers.
    active: BTreeSet<u32>,
    /// Circuits that the last measurement chose; transfers use them once the switch has changed.
    joined: BTreeMap<(u32, u32), u32>,
    /// Whether a measurement is due.
    measuring: bool,
    changes: u64,
    messages: Vec<Message>,
    message_ids: BTreeMap<MessageKey, u32>,
    /// For each rank and task, the number of the message or all-reduce among those that look alike.
    ordinals: Vec<Vec<u32>>,
    collectives: Vec<Collective>,
    collective_ids: BTreeMap<CollectiveKey, u32>,
    /// Tasks that are not done.
    left: u64,
}

impl<'a> Simulation<'a> {
    fn new(workload: &'a Workload, durations: &'a [Vec<Time>], circuits: &'a Circuits) -> Self {
        let servers = workload.ranks as usize;
        let ordinals = (0..workload.ranks).map(|rank| ordinals(graph_of(workload, rank))).collect();
        Self {
            workload,
            durations,
            circuits,
            now: 0,
            scheduled: 0,
            events: BinaryHeap::new(),
            ranks: Vec::new(),
            pairs: (0..servers * servers).map(|_| Pair::default()).collect(),
            active: BTreeSet::new(),
            joined: BTreeMap::new(),
            measuring: false,
            changes: 0,
            messages: Vec::new(),
            message_ids: BTreeMap::new(),
            ordinals,
            collectives: Vec::new(),
            collective_ids: BTreeMap::new(),
            left: 0,
        }
    }

    fn graph(&self, rank: u32) -> &'a TaskGraph {
        graph_of(self.workload, rank)
    }

    /// Runs a step and returns when it ends.
    fn step(&mut self, cancel: &AtomicBool) -> Result<Time> {
        self.messages.clear();
        self.message_ids.clear();
        self.collectives.clear();
        self.collective_ids.clear();
        self.ranks = (0..self.workload.ranks)
            .map(|rank| {
                let graph = self.graph(rank);
                let waits = (0..graph.tasks.len() as u32).map(|task| graph.waits(task, 0)).collect();
                Rank { waits, ..Rank::default() }
            })
            .collect();
        self.left = self.ranks.iter().map(|rank| rank.waits.len() as u64).sum();
        let begin: Vec<At> = (0..self.workload.ranks)
            .flat_map(|rank| (0..self.graph(rank).tasks.len() as u32).map(move |task| At { rank, task }))
            .filter(|at| self.ranks[at.rank as usize].waits[at.task as usize] == 0)
            .collect();
        for at in begin {
            self.begin(at)?;
        }
        let mut handled = 0u64;
        while self.left > 0 {
            handled += 1;
            if handled.is_multiple_of(CHECK_INTERVAL) && cancel.load(Ordering::Relaxed) {
                break;
            }
            let Some(Reverse((time, _, event))) = self.events.pop() else {
                return Err(Diagnostic::error(
                    Code::Deadlock,
                    format!("the job deadlocks: {} tasks never start or finish", self.left),
                )
                .into());
            };
            self.now = time;
            self.handle(event)?;
        }
        Ok(Time(self.now))
    }

    fn schedule(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    fn handle(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Done(at) => {
                let unit = Unit::of(&self.graph(at.rank).tasks[at.task as usize].kind);
                self.worker(at.rank, unit).busy = false;
                self.next_of(at.rank, unit);
                self.done(at)
            }
            Event::Sent { pair, version } if self.pairs[pair as usize].version == version => self.sent(pair),
            Event::Sent { .. } => Ok(()),
            Event::Arrived { message } => {
                self.messages[message as usize].arrived = true;
                match self.messages[message as usize].receive {
                    Some(receive) => self.done(receive),
                    None => Ok(()),
                }
            }
            Event::Reduced { collective } => {
                for at in std::mem::take(&mut self.collectives[collective as usize].arrived) {
                    self.done(at)?;
                }
                Ok(())
            }
            Event::Measure => self.measure(),
            Event::Changed => {
                self.join();
                Ok(())
            }
        }
    }

    /// Begins a task that waits for nothing any more.
    fn begin(&mut self, at: At) -> Result<()> {
        let task = &self.graph(at.rank).tasks[at.task as usize];
        match task.kind {
            TaskKind::Compute(_) | TaskKind::Memory(_) => {
                let unit = Unit::of(&task.kind);
                self.worker(at.rank, unit).ready.push_back(at.task);
                self.next_of(at.rank, unit);
                Ok(())
            }
            TaskKind::Join => self.done(at),
            TaskKind::Send { to, bytes, tag } => {
                let (from, to) = (at.rank, peer(to, at.rank)?);
                let message = self.message(from, to, tag, at);
                self.messages[message as usize].send = Some(at);
                self.enqueue(from, to, bits(bytes), Transfer::Message(message));
                Ok(())
            }
            TaskKind::Receive { from, tag, .. } => {
                let (from, to) = (peer(from, at.rank)?, at.rank);
                let message = self.message(from, to, tag, at);
                self.messages[message as usize].receive = Some(at);
                if self.messages[message as usize].arrived { self.done(at) } else { Ok(()) }
            }
            TaskKind::Collective { role, kind, bytes, .. } => self.collective(at, role, kind, bytes),
        }
    }

    /// The message that a send or a receive belongs to.
    fn message(&mut self, from: u32, to: u32, tag: u32, at: At) -> u32 {
        let ordinal = self.ordinals[at.rank as usize][at.task as usize];
        let next = self.messages.len() as u32;
        let id = *self.message_ids.entry(MessageKey { from, to, tag, ordinal }).or_insert(next);
        if id == next {
            self.messages.push(Message::default());
        }
        id
    }

    fn collective(&mut self, at: At, role: RoleId, kind: CollectiveKind, bytes: Bytes) -> Result<()> {
        if kind != CollectiveKind::AllReduce {
            return Err(Diagnostic::error(
                Code::BadWorkload,
                "only all-reduces run on reconfigurable circuits",
            )
            .found(kind.to_string())
            .into());
        }
        let group = &self.workload.roles[role.index()];
        let Some(position) = group.position_of(at.rank) else {
            return Err(Diagnostic::error(
                Code::Internal,
                "a rank takes part in an all-reduce of a group that it does not belong to",
            )
            .into());
        };
        let ordinal = self.ordinals[at.rank as usize][at.task as usize];
        let next = self.collectives.len() as u32;
        let key = CollectiveKey { role, group: position.group, ordinal };
        let id = *self.collective_ids.entry(key).or_insert(next);
        if id == next {
            self.collectives.push(Collective::default());
        }
        let collective = &mut self.collectives[id as usize];
        collective.arrived.push(at);
        let size = group.size();
        if (collective.arrived.len() as u32) < size {
            return Ok(());
        }
        let rounds = 2 * (u64::from(size) - 1);
        collective.latency = rounds.saturating_mul(self.circuits.latency.0);
        if size < 2 || bytes.0 == 0 {
            let end = self.now + collective.latency;
            self.schedule(end, Event::Reduced { collective: id });
            return Ok(());
        }
        collective.left = size;
        let part = (bits(bytes) * u128::from(rounds)).div_ceil(u128::from(size));
        let members = group.ranks(position.group);
        for (place, &from) in members.iter().enumerate() {
            self.enqueue(from, members[(place + 1) % members.len()], part, Transfer::Ring(id));
        }
        Ok(())
    }

    fn worker(&mut self, rank: u32, unit: Unit) -> &mut Worker {
        let rank = &mut self.ranks[rank as usize];
        match unit {
            Unit::Compute => &mut rank.compute,
            Unit::Memory => &mut rank.memory,
        }
    }

    /// Begins the next computation or memory operation of a server, if it is free.
    fn next_of(&mut self, rank: u32, unit: Unit) {
        let worker = self.worker(rank, unit);
        if worker.busy {
            return;
        }
        let Some(task) = worker.ready.pop_front() else { return };
        worker.busy = true;
        let time = match &self.graph(rank).tasks[task as usize].kind {
            TaskKind::Memory(time) => time.0,
            _ => self.durations[self.workload.class_of(rank) as usize][task as usize].0,
        };
        self.schedule(self.now.saturating_add(time), Event::Done(At { rank, task }));
    }

    fn done(&mut self, at: At) -> Result<()> {
        self.left -= 1;
        for next in self.graph(at.rank).successors(at.task) {
            if next.lag > 0 {
                continue;
            }
            let waits = &mut self.ranks[at.rank as usize].waits[next.task as usize];
            *waits -= 1;
            if *waits == 0 {
                self.begin(At { rank: at.rank, task: next.task })?;
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, from: u32, to: u32, bits: u128, transfer: Transfer) {
        let number = from * self.workload.ranks + to;
        let pair = &mut self.pairs[number as usize];
        pair.queue.push_back((bits, transfer));
        if pair.queue.len() == 1 {
            self.active.insert(number);
            self.start(number);
        }
        if !self.measuring {
            self.measuring = true;
            let period = self.circuits.period.0;
            self.schedule(self.now.div_ceil(period).saturating_mul(period), Event::Measure);
        }
    }

    /// Bits per second of a pair's circuits.
    fn rate(&self, pair: &Pair) -> u128 {
        u128::from(self.circuits.rate.0) * u128::from(pair.circuits)
    }

    /// Schedules the end of a pair's first transfer, if the pair has a circuit.
    fn start(&mut self, number: u32) {
        let pair = &self.pairs[number as usize];
        let (rate, first) = (self.rate(pair), pair.queue.front().map(|first| first.0));
        let pair = &mut self.pairs[number as usize];
        pair.version += 1;
        pair.since = self.now;
        let version = pair.version;
        if let Some(bits) = first
            && rate > 0
        {
            let time = u64::try_from((bits * 1_000_000_000_000).div_ceil(rate)).unwrap_or(u64::MAX);
            self.schedule(self.now.saturating_add(time), Event::Sent { pair: number, version });
        }
    }

    /// The first transfer of a pair is done.
    fn sent(&mut self, number: u32) -> Result<()> {
        let pair = &mut self.pairs[number as usize];
        let Some((_, transfer)) = pair.queue.pop_front() else { return Ok(()) };
        if pair.queue.is_empty() {
            self.active.remove(&number);
        }
        self.start(number);
        match transfer {
            Transfer::Message(message) => {
                let end = self.now + self.circuits.latency.0;
                self.schedule(end, Event::Arrived { message });
                match self.messages[message as usize].send {
                    Some(send) => self.done(send),
                    None => Ok(()),
                }
            }
            Transfer::Ring(number) => {
                let collective = &mut self.collectives[number as usize];
                collective.left -= 1;
                if collective.left == 0 {
                    let end = self.now + collective.latency;
                    self.schedule(end, Event::Reduced { collective: number });
                }
                Ok(())
            }
        }
    }

    /// Counts the bits that a pair has sent of its first transfer.
    fn count_bits(&mut self, number: u32) {
        let pair = &self.pairs[number as usize];
        let sent = u128::from(self.now - pair.since) * self.rate(pair) / 1_000_000_000_000;
        let now = self.now;
        let pair = &mut self.pairs[number as usize];
        pair.since = now;
        if let Some((bits, _)) = pair.queue.front_mut() {
            *bits = bits.saturating_sub(sent);
        }
    }

    fn measure(&mut self) -> Result<()> {
        if self.active.is_empty() {
            self.measuring = false;
            return Ok(());
        }
        let active: Vec<u32> = self.active.iter().copied().collect();
        active.iter().for_each(|&number| self.count_bits(number));
        let servers = self.workload.ranks;
        let waiting = |&number: &u32| {
            let bits: u128 = self.pairs[number as usize].queue.iter().map(|transfer| transfer.0).sum();
            let bytes = u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX).max(1);
            PairDemand { from: number / servers, to: number % servers, bytes }
        };
        let demand: Vec<PairDemand> = active.iter().map(waiting).collect();
        let circuits = allocate(&demand, servers, self.circuits.degree, self.circuits.discount);
        self.schedule(self.now.saturating_add(self.circuits.period.0), Event::Measure);
        if circuits == self.joined {
            return Ok(());
        }
        self.changes += 1;
        if self.changes > MAX_CHANGES {
            return Err(Diagnostic::error(
                Code::LimitReached,
                "the circuits change too often to be simulated",
            )
            .key("period")
            .found(format!("{} changes", self.changes))
            .help("give a longer period, or a smaller job")
            .into());
        }
        for (pair, _) in std::mem::replace(&mut self.joined, circuits) {
            let number = pair.0 * servers + pair.1;
            self.pairs[number as usize].circuits = 0;
            self.start(number);
        }
        self.schedule(self.now.saturating_add(self.circuits.pause.0), Event::Changed);
        Ok(())
    }

    /// Lets transfers use the new circuits.
    fn join(&mut self) {
        let servers = self.workload.ranks;
        for (pair, count) in self.joined.clone() {
            let number = pair.0 * servers + pair.1;
            self.pairs[number as usize].circuits = count;
            self.start(number);
        }
    }
}

fn bits(bytes: Bytes) -> u128 {
    8 * u128::from(bytes.0)
}

fn graph_of(workload: &Workload, rank: u32) -> &TaskGraph {
    &workload.classes[workload.class_of(rank) as usize]
}

/// The rank of a peer.
fn peer(peer: Peer, of: u32) -> Result<u32> {
    let rank = peer.of(of).map(|rank| rank.0);
    rank.ok_or_else(|| {
        Diagnostic::error(Code::BadWorkload, "a message names a peer that is not a rank of the job").into()
    })
}

/// Sends, receives and collectives of a rank that belong to those of other ranks by their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Send(Peer, u32),
    Receive(Peer, u32),
    Collective(RoleId),
}

/// For each send, receive and collective, its number among those of the same rank with the same peer and tag, or of the
/// same group: the n-th of one rank belongs to the n-th of the others.
fn ordinals(graph: &TaskGraph) -> Vec<u32> {
    let mut counts: BTreeMap<Alike, u32> = BTreeMap::new();
    let mut ordinals = Vec::with_capacity(graph.tasks.len());
    for task in &graph.tasks {
        let key = match task.kind {
            TaskKind::Send { to, tag, .. } => Alike::Send(to, tag),
            TaskKind::Receive { from, tag, .. } => Alike::Receive(from, tag),
            TaskKind::Collective { role, .. } => Alike::Collective(role),
            _ => {
                ordinals.push(0);
                continue;
            }
        };
        let count = counts.entry(key).or_default();
        ordinals.push(*count);
        *count += 1;
    }
    ordinals
}

#[cfg(test)]
mod tests;
