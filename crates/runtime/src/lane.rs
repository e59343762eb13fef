//! A lane: the chunks of collectives that one thread works on, with one connection to each peer. No sockets, clocks or
//! threads: a transport gives it bytes and takes bytes from it.
//!
//! Chunk `c` belongs to lane `c mod lanes`, on every rank alike, so that chunks need nothing that lanes share, and no locks
//! (luo2020 3.2.4). Once an operation a lane may look up how it is run, in the rank's [`Book`], which has one; the first of a
//! plan compiles it, outside the lock. A lane runs several chunks at a time, in their order, each through the same script. What arrives is
//! combined where it belongs as it comes in; what arrives before anybody wants it (a peer is further than we are) is set
//! aside.

mod chunk;
mod early;

use crate::fault::{self, Broken, Trouble};
use crate::link::{Event, Landing, Link, Owner};
use crate::machine::Machine;
use crate::memory::{Buffer, Pool, Region};
use crate::operation::Asked;
use crate::script::Act;
use crate::shape::{Book, Shape};
use crate::wire::{Digest, Header, Kind};
use chunk::{Chunk, Kick};
use early::Early;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

/// Most operations that peers may be ahead of this rank.
const MOST_AHEAD: u64 = 1 << 16;

/// Bytes of chunks under way, where all peers are near: what is sent, combined and sent on is to stay in the cache
/// meanwhile, and no wire has to be kept busy.
const NEAR: usize = 1 << 20;

/// Most chunks that run at a time, however small they are.
const MOST_RUNNING: u32 = 128;

/// A collective that this rank has begun: what it brings and where the result goes.
#[derive(Clone, Debug)]
pub struct Job {
    /// Counts the communicator's operations; the same on all ranks.
    pub sequence: u64,
    /// How it is run.
    pub shape: Arc<Shape>,
    /// What this rank brings: see [`crate::operation::Operation`]; empty where it brings nothing.
    pub input: Region,
    /// Where the result goes, which may be the input; empty where there is none.
    pub output: Region,
    /// Whether the input is to be as it was if the operation fails. Else it may hold anything then, in return for a copy
    /// less.
    pub keep: bool,
}

/// How lanes go about it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of lanes of a rank.
    pub lanes: u32,
    /// Bytes that a lane has under way at a time to each peer: chunks begin as long as the largest messages of those that run
    /// have less together, and two run in any case. As much as a link carries while a message goes from one rank to the next is
    /// enough to keep it busy; more of it waits in the network's queues, and may be lost there.
    pub window: usize,
    /// Bytes that a peer may be ahead before no more is read from it.
    pub ahead: usize,
}

/// What one rank runs on one thread.
#[derive(Debug)]
pub struct Lane {
    index: u32,
    pace: Pace,
    epoch: u16,
    book: Arc<Book>,
    /// By rank; unused for the own.
    links: Vec<Link>,
    jobs: BTreeMap<u64, Known>,
    /// The newest operation that has begun here.
    newest: u64,
    /// Chunks under way, their bytes, and those of their largest messages.
    running: u32,
    afloat: usize,
    flight: usize,
    /// How many bytes may be.
    most: usize,
    early: Early,
    pool: Pool,
    finished: VecDeque<u64>,
    done: Vec<Owner>,
    /// Ranks that have said that nothing will follow.
    left: BTreeSet<u32>,
}

/// An operation that this rank or a peer has begun.
#[derive(Debug)]
struct Known {
    shape: Arc<Shape>,
    /// Ranks whose announcement has come.
    heard: BTreeSet<u32>,
    job: Option<Running>,
}

/// An operation that this rank has begun.
#[derive(Debug)]
struct Running {
    job: Arc<Job>,
    /// The next chunk to begin, and how many of this lane's are not through.
    next: u32,
    left: u32,
    chunks: BTreeMap<u32, Chunk>,
    /// Ranks that know from this lane what is run.
    told: BTreeSet<u32>,
    /// What the input was, where it has been overwritten.
    saved: Vec<(Region, Buffer)>,
}

impl Lane {
    /// Lane `index` of a rank.
    pub fn new(index: u32, pace: Pace, epoch: u16, book: Arc<Book>) -> Self {
        let links = (0..book.members()).map(|_| Link::default()).collect();
        Self {
            index,
            pace,
            epoch,
            book,
            links,
            jobs: BTreeMap::new(),
            newest: 0,
            running: 0,
            afloat: 0,
            flight: 0,
            most: usize::MAX,
            early: Early::default(),
            pool: Pool::default(),
            finished: VecDeque::new(),
            done: Vec::new(),
            left: BTreeSet::new(),
        }
    }

