//! All members of a job and their coordinator, in one thread and in virtual time.
//!
//! After any fault of processes and connections, all members that hear the coordinator have the same verdict within two
//! seconds, it names who is at fault, and inputs are restored. Members use the same rules as on threads and sockets
//! ([`FaultRules`]). The coordinator is on rank 0's host, so a fault of that host's network also affects its connections.

mod on_demand;

use crate::lending::Lent;
use on_demand::OnDemand;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use syncline_membership::fault_rules::{Late, Oldest, Reaction};
use syncline_membership::message::{FromCoordinator, FromMember, LateOperation, Progress, Verdict};
use syncline_membership::{Coordinator, FaultRules, Member};
use syncline_plan::by_name;
use syncline_protocol::codec::{Decoder, MAX_MESSAGE_BYTES, encode};
use syncline_protocol::fault::{Blame, FaultKind, ProtocolError, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, LostPeer, Patience};
use syncline_protocol::lane::{FlowControl, Lane, PeerError, StartedOperation};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::Buffer;
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
use syncline_protocol::shape::Shape;
use syncline_protocol::virtual_network::{End, Event, InvalidBytes, Mishap, VirtualNetwork};
use syncline_reduction::{Element, Reduction};
use syncline_units::CollectiveKind;

/// The default number of ranks of a job. The coordinator has the place after the ranks in the network, and belongs to
/// rank 0's process.
const RANKS: u32 = 4;

/// How long an operation may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// The time within which the project promises to find a fault.
const FOUND_WITHIN: Duration = Duration::from_secs(2);

const ELEMENTS: u64 = 1000;

/// Plans under which faults are tried.
const PLANS: [&str; 4] = ["ring", "direct", "halving_doubling", "two_level(group=2)"];

fn operation() -> Operation {
    Operation {
        kind: CollectiveKind::AllReduce,
        elements: ELEMENTS,
        element: Element::I64,
        reduction: Reduction::Sum,
        root: 0,
        association: Association::Arrival,
    }
}

/// A rank's input of an operation.
fn input(rank: u32, number: u64) -> Vec<u8> {
    let value = |at: u64| (at ^ (number << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15 + u64::from(rank));
    (0..ELEMENTS).flat_map(|at| value(at).to_ne_bytes()).collect()
}

/// The result of an operation.
fn sum(ranks: u32, number: u64) -> Vec<u8> {
    let long = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().unwrap());
    let add = |sum: Vec<u8>, vector: Vec<u8>| {
        let pairs = sum.chunks_exact(8).zip(vector.chunks_exact(8));
        pairs.flat_map(|(a, b)| long(a).wrapping_add(long(b)).to_ne_bytes()).collect()
    };
    (0..ranks).map(|rank| input(rank, number)).reduce(add).unwrap()
}

/// A control connection: messages between a member and the coordinator.
#[derive(Debug)]
struct Control {
    out: Vec<u8>,
    decoder: Decoder,
}

impl Control {
    fn new() -> Self {
        Self { out: Vec::new(), decoder: Decoder::new(MAX_MESSAGE_BYTES) }
    }
}

/// The results of operations that some rank has asked for.
type Sums = Rc<RefCell<BTreeMap<u64, Vec<u8>>>>;

/// A rank's process: its lane, and its side of the connection to the coordinator.
#[derive(Debug)]
struct Rank {
    rank: u32,
    /// The number of ranks.
    ranks: u32,
    lane: Lane,
    heartbeats: Heartbeats,
    control: Control,
    member: Member,
    rules: FaultRules,
    /// Whether it hears none of its peers.
    cut_off: bool,
    last_look: Duration,
    /// Peers from which it received something, and to which it sent something, since the last step.
    heard: Vec<u32>,
    written: Vec<u32>,
    shape: Arc<Shape>,
    buffer: Buffer,
    begun: u64,
    over: u64,
    sums: Sums,
    /// Whether the member's verdict was passed on to the rules.
    verdict_handled: bool,
    /// Whether the coordinator is lost. The control connection ends once everything is sent.
    coordinator_lost: bool,
    /// The verdict that it found or received, and when.
    verdict: Option<(Blame, Trouble, Duration)>,
}

