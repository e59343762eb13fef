//! What is too large to be counted or held is refused by name, before memory or 64 bits run out.

use crate::plans::Plans;
use crate::scenario::{Fabric, Scenario};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{CollectivePlan, PhasePlan, Schedule, Schedulers};
use syncline_fabric::Symmetry;
use syncline_plan::program::{Op, Seat, program};
use syncline_units::Bytes;
use syncline_workload::{TaskKind, Workload};

/// Most rings, parallel links or switches of a dimension, and scheduling queues of a phase.
const PARALLEL: u32 = 1 << 16;
/// Most chunks of a set.
const CHUNKS: u64 = 1 << 20;
/// Most bytes of all collectives and messages of a job together. Plans send some of them several times.
const BYTES: u128 = 1 << 60;
/// Most scheduling queues of all ranks together, whose state is held.
const QUEUES: u64 = 1 << 26;

/// More ranks than this, simulated one by one, are worth a warning.
pub(crate) const MANY: u32 = 1 << 16;

/// Instructions of a program that are looked at to see how many messages a rank sends at once.
const LOOKED_AT: u32 = 1 << 16;
/// Chunks of a set whose state is part of [`RANK_BYTES`].
const FEW_CHUNKS: u64 = 16;
/// Memory for each simulated rank, link, message under way, further chunk, and task: what all-reduces over one to three
/// dimensions took, results included.
const RANK_BYTES: f64 = 8e3;
const LINK_BYTES: f64 = 1.3e3;
const MESSAGE_BYTES: f64 = 400.0;
const CHUNK_BYTES: f64 = 400.0;
const TASK_BYTES: f64 = 8.0;

/// Numbers of the scenario by themselves.
pub(crate) fn numbers(scenario: &Scenario) -> Diagnostics {
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
    at_most("collectives.queues".to_owned(), scenario.collectives.queues, PARALLEL);
    if let Fabric::Dims(dims) = &scenario.fabric {
        for (index, dim) in dims.iter().enumerate() {
            at_most(format!("fabric.dims.{index}.count"), dim.count, PARALLEL);
        }
    }
    errors
}

/// The chunks of a set, after its size and the smallest chunk have limited them.
///
/// # Errors
/// There are too many to hold.
pub(crate) fn chunks(number: u64) -> Result<()> {
    if number <= CHUNKS {
        return Ok(());
    }
    Err(Diagnostic::error(Code::BadValue, "a collective is cut into too many chunks")
        .key("collectives.chunks")
        .found(number.to_string())
        .allowed(format!("at most {CHUNKS}"))
        .help("give fewer chunks, or a larger `collectives.min_chunk`")
        .into())
}

/// The bytes of a job, which the counters of the results must hold.
pub(crate) fn bytes(workload: &Workload) -> Diagnostics {
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
        .help("simulate fewer iterations: later ones are like the first")
        .into()
}

/// Ranks that are simulated one by one.
fn simulated(workload: &Workload, symmetry: &Symmetry) -> u32 {
    if symmetry.is_none() { workload.ranks } else { symmetry.classes() }
}

/// Bytes of memory that a run is estimated to take: what grows with the fabric and the job.
fn estimate(workload: &Workload, symmetry: &Symmetry, plans: &Plans, schedule: &Schedule) -> f64 {
    let ranks = f64::from(simulated(workload, symmetry));
    let share = ranks / f64::from(workload.ranks.max(1));
    let tasks = workload.sum(|graph| graph.tasks.len() as u128) as f64 * share;
    let most = |of: &dyn Fn(&CollectivePlan) -> f64| plans.plans.iter().map(of).fold(0.0, f64::max);
    let chunks = most(&|plan| (plan.chunks.len() as u64).saturating_sub(FEW_CHUNKS) as f64);
    let messages = most(&|plan| {
        let at_once = |phase: &PhasePlan| {
            let lanes = plans.dims[usize::from(phase.dim)];
            let running = match schedule.active_chunks {
                0 => u64::MAX,
                active => u64::from(active) * u64::from(lanes.queues),
            };
            running.min(plan.chunks.len() as u64) as f64 * burst(phase)
        };
        plan.phases.iter().map(at_once).fold(0.0, f64::max)
    });
    ranks * (RANK_BYTES + chunks * CHUNK_BYTES + messages * MESSAGE_BYTES)
        + f64::from(symmetry.ports()) * LINK_BYTES
        + tasks * TASK_BYTES
}

