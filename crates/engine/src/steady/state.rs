//! The state that the future depends on, as numbers relative to the present.
//!
//! The start times of what is under way (a rank is idle or communicates, a dimension is busy) are kept separately. If
//! such a time is the same at both ends of a period, the activity lasts through the whole period and through every
//! repetition.

use crate::event::EventKind;
use crate::quotient::RankIndex;
use crate::record::CollectiveRecord;
use crate::slab::{Id, Status};
use crate::state::{
    At, Before, Cause, ChannelKey, ChunkRun, CollectiveSet, Issue, LeavingSend, Message, MessageOf, Piece,
    PostedReceive, QueuedSet, Rank, Resource, RunningTask, WaitedFor, Window,
};
use crate::{Engine, QueueOrder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use syncline_net_api::NetworkModel;
use syncline_net_api::calendar::Event;
use syncline_units::Time;
use syncline_workload::RoleId;

impl<N> Engine<'_, N> {
    /// The start times of what is under way, always in the same order.
    pub(super) fn beginnings(&mut self) -> Vec<&mut Time> {
        let of_ranks = self.ranks.iter_mut().flat_map(|rank| {
            let idle = rank.compute.running.is_none().then_some(&mut rank.compute.idle_since);
            let communicating = (rank.communicating > 0).then_some(&mut rank.communicating_since);
            idle.into_iter().chain(communicating)
        });
        let dims = self.record.dims.iter_mut().filter(|dim| dim.running > 0);
        of_ranks.chain(dims.map(|dim| &mut dim.since)).collect()
    }
}

/// Collects a state.
struct Writer<'e, 'a, N> {
    engine: &'e Engine<'a, N>,
    /// Number of iterations that rank 0 has opened.
    base: u32,
    out: Vec<u64>,
}

impl<N: NetworkModel> Engine<'_, N> {
    /// The state, if the events of the present time are done, else `None`.
    pub(super) fn state(&self) -> Option<Vec<u64>> {
        let (network, events) = (self.network.repeats()?, self.calendar.pending()?);
        let mut writer = Writer { engine: self, base: self.ranks[0].opened, out: Vec::new() };
        for rank in &self.ranks {
            writer.rank(rank);
        }
        for (role, windows) in (0..).map(RoleId).zip(&self.windows) {
            writer.role(role, windows);
        }
        for event in &events {
            writer.event(event);
        }
        writer.out.extend(self.record.dims.iter().map(|dim| dim.running));
        let mut out = writer.out;
        network.state(self.now, &mut out);
        Some(out)
    }
}

impl<N: NetworkModel> Writer<'_, '_, N> {
    fn push(&mut self, values: impl IntoIterator<Item = u64>) {
        self.out.extend(values);
    }
    /// How long ago `time` was; wraps if it is in the future.
    fn past(&self, time: Time) -> u64 {
        self.engine.now.0.wrapping_sub(time.0)
    }
    /// How far `time` is in the future; 0 if it is past.
    fn ahead(&self, time: Time) -> u64 {
        time.saturating_sub(self.engine.now).0
    }
    fn at(&self, at: At) -> [u64; 2] {
        [u64::from(at.iteration.wrapping_sub(self.base)), u64::from(at.task)]
    }
    /// A collective's sequence number relative to the first one of the iteration.
    fn sequence(&self, role: RoleId, sequence: u32) -> u64 {
        u64::from(sequence.wrapping_sub(self.engine.numbers.first(role, self.base)))
    }
    /// The priority of a set, relative to the number of sets that the rank has issued.
    fn priority(&self, rank: RankIndex, priority: u64) -> u64 {
        let issued = self.engine.ranks[rank.index()].issued;
        match self.engine.job.schedule.order {
            QueueOrder::Fifo => issued.wrapping_sub(priority),
            QueueOrder::Lifo | QueueOrder::Priority => priority.wrapping_add(issued),
        }
    }

