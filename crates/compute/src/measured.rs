//! Models of kernels that were fitted to measured ones (`crates/kernels`): each matrix product takes the time of its own
//! kernel, fused attention that of one, and what is left moves bytes.
//!
//! Attention is fused if its products move fewer bytes than the scores between them: then the scores stay inside the
//! kernel. Its pass follows from the products: two forward, five backward (scores are computed again).

use crate::too_long;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_kernels::{AttentionShape, GemmShape, Kernels, Layout, Pass};
use syncline_units::{Bytes, DataType, FlopRate, Flops, Time};
use syncline_workload::Product;

/// Products of the two passes of fused attention.
const FORWARD: usize = 2;
const BACKWARD: usize = 5;

/// Kernels of an accelerator.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    kernels: Kernels,
    data_type: DataType,
    /// Peak rate by the data sheet, for rates of utilisation; absent if it is unknown.
    pub peak: Option<FlopRate>,
}

impl Measured {
    /// Reads models from the text of their file; `data_type` is the type that the job computes in.
    ///
    /// # Errors
    /// A malformed file; one without matrix products in this type.
    pub fn new(
        models: &str,
        name: &str,
        data_type: DataType,
        peak: Option<FlopRate>,
    ) -> Result<Self, Diagnostic> {
        let made = Self { kernels: Kernels::parse(models, name)?, data_type, peak };
        made.kernels.gemm(named(data_type))?;
        Ok(made)
    }

    /// The models of an accelerator whose memory is `ratio` times as fast.
    ///
    /// # Errors
    /// A ratio that is not above zero.
    pub fn with_memory(self, accelerator: String, ratio: f64) -> Result<Self, Diagnostic> {
        if !(ratio > 0.0 && ratio.is_finite()) {
            return Err(crate::out_of_range("memory_ratio", ratio.to_string(), "above 0"));
        }
        Ok(Self { kernels: self.kernels.with_memory(accelerator, ratio), ..self })
    }

    /// Time for `flop` operations that move `memory` bytes, with the matrix products among them. `data_type` is their type
    /// if it differs from the job's.
    ///
    /// # Errors
    /// Operations of which neither products nor bytes are known; a type whose products were not measured; a time that is
    /// too long to represent.
    pub fn time(
        &self,
        flop: Flops,
        memory: Bytes,
        products: &[Product],
        data_type: Option<DataType>,
    ) -> Result<Time, Diagnostic> {
        if products.is_empty() && memory == Bytes::ZERO && flop > Flops::ZERO {
            return Err(unknown_operations(flop));
        }
        let data_type = data_type.unwrap_or(self.data_type);
        let (mut seconds, mut rest) = (0.0, products);
        while let Some(product) = rest.first() {
            if let Some((shape, count)) = fused(rest, data_type) {
                seconds += self.kernels.attention(named(data_type))?.time(shape).seconds;
                rest = &rest[count..];
            } else {
                let &Product { m, n, k, count, .. } = product;
                let shape = GemmShape { m, n, k, groups: count, layout: Layout::Nt };
                seconds += self.kernels.gemm(named(data_type))?.time(shape).seconds;
                rest = &rest[1..];
            }
        }
        let moved: u64 = products.iter().fold(0, |sum, each| sum.saturating_add(each.memory.0));
        let left = memory.0.saturating_sub(moved);
        if left > 0 {
            seconds += self.kernels.memory_bound().time(left).seconds;
        }
        // Rounded up, as all times; the largest `u64` that a float holds exactly is far beyond any limit.
        let picoseconds = (seconds * 1e12).ceil();
        if picoseconds < 1.8e19 {
            return Ok(Time(picoseconds as u64));
        }
        Err(too_long(format!("kernels of {seconds:e} s")))
    }

    /// The model in words.
    pub fn label(&self) -> String {
        format!("measured {} ({})", self.kernels.accelerator, self.data_type)
    }
}

/// The name of a data type in files of models. fp16 runs on the same units as bf16, at the same rates.
const fn named(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Float8 => "fp8",
        DataType::BFloat16 | DataType::Float16 => "bf16",
        DataType::Int8 => "int8",
        DataType::TensorFloat32 => "tf32",
        DataType::Float32 => "fp32",
        DataType::Float64 => "fp64",
    }
}

/// The shape of fused attention, and how many products it is, if `products` begin with one.
fn fused(products: &[Product], data_type: DataType) -> Option<(AttentionShape, usize)> {
    let [scores, second, ..] = products else { return None };
    let same = |left: &Product, right: (u64, u64, u64)| {
        (left.m, left.k, left.n) == right && left.count == scores.count
    };
    let (rows, size, keys) = (scores.m, scores.k, scores.n);
    // Scores that are written take more bytes than this.
    let written =
        u128::from(rows) * u128::from(keys) * u128::from(scores.count) * u128::from(data_type.bytes());
    if u128::from(scores.memory.0) >= written || keys > rows {
        return None;
    }
    let weighted = (rows, keys, size);
    let (pass, count) = if same(second, weighted) {
        (Pass::Forward, FORWARD)
    } else if same(second, (rows, size, keys)) && products.len() >= BACKWARD && same(&products[2], weighted) {
        (Pass::Backward, BACKWARD)
    } else {
        return None;
    };
    let shape = AttentionShape {
        batch: 1,
        sequence: rows,
        heads: scores.count,
        kv_heads: scores.count,
        head_dim: size,
        causal: keys < rows,
        window: 0,
        pass,
        prepare: false,
    };
    Some((shape, count))
}

