//! The workload layer of each rank: decides which node of its trace runs when. ASTRA-sim 2, `Workload.cc`,
//! `HardwareResource.cc`.
//!
//! A rank has one slot for host operations, one for accelerator computation, and one for everything else on
//! the accelerator (collectives, sends, remote memory). Receives need no slot. Whenever a node completes, the
//! nodes whose dependencies are met are tried in ascending order of id.
//!
//! - [`memory`]: remote memory;
//! - [`roofline`]: time of a computation from its work;
//! - [`statistics`]: times of a rank.

pub(crate) mod memory;
pub(crate) mod roofline;
pub(crate) mod statistics;

use crate::algorithms::Pattern;
use crate::network::channel::{Awaits, Channel, Sent};
use crate::outcome::{CollectiveRecord, RankResult};
use crate::system::plan::Plan;
use crate::system::streams::Issue;
use crate::system::tags;
use crate::system::timers::Timer;
use crate::world::{Meeting, RecordKey, World};
use statistics::{Activity, Statistics};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::astra2::Optimization;
use syncline_formats::chakra::{Collective, CollectiveType, Graph, NodeKind, Op, PointToPoint, Work};

/// What identifies a plan: pattern, bytes, group, dimensions that take part, custom algorithm.
pub(crate) type PlanKey = (Pattern, u64, Option<u32>, u64, Option<u32>);

/// Nanoseconds per microsecond.
const MICRO: u64 = 1000;
/// Number of kinds of slots, including "none" as the last.
const SLOTS: usize = 4;
/// The kind that is never taken.
const UNLIMITED: usize = 3;

/// Returns the slot that a node needs.
fn slot_of(op: &Op) -> usize {
    match op.kind {
        _ if op.cpu => 0,
        NodeKind::Comp => 1,
        NodeKind::CommRecv => UNLIMITED,
        _ => 2,
    }
}

/// The progress of a rank's work.
#[derive(Debug)]
pub(crate) struct RankWork {
    /// For each node, how many nodes it still waits for.
    waiting: Vec<u32>,
    /// Nodes whose dependencies are met, by slot.
    free: [BinaryHeap<Reverse<u32>>; SLOTS],
    /// The node in each slot.
    pub(crate) busy: [Option<u32>; SLOTS - 1],
    /// Number of nodes that were started but are not done.
    ongoing: u32,
    /// Nodes that became free while others were being tried: they wait for the next completion.
    overlooked: Vec<u32>,
    pub(crate) done: bool,
    statistics: Statistics,
}

impl RankWork {
    pub(crate) fn new(graph: &Graph) -> Self {
        let mut work = Self {
            waiting: graph.dependencies().to_vec(),
            free: Default::default(),
            busy: [None; SLOTS - 1],
            ongoing: 0,
            overlooked: Vec::new(),
            done: false,
            statistics: Statistics::default(),
        };
        for node in 0..graph.len() as u32 {
            if work.waiting[node as usize] == 0 {
                work.release(graph, node);
            }
        }
        work
    }
    /// Marks a node's dependencies as met.
    fn release(&mut self, graph: &Graph, node: u32) {
        self.free[slot_of(&graph.ops()[node as usize])].push(Reverse(node));
    }
    /// Removes and returns the lowest free node whose slot is free.
    fn next(&mut self) -> Option<u32> {
        let slot = (0..SLOTS)
            .filter(|&slot| slot == UNLIMITED || self.busy[slot].is_none())
            .filter_map(|slot| Some((self.free[slot].peek()?.0, slot)))
            .min()?
            .1;
        self.free[slot].pop().map(|node| node.0)
    }
    /// Returns a node that could start if the rank checked, for reports.
    pub(crate) fn idle_node(&self) -> Option<u32> {
        let free = |slot: usize| slot == UNLIMITED || self.busy[slot].is_none();
        (0..SLOTS).filter(|&slot| free(slot)).filter_map(|slot| Some(self.free[slot].peek()?.0)).min()
    }
}

