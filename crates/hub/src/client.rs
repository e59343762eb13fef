//! A worker's side of its connections to hubs: cuts vectors into chunks, and assembles them again (luo2020, section
//! 3.2.4). No sockets, clocks or threads.

use super::assignment::Routes;
use super::frame::{Notice, request_header};
use super::terms::{Contract, StepMode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::link::{Event, Landing, Link, PartialMessage};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::{Buffer, Pool, Region};
use syncline_protocol::operation::Request;
use syncline_protocol::wire::{FrameKind, Header};

/// An exchange of a vector between a worker and its hubs.
#[derive(Clone, Copy, Debug)]
pub struct HubExchange {
    /// Counts the worker's exchanges.
    pub sequence: u64,
    /// The vector.
    pub key: u32,
    /// What to do with it.
    pub request: Request,
    /// The memory of the whole vector to send; empty if the request sends nothing.
    pub input: Region,
    /// The memory for the result, which may be the input; empty if the request receives nothing.
    pub output: Region,
    /// Whether to restore the input if the exchange fails.
    pub keep: bool,
}

/// A restarted worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Its rank.
    pub worker: u32,
    /// The random number that it chose when it was started.
    pub incarnation: u64,
}

/// An exchange that has begun.
#[derive(Debug)]
struct OpenExchange {
    exchange: HubExchange,
    /// The number of chunks that are not complete.
    left: usize,
    /// The least number of workers that contributed to a chunk received so far.
    contributors: Option<u16>,
    /// The parts of the input that were overwritten, as they were before.
    saved: Vec<(Region, Buffer)>,
}

/// A value of a chunk to receive.
#[derive(Clone, Copy, Debug)]
struct AwaitedValue {
    /// The sequence number of the exchange.
    sequence: u64,
    /// The least version.
    version: u64,
}

/// An exchange that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedExchange {
    /// Its sequence number.
    pub sequence: u64,
    /// The least number of workers that contributed to a chunk of the result; `None` without a result.
    pub contributors: Option<u16>,
}

/// A worker's connections to the cores of its hubs.
#[derive(Debug)]
pub struct Client {
    contract: Arc<Contract>,
    routes: Arc<Routes>,
    /// The epoch of each hub.
    epochs: Vec<u16>,
    /// The owner of a message is its exchange's sequence number.
    links: Vec<Link<u64>>,
    /// Cores that have said that nothing will follow.
    left: BTreeSet<u32>,
    /// How often each vector has been pushed.
    steps: Vec<u64>,
    /// By sequence number.
    open: BTreeMap<u64, OpenExchange>,
    /// The values to receive of each chunk.
    awaited: BTreeMap<u32, VecDeque<AwaitedValue>>,
    finished: VecDeque<FinishedExchange>,
    /// Restarted workers to announce once all vectors that are pushed together have been pushed.
    newcomers: Vec<Newcomer>,
    /// The vectors that are still to be pushed before a save that waits for a step to end is announced all the same.
    save_within: Option<usize>,
    /// In an asynchronous job, the number of the next save is more than this.
    save_above: u64,
    /// The number of the save that was announced last, until it is taken.
    announced_save: Option<u64>,
    pool: Pool,
}

impl Client {
    /// Creates a worker's side. Its peers are the cores, by their number among those of all hubs. Each hub has its own
    /// epoch.
    pub fn new(contract: Arc<Contract>, routes: Arc<Routes>, epochs: Vec<u16>) -> Self {
        let links = (0..routes.cores()).map(|_| Link::default()).collect();
        let steps = vec![0; contract.catalogue.keys().len()];
        Self {
            contract,
            routes,
            epochs,
            links,
            left: BTreeSet::new(),
            steps,
            open: BTreeMap::new(),
            awaited: BTreeMap::new(),
            finished: VecDeque::new(),
            newcomers: Vec::new(),
            save_within: None,
            save_above: 0,
            announced_save: None,
            pool: Pool::default(),
        }
    }

    /// Returns the hub of a core.
    pub fn hub(&self, core: u32) -> u32 {
        self.routes.hub_core(core).hub
    }

    fn epoch(&self, core: u32) -> u16 {
        self.epochs[self.hub(core) as usize]
    }

    /// Sets how many steps of each vector have been pushed, for a worker that joins later.
    pub fn set_steps(&mut self, steps: &[u64]) {
        self.steps.copy_from_slice(steps);
    }

