//! Compute models convert a layer's work to time. Workloads hold work, not time, so that one workload can run on many
//! accelerators.
//!
//! - [`given`]: times that the workload gives;
//! - [`roofline`]: the larger of operations over peak rate and bytes over memory bandwidth;
//! - [`curve`]: the fraction of the peak that a roofline reaches, depending on the size of the work;
//! - [`systolic`]: an array of multiply-accumulate units through which the operands of matrix products flow;
//! - [`throughput`]: matrix products at a fixed rate, lookups at memory bandwidth;
//! - [`table`]: measured times by layer and pass;
//! - [`measured`]: models of single kernels that were fitted to measured ones;
//! - [`power`]: a factor by which the NPU is faster than its model;
//! - [`ComputeModel`]: any of these models. Every model uses times that the workload gives unchanged.

pub mod curve;
pub mod given;
pub mod measured;
pub mod power;
pub mod roofline;
pub mod systolic;
pub mod table;
pub mod throughput;

pub use curve::Curve;
pub use measured::Measured;
pub use power::Power;
pub use roofline::Roofline;
pub use systolic::Systolic;
pub use table::Table;
pub use throughput::Throughput;

use syncline_diagnostics::Diagnostic;
use syncline_units::Time;
use syncline_workload::Work;

/// Converts work to time.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeModel {
    /// How long work takes.
    pub timing: Timing,
    /// The factor by which all times are divided.
    pub power: Power,
}

/// How long work takes on an NPU of power 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Timing {
    /// Only times that the workload gives.
    Given,
    /// Peak rate and memory bandwidth.
    Roofline(Roofline),
    /// A systolic array.
    Systolic(Systolic),
    /// A fixed rate of operations, and memory bandwidth.
    Throughput(Throughput),
    /// Measured times.
    Table(Table),
    /// Models of measured kernels.
    Measured(Box<Measured>),
}

impl ComputeModel {
    /// Time for `work`.
    ///
    /// # Errors
    /// Work that the model cannot time; a time that is too long to represent.
    pub fn time(&self, work: &Work) -> Result<Time, Diagnostic> {
        let time = match (work, &self.timing) {
            (Work::None, _) => Time::ZERO,
            (Work::Time(time), _) => *time,
            (Work::Ops { flop, memory, .. }, Timing::Given) => return Err(given::refuse(*flop, *memory)),
            (Work::Ops { flop, memory, data_type, .. }, Timing::Roofline(model)) => {
                model.time(*flop, *memory, *data_type)?
            }
            (Work::Ops { flop, memory, products, .. }, Timing::Systolic(model)) => {
                model.time(*flop, *memory, products)?
            }
            (Work::Ops { flop, memory, products, .. }, Timing::Throughput(model)) => {
                model.time(*flop, *memory, products)?
            }
            (Work::Ops { flop, memory, products, data_type }, Timing::Measured(model)) => {
                model.time(*flop, *memory, products, *data_type)?
            }
            (Work::Ops { .. }, Timing::Table(table)) => return Err(table.refuse()),
        };
        self.power.scale(time)
    }

    /// The model in words, for labels on results.
    pub fn label(&self) -> String {
        let label = match &self.timing {
            Timing::Given => "given".to_owned(),
            Timing::Roofline(model) => model.label(),
            Timing::Systolic(model) => model.label(),
            Timing::Throughput(model) => model.label(),
            Timing::Table(table) => table.label(),
            Timing::Measured(model) => model.label(),
        };
        format!("{label}{}", self.power.label())
    }
}

/// The error for a parameter that no accelerator can have.
pub(crate) fn out_of_range(key: &str, found: String, allowed: &str) -> Diagnostic {
    Diagnostic::error(syncline_diagnostics::Code::BadValue, "value out of range")
        .key(format!("compute.{key}"))
        .found(found)
        .allowed(allowed)
}

/// The error for a time of more than 213 days.
pub(crate) fn too_long(found: String) -> Diagnostic {
    Diagnostic::error(
        syncline_diagnostics::Code::Overflow,
        "a compute task takes longer than can be simulated",
    )
    .found(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_units::{Bytes, Flops};

    #[test]
    fn power_divides_every_time_and_is_in_the_label() {
        let model = |power| ComputeModel { timing: Timing::Given, power: Power::new(power).unwrap() };
        assert_eq!(model(1.0).time(&Work::Time(Time(1001))).unwrap(), Time(1001));
        assert_eq!(model(2.0).time(&Work::Time(Time(1001))).unwrap(), Time(501));
        assert_eq!(model(0.5).time(&Work::Time(Time(1001))).unwrap(), Time(2002));
        assert_eq!(model(1.0).label(), "given");
        assert_eq!(model(0.5).label(), "given, compute power 0.5");
        let work = Work::Ops { flop: Flops(1), memory: Bytes(1), products: Box::default(), data_type: None };
        assert!(model(1.0).time(&work).is_err());
    }
}
