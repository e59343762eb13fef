//! The roofline model (Williams, Waterman, Patterson, CACM 2009): an operator is bound by the peak rate of the compute
//! units or by memory bandwidth, whichever takes longer. It is an upper bound on speed.

use crate::curve::Curve;
use crate::{out_of_range, too_long};
use std::collections::BTreeMap;
use syncline_diagnostics::Diagnostic;
use syncline_units::{Bytes, DataType, FlopRate, Flops, Rate, Time};

/// An accelerator's roofline.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// The accelerator's name, for labels; may be empty.
    pub accelerator: String,
    /// Peak rate for the type that the job computes in.
    pub peak: FlopRate,
    /// Peak rates for other types in which some of the work is computed. For a type without an entry, `peak` counts.
    pub peaks: BTreeMap<DataType, FlopRate>,
    /// Memory bandwidth.
    pub memory: Rate,
    /// Fraction of the peak rate that is reached.
    pub efficiency: Curve,
}

impl Roofline {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Rates of zero.
    pub fn new(
        accelerator: String,
        peak: FlopRate,
        peaks: BTreeMap<DataType, FlopRate>,
        memory: Rate,
        efficiency: Curve,
    ) -> Result<Self, Diagnostic> {
        if let Some(zero) = [&peak].into_iter().chain(peaks.values()).find(|peak| peak.is_zero()) {
            return Err(out_of_range("peak", zero.to_string(), "a rate above zero"));
        }
        if memory.is_zero() {
            return Err(out_of_range("memory", memory.to_string(), "a rate above zero"));
        }
        Ok(Self { accelerator, peak, peaks, memory, efficiency })
    }

    /// Time for `flop` operations that move `memory` bytes. `data_type` is their type if it differs from the job's.
    ///
    /// # Errors
    /// A time that is too long to represent.
    pub fn time(&self, flop: Flops, memory: Bytes, data_type: Option<DataType>) -> Result<Time, Diagnostic> {
        let peak = data_type.and_then(|each| self.peaks.get(&each)).copied().unwrap_or(self.peak);
        match (self.efficiency.time(flop, peak), self.memory.transfer_time(memory)) {
            (Some(compute), Some(traffic)) => Ok(compute.max(traffic)),
            _ => Err(too_long(format!("{flop} at {peak}, {memory} at {}", self.memory))),
        }
    }

    /// The model in words.
    pub fn label(&self) -> String {
        let name = if self.accelerator.is_empty() { String::new() } else { format!(" {}", self.accelerator) };
        format!("roofline{name} ({} at {}, memory {})", self.peak, self.efficiency.label(), self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v100() -> Roofline {
        let efficiency = Curve::constant(0.5).unwrap();
        let peaks = [(DataType::Float32, "12.5TFLOP/s".parse().unwrap())].into();
        let (peak, memory) = ("125TFLOP/s".parse().unwrap(), "900GB/s".parse().unwrap());
        Roofline::new("V100".into(), peak, peaks, memory, efficiency).unwrap()
    }

    #[test]
    fn the_slower_of_compute_and_memory_determines_the_time() {
        let compute_bound = v100().time("62.5GFLOP".parse().unwrap(), Bytes(1), None).unwrap();
        assert_eq!(compute_bound, "1ms".parse().unwrap());
        let memory_bound = v100().time(Flops(1), "900MB".parse().unwrap(), None).unwrap();
        assert_eq!(memory_bound, "1ms".parse().unwrap());
    }

    #[test]
    fn work_in_another_type_has_its_own_peak() {
        let time = |data_type| v100().time("62.5GFLOP".parse().unwrap(), Bytes(1), data_type).unwrap();
        assert_eq!(time(Some(DataType::Float32)), "10ms".parse().unwrap());
        assert_eq!(time(Some(DataType::BFloat16)), "1ms".parse().unwrap());
    }

    #[test]
    fn impossible_accelerators_are_refused() {
        let make = |peak, memory| {
            Roofline::new(
                String::new(),
                FlopRate(peak),
                BTreeMap::new(),
                Rate(memory),
                Curve::constant(1.0).unwrap(),
            )
        };
        assert!(make(0, 8).is_err() && make(1, 0).is_err());
        assert!(make(1, 8).unwrap().time(Flops(u64::MAX), Bytes(0), None).is_err());
        for efficiency in [0.0, 1.5, f64::NAN] {
            assert!(Curve::constant(efficiency).is_err());
        }
    }
}
