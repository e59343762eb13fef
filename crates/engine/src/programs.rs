//! Plans, instruction by instruction, and the messages that they exchange.

use crate::calendar::Kind;
use crate::job::PhasePlan;
use crate::network::{Sent, Transfer};
use crate::state::{Early, Expected, Message, NONE, POINT_TO_POINT, Run, Stage};
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
            index: run.coordinate,
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
        let run = &self.runs[run_id];
        let plan = &self.job.plans[run.plan as usize];
        let phase = &plan.phases[usize::from(run.phase)];
        let space = if blocks.buffer == Buffer::Data { part } else { seat.space(blocks.buffer, part) };
        let bytes = blocks.extent(space).len() * plan.element;
        let rank = match run.peers {
            (_, 0) => self.rank_at(run, phase, to),
            (first, step) => first + to * step,
        };
        // Equal times are ordered by collective, chunk and distance, which all ranks see alike.
        let offset = if seat.index >= to { seat.index - to } else { seat.index + phase.size - to };
        let key = u64::from(run.sequence & 0xf_ffff) << 40
            | u64::from(run.chunk & 0xfff) << 28
            | u64::from(run.phase & 0x1f) << 23
            | u64::from(channel & 0x1f) << 18
            | u64::from(offset & 0x3_ffff);
        let message = Message {
            rank,
            sender: run.rank,
            bytes,
            sent: self.now,
            key,
            role: run.role,
            phase: run.phase,
            plan: run.plan,
            sequence: run.sequence,
            chunk: run.chunk,
            channel,
            from: seat.index,
            lane: run.lane,
            run: run_id,
            target: if run.friend.0 == rank { run.friend.1 } else { NONE },
        };
        self.runs[run_id].tally.sent += bytes;
        let id = self.messages.insert(message);
        self.enter(id);
    }

    /// The rank at coordinate `to` along the phase's axis, in a group without arithmetic.
    fn rank_at(&self, run: &Run, phase: &PhasePlan, to: u32) -> u32 {
        let role = &self.ranks[run.rank as usize].roles[usize::from(run.role)];
        let position = role.position + to * phase.weight - run.coordinate * phase.weight;
        self.job.workload.roles[usize::from(run.role)].rank(role.group, position)
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
        if message.role == POINT_TO_POINT {
            self.record.ranks[message.sender as usize].sent += message.bytes;
            self.record.ranks[message.rank as usize].received += message.bytes;
            self.alone_arrived(&message);
            return;
        }
        let delay = self.now.saturating_sub(self.calendar.endpoint).saturating_sub(message.sent);
        let run_id = self.target(&message);
        let run = &mut self.runs[run_id];
        if run.phase == message.phase && run.stage == Stage::Running {
            run.tally.network_delay += delay.0;
            self.arrive(run_id, message.channel, message.from, message.bytes);
        } else {
            let Message { phase, channel, from, bytes, .. } = message;
            run.early.push(Early { phase, channel, from, bytes, delay });
        }
    }

    /// The run that a message is for.
    #[inline]
    fn target(&mut self, message: &Message) -> u32 {
        if message.target != NONE {
            let run = &self.runs[message.target];
            if (run.rank, run.sequence, run.chunk, run.role)
                == (message.rank, message.sequence, message.chunk, message.role)
            {
                return message.target;
            }
        }
        let set = self.set_of(message.rank, message.role, message.sequence, message.plan);
        let target = self.run_of(set, message.chunk);
        let sender = &mut self.runs[message.run];
        if (sender.rank, sender.sequence, sender.chunk, sender.role)
            == (message.sender, message.sequence, message.chunk, message.role)
        {
            sender.friend = (message.rank, target);
        }
        target
    }

    /// Moves messages that came before this phase began to where its receives look for them.
    pub(crate) fn take_early(&mut self, run_id: u32) {
        let run = &mut self.runs[run_id];
        if run.early.is_empty() {
            return;
        }
        let phase = run.phase;
        let (expected, early, tally) = (&mut run.expected, &mut run.early, &mut run.tally);
        early.retain(|message| {
            if message.phase == phase {
                let Early { channel, from, bytes, delay, .. } = *message;
                expected.push(Expected { channel, from, stream: NONE, reduce: false, bytes });
                tally.network_delay += delay.0;
            }
            message.phase != phase
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
        let run = &mut self.runs[run_id];
        run.tally.messages += 1;
        run.tally.received += bytes;
        if let (true, Some(rate)) = (reduce, self.job.schedule.reduction_rate) {
            let time = rate.transfer_time(Bytes(bytes)).unwrap_or(Time::MAX);
            if !time.is_zero() {
                run.tally.reduction += time.0;
                let state = &mut self.ranks[run.rank as usize];
                let start = state.reducer_free.max(self.now);
                let end = start.saturating_add(time);
                self.calendar.overflow |= end.0 > u64::MAX / 4;
                state.reducer_free = end;
                let key = u64::from(run.sequence) << 20 | u64::from(run.chunk & 0xf_ffff);
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
