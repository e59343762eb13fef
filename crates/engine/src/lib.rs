//! The engine: executes task graphs and collective plans event by event, with any network model.
//!
//! In reading order:
//!
//! - [`job`]: the input: a workload with durations and plans, and how endpoints schedule;
//! - [`Engine`]: the run loop. Its parts are `event` (kinds of events), [`keys`] (of events), `tasks` (task graphs and
//!   compute), `numbers` (of collectives), `sets` (the endpoint: chunks and scheduling queues), `programs` (plans,
//!   instruction by instruction), `quotient` (which ranks stand for others), `steady` (which iterations are skipped
//!   because they repeat), `slow` (ranks that compute slower), `jitter` (late starts and varying compute times),
//!   `checks` (of results) and `deadlock` (which rank waits for what);
//! - [`record`]: the results.
//!
//! `net-api` holds the calendar and the interface of network models; `critical-path` records what waited for what.
//!
//! In the engine an iteration is a micro-batch: a training step consists of
//! [`micro_batches`](syncline_workload::Workload::micro_batches) of them, usually one. Reports to users count steps.
//!
//! The engine reads no clock and no file. Its caller decides about limits and interruptions between steps.

mod checks;
mod deadlock;
mod event;
mod jitter;
pub mod job;
mod joins;
pub mod keys;
mod numbers;
mod prefetch;
mod programs;
mod quotient;
pub mod record;
mod relief;
mod sets;
mod slab;
mod slow;
mod state;
mod steady;
mod tasks;
mod waits;

pub use jitter::Jitter;
pub use job::{
    CollectivePlan, GroupAxis, Job, Lanes, Pace, PhasePlan, PlanId, QueueOrder, Schedule, Schedulers,
    SendPace, roles_of_plans,
};
pub use record::Record;
pub use slow::{Slowdown, Slowdowns};

use event::EventKind;
use keys::Keys;
use numbers::{ClassIndex, Numbers};
use prefetch::prefetch;
use quotient::{Quotient, RankIndex};
use record::{DimRecord, Label, LayerRecord, RankRecord, Tracer};
use slab::{Id, Slab};
use state::{
    Begun, Cause, ChunkRun, CollectiveSet, EndedRun, Instance, LeavingSend, Membership, Message, MessageOf,
    PointToPoint, Rank, RunningTask, Scheduler, StartableTask, Waits, Window,
};
use std::collections::VecDeque;
use steady::Steady;
use syncline_critical_path::{StretchId, Trail, Watched, watched, watched_by_path};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_net_api::{Activity, Calendar, Call, NetworkModel};
pub use syncline_timeline::Ended;
use syncline_units::{RankId, Time};
use syncline_workload::{GroupPosition, Part, RoleId, TaskKind};

/// A run in progress.
pub struct Engine<'a, N> {
    job: &'a Job<'a>,
    quotient: Quotient<'a>,
    network: N,
    calendar: Calendar,
    now: Time,
    classes: Vec<ClassIndex>,
    numbers: Numbers,
    keys: Keys,
    /// Index of the first queue of each accounting dimension in a scheduler. Each dimension has two legs.
    first_queue: Vec<u32>,
    ranks: Vec<Rank>,
    sets: Slab<CollectiveSet>,
    runs: Slab<ChunkRun>,
    messages: Slab<Message>,
    /// Send tasks whose message has not left.
    leaving: Slab<LeavingSend>,
    /// Messages that belong to no collective.
    point_to_point: Slab<PointToPoint>,
    instances: Slab<Instance>,
    /// How many rounds of [`EventKind::Admit`] have been handled at this time.
    generation: u8,
    /// Phases that one rank has begun and the other ranks have not been notified of yet.
    to_tell: Slab<Begun>,
    /// By role and group.
    windows: Vec<Vec<Window>>,
    /// Whether ranks compute, by class of ranks.
    computes: Vec<bool>,
    /// Tasks that may start now.
    startable: VecDeque<StartableTask>,
    /// Runs whose program has ended.
    ended: VecDeque<EndedRun>,
    /// Ranks whose compute or memory unit may start its next task.
    to_start: VecDeque<RankIndex>,
    record: Record,
    tracer: Tracer,
    /// When each rank's compute was busy.
    activity: Activity,
    /// The stretch of the critical path that the present event ends.
    after: StretchId,
    watched: Watched,
    unfinished: u32,
    /// Whether endpoints have limits, so that ranks may begin different chunks.
    limited: bool,
    /// Whether a phase of any plan has a [`Pace`](job::Pace).
    paced: bool,
    failure: Option<Diagnostic>,
    /// Whether rank 0 is still in the iterations that are watched for activity or the critical path.
    watching: bool,
    /// Rank 0 has opened an iteration, and the events of that time are not all done.
    boundary: bool,
    steady: Steady,
}

