//! Everything that a run needs, built and checked.

use crate::faults::{self, Faults};
use crate::files::Files;
use crate::jobs::{Built, StepWork};
use crate::several::{self, Member};
use crate::size::OneByOne;
use crate::symmetry::Subject;
use crate::watch::Watch;
use crate::{compute, even, jitter, jobs, network, placement, plans, size, symmetry, tiers};
use syncline_compute::{ComputeModel, Timing};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{Jitter, Job, Lanes};
use syncline_fabric::cost::{Bill, bill};
use syncline_fabric::{Fabric, Symmetry};
use syncline_scenario::{
    NamedRanks, NetworkSettings, Scenario, TRACED_CLASSES, TRACED_FAULTS, Traced, Workload,
};
use syncline_units::{NpuId, RankId, Time};
use syncline_workload::memory::Footprint;
use syncline_workload::{TaskKind, Work, matching};

/// Everything that a run needs.
#[derive(Debug)]
pub struct Prepared {
    /// The network, with its faults.
    pub fabric: Fabric,
    /// The tasks of all ranks.
    pub workload: syncline_workload::Workload,
    /// What ranks of each stage hold in memory.
    pub memory: Vec<Footprint>,
    /// Why the job does not fit into memory, if it does not.
    pub does_not_fit: Option<Diagnostic>,
    /// What a training step works on; `None` for other jobs, and for several jobs, each of which has its own.
    pub step: Option<StepWork>,
    /// How work becomes time.
    pub compute: ComputeModel,
    /// The compute model in words; with several jobs, all of their models.
    pub compute_label: String,
    /// Warnings about the scenario.
    pub warnings: Diagnostics,
    /// By class of ranks: duration of each task.
    pub durations: Vec<Vec<Time>>,
    /// NPU of each rank; empty if rank `i` is on NPU `i`.
    pub placement: Vec<NpuId>,
    /// What the fabric costs, if the scenario has prices.
    pub bill: Option<Bill>,
    /// The plans of its collectives.
    pub plans: plans::Plans,
    /// What is slow or broken.
    pub faults: Faults,
    /// How compute times vary, and when ranks start.
    pub jitter: Jitter,
    /// Which ranks represent others.
    pub symmetry: Symmetry,
    /// The jobs, if the scenario has several; otherwise empty.
    pub parts: Vec<Member>,
}

/// Builds and checks everything.
///
/// # Errors
/// As many errors as can be found in one pass; `LimitReached` if `watch` says to stop.
pub fn prepare(scenario: &Scenario, watch: &Watch<'_>) -> Result<Prepared> {
    prepare_from(scenario, &Files::default(), watch)
}

/// As [`prepare()`], but takes the workload's files from `files` if they were read before.
///
/// # Errors
/// As [`prepare()`].
pub fn prepare_from(scenario: &Scenario, files: &Files, watch: &Watch<'_>) -> Result<Prepared> {
    let mut prepared = build(scenario, files, watch)?;
    match prepared.does_not_fit.take() {
        Some(problem) => Err(problem.into()),
        None => Ok(prepared),
    }
}

/// As [`prepare()`], but does not fail if the job does not fit into memory.
///
/// # Errors
/// As [`prepare()`], except that the job does not fit.
pub fn in_any_memory(scenario: &Scenario, watch: &Watch<'_>) -> Result<Prepared> {
    build(scenario, &Files::default(), watch)
}