    /// Returns how often each vector has been pushed.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// Begins an exchange. A region that the request uses is as long as the vector.
    pub fn start(&mut self, exchange: HubExchange) {
        let step = &mut self.steps[exchange.key as usize];
        if matches!(exchange.request, Request::Push | Request::PushPull) {
            *step += 1;
        }
        let step = *step;
        let mut left = 0;
        for chunk in self.contract.catalogue.chunks_of(exchange.key) {
            let core = self.routes.core(chunk);
            left += 1;
            let header = request_header(exchange.request, self.epoch(core), step, chunk);
            let place = self.contract.catalogue.place(chunk);
            let payload = if exchange.request.sends() { exchange.input.part(place) } else { Region::EMPTY };
            self.links[core as usize].message(header, payload, exchange.sequence);
            if exchange.request.receives() {
                self.awaited
                    .entry(chunk)
                    .or_default()
                    .push_back(AwaitedValue { sequence: exchange.sequence, version: step });
            }
        }
        let open = OpenExchange { exchange, left, contributors: None, saved: Vec::new() };
        self.open.insert(exchange.sequence, open);
        self.finish_if_complete(exchange.sequence);
        if !self.newcomers.is_empty() && self.between_steps() {
            for Newcomer { worker, incarnation } in std::mem::take(&mut self.newcomers) {
                self.send_notice(Notice::Admit { worker, incarnation });
            }
        }
        if let (Some(within), true) = (&mut self.save_within, exchange.request.sends()) {
            *within = within.saturating_sub(1);
            self.announce_save();
        }
    }

    /// Announces a save to all cores, at the end of a step of this worker: now, or once the step's other vectors are
    /// pushed. The number of the save counts this worker's pushes; in an asynchronous job, where workers push
    /// differently often, it is more than `above`.
    pub fn save(&mut self, above: u64) {
        // A worker that pushes each vector once per step ends a step within these pushes. One that does not has no
        // steps that end for all vectors, so any moment between two exchanges will do.
        let steps_end = !self.contract.together.is_empty();
        let within = if steps_end { usize::MAX } else { 2 * self.contract.catalogue.keys().len() };
        self.save_above = above;
        self.save_within.get_or_insert(within);
        self.announce_save();
    }

    /// Takes the number of the save that was announced.
    pub fn take_announced_save(&mut self) -> Option<u64> {
        self.announced_save.take()
    }

    fn announce_save(&mut self) {
        let pushed: u64 = self.steps.iter().sum();
        let asynchronous = self.contract.terms.step_mode == StepMode::Asynchronous;
        let number = if asynchronous && pushed > 0 { pushed.max(self.save_above + 1) } else { pushed };
        let due = self.save_within.is_some_and(|within| self.ends_step() || within == 0);
        if due && number > 0 {
            (self.save_within, self.announced_save) = (None, Some(number));
            self.send_notice(Notice::Save { number });
        }
    }

    /// Returns whether the worker has pushed all vectors of a step, as far as this can be known.
    fn ends_step(&self) -> bool {
        if !self.contract.together.is_empty() {
            return self.between_steps();
        }
        // Vectors that are never pushed take part in no step. During the first step they cannot be told apart.
        let mut pushed = self.steps.iter().filter(|&&step| step > 0);
        let first = pushed.next();
        pushed.all(|step| Some(step) == first)
            && (self.steps.len() == 1 || first.is_some_and(|&step| step > 1))
    }

    /// Returns whether all vectors that are pushed together have been pushed equally often.
    fn between_steps(&self) -> bool {
        let mut steps = self.contract.together.iter().map(|&key| self.steps[key as usize]);
        let first = steps.next();
        steps.all(|step| Some(step) == first)
    }

    /// Changes the learning rate of a vector or of all, from the next push on.
    pub fn set_rate(&mut self, rate: f64, key: Option<u32>) {
        self.send_notice(Notice::Rate { rate, key });
    }

    /// Announces a restarted worker: it takes part from the next push of each vector on, or from the next step of
    /// vectors that are pushed together.
    pub fn admit(&mut self, newcomer: Newcomer) {
        if self.between_steps() {
            let Newcomer { worker, incarnation } = newcomer;
            self.send_notice(Notice::Admit { worker, incarnation });
        } else {
            self.newcomers.push(newcomer);
        }
    }

    fn send_notice(&mut self, notice: Notice) {
        for core in 0..self.routes.cores() {
            let header = Header { kind: FrameKind::Begin, epoch: self.epoch(core), sequence: 0, chunk: 0 };
            self.links[core as usize].control(header, &notice.encode());
        }
    }

    fn send_control(&mut self, core: u32, kind: FrameKind) {
        let header = Header { kind, epoch: self.epoch(core), sequence: 0, chunk: 0 };
        self.links[core as usize].control(header, &[]);
    }

    /// Returns the next complete exchange.
    pub fn finished(&mut self) -> Option<FinishedExchange> {
        self.finished.pop_front()
    }

    /// Returns how many chunks of an exchange are not complete.
    pub fn left(&self, sequence: u64) -> usize {
        self.open.get(&sequence).map_or(0, |open| open.left)
    }