/// The memberships of `rank` in groups, by role, and its number of schedulers. `scheduled` says which roles have collectives.
fn memberships(
    job: &Job<'_>,
    quotient: &Quotient<'_>,
    scheduled: &[bool],
    rank: RankId,
) -> (Vec<Option<Membership>>, u32) {
    let mut schedulers = 0;
    let mut membership = |role: RoleId, GroupPosition { group, position }| {
        let scheduler = match job.schedule.schedulers {
            Schedulers::PerGroup if scheduled[role.index()] => schedulers,
            Schedulers::PerGroup | Schedulers::PerRank => 0,
        };
        if scheduled[role.index()] {
            schedulers = schedulers.max(scheduler + 1);
        }
        Membership { group, slot: quotient.slot(role, position), scheduler }
    };
    let roles = (0..).map(RoleId).zip(&job.workload.roles);
    let memberships = roles.map(|(id, role)| role.position_of(rank.0).map(|at| membership(id, at))).collect();
    (memberships, schedulers)
}

/// Why [`Engine::step`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// There are more events to handle.
    More,
    /// Every rank has finished.
    Finished,
    /// The next event is after the limit on simulated time.
    TimeLimit,
}

impl<'a, N: NetworkModel> Engine<'a, N> {
    /// Sets up a job at time zero.
    pub fn new(job: &'a Job<'a>, network: N) -> Self {
        let workload = job.workload;
        let classes: Vec<ClassIndex> =
            workload.classes.iter().map(|graph| ClassIndex::new(graph, workload.roles.len())).collect();
        let mut first_queue = Vec::new();
        let mut queues = 0;
        for dim in &job.dims {
            first_queue.push(queues);
            queues += 2 * dim.queues;
        }
        let quotient = Quotient::new(job);
        let scheduled = workload.with_collectives();
        let mut traced: Vec<RankIndex> = job.traced.iter().map(|&rank| quotient.index(rank)).collect();
        traced.sort_unstable();
        traced.dedup();
        let count = quotient.ranks(workload.ranks);
        let ranks = (0..count)
            .map(|index| {
                let rank = quotient.rank(RankIndex(index));
                let class = workload.class_of(rank.0);
                let graph = &workload.classes[class as usize];
                let (memberships, schedulers) = memberships(job, &quotient, &scheduled, rank);
                Rank {
                    class,
                    tasks_left: graph.tasks.len() as u64 * u64::from(graph.iterations),
                    memberships,
                    schedulers: (0..schedulers).map(|_| Scheduler::new(queues)).collect(),
                    running: vec![0; job.dims.len()],
                    ..Rank::default()
                }
            })
            .collect();
        let calendar =
            Calendar::new(job.schedule.endpoint_delay.saturating_add(job.schedule.injection_latency));
        let record = Record {
            layers: vec![LayerRecord::default(); workload.layers.len() + 1],
            ranks: vec![RankRecord::default(); count as usize],
            dims: vec![DimRecord::default(); job.dims.len()],
            axes: vec![0; workload.roles.len() + 1],
            ..Record::default()
        };
        let windows = workload
            .roles
            .iter()
            .map(|role| (0..role.groups()).map(|_| Window::default()).collect())
            .collect();
        let mut calendar = calendar;
        calendar.trail = Trail::writing(network.tiers());
        let watched = Watched {
            iterations: watched_by_path(workload.micro_batches()),
            computed: vec![Time::ZERO; count as usize],
            ..Watched::default()
        };
        let settled = job.starts.iter().copied().max().unwrap_or_default().max(job.slow.settled());
        let off = !job.repeat || job.jitter.varies() || network.repeats().is_none();
        let steady = Steady::new(off, settled);
        let mut engine = Self {
            job,
            quotient,
            network,
            calendar,
            now: Time::ZERO,
            numbers: Numbers::new(&classes, workload.roles.len(), workload.micro_batches()),
            keys: Keys::new(&job.plans),
            classes,
            first_queue,
            ranks,
            sets: Slab::default(),
            runs: Slab::default(),
            messages: Slab::default(),
            leaving: Slab::default(),
            point_to_point: Slab::default(),
            instances: Slab::default(),
            generation: 0,
            to_tell: Slab::default(),
            windows,
            computes: workload.classes.iter().map(waits::computes).collect(),
            startable: VecDeque::new(),
            ended: VecDeque::new(),
            to_start: VecDeque::new(),
            record,
            tracer: Tracer { ranks: traced, max: job.max_spans, ..Tracer::default() },
            activity: Activity::new(count as usize),
            after: StretchId::START,
            watched,
            unfinished: 0,
            limited: job.schedule.is_limited(),
            paced: job.plans.iter().flat_map(|plan| &plan.phases).any(|phase| phase.pace.is_some()),
            failure: None,
            watching: true,
            boundary: false,
            steady,
        };
        for rank in engine.rank_indices() {
            if engine.ranks[rank.index()].tasks_left > 0 {
                engine.unfinished += 1;
                match job.starts.get(engine.quotient.rank(rank).index()).copied().unwrap_or_default() {
                    Time::ZERO => engine.open_iteration(rank, Cause::Start),
                    start => {
                        // A rank waits for nothing before its job begins.
                        engine.ranks[rank.index()].compute.idle_since = start;
                        engine.calendar.at(start, EventKind::Begin as u8, u64::from(rank.0), rank.0, 0);
                    }
                }
            }
        }
        engine.settle();
        engine
    }