/// The coordinator, with a control connection to each rank.
#[derive(Debug)]
struct CoordinatorProcess {
    coordinator: Coordinator,
    controls: Vec<Control>,
    last_look: Duration,
}

#[derive(Debug)]
enum Process {
    Rank(Box<Rank>),
    Coordinator(Box<CoordinatorProcess>),
}

impl Process {
    fn control(&self, peer: u32) -> Option<&Control> {
        match self {
            Self::Rank(rank) => (peer == rank.ranks).then_some(&rank.control),
            Self::Coordinator(coordinator) => Some(&coordinator.controls[peer as usize]),
        }
    }

    fn control_mut(&mut self, peer: u32) -> Option<&mut Control> {
        match self {
            Self::Rank(rank) => (peer == rank.ranks).then_some(&mut rank.control),
            Self::Coordinator(coordinator) => Some(&mut coordinator.controls[peer as usize]),
        }
    }

    fn rank(&mut self) -> &mut Rank {
        match self {
            Self::Rank(rank) => rank,
            Self::Coordinator(_) => panic!("no rank"),
        }
    }

    fn lane(&self) -> &Lane {
        match self {
            Self::Rank(rank) => &rank.lane,
            Self::Coordinator(_) => panic!("no rank"),
        }
    }
}

impl Machine for Process {
    fn waiting(&self, peer: u32) -> usize {
        self.control(peer).map_or_else(|| self.lane().waiting(peer), |control| control.out.len())
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        if self.control(peer).is_none() {
            return self.rank().lane.gather(peer, slices, most);
        }
        let control = self.control(peer).unwrap();
        // Offer one message at a time, as a lane offers frames.
        let length = control.out.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        slices.push(IoSlice::new(&control.out[..(4 + length).min(control.out.len())]));
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        match self.control_mut(peer) {
            Some(control) => drop(control.out.drain(..bytes)),
            None => {
                let rank = self.rank();
                rank.written.push(peer);
                rank.lane.sent(peer, bytes);
            }
        }
    }

    fn reads(&self, peer: u32) -> bool {
        self.control(peer).is_some() || self.lane().reads(peer)
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        if self.control(peer).is_some() { None } else { self.rank().lane.direct(peer) }
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        let rank = self.rank();
        rank.heard.push(peer);
        rank.lane.read_directly(peer, bytes)
    }

    fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), ProtocolError> {
        if let Some(control) = self.control_mut(peer) {
            control.decoder.feed(bytes);
            return Ok(());
        }
        let rank = self.rank();
        rank.heard.push(peer);
        rank.lane.received(peer, bytes)
    }

    fn disable_checksums(&mut self, peer: u32) {
        self.rank().lane.disable_checksums(peer);
    }

    fn send_heartbeat(&mut self, peer: u32) {
        self.rank().lane.send_heartbeat(peer);
    }

    fn leave(&mut self, peer: u32) {
        self.rank().lane.leave(peer);
    }

    fn has_left(&self, peer: u32) -> bool {
        self.lane().has_left(peer)
    }
}

impl Rank {
    fn new(rank: u32, ranks: u32, plan: &str, sums: &Sums) -> Self {
        let algorithm = by_name(plan).unwrap();
        let rule = Rule::new(CollectiveKind::AllReduce, algorithm, 256);
        let book =
            Arc::new(PlanBook::new(rank, ranks, Selection::of((0..ranks).collect(), vec![rule])).unwrap());
        let shape = book.shape(1, &operation()).unwrap();
        let patience = Patience::default();
        let heartbeats = Heartbeats::new(patience, Duration::ZERO);
        let lane = Lane::new(0, FlowControl { lanes: 1, window: 64 << 10, ahead: 1 << 20 }, 0, book);
        Self {
            rank,
            ranks,
            lane,
            heartbeats,
            control: Control::new(),
            member: Member::new(0, patience, Duration::ZERO),
            rules: FaultRules::new(rank, true, patience),
            cut_off: false,
            last_look: Duration::ZERO,
            heard: Vec::new(),
            written: Vec::new(),
            shape,
            buffer: Buffer::new(8 * ELEMENTS as usize),
            begun: 0,
            over: 0,
            sums: Rc::clone(sums),
            verdict_handled: false,
            coordinator_lost: false,
            verdict: None,
        }
    }

