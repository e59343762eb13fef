//! What is too large to be counted or held is refused by name, before memory or 64 bits run out.

use crate::scenario::{Fabric, Scenario};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::Lanes;
use syncline_fabric::Symmetry;
use syncline_workload::{TaskKind, Workload};

/// Most rings, parallel links or switches of a dimension, and scheduling queues of a phase.
const PARALLEL: u32 = 1 << 16;
/// Most chunks of a set.
const CHUNKS: u64 = 1 << 20;
/// Most bytes of all collectives and messages of a job together. Plans send some of them several times.
const BYTES: u128 = 1 << 60;
/// Most links, and most scheduling queues of all ranks together, whose state is held.
const HELD: u64 = 1 << 26;

/// More ranks than this, simulated one by one, are worth a warning: fewer take a few gigabytes.
pub(crate) const MANY: u32 = 1 << 16;
/// Memory for each simulated rank and link: what all-reduces of few chunks over two and three dimensions took.
const RANK_BYTES: f64 = 8e3;
const LINK_BYTES: f64 = 1.3e3;

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
        let bytes = graph.tasks.iter().map(|task| match task.kind {
            TaskKind::Collective { bytes, .. } | TaskKind::Send { bytes, .. } => u128::from(bytes.0),
            _ => 0,
        });
        bytes.sum::<u128>().saturating_mul(u128::from(graph.iterations))
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

/// A warning where more than [`MANY`] ranks are simulated one by one, and `why`.
pub(crate) fn many(workload: &Workload, symmetry: &Symmetry, why: &str) -> Diagnostics {
    let ranks = simulated(workload, symmetry);
    if ranks <= MANY {
        return Diagnostics::new();
    }
    let of = if ranks == workload.ranks { String::new() } else { format!(" of {}", workload.ranks) };
    let memory = (f64::from(ranks) * RANK_BYTES + f64::from(symmetry.ports()) * LINK_BYTES) / 1e9;
    Diagnostic::warning(Code::ManyRanks, format!("{ranks}{of} ranks are simulated one by one: {why}"))
        .help(format!(
            "this takes at least {memory:.0} GB of memory, and about a second for every million messages; try a smaller \
             fabric first"
        ))
        .into()
}

/// What is simulated, and with it the memory that it takes.
pub(crate) fn memory(workload: &Workload, symmetry: &Symmetry, lanes: &[Lanes]) -> Diagnostics {
    let mut errors = Diagnostics::new();
    let mut at_most = |key: &str, what: &str, found: u64, help: &str| {
        if found > HELD {
            errors.push(
                Diagnostic::error(Code::BadValue, format!("too many {what} to simulate one by one"))
                    .key(key)
                    .found(found.to_string())
                    .allowed(format!("at most {HELD}"))
                    .help(help),
            );
        }
    };
    at_most(
        "fabric",
        "links",
        u64::from(symmetry.ports()),
        "a smaller fabric, or one in which more ranks are alike, needs less",
    );
    let ranks = u64::from(simulated(workload, symmetry));
    let queues: u64 = lanes.iter().map(|lanes| 2 * u64::from(lanes.queues)).sum();
    at_most("collectives.queues", "scheduling queues", ranks * queues, "give fewer `collectives.queues`");
    errors
}
