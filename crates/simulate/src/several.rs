//! Several jobs on one fabric: each prepared as if it were alone, then joined to one that the engine executes.
//!
//! Jobs share links and nothing else. Where they share NPUs, each has the NPU's compute to itself: turns on it are not
//! modelled. Their effect on each other is measured against each job alone on the same fabric, with the same network model
//! and jitter.

use crate::prepare::{Prepared, prepare};
use crate::scenario::{Fault, Job, Scenario, Traced, Workload};
use crate::watch::Watch;
use crate::{jitter, network, plans, shared_memory, size};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::{Fabric, Symmetry};
use syncline_units::{NpuId, Time};
use syncline_workload::{Share, join};

/// Most jobs of a scenario.
const MOST: usize = 1 << 10;

/// One of several jobs, within their joint numbers.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its share of ranks and layers.
    pub(crate) share: Share,
    /// When it begins.
    pub(crate) start: Time,
}

/// The scenario of one of several jobs, alone on the fabric from time zero on.
pub(crate) fn alone(scenario: &Scenario, job: &Job) -> Scenario {
    let mut alone = scenario.clone();
    alone.workload = (*job.workload).clone();
    alone.compute = job.compute.clone();
    alone.npu_memory = job.npu_memory;
    alone.placement = job.placement.clone();
    alone.collectives = job.collectives.clone().unwrap_or_else(|| scenario.collectives.clone());
    alone.trace.ranks = Traced::Listed(Vec::new());
    alone.jitter.seed = Some(jitter::seed_of(scenario, &job.name));
    alone
}

/// Builds and checks all of `jobs`.
///
/// # Errors
/// What is wrong with any of them, or with all together.
pub(crate) fn prepare_all(scenario: &Scenario, jobs: &[Job], watch: &Watch<'_>) -> Result<Prepared> {
    let mut errors = check(scenario, jobs);
    errors = errors.into_result()?;
    let mut prepared: Vec<Prepared> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        // What ranks do is simulated one by one: jobs differ, and what they share breaks the symmetry of each.
        let own = Scenario { quotient: false, ..alone(scenario, job) };
        match prepare(&own, watch) {
            Ok(mut found) => {
                let own = plans::without_use(&found.plans.unused);
                let shared = |warning: &Diagnostic| job.collectives.is_none() && own.0.contains(warning);
                found.warnings.0.retain(|warning| warning.code != Code::ManyRanks && !shared(warning));
                errors.extend(keyed(std::mem::take(&mut found.warnings), index, job));
                prepared.push(found);
            }
            Err(found) => errors.extend(keyed(found, index, job)),
        }
    }
    // What jobs share is without use where none of them has any.
    let sharing = jobs.iter().zip(&prepared).filter(|(job, _)| job.collectives.is_none());
    let unused = sharing.map(|(_, own)| own.plans.unused.clone()).reduce(|all, own| &all & &own);
    errors.extend(plans::without_use(&unused.unwrap_or_default()));
    dedup(&mut errors);
    joined(scenario, jobs, prepared, errors.into_result()?)
}

/// What can be said of the jobs before they are built.
fn check(scenario: &Scenario, jobs: &[Job]) -> Diagnostics {
    let mut errors = Diagnostics::new();
    if jobs.is_empty() || jobs.len() > MOST {
        errors.push(
            Diagnostic::error(Code::BadWorkload, "a scenario has one job or more, and not too many")
                .key("workload.jobs")
                .found(jobs.len().to_string())
                .allowed(format!("1 to {MOST}")),
        );
    }
    for (index, job) in jobs.iter().enumerate() {
        let key = |key: &str| format!("workload.jobs.{index}.{key}");
        if let Some(first) = jobs[..index].iter().position(|other| other.name == job.name) {
            errors.push(
                Diagnostic::error(Code::BadWorkload, format!("two jobs are named `{}`", job.name))
                    .key(key("name"))
                    .note(format!("the first is job {first}"))
                    .help("names tell rows of the results apart"),
            );
        }
        if matches!(*job.workload, Workload::Jobs { .. }) {
            errors.push(
                Diagnostic::error(Code::BadWorkload, "a job consists of no other jobs").key(key("workload")),
            );
        }
    }
    let of_ranks = |fault: &Fault| fault.rank.is_some() || fault.random_ranks.is_some();
    if let Some(index) = scenario.faults.iter().position(of_ranks) {
        errors.push(
            Diagnostic::error(Code::BadValue, "with several jobs, only links can be slow or broken")
                .key(format!("faults.{index}"))
                .allowed("link, random_links")
                .help("simulate the job whose ranks are slow alone"),
        );
    }
    errors
}

