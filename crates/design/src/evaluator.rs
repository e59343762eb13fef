//! A job and a cluster that can be changed and measured again.

use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_prepare::watch::Watch;
use syncline_prepare::{Files, Prepared, prepare_from, tiers};
use syncline_scenario::{Fabric, Placement, Scenario, Traced};
use syncline_simulate::{Control, execute};
use syncline_timeline::Ended;
use syncline_units::{LinkId, Rate, Time};

/// What an evaluation measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// From the start of the job to its end.
    pub total: Time,
    /// For each dimension or tier of the fabric: its name, and for how long its busiest link was sending.
    pub busy: Vec<(String, Time)>,
}

/// A job on a cluster. Change the cluster, then evaluate. Reads the files of the job at the first evaluation; copies share
/// them.
#[derive(Clone, Debug)]
pub struct Evaluator {
    scenario: Scenario,
    files: Arc<Files>,
}

impl Evaluator {
    /// An evaluator of `scenario`, which is checked when it is evaluated. Records no spans.
    pub fn new(mut scenario: Scenario) -> Self {
        scenario.trace.ranks = Traced::Listed(Vec::new());
        Self { scenario, files: Arc::default() }
    }

    /// The scenario in its present form.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Replaces the fabric.
    pub fn set_fabric(&mut self, fabric: Fabric) {
        self.scenario.fabric = fabric;
    }

    /// Replaces the placement of ranks on NPUs.
    pub fn set_placement(&mut self, placement: Placement) {
        self.scenario.placement = placement;
    }

    /// Gives each dimension a rate: what an NPU can send in it, over all its links together.
    ///
    /// # Errors
    /// `BadFabric` if the fabric has no dimensions, or another number of them.
    pub fn set_rates(&mut self, rates: &[Rate]) -> Result<()> {
        let Fabric::Dims(dims) = &mut self.scenario.fabric else {
            return Err(Diagnostic::error(
                Code::BadFabric,
                "only a fabric of dimensions has a rate for each",
            )
            .key("fabric")
            .into());
        };
        if dims.len() != rates.len() {
            return Err(Diagnostic::error(
                Code::BadFabric,
                "the number of rates differs from the number of dimensions",
            )
            .key("fabric.dims")
            .found(rates.len().to_string())
            .allowed(dims.len().to_string())
            .into());
        }
        for (dim, &rate) in dims.iter_mut().zip(rates) {
            (dim.rate, dim.rate_per_npu) = (None, Some(rate));
        }
        Ok(())
    }

    /// Simulates the job on the present cluster.
    ///
    /// # Errors
    /// Everything that is wrong with the scenario; a deadlock report; `LimitReached` if a limit or `control` stops the
    /// run.
    pub fn evaluate(&self, control: &mut Control<'_>) -> Result<Evaluation> {
        let watch = Watch::new(&self.scenario.limits, control.cancel, control.spent);
        let prepared = prepare_from(&self.scenario, &self.files, &watch)?;
        let (ended, evaluation) =
            execute(&self.scenario, &prepared, &watch, control, |_, record, network, _| {
                let busy = busiest(&prepared, |link| network.link_use(link).busy);
                (record.ended, Evaluation { total: record.finish, busy })
            })?;
        if ended == Ended::Finished {
            return Ok(evaluation);
        }
        Err(Diagnostic::error(Code::LimitReached, "the measurement stopped before the job ended")
            .key("limits")
            .help("raise the limit")
            .into())
    }
}

/// For each dimension or tier: its name, and the longest `busy` of its links. A link that represents others counts once,
/// since they are all equally busy.
fn busiest(prepared: &Prepared, busy: impl Fn(LinkId) -> Time) -> Vec<(String, Time)> {
    let (fabric, of_link) = (&prepared.fabric, tiers::of_links(&prepared.fabric));
    let mut longest = vec![Time::ZERO; tiers::count(fabric)];
    for link in prepared.symmetry.links() {
        if let Some(longest) = longest.get_mut(of_link(link)) {
            *longest = busy(link).max(*longest);
        }
    }
    tiers::names(fabric).into_iter().zip(longest).collect()
}