    /// Drops the saved input of a complete exchange.
    pub fn forget(&mut self, sequence: u64) {
        if let Some(open) = self.open.remove(&sequence) {
            open.saved.into_iter().for_each(|(_, buffer)| self.pool.give(buffer));
        }
    }

    /// Aborts all exchanges, and restores inputs that must be kept.
    pub fn abort(&mut self) {
        self.links.iter_mut().for_each(|link| _ = link.abandon());
        self.awaited.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            for (place, saved) in open.saved {
                place.write(saved.as_slice());
            }
        }
    }

    fn finish_if_complete(&mut self, sequence: u64) {
        let Some(open) = self.open.get(&sequence).filter(|open| open.left == 0) else { return };
        self.finished.push_back(FinishedExchange { sequence, contributors: open.contributors });
        if !open.exchange.keep {
            self.open.remove(&sequence);
        }
    }

    fn chunk_complete(&mut self, sequence: u64, contributors: Option<u16>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        open.left -= 1;
        open.contributors = open.contributors.into_iter().chain(contributors).min();
        self.finish_if_complete(sequence);
    }

    fn handle(&mut self, core: u32, event: Event) -> Result<(), ProtocolError> {
        match event {
            Event::Header(header) if header.epoch != self.epoch(core) => {
                Err(ProtocolError::Epoch { header, ours: self.epoch(core) })
            }
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    FrameKind::Heartbeat | FrameKind::Leave => (0, Landing::Nothing),
                    FrameKind::Message(_) => self.landing(core, header)?,
                    _ => return Err(ProtocolError::Unknown(header)),
                };
                self.links[core as usize].land(length, landing);
                Ok(())
            }
            Event::Frame { header: Header { kind: FrameKind::Message(contributors), chunk, .. }, .. } => {
                let awaited = self.awaited.get_mut(&chunk).and_then(VecDeque::pop_front);
                if let Some(AwaitedValue { sequence, .. }) = awaited {
                    self.chunk_complete(sequence, Some(contributors));
                }
                Ok(())
            }
            Event::Frame { header: Header { kind: FrameKind::Leave, .. }, .. } => {
                self.left.insert(core);
                Ok(())
            }
            Event::Frame { .. } => Ok(()),
        }
    }

    /// Returns the length of a value that a hub is about to send, and where to put it.
    fn landing(&mut self, core: u32, header: Header) -> Result<(usize, Landing), ProtocolError> {
        let chunk = header.chunk;
        let unknown = ProtocolError::Unknown(header);
        let ours = chunk < self.contract.catalogue.chunks() && self.routes.core(chunk) == core;
        let awaited = self.awaited.get(&chunk).and_then(VecDeque::front).filter(|_| ours);
        let Some(&AwaitedValue { sequence, version }) = awaited else { return Err(unknown) };
        let old = (header.sequence.wrapping_sub(version as u32) as i32) < 0;
        if old && self.contract.terms.step_mode == StepMode::Synchronous {
            return Err(unknown);
        }
        let Some(open) = self.open.get_mut(&sequence) else { return Err(unknown) };
        let place = open.exchange.output.part(self.contract.catalogue.place(chunk));
        if open.exchange.keep && place.overlaps(open.exchange.input) {
            let mut saved = self.pool.take(place.len());
            place.read(saved.as_mut_slice());
            open.saved.push((place, saved));
        }
        Ok((place.len(), Landing::Put(place)))
    }
}

impl Machine for Client {
    fn waiting(&self, peer: u32) -> usize {
        self.links[peer as usize].waiting()
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        self.links[peer as usize].gather(slices, most);
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        let mut done = Vec::new();
        self.links[peer as usize].sent(bytes, &mut done);
        for sequence in done {
            // A chunk that receives a value is complete once the value has arrived.
            if self.open.get(&sequence).is_some_and(|open| !open.exchange.request.receives()) {
                self.chunk_complete(sequence, None);
            }
        }
    }

    fn reads(&self, _peer: u32) -> bool {
        true
    }

    fn coming(&self, peer: u32) -> Option<PartialMessage> {
        self.links[peer as usize].coming()
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.links[peer as usize].direct()
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        match self.links[peer as usize].read_directly(bytes)? {
            Some(event) => self.handle(peer, event),
            None => Ok(()),
        }
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while let Some(event) = self.links[peer as usize].take(&mut bytes)? {
            self.handle(peer, event)?;
        }
        Ok(())
    }

    fn disable_checksums(&mut self, peer: u32) {
        self.links[peer as usize].disable_checksums();
    }

    fn send_heartbeat(&mut self, peer: u32) {
        if self.waiting(peer) == 0 {
            self.send_control(peer, FrameKind::Heartbeat);
        }
    }

    fn leave(&mut self, peer: u32) {
        self.send_control(peer, FrameKind::Leave);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.left.contains(&peer)
    }
}
