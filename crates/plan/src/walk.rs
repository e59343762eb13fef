//! Runs all programs of a plan against each other, without time. Symbolic execution and counting share it.
//!
//! A [`Visit`] says what messages carry. The walk matches the `k`-th send with the `k`-th receive of each pair of
//! seats on each channel, and finds messages that never arrive and messages that no seat receives.

use crate::program::{Algorithm, Blocks, Op, Seat};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use syncline_units::CollectiveKind;

/// An instruction of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    /// The seat.
    pub seat: u32,
    /// The stream.
    pub stream: u32,
    /// Number of the instruction.
    pub pc: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seat {}, stream {}, instruction {}", self.seat, self.stream, self.pc)
    }
}

/// A fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The instruction; `None` if the fault shows at the end.
    pub site: Option<Site>,
    /// The fault, in a sentence.
    pub sentence: String,
}

impl Fault {
    pub(crate) fn at(site: Site, sentence: impl Into<String>) -> Self {
        Self { site: Some(site), sentence: sentence.into() }
    }
}

/// Which of the ready streams runs next. Two opposite orders find faults that depend on the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamOrder {
    /// The stream that has been ready longest.
    First,
    /// The stream that became ready last.
    Last,
}

/// Called at each instruction.
pub(crate) trait Visit {
    /// What a message carries.
    type Message;
    /// A send starts.
    fn send(&mut self, at: Site, to: u32, blocks: Blocks) -> Result<Self::Message, String>;
    /// A receive is posted.
    fn post(&mut self, _at: Site, _blocks: Blocks, _reduce: bool) -> Result<(), String> {
        Ok(())
    }
    /// A receive is complete.
    fn receive(&mut self, done: Received, message: Self::Message) -> Result<(), Fault>;
    /// Data is copied.
    fn copy(&mut self, _at: Site, _from: Blocks, _to: Blocks, _reduce: bool) -> Result<(), String> {
        Ok(())
    }
    /// Stream `stream` has passed the `ops` instructions that this one waited for.
    fn after(&mut self, _at: Site, _stream: u32, _ops: u32) {}
}

/// A complete receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The instruction that posted it.
    pub at: Site,
    /// The instruction of the same stream that waited for it; one past the last instruction if the end of the program
    /// did.
    pub wait: u32,
    /// The send of its message.
    pub sent: Site,
    /// The received blocks.
    pub blocks: Blocks,
    /// Whether they are reduced into the data there.
    pub reduce: bool,
}

/// Messages from one seat to another on a channel.
struct Mail<M> {
    waiting: VecDeque<(Site, M)>,
    taken: u32,
    sender: Option<u32>,
    receiver: Option<u32>,
}

impl<M> Default for Mail<M> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), taken: 0, sender: None, receiver: None }
    }
}

/// A receive that is not complete.
#[derive(Clone, Copy)]
struct Pending {
    pc: u32,
    from: u32,
    blocks: Blocks,
    reduce: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the queue, or running.
    Ready,
    /// At a wait, an after, or the end with receives outstanding.
    Blocked,
    Ended,
}

struct Stream {
    seat: Seat,
    channel: u32,
    pc: u32,
    pending: VecDeque<Pending>,
    state: State,
}

struct Walk<'a, V: Visit> {
    algorithm: &'a dyn Algorithm,
    seats: u32,
    streams: u32,
    all: Vec<Stream>,
    ready: VecDeque<usize>,
    mail: BTreeMap<(u32, u32, u32), Mail<V::Message>>,
    visit: &'a mut V,
}

/// Runs every program of the plan to its end.
pub(crate) fn walk<V: Visit>(
    algorithm: &dyn Algorithm,
    kind: CollectiveKind,
    ranks: u32,
    reverse: bool,
    order: StreamOrder,
    visit: &mut V,
) -> Result<(), Vec<Fault>> {
    let (seats, streams) = (algorithm.seats(ranks), algorithm.streams(kind, ranks));
    let all: Vec<Stream> = (0..seats)
        .flat_map(|index| (0..streams).map(move |stream| Seat { kind, ranks, index, stream, reverse }))
        .map(|seat| Stream {
            seat,
            channel: algorithm.channel(&seat),
            pc: 0,
            pending: VecDeque::new(),
            state: State::Ready,
        })
        .collect();
    let ready = (0..all.len()).collect();
    let mut walk = Walk { algorithm, seats, streams, all, ready, mail: BTreeMap::new(), visit };
    while let Some(stream) =
        if order == StreamOrder::First { walk.ready.pop_front() } else { walk.ready.pop_back() }
    {
        walk.run(stream).map_err(|fault| vec![fault])?;
    }
    walk.leftovers()
}