impl World<'_> {
    fn graph(&self, rank: u32) -> &Graph {
        self.job.traces.graph(rank)
    }

    /// Starts a rank.
    pub(crate) fn fire(&mut self, rank: u32) {
        self.issue_free(rank);
        self.finish_if_done(rank);
    }

    /// Called when a node of a rank is done.
    pub(crate) fn node_done(&mut self, rank: u32, node: u32) {
        self.complete(rank, node);
        let graph = self.job.traces.graph(rank);
        let work = &mut self.ranks[rank as usize].work;
        for &next in graph.successors(node as usize) {
            work.waiting[next as usize] -= 1;
            if work.waiting[next as usize] == 0 {
                work.release(graph, next);
            }
        }
        self.issue_free(rank);
        self.finish_if_done(rank);
    }

    /// Frees a node's slot and ends its time.
    fn complete(&mut self, rank: u32, node: u32) {
        let op = self.graph(rank).ops()[node as usize];
        let now = self.now;
        let work = &mut self.ranks[rank as usize].work;
        if let Some(slot) = work.busy.get_mut(slot_of(&op)) {
            *slot = None;
        }
        work.ongoing -= 1;
        work.statistics.end(Activity::of(&op), now);
    }

    /// Starts every free node whose slot is free, lowest id first.
    fn issue_free(&mut self, rank: u32) {
        while let Some(node) = self.ranks[rank as usize].work.next() {
            self.issue(rank, node);
        }
        let graph = self.job.traces.graph(rank);
        let work = &mut self.ranks[rank as usize].work;
        for node in std::mem::take(&mut work.overlooked) {
            work.release(graph, node);
        }
    }

    fn finish_if_done(&mut self, rank: u32) {
        let work = &mut self.ranks[rank as usize].work;
        if work.done || work.ongoing > 0 || work.free.iter().any(|free| !free.is_empty()) {
            return;
        }
        work.done = true;
        let roofline = self.job.system.roofline;
        let result: RankResult = work.statistics.result(rank, self.now, roofline);
        self.finished.push(result);
    }

    fn issue(&mut self, rank: u32, node: u32) {
        let op = self.graph(rank).ops()[node as usize];
        let now = self.now;
        let work = &mut self.ranks[rank as usize].work;
        if let Some(slot) = work.busy.get_mut(slot_of(&op)) {
            *slot = Some(node);
        }
        work.ongoing += 1;
        work.statistics.start(Activity::of(&op), now);
        if self.job.system.replay_only {
            return self.replay(rank, node, &op);
        }
        match op.work {
            Work::Nothing => self.skip(rank, node, op.kind == NodeKind::Metadata),
            Work::Compute(compute) => {
                if !self.job.system.roofline || op.cpu {
                    return self.replay(rank, node, &op);
                }
                match roofline::time(&self.settings, &compute) {
                    None => self.skip(rank, node, false),
                    Some(cost) => {
                        self.ranks[rank as usize].work.statistics.computed(&cost);
                        self.set_timer(rank, cost.time, Timer::Node(node));
                    }
                }
            }
            Work::Memory(bytes) => self.access_memory(rank, node, bytes.unwrap_or(0)),
            Work::PointToPoint(message) => self.message(rank, node, op.kind, &message),
            Work::Collective(collective) => self.collective(rank, node, &op, &collective),
        }
    }

    /// Makes a node take the time that was recorded for it; 1 ns if none was.
    fn replay(&mut self, rank: u32, node: u32, op: &Op) {
        let time = recorded_time(op);
        if !op.cpu {
            self.ranks[rank as usize].work.statistics.replayed(time);
        }
        self.set_timer(rank, time, Timer::Node(node));
    }

    /// Ends a node at once. If it `wakes` its dependents, those that become free may start. Otherwise they stay
    /// overlooked until another node completes (`Workload.cc:skip_invalid`). ASTRA-sim aborts at a metadata
    /// node, so there is no such rule to follow for those.
    fn skip(&mut self, rank: u32, node: u32, wakes: bool) {
        self.complete(rank, node);
        let graph = self.job.traces.graph(rank);
        let work = &mut self.ranks[rank as usize].work;
        for &next in graph.successors(node as usize) {
            work.waiting[next as usize] -= 1;
            if work.waiting[next as usize] > 0 {
                continue;
            }
            if wakes {
                work.release(graph, next);
            } else {
                work.overlooked.push(next);
            }
        }
    }

    fn message(&mut self, rank: u32, node: u32, kind: NodeKind, message: &PointToPoint) {
        let channel = Channel {
            tag: tags::native(message.tag.unwrap_or(0)),
            src: message.src.unwrap_or(rank),
            dst: message.dst.unwrap_or(rank),
            bytes: message.bytes.unwrap_or(0),
        };
        if kind == NodeKind::CommSend {
            self.send(channel, Sent::Node(node));
        } else {
            self.receive(channel, Awaits::Node(node));
        }
    }

    fn collective(&mut self, rank: u32, node: u32, op: &Op, collective: &Collective) {
        let place = self.tasks.place(self.job, rank, collective);
        let bytes = collective.bytes.unwrap_or(0);
        let Some(pattern) = collective.kind.and_then(pattern_of) else {
            let time = recorded_time(op);
            // Broadcasts have no stream numbers to distinguish them.
            let number = 1 << 63 | self.graph(rank).id(node as usize);
            let meeting =
                Meeting { group: place.group, stream: number, dims: place.mask, leader: place.leader };
            let record = self.record_start(rank, node, None, bytes, meeting);
            self.record_end(record);
            let record = &mut self.records[record as usize];
            record.finish = record.finish.max(self.now + time);
            return self.set_timer(rank, time, Timer::Node(node));
        };
        let group = place.group.map(|group| (group, self.tasks.groups[group as usize].id));
        let number = self.ranks[rank as usize].upcoming(group);
        let meeting = Meeting { group: place.group, stream: number, dims: place.mask, leader: place.leader };
        let record = self.record_start(rank, node, Some(pattern), bytes, meeting);
        let mut custom = self.job.custom_for(pattern, self.graph(rank).id(node as usize));
        if let Some(group) = place.group {
            custom = *self.group_choices.entry((rank, group, pattern)).or_insert(custom);
        }
        let Some(plan) = self.plan((pattern, bytes, place.group, place.mask, custom)) else {
            let fault = Diagnostic::error(Code::Internal, "a collective that passed the checks has no plan");
            self.fault = Some(Box::new(fault));
            return;
        };
        let issue = Issue { rank, node, plan, group: place.group, priority: collective.priority, record };
        self.start_collective(&issue);
    }

    /// Returns the plan of a collective, made on first use.
    fn plan(&mut self, key: PlanKey) -> Option<Rc<Plan>> {
        if let Some(plan) = self.plans.get(&key) {
            return Some(Rc::clone(plan));
        }
        let plan = Rc::new(self.tasks.plan(self.job, key).ok()?);
        self.plans.insert(key, Rc::clone(&plan));
        Some(plan)
    }

    /// Records that a rank issues a collective. If another rank issued a different one under the same stream
    /// number, their messages still match if they have equal size, as in ASTRA-sim; this deserves a warning.
    fn record_start(
        &mut self,
        rank: u32,
        node: u32,
        kind: Option<Pattern>,
        bytes: u64,
        meeting: Meeting,
    ) -> u32 {
        let graph = self.job.traces.graph(rank);
        let (name, id) = (graph.name(node as usize), graph.id(node as usize));
        let next = self.records.len() as u32;
        let number = *self.record_of.entry(RecordKey { meeting, pattern: kind, bytes }).or_insert(next);
        if number == next {
            self.records.push(CollectiveRecord {
                name: name.to_owned(),
                kind,
                group: meeting.group.map(|group| self.tasks.groups[group as usize].id),
                bytes,
                start: self.now,
                finish: self.now,
                ranks: 0,
                finished: 0,
                first_rank: rank,
                first_node: id,
            });
        }
        self.records[number as usize].ranks += 1;
        let first = *self.first_at.entry(meeting).or_insert(number);
        if first != number {
            match &mut self.unlike {
                Some((_, more)) => *more += 1,
                None => self.unlike = Some((Box::new(self.meets_unlike(rank, node, first, number)), 0)),
            }
        }
        number
    }

    /// Returns the warning about two different collectives whose messages match.
    fn meets_unlike(&self, rank: u32, node: u32, first: u32, second: u32) -> Diagnostic {
        let graph = self.job.traces.graph(rank);
        let (name, id) = (graph.name(node as usize), graph.id(node as usize));
        let (first, second) = (&self.records[first as usize], &self.records[second as usize]);
        let words = |record: &CollectiveRecord| {
            format!("{} of {} bytes", record.kind.map_or("broadcast", Pattern::name), record.bytes)
        };
        Diagnostic::warning(Code::Unmatched, "ranks of a group issue their collectives in different orders")
            .at(self.job.traces.file(rank), 0)
            .key(format!("rank {rank} node {id} `{name}`"))
            .found(words(second))
            .allowed(format!(
                "{}, as rank {} issued in its node {}",
                words(first),
                first.first_rank,
                first.first_node
            ))
            .note(
                "ASTRA-sim numbers collectives in the order in which each rank issues them, and matches messages with \
                 equal numbers and sizes, whatever their collective; so does this simulation",
            )
            .help(
                "use dependencies or ascending ids to give all ranks the same order; --native matches collectives by \
                 their position in the trace instead",
            )
    }
}

/// Returns the recorded time of a node.
pub(crate) fn recorded_time(op: &Op) -> u64 {
    if op.duration_micros == 0 { 1 } else { op.duration_micros.saturating_mul(MICRO).min(crate::MAX_TIME) }
}

/// Returns the pattern of a collective that is simulated.
pub(crate) const fn pattern_of(kind: CollectiveType) -> Option<Pattern> {
    match kind {
        CollectiveType::AllReduce => Some(Pattern::AllReduce),
        CollectiveType::AllGather => Some(Pattern::AllGather),
        CollectiveType::ReduceScatter => Some(Pattern::ReduceScatter),
        CollectiveType::AllToAll => Some(Pattern::AllToAll),
        _ => None,
    }
}

/// Returns the optimisation that applies; if it is missing, there is only one dimension, for which all are
/// the same.
pub(crate) fn optimization(job: &crate::job::Job) -> Optimization {
    job.system.optimization.unwrap_or(Optimization::LocalBwAware)
}