    /// Handles up to `events` events, none of them after `until`.
    ///
    /// # Errors
    /// A deadlock report, or a result that failed a check.
    pub fn step(&mut self, events: u64, until: Time) -> Result<StepOutcome> {
        for _ in 0..events {
            if self.failure.is_some() || self.calendar.overflow {
                return self.checked(StepOutcome::More);
            }
            // Nobody waits for what the network still does, such as acknowledging.
            if self.unfinished == 0 {
                return self.checked(StepOutcome::Finished);
            }
            let Some(time) = self.calendar.next_time() else {
                if self.relieve() {
                    self.settle();
                    continue;
                }
                return Err(self.network.refusal().unwrap_or_else(|| self.deadlock()).into());
            };
            if time > self.now && self.watching {
                self.stop_what_is_past();
            }
            if self.calendar.trail.is_full() {
                self.collect();
            }
            if time > self.now && self.boundary {
                self.boundary = false;
                self.look_back(until);
                continue;
            }
            if time > until {
                self.now = until;
                return self.checked(StepOutcome::TimeLimit);
            }
            self.calendar.limit = until;
            let event = self.calendar.pop().expect("there is a next event");
            if event.time > self.now {
                self.generation = 0;
            }
            self.now = event.time;
            self.record.events += 1;
            self.read_ahead();
            match EventKind::of(&event) {
                EventKind::Network | EventKind::NetworkLast => {
                    let call = Call { subject: event.subject, detail: event.detail };
                    self.network.call(self.now, call, &mut self.calendar);
                }
                EventKind::Deliver => self.deliver(Id::new(event.subject)),
                EventKind::Reduced => self.reduced(Id::new(event.subject), event.detail),
                EventKind::PhaseEnd => {
                    let run = Id::new(event.subject);
                    let ChunkRun { last_left, reached, .. } = self.runs[run];
                    self.after = self.calendar.trail.meet(last_left, self.now, reached);
                    self.end_phase(run);
                }
                EventKind::ComputeDone => self.compute_done(RankIndex(event.subject)),
                EventKind::MemoryDone => self.memory_done(RankIndex(event.subject)),
                EventKind::Inject => self.inject(Id::new(event.subject)),
                EventKind::Left => self.has_left(Id::new(event.subject)),
                EventKind::Admit => {
                    self.generation = keys::generation(event.key()).saturating_add(1);
                    self.admit_begun(Id::new(event.subject));
                }
                EventKind::Begin => {
                    self.after = StretchId::START;
                    self.open_iteration(RankIndex(event.subject), Cause::Start);
                }
                EventKind::Sent => {
                    let id = Id::new(event.subject);
                    let LeavingSend { rank, at, stretch } = self.leaving[id];
                    self.leaving.remove(id);
                    self.after = stretch;
                    let now = self.now;
                    self.communication_done(rank, at, Waits { since: now, ready: Time::ZERO, role: None });
                }
            }
            self.settle();
        }
        self.checked(StepOutcome::More)
    }

