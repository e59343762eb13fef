//! How ranks exchange keys, values and tokens, and which exchanges overlap with computing.

use serde::{Deserialize, Serialize};

/// How ranks of a sequence have the keys and values of each other (`--cp-comm-type` of Megatron-LM).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextMethod {
    /// They send them around a ring while they compute, each with an early and a late part of the sequence, so that all have
    /// as many pairs (Liu et al. 2023; `p2p`).
    #[default]
    Ring,
    /// They gather them before attention, and sum their gradients after it (Llama 3, 3.3.2; `all_gather`).
    AllGather,
    /// Each has all tokens of a part of the heads during attention (Jacobs et al. 2023; `a2a`).
    Ulysses,
}

/// What sends tokens to experts on other ranks, and brings them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatcher {
    /// NCCL's all-to-all: each copy of a token travels, also where a rank holds several of its experts.
    #[default]
    AllToAll,
    /// Dedicated kernels (DeepEP, HybridEP): a token travels once to each rank that holds any of its experts.
    Fused,
}

/// Which experts a token goes to, all of which have equally many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// Any, independently of each other, as a router that is balanced chooses them.
    #[default]
    Random,
    /// Experts one after the other, from a multiple of their number on (`FakeBalancedGate` of `NeMo` Automodel's benchmarks): a
    /// token reaches few ranks.
    Consecutive,
}

/// What overlaps with computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Overlap {
    /// Collectives of tensor parallelism, in parts beside the products that need them.
    pub tensor: bool,
    /// Gradients, with the backward pass of the last micro-batch.
    pub gradients: bool,
    /// Parameters that ZeRO gathers, with the forward pass.
    pub parameters: bool,
    /// Messages between stages.
    pub pipeline: bool,
    /// Tokens to experts and back, with the computing of another micro-batch.
    #[serde(default)]
    pub experts: bool,
    /// Copies of gradients and parameters between accelerator and host, with the update on the host.
    #[serde(default)]
    pub optimizer: bool,
}
