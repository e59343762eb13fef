//! Refuses scenarios that are too large, naming what is too large, before memory or 64-bit counters run out.

use crate::plans::Plans;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_engine::{CollectivePlan, PhasePlan, Schedule, Schedulers};
use syncline_fabric::Symmetry;
use syncline_plan::program::{Op, Seat, program};
use syncline_scenario::{Fabric, Scenario};
use syncline_units::Bytes;
use syncline_workload::{TaskKind, Workload};

/// Largest number of rings, parallel links or switches of a dimension, and of scheduling queues of a phase.
const PARALLEL: u32 = 1 << 16;
/// Limit on the bytes of all collectives and messages of a job together. Well below 2^64, because plans send some bytes
/// several times.
const BYTES: u128 = 1 << 60;
/// Limit on the scheduling queues of all simulated ranks together, each of which takes memory.
const QUEUES: u64 = 1 << 26;

/// Simulating more ranks than this one by one gives a warning.
pub const MANY: u32 = 1 << 16;
/// More messages in a step than this give a warning: they take about 20 seconds.
const MANY_MESSAGES: f64 = 2e7;
/// More bytes of memory than this give a warning: it is what a small machine has.
const MUCH_MEMORY: f64 = 4e9;

/// Number of instructions of a program that are read to count the messages that a rank sends at once.
const LOOKED_AT: u32 = 1 << 16;
/// Jobs of fewer ranks give no warning: they never take long.
const FEW_RANKS: u32 = 64;
/// Number of chunks of a collective whose state [`RANK_BYTES`] includes.
const FEW_CHUNKS: u64 = 16;
/// Memory for each simulated rank, link, message in flight, further chunk, and task. Measured with all-reduces over one
/// to three dimensions, results included.
const RANK_BYTES: f64 = 8e3;
const LINK_BYTES: f64 = 1.3e3;
const MESSAGE_BYTES: f64 = 400.0;
const CHUNK_BYTES: f64 = 400.0;
const TASK_BYTES: f64 = 8.0;

/// Checks single numbers of the scenario.
pub fn numbers(scenario: &Scenario) -> Diagnostics {
    let mut errors = Diagnostics::new();
    let mut at_most = |key: String, found: u32, most: u32| {
        if found > most {
            errors.push(
                Diagnostic::error(Code::BadValue, "a number is too large")
                    .key(key)
                    .found(found.to_string())
                    .allowed(format!("at most {most}")),
            );
        }
    };
    if let Some(queues) = scenario.collectives.queues {
        at_most("collectives.queues".to_owned(), queues.get(), PARALLEL);
    }
    if let Fabric::Dims(dims) = &scenario.fabric {
        for (index, dim) in dims.iter().enumerate() {
            at_most(format!("fabric.dims.{index}.count"), dim.count, PARALLEL);
        }
    }
    errors
}

/// Checks that the counters of the results can hold the bytes of a job.
pub fn bytes(workload: &Workload) -> Diagnostics {
    let all = workload.sum(|graph| {
        let bytes = (0..).zip(&graph.tasks).map(|(index, task)| match task.kind {
            TaskKind::Collective { bytes, .. } | TaskKind::Send { bytes, .. } => {
                u128::from(bytes.0) * u128::from(graph.times_a_step(index))
            }
            _ => 0,
        });
        bytes.sum::<u128>().saturating_mul(u128::from(graph.iterations / graph.micro_batches))
    });
    if all <= BYTES {
        return Diagnostics::new();
    }
    Diagnostic::error(Code::BadWorkload, "the job moves more bytes than can be counted")
        .key("workload")
        .found(format!("{:.1e} B over all ranks and iterations", all as f64))
        .allowed(format!("{:.1e} B", BYTES as f64))
        .help("give fewer bytes, or simulate fewer iterations: later ones are like the first")
        .into()
}

/// Number of ranks that are simulated individually.
fn simulated(workload: &Workload, symmetry: &Symmetry) -> u32 {
    if symmetry.is_none() { workload.ranks } else { symmetry.classes() }
}

