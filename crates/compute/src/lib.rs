//! Compute models: they turn a layer's work into time, late, so that one workload can be run on many accelerators.
//!
//! - [`given`]: times that the workload states;
//! - [`roofline`]: the larger of operations over peak rate and bytes over memory bandwidth;
//! - [`ComputeModel`]: either of them. Times that are given are taken by every model as they are.

pub mod given;
pub mod roofline;

pub use roofline::Roofline;

use syncline_diagnostics::Diagnostic;
use syncline_units::Time;
use syncline_workload::Work;

/// What turns work into time.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputeModel {
    /// Only given times.
    Given,
    /// Peak rate and memory bandwidth.
    Roofline(Roofline),
}

impl ComputeModel {
    /// Time for `work`.
    ///
    /// # Errors
    /// Work that the model cannot time, or a time that does not fit.
    pub fn time(&self, work: Work) -> Result<Time, Diagnostic> {
        match (work, self) {
            (Work::None, _) => Ok(Time::ZERO),
            (Work::Time(time), _) => Ok(time),
            (Work::Ops { flop, memory }, Self::Given) => Err(given::refuse(flop, memory)),
            (Work::Ops { flop, memory }, Self::Roofline(model)) => model.time(flop, memory),
        }
    }

    /// How it obtains times, for labels on results.
    pub fn label(&self) -> String {
        match self {
            Self::Given => "given".to_owned(),
            Self::Roofline(model) => model.label(),
        }
    }
}
