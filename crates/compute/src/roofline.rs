//! The roofline model (Williams, Waterman, Patterson, CACM 2009): an operator is bound by the peak rate of the compute
//! units or by memory bandwidth, whichever takes longer. An upper bound of speed, labelled as such.

use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::{Bytes, FlopRate, Flops, Rate, Time};

/// An accelerator's roofline.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// The accelerator's name, for labels; may be empty.
    pub accelerator: String,
    /// Peak rate for the workload's data type.
    pub peak: FlopRate,
    /// Memory bandwidth.
    pub memory: Rate,
    /// Fraction of the peak rate that is reached, above 0 to 1.
    pub efficiency: f64,
}

impl Roofline {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Rates of zero, an efficiency outside (0, 1].
    pub fn new(
        accelerator: String,
        peak: FlopRate,
        memory: Rate,
        efficiency: f64,
    ) -> Result<Self, Diagnostic> {
        let bad = |key: &str, found: String, allowed: &str| {
            Diagnostic::error(Code::BadValue, "value out of range")
                .key(format!("compute.{key}"))
                .found(found)
                .allowed(allowed)
        };
        if peak.is_zero() {
            return Err(bad("peak", peak.to_string(), "a rate above zero"));
        }
        if memory.is_zero() {
            return Err(bad("memory", memory.to_string(), "a rate above zero"));
        }
        if !(efficiency > 0.0 && efficiency <= 1.0) {
            return Err(bad("efficiency", efficiency.to_string(), "above 0, at most 1"));
        }
        Ok(Self { accelerator, peak, memory, efficiency })
    }

    /// Time for `flop` operations that move `memory` bytes.
    ///
    /// # Errors
    /// A time that does not fit.
    pub fn time(&self, flop: Flops, memory: Bytes) -> Result<Time, Diagnostic> {
        // The same rounding as for link efficiency: six decimal places, rounded down to a whole rate.
        let reached = FlopRate(Rate(self.peak.0).scaled(self.efficiency).0.max(1));
        match (reached.time_for(flop), self.memory.transfer_time(memory)) {
            (Some(compute), Some(traffic)) => Ok(compute.max(traffic)),
            _ => Err(Diagnostic::error(Code::Overflow, "a compute task takes longer than can be simulated")
                .found(format!("{flop} at {reached}, {memory} at {}", self.memory))),
        }
    }

    /// How it obtains times.
    pub fn label(&self) -> String {
        let name = if self.accelerator.is_empty() { String::new() } else { format!(" {}", self.accelerator) };
        format!("roofline{name} ({} at efficiency {}, memory {})", self.peak, self.efficiency, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v100() -> Roofline {
        Roofline::new("V100".into(), "125TFLOP/s".parse().unwrap(), "900GB/s".parse().unwrap(), 0.5).unwrap()
    }

    #[test]
    fn the_slower_side_counts() {
        let compute_bound = v100().time("62.5GFLOP".parse().unwrap(), Bytes(1)).unwrap();
        assert_eq!(compute_bound, "1ms".parse().unwrap());
        let memory_bound = v100().time(Flops(1), "900MB".parse().unwrap()).unwrap();
        assert_eq!(memory_bound, "1ms".parse().unwrap());
    }

    #[test]
    fn impossible_accelerators_are_refused() {
        let make =
            |peak, memory, efficiency| Roofline::new(String::new(), FlopRate(peak), Rate(memory), efficiency);
        for bad in [make(0, 8, 1.0), make(1, 0, 1.0), make(1, 8, 0.0), make(1, 8, 1.5), make(1, 8, f64::NAN)]
        {
            assert!(bad.is_err());
        }
        assert!(make(1, 8, 1.0).unwrap().time(Flops(u64::MAX), Bytes(0)).is_err());
    }
}