    /// Begins an operation. Jobs begin in the order of their sequence numbers, from 1 on.
    ///
    /// # Errors
    /// With the rank that has announced another operation under this number, and both operations.
    pub fn start(&mut self, job: Arc<Job>) -> Result<(), (u32, Broken)> {
        let sequence = job.sequence;
        assert!(sequence > self.newest, "operation {sequence} begins after operation {}", self.newest);
        self.newest = sequence;
        let known = self.jobs.entry(sequence).or_insert_with(|| Known {
            shape: Arc::clone(&job.shape),
            heard: BTreeSet::new(),
            job: None,
        });
        if let Some(&rank) = known.heard.first() {
            agree(self.book.name(self.book.member()), &job.shape, &known.shape.asked())
                .map_err(|broken| (rank, broken))?;
        }
        let chunks = job.shape.cut.chunks();
        let left = chunks.saturating_sub(self.index).div_ceil(self.pace.lanes);
        known.shape = Arc::clone(&job.shape);
        known.job = Some(Running {
            job,
            next: self.index,
            left,
            chunks: BTreeMap::new(),
            told: BTreeSet::new(),
            saved: Vec::new(),
        });
        if left == 0 {
            self.end(sequence);
        }
        self.fill();
        Ok(())
    }

    /// Whether an operation that has begun here still needs a rank: to send to it, or a message that has not come.
    pub fn needs(&self, rank: u32) -> bool {
        self.lacks(rank, true)
    }

    /// Whether a message from a rank is missing in a chunk that has begun; with `all`, also in later chunks, or a message to
    /// it has not left.
    fn lacks(&self, rank: u32, all: bool) -> bool {
        self.jobs.iter().any(|(&sequence, known)| {
            let (Some(running), Some(seat)) = (&known.job, known.shape.seat(rank)) else { return false };
            let lanes = self.pace.lanes as usize;
            let end = if all { known.shape.cut.chunks() } else { running.next.min(known.shape.cut.chunks()) };
            (self.index..end).step_by(lanes).any(|number| {
                let chunk = running.chunks.get(&number);
                if chunk.is_none() && number < running.next {
                    return false;
                }
                let open = |step| chunk.is_none_or(|chunk| chunk.lacks(step));
                let steps = (0u32..).zip(known.shape.script.steps());
                steps.filter(|&(step, _)| !known.shape.spares(step, number)).any(|(step, each)| {
                    match each.act {
                        Act::Send { to, .. } => all && to == seat && open(step),
                        Act::Receive { from, message, .. } => {
                            from == seat && open(step) && !self.early.has((sequence, number, rank, message))
                        }
                        _ => false,
                    }
                })
            })
        })
    }

    /// What a lost connection is really about: a peer may have ended it because what came was not what had been promised, and
    /// that because somebody has written to memory of an operation under way while it was being sent.
    pub fn reason(&self, rank: u32, trouble: Trouble) -> Trouble {
        let changed = || {
            self.links[rank as usize].trail().find_map(|((sequence, number, step), digest)| {
                let running = self.jobs.get(&sequence)?.job.as_ref()?;
                let sent = running.chunks.get(&number)?.untouched(&running.job.shape, step)?;
                (Digest::of(sent.bytes()) != digest).then(|| Trouble::changed(sequence, number))
            })
        };
        let changed = if trouble.kind == fault::Kind::Closed { changed() } else { None };
        changed.unwrap_or(trouble)
    }

    fn sign(&mut self, rank: u32, kind: Kind) {
        let header = Header { kind, epoch: self.epoch, sequence: 0, chunk: 0 };
        self.links[rank as usize].control(header, &[]);
    }

    /// The next operation of which all chunks of this lane are through.
    pub fn finished(&mut self) -> Option<u64> {
        self.finished.pop_front()
    }

    /// Lets go of what an operation's input was: it is through on all lanes, or committed.
    pub fn forget(&mut self, sequence: u64) {
        if let Some(running) = self.jobs.remove(&sequence).and_then(|known| known.job) {
            running.saved.into_iter().for_each(|(_, buffer)| self.pool.give(buffer));
        }
    }

