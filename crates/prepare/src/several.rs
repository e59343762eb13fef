//! Several jobs on one fabric. Each is prepared as if it ran alone; then all are joined into one job for the engine.
//!
//! Jobs share only links. If two jobs share an NPU, each computes as if it had the NPU to itself: sharing of compute is
//! not modelled. The slowdown of a job is measured against the same job alone on the same fabric, with the same network
//! model and jitter.

use crate::files::Files;
use crate::prepared::{Member, Prepared};
use crate::size::OneByOne;
use crate::watch::Watch;
use crate::{jitter, network, one_job, plans, shared_memory, size};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::PlanId;
use syncline_fabric::{Fabric, Symmetry};
use syncline_scenario::{Fault, JobEntry, Scenario, Traced, Workload};
use syncline_units::{NpuId, RankId};
use syncline_workload::{Share, join};

/// Largest number of jobs in a scenario.
const MOST: usize = 1 << 10;

/// The scenario in which one of several jobs runs alone on the fabric, from time zero.
pub fn alone(scenario: &Scenario, job: &JobEntry) -> Scenario {
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
/// Everything that is wrong with any of them, or with all of them together.
pub fn prepare_all(
    scenario: &Scenario,
    jobs: &[JobEntry],
    files: &Files,
    watch: &Watch<'_>,
) -> Result<Prepared> {
    let mut errors = check(scenario, jobs);
    errors = errors.into_result()?;
    let mut prepared: Vec<Prepared> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        // Simulate every rank: jobs differ, and the links that they share break the symmetry of each job.
        let own = Scenario { symmetry: false, ..alone(scenario, job) };
        match one_job::prepare(&own, files, watch).and_then(Prepared::that_fits) {
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
    // A shared key is unused only if no job uses it.
    let sharing = jobs.iter().zip(&prepared).filter(|(job, _)| job.collectives.is_none());
    let unused = sharing.map(|(_, own)| own.plans.unused.clone()).reduce(|all, own| &all & &own);
    errors.extend(plans::without_use(&unused.unwrap_or_default()));
    dedup(&mut errors);
    joined(scenario, jobs, prepared, errors.into_result()?)
}

/// Checks the jobs as far as possible before they are built.
fn check(scenario: &Scenario, jobs: &[JobEntry]) -> Diagnostics {
    let mut errors = Diagnostics::new();
    if jobs.is_empty() || jobs.len() > MOST {
        errors.push(
            Diagnostic::error(Code::BadWorkload, "wrong number of jobs")
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
                    .help("rename one: rows of the results are identified by job name"),
            );
        }
        if matches!(*job.workload, Workload::Jobs { .. }) {
            errors.push(
                Diagnostic::error(Code::BadWorkload, "a job may not contain other jobs").key(key("workload")),
            );
        }
    }
    let of_ranks = |fault: &Fault| fault.rank.is_some() || fault.random_ranks.is_some();
    if let Some(index) = scenario.faults.iter().position(of_ranks) {
        errors.push(
            Diagnostic::error(Code::BadValue, "with several jobs, only links can be slow or broken")
                .key(format!("faults.{index}"))
                .allowed("link, random_links")
                .help("simulate the job that has slow ranks in a scenario of its own"),
        );
    }
    errors
}

/// Prefixes the keys of a job's own diagnostics with the job's key.
fn keyed(mut found: Diagnostics, index: usize, job: &JobEntry) -> Diagnostics {
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

/// Removes repeated diagnostics. Something that is wrong with a shared part is found once for each job.
fn dedup(errors: &mut Diagnostics) {
    let mut kept: Vec<Diagnostic> = Vec::new();
    for error in errors.0.drain(..) {
        if !kept.contains(&error) {
            kept.push(error);
        }
    }
    errors.0 = kept;
}

/// Joins several prepared jobs into one, whose ranks are numbered job after job.
fn joined(
    scenario: &Scenario,
    jobs: &[JobEntry],
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
    // With several jobs, faults affect only links, so they are the same for all jobs.
    let (fabric, faults) = (first.fabric, first.faults);
    connected(&fabric, &shares, &placement).into_result()?;
    let (mut plans, mut compute) = (first.plans, first.compute);
    let mut labels = vec![compute.label()];
    for own in prepared {
        let before = plans.plans.len() as u32;
        plans.plans.extend(own.plans.plans);
        let later = |of: Vec<Option<PlanId>>| {
            of.into_iter().map(|plan| plan.map(|PlanId(plan)| PlanId(before + plan)))
        };
        plans.chosen.extend(own.plans.chosen);
        plans.groups.extend(own.plans.groups);
        plans.nccl.extend(own.plans.nccl);
        plans.plan_of.extend(own.plans.plan_of.into_iter().map(|of| later(of).collect()));
        labels.push(own.compute.label());
        compute = own.compute;
    }
    labels.dedup();
    let seeds = jobs.iter().map(|job| jitter::seed_of(scenario, &job.name));
    let jitter =
        jitter::of(scenario)?.of_jobs(shares.iter().map(|share| RankId(share.first_rank)).zip(seeds));
    let symmetry = Symmetry::none(&fabric);
    size::bytes(&workload).into_result()?;
    let schedule = plans::schedule(&scenario.collectives);
    let reason = OneByOne { why: "several jobs share the fabric", remedy: None };
    size::memory(&workload, &symmetry, &plans, &schedule, scenario.limits.memory, reason).into_result()?;
    syncline_engine::keys::check(&plans.plans)?;
    warnings.extend(size::many(&workload, &symmetry, &plans, &schedule, reason));
    let joined =
        shares.into_iter().zip(jobs).map(|(share, job)| Member { share, start: job.start }).collect();
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
        jobs: joined,
    })
}

/// Checks that the ranks of each job reach each other over links that are not dead.
fn connected(fabric: &Fabric, shares: &[Share], placement: &[NpuId]) -> Diagnostics {
    let mut errors = Diagnostics::new();
    for share in shares {
        let own = &placement[share.first_rank as usize..(share.first_rank + share.ranks) as usize];
        errors.extend(network::check_connected(fabric, share.ranks, own));
    }
    dedup(&mut errors);
    errors
}
