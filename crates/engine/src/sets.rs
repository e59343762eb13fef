//! The endpoint (astra2020 IV-B, Fig. 7): sets are cut into chunks, chunks are issued from the ready queue and move
//! through the scheduling queues of their phases.
//!
//! Limits are rank-local, so two ranks may come to begin different chunks, and each would wait for the other for ever.
//! A phase of a chunk that one rank of its group has begun is therefore begun by the others as soon as they can, whatever
//! their limits. Ranks that run in step begin the same chunks by themselves, and nothing changes for them.

use crate::calendar::Kind;
use crate::job::{Order, PhasePlan};
use crate::record::{CollectiveRecord, Label, Mark, PhaseRecord};
use crate::state::{At, Begun, DONE, NONE, Run, Set, Stage, Stream, Tally};
use crate::{Engine, Network};
use smallvec::SmallVec;
use std::cmp::Reverse;
use syncline_timeline::Track;
use syncline_units::{CollectiveKind, Extent, Time};
use syncline_workload::TaskKind;

impl<'a, N: Network> Engine<'a, N> {
    /// The phase that `run` is in.
    pub(crate) fn phase(&self, run: u32) -> &'a PhasePlan {
        let run = &self.runs[run];
        &self.job.plans[run.plan as usize].phases[usize::from(run.phase)]
    }

    /// Rank `rank` reaches its collective task.
    pub(crate) fn issue(&mut self, rank: u32, at: At) {
        let class = self.ranks[rank as usize].class as usize;
        let TaskKind::Collective { role, kind, blocking, .. } = self.task(rank, at.task).kind else { return };
        let index = &self.classes[class];
        let sequence = at.iteration * index.per_iteration[role.index()] + index.ordinal[at.task as usize];
        let plan = self.job.plan_of[class][at.task as usize];
        let id = self.set_of(rank, role.0, sequence, plan);

        let state = &mut self.ranks[rank as usize];
        let count = state.issued;
        state.issued += 1;
        let priority = match self.job.schedule.order {
            Order::Fifo => count,
            Order::Lifo => u64::MAX - count,
            Order::Priority => {
                let class = u64::from(kind != CollectiveKind::AllToAll) << 1 | u64::from(!blocking);
                class << 60 | ((1 << 60) - 1 - count)
            }
        };
        let group = state.roles[role.index()].group;
        let instance = self.instance(role.0, group, sequence, plan, rank, at);
        let set = &mut self.sets[id];
        set.issued = Some((at, self.now));
        set.priority = priority;
        set.instance = instance;
        if self.job.plans[plan as usize].phases.is_empty() {
            self.set_done(id);
            return;
        }
        let limit = self.job.schedule.concurrent;
        let begun_elsewhere = !self.sets[id].runs.is_empty();
        if limit > 0 && self.ranks[rank as usize].active_sets >= limit && !begun_elsewhere {
            self.ranks[rank as usize].held.push(Reverse((priority, id)));
        } else {
            self.activate(id);
        }
    }

    /// The set with this sequence number, made where it does not exist yet.
    pub(crate) fn set_of(&mut self, rank: u32, role: u16, sequence: u32, plan: u32) -> u32 {
        let state = &mut self.ranks[rank as usize].roles[usize::from(role)];
        let offset = (sequence - state.base) as usize;
        if state.sets.len() <= offset {
            state.sets.resize(offset + 1, NONE);
        }
        if state.sets[offset] != NONE {
            return state.sets[offset];
        }
        let position = state.position;
        let chunks = self.job.plans[plan as usize].chunks.len() as u32;
        let id = self.sets.insert(Set {
            rank,
            role,
            sequence,
            plan,
            position,
            issued: None,
            active: false,
            priority: 0,
            next_chunk: 0,
            left: chunks,
            runs: Vec::new(),
            instance: NONE,
        });
        self.ranks[rank as usize].roles[usize::from(role)].sets[offset] = id;
        id
    }

    /// The row that sums a collective over its group.
    fn instance(&mut self, role: u16, group: u32, sequence: u32, plan: u32, rank: u32, at: At) -> u32 {
        let task = self.task(rank, at.task);
        let (layer, part) = (task.layer, task.part);
        let (base, known) = &mut self.instance_of[usize::from(role)][group as usize];
        let offset = (sequence - *base) as usize;
        if known.len() <= offset {
            known.resize(offset + 1, NONE);
        }
        if known[offset] == NONE {
            let phases = self.job.plans[plan as usize].phases.len();
            known[offset] = self.instances.insert(CollectiveRecord {
                role,
                group,
                plan,
                layer,
                part,
                iteration: at.iteration,
                first_issue: self.now,
                last_issue: self.now,
                finish: self.now,
                duration_sum: 0,
                ranks_done: 0,
                ready_wait: 0,
                chunks: 0,
                phases: vec![PhaseRecord::default(); phases],
            });
        }
        let id = known[offset];
        let instance = &mut self.instances[id];
        instance.first_issue = instance.first_issue.min(self.now);
        instance.last_issue = instance.last_issue.max(self.now);
        id
    }

    fn activate(&mut self, id: u32) {
        let set = &mut self.sets[id];
        set.active = true;
        let (rank, priority) = (set.rank, set.priority);
        let begun: Vec<u32> = set.runs.iter().copied().filter(|&run| run != NONE).collect();
        self.ranks[rank as usize].active_sets += 1;
        self.ranks[rank as usize].ready.push(Reverse((priority, id)));
        for run in begun {
            self.issue_chunk(id, self.runs[run].chunk);
        }
        self.admit(rank);
    }

    /// Issues chunks from the ready queue as the thresholds allow.
    fn admit(&mut self, rank: u32) {
        let (threshold, batch) = (self.job.schedule.issue_threshold, self.job.schedule.issue_batch);
        let batch = if batch == 0 { u32::MAX } else { batch };
        while threshold == 0 || self.ranks[rank as usize].first_phase < threshold {
            for _ in 0..batch {
                if !self.issue_next(rank) {
                    return;
                }
            }
        }
    }

    /// Issues the next chunk of the set that goes first; false where there is none.
    fn issue_next(&mut self, rank: u32) -> bool {
        while let Some(&Reverse((_, id))) = self.ranks[rank as usize].ready.peek() {
            let set = &mut self.sets[id];
            let chunks = self.job.plans[set.plan as usize].chunks.len() as u32;
            // Skip chunks that went ahead because another rank had begun them.
            while set.next_chunk < chunks
                && match set.runs.get(set.next_chunk as usize) {
                    None | Some(&NONE) => false,
                    Some(&DONE) => true,
                    Some(&run) => self.runs[run].stage != Stage::Unissued,
                }
            {
                set.next_chunk += 1;
            }
            if set.next_chunk < chunks {
                let chunk = set.next_chunk;
                set.next_chunk += 1;
                if set.next_chunk == chunks {
                    self.ranks[rank as usize].ready.pop();
                }
                self.issue_chunk(id, chunk);
                return true;
            }
            self.ranks[rank as usize].ready.pop();
        }
        false
    }

    /// The run of a chunk, made where it does not exist yet.
    pub(crate) fn run_of(&mut self, set_id: u32, chunk: u32) -> u32 {
        let set = &mut self.sets[set_id];
        if set.runs.is_empty() {
            set.runs = vec![NONE; self.job.plans[set.plan as usize].chunks.len()];
        }
        if set.runs[chunk as usize] == NONE {
            set.runs[chunk as usize] = self.runs.insert(Run {
                rank: set.rank,
                sequence: set.sequence,
                chunk,
                role: set.role,
                phase: 0,
                stage: Stage::Unissued,
                plan: set.plan,
                set: set_id,
                coordinate: 0,
                lane: 0,
                streams: SmallVec::new(),
                streams_left: 0,
                unsent: 0,
                last_sent: Time::ZERO,
                expected: SmallVec::new(),
                extent: Extent::default(),
                peers: (0, 0),
                friend: (NONE, NONE),
                tally: Tally::default(),
                begun: 0,
                queue: NONE,
                entered: self.now,
                early: Vec::new(),
            });
        }
        set.runs[chunk as usize]
    }

    /// Takes a chunk from the ready queue into its first phase.
    pub(crate) fn issue_chunk(&mut self, set_id: u32, chunk: u32) {
        let run = self.run_of(set_id, chunk);
        let set = &self.sets[set_id];
        let (_, issued) = set.issued.expect("only issued sets have chunks issued");
        let instance = &mut self.instances[set.instance];
        instance.ready_wait += u128::from(self.now.saturating_sub(issued).0);
        instance.chunks += 1;
        self.ranks[set.rank as usize].first_phase += 1;
        self.enter_phase(run);
    }

    /// Takes a run into the first phase, from the one it is numbered with, that its rank takes part in; ends the chunk
    /// where there is none.
    fn enter_phase(&mut self, run_id: u32) {
        let run = &self.runs[run_id];
        let set_id = run.set;
        let set = &self.sets[set_id];
        let (rank, position) = (set.rank as usize, set.position);
        let phases = &self.job.plans[set.plan as usize].phases;
        let first = usize::from(run.phase);
        let next =
            (first..phases.len()).find(|&phase| phases[phase].takes_part(position)).unwrap_or(phases.len());
        if first == 0 && next > 0 {
            self.ranks[rank].first_phase -= 1;
        }
        let run = &mut self.runs[run_id];
        run.phase = next as u8;
        if next < phases.len() {
            self.enqueue(run_id);
            return;
        }
        let chunk = run.chunk;
        self.runs.remove(run_id);
        let set = &mut self.sets[set_id];
        set.runs[chunk as usize] = DONE;
        set.left -= 1;
        if set.left == 0 {
            self.set_done(set_id);
        }
    }

    /// Puts a run into the scheduling queue of its phase, and starts it if it may start.
    fn enqueue(&mut self, run_id: u32) {
        let phase = self.phase(run_id);
        let run = &self.runs[run_id];
        let set = &self.sets[run.set];
        let chunks = self.job.plans[set.plan as usize].chunks.len() as u32;
        let dim = usize::from(phase.dim);
        let lanes = self.job.dims[dim];
        // Every rank of the group computes the same lane.
        let lane = set.sequence.wrapping_mul(chunks).wrapping_add(run.chunk) % lanes.queues;
        let queue = self.first_queue[dim] + u32::from(phase.leg) * lanes.queues + lane;
        let begun_elsewhere = run.begun >> run.phase & 1 == 1;
        let (rank, key) = (set.rank as usize, (set.priority, set.sequence, run.chunk, run_id));
        let run = &mut self.runs[run_id];
        run.entered = self.now;
        run.stage = Stage::Waiting;
        run.lane = lane;
        run.queue = queue;
        if begun_elsewhere || self.has_room(rank, queue, dim) {
            self.start(run_id);
        } else {
            self.ranks[rank].queues[queue as usize].waiting.push(Reverse(key));
        }
    }

    fn has_room(&self, rank: usize, queue: u32, dim: usize) -> bool {
        let (active, outstanding) = (self.job.schedule.active_chunks, self.job.schedule.outstanding);
        let state = &self.ranks[rank];
        (active == 0 || state.queues[queue as usize].running < active)
            && (outstanding == 0 || state.running[dim] < outstanding)
    }

    /// Books that a rank of the group along the phase's axis has begun; the first one tells the others.
    fn tell_begun(&mut self, run_id: u32, phase: &PhasePlan) {
        let run = &self.runs[run_id];
        let set = &self.sets[run.set];
        let chunks = self.job.plans[set.plan as usize].chunks.len();
        let size = self.job.workload.roles[usize::from(set.role)].size();
        // Positions that differ only along the axis share everything below and above it.
        let below = set.position % phase.weight;
        let above = set.position / (phase.weight * phase.size);
        let line = (above * phase.weight + below) as usize;
        // No phase has more lines than the group has ranks.
        let bit = (usize::from(run.phase) * chunks + run.chunk as usize) * size as usize + line;
        let instance = set.instance as usize;
        if self.begun.len() <= instance {
            self.begun.resize(instance + 1, Vec::new());
        }
        let bits = &mut self.begun[instance];
        if bits.len() <= bit / 64 {
            bits.resize(bit / 64 + 1, 0);
        }
        let first = bits[bit / 64] >> (bit % 64) & 1 == 0;
        bits[bit / 64] |= 1 << (bit % 64);
        if first {
            let key = u64::from(set.sequence) << 16 | u64::from(run.chunk & 0xffff);
            let begun = Begun {
                rank: set.rank,
                role: set.role,
                phase: run.phase,
                sequence: set.sequence,
                plan: set.plan,
                chunk: run.chunk,
            };
            let id = self.to_tell.insert(begun);
            self.calendar.at(self.now, Kind::Admit, key, id, 0);
        }
    }

    /// The other ranks along the phase's axis begin it too, or will when they get there.
    pub(crate) fn admit_begun(&mut self, id: u32) {
        let Begun { rank, role, phase: phase_index, sequence, plan, chunk } = self.to_tell[id];
        self.to_tell.remove(id);
        let phase = &self.job.plans[plan as usize].phases[usize::from(phase_index)];
        let state = &self.ranks[rank as usize].roles[usize::from(role)];
        let (group, position) = (state.group, state.position);
        let here = phase.coordinate(position);
        for there in (0..phase.size).filter(|&there| there != here) {
            let other = position + there * phase.weight - here * phase.weight;
            let other = self.job.workload.roles[usize::from(role)].rank(group, other);
            let state = &self.ranks[other as usize].roles[usize::from(role)];
            let known = sequence.checked_sub(state.base).map(|offset| state.sets.get(offset as usize));
            if known.is_none() || known == Some(Some(&DONE)) {
                continue;
            }
            let set_id = self.set_of(other, role, sequence, plan);
            if self.sets[set_id].runs.get(chunk as usize) == Some(&DONE) {
                continue;
            }
            let run_id = self.run_of(set_id, chunk);
            let run = &mut self.runs[run_id];
            run.begun |= 1 << phase_index;
            match run.stage {
                Stage::Waiting if run.phase == phase_index => {
                    let set = &self.sets[set_id];
                    let key = (set.priority, set.sequence, chunk, run_id);
                    let queue = run.queue as usize;
                    self.ranks[other as usize].queues[queue].waiting.retain(|&Reverse(k)| k != key);
                    self.start(run_id);
                }
                Stage::Unissued if self.sets[set_id].active => self.issue_chunk(set_id, chunk),
                Stage::Unissued if self.sets[set_id].issued.is_some() => {
                    self.ranks[other as usize].held.retain(|&Reverse((_, id))| id != set_id);
                    self.activate(set_id);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, run_id: u32) {
        let phase = self.phase(run_id);
        let dim = usize::from(phase.dim);
        let run = &mut self.runs[run_id];
        let set = &self.sets[run.set];
        let plan = &self.job.plans[set.plan as usize];
        run.stage = Stage::Running;
        run.extent = phase.extent(plan.chunks[run.chunk as usize], set.position);
        run.coordinate = phase.coordinate(set.position);
        run.peers = self.job.workload.roles[usize::from(set.role)].line(set.rank, phase.weight, phase.size);
        run.friend = (NONE, NONE);
        run.streams.clear();
        run.streams.resize(phase.streams as usize, Stream::default());
        run.streams_left = phase.streams;
        let waited = self.now.saturating_sub(run.entered);
        run.entered = self.now;
        let record = &mut self.instances[set.instance].phases[usize::from(run.phase)];
        record.queue_wait += u128::from(waited.0);
        record.chunks += 1;
        let rank = &mut self.ranks[set.rank as usize];
        rank.queues[run.queue as usize].running += 1;
        rank.running[dim] += 1;
        let dim = &mut self.record.dims[dim];
        if dim.running == 0 {
            dim.since = self.now;
        }
        dim.running += 1;

        if self.limited {
            self.tell_begun(run_id, phase);
        }
        self.take_early(run_id);
        for stream in 0..phase.streams {
            self.advance(run_id, stream);
        }
    }

    /// The program of a run has ended; it leaves its phase when its last send has left.
    pub(crate) fn program_ended(&mut self, run_id: u32) {
        let run = &mut self.runs[run_id];
        run.stage = Stage::Leaving;
        if run.unsent > 0 {
            return;
        }
        if run.last_sent > self.now {
            let key = u64::from(self.sets[run.set].sequence) << 16 | u64::from(run.chunk & 0xffff);
            self.calendar.at(run.last_sent, Kind::PhaseEnd, key, run_id, 0);
        } else {
            self.ended.push_back(run_id);
        }
    }

    pub(crate) fn end_phase(&mut self, run_id: u32) {
        let phase = self.phase(run_id);
        let dim = usize::from(phase.dim);
        let run = &mut self.runs[run_id];
        let set = &self.sets[run.set];
        let rank = set.rank;
        let (queue, was_first) = (run.queue, run.phase == 0);
        let mark = Mark {
            rank,
            track: Track::Dimension(phase.dim),
            start: run.entered,
            end: self.now,
            label: Label::Chunk { kind: phase.kind, layer: self.instances[set.instance].layer },
            bytes: 0,
        };
        let tally = std::mem::take(&mut run.tally);
        let row = &mut self.record.ranks[rank as usize];
        row.sent += tally.sent;
        row.received += tally.received;
        let sums = &mut self.instances[set.instance].phases[usize::from(run.phase)];
        sums.messages += tally.messages;
        sums.bytes += tally.received;
        sums.network_delay += u128::from(tally.network_delay);
        sums.reduction += u128::from(tally.reduction);
        let state = &mut self.ranks[rank as usize];
        state.queues[queue as usize].running -= 1;
        state.running[dim] -= 1;
        state.first_phase -= u32::from(was_first);
        let active = &mut self.record.dims[dim];
        active.running -= 1;
        if active.running == 0 {
            active.active += self.now.saturating_sub(active.since);
        }
        run.phase += 1;
        run.last_sent = Time::ZERO;
        self.mark(mark);
        self.enter_phase(run_id);
        self.fill(rank, dim);
        if was_first {
            self.admit(rank);
        }
    }

    /// Starts what waits in the queues of a dimension, as far as there is room.
    fn fill(&mut self, rank: u32, dim: usize) {
        let first = self.first_queue[dim];
        for queue in first..first + 2 * self.job.dims[dim].queues {
            while self.has_room(rank as usize, queue, dim) {
                let Some(Reverse((_, _, _, run))) =
                    self.ranks[rank as usize].queues[queue as usize].waiting.pop()
                else {
                    break;
                };
                self.start(run);
            }
        }
    }

    fn set_done(&mut self, id: u32) {
        let set = &self.sets[id];
        let (rank, role, sequence, instance) = (set.rank, set.role, set.sequence, set.instance);
        let was_active = set.active;
        if was_active && (set.next_chunk as usize) < self.job.plans[set.plan as usize].chunks.len() {
            // Other ranks began all its chunks before their turn; its number may be used again.
            self.ranks[rank as usize].ready.retain(|&Reverse((_, waiting))| waiting != id);
        }
        let (at, issued) = set.issued.expect("a set that is done was issued");
        self.sets.remove(id);
        self.sets[id].runs = Vec::new();
        let state = &mut self.ranks[rank as usize].roles[usize::from(role)];
        state.sets[(sequence - state.base) as usize] = DONE;
        while state.sets.front() == Some(&DONE) {
            state.sets.pop_front();
            state.base += 1;
        }

        let duration = self.now.saturating_sub(issued);
        let row = &mut self.instances[instance];
        row.duration_sum += u128::from(duration.0);
        row.finish = row.finish.max(self.now);
        row.ranks_done += 1;
        let layer = self.layer(rank, at.task);
        let part = self.task(rank, at.task).part as usize;
        let bytes = self.job.plans[self.instances[instance].plan as usize].bytes.0;
        self.record.layers[layer].communication[part] += u128::from(duration.0);
        self.record.layers[layer].bytes += u128::from(bytes);
        let class = self.ranks[rank as usize].class;
        let label = Label::Task { class, task: at.task };
        self.mark(Mark { rank, track: Track::Communication, start: issued, end: self.now, label, bytes });
        if self.instances[instance].ranks_done == self.job.workload.roles[usize::from(role)].size() {
            self.instance_done(instance, role, sequence);
        }
        self.communication_done(rank, at);

        if was_active {
            self.ranks[rank as usize].active_sets -= 1;
            let limit = self.job.schedule.concurrent;
            while limit > 0 && self.ranks[rank as usize].active_sets < limit {
                let Some(Reverse((_, next))) = self.ranks[rank as usize].held.pop() else { break };
                self.activate(next);
            }
        }
    }

    fn instance_done(&mut self, id: u32, role: u16, sequence: u32) {
        let record = self.instances[id].clone();
        let (base, known) = &mut self.instance_of[usize::from(role)][record.group as usize];
        known[(sequence - *base) as usize] = DONE;
        while known.front() == Some(&DONE) {
            known.pop_front();
            *base += 1;
        }
        self.instances.remove(id);
        if let Some(bits) = self.begun.get_mut(id as usize) {
            bits.clear();
        }
        self.check_collective(&record);
        self.record.collectives.push(record);
    }
}