    /// Gives up: inputs that were to be kept are as they were. Returns the operations that had begun and were not
    /// forgotten.
    pub fn abort(&mut self) -> Vec<u64> {
        self.links.iter_mut().for_each(|link| _ = link.abandon());
        let jobs = std::mem::take(&mut self.jobs);
        (self.running, self.afloat, self.flight, self.early) = (0, 0, 0, Early::default());
        let begun = jobs.into_iter().filter_map(|(sequence, known)| Some((sequence, known.job?)));
        begun
            .map(|(sequence, running)| {
                for (place, mut saved) in running.saved {
                    place.copy_from(saved.region());
                }
                sequence
            })
            .collect()
    }

    fn happened(&mut self, rank: u32, event: Event) -> Result<(), Broken> {
        match event {
            Event::Header(header) if header.epoch != self.epoch => Err(Broken::Epoch(header, self.epoch)),
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    Kind::Heartbeat | Kind::Leave => (0, Landing::Nothing),
                    Kind::Begin => (Asked::ENCODED, Landing::Aside(self.pool.take(Asked::ENCODED))),
                    Kind::Message(number) => self.landing(rank, header, number)?,
                };
                self.links[rank as usize].land(length, landing);
                Ok(())
            }
            Event::Frame(header, landing) => match (header.kind, landing) {
                (Kind::Begin, Landing::Aside(mut buffer)) => {
                    let asked = buffer.region().bytes().try_into().ok().and_then(Asked::decode);
                    self.pool.give(buffer);
                    self.announced(rank, header, asked.ok_or(Broken::Unknown(header))?)
                }
                (Kind::Message(number), landing) => {
                    self.arrived(rank, header, number, landing);
                    Ok(())
                }
                (Kind::Leave, _) => {
                    self.left.insert(rank);
                    Ok(())
                }
                (Kind::Heartbeat | Kind::Begin, _) => Ok(()),
            },
        }
    }

    /// The whole sequence number of which a header has the lower half.
    fn sequence(&self, header: Header) -> u64 {
        let ahead = header.sequence.wrapping_sub(self.newest as u32) as i32;
        self.newest.wrapping_add_signed(i64::from(ahead))
    }

    /// A peer has begun an operation.
    fn announced(&mut self, rank: u32, header: Header, asked: Asked) -> Result<(), Broken> {
        let sequence = self.sequence(header);
        if let Some(known) = self.jobs.get_mut(&sequence) {
            // Before this rank has begun it knows what another has: that is who says otherwise.
            let other = known.heard.first().filter(|_| known.job.is_none());
            let who = other.copied().unwrap_or(self.book.member());
            agree(self.book.name(who), &known.shape, &asked)?;
            return if known.heard.insert(rank) { Ok(()) } else { Err(Broken::Twice(header)) };
        }
        if sequence <= self.newest || sequence > self.newest + MOST_AHEAD {
            return Err(Broken::Unknown(header));
        }
        let us = self.book.name(self.book.member());
        let shape = self.book.shape(&asked.operation).map_err(|_| Broken::NoPlan(us, asked.operation))?;
        agree(us, &shape, &asked)?;
        self.jobs.insert(sequence, Known { shape, heard: BTreeSet::from([rank]), job: None });
        Ok(())
    }

    /// Where a message goes that is about to come in, and how long it is.
    fn landing(&mut self, rank: u32, header: Header, number: u16) -> Result<(usize, Landing), Broken> {
        let sequence = self.sequence(header);
        let unknown = Broken::Unknown(header);
        let Some(known) = self.jobs.get_mut(&sequence).filter(|known| known.heard.contains(&rank)) else {
            return Err(unknown);
        };
        let Shape { script, cut, .. } = &*known.shape;
        let ours = header.chunk < cut.chunks() && header.chunk % self.pace.lanes == self.index;
        let step = known.shape.seat(rank).and_then(|seat| script.incoming(seat, number)).filter(|_| ours);
        let step = step.ok_or(unknown)?;
        let length = known.shape.bytes(step, header.chunk);
        let key = (sequence, header.chunk, rank, number);
        let chunk = known.job.as_mut().and_then(|running| {
            let begun = running.next > header.chunk;
            match running.chunks.get_mut(&header.chunk) {
                Some(chunk) => Some(Ok(chunk)),
                None if begun => Some(Err(())),
                None => None,
            }
        });
        let place = match chunk {
            Some(Err(())) => return Err(Broken::Twice(header)),
            Some(Ok(chunk)) => chunk.landing(&known.shape, step).map_err(|()| Broken::Twice(header))?,
            None => None,
        };
        match place {
            Some(landing) => Ok((length, landing)),
            None if self.early.awaits(key) => Err(Broken::Twice(header)),
            None => {
                self.early.expect(key, length);
                Ok((length, Landing::Aside(self.pool.take(length))))
            }
        }
    }

    /// A message has come in.
    fn arrived(&mut self, rank: u32, header: Header, number: u16, landing: Landing) {
        let sequence = self.sequence(header);
        let key = (sequence, header.chunk, rank, number);
        let Some(known) = self.jobs.get_mut(&sequence) else { return };
        let seat = known.shape.seat(rank).expect("landing found it");
        let step = known.shape.script.incoming(seat, number).expect("landing found it");
        match landing {
            Landing::Put(_) | Landing::Combine(..) => self.advance(sequence, header.chunk, Kick::Done(step)),
            Landing::Aside(buffer) => {
                self.early.put(key, buffer);
                let chunk = known.job.as_mut().and_then(|running| running.chunks.get_mut(&header.chunk));
                if chunk.is_some_and(|chunk| chunk.wants(step)) {
                    self.advance(sequence, header.chunk, Kick::Arrived(step));
                }
            }
            Landing::Nothing => {}
        }
    }

    /// Whether one more chunk may begin.
    fn has_room(&self) -> bool {
        self.running < MOST_RUNNING && self.afloat < self.most && self.flight < self.pace.window
    }

    /// Begins chunks as long as there is room for them.
    fn fill(&mut self) {
        while self.running < 2 || self.has_room() {
            let lanes = self.pace.lanes;
            let next = self.jobs.iter_mut().find_map(|(&sequence, known)| {
                let running = known.job.as_mut()?;
                let chunk = running.next;
                (chunk < known.shape.cut.chunks()).then(|| {
                    running.next = running.next.saturating_add(lanes);
                    (sequence, chunk)
                })
            });
            let Some((sequence, number)) = next else { return };
            let known = self.jobs.get_mut(&sequence).expect("found just now");
            let running = known.job.as_mut().expect("as above");
            let chunk = Chunk::begin(&running.job, number, &mut self.pool);
            self.afloat += chunk.bytes(&running.job);
            self.flight += chunk.message(&running.job);
            running.chunks.insert(number, chunk);
            self.running += 1;
            self.advance(sequence, number, Kick::Begin);
        }
    }

    /// Goes on with a chunk.
    fn advance(&mut self, sequence: u64, number: u32, kick: Kick) {
        let Some(running) = self.jobs.get_mut(&sequence).and_then(|known| known.job.as_mut()) else { return };
        let Running { job, chunks, told, saved, .. } = running;
        let Some(chunk) = chunks.get_mut(&number) else { return };
        let shape = &job.shape;
        let mut output = |to: u32, message: u16, payload: Region, step: u32| {
            let rank = shape.ranks()[to as usize];
            let link = &mut self.links[rank as usize];
            let header = |kind| Header { kind, epoch: self.epoch, sequence: sequence as u32, chunk: number };
            if told.insert(rank) {
                link.control(header(Kind::Begin), &shape.asked().encode());
            }
            link.message(header(Kind::Message(message)), payload, (sequence, number, step));
        };
        let mut early = |seat: u32, message: u16| {
            let rank = shape.ranks()[seat as usize];
            self.early.take((sequence, number, rank, message))
        };
        let mut setting =
            chunk::Setting { job, number, pool: &mut self.pool, saved, send: &mut output, early: &mut early };
        if !chunk.advance(&mut setting, kick) {
            return;
        }
        let chunk = chunks.remove(&number).expect("found above");
        self.afloat -= chunk.bytes(job);
        self.flight -= chunk.message(job);
        chunk.end(&mut self.pool);
        running.left -= 1;
        self.running -= 1;
        if running.left == 0 {
            self.end(sequence);
        }
    }

    /// All chunks of an operation are through on this lane.
    fn end(&mut self, sequence: u64) {
        let kept = self.jobs.get(&sequence).and_then(|known| known.job.as_ref()).is_some_and(|r| r.job.keep);
        if !kept {
            self.jobs.remove(&sequence);
        }
        self.finished.push_back(sequence);
    }
}

