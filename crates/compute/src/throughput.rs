//! A fixed throughput: matrix products run at one rate of operations, whatever their shape and memory traffic, as in
//! dlrm2020 Table IV, which gives a GPU a compute power of 60 TFLOPS. All other work of a pass with matrix products
//! runs in parallel and takes no time. Work without matrix products, such as a lookup or a parameter update, takes the
//! larger of its operations at that rate and its bytes over memory bandwidth.

use crate::{out_of_range, too_long};
use syncline_diagnostics::Diagnostic;
use syncline_units::{Bytes, FlopRate, Flops, Rate, Time};
use syncline_workload::Product;

/// An accelerator with a fixed rate of operations and a memory bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Rate of operations.
    pub rate: FlopRate,
    /// Memory bandwidth.
    pub memory: Rate,
}

impl Throughput {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Rates of zero.
    pub fn new(rate: FlopRate, memory: Rate) -> Result<Self, Diagnostic> {
        if rate.is_zero() {
            return Err(out_of_range("rate", rate.to_string(), "a rate above zero"));
        }
        if memory.is_zero() {
            return Err(out_of_range("memory", memory.to_string(), "a rate above zero"));
        }
        Ok(Self { rate, memory })
    }

    /// Time for `flop` operations that move `memory` bytes, including those of `products`.
    ///
    /// # Errors
    /// A time that is too long to represent.
    pub fn time(&self, flop: Flops, memory: Bytes, products: &[Product]) -> Result<Time, Diagnostic> {
        let time = if products.is_empty() {
            self.rate.time_for(flop).zip(self.memory.transfer_time(memory)).map(|(ops, bytes)| ops.max(bytes))
        } else {
            let sum = products.iter().try_fold(0u64, |sum, product| sum.checked_add(product.flop()?));
            sum.and_then(|flop| self.rate.time_for(Flops(flop)))
        };
        time.ok_or_else(|| too_long(format!("{flop} and {memory} of memory traffic at {}", self.label())))
    }

    /// The model in words.
    pub fn label(&self) -> String {
        format!("throughput ({}, memory {})", self.rate, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> Throughput {
        Throughput::new("60TFLOP/s".parse().unwrap(), "600GB/s".parse().unwrap()).unwrap()
    }

    fn product(m: u64, k: u64, n: u64) -> Product {
        Product { m, k, n, count: 1, memory: Bytes(0) }
    }

    #[test]
    fn with_products_only_their_operations_count() {
        // dlrm2020 Table V, the largest layer: 512 samples, 4160 inputs, 2048 outputs.
        let largest = [product(512, 4160, 2048)];
        let time = gpu().time(Flops(8_724_152_320 + 1_000_000), Bytes(1 << 40), &largest).unwrap();
        assert_eq!(time, Time(145_402_539));
        let two = [product(1000, 1000, 30_000), product(1000, 1000, 30_000)];
        assert_eq!(gpu().time(Flops(120_000_000_000), Bytes(0), &two).unwrap(), Time::from_ns(2_000_000));
    }

    #[test]
    fn without_products_the_slower_side_counts() {
        // Its lookups: 512 samples, 64 tables, 60 vectors of 64 elements of 2 bytes.
        assert_eq!(gpu().time(Flops(123_863_040), Bytes(251_658_240), &[]).unwrap(), Time(419_430_400));
        assert_eq!(gpu().time("60GFLOP".parse().unwrap(), Bytes(1), &[]).unwrap(), Time::from_ns(1_000_000));
        assert_eq!(gpu().label(), "throughput (60TFLOP/s, memory 600GB/s)");
    }

    #[test]
    fn impossible_accelerators_are_refused() {
        for (rate, memory, key) in [(0, 8, "compute.rate"), (1, 0, "compute.memory")] {
            let error = Throughput::new(FlopRate(rate), Rate(memory)).unwrap_err();
            assert_eq!(error.key.as_deref(), Some(key));
        }
        let slow = Throughput::new(FlopRate(1), Rate(8)).unwrap();
        assert!(slow.time(Flops(0), Bytes(u64::MAX), &[]).is_err());
        assert!(slow.time(Flops(u64::MAX), Bytes(0), &[]).is_err());
        assert!(slow.time(Flops(0), Bytes(0), &[product(1 << 31, 1 << 31, 1)]).is_err());
        assert!(gpu().time(Flops(0), Bytes(0), &[product(u64::MAX, 2, 2)]).is_err());
    }
}