    /// Prefetches the state that coming events need. In a large job each event is about another rank, whose state is
    /// not in a near cache.
    #[inline]
    fn read_ahead(&self) {
        if let Some(event) = self.calendar.peek(24).filter(|event| EventKind::of(event) == EventKind::Deliver)
        {
            prefetch(&self.messages[Id::new(event.subject)]);
        }
        let Some(event) = self.calendar.peek(12) else { return };
        let run = match EventKind::of(event) {
            EventKind::Deliver => match self.messages[Id::new(event.subject)].of {
                MessageOf::Collective { target, .. } => target,
                MessageOf::PointToPoint(_) => return,
            },
            EventKind::Reduced | EventKind::PhaseEnd => Id::new(event.subject),
            _ => return,
        };
        prefetch(&self.runs[run]);
    }

    /// Does everything that takes no time. Units pick their next tasks last, from everything that the event has made
    /// ready.
    fn settle(&mut self) {
        loop {
            if let Some(StartableTask { rank, at, cause, after }) = self.startable.pop_front() {
                self.after = after;
                self.start_task(rank, at, cause);
            } else if let Some(EndedRun { run, after }) = self.ended.pop_front() {
                self.after = after;
                self.end_phase(run);
            } else if let Some(rank) = self.to_start.pop_front() {
                self.start_units(rank);
            } else {
                return;
            }
        }
    }

