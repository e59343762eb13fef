//! The endpoint (astra2020 IV-B, Fig. 7). Collective sets are cut into chunks; chunks are issued from the ready queue
//! and move through the scheduling queues of their phases.
//!
//! Limits are local to a rank, so two ranks could begin different chunks and wait for each other forever. To prevent
//! that, once one rank of a group has begun a phase of a chunk, the others begin that phase and its earlier phases as
//! soon as they can, whatever their limits. Ranks that run in step begin the same chunks anyway, so nothing changes
//! for them.

use crate::Engine;
use crate::event::EventKind;
use crate::job::{PhasePlan, PlanId, QueueOrder};
use crate::numbers::CollectiveNumbers;
use crate::quotient::{RankIndex, SlotLine};
use crate::record::{CollectiveRecord, Label, Mark, PhaseRecord};
use crate::slab::{Id, Life, Slab, Status};
use crate::state::{
    At, Begun, Chunk, ChunkRun, ChunkStage, CollectiveSet, EndedRun, GroupOfRole, Instance, Issue, QueuedRun,
    QueuedSet, Scheduler, Stream, Tally, Waits,
};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::num::NonZeroU32;
use std::ops::Range;
use syncline_critical_path::{Moment, Purpose, StretchId};
use syncline_net_api::NetworkModel;
use syncline_timeline::Track;
use syncline_units::{CollectiveKind, Extent, RankId, Time};
use syncline_workload::{RoleId, TaskKind};

/// The run that begins next in a dimension. The order of the fields is the order in which runs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NextRun {
    queued: QueuedRun,
    /// Index in [`Rank::schedulers`](crate::state::Rank::schedulers).
    scheduler: u32,
    /// Index in [`Scheduler::queues`].
    queue: u32,
}