fn build(scenario: &Scenario, files: &Files, watch: &Watch<'_>) -> Result<Prepared> {
    if scenario.schema != "syncline/1" {
        return Err(Diagnostic::error(Code::BadValue, "unknown version of the scenario format")
            .key("schema")
            .found(&*scenario.schema)
            .allowed("syncline/1")
            .into());
    }
    if let Workload::Jobs { jobs } = &scenario.workload {
        return several::prepare_all(scenario, jobs, files, watch);
    }
    size::numbers(scenario).into_result()?;
    let compute = compute::model(&scenario.compute)?;
    let jitter = jitter::of(scenario)?;
    let fabric = network::fabric(&scenario.fabric, scenario.seed)?;
    watch.look("building the fabric")?;
    placement::check(&scenario.placement, &fabric)?;
    let bill = scenario.prices.as_ref().map(|prices| bill(&fabric, prices)).transpose();
    watch.look("pricing the fabric")?;
    let Built { workload, memory, does_not_fit, step } =
        jobs::workload(scenario, &compute, &fabric, files, watch)?;
    watch.look("building the workload")?;
    let (fabric, faults) = faults::apply(&scenario.faults, scenario.seed, workload.ranks, fabric)?;
    watch.look("breaking links")?;
    size::bytes(&workload).into_result()?;
    let mut errors = matching::check(&workload);
    watch.look("matching sends and receives")?;
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
    let (symmetry, obstacles) = match (&scenario.network, scenario.symmetry) {
        // Which packet is lost depends on the order of packets that arrive at the same time, and no symmetry preserves
        // it.
        (NetworkSettings::Packet(_), _) => (
            Symmetry::none(&fabric),
            "the results of `packet` depend on the order of packets, which no symmetry preserves".into(),
        ),
        (_, true) if !scenario.jitter.is_none() => {
            (Symmetry::none(&fabric), "`jitter` makes every rank differ from the others".into())
        }
        (network, true) => {
            let (fabric, workload, placement, slow) = (&fabric, &workload, &placement[..], &faults.slow);
            symmetry::find(Subject { fabric, workload, placement, slow, network }, &mut plans)
        }
        (_, false) => (Symmetry::none(&fabric), "`symmetry` is false".into()),
    };
    let schedule = plans::schedule(&scenario.collectives);
    let remedy = obstacles.uneven.then(|| even::remedy(scenario, &plans)).flatten();
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
        parts: Vec::new(),
    })
}

/// A warning if the compute model is a systolic array and no operation says that it is a matrix product.
fn without_products(workload: &syncline_workload::Workload, vector: bool) -> Diagnostics {
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
fn durations(
    workload: &syncline_workload::Workload,
    compute: &ComputeModel,
    errors: &mut Diagnostics,
) -> Vec<Vec<Time>> {
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

impl Prepared {
    /// The job as the engine takes it.
    pub fn job(&self, scenario: &Scenario) -> Job<'_> {
        let mut traced: Vec<RankId> = match &scenario.trace.ranks {
            Traced::Listed(ranks) => ranks.clone(),
            Traced::Named(NamedRanks::Classes) => self.traced_by_default(),
        };
        let of_jobs =
            self.parts.iter().flat_map(|part| vec![part.start; part.share.ranks as usize]).collect();
        traced.sort_unstable();
        traced.dedup();
        Job {
            workload: &self.workload,
            durations: self.durations.clone(),
            slow: self.faults.slow.clone(),
            jitter: self.jitter.clone(),
            plans: self.plans.plans.clone(),
            plan_of: self.plans.plan_of.clone(),
            placement: self.placement.clone(),
            jobs: self.parts.iter().map(|part| RankId(part.share.first_rank)).collect(),
            starts: jitter::starts(scenario, &self.jitter, self.workload.ranks, of_jobs),
            symmetry: self.symmetry.clone(),
            // A limit on events counts simulated events, so no iteration may be left out.
            repeat: scenario.symmetry && scenario.limits.events.is_none() && self.parts.is_empty(),
            schedule: plans::schedule(&scenario.collectives),
            dims: self.plans.dims.clone(),
            traced,
            max_spans: scenario.trace.max_spans,
        }
    }

    /// The ranks to trace by default: the first of each class, then slow ranks, then ranks at broken links.
    fn traced_by_default(&self) -> Vec<RankId> {
        let mut found: Vec<RankId> = self.workload.first_ranks().map(RankId).take(TRACED_CLASSES).collect();
        let most = found.len() + TRACED_FAULTS;
        let at_link = |&npu: &u32| match self.placement.as_slice() {
            [] => (npu < self.workload.ranks).then_some(RankId(npu)),
            placement => (0..).map(RankId).zip(placement).find(|(_, at)| at.0 == npu).map(|(rank, _)| rank),
        };
        for rank in self.faults.ranks.iter().copied().chain(self.faults.npus.iter().filter_map(at_link)) {
            if found.len() < most && !found.contains(&rank) {
                found.push(rank);
            }
        }
        found
    }

    /// Durations of a class's tasks.
    pub fn durations(&self, class: usize) -> &[Time] {
        &self.durations[class]
    }

    /// Names of the accounting dimensions.
    pub fn dim_names(&self) -> Vec<String> {
        let names = tiers::names(&self.fabric);
        debug_assert_eq!(names.len(), self.lanes().len());
        names
    }

    fn lanes(&self) -> &[Lanes] {
        &self.plans.dims
    }
}
