//! Plans, instruction by instruction, and the messages that they exchange.

use crate::calendar::Kind;
use crate::network::{Sent, Transfer};
use crate::state::{Expected, Message, NONE, POINT_TO_POINT, Stage};
use crate::{Engine, Network};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_plan::{Blocks, Buffer, Op, Seat};
use syncline_units::{Bytes, Extent, Time};

impl<N: Network> Engine<'_, N> {
    /// The seat of a stream of `run` in its phase.
    fn seat(&self, run_id: u32, stream: u32) -> Seat {
        let phase = self.phase(run_id);
        let run = &self.runs[run_id];
        let lanes = self.job.dims[usize::from(phase.dim)];
        Seat {
            kind: phase.kind,
            ranks: phase.size,
            index: phase.coordinate(self.sets[run.set].position),
            stream,
            reverse: lanes.ways == 2 && run.lane % 2 == 1,
        }
    }

    /// Carries out instructions of one stream until it must wait.
    pub(crate) fn advance(&mut self, run_id: u32, stream: u32) {
        let phase = self.phase(run_id);
        let algorithm = &*phase.algorithm;
        let seat = self.seat(run_id, stream);
        let channel = algorithm.channel(&seat);
        loop {
            let state = &mut self.runs[run_id].streams[stream as usize];
            let op = algorithm.op(&seat, state.pc);
            match op {
                Some(Op::Send { to, blocks }) => {
                    state.pc += 1;
                    let part = algorithm.part(phase.kind, phase.size, stream, self.runs[run_id].extent);
                    self.send_blocks(run_id, &seat, channel, to, blocks, part);
                }
                Some(Op::Receive { from, reduce, .. }) => {
                    state.pc += 1;
                    state.outstanding += 1;
                    self.expect(run_id, channel, from, stream, reduce);
                }
                Some(Op::Copy { .. }) => state.pc += 1,
                Some(Op::Wait) => {
                    if state.outstanding > 0 {
                        return;
                    }
                    state.pc += 1;
                }
                Some(Op::After { stream: other, ops }) => {
                    if self.runs[run_id].streams[other as usize].pc < ops {
                        return;
                    }
                    self.runs[run_id].streams[stream as usize].pc += 1;
                }
                None => {
                    if state.outstanding == 0 && !state.done {
                        state.done = true;
                        let run = &mut self.runs[run_id];
                        run.streams_left -= 1;
                        if run.streams_left == 0 {
                            self.program_ended(run_id);
                        }
                    }
                    return;
                }
            }
        }
    }

    /// Puts a message of a run on its way.
    fn send_blocks(&mut self, run_id: u32, seat: &Seat, channel: u32, to: u32, blocks: Blocks, part: Extent) {
        let phase = self.phase(run_id);
        let run = &self.runs[run_id];
        let set = &self.sets[run.set];
        let plan = &self.job.plans[set.plan as usize];
        let space = if blocks.buffer == Buffer::Data { part } else { seat.space(blocks.buffer, part) };
        let bytes = blocks.extent(space).len() * plan.element;
        let role = &self.job.workload.roles[usize::from(set.role)];
        let group = self.ranks[set.rank as usize].roles[usize::from(set.role)].group;
        let position = set.position + to * phase.weight - seat.index * phase.weight;
        let rank = role.rank(group, position);
        // Equal times are ordered by collective, chunk and distance, which all ranks see alike.
        let offset = if seat.index >= to { seat.index - to } else { seat.index + phase.size - to };
        let key = u64::from(set.sequence & 0xf_ffff) << 40
            | u64::from(run.chunk & 0xfff) << 28
            | u64::from(run.phase & 0x1f) << 23
            | u64::from(channel & 0x1f) << 18
            | u64::from(offset & 0x3_ffff);
        let message = Message {
            rank,
            sender: set.rank,
            bytes,
            sent: self.now,
            key,
            role: set.role,
            phase: run.phase,
            plan: set.plan,
            sequence: set.sequence,
            chunk: run.chunk,
            channel,
            from: seat.index,
            lane: run.lane,
            run: run_id,
        };
        let id = self.messages.insert(message);
        self.enter(id);
    }

    /// Hands a message to the network, after the injection latency.
    pub(crate) fn enter(&mut self, id: u32) {
        let latency = self.job.schedule.injection_latency;
        if latency.is_zero() {
            self.inject(id);
        } else {
            let run = self.messages[id].run;
            if run != NONE {
                self.runs[run].unsent += 1;
            }
            let key = self.messages[id].key;
            self.calendar.at(self.now.saturating_add(latency), Kind::Inject, key, id, 0);
        }
    }

    pub(crate) fn inject(&mut self, id: u32) {
        let message = self.messages[id];
        let transfer = Transfer {
            id,
            from: self.job.npu(message.sender),
            to: self.job.npu(message.rank),
            lane: message.lane,
            bytes: Bytes(message.bytes),
            key: message.key,
        };
        self.record.sent += message.bytes;
        self.record.ranks[message.sender as usize].sent += message.bytes;
        let time = match self.network.send(self.now, &transfer, &mut self.calendar) {
            Sent::At(time) => time,
            Sent::NoRoute => {
                self.failure = Some(
                    Diagnostic::error(
                        Code::NoRoute,
                        "two NPUs that must exchange messages are not connected",
                    )
                    .key("fabric")
                    .found(format!(
                        "{} (rank {}) to {} (rank {})",
                        transfer.from, message.sender, transfer.to, message.rank
                    ))
                    .help("add links between them, or place the ranks on connected NPUs"),
                );
                return;
            }
        };
        if message.role == POINT_TO_POINT {
            self.alone_sent(&message, time);
            return;
        }
        let run = &mut self.runs[message.run];
        run.last_sent = run.last_sent.max(time);
        if !self.job.schedule.injection_latency.is_zero() {
            run.unsent -= 1;
            if run.stage == Stage::Leaving && run.unsent == 0 {
                self.program_ended(message.run);
            }
        }
    }

    /// A message is there for its endpoint.
    pub(crate) fn deliver(&mut self, id: u32) {
        let message = self.messages[id];
        self.messages.remove(id);
        self.record.messages += 1;
        self.record.delivered += message.bytes;
        self.record.ranks[message.rank as usize].received += message.bytes;
        if message.role == POINT_TO_POINT {
            self.alone_arrived(&message);
            return;
        }
        let set_id = self.set_of(message.rank, message.role, message.sequence, message.plan);
        let run_id = match self.sets[set_id].runs.get(message.chunk as usize) {
            Some(&run) if run != NONE => run,
            _ => self.run_of(set_id, message.chunk),
        };
        let delay = self.now.saturating_sub(self.calendar.endpoint).saturating_sub(message.sent);
        let mut instance = self.sets[set_id].instance;
        if instance == NONE {
            // This rank has not issued the collective, but the sending one has.
            let group = self.ranks[message.rank as usize].roles[usize::from(message.role)].group;
            let (base, known) = &self.instance_of[usize::from(message.role)][group as usize];
            instance = known[(message.sequence - base) as usize];
        }
        let record = &mut self.instances[instance].phases[usize::from(message.phase)];
        record.network_delay += u128::from(delay.0);
        record.messages += 1;
        record.bytes += message.bytes;

        let run = &mut self.runs[run_id];
        if run.phase == message.phase && run.stage == Stage::Running {
            self.arrive(run_id, message.channel, message.from, message.bytes);
        } else {
            run.early.push((message.phase, message.channel, message.from, message.bytes));
        }
    }

    /// Moves messages that came before this phase began to where its receives look for them.
    pub(crate) fn take_early(&mut self, run_id: u32) {
        let run = &mut self.runs[run_id];
        let phase = run.phase;
        let (expected, early) = (&mut run.expected, &mut run.early);
        early.retain(|&(p, channel, from, bytes)| {
            if p == phase {
                expected.push(Expected { channel, from, stream: NONE, reduce: false, bytes });
            }
            p != phase
        });
    }

    /// A stream expects a message; it may be there already.
    fn expect(&mut self, run_id: u32, channel: u32, from: u32, stream: u32, reduce: bool) {
        let run = &mut self.runs[run_id];
        let there =
            run.expected.iter().position(|e| e.stream == NONE && e.channel == channel && e.from == from);
        match there {
            Some(index) => {
                let bytes = run.expected.remove(index).bytes;
                self.combine(run_id, stream, reduce, bytes, true);
            }
            None => run.expected.push(Expected { channel, from, stream, reduce, bytes: 0 }),
        }
    }

    /// A message arrives for a run in its phase.
    fn arrive(&mut self, run_id: u32, channel: u32, from: u32, bytes: u64) {
        let run = &mut self.runs[run_id];
        let waiting =
            run.expected.iter().position(|e| e.stream != NONE && e.channel == channel && e.from == from);
        match waiting {
            Some(index) => {
                let Expected { stream, reduce, .. } = run.expected.remove(index);
                self.combine(run_id, stream, reduce, bytes, false);
            }
            None => run.expected.push(Expected { channel, from, stream: NONE, reduce: false, bytes }),
        }
    }

    /// Combines a received message with local data where the plan says so. `inline`: called from within the stream,
    /// which goes on by itself.
    fn combine(&mut self, run_id: u32, stream: u32, reduce: bool, bytes: u64, inline: bool) {
        if let (true, Some(rate)) = (reduce, self.job.schedule.reduction_rate) {
            let time = rate.transfer_time(Bytes(bytes)).unwrap_or(Time::MAX);
            if !time.is_zero() {
                let run = &self.runs[run_id];
                let set = &self.sets[run.set];
                let state = &mut self.ranks[set.rank as usize];
                let start = state.reducer_free.max(self.now);
                let end = start.saturating_add(time);
                self.calendar.overflow |= end.0 > u64::MAX / 4;
                state.reducer_free = end;
                self.instances[set.instance].phases[usize::from(run.phase)].reduction += u128::from(time.0);
                let key = u64::from(set.sequence) << 20 | u64::from(run.chunk & 0xf_ffff);
                self.calendar.at(end, Kind::Reduced, key, run_id, stream);
                return;
            }
        }
        if inline {
            self.runs[run_id].streams[stream as usize].outstanding -= 1;
        } else {
            self.receive_complete(run_id, stream);
        }
    }

    pub(crate) fn receive_complete(&mut self, run_id: u32, stream: u32) {
        let state = &mut self.runs[run_id].streams[stream as usize];
        state.outstanding -= 1;
        if state.outstanding > 0 {
            return;
        }
        self.advance(run_id, stream);
        // Another stream may have waited for this one to get so far.
        let streams = self.runs[run_id].streams.len() as u32;
        if streams > 1 && self.runs[run_id].stage == Stage::Running {
            self.wake_streams(run_id, streams);
        }
    }

    /// Lets every stream go on as far as it can, until none can.
    fn wake_streams(&mut self, run_id: u32, streams: u32) {
        loop {
            let before: u32 = self.runs[run_id].streams.iter().map(|s| s.pc).sum();
            for stream in 0..streams {
                if !self.runs[run_id].streams[stream as usize].done {
                    self.advance(run_id, stream);
                }
            }
            if self.runs[run_id].stage != Stage::Running
                || self.runs[run_id].streams.iter().map(|s| s.pc).sum::<u32>() == before
            {
                return;
            }
        }
    }
}
