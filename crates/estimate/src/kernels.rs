//! The times of the kernels of a layer: matrix products, attention, and kernels that move bytes.

use crate::job::Precision;
use crate::layer::Setting;
use crate::machine::{AttentionWork, Cluster, Costs, Product};
use crate::rotation::{self, Rotation};
use crate::work::{LayerWork, Linear, Part};
use syncline_kernels::Library;

impl<C: Costs> Setting<'_, C> {
    /// Rate of matrix products in a precision, over that of the measured kernels.
    pub(crate) fn rate(&self, precision: Precision) -> f64 {
        let Cluster { sustained, clock, .. } = self.cluster;
        let of_software = if precision.casts() {
            self.software.low_precision_products
        } else {
            self.software.products * sustained
        };
        of_software * clock
    }

    /// Seconds of a matrix product of a linear layer; of experts, one after the other, unless one kernel fuses them.
    ///
    /// Transformer Engine's grouped GEMMs take about as long as one GEMM for each expert, at the rate of single GEMMs on that
    /// machine: `SimuMax` measured them on B200 (`group_matmul` in `configs/system/b200_bf16_ceperm.json`). cuDNN's fused experts
    /// take about as long as one GEMM with the tokens of all experts (`cudnn-experts.csv`).
    pub(crate) fn product(&self, product: Product, linear: &Linear) -> f64 {
        let (m, n, k) = linear.sizes(product);
        // cuDNN's fused kernels have the rate of one scale for each tensor, although theirs are for blocks.
        let precision = match self.job.precision {
            Precision::Mxfp8 if self.job.fused_experts && linear.part == Part::Experts => Precision::Fp8,
            precision => precision,
        };
        // One kernel for all experts divides their tiles among the multiprocessors like those of one GEMM with all rows.
        let (times, rows) = if self.job.fused_experts { (1, m * linear.groups) } else { (linear.groups, m) };
        let seconds = self.costs.product(product, precision, rows, n, k, 1) / self.rate(precision);
        // However fast software is beside the measured kernels, the accelerator has a peak.
        let seconds = seconds.max(self.costs.least_product(precision, m, n, k, linear.groups / times));
        let of_gate = product == Product::InputGradient && linear.gate;
        times as f64 * seconds.max(if of_gate { self.gate_gradient(linear) } else { 0.0 })
    }

    /// Least seconds of a fused kernel that computes gradients of gated activations in its epilogue, and casts them: a few threads
    /// do so while others multiply.
    fn gate_gradient(&self, linear: &Linear) -> f64 {
        let elements = (linear.tokens * linear.groups * linear.inputs) as f64;
        elements * GATE_S * if self.model.biased_experts { GATE_BIAS } else { 1.0 }
    }

    /// Seconds of one matrix product of these sizes.
    pub(crate) fn product_of(&self, product: Product, precision: Precision, m: u64, n: u64, k: u64) -> f64 {
        let seconds = self.costs.product(product, precision, m, n, k, 1) / self.rate(precision);
        seconds.max(self.costs.least_product(precision, m, n, k, 1))
    }

    /// Seconds of attention in a pass; 0 in layers without attention.
    pub(crate) fn attention(&self, work: &LayerWork, backward: bool) -> f64 {
        let Some(attention) = work.attention else { return 0.0 };
        let parts = f64::from(self.job.context);
        if self.job.fused_attention {
            let library = self.job.attention_library.unwrap_or(self.software.attention_library);
            let work = AttentionWork { backward, library, ..attention };
            // Only kernels as fast as cuDNN's draw so much power that the clock falls below that of the measurements.
            let sustained = if library == Library::Cudnn { self.cluster.sustained } else { 1.0 };
            let seconds = self.costs.attention(work) / (self.software.attention * sustained);
            return seconds.max(self.costs.least_attention(work)) / parts;
        }
        // Batched GEMMs for scores and for values; two of each in the backward pass. Scores are written, scaled and masked,
        // normalised, dropped out, and read again.
        let AttentionWork { batch, sequence, heads, key_dim, value_dim, .. } = attention;
        let product =
            |n, k| self.costs.product(Product::Forward, Precision::Bf16, sequence, n, k, batch * heads);
        let once = product(sequence, key_dim) + product(value_dim, sequence);
        let times = if backward { 2.0 } else { 1.0 };
        let seconds = times * once / parts + self.costs.memory(SCORE_BYTES * work.scores as f64);
        seconds / self.software.attention
    }

    /// Seconds of element-wise operations and norms in the forward pass.
    pub(crate) fn element_wise(&self, work: &LayerWork) -> f64 {
        let bytes = self.between(work.element_bytes, work.routed_bytes);
        self.costs.memory(bytes + self.rotated(work, false) + self.biased(work.biased_bytes[0]))
    }

    /// The same in the backward pass, which moves twice the bytes by twice as many kernels.
    pub(crate) fn element_wise_backward(&self, work: &LayerWork) -> f64 {
        let bytes = 2.0 * self.between(work.element_bytes, work.routed_bytes);
        let bytes = bytes + self.rotated(work, true) + self.biased(work.biased_bytes[1]);
        2.0 * self.costs.memory(bytes / 2.0)
    }

    /// Bytes that element-wise operations and norms move with this software.
    pub(crate) fn between(&self, bytes: u64, routed: u64) -> f64 {
        let software = self.software;
        let unfused = if self.job.fused_experts { 1.0 } else { software.expert_element_wise };
        software.element_wise * bytes as f64 + unfused * routed as f64
    }

    /// Bytes that memory-bound kernels move in the time of the kernels that add biases of experts.
    pub(crate) fn biased(&self, bytes: u64) -> f64 {
        if self.software.fused_biases { 0.0 } else { PYTORCH * bytes as f64 }
    }

    /// The same for kernels of rotary embedding in a pass.
    pub(crate) fn rotated(&self, work: &LayerWork, backward: bool) -> f64 {
        let Rotation { fused, apart } = work.rotation;
        let passes = if backward { 2.0 } else { 1.0 };
        if rotation::is_fused(self.model, self.job, self.software) {
            self.software.element_wise * passes * fused as f64
        } else {
            PYTORCH * apart[usize::from(backward)] as f64
        }
    }

    /// Seconds in which weight gradients are added to their sum over micro-batches, beyond the write of the matrix product.
    pub(crate) fn accumulation(&self, parameters: u64) -> f64 {
        let sum = f64::from(self.job.gradient_bytes);
        // A GEMM that accumulates reads the sum and writes it, where the measured one writes 16 bits.
        let bytes = if self.software.fused_accumulation { 2.0 * sum - 2.0 } else { 2.0 + 2.0 * sum };
        self.costs.memory(bytes * parameters as f64)
    }
}

/// Time of PyTorch's own kernels over that of memory-bound kernels that move their bytes: RMSNorm, forward, on
/// GB200, GB300 and H200 (NVIDIA/cudnn-frontend, `benchmark/norms/results`, in `validation/kernels/cudnn-norms.csv`).
const PYTORCH: f64 = 1.32;
/// Seconds in which a kernel of cuDNN computes the gradients of a gated activation for one element, and casts them, on Blackwell:
/// 32,768 tokens of 4,096 elements take 0.76 ms on GB200 and 0.71 ms on GB300 before the clock falls, a tenth longer than
/// the same product with a simpler activation (NVIDIA/cudnn-frontend, `benchmark/cutedsl_fusion_kernels/results`, in
/// `validation/kernels/cudnn-experts.csv`).
const GATE_S: f64 = 5.5e-12;
/// The same with gradients of biases, over that without: 155.6 and 139.0 us (NVIDIA/cudnn-frontend, pull request 322).
const GATE_BIAS: f64 = 1.12;
/// Bytes that attention moves for each score if it is not fused, in one pass.
const SCORE_BYTES: f64 = 13.0;