    /// Is connected with all others from the beginning.
    fn know_all_peers(&mut self) {
        for peer in (0..self.ranks).filter(|&peer| peer != self.rank) {
            self.heartbeats.join(peer as usize, Duration::ZERO);
            self.lane.send_heartbeat(peer);
        }
    }

    /// Begins the next operation.
    fn begin(&mut self, now: Duration) {
        self.begun += 1;
        self.buffer.as_mut_slice().copy_from_slice(&input(self.rank, self.begun));
        let region = self.buffer.region();
        let (sequence, shape) = (self.begun, Arc::clone(&self.shape));
        let job = Arc::new(StartedOperation { sequence, shape, input: region, output: region, keep: true });
        if let Err(PeerError { rank: peer, error: broken }) = self.lane.start(job) {
            self.trouble(peer, broken.into(), now);
        }
    }

    /// Handles trouble with a peer. Returns the peers whose connections this rank closes.
    fn trouble(&mut self, peer: u32, trouble: Trouble, now: Duration) -> Vec<u32> {
        let reaction = self.rules.trouble(peer, trouble, self.cut_off, now);
        self.act(reaction, now)
    }

    /// Does what the rules say. Returns the peers whose connections this rank closes.
    fn act(&mut self, reaction: Option<Reaction>, now: Duration) -> Vec<u32> {
        match reaction {
            Some(Reaction::Report { peer, trouble }) => self.member.report(peer, trouble),
            Some(Reaction::Late(Late { sequence, trouble, .. })) => {
                let ranks = (0..self.ranks).collect();
                self.member.report_late(LateOperation { group: 0, ranks, sequence, trouble });
            }
            Some(Reaction::Abort { blame, trouble }) => {
                self.lane.abort();
                self.verdict = Some((blame, trouble, now));
                return (0..self.ranks).filter(|&peer| peer != self.rank).collect();
            }
            None => {}
        }
        Vec::new()
    }

    /// Handles what has arrived, and goes on. Returns the peers whose connections this rank closes.
    fn advance(&mut self, now: Duration, steps: u64) -> Vec<u32> {
        self.cut_off &= self.heard.is_empty();
        self.heard.drain(..).for_each(|peer| self.heartbeats.heard(peer as usize, now));
        self.written.drain(..).for_each(|peer| self.heartbeats.sent(peer as usize, now));
        let mut closed = Vec::new();
        while let Some(operation) = self.lane.finished() {
            let sequence = operation.sequence;
            assert_eq!(sequence, self.begun);
            self.lane.forget(operation);
            let mut sums = self.sums.borrow_mut();
            let expected = sums.entry(sequence).or_insert_with(|| sum(self.ranks, sequence));
            assert!(self.buffer.as_slice() == expected, "rank {} got another sum", self.rank);
            self.over = sequence;
        }
        if self.verdict.is_none() && self.over == self.begun && self.begun < steps {
            self.begin(now);
        }
        if now >= self.last_look + self.heartbeats.interval() && self.verdict.is_none() {
            self.last_look = now;
            let peers: Vec<u32> = (0..self.ranks).filter(|&peer| peer != self.rank).collect();
            let check = self.heartbeats.check(&mut self.lane, &peers, now);
            self.cut_off |= check.cut_off;
            self.member.set_hears(check.hears);
            for LostPeer { peer, trouble } in check.lost {
                closed.push(peer);
                closed.extend(self.trouble(peer, trouble, now));
            }
        }
        loop {
            let progress = Progress { begun: self.begun, over: self.over };
            match self.control.decoder.message::<FromCoordinator>() {
                Ok(Some(message)) => self.member.receive(message, |_| progress, now),
                Ok(None) => break,
                Err(what) => {
                    self.member.lose_coordinator(Trouble { kind: FaultKind::Corrupt, what });
                    break;
                }
            }
        }
        self.member.tick(now);
        self.control.out.extend(self.member.take_messages().iter().flat_map(encode));
        let reaction = match self.member.verdict().filter(|_| !self.verdict_handled).cloned() {
            Some(Verdict { blame, trouble }) => {
                self.verdict_handled = true;
                // After this, a rank that has lost the coordinator sends nothing more to it.
                self.coordinator_lost = blame == Blame::Coordinator;
                self.rules.verdict(blame, trouble, self.cut_off)
            }
            None => {
                let sequence = self.begun;
                let oldest =
                    (self.over < sequence).then_some(Oldest { group: 0, sequence, deadline: DEADLINE });
                self.rules.check(oldest, self.cut_off, now)
            }
        };
        closed.extend(self.act(reaction, now));
        self.control.out.extend(self.member.take_messages().iter().flat_map(encode));
        closed.extend((self.coordinator_lost && self.control.out.is_empty()).then_some(self.ranks));
        closed
    }