/// Messages of a chunk that a rank sends in a phase before it waits for any.
fn burst(phase: &PhasePlan) -> f64 {
    let of_stream = |stream| {
        let seat = Seat { kind: phase.kind, ranks: phase.size, index: 0, stream, reverse: false };
        let ops =
            program(&*phase.algorithm, seat).take_while(|op| !matches!(op, Op::Wait | Op::After { .. }));
        let sent = ops.take(LOOKED_AT as usize).filter(|op| matches!(op, Op::Send { .. })).count();
        // Sends and receives alternate where all are begun at once.
        if sent as u32 >= LOOKED_AT / 2 { f64::from(phase.size) } else { sent as f64 }
    };
    (0..phase.streams).map(of_stream).sum()
}

/// A warning where more than [`MANY`] ranks are simulated one by one, and `why`.
pub(crate) fn many(
    workload: &Workload,
    symmetry: &Symmetry,
    plans: &Plans,
    schedule: &Schedule,
    why: &str,
) -> Diagnostics {
    let ranks = simulated(workload, symmetry);
    if ranks <= MANY {
        return Diagnostics::new();
    }
    let of = if ranks == workload.ranks { String::new() } else { format!(" of {}", workload.ranks) };
    let memory = estimate(workload, symmetry, plans, schedule) / 1e9;
    Diagnostic::warning(Code::ManyRanks, format!("{ranks}{of} ranks are simulated one by one: {why}"))
        .help(format!(
            "this takes about {memory:.0} GB of memory, and about a second for every million messages; try a smaller \
             fabric first"
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

/// What is simulated, and with it the memory that it takes: at most `limit`.
pub(crate) fn memory(
    workload: &Workload,
    symmetry: &Symmetry,
    plans: &Plans,
    schedule: &Schedule,
    limit: Bytes,
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
                .found(format!("about {:.0} GB for {ranks} ranks and {links} links that are simulated one by one", needed / 1e9))
                .allowed(format!("at most {:.0} GB", limit.0 as f64 / 1e9))
                .help(
                    "simulate a smaller fabric, or sizes that its dimensions divide evenly, so that one rank stands for \
                     many; or raise `limits.memory` on a machine that has more",
                ),
        );
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use crate::{Control, check, run};
    use syncline_diagnostics::{Code, Severity};

    fn scenario(shape: &str, size: u32, bytes: u64, rest: &str) -> Scenario {
        let json = format!(
            r#"{{"schema": "syncline/1", "fabric": {{"dims": [{{"name": "d", "shape": "{shape}", "size": {size}, "rate": "1GB/s", "latency": "1us"}}]}},
                "collectives": {{"all_reduce": "baseline", "algorithms": {{"default": {{"all_reduce": "direct"}}}}}},
                "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "{bytes}B"}}]}} {rest}}}"#
        );
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
    }

    fn is_right(scenario: &Scenario) -> bool {
        check(scenario).0.iter().all(|found| found.severity != Severity::Error)
    }

    #[test]
    fn a_full_connection_that_memory_cannot_hold_is_refused() {
        // 1 MB does not divide by 3000, so that all ranks and their 9 million links are simulated.
        let found = check(&scenario("fully_connected", 3000, 1_000_000, ""));
        assert_eq!(found.0[0].code, Code::TooLarge, "{found}");
        assert_eq!(found.0[0].key.as_deref(), Some("limits.memory"));
        assert!(found.0[0].found.as_deref().unwrap().contains("8997000 links"), "{found}");
        // An even size needs one rank, and a higher limit is taken at its word.
        assert!(is_right(&scenario("fully_connected", 3000, 3_000_000 * 64, "")));
        assert!(is_right(&scenario("fully_connected", 3000, 1_000_000, r#", "limits": {"memory": "64GB"}"#)));
    }

    #[test]
    fn the_limit_on_memory_is_exact() {
        let own = |memory: u64| {
            scenario("fully_connected", 40, 1_000_004, &format!(r#", "limits": {{"memory": "{memory}B"}}"#))
        };
        let (mut fits, mut refused) = (1u64 << 40, 0u64);
        while fits - refused > 1 {
            let middle = refused + (fits - refused) / 2;
            if is_right(&own(middle)) { fits = middle } else { refused = middle }
        }
        // 40 ranks, 1560 links, 4 chunks of 39 messages at once each, one task each.
        let expected: f64 = 40.0 * (8e3 + 4.0 * 39.0 * 400.0) + 1560.0 * 1.3e3 + 40.0 * 8.0;
        assert_eq!(fits, expected.ceil() as u64);
        run(&own(fits), Control::default()).unwrap();
    }
}
