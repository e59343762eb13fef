//! ASTRA-sim 1 text workloads: a policy, its header, a number of layers, one line a layer.
//!
//! ```text
//! HYBRID_TRANSFORMER model_parallel_NPU_group: 4
//! 1
//! Q1 -1 3145728 NONE 0 2162688 ALLREDUCE 8388608 2228224 ALLREDUCE 33554432 10
//! ```
//!
//! Tokens are separated by any white space; line ends mean nothing. A layer's fields are its name, a reserved number
//! (-1), then for forward pass, input gradient and weight gradient each cycles (of 1 ns), a collective and its bytes,
//! then update cycles, and where the policy is `HYBRID_CUSTOMIZED` a policy of its own.
//!
//! Source: ASTRA-sim 1.0, `Workload.cc:initialize_workload`. Read more strictly: an unknown collective is an error (there
//! it means `NONE`), as are numbers out of range and layers that are missing or left over.
//!
//! - [`words`]: policies and collectives;
//! - [`tokens`]: tokens with their places;
//! - [`parse`]: the grammar.

pub mod parse;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod words;

pub use words::{Collective, Policy};

use crate::astra2::Source;

/// A workload, as its file says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWorkload {
    /// How layers are parallelised, and by which loop they are executed.
    pub policy: Policy,
    /// What the policy needs to know.
    pub header: Header,
    /// From input to output.
    pub layers: Vec<Layer>,
    /// Where it was read.
    pub source: Source,
}

/// What some policies have between their name and the number of layers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// `HYBRID_TRANSFORMER`, `HYBRID_TRANSFORMER_FWD_IN_BCKWD`: NPUs that share one copy of the model. `None` also in a
    /// `HYBRID_TRANSFORMER` file of July 2020, which had no such number yet.
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
    /// Its name; need not be unique.
    pub name: String,
    /// Forward pass.
    pub forward: Pass,
    /// Gradient with respect to the input.
    pub input_grad: Pass,
    /// Gradient with respect to the parameters.
    pub weight_grad: Pass,
    /// Cycles that pass after each finished collective of the layer.
    pub update_cycles: u64,
    /// How this layer is parallelised; only where the file's policy is [`Policy::HybridCustomized`].
    pub policy: Option<Policy>,
    /// Line of its name.
    pub line: u32,
}

/// One of a layer's three computations, and what is exchanged after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pass {
    /// Compute time; a cycle is a nanosecond.
    pub cycles: u64,
    /// The collective and its bytes, as ASTRA-sim counts them: an all-gather's are the shard of one NPU.
    pub exchange: Option<(Collective, u64)>,
}