    /// Whether the buffer holds the input of the operation under way, or the result if none is.
    fn intact(&self) -> bool {
        let expected =
            if self.over < self.begun { input(self.rank, self.begun) } else { sum(self.ranks, self.begun) };
        self.buffer.as_slice() == expected
    }
}

impl CoordinatorProcess {
    /// Handles messages from members, and then the connections that have `ended`, with the reasons.
    fn advance(&mut self, now: Duration, ended: Vec<(u32, String)>) {
        for (rank, control) in (0u32..).zip(&mut self.controls) {
            loop {
                match control.decoder.message::<FromMember>() {
                    Ok(Some(message)) => self.coordinator.receive(rank, message, now),
                    Ok(None) => break,
                    Err(what) => {
                        self.coordinator.received_invalid(rank, what);
                        break;
                    }
                }
            }
        }
        ended.iter().for_each(|(rank, how)| self.coordinator.closed(*rank, how));
        if now >= self.last_look + self.coordinator.interval() {
            self.last_look = now;
            self.coordinator.tick(now);
        }
        for (rank, message) in self.coordinator.take_messages() {
            self.controls[rank as usize].out.extend(encode(&message));
        }
    }
}

/// A job on a network in which faults are injected.
struct World {
    network: VirtualNetwork<Process>,
    ranks: u32,
    /// Operations that each rank runs, one after the other.
    steps: u64,
    /// Hosts between which nothing is carried, from the first to the second, by their ranks.
    blocked: BTreeSet<(u32, u32)>,
    /// The connections of ranks, if they are made when they are first needed.
    on_demand: Option<OnDemand>,
}

impl World {
    fn new(plan: &str, seed: u64, steps: u64) -> Self {
        Self::of(RANKS, plan, seed, steps)
    }

    fn of(ranks: u32, plan: &str, seed: u64, steps: u64) -> Self {
        let mut processes = Self::processes(ranks, plan);
        for process in &mut processes[..ranks as usize] {
            process.rank().know_all_peers();
        }
        let network = VirtualNetwork::mesh(processes, seed, 600);
        Self { network, ranks, steps, blocked: BTreeSet::new(), on_demand: None }
    }

    /// A job in which ranks connect when they first need it.
    fn on_demand(ranks: u32, plan: &str, seed: u64, steps: u64) -> Self {
        let mut processes = Self::processes(ranks, plan);
        for process in &mut processes[..ranks as usize] {
            process.rank().lane.connect_on_demand();
        }
        let control = |rank| [(rank as usize, ranks), (ranks as usize, rank)];
        let cables: Vec<[End; 2]> = (0..ranks).map(control).collect();
        let network = VirtualNetwork::new(processes, &cables, seed, 600);
        Self { network, ranks, steps, blocked: BTreeSet::new(), on_demand: Some(OnDemand::new(ranks)) }
    }

    /// The processes of all ranks, and the coordinator.
    fn processes(ranks: u32, plan: &str) -> Vec<Process> {
        let sums = Sums::default();
        let mut processes: Vec<Process> =
            (0..ranks).map(|rank| Process::Rank(Box::new(Rank::new(rank, ranks, plan, &sums)))).collect();
        let all: Vec<u32> = (0..ranks).collect();
        let coordinator = Coordinator::new(&all, 0, Patience::default(), Duration::ZERO);
        let controls = all.iter().map(|_| Control::new()).collect();
        processes.push(Process::Coordinator(Box::new(CoordinatorProcess {
            coordinator,
            controls,
            last_look: Duration::ZERO,
        })));
        processes
    }

