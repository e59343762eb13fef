//! A systolic array: `rows` x `columns` multiply-accumulate units through which the operands of matrix products flow,
//! as the 256 x 256 array of astra2020 IV-A.
//!
//! **Cycles** are those of SCALE-Sim's analytical model (Samajdar et al., ISPASS 2020). A product of sizes M, K, N is
//! laid out on the array by its dataflow: two sizes in space, one in time.
//!
//! | dataflow | rows hold | columns hold | streamed |
//! |---|---|---|---|
//! | weight stationary | K | N | M |
//! | output stationary | M | N | K |
//! | input stationary | K | M | N |
//!
//! A product that does not fit on the array is cut into tiles, which run one after the other. A tile of `r` rows and
//! `c` columns takes `2 r + c + T - 2` cycles, where `T` is the streamed size: `r` to fill the array (or, output
//! stationary, to drain it); then `T` values enter the first row and column, and the last of them needs `r + c - 2`
//! more cycles to cross. Tiles at the edges use only the rows and columns that they fill. If S rows and U columns in
//! all are cut into `a` and `b` parts, the sum over all tiles is `2 S b + U a + a b (T - 2)`.
//!
//! **Memory**: each product moves each operand once, while it computes. If moving takes longer, the array stalls, so a
//! product takes the larger of the two times. The size of on-chip memory is not limited.
//!
//! **The rest** of the work (activations, norms, pooling, softmax, updates) runs on a vector unit after the products.
//! It takes the larger of its operations over the unit's rate and its bytes over memory bandwidth. Without a vector
//! unit it takes no time, as if it were done while results leave the array. A fixed delay can be added to each pass of
//! a layer: astra2020 IV-A times products and has such delays as parameters, without giving values.

use crate::{out_of_range, too_long};
use syncline_diagnostics::Diagnostic;
use syncline_units::{Bytes, FlopRate, Flops, Frequency, Rate, Time};
use syncline_workload::Product;

/// Which matrix stays in the array while the others flow through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataflow {
    /// The right operand, as in Google's TPU.
    WeightStationary,
    /// The result.
    OutputStationary,
    /// The left operand.
    InputStationary,
}

impl Dataflow {
    /// Its name, as in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WeightStationary => "weight_stationary",
            Self::OutputStationary => "output_stationary",
            Self::InputStationary => "input_stationary",
        }
    }
}

/// A systolic array with its memory and its vector unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Systolic {
    /// Rows of multiply-accumulate units.
    pub rows: u32,
    /// Columns of multiply-accumulate units.
    pub columns: u32,
    /// Cycles per second.
    pub clock: Frequency,
    /// Memory bandwidth.
    pub memory: Rate,
    /// Which matrix stays in the array.
    pub dataflow: Dataflow,
    /// Rate of operations that are not matrix products; `None` if these take no time.
    pub vector: Option<FlopRate>,
    /// Added to each pass of each layer.
    pub delay: Time,
}

impl Systolic {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The first size or rate that is zero.
    pub fn check(self) -> Result<Self, Diagnostic> {
        let zeros = [
            ("rows", self.rows == 0, "at least 1"),
            ("columns", self.columns == 0, "at least 1"),
            ("clock", self.clock.is_zero(), "a frequency above zero"),
            ("memory", self.memory.is_zero(), "a rate above zero"),
            ("vector", self.vector == Some(FlopRate::ZERO), "a rate above zero"),
        ];
        match zeros.into_iter().find(|&(_, zero, _)| zero) {
            Some((key, _, allowed)) => Err(out_of_range(key, "0".to_owned(), allowed)),
            None => Ok(self),
        }
    }

    /// Cycles of `product`; `None` if they exceed 64 bits.
    pub fn cycles(&self, product: &Product) -> Option<u64> {
        let Product { m, k, n, count, .. } = *product;
        let (down, across, streamed) = match self.dataflow {
            Dataflow::WeightStationary => (k, n, m),
            Dataflow::OutputStationary => (m, n, k),
            Dataflow::InputStationary => (k, m, n),
        };
        if [m, k, n, count].contains(&0) {
            return Some(0);
        }
        let tiles_down = u128::from(down.div_ceil(u64::from(self.rows)));
        let tiles_across = u128::from(across.div_ceil(u64::from(self.columns)));
        let tiles = tiles_down.checked_mul(tiles_across)?;
        let filled = (2 * u128::from(down)).checked_mul(tiles_across)?;
        let crossed = u128::from(across).checked_mul(tiles_down)?;
        let flowed = tiles.checked_mul(u128::from(streamed))?;
        // Every tile has at least one row, column and streamed value, so the difference stays above zero.
        let cycles = filled.checked_add(crossed)?.checked_add(flowed)?.checked_sub(2 * tiles)?;
        u64::try_from(cycles.checked_mul(u128::from(count))?).ok()
    }

