//! ASTRA-sim 1 text workloads: a policy, its header, the number of layers, one line per layer.
//!
//! ```text
//! HYBRID_TRANSFORMER model_parallel_NPU_group: 4
//! 1
//! Q1 -1 3145728 NONE 0 2162688 ALLREDUCE 8388608 2228224 ALLREDUCE 33554432 10
//! ```
//!
//! Tokens are separated by any white space; line ends have no meaning. A layer's fields are its name and a reserved
//! number (-1); then for each of forward pass, input gradient and weight gradient: cycles (of 1 ns), a collective and
//! its bytes; then update cycles; and, if the policy is `HYBRID_CUSTOMIZED`, the layer's own policy.
//!
//! Source: ASTRA-sim 1.0, `Workload.cc:initialize_workload`. This reader is stricter: an unknown collective is an
//! error (ASTRA-sim reads it as `NONE`), and so are numbers out of range and missing or extra layers.
//!
//! - [`words`]: policies and collectives;
//! - [`tokens`]: tokens with their positions;
//! - [`parse`]: the grammar.

pub mod parse;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod words;

pub use words::{Collective, Policy};

use crate::astra2::Source;

/// A workload, as written in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWorkload {
    /// How layers are parallelised, and which loop executes them.
    pub policy: Policy,
    /// Parameters of the policy.
    pub header: Header,
    /// The layers, from input to output.
    pub layers: Vec<Layer>,
    /// Where it was read.
    pub source: Source,
}

/// What some policies have between their name and the number of layers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// `HYBRID_TRANSFORMER`, `HYBRID_TRANSFORMER_FWD_IN_BCKWD`: number of NPUs that share one copy of the model. Also
    /// `None` in `HYBRID_TRANSFORMER` files of July 2020, which do not have this number.
    pub model_group: Option<u32>,
    /// `HYBRID_DLRM`, `HYBRID_DLRM_ENHANCED`: index of the last layer of the bottom MLP.
    pub last_bottom: Option<u32>,
    /// `HYBRID_TRANSFORMER_FWD_IN_BCKWD`: layers whose activations are kept.
    pub checkpoints: Vec<u32>,
    /// `HYBRID_TRANSFORMER_FWD_IN_BCKWD`: layers whose backward pass begins with a repeated forward pass.
    pub checkpoint_initiates: Vec<u32>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name; not necessarily unique.
    pub name: String,
    /// Forward pass.
    pub forward: Pass,
    /// Gradient with respect to the input.
    pub input_grad: Pass,
    /// Gradient with respect to the parameters.
    pub weight_grad: Pass,
    /// Cycles added after each finished collective of the layer.
    pub update_cycles: u64,
    /// How this layer is parallelised; only if the file's policy is [`Policy::HybridCustomized`].
    pub policy: Option<Policy>,
    /// Line of the layer's name.
    pub line: u32,
}

/// One of a layer's three computations, and the collective after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pass {
    /// Compute time; a cycle is one nanosecond.
    pub cycles: u64,
    /// The collective and its bytes, as ASTRA-sim counts them: for an all-gather, the shard of one NPU.
    pub exchange: Option<(Collective, u64)>,
}
