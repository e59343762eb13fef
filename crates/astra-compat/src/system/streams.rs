//! A stream: one chunk of a collective on one rank, from its first phase to its last.
//! ASTRA-sim 2, `Sys.cc:generate_collective`, `proceed_to_next_vnet_baseline`, `StreamBaseline.cc`, `PacketBundle.cc`.

use super::bus::Insertion;
use super::custom;
use super::layout::Span;
use super::plan::{Phase, Plan};
use super::tags;
use super::timers::Timer;
use crate::algorithms::halving_doubling::HalvingDoubling;
use crate::algorithms::tree::Tree;
use crate::algorithms::{Command, Happened, Machine, Members, direct, ring};
use crate::network::channel::{Awaits, Channel, Sent};
use crate::network::whole_ns;
use crate::world::World;
use std::rc::Rc;
use syncline_formats::astra2::{Algorithm, Scheduling};

/// The endpoint delay in a part of the machine, whatever the configured delay. ASTRA-sim 2, `MemBus.cc`
/// (`Transmition::Fast`).
const LISTED_ENDPOINT_DELAY: u64 = 10;

/// The progress of a chunk of a collective on a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) rank: u32,
    /// Its number among its rank's or group's streams, which determines the tag of its messages.
    pub(crate) number: u64,
    /// Its collective on this rank.
    pub(crate) dataset: u32,
    /// Which chunk of the collective it is.
    chunk: u32,
    /// The number of the next phase.
    pub(crate) next_phase: u32,
    priority: i64,
    /// Its queue; `None` before the first phase and after the last.
    pub(crate) queue: Option<u32>,
    listed: bool,
    machine: Machine,
    /// The custom algorithm that replaces the machine, if any.
    pub(crate) custom: Option<Box<custom::Run>>,
    ranks: PhaseRanks,
}

/// The ranks of the current phase: [`Members`] without the list.
#[derive(Clone, Copy, Debug, Default)]
struct PhaseRanks {
    count: u32,
    me: u32,
    base: u32,
    stride: u32,
    /// The group whose list applies.
    group: Option<u32>,
}

/// A collective on one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dataset {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    /// Number of chunks that are not done.
    pub(crate) left: u64,
    pub(crate) plan: Option<Rc<Plan>>,
    /// Queue, direction and tree of each phase of each chunk; empty if they are the same for all.
    picks: Vec<Pick>,
    /// Index of the record of its times.
    pub(crate) record: u32,
}

/// The turns assigned to a phase of a chunk.
#[derive(Clone, Copy, Debug)]
struct Pick {
    queue: u32,
    forward: bool,
    second_tree: bool,
}

/// The pick of a custom algorithm, which takes no turn.
const FIRST_QUEUE: Pick = Pick { queue: 0, forward: true, second_tree: false };

/// A collective that a rank is about to start.
pub(crate) struct Issue {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    pub(crate) plan: Rc<Plan>,
    pub(crate) group: Option<u32>,
    pub(crate) priority: u32,
    pub(crate) record: u32,
}