    fn checked(&mut self, step: StepOutcome) -> Result<StepOutcome> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        if self.calendar.overflow {
            return Err(Diagnostic::error(
                Code::Overflow,
                "simulated time exceeds what 64-bit picoseconds can hold",
            )
            .help("raise the rates or reduce the sizes: a step of this job would take months")
            .into());
        }
        Ok(step)
    }

    /// The simulated time.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.record.events + self.network.events()
    }
    /// Messages delivered so far.
    pub fn messages(&self) -> u64 {
        self.record.messages * u64::from(self.quotient.members())
    }
    /// Tasks done so far, over all ranks and iterations.
    pub fn tasks_done(&self) -> u64 {
        self.record.tasks_done * u64::from(self.quotient.members())
    }
    /// Messages, chunks and sets that exist now. Memory use is proportional to them.
    pub fn alive(&self) -> [usize; 3] {
        [self.messages.len(), self.runs.len(), self.sets.len()]
    }

    /// Ends the run, after [`StepOutcome::Finished`] or early.
    ///
    /// # Errors
    /// Results that failed a check.
    pub fn finish(mut self, ended: Ended) -> Result<(Record, N)> {
        self.record.ended = ended;
        self.record.finish = match ended {
            Ended::Finished => self.record.ranks.iter().map(|rank| rank.finish).max().unwrap_or_default(),
            _ => self.now,
        };
        // A rank drops its iterations in order, as they are done.
        let working = self.ranks.iter().filter(|rank| rank.opened > 0);
        let done = working.map(|rank| rank.first_iteration).min().unwrap_or(0);
        let micro_batches = self.job.workload.micro_batches();
        (self.record.iterations_done, self.record.micro_batches_done) = (done / micro_batches, done);
        self.record.events += self.network.events();
        self.network.cut(self.record.finish);
        if ended != Ended::Finished {
            self.close_early();
        }
        let (whole, finish) = (self.watching, self.record.finish);
        self.stop_watching(finish);
        self.stop_path();
        self.activity.align(self.network.activity());
        self.record.slices = self.activity.slices(whole && ended == Ended::Finished);
        self.record.computing =
            (0..self.record.ranks.len()).map(|rank| self.activity.row(rank).to_vec()).collect();
        self.record.path = std::mem::take(&mut self.watched.found);
        for dim in 0..self.record.dims.len() {
            if self.record.dims[dim].running > 0 {
                let since = self.record.dims[dim].since;
                self.record.dims[dim].active += self.record.finish.saturating_sub(since);
            }
        }
        let found: Diagnostics = self.check_results();
        found.into_result()?;
        self.record.multiply(self.quotient.members());
        self.record.iterations_repeated = self.steady.skipped_steps;
        self.record.micro_batches_repeated = self.steady.skipped;
        let job = self.job;
        let number = |rank| self.quotient.rank(rank);
        self.record.spans = self.tracer.spans(|label| label_text(job, label), number);
        self.quotient.copy_spans(job, &mut self.record.spans);
        Ok((self.record, self.network))
    }

    /// The indices of all simulated ranks.
    fn rank_indices(&self) -> impl Iterator<Item = RankIndex> + use<N> {
        (0..self.ranks.len() as u32).map(RankIndex)
    }

    /// Stops watching the first iterations once rank 0 is done with them, if it has more.
    #[inline]
    fn stop_what_is_past(&mut self) {
        let Rank { first_iteration, tasks_left, .. } = self.ranks[0];
        let micro_batches = self.job.workload.micro_batches();
        if tasks_left == 0 || first_iteration < watched(micro_batches) {
            return;
        }
        if !self.activity.is_stopped() {
            self.stop_watching(self.now);
        }
        if first_iteration >= self.watched.iterations {
            self.stop_path();
            self.watching = false;
        }
    }

    /// Stops recording activity.
    #[cold]
    fn stop_watching(&mut self, now: Time) {
        let ranks = self.ranks.iter_mut().map(|rank| &mut rank.compute.recent);
        self.activity.stop(now, ranks);
        self.network.stop_activity(now);
    }

    /// Finds the critical path of the watched iterations.
    #[cold]
    fn stop_path(&mut self) {
        if !self.calendar.trail.is_on() {
            return;
        }
        let number = |index| self.quotient.rank(RankIndex(index));
        self.watched.found = self.watched.path(&self.calendar.trail, &number);
        self.calendar.trail.stop();
        self.watched.iterations = 0;
    }

    /// Drops stretches that nothing refers to.
    #[cold]
    fn collect(&mut self) {
        let mut trail = std::mem::take(&mut self.calendar.trail);
        trail.collect(|visit| {
            visit(&mut self.after);
            self.watched.last.iter_mut().for_each(|last| visit(&mut last.stretch));
            self.ranks.iter_mut().for_each(|rank| rank.visit(visit));
            self.sets.slots_mut().for_each(|set| set.visit(visit));
            self.runs.slots_mut().for_each(|run| run.visit(visit));
            self.messages.slots_mut().for_each(|message| visit(&mut message.after));
            self.leaving.slots_mut().for_each(|leaving| visit(&mut leaving.stretch));
            self.to_tell.slots_mut().for_each(|begun| visit(&mut begun.after));
            self.network.visit_stretches(visit);
        });
        self.calendar.trail = trail;
    }

    /// Books work that is under way when a run stops early.
    fn close_early(&mut self) {
        let now = self.now;
        // Spans of sends extend to when the message will have left.
        for mark in &mut self.tracer.marks {
            mark.end = mark.end.min(now);
        }
        let under_way = self.windows.iter().flatten().flat_map(|window| &window.instances);
        let instances = under_way.filter_map(|life| life.under_way()).map(|id| &self.instances[id]);
        let runs = instances.flat_map(|instance| &instance.chunks).flat_map(|chunk| &chunk.runs);
        for run in runs.filter_map(|life| life.under_way()) {
            let ChunkRun { rank, tally, .. } = &self.runs[run];
            let row = &mut self.record.ranks[rank.index()];
            row.sent += tally.sent;
            row.received += tally.received;
        }
        for rank in self.rank_indices() {
            let state = &mut self.ranks[rank.index()];
            if state.tasks_left == 0 {
                continue;
            }
            let record = &mut self.record.ranks[rank.index()];
            record.finish = now;
            if state.communicating > 0 {
                record.communication += now.saturating_sub(state.communicating_since);
            }
            if let Some(RunningTask { at, start }) = state.compute.running {
                let layer = self.layer(rank, at.task);
                self.record.ranks[rank.index()].compute += now.saturating_sub(start);
                let part = self.task(rank, at.task).part as usize;
                self.record.layers[layer].compute[part] += u128::from(now.saturating_sub(start).0);
            } else {
                let idle = now.saturating_sub(state.compute.idle_since);
                if state.communicating > 0 {
                    record.exposed_communication += idle;
                }
            }
        }
    }
}

