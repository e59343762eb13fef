//! A worker's side of its hubs: takes vectors apart into chunks and puts them together again (luo2020, section 3.2.4). No
//! sockets, clocks or threads.

use super::assignment::{Cores, Way, assign};
use super::frame::{Notice, Verb};
use super::terms::{Contract, Pace};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use syncline_protocol::fault::Broken;
use syncline_protocol::link::{Event, Landing, Link};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::{Buffer, Pool, Region};
use syncline_protocol::operation::Request;
use syncline_protocol::wire::{Header, Kind};

/// The frame that makes a request.
const fn verb(request: Request) -> Verb {
    match request {
        Request::Push => Verb::Push,
        Request::PushPull => Verb::PushPull,
        Request::Pull => Verb::Pull,
        Request::Set => Verb::Set,
    }
}

/// Something that a worker wants.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Counts a worker's orders.
    pub sequence: u64,
    /// Which vector.
    pub key: u32,
    /// What with it.
    pub request: Request,
    /// What the worker brings: the whole vector; empty where it brings nothing.
    pub input: Region,
    /// Where the result goes, which may be the input; empty where there is none.
    pub output: Region,
    /// Whether the input is to be as it was if the order fails.
    pub keep: bool,
}

/// Which of a job's chunks go where.
#[derive(Clone, Debug)]
pub struct Routes {
    ways: Vec<Way>,
    /// The number of each hub's first core, and of all.
    firsts: Vec<u32>,
}

impl Routes {
    /// The ways of a contract's chunks to these hubs.
    pub fn new(contract: &Contract, hubs: &[Cores]) -> Self {
        let sizes: Vec<u64> =
            (0..contract.catalogue.chunks()).map(|chunk| contract.catalogue.bytes(chunk)).collect();
        let mut firsts = vec![0];
        for hub in hubs {
            firsts.push(firsts.last().expect("there is one") + hub.cores);
        }
        Self { ways: assign(&sizes, hubs), firsts }
    }

    /// Cores of all hubs.
    pub fn cores(&self) -> u32 {
        *self.firsts.last().expect("there is always the end")
    }

    /// The number of a chunk's core among those of all hubs.
    pub fn core(&self, chunk: u32) -> u32 {
        let Way { hub, core } = self.ways[chunk as usize];
        self.firsts[hub as usize] + core
    }

    /// The way to a core, by its number among those of all hubs.
    pub fn way(&self, core: u32) -> Way {
        let hub = self.firsts.partition_point(|&first| first <= core) - 1;
        Way { hub: hub as u32, core: core - self.firsts[hub] }
    }

    /// The chunks of each core of a hub.
    pub fn shares(&self, hub: u32) -> Vec<Vec<u32>> {
        let cores = self.firsts[hub as usize + 1] - self.firsts[hub as usize];
        let mut shares = vec![Vec::new(); cores as usize];
        for (chunk, way) in (0u32..).zip(&self.ways).filter(|(_, way)| way.hub == hub) {
            shares[way.core as usize].push(chunk);
        }
        shares
    }
}

/// An order under way.
#[derive(Debug)]
struct Open {
    order: Order,
    /// Chunks that are not through.
    left: usize,
    contributors: u16,
    /// What the input was, where it has been overwritten.
    saved: Vec<(Region, Buffer)>,
}

/// A worker's connections to the cores of its hubs.
#[derive(Debug)]
pub struct Client {
    contract: Arc<Contract>,
    routes: Arc<Routes>,
    /// By hub.
    epochs: Vec<u16>,
    links: Vec<Link>,
    /// Cores that have said that nothing will follow.
    left: BTreeSet<u32>,
    /// How often each vector has been pushed.
    steps: Vec<u64>,
    open: BTreeMap<u64, Open>,
    /// Answers that are to come, by chunk: the order, and which version at least.
    awaited: BTreeMap<u32, VecDeque<(u64, u64)>>,
    finished: VecDeque<(u64, u16)>,
    /// Workers that join once the step that is being pushed is pushed whole.
    newcomers: Vec<(u32, u64)>,
    pool: Pool,
}