impl World<'_> {
    /// Divides a collective into streams and starts those that may run.
    pub(crate) fn start_collective(&mut self, issue: &Issue) {
        let plan = &issue.plan;
        let rank = &mut self.ranks[issue.rank as usize];
        let priority = match self.job.system.scheduling {
            Scheduling::Lifo => {
                rank.priority += 1;
                rank.priority
            }
            Scheduling::Fifo => {
                rank.priority -= 1;
                rank.priority
            }
            Scheduling::Explicit => issue.priority.into(),
        };
        let dataset = self.datasets.insert(Dataset {
            rank: issue.rank,
            node: issue.node,
            left: plan.chunks,
            plan: Some(Rc::clone(plan)),
            picks: plan.custom.map(|_| FIRST_QUEUE).into_iter().collect(),
            record: issue.record,
        });
        let in_turn = plan.trees || self.settings.queues_per_dim > 1;
        for chunk in 0..plan.chunks {
            if in_turn {
                let rank = &mut self.ranks[issue.rank as usize];
                let picks = plan.phases.iter().map(|phase| {
                    let (queue, forward) = rank.queues.pick(phase.dim, phase.pool);
                    let mut second_tree = false;
                    if phase.level.algorithm == Algorithm::DoubleBinaryTree {
                        // Each collective type has its own trees, for all its phases.
                        let turn = &mut rank.trees[phase.dim as usize][plan.pattern as usize];
                        second_tree = std::mem::replace(turn, !*turn);
                    }
                    Pick { queue, forward, second_tree }
                });
                self.datasets[dataset].picks.extend(picks);
            }
            let rank = &mut self.ranks[issue.rank as usize];
            // Every stream counts as one of the rank's own, even one of a group.
            let own = rank.streams;
            rank.streams += 1;
            let number = match issue.group {
                None => own,
                Some(group) => rank.next_of_group(group, self.tasks.groups[group as usize].id),
            };
            let stream = self.streams.insert(Stream {
                rank: issue.rank,
                number,
                dataset,
                chunk: chunk as u32,
                next_phase: 0,
                priority,
                queue: None,
                listed: plan.listed,
                machine: Machine::Idle,
                custom: plan.custom.map(|algorithm| self.custom_run(algorithm, issue.rank, issue.group)),
                ranks: PhaseRanks::default(),
            });
            self.enter_phase(stream);
        }
    }

    /// Passes an event to a stream's machine, and carries out its commands.
    #[inline]
    pub(crate) fn step(&mut self, number: u32, happened: Happened) {
        let stream = &mut self.streams[number];
        if stream.custom.is_some() {
            return self.issue_custom(number);
        }
        let ranks = stream.ranks;
        let members = Members {
            count: ranks.count,
            me: ranks.me,
            base: ranks.base,
            stride: ranks.stride,
            list: ranks.group.map(|group| self.tasks.groups[group as usize].members.as_slice()),
        };
        let mut wants = std::mem::take(&mut self.wants);
        stream.machine.step(happened, &members, &mut wants);
        let (rank, tag, listed) = (stream.rank, tags::collective(stream.number), stream.listed);
        let mut done = false;
        for want in wants.drain(..) {
            match want {
                Command::Insert(insertion) => self.insert(number, rank, insertion, listed),
                Command::Exchange { to, from, bytes } => {
                    self.send(Channel { tag, src: rank, dst: to, bytes }, Sent::Unheeded);
                    self.receive(Channel { tag, src: from, dst: rank, bytes }, Awaits::Stream(number));
                }
                Command::Send { to, bytes } => {
                    self.send(Channel { tag, src: rank, dst: to, bytes }, Sent::Unheeded);
                }
                Command::Receive { from, bytes } => {
                    self.receive(Channel { tag, src: from, dst: rank, bytes }, Awaits::Stream(number));
                }
                Command::Done => done = true,
            }
        }
        self.wants = wants;
        if done {
            self.leave_phase(number);
        }
    }

    /// Passes a message through the endpoint: its delay or the shared bus, then the local reduction, which
    /// reads twice and writes once.
    #[inline]
    fn insert(&mut self, stream: u32, rank: u32, insertion: Insertion, listed: bool) {
        if self.settings.shared_bus.is_some() && !listed {
            return self.cross_bus(rank, stream, insertion);
        }
        let Insertion { bytes, reduce, .. } = insertion;
        let delay = if listed { LISTED_ENDPOINT_DELAY } else { self.settings.endpoint_delay };
        let timer = if reduce {
            Timer::Reduce { stream, delay: self.reduction(bytes) }
        } else {
            Timer::Inserted(stream)
        };
        self.set_timer(rank, delay, timer);
    }

    /// Called when an insertion has crossed the shared bus.
    pub(crate) fn inserted(&mut self, rank: u32, stream: u32, bytes: u64, reduce: bool) {
        if reduce {
            let delay = self.reduction(bytes);
            self.set_timer(rank, delay, Timer::Inserted(stream));
        } else {
            self.step(stream, Happened::Inserted);
        }
    }

    /// Returns `3 * floor(bytes / local-mem-bw)`; zero without a bandwidth.
    #[inline]
    fn reduction(&self, bytes: u64) -> u64 {
        let bandwidth = self.settings.local_bytes_per_s;
        if bandwidth <= 0.0 {
            return 0;
        }
        whole_ns(bytes as f64 / bandwidth * 1e9).saturating_mul(3).min(crate::MAX_TIME)
    }

    /// Moves a stream to its next phase and starts what may run.
    fn enter_phase(&mut self, number: u32) {
        let stream = &self.streams[number];
        let dataset = &self.datasets[stream.dataset];
        let Some(plan) = &dataset.plan else { return };
        let phase = plan.phases[stream.next_phase as usize];
        let at = stream.chunk as usize * plan.phases.len() + stream.next_phase as usize;
        let rank = stream.rank;
        let pick = match dataset.picks.get(at) {
            Some(&pick) => pick,
            None => {
                let (queue, forward) = self.ranks[rank as usize].queues.pick(phase.dim, phase.pool);
                Pick { queue, forward, second_tree: false }
            }
        };
        let ranks = self.phase_ranks(rank, &phase);
        let custom = self.streams[number].custom.is_some();
        let machine = if custom { Machine::Idle } else { self.machine(&phase, &ranks, pick) };
        let stream = &mut self.streams[number];
        stream.ranks = ranks;
        stream.machine = machine;
        stream.next_phase += 1;
        let before = stream.queue.replace(pick.queue);
        let priority = stream.priority;
        let queues = &mut self.ranks[rank as usize].queues.queues;
        queues[pick.queue as usize].wait(number, priority);
        if let Some(before) = before {
            queues[before as usize].ended();
            self.start_waiting(rank, before);
        }
        self.start_waiting(rank, pick.queue);
    }

    /// Ends a stream's phase.
    pub(crate) fn leave_phase(&mut self, number: u32) {
        let stream = &self.streams[number];
        let (rank, queue, dataset) = (stream.rank, stream.queue, stream.dataset);
        let phases = self.datasets[dataset].plan.as_ref().map_or(0, |plan| plan.phases.len());
        let last = stream.next_phase as usize >= phases;
        if last {
            // The trace continues before the stream gives up its slot.
            self.chunk_done(dataset);
        }
        let Some(queue) = queue else { return };
        self.ranks[rank as usize].queues.queues[queue as usize].remove(number);
        if last {
            self.streams.remove(number);
            self.ranks[rank as usize].queues.queues[queue as usize].ended();
            self.start_waiting(rank, queue);
        } else {
            self.enter_phase(number);
        }
    }

    /// Starts as many waiting streams of a queue as may run.
    fn start_waiting(&mut self, rank: u32, queue: u32) {
        let limit = self.settings.running_streams;
        while let Some(stream) = self.ranks[rank as usize].queues.queues[queue as usize].start(limit) {
            self.step(stream, Happened::Start);
        }
    }

    /// Counts a chunk as done; the last one completes the node.
    fn chunk_done(&mut self, number: u32) {
        let dataset = &mut self.datasets[number];
        dataset.left -= 1;
        if dataset.left > 0 {
            return;
        }
        let (rank, node, record) = (dataset.rank, dataset.node, dataset.record);
        self.datasets.remove(number);
        self.record_end(record);
        self.node_done(rank, node);
    }

    /// Returns the ranks of a phase, as seen by `rank`.
    fn phase_ranks(&self, rank: u32, phase: &Phase) -> PhaseRanks {
        let count = phase.level.count;
        match phase.level.span {
            Span::Flat => PhaseRanks { count, me: rank, base: 0, stride: 1, group: None },
            Span::Dimension(dim) => {
                let stride = self.settings.strides[dim as usize];
                let me = rank / stride % count;
                PhaseRanks { count, me, base: rank - me * stride, stride, group: None }
            }
            Span::Group(group) => {
                let me = self.tasks.groups[group as usize].position(rank).unwrap_or(0);
                PhaseRanks { count, me, base: 0, stride: 1, group: Some(group) }
            }
        }
    }

    fn machine(&self, phase: &Phase, ranks: &PhaseRanks, pick: Pick) -> Machine {
        let (pattern, count, bytes) = (phase.pattern, phase.level.count, phase.bytes);
        match phase.level.algorithm {
            Algorithm::Ring => Machine::Ring(ring::Ring::new(pattern, count, bytes, pick.forward)),
            Algorithm::Direct { window } => {
                let listed = ranks.group.is_some();
                Machine::Ring(direct::direct(pattern, count, bytes, pick.forward, window, listed))
            }
            Algorithm::HalvingDoubling => {
                Machine::HalvingDoubling(HalvingDoubling::new(pattern, count, bytes))
            }
            Algorithm::DoubleBinaryTree => {
                let members =
                    Members { count, me: ranks.me, base: ranks.base, stride: ranks.stride, list: None };
                Machine::Tree(Tree::new(bytes, &members, pick.second_tree))
            }
        }
    }
}