/// Estimated bytes of memory of a run: the part that grows with the fabric and the job.
fn estimate(workload: &Workload, symmetry: &Symmetry, plans: &Plans, schedule: &Schedule) -> f64 {
    let ranks = f64::from(simulated(workload, symmetry));
    let share = ranks / f64::from(workload.ranks.max(1));
    let tasks = workload.sum(|graph| graph.tasks.len() as u128) as f64 * share;
    let most = |of: &dyn Fn(&CollectivePlan) -> f64| plans.plans.iter().map(of).fold(0.0, f64::max);
    let chunks = most(&|plan| (plan.chunks.len() as u64).saturating_sub(FEW_CHUNKS) as f64);
    let messages = most(&|plan| {
        let at_once = |phase: &PhasePlan| {
            let lanes = plans.dims[usize::from(phase.dim)];
            let queues = u64::from(lanes.queues_of(phase.kind));
            let running = schedule.active_chunks.map_or(u64::MAX, |active| u64::from(active.get()) * queues);
            running.min(plan.chunks.len() as u64) as f64 * burst(phase)
        };
        plan.phases.iter().map(at_once).fold(0.0, f64::max)
    });
    ranks * (RANK_BYTES + chunks * CHUNK_BYTES + messages * MESSAGE_BYTES)
        + f64::from(symmetry.ports()) * LINK_BYTES
        + tasks * TASK_BYTES
}

/// Messages of a chunk that a rank sends in a phase before it waits for the first time.
fn burst(phase: &PhasePlan) -> f64 {
    let of_stream = |stream| {
        let seat = Seat { kind: phase.kind, ranks: phase.axis.size, index: 0, stream, reverse: false };
        let ops =
            program(&*phase.algorithm, seat).take_while(|op| !matches!(op, Op::Wait | Op::After { .. }));
        let sent = ops.take(LOOKED_AT as usize).filter(|op| matches!(op, Op::Send { .. })).count();
        // In programs that start everything at once, sends and receives alternate: if about half of the instructions
        // read are sends, assume one message to each rank.
        if sent as u32 >= LOOKED_AT / 2 { f64::from(phase.axis.size) } else { sent as f64 }
    };
    (0..phase.streams).map(of_stream).sum()
}

/// Messages that the simulated ranks send in a step.
fn messages(workload: &Workload, symmetry: &Symmetry, plans: &Plans) -> f64 {
    let share = f64::from(simulated(workload, symmetry)) / f64::from(workload.ranks.max(1));
    sent(workload, plans) as f64 * share
}

/// Messages that all ranks send in a step; for collectives, extrapolated from three ranks of each phase.
pub fn sent(workload: &Workload, plans: &Plans) -> u128 {
    let of_plan = |plan: &CollectivePlan| {
        plan.chunks.len() as u128 * plan.phases.iter().map(|phase| sends(phase) as u128).sum::<u128>()
    };
    let of_plans: Vec<u128> = plans.plans.iter().map(of_plan).collect();
    workload.sum_by_class(|class| {
        let graph = &workload.classes[class];
        let tasks = (0..).zip(&graph.tasks).zip(&plans.plan_of[class]);
        let sent = tasks.map(|((index, task), &plan)| match task.kind {
            TaskKind::Collective { .. } => plan.map_or(0, |plan| of_plans[plan.index()]),
            TaskKind::Send { .. } => 1,
            _ => 0,
        } * u128::from(graph.times_a_step(index)));
        sent.sum()
    })
}

/// Messages of a chunk that a rank sends in a phase: the mean of three ranks, as the root of a tree sends more than the
/// others.
fn sends(phase: &PhasePlan) -> u64 {
    let of_rank = |index| {
        let of_stream = |stream| {
            let seat = Seat { kind: phase.kind, ranks: phase.axis.size, index, stream, reverse: false };
            let ops = program(&*phase.algorithm, seat).take(LOOKED_AT as usize);
            ops.filter(|op| matches!(op, Op::Send { .. })).count() as u64
        };
        (0..phase.streams).map(of_stream).sum::<u64>()
    };
    [0, phase.axis.size / 3, phase.axis.size - 1].map(of_rank).iter().sum::<u64>().div_ceil(3)
}