/// The error for operations whose kernels are unknown.
fn unknown_operations(flop: Flops) -> Diagnostic {
    Diagnostic::error(
        Code::BadWorkload,
        "operations without products and without bytes have no measured kernel",
    )
    .found(flop.to_string())
    .help("give the products of the operations, or use the compute model `roofline`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An accelerator whose kernels take round times: products 1 PFLOP/s, attention half of that, memory 1 TB/s.
    const MODELS: &str = r#"{
        "schema": "syncline-kernel-model/1", "accelerator": "X", "software": "", "source": "", "multiprocessors": 100,
        "memory_bound": { "launch_s": 1e-5, "bytes_per_s": 1e12, "range": [1, 2] },
        "gemm": { "bf16": {
            "element_bytes": 2, "output_bytes": 2, "block_k": 10, "tiles": [[100, 100, 1]], "splits": [1],
            "constants": {
                "flop_per_s": 1e15, "operand_bytes_per_s": 1e18, "memory_bytes_per_s": 1e18, "cache_bytes_per_s": 1e18,
                "cache_bytes": 1, "reread": 0, "launch_s": 1e-12, "tile_s": 0, "block_s": 0, "element_s": 0, "split_s": 0,
                "throttle": 0, "throttle_s": 1, "spread": 0.1
            },
            "range": { "m": [1, 1], "n": [1, 1], "k": [1, 1] }, "layouts": { "nt": 1 }
        } },
        "attention": { "bf16": {
            "element_bytes": 2,
            "forward": {
                "tiles": [[100, 100, 1]], "heads": [[100, 1]],
                "constants": {
                    "flop_per_s": 5e14, "scores_per_s": 1e30, "memory_bytes_per_s": 1e18, "cache_bytes": 1,
                    "launch_s": 1e-12, "tile_s": 0, "block_s": 0, "tail": 0, "throttle": 0, "throttle_s": 1, "prepare": 0,
                    "prepare_s": 0
                },
                "range": { "batch_heads": [1, 2], "sequence": [1, 2] }
            },
            "backward": { "rule": { "flop_ratio": 2.5, "rate_ratio": 0.5, "source": "" } }
        } }
    }"#;

    fn device() -> Measured {
        Measured::new(MODELS, "models.json", DataType::BFloat16, None).unwrap()
    }

    fn product(m: u64, k: u64, n: u64, count: u64, memory: u64) -> Product {
        Product { m, k, n, count, memory: Bytes(memory) }
    }

    #[track_caller]
    fn takes(memory: u64, products: &[Product], microseconds: f64) {
        let time = device().time(Flops(1), Bytes(memory), products, None).unwrap();
        assert!((time.0 as f64 / (microseconds * 1e6) - 1.0).abs() < 1e-3, "{time} is not {microseconds} us");
    }

    #[test]
    fn each_product_takes_the_time_of_its_kernel_and_the_rest_moves_bytes() {
        let each = product(10_000, 1_000, 1_000, 1, 40_000_000);
        takes(40_000_000, &[each], 20.0);
        takes(80_000_000, &[each, each], 40.0);
        // 5 MB beside the products: 10 us to launch, and 5 us.
        takes(45_000_000, &[each], 35.0);
        takes(5_000_000, &[], 15.0);
    }

    #[test]
    fn products_whose_scores_are_not_written_are_fused_attention() {
        // 100 heads of 1000 tokens and 100 elements, all scores: 4e10 FLOP at half the rate.
        let fused =
            [product(1_000, 100, 1_000, 100, 40_000_000), product(1_000, 1_000, 100, 100, 40_000_000)];
        takes(80_000_000, &fused, 80.0);
        // Unfused, with 2e8 bytes of scores: two products at the full rate.
        let apart = fused.map(|each| Product { memory: Bytes(240_000_000), ..each });
        takes(480_000_000, &apart, 40.0);
    }

    #[test]
    fn five_products_are_the_backward_pass_of_fused_attention() {
        let (scores, weighted) =
            (product(1_000, 100, 1_000, 100, 1_000), product(1_000, 1_000, 100, 100, 1_000));
        let pass = [scores, scores, weighted, weighted, weighted];
        takes(5_000, &pass, 80.0 * 2.5 / 0.5);
    }

    #[test]
    fn half_of_the_keys_are_those_before_a_causal_mask() {
        let half = [product(1_000, 100, 500, 100, 1_000), product(1_000, 500, 100, 100, 1_000)];
        // 55 of 100 blocks of 100 x 100.
        takes(2_000, &half, 44.0);
    }

    #[test]
    fn types_without_models_are_refused() {
        let products = [product(1, 1, 1, 1, 1)];
        let refused = device().time(Flops(2), Bytes(1), &products, Some(DataType::Float8)).unwrap_err();
        assert_eq!((refused.found.as_deref(), refused.allowed.as_deref()), (Some("fp8"), Some("bf16")));
        assert!(Measured::new(MODELS, "models.json", DataType::Float32, None).is_err());
        assert!(device().time(Flops(2), Bytes(1), &products, Some(DataType::Float16)).is_ok());
    }

    #[test]
    fn operations_without_products_and_bytes_are_refused() {
        assert!(device().time(Flops(1), Bytes(0), &[], None).is_err());
        assert_eq!(device().time(Flops(0), Bytes(0), &[], None).unwrap(), Time(0));
        assert_eq!(device().label(), "measured X (bf16)");
    }
}
