//! Executes task graphs: starts tasks, and books what compute waits for.

use crate::Engine;
use crate::event::EventKind;
use crate::quotient::RankIndex;
use crate::record::{Label, Mark};
use crate::slab::Id;
use crate::state::{
    At, Cause, ChannelKey, ExposedTime, Iteration, LeavingSend, Message, MessageOf, PointToPoint,
    PostedReceive, ReadyTask, RunningTask, StartableTask, Waits,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syncline_critical_path::{Purpose, StretchId, Unit};
use syncline_net_api::NetworkModel;
use syncline_timeline::{Flow, Track};
use syncline_units::{Bytes, RankId, Time};
use syncline_workload::{Part, Task, TaskGraph, TaskKind};

impl<'a, N: NetworkModel> Engine<'a, N> {
    pub(crate) fn graph(&self, rank: RankIndex) -> &'a TaskGraph {
        &self.job.workload.classes[self.ranks[rank.index()].class as usize]
    }
    pub(crate) fn task(&self, rank: RankIndex, task: u32) -> &'a Task {
        &self.graph(rank).tasks[task as usize]
    }
    /// The row of a task in the record's layers.
    pub(crate) fn layer(&self, rank: RankIndex, task: u32) -> usize {
        self.row_of(self.task(rank, task).layer)
    }

    /// The row of a layer in the record's layers; the last one is for tasks without a layer.
    pub(crate) fn row_of(&self, layer: Option<u32>) -> usize {
        layer.map_or(self.record.layers.len() - 1, |layer| layer as usize)
    }

    /// Opens the next iteration of `rank`: its tasks without dependencies may start.
    pub(crate) fn open_iteration(&mut self, rank: RankIndex, cause: Cause) {
        let graph = self.graph(rank);
        let state = &mut self.ranks[rank.index()];
        let iteration = state.opened;
        state.opened += 1;
        self.boundary |= rank == RankIndex(0);
        let waits: Box<[u32]> =
            (0..graph.tasks.len() as u32).map(|task| graph.waits(task, iteration)).collect();
        for (task, _) in waits.iter().enumerate().filter(|&(_, &waits)| waits == 0) {
            let (at, after) = (At { iteration, task: task as u32 }, self.after);
            self.startable.push_back(StartableTask { rank, at, cause, after });
        }
        state.iterations.push_back(Iteration { left: waits.len() as u32, waits, reached: BTreeMap::new() });
    }

    pub(crate) fn start_task(&mut self, rank: RankIndex, at: At, cause: Cause) {
        if !self.graph(rank).is_done_in(at.task, at.iteration) {
            self.task_done(rank, at, cause);
            return;
        }
        let task = self.task(rank, at.task);
        match task.kind {
            TaskKind::Compute(_) => {
                let ready = self.calendar.trail.moment(self.after, self.now);
                self.ranks[rank.index()].compute.ready.push(Reverse(ReadyTask { at, cause, ready }));
                self.to_start.push_back(rank);
            }
            TaskKind::Memory(_) => {
                self.keep_reasons(rank, at, cause);
                let ready = self.calendar.trail.moment(self.after, self.now);
                self.ranks[rank.index()].memory.ready.push(Reverse(ReadyTask { at, cause, ready }));
                self.to_start.push_back(rank);
            }
            TaskKind::Join => {
                self.continue_passes(rank, at);
                self.task_done(rank, at, cause);
            }
            TaskKind::Collective { .. } => {
                self.communication_begins(rank, at, cause);
                self.issue(rank, at);
            }
            TaskKind::Send { to, bytes, tag } => {
                self.communication_begins(rank, at, cause);
                let to = to.of_checked(self.quotient.rank(rank).0);
                self.send_point_to_point(rank, at, to, bytes, tag);
            }
            TaskKind::Receive { from, tag, .. } => {
                self.communication_begins(rank, at, cause);
                let sender = self.quotient.index(from.of_checked(self.quotient.rank(rank).0));
                let channel =
                    self.ranks[rank.index()].channels.entry(ChannelKey { sender, tag }).or_default();
                let now = self.now;
                if let Some(arrived) = channel.arrived.pop_front() {
                    self.after = self.calendar.trail.meet(self.after, now, arrived);
                    self.communication_done(rank, at, Waits { since: now, ready: now, role: None });
                } else {
                    let posted = self.calendar.trail.moment(self.after, now);
                    channel.posted.push_back(PostedReceive { at, since: now, posted });
                }
            }
        }
    }

    /// Books a finished task and starts the tasks that waited only for it.
    pub(crate) fn task_done(&mut self, rank: RankIndex, at: At, cause: Cause) {
        if at.iteration < self.watched.iterations {
            self.watched.ends(self.now, rank.0, self.after, &mut self.calendar.trail);
        }
        let graph = self.graph(rank);
        let state = &mut self.ranks[rank.index()];
        state.tasks_left -= 1;
        state.last_cause = cause;
        self.record.tasks_done += 1;
        let done = state.tasks_left == 0;
        let computes = |task: u32| matches!(graph.tasks[task as usize].kind, TaskKind::Compute(_));
        let has_computed = computes(at.task) && graph.is_done_in(at.task, at.iteration);
        for next in graph.successors(at.task) {
            let iteration = at.iteration + u32::from(next.lag);
            if iteration >= graph.iterations {
                continue;
            }
            if self.ranks[rank.index()].opened <= iteration {
                self.open_iteration(rank, cause);
            }
            let state = &mut self.ranks[rank.index()];
            let of = &mut state.iterations[(iteration - state.first_iteration) as usize];
            let waits = &mut of.waits[next.task as usize];
            *waits -= 1;
            let after = match self.calendar.trail.is_on() {
                true => {
                    let is_known = has_computed && computes(next.task);
                    of.meets(next.task, is_known, self.after, self.now, &mut self.calendar.trail)
                }
                false => StretchId::START,
            };
            if of.waits[next.task as usize] == 0 {
                let at = At { iteration, task: next.task };
                self.startable.push_back(StartableTask { rank, at, cause, after });
            }
        }
        let state = &mut self.ranks[rank.index()];
        state.iterations[(at.iteration - state.first_iteration) as usize].left -= 1;
        while state.iterations.front().is_some_and(|i| i.left == 0) {
            state.iterations.pop_front();
            state.first_iteration += 1;
        }
        if state.iterations.is_empty() && state.opened < graph.iterations {
            self.open_iteration(rank, cause);
        }
        if done {
            self.rank_done(rank);
        }
    }

    fn rank_done(&mut self, rank: RankIndex) {
        self.unfinished -= 1;
        let state = &self.ranks[rank.index()];
        let (idle_since, cause) = (state.compute.idle_since, state.last_cause);
        self.book_idle(rank, idle_since, cause);
        let record = &mut self.record.ranks[rank.index()];
        record.finish = self.now;
        for ExposedTime { layer, time } in std::mem::take(&mut self.ranks[rank.index()].tail) {
            record.exposed_at_end += time;
            self.record.layers[layer].exposed_at_end += u128::from(time.0);
        }
    }

    /// `rank` continues its passes, so the communication exposed so far was not at the end of the run.
    fn continue_passes(&mut self, rank: RankIndex, at: At) {
        if self.task(rank, at.task).part != Part::Update {
            self.ranks[rank.index()].tail.clear();
        }
    }

    /// Starts the next task of each idle unit of `rank`.
    pub(crate) fn start_units(&mut self, rank: RankIndex) {
        self.start_compute(rank);
        self.start_memory(rank);
    }

    /// Starts the next compute task that is ready.
    fn start_compute(&mut self, rank: RankIndex) {
        let class = self.ranks[rank.index()].class as usize;
        let compute = &mut self.ranks[rank.index()].compute;
        if compute.running.is_some() {
            return;
        }
        let Some(Reverse(ReadyTask { at, cause, ready })) = compute.ready.pop() else { return };
        compute.running = Some(RunningTask { at, start: self.now });
        let since = compute.idle_since;
        let of = Purpose::task(rank.0, at.task);
        compute.begin_work(ready, of, self.now, &mut self.calendar.trail, Unit::Compute);
        self.book_idle(rank, since, cause);
        self.continue_passes(rank, at);
        let (number, work) = (self.quotient.rank(rank), self.job.durations[class][at.task as usize]);
        let work = self.job.jitter.time(number, at.iteration, at.task, work);
        let end = self.job.slow.end(number, self.now, work);
        self.calendar.overflow |= end.0 > u64::MAX / 4;
        self.calendar.at(end, EventKind::ComputeDone as u8, u64::from(rank.0), rank.0, 0);
    }

    pub(crate) fn compute_done(&mut self, rank: RankIndex) {
        let compute = &mut self.ranks[rank.index()].compute;
        let RunningTask { at, start } = compute.running.take().expect("compute was running");
        compute.idle_since = self.now;
        self.after = compute.stretch;
        compute.free = self.calendar.trail.moment(self.after, self.now);
        self.activity.book(rank.index(), &mut compute.recent, start, self.now);
        let spent = self.now.saturating_sub(start);
        self.record.ranks[rank.index()].compute += spent;
        if at.iteration < self.watched.iterations {
            self.watched.computed[rank.index()] += spent;
        }
        let layer = self.layer(rank, at.task);
        let part = self.task(rank, at.task).part as usize;
        self.record.layers[layer].compute[part] += u128::from(spent.0);
        let class = self.ranks[rank.index()].class;
        let label = Label::Task { class, task: at.task };
        self.tracer.mark(Mark { rank, track: Track::Compute, start, end: self.now, label, bytes: 0 });
        self.task_done(rank, at, Cause::Compute);
        self.to_start.push_back(rank);
    }

    fn start_memory(&mut self, rank: RankIndex) {
        let memory = &mut self.ranks[rank.index()].memory;
        if memory.running.is_some() {
            return;
        }
        let Some(Reverse(ReadyTask { at, ready, .. })) = memory.ready.pop() else { return };
        memory.running = Some(RunningTask { at, start: self.now });
        let of = Purpose::task(rank.0, at.task);
        memory.begin_work(ready, of, self.now, &mut self.calendar.trail, Unit::Memory);
        let TaskKind::Memory(time) = self.task(rank, at.task).kind else { return };
        self.calendar.at(
            self.now.saturating_add(time),
            EventKind::MemoryDone as u8,
            u64::from(rank.0),
            rank.0,
            0,
        );
    }

    pub(crate) fn memory_done(&mut self, rank: RankIndex) {
        let memory = &mut self.ranks[rank.index()].memory;
        let RunningTask { at, start } = memory.running.take().expect("memory was running");
        self.after = memory.stretch;
        memory.free = self.calendar.trail.moment(self.after, self.now);
        let class = self.ranks[rank.index()].class;
        let label = Label::Task { class, task: at.task };
        self.tracer.mark(Mark { rank, track: Track::Memory, start, end: self.now, label, bytes: 0 });
        self.memory_noted(rank, at);
        self.task_done(rank, at, Cause::Memory);
        self.to_start.push_back(rank);
    }

    fn send_point_to_point(&mut self, rank: RankIndex, at: At, to: RankId, bytes: Bytes, tag: u32) {
        let send = PointToPoint { at, from: rank, to, tag, span: None };
        let message = Message {
            bytes: bytes.0,
            sent: self.now,
            key: u64::from(tag & 0xf_ffff) << 20 | u64::from(rank.0 & 0xf_ffff),
            of: MessageOf::PointToPoint(self.point_to_point.insert(send)),
            channel: 0,
            phase: 0,
            lane: 0,
            sender: rank,
            receiver: to,
            after: self.after,
        };
        self.enter(message);
    }

    /// A point-to-point message has entered the network. It leaves its NPU at `time`, when `stretch` ends.
    pub(crate) fn point_to_point_sent(
        &mut self,
        id: Id<PointToPoint>,
        message: &Message,
        time: Time,
        stretch: StretchId,
    ) {
        let at = self.point_to_point[id].at;
        let leaving = self.leaving.insert(LeavingSend { rank: message.sender, at, stretch });
        self.calendar.at(time, EventKind::Sent as u8, message.key, leaving.number(), 0);
        let span = self.transfer(message.sender, at, (message.sent, time), message.bytes);
        self.point_to_point[id].span = span;
    }

    pub(crate) fn point_to_point_arrived(&mut self, id: Id<PointToPoint>, message: &Message) {
        let Message { sender, bytes, .. } = *message;
        let receiver = self.quotient.index(message.receiver);
        self.record.ranks[sender.index()].sent += bytes;
        self.record.ranks[receiver.index()].received += bytes;
        let PointToPoint { tag, span, .. } = self.point_to_point[id];
        self.point_to_point.remove(id);
        let channel = self.ranks[receiver.index()].channels.entry(ChannelKey { sender, tag }).or_default();
        let arrived = self.calendar.trail.moment(self.after, self.now);
        let Some(PostedReceive { at, since, posted }) = channel.posted.pop_front() else {
            channel.arrived.push_back(arrived);
            return;
        };
        self.after = self.calendar.trail.meet(self.after, self.now, posted);
        let received = self.transfer(receiver, at, (since, self.now), bytes);
        if let (Some(from), Some(to)) = (span, received) {
            self.tracer.flows.push(Flow { from, to });
        }
        self.communication_done(receiver, at, Waits { since, ready: message.sent, role: None });
    }

    /// Records the span of a send or receive if its rank is traced.
    fn transfer(&mut self, rank: RankIndex, at: At, (start, end): (Time, Time), bytes: u64) -> Option<u32> {
        let label = Label::Task { class: self.ranks[rank.index()].class, task: at.task };
        self.tracer.mark(Mark { rank, track: Track::Communication, start, end, label, bytes })
    }
}
