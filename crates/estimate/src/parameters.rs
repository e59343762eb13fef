//! The types of parameters: what ranks gather of them, what they keep for products, and what is cast once a step.
//!
//! Products of 8 or 4 bits need weights along rows, and for gradients of inputs along columns. Transformer Engine casts
//! weights of 16 bits in the first micro-batch of a step and keeps the result until the next step (`_fp8_workspaces` in
//! `module/linear.py`), or has no weights but those (`fp8_model_init`, which `--fp8-param-gather` of Megatron-LM turns on). The
//! optimizer writes the latter in their own type, ranks gather them in it, and each makes the copy along columns
//! (`post_all_gather_processing`). Those of MXFP8 have other scales along columns, so that ranks gather 16 bits, in the memory
//! of gradients, and cast these (`param_and_grad_buffer.py` of Megatron Core).
//!
//! Tables of tokens, the output layer, routers and norms keep 16 bits.

use crate::held::Held;
use crate::job::{ELEMENT, Job, Precision};
use crate::memory_software::MemorySoftware;

impl Job {
    /// Bytes of parameters as ranks gather them, and as the optimizer writes them: without experts, and of experts.
    pub(crate) fn gathered_bytes(&self, held: Held) -> (f64, f64) {
        let saved = ELEMENT - self.gathered_each();
        (
            ELEMENT * held.dense - saved * held.low_precision,
            ELEMENT * held.experts - saved * held.low_precision_experts,
        )
    }

    /// The same of a parameter of a linear layer whose products have 8 or 4 bits.
    fn gathered_each(&self) -> f64 {
        match self.precision {
            _ if !self.low_precision_parameters => ELEMENT,
            // Ranks that divide parameters gather those along rows forward, and those along columns backward (Megatron-FSDP).
            Precision::Mxfp8 if self.zero >= 3 => self.precision.bytes(),
            Precision::Mxfp8 => ELEMENT,
            // Scales follow from the largest elements of all ranks, which are few bytes.
            precision => precision.data_bytes(),
        }
    }
}

/// Bytes that are kept of a weight for its products: along rows and along columns.
fn product_bytes(precision: Precision, software: &MemorySoftware) -> f64 {
    let copies = if precision == Precision::Fp8 { f64::from(software.fp8_weight_copies) } else { 2.0 };
    copies * precision.bytes()
}

/// Bytes of the weights of a rank, of which those in `held` are whole, and `output` are of an output layer whose products have
/// 8 or 4 bits, too.
pub(crate) fn whole_weights(job: &Job, software: &MemorySoftware, held: Held, output: f64) -> f64 {
    let (all, low_precision) = (held.all(), held.low_precision + held.low_precision_experts);
    match (software.keeps_casts, job.low_precision_parameters) {
        (true, false) => ELEMENT * all + product_bytes(job.precision, software) * (low_precision + output),
        (true, true) => {
            ELEMENT * (all - low_precision)
                + product_bytes(job.precision, software) * (low_precision + output)
        }
        (false, false) => ELEMENT * all,
        (false, true) => ELEMENT * (all - low_precision) + job.precision.bytes() * low_precision,
    }
}

/// The same of weights that ranks divide: of those in `held`, each has one part.
pub(crate) fn divided_weights(job: &Job, held: Held) -> f64 {
    let (all, low_precision) = (held.all(), held.low_precision + held.low_precision_experts);
    if !job.low_precision_parameters {
        return ELEMENT * all;
    }
    // Only those of MXFP8 cannot be turned.
    let copies = if job.precision == Precision::Mxfp8 { 2.0 } else { 1.0 };
    ELEMENT * (all - low_precision) + copies * job.precision.bytes() * low_precision
}

/// Bytes that casts of weights move once a step: into the types of products, or from rows into columns.
pub(crate) fn cast_once(job: &Job, software: &MemorySoftware, held: Held) -> f64 {
    if !software.keeps_casts || job.adapters.is_some() || job.zero >= 3 {
        return 0.0;
    }
    let each = if job.low_precision_parameters && job.precision != Precision::Mxfp8 {
        2.0 * (product_bytes(job.precision, software) - job.precision.bytes())
    } else {
        ELEMENT + product_bytes(job.precision, software)
    };
    each * (held.low_precision + held.low_precision_experts)
}