    /// The places of all ranks and of the coordinator.
    fn all(&self) -> std::ops::RangeInclusive<u32> {
        0..=self.ranks
    }

    /// The places that belong to a rank's process: the rank itself, and for rank 0 also the coordinator.
    fn places(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        std::iter::once(rank).chain((rank == 0).then_some(self.ranks))
    }

    /// Blocks all traffic from one rank's host to another's, or allows it again. The coordinator is on rank 0's host.
    fn block(&mut self, from: u32, to: u32, blocked: bool) {
        match blocked {
            true => _ = self.blocked.insert((from, to)),
            false => _ = self.blocked.remove(&(from, to)),
        }
        for from in self.places(from) {
            self.places(to).for_each(|to| self.network.block((from as usize, to), blocked));
        }
    }

    fn rank(&mut self, rank: u32) -> &mut Rank {
        self.network.machine(rank as usize).rank()
    }

    /// Runs the job until a moment, or until `enough` returns true.
    fn run_until(&mut self, until: Duration, enough: impl Fn(&mut Self) -> bool) {
        while self.network.now() < until && !enough(self) {
            let events = self.network.turn();
            let now = self.network.now();
            // The coordinator handles ends of connections after the messages that arrived before them.
            let mut ended = Vec::new();
            for event in events {
                let (place, peer, trouble) = match event {
                    Event::InvalidBytes(InvalidBytes { end: (place, peer), error }) => {
                        (place, peer, error.into())
                    }
                    Event::Ended((place, peer)) => (place, peer, Trouble::closed("end of file")),
                };
                match self.network.machine(place) {
                    Process::Rank(rank) if peer == rank.ranks => rank.member.lose_coordinator(trouble),
                    Process::Rank(rank) => {
                        rank.heartbeats.leave(peer as usize);
                        if rank.verdict.is_none() {
                            let trouble = rank.lane.reason(peer, trouble);
                            let closed = rank.trouble(peer, trouble, now);
                            closed.into_iter().for_each(|peer| self.network.close_end((place, peer)));
                        }
                    }
                    Process::Coordinator(_) => ended.push((peer, trouble.what)),
                }
            }
            for place in self.all().map(|place| place as usize) {
                if !self.network.runs(place) {
                    continue;
                }
                let closed = match self.network.machine(place) {
                    Process::Rank(rank) => rank.advance(now, self.steps),
                    Process::Coordinator(coordinator) => {
                        coordinator.advance(now, std::mem::take(&mut ended));
                        Vec::new()
                    }
                };
                closed.into_iter().for_each(|peer| self.network.close_end((place, peer)));
            }
            if let Some(mut on_demand) = self.on_demand.take() {
                on_demand.advance(self);
                self.on_demand = Some(on_demand);
            }
        }
    }
}

/// A fault of processes or of the network.
#[derive(Clone, Copy, Debug)]
enum InjectedFault {
    /// A rank's process is killed.
    Killed(u32),
    /// A rank's process is stopped.
    Stopped(u32),
    /// The network carries nothing from one rank to another.
    OneWay { from: u32, to: u32 },
    /// The network carries nothing between two ranks.
    BothWays { a: u32, b: u32 },
    /// The network carries nothing from a rank.
    Mute(u32),
    /// The network carries nothing to a rank.
    Deaf(u32),
    /// The network carries nothing from or to a rank.
    CutOff(u32),
    /// The connection between two ranks is reset.
    Reset { a: u32, b: u32 },
    /// The connection between a rank and the coordinator is reset.
    CoordinatorReset(u32),
    /// Bytes between ranks are corrupted, lost or repeated.
    Mishap(Mishap),
}

/// Ranks that do not receive the verdict, and whom they blame; `None` if they are dead or stopped.
type Exceptions = Vec<(u32, Option<Blame>)>;

/// The expected result of a fault.
#[derive(Debug)]
struct Expected {
    blame: Blame,
    kinds: &'static [FaultKind],
    exceptions: Exceptions,
}