impl Client {
    /// A worker's side. Cores are its peers, by their number among those of all hubs; each hub has an epoch of its own.
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
            pool: Pool::default(),
        }
    }

    /// Whose core it is.
    pub fn hub(&self, core: u32) -> u32 {
        self.routes.way(core).hub
    }

    fn epoch(&self, core: u32) -> u16 {
        self.epochs[self.hub(core) as usize]
    }

    /// Says that so many steps of each vector have been pushed: of a worker that joins later.
    pub fn skip(&mut self, steps: &[u64]) {
        self.steps.copy_from_slice(steps);
    }

    /// How often each vector has been pushed.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// Begins an order. Regions are as long as the vector where something is brought or comes.
    pub fn start(&mut self, order: Order) {
        let step = &mut self.steps[order.key as usize];
        if matches!(order.request, Request::Push | Request::PushPull) {
            *step += 1;
        }
        let step = *step;
        let mut left = 0;
        for chunk in self.contract.catalogue.chunks_of(order.key) {
            let core = self.routes.core(chunk);
            left += 1;
            let header = verb(order.request).header(self.epoch(core), step, chunk);
            let place = self.contract.catalogue.place(chunk);
            let payload = if order.request.sends() { order.input.part(place) } else { Region::EMPTY };
            self.links[core as usize].message(header, payload, (order.sequence, chunk, 0));
            if order.request.receives() {
                self.awaited.entry(chunk).or_default().push_back((order.sequence, step));
            }
        }
        let open = Open { order, left, contributors: u16::MAX, saved: Vec::new() };
        self.open.insert(order.sequence, open);
        self.close_if_done(order.sequence);
        if !self.newcomers.is_empty() && self.between_steps() {
            for (worker, incarnation) in std::mem::take(&mut self.newcomers) {
                self.notice(Notice::Admit(worker, incarnation));
            }
        }
    }

    /// Whether vectors that are pushed together have been pushed equally often.
    fn between_steps(&self) -> bool {
        let mut steps = self.contract.together.iter().map(|&key| self.steps[key as usize]);
        let first = steps.next();
        steps.all(|step| Some(step) == first)
    }

    /// Another learning rate of a vector or of all, from the next push on.
    pub fn set_rate(&mut self, rate: f64, key: Option<u32>) {
        self.notice(Notice::Rate(rate, key));
    }

    /// A worker joins with the next push of each vector, and where vectors are pushed together, with the next step of them:
    /// its rank, and the number that tells it from what it was before.
    pub fn admit(&mut self, worker: u32, incarnation: u64) {
        if self.between_steps() {
            self.notice(Notice::Admit(worker, incarnation));
        } else {
            self.newcomers.push((worker, incarnation));
        }
    }

    fn notice(&mut self, notice: Notice) {
        for core in 0..self.routes.cores() {
            let header = Header { kind: Kind::Begin, epoch: self.epoch(core), sequence: 0, chunk: 0 };
            self.links[core as usize].control(header, &notice.encode());
        }
    }

    fn sign(&mut self, core: u32, kind: Kind) {
        let header = Header { kind, epoch: self.epoch(core), sequence: 0, chunk: 0 };
        self.links[core as usize].control(header, &[]);
    }

    /// The next order of which all chunks are through, and how many workers had a part in it at least (of no
    /// meaning where nothing came).
    pub fn finished(&mut self) -> Option<(u64, u16)> {
        self.finished.pop_front()
    }

    /// How many chunks of an order are not through.
    pub fn left(&self, sequence: u64) -> usize {
        self.open.get(&sequence).map_or(0, |open| open.left)
    }

    /// Lets go of what an order's input was: it is through.
    pub fn forget(&mut self, sequence: u64) {
        if let Some(open) = self.open.remove(&sequence) {
            open.saved.into_iter().for_each(|(_, buffer)| self.pool.give(buffer));
        }
    }

    /// Gives up: inputs that were to be kept are as they were.
    pub fn abort(&mut self) {
        self.links.iter_mut().for_each(|link| _ = link.abandon());
        self.awaited.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            for (place, saved) in open.saved {
                place.write(saved.as_slice());
            }
        }
    }

    fn close_if_done(&mut self, sequence: u64) {
        let Some(open) = self.open.get(&sequence).filter(|open| open.left == 0) else { return };
        self.finished.push_back((sequence, open.contributors));
        if !open.order.keep {
            self.open.remove(&sequence);
        }
    }

    fn through(&mut self, sequence: u64, contributors: u16) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        open.left -= 1;
        open.contributors = open.contributors.min(contributors);
        self.close_if_done(sequence);
    }

    fn happened(&mut self, core: u32, event: Event) -> Result<(), Broken> {
        match event {
            Event::Header(header) if header.epoch != self.epoch(core) => {
                Err(Broken::Epoch(header, self.epoch(core)))
            }
            Event::Header(header) => {
                let (length, landing) = match header.kind {
                    Kind::Heartbeat | Kind::Leave => (0, Landing::Nothing),
                    Kind::Message(_) => self.landing(core, header)?,
                    _ => return Err(Broken::Unknown(header)),
                };
                self.links[core as usize].land(length, landing);
                Ok(())
            }
            Event::Frame(Header { kind: Kind::Message(contributors), chunk, .. }, _) => {
                let awaited = self.awaited.get_mut(&chunk).and_then(VecDeque::pop_front);
                if let Some((sequence, _)) = awaited {
                    self.through(sequence, contributors);
                }
                Ok(())
            }
            Event::Frame(Header { kind: Kind::Leave, .. }, _) => {
                self.left.insert(core);
                Ok(())
            }
            Event::Frame(..) => Ok(()),
        }
    }

    /// Where what a hub gives goes, and how long it is.
    fn landing(&mut self, core: u32, header: Header) -> Result<(usize, Landing), Broken> {
        let chunk = header.chunk;
        let unknown = Broken::Unknown(header);
        let ours = chunk < self.contract.catalogue.chunks() && self.routes.core(chunk) == core;
        let awaited = self.awaited.get(&chunk).and_then(VecDeque::front).filter(|_| ours);
        let Some(&(sequence, version)) = awaited else { return Err(unknown) };
        let old = (header.sequence.wrapping_sub(version as u32) as i32) < 0;
        if old && self.contract.terms.pace == Pace::Synchronous {
            return Err(unknown);
        }
        let Some(open) = self.open.get_mut(&sequence) else { return Err(unknown) };
        let place = open.order.output.part(self.contract.catalogue.place(chunk));
        if open.order.keep && place.overlaps(open.order.input) {
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
        for (sequence, ..) in done {
            // Whoever gets something is through once it is there.
            if self.open.get(&sequence).is_some_and(|open| !open.order.request.receives()) {
                self.through(sequence, u16::MAX);
            }
        }
    }

    fn reads(&self, _peer: u32) -> bool {
        true
    }

    fn coming(&self, peer: u32) -> Option<(u32, usize)> {
        self.links[peer as usize].coming()
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.links[peer as usize].direct()
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), Broken> {
        match self.links[peer as usize].read_directly(bytes)? {
            Some(event) => self.happened(peer, event),
            None => Ok(()),
        }
    }

    fn received(&mut self, peer: u32, mut bytes: &[u8]) -> Result<(), Broken> {
        while let Some(event) = self.links[peer as usize].take(&mut bytes)? {
            self.happened(peer, event)?;
        }
        Ok(())
    }

    fn believe(&mut self, peer: u32) {
        self.links[peer as usize].believe();
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