/// The name of a task.
pub fn task_name(job: &Job<'_>, rank: RankId, task: u32) -> String {
    label_text(job, Label::Task { class: job.workload.class_of(rank.0), task })
}

/// Joins the words that are not empty.
fn words(all: &[&str]) -> String {
    all.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

/// `what`, unless the layer's name begins with it. A workload of one collective names its layer after the collective.
fn unless_said<'a>(name: &str, what: &'a str) -> &'a str {
    if name.starts_with(what) { "" } else { what }
}

/// The text of a span's label.
fn label_text(job: &Job<'_>, label: Label) -> String {
    match label {
        Label::Task { class, task } => {
            let index = task;
            let task = &job.workload.classes[class as usize].tasks[task as usize];
            if !task.name.is_empty() {
                return task.name.clone();
            }
            let what = match task.kind {
                TaskKind::Collective { kind, .. } => kind.name(),
                TaskKind::Send { .. } => "send",
                TaskKind::Receive { .. } => "receive",
                _ => "",
            };
            let part = if task.part == Part::Other { "" } else { task.part.name() };
            match job.workload.layer_name(task.layer) {
                "" => words(&[&format!("task {index}"), what]),
                name => words(&[name, part, unless_said(name, what)]),
            }
        }
        Label::Chunk { kind, layer } => match job.workload.layer_name(layer) {
            "" => kind.name().to_owned(),
            name => words(&[name, unless_said(name, kind.name())]),
        },
        Label::Wait { layer } => match job.workload.layer_name(layer) {
            "" => "waits for communication".to_owned(),
            name => format!("waits for {name}"),
        },
    }
}