impl InjectedFault {
    /// Injects the fault. Returns what is expected to follow, or `None` if the fault cannot happen at this moment.
    fn begin(self, world: &mut World) -> Option<Expected> {
        use Blame::{Coordinator, Rank};
        let all = 0..world.ranks;
        let others = |rank: u32| all.clone().filter(move |&other| other != rank);
        // The others lose the coordinator together with rank 0.
        let lost_process = |rank: u32| if rank == 0 { Coordinator } else { Rank(rank) };
        let others_lose_it = || others(0).map(|rank| (rank, Some(Coordinator))).collect();
        let (silent, closed) = (&[FaultKind::Silent], &[FaultKind::Closed]);
        let (blame, kinds, exceptions): (Blame, &[FaultKind], Exceptions) = match self {
            Self::Killed(rank) => {
                world.places(rank).for_each(|place| world.network.kill(place as usize));
                (lost_process(rank), closed, vec![(rank, None)])
            }
            Self::Stopped(rank) => {
                world.places(rank).for_each(|place| world.network.stop(place as usize));
                (lost_process(rank), silent, vec![(rank, None)])
            }
            Self::OneWay { from, to } => {
                world.block(from, to, true);
                (
                    Blame::link(from, to),
                    silent,
                    if from == 0 { vec![(to, Some(Coordinator))] } else { vec![] },
                )
            }
            Self::BothWays { a, b } => {
                world.block(a, b, true);
                world.block(b, a, true);
                let exceptions = (a.min(b) == 0).then_some((a.max(b), Some(Coordinator)));
                (Blame::link(a, b), silent, exceptions.into_iter().collect())
            }
            Self::Mute(rank) => {
                others(rank).for_each(|other| world.block(rank, other, true));
                (Rank(rank), silent, if rank == 0 { others_lose_it() } else { vec![] })
            }
            Self::Deaf(rank) => {
                others(rank).for_each(|other| world.block(other, rank, true));
                (Rank(rank), silent, if rank == 0 { vec![] } else { vec![(rank, Some(Rank(rank)))] })
            }
            Self::CutOff(rank) => {
                for other in others(rank) {
                    world.block(rank, other, true);
                    world.block(other, rank, true);
                }
                (
                    Rank(rank),
                    silent,
                    if rank == 0 { others_lose_it() } else { vec![(rank, Some(Rank(rank)))] },
                )
            }
            Self::Reset { a, b } => {
                world.network.reset((a as usize, b));
                (Blame::link(a, b), closed, vec![])
            }
            Self::CoordinatorReset(rank) => {
                world.network.reset((rank as usize, world.ranks));
                (Rank(rank), closed, vec![(rank, Some(Coordinator))])
            }
            Self::Mishap(mishap) => {
                let ranks = world.ranks as usize;
                let lanes = |from: End, to: End| from.0 < ranks && to.0 < ranks;
                let (from, to) = world.network.mishap_on(mishap, lanes)?;
                let kinds = &[FaultKind::Corrupt, FaultKind::Silent, FaultKind::Differs];
                (Blame::link(from.0 as u32, to.0 as u32), kinds, vec![])
            }
        };
        Some(Expected { blame, kinds, exceptions })
    }
}

/// Injects a fault into a job at a moment, and checks the result.
fn check(plan: &str, seed: u64, at: Duration, fault: InjectedFault) -> Result<(), TestCaseError> {
    check_in(&mut World::new(plan, seed, u64::MAX), at, fault)
}