    /// Time for `flop` operations that move `memory` bytes, including those of `products`.
    ///
    /// # Errors
    /// A time that is too long to represent.
    pub fn time(&self, flop: Flops, memory: Bytes, products: &[Product]) -> Result<Time, Diagnostic> {
        let overflow = || too_long(format!("{flop} and {memory} on {}", self.label()));
        let (mut sum, mut rest_flop, mut rest_memory) = (self.delay, flop, memory);
        for product in products {
            let array = self.cycles(product).and_then(|cycles| self.clock.time_for(cycles));
            let stream = self.memory.transfer_time(product.memory);
            let (Some(array), Some(stream)) = (array, stream) else { return Err(overflow()) };
            sum = sum.0.checked_add(array.max(stream).0).map(Time).ok_or_else(overflow)?;
            // Saturate: each rank's shares of a divided layer are rounded up, so products may slightly exceed the
            // total.
            rest_flop = rest_flop.saturating_sub(Flops(product.flop().unwrap_or(u64::MAX)));
            rest_memory = rest_memory.saturating_sub(product.memory);
        }
        let Some(vector) = self.vector else { return Ok(sum) };
        match (vector.time_for(rest_flop), self.memory.transfer_time(rest_memory)) {
            (Some(vector), Some(stream)) => {
                sum.0.checked_add(vector.max(stream).0).map(Time).ok_or_else(overflow)
            }
            _ => Err(overflow()),
        }
    }

