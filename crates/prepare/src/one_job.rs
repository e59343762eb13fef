//! Builds and checks everything that a run of one job needs.

use crate::files::Files;
use crate::jobs::Built;
use crate::obstacle::Obstacle;
use crate::prepared::Prepared;
use crate::size::OneByOne;
use crate::symmetry::Subject;
use crate::watch::Watch;
use crate::{compute, even, faults, jitter, jobs, network, placement, plans, size, symmetry};
use syncline_compute::{ComputeModel, Timing};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::Symmetry;
use syncline_fabric::cost::bill;
use syncline_scenario::{NetworkSettings, Scenario};
use syncline_units::Time;
use syncline_workload::{TaskKind, Work, Workload, matching};

/// What to change where shared links have no latency.
const WITH_LATENCY: &str = "give links a latency, such as `latency: 100ns`: one rank can then represent many";

/// Builds and checks a scenario that has one job, which may not fit into memory.
///
/// # Errors
/// As many errors as can be found in one pass; `LimitReached` if `watch` says to stop.
pub(crate) fn prepare(scenario: &Scenario, files: &Files, watch: &Watch<'_>) -> Result<Prepared> {
    size::numbers(scenario).into_result()?;
    let compute = compute::model(&scenario.compute)?;
    let jitter = jitter::of(scenario)?;
    let fabric = network::fabric(&scenario.fabric, scenario.seed)?;
    watch.check("building the fabric")?;
    placement::check(&scenario.placement, &fabric)?;
    let bill = scenario.prices.as_ref().map(|prices| bill(&fabric, prices)).transpose();
    watch.check("pricing the fabric")?;
    let Built { workload, memory, does_not_fit, step } =
        jobs::workload(scenario, &compute, &fabric, files, watch)?;
    // Channels of NCCL go through all of a group at once, so it does not matter how many phases a plan has. With the same
    // axes for all groups, one rank can represent many.
    let workload = if scenario.collectives.nccl.is_some() { workload.divided() } else { workload };
    watch.check("building the workload")?;
    let (fabric, faults) = faults::apply(&scenario.faults, scenario.seed, workload.ranks, fabric)?;
    watch.check("breaking links")?;
    size::bytes(&workload).into_result()?;
    let mut errors = matching::check(&workload);
    watch.check("matching sends and receives")?;
    let bill = bill.unwrap_or_else(|found| {
        errors.extend(found);
        None
    });
    let plans = match placement::npus(&scenario.placement, workload.ranks, &fabric) {
        Ok(placement) => {
            errors.extend(network::check_connected(&fabric, workload.ranks, &placement));
            let (spec, network) = (&scenario.collectives, &scenario.network);
            plans::plans(spec, &workload, &fabric, &placement, network, watch).map(|plans| (placement, plans))
        }
        Err(found) => {
            errors.extend(found);
            plans::check(&scenario.collectives, &fabric, &scenario.network).map(|()| Default::default())
        }
    };
    let planned = plans.map_err(|found| errors.extend(found));
    match &scenario.network {
        NetworkSettings::Flow(settings) => errors.extend(settings.check(&fabric)),
        NetworkSettings::Packet(settings) => errors.extend(settings.check(&fabric)),
        NetworkSettings::Analytical | NetworkSettings::Queued => {}
    }
    let durations = durations(&workload, &compute, &mut errors);
    for (index, rank) in
        scenario.trace.ranks.listed().iter().enumerate().filter(|(_, rank)| rank.0 >= workload.ranks)
    {
        errors.push(
            Diagnostic::error(Code::BadValue, "a traced rank does not exist")
                .key(format!("trace.ranks.{index}"))
                .found(rank.0.to_string())
                .allowed(format!("0 to {}", workload.ranks.saturating_sub(1))),
        );
    }
    let mut warnings = errors.into_result()?;
    if workload.classes.iter().all(|graph| graph.tasks.is_empty()) {
        warnings.push(Diagnostic::warning(Code::BadWorkload, "the job has no tasks: its step takes no time"));
    }
    warnings.0.extend(crate::chakra::without_durations(&workload));
    if let Timing::Systolic(array) = &compute.timing {
        warnings.extend(without_products(&workload, array.vector.is_some()));
    }
    let (placement, mut plans) = planned.expect("errors were returned");
    warnings.extend(plans::without_use(&plans.unused));
    warnings.extend(std::mem::take(&mut plans.warnings));
    let (symmetry, obstacles) = match (&scenario.network, scenario.symmetry) {
        // Which packet is lost depends on the order of packets that arrive at the same time, and no symmetry preserves
        // it.
        (NetworkSettings::Packet(_), _) => (Symmetry::none(&fabric), Obstacle::PacketOrder.into()),
        (_, true) if !scenario.jitter.is_none() => (Symmetry::none(&fabric), Obstacle::Jitter.into()),
        (network, true) => {
            let (fabric, workload, placement, slow) = (&fabric, &workload, &placement[..], &faults.slow);
            symmetry::find(Subject { fabric, workload, placement, slow, network }, &mut plans)
        }
        (_, false) => (Symmetry::none(&fabric), Obstacle::Disabled.into()),
    };
    let schedule = plans::schedule(&scenario.collectives);
    let even = obstacles.uneven.then(|| even::remedy(scenario, &plans)).flatten();
    let remedy = if obstacles.no_latency { Some(WITH_LATENCY.to_owned()) } else { even };
    let reason = OneByOne { why: &obstacles.why, remedy: remedy.as_deref() };
    size::memory(&workload, &symmetry, &plans, &schedule, scenario.limits.memory, reason).into_result()?;
    warnings.extend(size::many(&workload, &symmetry, &plans, &schedule, reason));
    Ok(Prepared {
        fabric,
        workload,
        memory,
        does_not_fit,
        step,
        compute_label: compute.label(),
        compute,
        warnings,
        durations,
        placement,
        bill,
        plans,
        faults,
        jitter,
        symmetry,
        jobs: Vec::new(),
    })
}

/// A warning if the compute model is a systolic array and no operation says that it is a matrix product.
fn without_products(workload: &Workload, vector: bool) -> Diagnostics {
    let mut warnings = Diagnostics::new();
    let works = workload.classes.iter().flat_map(|graph| &graph.tasks);
    let mut ops = works.filter_map(|task| match &task.kind {
        TaskKind::Compute(Work::Ops { products, .. }) => Some(!products.is_empty()),
        _ => None,
    });
    if let Some(first) = ops.next()
        && !first
        && !ops.any(|shaped| shaped)
    {
        let effect = if vector { "run on the vector unit" } else { "take no time" };
        warnings.push(
            Diagnostic::warning(
                Code::BadWorkload,
                format!("no layer gives the shapes of its matrix products, so all operations {effect}"),
            )
            .key("compute")
            .help("give the layers `products`, or use a roofline, which needs no shapes"),
        );
    }
    warnings
}

/// Duration of every compute task, by class.
fn durations(workload: &Workload, compute: &ComputeModel, errors: &mut Diagnostics) -> Vec<Vec<Time>> {
    let mut refused = false;
    workload
        .classes
        .iter()
        .map(|graph| {
            graph
                .tasks
                .iter()
                .map(|task| match &task.kind {
                    TaskKind::Compute(work) => compute.time(work).unwrap_or_else(|error| {
                        if !refused {
                            errors.push(error);
                        }
                        refused = true;
                        Time::ZERO
                    }),
                    _ => Time::ZERO,
                })
                .collect()
        })
        .collect()
}