/// The diagnostics of one job, with keys that say which it is.
fn keyed(mut found: Diagnostics, index: usize, job: &Job) -> Diagnostics {
    for each in &mut found.0 {
        let Some(key) = &each.key else { continue };
        let first = key.split('.').next().unwrap_or_default();
        let own = match first {
            "workload" | "compute" | "placement" => true,
            "collectives" => job.collectives.is_some(),
            _ => false,
        };
        if own {
            each.key = Some(format!("workload.jobs.{index}.{key}"));
        }
    }
    found
}

/// Leaves what is wrong with something that jobs share once.
fn dedup(errors: &mut Diagnostics) {
    let mut kept: Vec<Diagnostic> = Vec::new();
    for error in errors.0.drain(..) {
        if !kept.contains(&error) {
            kept.push(error);
        }
    }
    errors.0 = kept;
}

/// One job of several that are prepared, one after the other.
fn joined(
    scenario: &Scenario,
    jobs: &[Job],
    mut prepared: Vec<Prepared>,
    mut warnings: Diagnostics,
) -> Result<Prepared> {
    let named: Vec<_> =
        jobs.iter().zip(&prepared).map(|(job, own)| (job.name.as_str(), own.workload.clone())).collect();
    let (workload, shares) = join(&named)?;
    let place = |own: &Prepared, rank: u32| own.placement.get(rank as usize).copied().unwrap_or(NpuId(rank));
    shared_memory::check(jobs, &prepared, place).into_result()?;
    let ranks = |own: &Prepared| 0..own.workload.ranks;
    let placement: Vec<NpuId> =
        prepared.iter().flat_map(|own| ranks(own).map(move |rank| place(own, rank))).collect();
    let (mut durations, mut memory) = (Vec::new(), Vec::new());
    for own in &mut prepared {
        durations.append(&mut own.durations);
        memory.append(&mut own.memory);
    }
    let first = prepared.remove(0);
    // Only links are slow or broken, which is the same for all jobs.
    let (fabric, faults) = (first.fabric, first.faults);
    connected(&fabric, &shares, &placement).into_result()?;
    let (mut plans, mut compute) = (first.plans, first.compute);
    let mut labels = vec![compute.label()];
    for own in prepared {
        let before = plans.plans.len() as u32;
        plans.plans.extend(own.plans.plans);
        let later =
            |of: Vec<u32>| of.into_iter().map(|plan| if plan == u32::MAX { plan } else { before + plan });
        plans.chosen.extend(own.plans.chosen);
        plans.groups.extend(own.plans.groups);
        plans.plan_of.extend(own.plans.plan_of.into_iter().map(|of| later(of).collect()));
        labels.push(own.compute.label());
        compute = own.compute;
    }
    labels.dedup();
    let seeds = jobs.iter().map(|job| jitter::seed_of(scenario, &job.name));
    let jitter = jitter::of(scenario)?.of_jobs(shares.iter().map(|share| share.first_rank).zip(seeds));
    let symmetry = Symmetry::none(&fabric);
    size::bytes(&workload).into_result()?;
    let schedule = plans::schedule(&scenario.collectives);
    let reason = ("several jobs share the fabric", None);
    size::memory(&workload, &symmetry, &plans, &schedule, scenario.limits.memory, reason).into_result()?;
    syncline_engine::keys::check(&plans.plans)?;
    warnings.extend(size::many(&workload, &symmetry, &plans, &schedule, reason));
    let parts = shares.into_iter().zip(jobs).map(|(share, job)| Member { share, start: job.start }).collect();
    Ok(Prepared {
        fabric,
        workload,
        memory,
        does_not_fit: None,
        step: None,
        compute,
        compute_label: labels.join("; "),
        warnings,
        durations,
        placement,
        bill: first.bill,
        plans,
        faults,
        jitter,
        symmetry,
        parts,
    })
}

/// Whether the ranks of each job reach each other over links that are not dead.
fn connected(fabric: &Fabric, shares: &[Share], placement: &[NpuId]) -> Diagnostics {
    let mut errors = Diagnostics::new();
    for share in shares {
        let own = &placement[share.first_rank as usize..(share.first_rank + share.ranks) as usize];
        errors.extend(network::check_connected(fabric, share.ranks, own));
    }
    dedup(&mut errors);
    errors
}