    /// The model in words.
    pub fn label(&self) -> String {
        let delay = if self.delay.is_zero() { String::new() } else { format!(", delay {}", self.delay) };
        let vector = self.vector.map_or_else(|| "free".to_owned(), |rate| rate.to_string());
        format!(
            "systolic {}x{} ({} at {}, memory {}, vector {vector}{delay})",
            self.rows,
            self.columns,
            self.dataflow.name(),
            self.clock,
            self.memory,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(rows: u32, columns: u32, dataflow: Dataflow) -> Systolic {
        Systolic {
            rows,
            columns,
            clock: "1GHz".parse().unwrap(),
            memory: "1GB/s".parse().unwrap(),
            dataflow,
            vector: Some("1GFLOP/s".parse().unwrap()),
            delay: Time::ZERO,
        }
    }

    fn product(m: u64, k: u64, n: u64) -> Product {
        Product { m, k, n, count: 1, memory: Bytes(0) }
    }

    /// The sum over tiles, one by one.
    fn by_tiles(array: &Systolic, down: u64, across: u64, streamed: u64) -> u64 {
        let parts = |size: u64, part: u64| {
            (0..size).step_by(part as usize).map(move |start| part.min(size - start)).collect::<Vec<_>>()
        };
        let (rows, columns) = (parts(down, array.rows.into()), parts(across, array.columns.into()));
        rows.iter().flat_map(|r| columns.iter().map(move |c| 2 * r + c + streamed - 2)).sum()
    }

    #[test]
    fn a_product_that_fits_takes_one_tile() {
        // SCALE-Sim's formula, 2 S + U + T - 2, by hand for each dataflow.
        let one = product(100, 200, 50);
        assert_eq!(array(256, 256, Dataflow::WeightStationary).cycles(&one), Some(400 + 50 + 100 - 2));
        assert_eq!(array(256, 256, Dataflow::OutputStationary).cycles(&one), Some(200 + 50 + 200 - 2));
        assert_eq!(array(256, 256, Dataflow::InputStationary).cycles(&one), Some(400 + 100 + 50 - 2));
        assert_eq!(array(1, 1, Dataflow::WeightStationary).cycles(&product(1, 1, 1)), Some(2));
    }

    #[test]
    fn whole_tiles_follow_one_another() {
        // 1024 x 512 weights are 4 x 2 tiles of 256 x 256.
        let cycles = array(256, 256, Dataflow::WeightStationary).cycles(&product(1000, 1024, 512));
        assert_eq!(cycles, Some(8 * (2 * 256 + 256 + 1000 - 2)));
    }

    #[test]
    fn edge_tiles_use_what_they_fill() {
        // 300 x 10 on 256 x 256: a tile of 256 x 10 and one of 44 x 10.
        let cycles = array(256, 256, Dataflow::WeightStationary).cycles(&product(7, 300, 10));
        assert_eq!(cycles, Some((512 + 10 + 7 - 2) + (88 + 10 + 7 - 2)));
        for (m, k, n) in [(1, 1, 1), (5, 9, 13), (16, 17, 33), (100, 8, 4), (3, 64, 65)] {
            for (rows, columns) in [(1, 1), (4, 8), (8, 4), (16, 16)] {
                let on = |dataflow| array(rows, columns, dataflow);
                let (weight, output, input) = (
                    on(Dataflow::WeightStationary),
                    on(Dataflow::OutputStationary),
                    on(Dataflow::InputStationary),
                );
                assert_eq!(weight.cycles(&product(m, k, n)), Some(by_tiles(&weight, k, n, m)));
                assert_eq!(output.cycles(&product(m, k, n)), Some(by_tiles(&output, m, n, k)));
                assert_eq!(input.cycles(&product(m, k, n)), Some(by_tiles(&input, k, m, n)));
            }
        }
    }

    #[test]
    fn copies_are_done_one_after_the_other() {
        let array = array(8, 8, Dataflow::OutputStationary);
        let one = array.cycles(&product(20, 30, 40)).unwrap();
        assert_eq!(array.cycles(&Product { count: 12, ..product(20, 30, 40) }), Some(12 * one));
        assert_eq!(array.cycles(&Product { count: 0, ..product(20, 30, 40) }), Some(0));
        assert_eq!(array.cycles(&product(u64::MAX, u64::MAX, u64::MAX)), None);
    }

    #[test]
    fn memory_that_is_slower_stalls_the_array() {
        let array = array(256, 256, Dataflow::WeightStationary);
        let time = |bytes| {
            let product = Product { memory: Bytes(bytes), ..product(100, 200, 50) };
            array.time(Flops(2_000_000), Bytes(bytes), &[product]).unwrap()
        };
        // 548 cycles of a nanosecond; a byte takes as long.
        assert_eq!((time(0), time(548), time(549)), (Time(548_000), Time(548_000), Time(549_000)));
    }

    #[test]
    fn the_rest_runs_after_the_products() {
        let array = Systolic { delay: Time::from_ns(1_000), ..array(256, 256, Dataflow::WeightStationary) };
        let product = Product { memory: Bytes(500), ..product(100, 200, 50) };
        let time = |flop: u64, memory: u64| {
            array.time(Flops(2_000_000 + flop), Bytes(500 + memory), &[product]).unwrap()
        };
        assert_eq!(time(0, 0), Time::from_ns(1_548));
        assert_eq!(time(70, 30), Time::from_ns(1_548 + 70));
        assert_eq!(time(30, 70), Time::from_ns(1_548 + 70));
        assert_eq!(array.time(Flops(40), Bytes(0), &[]).unwrap(), Time::from_ns(1_040));
        let free = Systolic { vector: None, ..array.clone() };
        assert_eq!(free.time(Flops(2_000_070), Bytes(530), &[product]).unwrap(), Time::from_ns(1_548));
    }

    #[test]
    fn impossible_arrays_are_refused() {
        let good = array(1, 1, Dataflow::WeightStationary);
        assert!(good.clone().check().is_ok());
        for (bad, key) in [
            (Systolic { rows: 0, ..good.clone() }, "compute.rows"),
            (Systolic { columns: 0, ..good.clone() }, "compute.columns"),
            (Systolic { clock: Frequency(0), ..good.clone() }, "compute.clock"),
            (Systolic { memory: Rate(0), ..good.clone() }, "compute.memory"),
            (Systolic { vector: Some(FlopRate(0)), ..good.clone() }, "compute.vector"),
        ] {
            assert_eq!(bad.check().unwrap_err().key.as_deref(), Some(key));
        }
        assert!(good.time(Flops(u64::MAX), Bytes(0), &[]).is_err());
    }

    #[test]
    fn the_label_names_every_parameter() {
        let mut array = array(128, 64, Dataflow::OutputStationary);
        assert_eq!(
            array.label(),
            "systolic 128x64 (output_stationary at 1GHz, memory 1GB/s, vector 1GFLOP/s)"
        );
        array.delay = Time::from_ns(500);
        assert!(array.label().ends_with("vector 1GFLOP/s, delay 500ns)"));
    }
}