/// Why ranks are simulated one by one.
#[derive(Clone, Copy, Debug)]
pub struct OneByOne<'a> {
    /// A clause that says why.
    pub why: &'a str,
    /// What to change, if the sizes of collectives or links without latency are the reason.
    pub remedy: Option<&'a str>,
}

/// A warning if more than [`MANY`] ranks are simulated individually, or fewer that take long or much memory.
pub fn many(
    workload: &Workload,
    symmetry: &Symmetry,
    plans: &Plans,
    schedule: &Schedule,
    OneByOne { why, remedy }: OneByOne<'_>,
) -> Diagnostics {
    let ranks = simulated(workload, symmetry);
    if ranks < FEW_RANKS {
        return Diagnostics::new();
    }
    let memory = estimate(workload, symmetry, plans, schedule);
    let messages = messages(workload, symmetry, plans);
    if ranks <= MANY && messages <= MANY_MESSAGES && memory <= MUCH_MEMORY {
        return Diagnostics::new();
    }
    let of = if ranks == workload.ranks { String::new() } else { format!(" of {}", workload.ranks) };
    let remedy = remedy.map_or_else(String::new, |remedy| format!("{remedy}, or "));
    Diagnostic::warning(Code::ManyRanks, format!("{ranks}{of} ranks are simulated individually: {why}"))
        .help(format!(
            "this takes about {} of memory, and {:.0} million messages a step, at one or two seconds for each million; \
             {remedy}try a smaller fabric first",
            Bytes((memory / 1e8).ceil() as u64 * 100_000_000),
            (messages / 1e6).max(1.0)
        ))
        .into()
}

/// Number of schedulers of `simulated` ranks, taken as the mean over all ranks.
fn schedulers(workload: &Workload, schedule: &Schedule, simulated: u64) -> u64 {
    if schedule.schedulers == Schedulers::PerRank {
        return simulated;
    }
    let roles = workload.roles.iter().zip(workload.with_collectives()).filter(|&(_, with)| with);
    let all: u64 = roles.map(|(role, _)| u64::from(role.groups()) * u64::from(role.size())).sum();
    (u128::from(all) * u128::from(simulated)).div_ceil(u128::from(workload.ranks.max(1))) as u64
}

/// Checks that the scheduling queues do not exceed `QUEUES`, and that the run needs at most `limit` of memory.
pub fn memory(
    workload: &Workload,
    symmetry: &Symmetry,
    plans: &Plans,
    schedule: &Schedule,
    limit: Bytes,
    OneByOne { why, remedy }: OneByOne<'_>,
) -> Diagnostics {
    let mut errors = Diagnostics::new();
    let ranks = u64::from(simulated(workload, symmetry));
    let of_scheduler = plans.dims.iter().map(|lanes| 2 * u64::from(lanes.queues)).sum::<u64>();
    let queues = of_scheduler.saturating_mul(schedulers(workload, schedule, ranks));
    if queues > QUEUES {
        errors.push(
            Diagnostic::error(Code::BadValue, "too many scheduling queues to simulate one by one")
                .key("collectives.queues")
                .found(queues.to_string())
                .allowed(format!("at most {QUEUES}"))
                .help("give fewer `collectives.queues`"),
        );
    }
    let needed = estimate(workload, symmetry, plans, schedule);
    if needed > limit.0 as f64 {
        let links = symmetry.ports();
        errors.push(
            Diagnostic::error(Code::TooLarge, "the run needs more memory than `limits.memory` allows")
                .key("limits.memory")
                .found(format!(
                    "about {:.0} GB for {ranks} ranks and {links} links that are simulated individually",
                    needed / 1e9
                ))
                .allowed(format!("at most {:.0} GB", limit.0 as f64 / 1e9))
                .note(format!("ranks are simulated individually: {why}"))
                .help(format!(
                    "{}simulate a smaller fabric; or raise `limits.memory` if the machine has more memory",
                    remedy.map_or_else(String::new, |remedy| format!("{remedy}; or "))
                )),
        );
    }
    errors
}