impl Machine for Lane {
    fn waiting(&self, peer: u32) -> usize {
        self.links[peer as usize].waiting()
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        self.links[peer as usize].gather(slices, most);
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let mut done = std::mem::take(&mut self.done);
        self.links[peer as usize].sent(bytes, &mut done);
        for (sequence, chunk, step) in done.drain(..) {
            self.advance(sequence, chunk, Kick::Done(step));
        }
        self.done = done;
        self.fill();
    }

    /// Not while it is too far ahead, unless what is wanted now comes behind that.
    fn reads(&self, peer: u32) -> bool {
        let newest = self.jobs.last_key_value().map_or(0, |(&sequence, _)| sequence);
        let near = newest.saturating_sub(self.newest) < MOST_AHEAD / 2;
        (near && self.early.bytes(peer) <= self.pace.ahead) || self.lacks(peer, false)
    }

    fn direct(&mut self, peer: u32) -> Option<Region> {
        self.links[peer as usize].direct()
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), Broken> {
        if let Some(event) = self.links[peer as usize].read_directly(bytes)? {
            self.happened(peer, event)?;
            self.fill();
        }
        Ok(())
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), Broken> {
        while let Some(event) = self.links[peer as usize].take(&mut bytes)? {
            self.happened(peer, event)?;
        }
        self.fill();
        Ok(())
    }