/// As [`check`], in any job.
fn check_in(world: &mut World, at: Duration, fault: InjectedFault) -> Result<(), TestCaseError> {
    world.run_until(at, |_| false);
    // A mishap needs bytes in transit, so try again until there are some.
    let mut expected = fault.begin(world);
    while expected.is_none() {
        let next = world.network.now() + Duration::from_millis(5);
        world.run_until(next, |_| false);
        expected = fault.begin(world);
    }
    let Expected { blame, kinds, exceptions } = expected.unwrap();
    let since = world.network.now();
    let exceptions: BTreeMap<u32, Option<Blame>> = exceptions.into_iter().collect();
    let alive: Vec<u32> = (0..world.ranks).filter(|rank| exceptions.get(rank) != Some(&None)).collect();
    let decided = |world: &mut World, rank| world.rank(rank).verdict.is_some();
    world.run_until(since + 2 * FOUND_WITHIN, |world| alive.iter().all(|&rank| decided(world, rank)));
    let mut verdicts = Vec::new();
    for &rank in &alive {
        let state = world.rank(rank);
        let Some((theirs, trouble, when)) = state.verdict.clone() else {
            return Err(TestCaseError::fail(format!("rank {rank} has not found anything")));
        };
        let took = when - since;
        prop_assert!(took <= FOUND_WITHIN, "rank {} took {:?}: {}", rank, took, trouble);
        prop_assert!(state.intact(), "rank {} does not have its input: {}", rank, trouble);
        prop_assert!(kinds.contains(&trouble.kind), "rank {}: {}", rank, trouble);
        if let Some(&own) = exceptions.get(&rank) {
            prop_assert_eq!(Some(theirs), own, "rank {}: {}", rank, trouble);
            continue;
        }
        prop_assert_eq!(theirs, blame, "rank {}: {}", rank, trouble);
        verdicts.push((theirs, trouble));
    }
    // Ranks that lose the coordinator may notice it in different ways.
    let same = blame == Blame::Coordinator || verdicts.iter().all(|verdict| *verdict == verdicts[0]);
    prop_assert!(same, "{verdicts:?}");
    Ok(())
}

fn moments() -> impl Strategy<Value = (&'static str, u64, Duration)> {
    let moments = (1u64..900).prop_map(Duration::from_millis);
    (prop::sample::select(PLANS.to_vec()), any::<u64>(), moments)
}

