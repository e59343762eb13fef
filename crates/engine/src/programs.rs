//! Executes plans instruction by instruction, and handles the messages that they exchange.

use crate::Engine;
use crate::event::EventKind;
use crate::job::Pace;
use crate::slab::Id;
use crate::state::{ChunkRun, ChunkStage, Early, Message, MessageOf, Receive, Stream};
use syncline_critical_path::{Origin, Purpose, StretchId};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_net_api::{NetworkModel, Owner, Sent, Transfer};
use syncline_plan::{Blocks, Buffer, Op, Seat};
use syncline_units::{Bytes, Extent, RankId, Time};

/// Bits for the distance from receiver to sender, which orders messages at the same place of a plan.
const DISTANCE_BITS: u32 = 18;
/// Number of places in a plan's order that can be distinguished.
const PLACES: u32 = (1 << (32 - DISTANCE_BITS)) - 1;

impl<N: NetworkModel> Engine<'_, N> {
    /// The seat of a stream of `run` in its phase.
    fn seat(&self, run_id: Id<ChunkRun>, stream: u32) -> Seat {
        let phase = self.phase(run_id);
        let run = &self.runs[run_id];
        let lanes = self.job.dims[usize::from(phase.dim)];
        Seat {
            kind: phase.kind,
            ranks: phase.axis.size,
            index: run.coordinate,
            stream,
            reverse: lanes.reverses(phase.kind, run.lane),
        }
    }

    /// Executes instructions of one stream until it must wait.
    pub(crate) fn advance(&mut self, run_id: Id<ChunkRun>, stream: u32) {
        let phase = self.phase(run_id);
        let algorithm = &*phase.algorithm;
        let seat = self.seat(run_id, stream);
        let channel = algorithm.channel(&seat);
        let run = &self.runs[run_id];
        let part = match phase.streams {
            1 => run.extent,
            _ => algorithm.part(phase.kind, phase.axis.size, stream, run.extent),
        };
        let event = self.after;
        let Stream { mut pc, mut outstanding, mut waits, done, reached } = run.streams[stream as usize];
        if waits {
            if outstanding > 0 {
                return;
            }
            (pc, waits) = (pc + 1, false);
            self.after = self.calendar.trail.meet(self.after, self.now, reached);
        }
        let ended = loop {
            match algorithm.op(&seat, pc) {
                Some(Op::Send { to, blocks }) => self.send_blocks(run_id, &seat, channel, to, blocks, part),
                Some(Op::Receive { from, reduce, .. }) => {
                    outstanding += u32::from(!self.expect(run_id, channel, from, stream, reduce));
                }
                Some(Op::Copy { .. }) => {}
                Some(Op::Wait) if outstanding > 0 => {
                    waits = true;
                    break false;
                }
                Some(Op::Wait) => {
                    let reached = self.runs[run_id].streams[stream as usize].reached;
                    self.after = self.calendar.trail.meet(self.after, self.now, reached);
                }
                Some(Op::After { stream: other, ops }) => {
                    if self.runs[run_id].streams[other as usize].pc < ops {
                        break false;
                    }
                }
                None => break outstanding == 0 && !done,
            }
            pc += 1;
        };
        let run = &mut self.runs[run_id];
        let of = &mut run.streams[stream as usize];
        (of.pc, of.outstanding, of.waits, of.done) = (pc, outstanding, waits, done || ended);
        if ended {
            run.streams_left -= 1;
            if run.streams_left == 0 {
                self.after = run.streams.iter().fold(self.after, |after, stream| {
                    self.calendar.trail.meet(after, self.now, stream.reached)
                });
                self.program_ended(run_id);
            }
        }
        self.after = event;
    }

    /// Sends a message of a run.
    fn send_blocks(
        &mut self,
        run_id: Id<ChunkRun>,
        seat: &Seat,
        channel: u32,
        to: u32,
        blocks: Blocks,
        part: Extent,
    ) {
        let run = &mut self.runs[run_id];
        let plan = &self.job.plans[run.plan.index()];
        let phase = &plan.phases[usize::from(run.phase)];
        let space = if blocks.buffer == Buffer::Data { part } else { seat.space(blocks.buffer, part) };
        let bytes = blocks.extent(space).len() * plan.element;
        run.tally.sent += bytes;
        let position = run.first + to * phase.axis.weight;
        let instance = &self.instances[run.instance];
        let receiver = match run.peers {
            Some(line) => RankId(line.rank(to)),
            None => {
                let record = &instance.record;
                RankId(self.job.workload.roles[record.role.index()].rank(record.group, position))
            }
        };
        // Messages at the same time are ordered by collective, chunk and distance, which are the same on all ranks.
        let distance = phase.distance(seat.index, to);
        let order = self.keys.order(instance.number, run.chunk, run.phase);
        let key = self.keys.message(order, channel, distance);
        let slot = self.quotient.slot(instance.record.role, position);
        // The receiver's representative sees the sender at the coordinate that the turn moves it to.
        let from = phase.turned.map_or(seat.index, |turn| turn.seen_from(seat.index, to, phase.axis.size));
        let (instance, chunk) = (run.instance, run.chunk);
        let (phase, lane, sender) = (run.phase, run.lane, run.rank);
        // The receiver's run cannot end before this message arrives: verified plans receive everything that is sent.
        let target = self.run_of(instance, chunk, slot);
        self.enter(Message {
            bytes,
            sent: self.now,
            key,
            of: MessageOf::Collective { run: run_id, target, from },
            channel,
            phase,
            lane,
            sender,
            receiver,
            after: self.after,
        });
    }

    /// Hands a message to the network, after the injection latency.
    pub(crate) fn enter(&mut self, message: Message) {
        let id = self.messages.insert(message);
        let latency = self.job.schedule.injection_latency;
        if latency.is_zero() {
            self.give(id, &message);
            return;
        }
        let (mut key, mut place) = (message.key, 0);
        if let Some(run) = message.of.run() {
            let run = &mut self.runs[run];
            // Messages that a rank sends at one time enter the network in the order of its plan, as they do without
            // the latency.
            (key, place) = (self.keys.of_phase(message.key), run.unsent.min(PLACES) << DISTANCE_BITS);
            place |= message.key as u32 & ((1 << DISTANCE_BITS) - 1);
            run.unsent += 1;
        }
        self.calendar.at(self.now.saturating_add(latency), EventKind::Inject as u8, key, id.number(), place);
    }

    /// The injection latency of a message has passed.
    pub(crate) fn inject(&mut self, id: Id<Message>) {
        let message = self.messages[id];
        self.after = message.after;
        self.give(id, &message);
        if let Some(run) = message.of.run().filter(|_| self.failure.is_none()) {
            self.entered_or_left(run);
        }
    }

    /// A message has left its NPU now.
    pub(crate) fn has_left(&mut self, id: Id<Message>) {
        let message = self.messages[id];
        self.after = self.known_stretch(id);
        self.calendar.trail.arrives(id.number(), self.after);
        match message.of {
            MessageOf::PointToPoint(id) => self.point_to_point_sent(id, &message, self.now, self.after),
            MessageOf::Collective { run: id, .. } => {
                let run = &mut self.runs[id];
                (run.last_sent, run.last_left) = (self.now, self.after);
                self.entered_or_left(id);
            }
        }
    }

    /// Counts a send as entered or left; the run's phase ends after the last one.
    fn entered_or_left(&mut self, id: Id<ChunkRun>) {
        let run = &mut self.runs[id];
        run.unsent -= 1;
        if run.stage == ChunkStage::Leaving && run.unsent == 0 {
            self.program_ended(id);
        }
    }

    /// The layer and collective that a message belongs to.
    fn owner(&self, message: &Message) -> Owner {
        match message.of {
            MessageOf::PointToPoint(id) => {
                let task = self.point_to_point[id].at.task;
                Owner { layer: self.task(message.sender, task).layer, kind: None }
            }
            MessageOf::Collective { run, .. } => {
                let run = &self.runs[run];
                let kind = self.job.plans[run.plan.index()].kind;
                Owner { layer: self.instances[run.instance].record.layer, kind: Some(kind) }
            }
        }
    }

    /// The origin of a message on the critical path.
    #[inline]
    fn origin_of(&mut self, message: &Message) -> Origin {
        if !self.calendar.trail.is_on() {
            return Origin::UNKNOWN;
        }
        let of = match message.of {
            MessageOf::PointToPoint(id) => {
                let task = self.point_to_point[id].at.task;
                Purpose::message(message.sender.0, task, self.calendar.trail.visit())
            }
            MessageOf::Collective { run, .. } => self.runs[run].purpose,
        };
        Origin { after: message.after, since: message.sent, of }
    }

    /// The stretch of a message that has left or arrived. If the network model records none, the whole time counts as
    /// queueing.
    #[inline]
    fn known_stretch(&mut self, id: Id<Message>) -> StretchId {
        match self.calendar.trail.take(id.number()) {
            StretchId::START if self.calendar.trail.is_on() => self.unknown_stretch(id),
            stretch => stretch,
        }
    }

    /// A stretch for a message of which the network model records none.
    #[cold]
    fn unknown_stretch(&mut self, id: Id<Message>) -> StretchId {
        let message = self.messages[id];
        let origin = self.origin_of(&message);
        let time = self.now.saturating_sub(message.sent);
        self.calendar.trail.queueing(&origin, None, time)
    }

    /// Sends a message into the network now.
    #[inline]
    fn give(&mut self, id: Id<Message>, message: &Message) {
        let sender = self.quotient.rank(message.sender);
        let bytes = self.pace(message).map_or(message.bytes, |pace| pace.wire_bytes(message.bytes));
        let transfer = Transfer {
            id: id.number(),
            from: self.job.npu(sender),
            to: self.job.npu(message.receiver),
            lane: message.lane,
            job: self.job.number(sender),
            bytes: Bytes(bytes),
            key: message.key,
            owner: if N::OWNERS { self.owner(message) } else { Owner::UNKNOWN },
            origin: self.origin_of(message),
        };
        self.record.sent += message.bytes;
        match (self.network.send(self.now, &transfer, &mut self.calendar), message.of) {
            (Sent::NoRoute, _) => self.failure = Some(no_route(&transfer, sender, message.receiver)),
            (Sent::TooFar, _) => self.failure = Some(too_far(&transfer, self.network.name())),
            (Sent::Later, MessageOf::PointToPoint(_)) => {}
            (Sent::Later, MessageOf::Collective { run, .. }) => self.runs[run].unsent += 1,
            (Sent::At(time), MessageOf::PointToPoint(id)) => {
                self.point_to_point_sent(id, message, time, self.calendar.trail.left());
            }
            (Sent::At(time), MessageOf::Collective { run, .. }) => {
                let left = self.calendar.trail.left();
                let run = &mut self.runs[run];
                if time >= run.last_sent {
                    (run.last_sent, run.last_left) = (time, left);
                }
            }
        }
    }

    /// What bounds a message besides the network.
    #[inline]
    fn pace(&self, message: &Message) -> Option<Pace> {
        match message.of {
            MessageOf::Collective { target, .. } if self.paced => {
                let plan = &self.job.plans[self.runs[target].plan.index()];
                plan.phases[usize::from(message.phase)].pace
            }
            MessageOf::Collective { .. } => None,
            MessageOf::PointToPoint(_) => {
                let [from, to] =
                    [self.quotient.rank(message.sender), message.receiver].map(|rank| self.job.npu(rank));
                self.job.send_pace.as_ref()?.of(from, to, message.bytes)
            }
        }
    }

    /// Whether a message that the network has delivered must still wait, until its phase's pace lets it arrive.
    #[inline]
    fn is_early(&mut self, id: Id<Message>, message: &Message) -> bool {
        let Some(pace) = self.pace(message) else { return false };
        let due = message.sent.saturating_add(pace.least);
        if self.now >= due {
            return false;
        }
        self.calendar.at(due, EventKind::Deliver as u8, message.key, id.number(), 0);
        true
    }

    /// A message has reached its endpoint.
    pub(crate) fn deliver(&mut self, id: Id<Message>) {
        let message = self.messages[id];
        if self.is_early(id, &message) {
            return;
        }
        let Message { bytes, sent, of, channel, phase, .. } = message;
        self.after = self.known_stretch(id);
        self.messages.remove(id);
        self.record.messages += 1;
        self.record.delivered += bytes;
        let (target, from) = match of {
            MessageOf::Collective { target, from, .. } => (target, from),
            MessageOf::PointToPoint(id) => return self.point_to_point_arrived(id, &message),
        };
        let delay = self.now.saturating_sub(self.calendar.endpoint).saturating_sub(sent);
        let run = &mut self.runs[target];
        let waiting = if run.phase == phase {
            run.receives.iter().position(|receive| receive.from == from && receive.channel == channel)
        } else {
            None
        };
        match waiting {
            Some(index) => {
                let Receive { stream, reduce, .. } = run.receives[index];
                if index + 1 == run.receives.len() {
                    run.receives.pop();
                } else {
                    run.receives.remove(index);
                }
                run.tally.network_delay += delay.0;
                if self.combine(target, stream, reduce, bytes) {
                    self.receive_complete(target, stream);
                }
            }
            None => {
                let arrived = self.calendar.trail.moment(self.after, self.now);
                run.early.push(Early { phase, channel, from, bytes, delay, arrived });
            }
        }
    }

    /// A stream expects a message. Returns true if it is there already and combined.
    fn expect(&mut self, run_id: Id<ChunkRun>, channel: u32, from: u32, stream: u32, reduce: bool) -> bool {
        let run = &mut self.runs[run_id];
        let phase = run.phase;
        let there = run.early.iter().position(|e| e.phase == phase && e.channel == channel && e.from == from);
        match there {
            Some(index) => {
                let Early { bytes, delay, arrived, .. } = run.early.remove(index);
                run.tally.network_delay += delay.0;
                // It is combined after it has arrived and after the stream has come to expect it.
                let event = self.after;
                self.after = self.calendar.trail.meet(event, self.now, arrived);
                let there = self.combine(run_id, stream, reduce, bytes);
                self.after = event;
                let of = &mut self.runs[run_id].streams[stream as usize].reached;
                *of = self.calendar.trail.later(*of, arrived);
                there
            }
            None => {
                run.receives.push(Receive { channel, from, stream, reduce });
                false
            }
        }
    }

    /// Combines a received message with local data if the plan says so. Returns false if that takes time; the stream
    /// goes on when [`EventKind::Reduced`] is handled.
    fn combine(&mut self, run_id: Id<ChunkRun>, stream: u32, reduce: bool, bytes: u64) -> bool {
        let run = &mut self.runs[run_id];
        run.tally.messages += 1;
        run.tally.received += bytes;
        let (true, Some(rate)) = (reduce, self.job.schedule.reduction_rate) else { return true };
        let time = rate.transfer_time(Bytes(bytes)).unwrap_or(Time::MAX);
        if time.is_zero() {
            return true;
        }
        run.tally.reduction += time.0;
        let purpose = run.purpose;
        let state = &mut self.ranks[run.rank.index()];
        let start = state.reducer_free.max(self.now);
        let end = start.saturating_add(time);
        if self.calendar.trail.is_on() {
            let trail = &mut self.calendar.trail;
            let after = match state.reducing.back() {
                Some(&busy) if start > self.now => {
                    trail.meet(busy, start, trail.moment(self.after, self.now))
                }
                _ => trail.meet(self.after, start, state.reducer),
            };
            let stretch = trail.reduces(&Origin { after, since: start, of: purpose }, time);
            state.reducing.push_back(stretch);
            state.reducer = trail.moment(stretch, end);
        }
        self.calendar.overflow |= end.0 > u64::MAX / 4;
        state.reducer_free = end;
        let key = self.keys.order(self.instances[run.instance].number, run.chunk, run.phase);
        self.calendar.at(end, EventKind::Reduced as u8, key, run_id.number(), stream);
        false
    }

    /// A received message has been combined with local data.
    pub(crate) fn reduced(&mut self, run_id: Id<ChunkRun>, stream: u32) {
        if self.calendar.trail.is_on() {
            let rank = self.runs[run_id].rank.index();
            self.after = self.ranks[rank].reducing.pop_front().unwrap_or(StretchId::START);
        }
        self.receive_complete(run_id, stream);
    }

    fn receive_complete(&mut self, run_id: Id<ChunkRun>, stream: u32) {
        let state = &mut self.runs[run_id].streams[stream as usize];
        let now = self.calendar.trail.moment(self.after, self.now);
        state.reached = self.calendar.trail.later(state.reached, now);
        state.outstanding -= 1;
        if state.outstanding > 0 {
            return;
        }
        self.advance(run_id, stream);
        // Another stream may have waited for this stream's progress.
        let streams = self.runs[run_id].streams.len() as u32;
        if streams > 1 && self.runs[run_id].stage == ChunkStage::Running {
            self.wake_streams(run_id, streams);
        }
    }

    /// Advances every stream as far as possible.
    fn wake_streams(&mut self, run_id: Id<ChunkRun>, streams: u32) {
        loop {
            let before: u32 = self.runs[run_id].streams.iter().map(|s| s.pc).sum();
            for stream in 0..streams {
                if !self.runs[run_id].streams[stream as usize].done {
                    self.advance(run_id, stream);
                }
            }
            if self.runs[run_id].stage != ChunkStage::Running
                || self.runs[run_id].streams.iter().map(|s| s.pc).sum::<u32>() == before
            {
                return;
            }
        }
    }
}

fn too_far(transfer: &Transfer, model: &str) -> Diagnostic {
    Diagnostic::error(Code::BadFabric, format!("a path has more links than `{model}` can count"))
        .key("network")
        .found(format!("{} to {}", transfer.from, transfer.to))
        .help("use another network model, or a fabric of smaller diameter")
}

fn no_route(transfer: &Transfer, sender: RankId, receiver: RankId) -> Diagnostic {
    Diagnostic::error(Code::NoRoute, "two NPUs that must exchange messages are not connected")
        .key("fabric")
        .found(format!("{} ({sender}) to {} ({receiver})", transfer.from, transfer.to))
        .help("add links between them, or place the ranks on connected NPUs")
}