    fn rank(&mut self, rank: &Rank) {
        self.push([u64::from(rank.class), u64::from(rank.opened.wrapping_sub(self.base))]);
        self.push([u64::from(rank.first_iteration.wrapping_sub(self.base)), rank.iterations.len() as u64]);
        let graph = &self.engine.job.workload.classes[rank.class as usize];
        for (number, iteration) in (rank.first_iteration..).zip(&rank.iterations) {
            self.push([u64::from(iteration.left), u64::from(graph.ends_step(number))]);
            self.push(iteration.waits.iter().map(|&waits| u64::from(waits)));
        }
        self.resource(&rank.compute);
        self.resource(&rank.memory);
        self.sets(&rank.held);
        for scheduler in &rank.schedulers {
            self.sets(&scheduler.ready);
            self.push([u64::from(scheduler.first_phase)]);
            for queue in &scheduler.queues {
                self.push([u64::from(queue.running), queue.waiting.len() as u64]);
                for queued in &queue.waiting {
                    self.run_name(queued.run);
                }
            }
        }
        self.push([rank.active_sets, rank.communicating].map(u64::from));
        self.push(rank.running.iter().map(|&running| u64::from(running)));
        self.push([self.ahead(rank.reducer_free), cause(rank.last_cause)]);
        self.push([rank.before.len() as u64]);
        for (&at, Before { until, pieces }) in &rank.before {
            self.push(self.at(at));
            self.push([self.past(*until), pieces.len() as u64]);
            for &Piece { layer, of, exposed, first, bubble, skew } in pieces {
                let of = match of {
                    WaitedFor::Memory => u64::MAX,
                    WaitedFor::PointToPoint => u64::MAX - 1,
                    WaitedFor::Collective(role) => u64::from(role.0),
                };
                self.push([layer_name(layer), of, exposed.0, first.0, bubble.0, skew.0]);
            }
        }
        // Lists of variable length start with their length, so that different states cannot give the same numbers.
        self.push([rank.channels.len() as u64]);
        for (&ChannelKey { sender, tag }, channel) in &rank.channels {
            self.push(
                [sender.0, tag, channel.arrived.len() as u32, channel.posted.len() as u32].map(u64::from),
            );
            for &PostedReceive { at, since, .. } in &channel.posted {
                self.push(self.at(at));
                self.push([self.past(since)]);
            }
        }
    }

    /// Sets in the order in which they are issued.
    fn sets(&mut self, heap: &BinaryHeap<Reverse<QueuedSet>>) {
        let mut sets: Vec<_> = heap.iter().map(|entry| entry.0).collect();
        sets.sort_unstable();
        self.push([sets.len() as u64]);
        for QueuedSet { set, .. } in sets {
            self.set_name(&self.engine.sets[set]);
        }
    }

    fn resource(&mut self, resource: &Resource) {
        let mut ready: Vec<_> = resource.ready.iter().map(|entry| entry.0).collect();
        ready.sort_unstable();
        self.push([ready.len() as u64]);
        for task in ready {
            self.push(self.at(task.at));
            self.push([cause(task.cause)]);
        }
        match resource.running {
            Some(RunningTask { at, start }) => {
                self.push(self.at(at));
                self.push([1, self.past(start)]);
            }
            None => self.push([0]),
        }
    }

    /// The collectives of a role that are under way.
    fn role(&mut self, role: RoleId, windows: &[Window]) {
        let engine = self.engine;
        for window in windows {
            self.push([self.sequence(role, window.base), window.instances.len() as u64]);
            for &id in &window.instances {
                let id = match id.status() {
                    Status::UnderWay(id) => id,
                    status => {
                        self.push([absent(status)]);
                        continue;
                    }
                };
                let instance = &engine.instances[id];
                // The queue of a chunk depends on the sequence number itself.
                let queues = engine.job.dims.iter().map(|dim| u64::from(instance.sequence % dim.queues));
                self.push(queues);
                self.record(&instance.record);
                for &set in &instance.sets {
                    match set.status() {
                        Status::UnderWay(set) => self.set(&engine.sets[set]),
                        status => self.push([absent(status)]),
                    }
                }
                for chunk in &instance.chunks {
                    self.push([u64::from(chunk.left), chunk.runs.len() as u64, chunk.begun.len() as u64]);
                    self.push(chunk.begun.iter().map(|&begun| u64::from(begun)));
                    for &run in &chunk.runs {
                        match run.status() {
                            Status::UnderWay(run) => self.run(&engine.runs[run]),
                            status => self.push([absent(status)]),
                        }
                    }
                }
            }
            // The queue of the next collective, which determines the queues of all later ones.
            let next = window.base + window.instances.len() as u32;
            self.push(engine.job.dims.iter().map(|dim| u64::from(next % dim.queues)));
        }
    }

    fn record(&mut self, record: &CollectiveRecord) {
        let of = [u64::from(record.plan.0), layer_name(record.layer), record.part as u64];
        let times = [record.first_issue, record.last_issue, record.finish].map(|time| self.past(time));
        self.push(of.into_iter().chain(times));
        let micro_batch = u64::from(record.micro_batch.wrapping_sub(self.base));
        let sums = [record.duration_sum, record.ready_wait];
        self.push([micro_batch, u64::from(record.ranks_done), record.chunks]);
        self.push(sums.into_iter().flat_map(halves));
        for phase in &record.phases {
            self.push([phase.chunks, phase.messages, phase.bytes]);
            self.push([phase.queue_wait, phase.network_delay, phase.reduction].into_iter().flat_map(halves));
        }
    }