/// Two ranks.
fn pairs() -> impl Strategy<Value = (u32, u32)> {
    (0..RANKS, 1..RANKS).prop_map(|(a, more)| (a, (a + more) % RANKS))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Fault: a process is killed, at any moment -> all others name it (or, for rank 0, the coordinator) within 2 s; inputs are restored
    #[test]
    fn a_killed_rank_is_named((plan, seed, at) in moments(), rank in 0..RANKS) {
        check(plan, seed, at, InjectedFault::Killed(rank))?;
    }

    /// Fault: a process is stopped, at any moment -> all others name it (or, for rank 0, the coordinator) within 2 s; inputs are restored
    #[test]
    fn a_stopped_rank_is_named((plan, seed, at) in moments(), rank in 0..RANKS) {
        check(plan, seed, at, InjectedFault::Stopped(rank))?;
    }

    /// Fault: the network carries nothing between two ranks, one way or both -> all name that link within 2 s; inputs are restored
    #[test]
    fn a_link_that_is_cut_is_named((plan, seed, at) in moments(), (a, b) in pairs(), both: bool) {
        check(plan, seed, at, if both { InjectedFault::BothWays { a, b } } else { InjectedFault::OneWay { from: a, to: b } })?;
    }

    /// Fault: the network carries nothing to a rank, nothing from it, or neither -> the others name it within 2 s; inputs are restored
    #[test]
    fn a_rank_that_is_cut_off_is_named((plan, seed, at) in moments(), rank in 0..RANKS, how in 0usize..3) {
        check(plan, seed, at, [InjectedFault::Mute(rank), InjectedFault::Deaf(rank), InjectedFault::CutOff(rank)][how])?;
    }

    /// Fault: a rank's connection to the coordinator is reset -> the others name the rank within 2 s, because it cannot report anything; the rank itself reports that it lost the coordinator
    #[test]
    fn a_rank_whose_connection_to_the_coordinator_is_reset_is_named((plan, seed, at) in moments(), rank in 1..RANKS) {
        check(plan, seed, at, InjectedFault::CoordinatorReset(rank))?;
    }

    /// Fault: a connection is reset while data is in transit -> all name that link within 2 s; inputs are restored
    #[test]
    fn a_link_that_is_reset_is_named((plan, seed, at) in moments(), (a, b) in pairs()) {
        check(plan, seed, at, InjectedFault::Reset { a, b })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 240, ..ProptestConfig::default() })]

    /// Fault: bytes or whole frames are corrupted, lost, repeated or inserted in transit -> all name that link within 2 s; inputs are restored
    #[test]
    fn a_link_that_corrupts_bytes_is_named(
        (plan, seed, at) in moments(), mishap in prop::sample::select(Mishap::ALL.to_vec()),
    ) {
        check(plan, seed, at, InjectedFault::Mishap(mishap))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Fault: a process is slowed down by a factor of 10 -> the others wait for it, and results are correct
    #[test]
    fn ranks_wait_for_a_slow_rank((plan, seed, at) in moments(), rank in 0..RANKS) {
        const STEPS: u64 = 12;
        let mut world = World::new(plan, seed, STEPS);
        world.run_until(at, |_| false);
        world.places(rank).for_each(|place| world.network.slow(place as usize, 10));
        // Results are compared as they are finished.
        let over = |world: &mut World| (0..RANKS).all(|rank| world.rank(rank).over == STEPS);
        world.run_until(Duration::from_secs(120), over);
        prop_assert!(over(&mut world), "after {:?}", world.network.now());
        prop_assert!((0..RANKS).all(|rank| world.rank(rank).verdict.is_none()));
    }

    /// Fault: a process is stopped, or the network carries nothing between two ranks, for 0.9 s -> ranks wait, and results are correct
    #[test]
    fn ranks_wait_for_a_fault_that_heals_soon((plan, seed, at) in moments(), (a, b) in pairs(), stopped: bool) {
        const STEPS: u64 = 8;
        let mut world = World::new(plan, seed, STEPS);
        world.run_until(at, |_| false);
        match stopped {
            true => world.places(a).for_each(|place| world.network.stop(place as usize)),
            false => world.block(a, b, true),
        }
        let until = world.network.now() + Duration::from_millis(900);
        world.run_until(until, |_| false);
        match stopped {
            true => world.places(a).for_each(|place| world.network.slow(place as usize, 1)),
            false => world.block(a, b, false),
        }
        let over = |world: &mut World| (0..RANKS).all(|rank| world.rank(rank).over == STEPS);
        world.run_until(Duration::from_secs(60), over);
        prop_assert!(over(&mut world), "after {:?}", world.network.now());
        prop_assert!((0..RANKS).all(|rank| world.rank(rank).verdict.is_none()));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let mut world = World::new("ring", 7, u64::MAX);
        world.run_until(Duration::from_millis(400), |_| false);
        world.network.stop(2);
        world.run_until(Duration::from_secs(4), |_| false);
        (0..RANKS).map(|rank| (world.rank(rank).over, world.rank(rank).verdict.clone())).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// Injects faults into jobs of many ranks: each in its own job, at a different moment.
fn many(ranks: u32) -> Result<(), TestCaseError> {
    use InjectedFault::{BothWays, CutOff, Deaf, Killed, Mishap as Bytes, Mute, OneWay, Reset, Stopped};
    let last = ranks - 1;
    let faults = [
        (Killed(last / 2), "halving_doubling"),
        (Stopped(7), "ring"),
        (Killed(0), "direct"),
        (BothWays { a: 0, b: last }, "two_level(group=8)"),
        (OneWay { from: 0, to: 5 }, "direct"),
        (OneWay { from: last, to: 0 }, "ring"),
        (BothWays { a: 3, b: last }, "halving_doubling"),
        (CutOff(9), "direct"),
        (Deaf(last), "ring"),
        (Mute(0), "halving_doubling"),
        (Reset { a: 1, b: 2 }, "two_level(group=8)"),
        (Bytes(Mishap::Drop), "ring"),
    ];
    for (seed, (fault, plan)) in (0u64..).zip(faults) {
        let mut world = World::of(ranks, plan, seed, u64::MAX);
        check_in(&mut world, Duration::from_millis(100 + 77 * seed), fault)
            .map_err(|error| TestCaseError::fail(format!("{fault:?} under {plan}: {error}")))?;
    }
    Ok(())
}

/// Fault: any of these in a job of 64 ranks -> the same result, within the same time
#[test]
fn faults_in_jobs_of_64_ranks_are_found_in_the_same_time() {
    many(64).unwrap();
}

/// Fault: any of these in a job of 256 ranks -> the same result, within the same time
#[test]
#[ignore = "takes minutes: make test-worlds"]
fn faults_in_jobs_of_256_ranks_are_found_in_the_same_time() {
    many(256).unwrap();
}