    fn coming(&self, peer: u32) -> Option<(u32, usize)> {
        self.links[peer as usize].coming()
    }

    fn believe(&mut self, peer: u32) {
        self.links[peer as usize].believe();
        let others = (0u32..).zip(&self.links).filter(|&(other, _)| other != self.book.member());
        if others.into_iter().all(|(_, link)| !link.checked()) {
            self.most = NEAR;
        }
    }

    fn beat(&mut self, peer: u32) {
        if self.waiting(peer) == 0 {
            self.sign(peer, Kind::Heartbeat);
        }
    }

    fn leave(&mut self, peer: u32) {
        self.sign(peer, Kind::Leave);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.left.contains(&peer)
    }
}

/// That a peer asks for what this rank does.
fn agree(us: u32, shape: &Shape, theirs: &Asked) -> Result<(), Broken> {
    let ours = shape.asked();
    if ours == *theirs { Ok(()) } else { Err(Broken::Differs(us, Box::new((ours, theirs.clone())))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Association, Operation};
    use crate::shape::Rule;
    use crate::sum::{Element, Reduction};
    use syncline_plan::by_name;
    use syncline_units::CollectiveKind;

    /// How many chunks run of so many all-reduces of so many bytes, when nothing has come from the other rank yet.
    fn running(window: usize, message: u64, operations: u64, bytes: usize) -> (u32, usize) {
        let algorithm = by_name("ring").unwrap();
        let rule = Rule { kind: CollectiveKind::AllReduce, up_to: None, algorithm, message };
        let book = Arc::new(Book::new(0, 2, vec![0, 1], vec![rule]).unwrap());
        let operation = Operation {
            kind: CollectiveKind::AllReduce,
            elements: bytes as u64 / 4,
            element: Element::F32,
            reduction: Reduction::Sum,
            root: 0,
            association: Association::Arrival,
        };
        let mut lane = Lane::new(0, Pace { lanes: 1, window, ahead: 1 << 20 }, 0, Arc::clone(&book));
        let mut buffers: Vec<Buffer> = (0..operations).map(|_| Buffer::new(bytes)).collect();
        for (sequence, buffer) in (1..).zip(&mut buffers) {
            let region = buffer.region();
            let shape = book.shape(&operation).unwrap();
            let job = Job { sequence, shape, input: region, output: region, keep: false };
            lane.start(Arc::new(job)).unwrap();
        }
        let found = (lane.running, lane.flight);
        lane.abort();
        assert_eq!((lane.running, lane.flight), (0, 0));
        found
    }

    #[test]
    fn chunks_run_as_long_as_their_messages_fit_into_the_window() {
        // A message is half of a chunk: 100 KiB are 50 chunks.
        assert_eq!(running(8 << 10, 1 << 10, 1, 100 << 10), (8, 8 << 10));
        assert_eq!(running(100 << 10, 1 << 10, 1, 100 << 10), (50, 50 << 10));
        assert_eq!(running(1, 1 << 10, 1, 100 << 10), (2, 2 << 10));
        // Small ones are many, and not any number.
        assert_eq!(running(64 << 10, 64 << 10, 20, 64), (20, 20 * 32));
        assert_eq!(running(64 << 10, 64 << 10, 200, 64), (MOST_RUNNING, MOST_RUNNING as usize * 32));
    }
}