    fn set(&mut self, set: &CollectiveSet) {
        let issued = match set.issued {
            Some(Issue { at, time, .. }) => {
                let [iteration, task] = self.at(at);
                [1, iteration, task, self.past(time), self.priority(set.rank, set.priority)]
            }
            None => [0; 5],
        };
        self.push(issued);
        self.push([
            u64::from(set.active),
            u64::from(set.next_chunk),
            u64::from(set.left),
            u64::from(set.begun),
        ]);
    }

    fn set_name(&mut self, set: &CollectiveSet) {
        let instance = &self.engine.instances[set.instance];
        let role = instance.record.role;
        let sequence = self.sequence(role, instance.sequence);
        self.push([u64::from(role.0), u64::from(instance.record.group), sequence, u64::from(set.slot)]);
    }

    fn run_name(&mut self, run: Id<ChunkRun>) {
        let run = &self.engine.runs[run];
        self.set_name(&self.engine.sets[run.set]);
        self.push([u64::from(run.chunk)]);
    }

    fn run(&mut self, run: &ChunkRun) {
        self.push([u64::from(run.phase), run.stage as u64, u64::from(run.lane), u64::from(run.streams_left)]);
        self.push([u64::from(run.unsent), run.begun, u64::from(run.queue), self.past(run.entered)]);
        self.push([self.ahead(run.last_sent), run.streams.len() as u64]);
        self.push([run.receives.len() as u64, run.early.len() as u64]);
        for stream in &run.streams {
            let flags = u64::from(stream.waits) << 1 | u64::from(stream.done);
            self.push([u64::from(stream.pc), u64::from(stream.outstanding), flags]);
        }
        for receive in &run.receives {
            self.push(
                [receive.channel, receive.from, receive.stream, u32::from(receive.reduce)].map(u64::from),
            );
        }
        for early in &run.early {
            self.push([u64::from(early.phase), u64::from(early.channel), u64::from(early.from)]);
            self.push([early.bytes, early.delay.0]);
        }
        let tally = &run.tally;
        self.push([
            tally.sent,
            tally.received,
            u64::from(tally.messages),
            tally.network_delay,
            tally.reduction,
        ]);
    }

    fn event(&mut self, event: &Event) {
        let kind = EventKind::of(event);
        self.push([self.ahead(event.time), u64::from(event.kind()), u64::from(event.detail)]);
        match kind {
            EventKind::Network | EventKind::NetworkLast => {
                if let Some(network) = self.engine.network.repeats() {
                    let id = network.pending(self.engine.now, event.subject, &mut self.out);
                    self.message(&self.engine.messages[Id::new(id)]);
                }
            }
            EventKind::Deliver | EventKind::Inject | EventKind::Left => {
                self.message(&self.engine.messages[Id::new(event.subject)])
            }
            EventKind::Reduced | EventKind::PhaseEnd => self.run_name(Id::new(event.subject)),
            EventKind::ComputeDone | EventKind::MemoryDone | EventKind::Begin => {
                self.push([u64::from(event.subject)])
            }
            EventKind::Sent => {
                let LeavingSend { rank, at, .. } = self.engine.leaving[Id::new(event.subject)];
                self.push([u64::from(rank.0)]);
                self.push(self.at(at));
            }
            EventKind::Admit => {
                let begun = &self.engine.to_tell[Id::new(event.subject)];
                let sequence = self.sequence(begun.role, begun.sequence);
                self.push([u64::from(begun.role.0), u64::from(begun.group), sequence]);
                self.push([u64::from(begun.chunk), u64::from(begun.phase), u64::from(begun.slot)]);
            }
        }
    }

    fn message(&mut self, message: &Message) {
        self.push([
            message.bytes,
            self.past(message.sent),
            u64::from(message.lane),
            u64::from(message.phase),
        ]);
        self.push([message.channel, message.sender.0, message.receiver.0].map(u64::from));
        match message.of {
            MessageOf::PointToPoint(id) => {
                let send = &self.engine.point_to_point[id];
                self.push(self.at(send.at));
                self.push([u64::from(send.tag), message.key]);
            }
            MessageOf::Collective { target, from, .. } => {
                // The part of the key below the collective's number is the same in every iteration.
                self.push([u64::from(from), self.engine.keys.within(message.key)]);
                self.run_name(target);
            }
        }
    }
}

fn halves(sum: u128) -> [u64; 2] {
    [sum as u64, (sum >> 64) as u64]
}

fn cause(cause: Cause) -> u64 {
    match cause {
        Cause::Start => 0,
        Cause::Compute => 1,
        Cause::Memory => 2,
        Cause::Communication(layer) => 3 + layer_name(layer),
    }
}

/// A number for a layer, or for none.
fn layer_name(layer: Option<u32>) -> u64 {
    layer.map_or(u64::from(u32::MAX), u64::from)
}

/// What represents something that has not begun, or is over.
fn absent<I>(status: Status<I>) -> u64 {
    match status {
        Status::Over => u64::MAX - 1,
        Status::NotBegun | Status::UnderWay(_) => u64::MAX,
    }
}
