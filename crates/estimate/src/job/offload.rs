//! Offload to host memory.

use super::set::{Member, Set};
use serde::{Deserialize, Serialize};

/// What is in host memory, not in the accelerator's memory.
#[derive(Clone, Copy, Debug, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Offload {
    /// The first layers of each chunk all of whose activations do (`--cpu-offloading-num-layers` of Megatron-LM).
    #[serde(default)]
    pub layers: u32,
    /// Modules of all layers whose inputs do (`--offload-modules` of Megatron Core).
    #[serde(default)]
    pub modules: Set<Input>,
    /// Part of the parameters whose optimizer states do; the host updates these (`--optimizer-offload-fraction`).
    #[serde(default)]
    pub optimizer: f64,
}

/// Modules of a layer whose inputs the backward pass needs (Megatron Core's `--offload-modules`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The norm before attention.
    AttnNorm,
    /// The projection of queries, keys and values.
    QkvLinear,
    /// Attention between its projections: queries, keys and values.
    CoreAttention,
    /// The output projection of attention.
    AttnProj,
    /// The norm before the feed-forward block.
    MlpNorm,
    /// The first linear layer of experts: tokens in the order of experts.
    ExpertFc1,
    /// Activation functions of experts: outputs of their first linear layer.
    MoeAct,
}

impl Input {
    /// The name in jobs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttnNorm => "attn_norm",
            Self::QkvLinear => "qkv_linear",
            Self::CoreAttention => "core_attention",
            Self::AttnProj => "attn_proj",
            Self::MlpNorm => "mlp_norm",
            Self::ExpertFc1 => "expert_fc1",
            Self::MoeAct => "moe_act",
        }
    }
}

impl Member for Input {
    const ALL: &'static [Self] = &[
        Self::AttnNorm,
        Self::QkvLinear,
        Self::CoreAttention,
        Self::AttnProj,
        Self::MlpNorm,
        Self::ExpertFc1,
        Self::MoeAct,
    ];

    fn number(self) -> u8 {
        self as u8
    }
}
