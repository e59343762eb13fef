//! Everything that a run needs.

use crate::faults::Faults;
use crate::jobs::StepWork;
use crate::{jitter, plans, tiers};
use syncline_compute::ComputeModel;
use syncline_diagnostics::{Diagnostic, Diagnostics, Result};
use syncline_engine::{Jitter, Job, Lanes};
use syncline_fabric::cost::Bill;
use syncline_fabric::{Fabric, Symmetry};
use syncline_scenario::{NamedRanks, Scenario, TRACED_CLASSES, TRACED_FAULTS, Traced};
use syncline_units::{NpuId, RankId, Time};
use syncline_workload::Share;
use syncline_workload::memory::Footprint;

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
    pub jobs: Vec<Member>,
}

/// One of several jobs, and its place in the joined job.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its share of ranks and layers.
    pub share: Share,
    /// When it begins.
    pub start: Time,
}

impl Prepared {
    /// Itself, if the job fits into memory.
    ///
    /// # Errors
    /// The job does not fit.
    pub(crate) fn that_fits(mut self) -> Result<Self> {
        match self.does_not_fit.take() {
            Some(problem) => Err(problem.into()),
            None => Ok(self),
        }
    }

    /// The job as the engine takes it.
    pub fn job(&self, scenario: &Scenario) -> Job<'_> {
        let mut traced: Vec<RankId> = match &scenario.trace.ranks {
            Traced::Listed(ranks) => ranks.clone(),
            Traced::Named(NamedRanks::Classes) => self.traced_by_default(),
        };
        let of_jobs = self.jobs.iter().flat_map(|job| vec![job.start; job.share.ranks as usize]).collect();
        traced.sort_unstable();
        traced.dedup();
        Job {
            workload: &self.workload,
            durations: self.durations.clone(),
            slow: self.faults.slow.clone(),
            jitter: self.jitter.clone(),
            plans: self.plans.plans.clone(),
            plan_of: self.plans.plan_of.clone(),
            send_pace: plans::send_pace(&scenario.collectives),
            placement: self.placement.clone(),
            jobs: self.jobs.iter().map(|job| RankId(job.share.first_rank)).collect(),
            starts: jitter::starts(scenario, &self.jitter, self.workload.ranks, of_jobs),
            symmetry: self.symmetry.clone(),
            // A limit on events counts simulated events, so no iteration may be left out.
            repeat: scenario.symmetry && scenario.limits.events.is_none() && self.jobs.is_empty(),
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