impl<'a, N: NetworkModel> Engine<'a, N> {
    /// The phase that `run` is in.
    pub(crate) fn phase(&self, run: Id<ChunkRun>) -> &'a PhasePlan {
        let run = &self.runs[run];
        &self.job.plans[run.plan.index()].phases[usize::from(run.phase)]
    }

    /// Rank `rank` reaches a collective task.
    pub(crate) fn issue(&mut self, rank: RankIndex, at: At) {
        let class = self.ranks[rank.index()].class as usize;
        let TaskKind::Collective { role, kind, blocking, .. } = self.task(rank, at.task).kind else { return };
        let plan = self.job.plan_of[class][at.task as usize].expect("every collective has a plan");
        let place = self.ranks[rank.index()].membership(role);
        let numbers = self.numbers.of(&self.classes[class], role, at.iteration, at.task);
        let group = GroupOfRole { role, group: place.group };
        let instance = self.instance(group, numbers, plan, rank, at);
        let id = self.set_of(instance, place.slot);

        let state = &mut self.ranks[rank.index()];
        let count = state.issued;
        state.issued += 1;
        let priority = match self.job.schedule.order {
            QueueOrder::Fifo => count,
            QueueOrder::Lifo => u64::MAX - count,
            QueueOrder::Priority => {
                let class = u64::from(kind != CollectiveKind::AllToAll) << 1 | u64::from(!blocking);
                class << 60 | ((1 << 60) - 1 - count)
            }
        };
        let moment = self.calendar.trail.moment(self.after, self.now);
        let set = &mut self.sets[id];
        set.reached = moment;
        set.issued = Some(Issue { at, time: self.now, moment });
        set.priority = priority;
        if self.job.plans[plan.index()].phases.is_empty() {
            self.set_done(id);
            return;
        }
        let begun_elsewhere = self.sets[id].begun > 0;
        let active = self.ranks[rank.index()].active_sets;
        if !begun_elsewhere && !is_below(active, self.job.schedule.concurrent) {
            self.ranks[rank.index()].held.push(Reverse(QueuedSet { priority, set: id }));
        } else {
            self.activate(id);
        }
    }

    /// The set of a collective at `slot`; created if it does not exist. The collective must not be over at that slot.
    fn set_of(&mut self, instance: Id<Instance>, slot: u32) -> Id<CollectiveSet> {
        let known = &self.instances[instance];
        if let Some(id) = known.sets[slot as usize].under_way() {
            return id;
        }
        let record = &known.record;
        let role = record.role;
        let position = self.quotient.position(role, slot);
        let rank = RankId(self.job.workload.roles[role.index()].rank(record.group, position));
        let rank = self.quotient.index(rank);
        let set = CollectiveSet {
            rank,
            position,
            slot,
            instance,
            plan: record.plan,
            issued: None,
            active: false,
            scheduler: self.ranks[rank.index()].membership(role).scheduler,
            priority: 0,
            next_chunk: 0,
            left: known.chunks.len() as u32,
            begun: 0,
            reached: Moment::NONE,
        };
        let id = self.sets.insert(set);
        self.instances[instance].sets[slot as usize] = id.into();
        id
    }

    /// The collective that `rank` issues now, over its group; created if no other rank has issued it yet.
    fn instance(
        &mut self,
        GroupOfRole { role, group }: GroupOfRole,
        CollectiveNumbers { sequence, number }: CollectiveNumbers,
        plan: PlanId,
        rank: RankIndex,
        at: At,
    ) -> Id<Instance> {
        let task = self.task(rank, at.task);
        let window = &mut self.windows[role.index()][group as usize];
        let offset = (sequence - window.base) as usize;
        if window.instances.len() <= offset {
            window.instances.resize(offset + 1, Life::NOT_BEGUN);
        }
        let id = window.instances[offset].under_way().unwrap_or_else(|| {
            let slots = self.quotient.slots(role);
            let plan_of_it = &self.job.plans[plan.index()];
            let id = self.instances.insert(Instance {
                sequence,
                visit: self.calendar.trail.visit(),
                number,
                sets: vec![Life::NOT_BEGUN; slots as usize],
                chunks: vec![
                    Chunk { runs: Vec::new(), begun: Vec::new(), left: slots };
                    plan_of_it.chunks.len()
                ],
                record: CollectiveRecord {
                    role,
                    group,
                    plan,
                    layer: task.layer,
                    part: task.part,
                    micro_batch: at.iteration,
                    first_issue: self.now,
                    last_issue: self.now,
                    finish: self.now,
                    duration_sum: 0,
                    ranks_done: 0,
                    ready_wait: 0,
                    chunks: 0,
                    phases: vec![PhaseRecord::default(); plan_of_it.phases.len()],
                },
            });
            window.instances[offset] = id.into();
            id
        });
        let record = &mut self.instances[id].record;
        record.first_issue = record.first_issue.min(self.now);
        record.last_issue = record.last_issue.max(self.now);
        id
    }

    /// The collective of a group with this sequence number; `None` if it is over or has not begun.
    fn instance_under_way(&self, role: RoleId, group: u32, sequence: u32) -> Option<Id<Instance>> {
        let window = &self.windows[role.index()][group as usize];
        let offset = sequence.checked_sub(window.base)?;
        window.instances.get(offset as usize)?.under_way()
    }

    pub(crate) fn activate(&mut self, id: Id<CollectiveSet>) {
        let set = &mut self.sets[id];
        set.active = true;
        let (rank, priority, slot, scheduler) = (set.rank, set.priority, set.slot, set.scheduler);
        let mut begun = Vec::new();
        if set.begun > 0 {
            let instance = &self.instances[set.instance];
            let runs = (0..instance.chunks.len() as u32).map(|chunk| instance.run(chunk, slot));
            begun.extend(runs.filter_map(Life::under_way).filter(|&run| self.runs[run].begun != 0));
        }
        self.ranks[rank.index()].active_sets += 1;
        self.scheduler(rank, scheduler).ready.push(Reverse(QueuedSet { priority, set: id }));
        for run in begun {
            self.issue_chunk(id, self.runs[run].chunk);
        }
        self.admit(rank, scheduler);
    }

    fn scheduler(&mut self, rank: RankIndex, scheduler: u32) -> &mut Scheduler {
        &mut self.ranks[rank.index()].schedulers[scheduler as usize]
    }

    /// Issues chunks from a ready queue as the thresholds allow.
    fn admit(&mut self, rank: RankIndex, scheduler: u32) {
        let (threshold, batch) = (self.job.schedule.issue_threshold, self.job.schedule.issue_batch);
        let batch = batch.map_or(u32::MAX, NonZeroU32::get);
        let event = self.after;
        while is_below(self.scheduler(rank, scheduler).first_phase, threshold) {
            let Scheduler { first_phase, left_first, .. } = *self.scheduler(rank, scheduler);
            if threshold.is_some_and(|threshold| first_phase + 1 == threshold.get()) {
                // An additional chunk in its first phase would have exceeded the threshold.
                self.after = self.calendar.trail.meet(event, self.now, left_first);
            }
            let issued = (0..batch).all(|_| self.issue_next(rank, scheduler));
            self.after = event;
            if !issued {
                return;
            }
        }
    }

    /// Issues the next chunk of a set in a ready queue, regardless of the order of sets.
    pub(crate) fn issue_first(&mut self, id: Id<CollectiveSet>) {
        let set = &mut self.sets[id];
        let (rank, instance, scheduler) = (set.rank, set.instance, set.scheduler);
        let chunks = self.instances[instance].chunks.len() as u32;
        let chunk = set.next_chunk;
        set.next_chunk = (chunk + 1).min(chunks);
        if set.next_chunk == chunks {
            self.scheduler(rank, scheduler).ready.retain(|Reverse(ready)| ready.set != id);
        }
        // The chunk may have been issued already because another rank had begun it.
        if chunk < chunks && !is_issued(self.instances[instance].run(chunk, self.sets[id].slot), &self.runs) {
            self.issue_chunk(id, chunk);
        }
    }

    /// Starts a run that waits in a queue.
    pub(crate) fn start_waiting(&mut self, run_id: Id<ChunkRun>) {
        let run = &self.runs[run_id];
        let priority = self.sets[run.set].priority;
        let sequence = self.instances[run.instance].sequence;
        let queued = QueuedRun { priority, sequence, chunk: run.chunk, run: run_id };
        let (rank, queue, scheduler) = (run.rank, run.queue as usize, self.sets[run.set].scheduler);
        self.scheduler(rank, scheduler).queues[queue].waiting.remove(&queued);
        self.start(run_id);
    }

    /// Issues the next chunk of the set that goes first. Returns false if there is none.
    fn issue_next(&mut self, rank: RankIndex, scheduler: u32) -> bool {
        while let Some(&Reverse(QueuedSet { set: id, .. })) = self.scheduler(rank, scheduler).ready.peek() {
            let set = &mut self.sets[id];
            let instance = &self.instances[set.instance];
            let chunks = instance.chunks.len() as u32;
            // Skip chunks that were issued early because another rank had begun them.
            while set.begun > 0
                && set.next_chunk < chunks
                && is_issued(instance.run(set.next_chunk, set.slot), &self.runs)
            {
                set.next_chunk += 1;
            }
            if set.next_chunk < chunks {
                let chunk = set.next_chunk;
                set.next_chunk += 1;
                if set.next_chunk == chunks {
                    self.scheduler(rank, scheduler).ready.pop();
                }
                self.issue_chunk(id, chunk);
                return true;
            }
            self.scheduler(rank, scheduler).ready.pop();
        }
        false
    }

    /// The run of a chunk at `slot`; created if it does not exist. The chunk must not be over at that slot.
    #[inline]
    pub(crate) fn run_of(&mut self, instance: Id<Instance>, chunk: u32, slot: u32) -> Id<ChunkRun> {
        match self.instances[instance].run(chunk, slot).under_way() {
            Some(run) => run,
            None => self.make_run(instance, chunk, slot),
        }
    }

    #[cold]
    fn make_run(&mut self, instance: Id<Instance>, chunk: u32, slot: u32) -> Id<ChunkRun> {
        let set_id = self.set_of(instance, slot);
        let set = &self.sets[set_id];
        let run = self.runs.insert(ChunkRun {
            phase: 0,
            stage: ChunkStage::Unissued,
            instance,
            plan: set.plan,
            chunk,
            rank: set.rank,
            set: set_id,
            first: 0,
            coordinate: 0,
            peers: None,
            lane: 0,
            streams_left: 0,
            streams: SmallVec::new(),
            receives: SmallVec::new(),
            extent: Extent::default(),
            last_sent: Time::ZERO,
            last_left: StretchId::START,
            purpose: Purpose::task(set.rank.0, 0),
            tally: Tally::default(),
            early: Vec::new(),
            unsent: 0,
            begun: 0,
            queue: 0,
            entered: self.now,
            reached: Moment::NONE,
        });
        let instance = &mut self.instances[instance];
        let size = instance.sets.len();
        let chunk = &mut instance.chunks[chunk as usize];
        if chunk.runs.is_empty() {
            chunk.runs = vec![Life::NOT_BEGUN; size];
        }
        chunk.runs[slot as usize] = run.into();
        run
    }

    /// Moves a chunk from a ready queue into its first phase.
    pub(crate) fn issue_chunk(&mut self, set_id: Id<CollectiveSet>, chunk: u32) {
        let set = &self.sets[set_id];
        let run = self.run_of(set.instance, chunk, set.slot);
        let set = &self.sets[set_id];
        let issue = set.issued.expect("only issued sets have chunks issued");
        let record = &mut self.instances[set.instance].record;
        record.ready_wait += u128::from(self.now.saturating_sub(issue.time).0);
        record.chunks += 1;
        let (rank, scheduler) = (set.rank, set.scheduler);
        self.scheduler(rank, scheduler).first_phase += 1;
        // Room for the chunk may become free before its collective is issued.
        let event = self.after;
        self.after = self.calendar.trail.meet(event, self.now, issue.moment);
        self.enter_phase(run);
        self.after = event;
    }

    /// Moves a run to the next phase that its rank takes part in, starting with the run's current phase number. If
    /// there is none, ends the chunk.
    fn enter_phase(&mut self, run_id: Id<ChunkRun>) {
        let run = &self.runs[run_id];
        let set_id = run.set;
        let set = &self.sets[set_id];
        let (rank, position, slot, scheduler) = (set.rank, set.position, set.slot, set.scheduler);
        let phases = &self.job.plans[set.plan.index()].phases;
        let first = usize::from(run.phase);
        let next =
            (first..phases.len()).find(|&phase| phases[phase].takes_part(position)).unwrap_or(phases.len());
        if first == 0 && next > 0 {
            let left = self.calendar.trail.moment(self.after, self.now);
            let scheduler = self.scheduler(rank, scheduler);
            scheduler.first_phase -= 1;
            scheduler.left_first = left;
        }
        let run = &mut self.runs[run_id];
        run.phase = next as u8;
        if next < phases.len() {
            self.enqueue(run_id);
            return;
        }
        let (chunk, instance) = (run.chunk, run.instance);
        self.runs.remove(run_id);
        let chunk = &mut self.instances[instance].chunks[chunk as usize];
        chunk.runs[slot as usize] = Life::OVER;
        chunk.left -= 1;
        if chunk.left == 0 {
            (chunk.runs, chunk.begun) = Default::default();
        }
        let set = &mut self.sets[set_id];
        self.after = self.calendar.trail.meet(self.after, self.now, set.reached);
        set.reached = self.calendar.trail.moment(self.after, self.now);
        set.left -= 1;
        let over = set.left == 0;
        if over {
            self.set_done(set_id);
        }
    }

    /// Puts a run into the scheduling queue of its phase, and starts it if limits allow.
    fn enqueue(&mut self, run_id: Id<ChunkRun>) {
        let phase = self.phase(run_id);
        let run = &self.runs[run_id];
        let set = &self.sets[run.set];
        let instance = &self.instances[run.instance];
        let chunks = instance.chunks.len() as u32;
        let dim = usize::from(phase.dim);
        let lanes = self.job.dims[dim];
        // All ranks of the group compute the same lane.
        let lane =
            instance.sequence.wrapping_mul(chunks).wrapping_add(run.chunk) % lanes.queues_of(phase.kind);
        let queue = self.first_queue[dim] + u32::from(phase.leg) * lanes.queues + lane;
        let begun_elsewhere = run.begun >> run.phase & 1 == 1;
        let (rank, scheduler) = (set.rank, set.scheduler);
        let (priority, sequence) = (set.priority, instance.sequence);
        let queued = QueuedRun { priority, sequence, chunk: run.chunk, run: run_id };
        let run = &mut self.runs[run_id];
        run.entered = self.now;
        run.reached = self.calendar.trail.moment(self.after, self.now);
        run.stage = ChunkStage::Waiting;
        run.lane = lane;
        run.queue = queue;
        let unlimited = self.job.schedule.outstanding.is_none();
        if begun_elsewhere || unlimited && self.has_room(rank, scheduler as usize, queue, dim) {
            self.start(run_id);
            return;
        }
        self.scheduler(rank, scheduler).queues[queue as usize].waiting.insert(queued);
        // The room that this chunk has just freed may now go to another chunk.
        if !unlimited {
            self.fill(rank, scheduler, dim);
        }
    }

    fn has_room(&self, rank: RankIndex, scheduler: usize, queue: u32, dim: usize) -> bool {
        let state = &self.ranks[rank.index()];
        let running = state.schedulers[scheduler].queues[queue as usize].running;
        is_below(running, self.job.schedule.active_chunks)
            && is_below(state.running[dim], self.job.schedule.outstanding)
    }

    /// The number of ranks on the line through `slot` that have begun a phase of a chunk.
    fn begun(&mut self, instance: Id<Instance>, chunk: u32, phase: u8, slot: u32) -> &mut u32 {
        let instance = &mut self.instances[instance];
        let slots = instance.sets.len() as u32;
        let all = self.quotient.lines(instance.record.plan);
        let lines = |phases: &[SlotLine]| phases.iter().map(|line| slots / line.size).sum::<u32>();
        let (before, axis) = (lines(&all[..usize::from(phase)]), &all[usize::from(phase)]);
        // Slots on one line have the same coordinates below and above the axis.
        let line = slot / (axis.weight * axis.size) * axis.weight + slot % axis.weight;
        let begun = &mut instance.chunks[chunk as usize].begun;
        if begun.is_empty() {
            begun.resize(lines(all) as usize, 0);
        }
        &mut begun[(before + line) as usize]
    }

    /// Counts a rank on the line along the phase's axis as begun. The first one notifies the others.
    fn tell_begun(&mut self, run_id: Id<ChunkRun>) {
        let run = &self.runs[run_id];
        let set = &self.sets[run.set];
        let (instance, chunk, phase, position, slot) =
            (run.instance, run.chunk, run.phase, set.position, set.slot);
        let begun = self.begun(instance, chunk, phase, slot);
        *begun += 1;
        if *begun == 1 {
            let instance = &self.instances[instance];
            let (role, group, sequence) = (instance.record.role, instance.record.group, instance.sequence);
            // Earlier notifications of this time are handled first, even if they caused this one. Otherwise symmetric
            // ranks would be notified in different orders.
            let order = self.keys.order(instance.number, chunk, phase);
            let key = self.keys.in_generation(self.generation, order);
            let after = self.after;
            let id =
                self.to_tell.insert(Begun { role, group, sequence, chunk, phase, position, slot, after });
            self.calendar.at(self.now, EventKind::Admit as u8, key, id.number(), 0);
        }
    }

    /// The other ranks along the phase's axis begin the phase now, or when they reach it.
    pub(crate) fn admit_begun(&mut self, id: Id<Begun>) {
        let Begun { role, group, sequence, chunk, phase: phase_index, position, slot, after } =
            self.to_tell[id];
        self.after = after;
        self.to_tell.remove(id);
        let Some(instance) = self.instance_under_way(role, group, sequence) else { return };
        let plan = self.instances[instance].record.plan;
        let phase = &self.job.plans[plan.index()].phases[usize::from(phase_index)];
        if self.instances[instance].chunks[chunk as usize].left == 0
            || *self.begun(instance, chunk, phase_index, slot) == self.quotient.line(plan, phase_index).size
        {
            return;
        }
        let here = phase.coordinate(position);
        for there in (0..phase.axis.size).filter(|&there| there != here) {
            let other = position + there * phase.axis.weight - here * phase.axis.weight;
            let other = self.quotient.slot(role, other);
            // Ranks of one slot begin together.
            if other == slot || self.instances[instance].run(chunk, other).is_over() {
                continue;
            }
            let run_id = self.run_of(instance, chunk, other);
            let run = &mut self.runs[run_id];
            let (set_id, rank) = (run.set, run.rank);
            self.sets[set_id].begun += u32::from(run.begun == 0);
            // Earlier phases too: the ranks that have begun this phase wait for this rank to finish those.
            run.begun |= u64::MAX >> (u64::BITS - 1 - u32::from(phase_index));
            match run.stage {
                ChunkStage::Waiting if run.phase <= phase_index => self.start_waiting(run_id),
                ChunkStage::Unissued if self.sets[set_id].active => self.issue_chunk(set_id, chunk),
                ChunkStage::Unissued if self.sets[set_id].issued.is_some() => {
                    self.ranks[rank.index()].held.retain(|Reverse(held)| held.set != set_id);
                    self.activate(set_id);
                }
                _ => {}
            }
        }
    }

    /// Begins the phase of a run that has waited for its turn and for the current event.
    fn start(&mut self, run_id: Id<ChunkRun>) {
        let now = self.after;
        self.begin_phase(run_id);
        self.after = now;
    }

    fn begin_phase(&mut self, run_id: Id<ChunkRun>) {
        let phase = self.phase(run_id);
        let dim = usize::from(phase.dim);
        let run = &mut self.runs[run_id];
        let set = &self.sets[run.set];
        let plan = &self.job.plans[set.plan.index()];
        run.stage = ChunkStage::Running;
        run.extent = phase.extent(plan.chunks[run.chunk as usize], set.position);
        run.coordinate = phase.coordinate(set.position);
        run.first = set.position - run.coordinate * phase.axis.weight;
        let instance = &mut self.instances[set.instance];
        let role = &self.job.workload.roles[instance.record.role.index()];
        run.peers = role.line(self.quotient.rank(set.rank).0, phase.axis.weight, phase.axis.size);
        run.streams.clear();
        run.streams.resize(phase.streams as usize, Stream::default());
        run.streams_left = phase.streams;
        let waited = self.now.saturating_sub(run.entered);
        run.entered = self.now;
        let task = set.issued.map_or(0, |issue| issue.at.task);
        run.purpose = Purpose::phase(set.rank.0, task, instance.visit, phase.dim);
        let record = &mut instance.record.phases[usize::from(run.phase)];
        record.queue_wait += u128::from(waited.0);
        record.chunks += 1;
        let rank = &mut self.ranks[set.rank.index()];
        let queue = &mut rank.schedulers[set.scheduler as usize].queues[run.queue as usize];
        queue.running += 1;
        self.after = self.calendar.trail.meet(self.after, self.now, run.reached);
        if self.job.schedule.active_chunks.is_some_and(|most| queue.running == most.get()) {
            self.after = self.calendar.trail.meet(self.after, self.now, queue.freed);
        }
        rank.running[dim] += 1;
        let dim = &mut self.record.dims[dim];
        if dim.running == 0 {
            dim.since = self.now;
        }
        dim.running += 1;

        if self.limited {
            self.tell_begun(run_id);
        }
        for stream in 0..phase.streams {
            self.advance(run_id, stream);
        }
    }

    /// A run's program has ended. The run leaves its phase when its last send has left.
    pub(crate) fn program_ended(&mut self, run_id: Id<ChunkRun>) {
        let run = &mut self.runs[run_id];
        let trail = &mut self.calendar.trail;
        if run.stage != ChunkStage::Leaving {
            run.stage = ChunkStage::Leaving;
            run.reached = trail.moment(self.after, self.now);
        }
        if run.unsent > 0 {
            return;
        }
        if run.last_sent > self.now {
            let key = self.keys.order(self.instances[run.instance].number, run.chunk, run.phase);
            self.calendar.at(run.last_sent, EventKind::PhaseEnd as u8, key, run_id.number(), 0);
        } else {
            let sent = trail.moment(run.last_left, run.last_sent);
            let after = trail.meet(self.after, self.now, run.reached);
            self.ended.push_back(EndedRun { run: run_id, after: trail.meet(after, self.now, sent) });
        }
    }

    pub(crate) fn end_phase(&mut self, run_id: Id<ChunkRun>) {
        let phase = self.phase(run_id);
        let dim = usize::from(phase.dim);
        let run = &mut self.runs[run_id];
        let set = &self.sets[run.set];
        let (rank, scheduler) = (set.rank, set.scheduler);
        let (queue, was_first) = (run.queue, run.phase == 0);
        let mark = Mark {
            rank,
            track: Track::Dimension(phase.dim),
            start: run.entered,
            end: self.now,
            label: Label::Chunk { kind: phase.kind, layer: self.instances[set.instance].record.layer },
            bytes: 0,
        };
        let tally = std::mem::take(&mut run.tally);
        let row = &mut self.record.ranks[rank.index()];
        row.sent += tally.sent;
        row.received += tally.received;
        let sums = &mut self.instances[set.instance].record.phases[usize::from(run.phase)];
        sums.messages += u64::from(tally.messages);
        sums.bytes += tally.received;
        sums.network_delay += u128::from(tally.network_delay);
        sums.reduction += u128::from(tally.reduction);
        let state = &mut self.ranks[rank.index()];
        state.running[dim] -= 1;
        let own = &mut state.schedulers[scheduler as usize];
        own.queues[queue as usize].running -= 1;
        let left = self.calendar.trail.moment(self.after, self.now);
        own.queues[queue as usize].freed = left;
        if was_first {
            own.first_phase -= 1;
            own.left_first = left;
        }
        let active = &mut self.record.dims[dim];
        active.running -= 1;
        if active.running == 0 {
            active.active += self.now.saturating_sub(active.since);
        }
        run.phase += 1;
        run.last_sent = Time::ZERO;
        self.tracer.mark(mark);
        // Chunks that get its room follow the end of this chunk's phase, not the end of its collective.
        let event = self.after;
        self.enter_phase(run_id);
        self.after = event;
        self.fill(rank, scheduler, dim);
        if was_first {
            self.admit(rank, scheduler);
        }
    }

    /// Starts chunks that wait in a scheduler's queues of a dimension, as far as there is room. With a limit on the
    /// chunks of the dimension (`outstanding`), the chunk that goes first is chosen among the queues of all
    /// schedulers.
    fn fill(&mut self, rank: RankIndex, scheduler: u32, dim: usize) {
        let first = self.first_queue[dim];
        let queues = first..first + 2 * self.job.dims[dim].queues;
        if self.job.schedule.outstanding.is_some() {
            while let Some(first) = self.goes_first(rank, dim, queues.clone()) {
                self.scheduler(rank, first.scheduler).queues[first.queue as usize].waiting.pop_first();
                self.start(first.queued.run);
            }
            return;
        }
        for queue in queues {
            while self.has_room(rank, scheduler as usize, queue, dim) {
                let waiting = &mut self.scheduler(rank, scheduler).queues[queue as usize].waiting;
                let Some(first) = waiting.pop_first() else { break };
                self.start(first.run);
            }
        }
    }

    /// The run that goes first, among the queues of a dimension that have room.
    fn goes_first(&self, rank: RankIndex, dim: usize, queues: Range<u32>) -> Option<NextRun> {
        let state = &self.ranks[rank.index()];
        if !is_below(state.running[dim], self.job.schedule.outstanding) {
            return None;
        }
        let of_scheduler = |(number, scheduler): (usize, &'_ Scheduler)| {
            let first = |queue: u32| {
                let &queued = scheduler.queues[queue as usize].waiting.first()?;
                Some(NextRun { queued, scheduler: number as u32, queue })
            };
            queues.clone().filter(|&queue| self.has_room(rank, number, queue, dim)).filter_map(first).min()
        };
        state.schedulers.iter().enumerate().filter_map(of_scheduler).min()
    }

    fn set_done(&mut self, id: Id<CollectiveSet>) {
        let set = &self.sets[id];
        let (rank, slot, instance, scheduler) = (set.rank, set.slot, set.instance, set.scheduler);
        let was_active = set.active;
        if was_active && (set.next_chunk as usize) < self.job.plans[set.plan.index()].chunks.len() {
            // Other ranks began all its chunks before their turn. Its number may be reused.
            self.scheduler(rank, scheduler).ready.retain(|Reverse(ready)| ready.set != id);
        }
        let Issue { at, time: issued, .. } = self.sets[id].issued.expect("a set that is done was issued");
        self.sets.remove(id);
        self.instances[instance].sets[slot as usize] = Life::OVER;

        let duration = self.now.saturating_sub(issued);
        let slots = self.instances[instance].sets.len() as u32;
        let row = &mut self.instances[instance].record;
        row.duration_sum += u128::from(duration.0);
        row.finish = row.finish.max(self.now);
        row.ranks_done += 1;
        let all = row.ranks_done == slots;
        let (last_issue, role) = (row.last_issue, row.role);
        let bytes = self.job.plans[row.plan.index()].bytes.0;
        let layer = self.layer(rank, at.task);
        let part = self.task(rank, at.task).part as usize;
        self.record.layers[layer].communication[part] += u128::from(duration.0);
        self.record.layers[layer].bytes += u128::from(bytes);
        let class = self.ranks[rank.index()].class;
        let label = Label::Task { class, task: at.task };
        self.tracer.mark(Mark {
            rank,
            track: Track::Communication,
            start: issued,
            end: self.now,
            label,
            bytes,
        });
        if all {
            self.instance_done(instance);
        }
        self.communication_done(rank, at, Waits { since: issued, ready: last_issue, role: Some(role) });

        if was_active {
            let over = self.after;
            self.ranks[rank.index()].active_sets -= 1;
            while is_below(self.ranks[rank.index()].active_sets, self.job.schedule.concurrent) {
                let Some(Reverse(QueuedSet { set: next, .. })) = self.ranks[rank.index()].held.pop() else {
                    break;
                };
                self.after = self.calendar.trail.meet(over, self.now, self.sets[next].reached);
                self.activate(next);
            }
        }
    }

    fn instance_done(&mut self, id: Id<Instance>) {
        let instance = &mut self.instances[id];
        let (mut record, sequence) = (instance.record.clone(), instance.sequence);
        let slots = instance.sets.len() as u32;
        (instance.sets, instance.chunks) = Default::default();
        self.instances.remove(id);
        let window = &mut self.windows[record.role.index()][record.group as usize];
        window.instances[(sequence - window.base) as usize] = Life::OVER;
        while window.instances.front().is_some_and(|first| first.is_over()) {
            window.instances.pop_front();
            window.base += 1;
        }
        self.check_collective(&record);
        record.multiply(self.job.workload.roles[record.role.index()].size() / slots);
        self.record.finished(record);
    }
}

/// Whether a chunk has left the ready queue.
fn is_issued(run: Life<ChunkRun>, runs: &Slab<ChunkRun>) -> bool {
    match run.status() {
        Status::NotBegun => false,
        Status::UnderWay(run) => runs[run].stage != ChunkStage::Unissued,
        Status::Over => true,
    }
}

/// Whether a limit allows more than this many.
fn is_below(number: u32, limit: Option<NonZeroU32>) -> bool {
    limit.is_none_or(|limit| number < limit.get())
}