impl<V: Visit> Walk<'_, V> {
    /// Runs one stream until it blocks or ends.
    fn run(&mut self, index: usize) -> Result<(), Fault> {
        loop {
            let (seat, pc) = (self.all[index].seat, self.all[index].pc);
            let at = Site { seat: seat.index, stream: seat.stream, pc };
            let go_on = match self.algorithm.op(&seat, pc) {
                None => {
                    let complete = self.complete(index)?;
                    self.all[index].state = if complete { State::Ended } else { State::Blocked };
                    return Ok(());
                }
                Some(Op::Wait) => self.complete(index)?,
                Some(Op::After { stream, ops }) => self.passed(at, stream, ops)?,
                Some(Op::Send { to, blocks }) => self.send(index, at, to, blocks).map(|()| true)?,
                Some(Op::Receive { from, blocks, reduce }) => {
                    self.post(index, at, Pending { pc, from, blocks, reduce }).map(|()| true)?
                }
                Some(Op::Copy { from, to, reduce }) => {
                    self.visit.copy(at, from, to, reduce).map_err(|s| Fault::at(at, s)).map(|()| true)?
                }
            };
            if !go_on {
                self.all[index].state = State::Blocked;
                return Ok(());
            }
            self.all[index].pc += 1;
            if self.streams > 1 {
                self.wake(seat.index, |other| other.seat.stream != seat.stream);
            }
        }
    }

    /// Queues the blocked streams of a seat that `which` selects.
    fn wake(&mut self, seat: u32, which: impl Fn(&Stream) -> bool) {
        let first = (seat * self.streams) as usize;
        for index in first..first + self.streams as usize {
            if self.all[index].state == State::Blocked && which(&self.all[index]) {
                self.all[index].state = State::Ready;
                self.ready.push_back(index);
            }
        }
    }

    fn peer(&self, at: Site, other: u32, verb: &str) -> Result<(), Fault> {
        if other == at.seat {
            return Err(Fault::at(at, format!("{verb} itself")));
        }
        if other >= self.seats {
            return Err(Fault::at(
                at,
                format!("{verb} seat {other}, but there are only {} seats", self.seats),
            ));
        }
        Ok(())
    }

    fn send(&mut self, index: usize, at: Site, to: u32, blocks: Blocks) -> Result<(), Fault> {
        self.peer(at, to, "sends to")?;
        let message = self.visit.send(at, to, blocks).map_err(|s| Fault::at(at, s))?;
        let channel = self.all[index].channel;
        let mail = self.mail.entry((at.seat, to, channel)).or_default();
        if *mail.sender.get_or_insert(at.stream) != at.stream {
            return Err(Fault::at(
                at,
                format!(
                    "sends to seat {to} on channel {channel} from several streams: their order is undefined"
                ),
            ));
        }
        mail.waiting.push_back((at, message));
        let awaited = |other: &Stream| other.pending.front().is_some_and(|receive| receive.from == at.seat);
        self.wake(to, |other| other.channel == channel && awaited(other));
        Ok(())
    }

    fn post(&mut self, index: usize, at: Site, receive: Pending) -> Result<(), Fault> {
        self.peer(at, receive.from, "receives from")?;
        let channel = self.all[index].channel;
        let mail = self.mail.entry((receive.from, at.seat, channel)).or_default();
        if *mail.receiver.get_or_insert(at.stream) != at.stream {
            let from = receive.from;
            return Err(Fault::at(
                at,
                format!(
                    "receives from seat {from} on channel {channel} in several streams: their order is undefined"
                ),
            ));
        }
        self.visit.post(at, receive.blocks, receive.reduce).map_err(|s| Fault::at(at, s))?;
        self.all[index].pending.push_back(receive);
        Ok(())
    }

    /// Completes receives in order as long as their messages are there. Returns whether all are complete.
    fn complete(&mut self, index: usize) -> Result<bool, Fault> {
        let (seat, channel) = (self.all[index].seat, self.all[index].channel);
        while let Some(&receive) = self.all[index].pending.front() {
            let mail = self.mail.entry((receive.from, seat.index, channel)).or_default();
            let Some((sent, message)) = mail.waiting.pop_front() else { return Ok(false) };
            mail.taken += 1;
            self.all[index].pending.pop_front();
            let at = Site { seat: seat.index, stream: seat.stream, pc: receive.pc };
            let (wait, blocks, reduce) = (self.all[index].pc, receive.blocks, receive.reduce);
            self.visit.receive(Received { at, wait, sent, blocks, reduce }, message)?;
        }
        Ok(true)
    }

    fn passed(&mut self, at: Site, stream: u32, ops: u32) -> Result<bool, Fault> {
        if stream >= self.streams || stream == at.stream {
            return Err(Fault::at(at, format!("waits for stream {stream}, which is not another stream")));
        }
        let passed = self.all[(at.seat * self.streams + stream) as usize].pc >= ops;
        if passed {
            self.visit.after(at, stream, ops);
        }
        Ok(passed)
    }

    /// The faults that remain when no stream can continue.
    fn leftovers(&self) -> Result<(), Vec<Fault>> {
        const MOST: usize = 8;
        let mut faults = Vec::new();
        for stream in self.all.iter().filter(|stream| stream.state != State::Ended) {
            let at = Site { seat: stream.seat.index, stream: stream.seat.stream, pc: stream.pc };
            if let Some(Op::After { stream: other, ops }) = self.algorithm.op(&stream.seat, stream.pc) {
                faults.push(Fault::at(at, format!("waits forever for instruction {ops} of stream {other}")));
            }
            if let Some(receive) = stream.pending.front() {
                faults.push(self.missing(stream, receive));
            }
        }
        if faults.is_empty() {
            for (&(_, to, channel), mail) in &self.mail {
                if let Some((at, _)) = mail.waiting.front() {
                    let number = mail.taken + 1;
                    faults.push(Fault::at(
                        *at,
                        format!(
                            "sends message {number} to seat {to} on channel {channel}, which is never received"
                        ),
                    ));
                }
            }
        }
        faults.truncate(MOST);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn missing(&self, stream: &Stream, receive: &Pending) -> Fault {
        let (seat, from, channel) = (stream.seat.index, receive.from, stream.channel);
        let number = self.mail.get(&(from, seat, channel)).map_or(0, |mail| mail.taken) + 1;
        let first = (from * self.streams) as usize;
        let sender = &self.all[first..first + self.streams as usize];
        let over = sender.iter().filter(|s| s.channel == channel).all(|s| s.state == State::Ended);
        let why = if over {
            "which is never sent".to_owned()
        } else {
            format!("but seat {from} is waiting too: deadlock")
        };
        Fault::at(
            Site { seat, stream: stream.seat.stream, pc: receive.pc },
            format!("receives message {number} from seat {from} on channel {channel}, {why}"),
        )
    }
}
