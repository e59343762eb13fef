//! What the backward pass recomputes.

use super::set::Member;
use serde::{Deserialize, Serialize};

/// What the backward pass recomputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// Nothing.
    None,
    /// Chosen parts of each layer; scores of attention that is not fused, if none are chosen (Korthikanti et al. 2022,
    /// section 5).
    Selective,
    /// Every second matrix product, and all operations between products (torchtitan's selective recomputation).
    Operators,
    /// Whole layers, of which only the inputs are kept.
    Full,
    /// Whole layers, of which the inputs, queries, keys and values are kept (`MaxText`'s policy `save_qkv_proj`).
    ExceptQkv,
}

/// Which layers are recomputed (`--recompute-method` of Megatron-LM, with `--recompute-num-layers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecomputeMethod {
    /// All, in groups: only the input of each group is kept, and a group is recomputed at once.
    Uniform,
    /// The first ones of each chunk, one by one.
    Block,
}

/// A part of a layer that can be recomputed by itself (`--recompute-modules` of Megatron Core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// Attention between its projections.
    CoreAttention,
    /// Both norms.
    Layernorm,
    /// The up-projections of latent attention: queries, keys and values from their compressed forms.
    MlaUpProj,
    /// The dense feed-forward block.
    Mlp,
    /// Router, dispatch, experts, shared experts and combine.
    Moe,
    /// Activation functions of experts.
    MoeAct,
    /// Shared experts.
    SharedExperts,
}

impl Module {
    /// The name in jobs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CoreAttention => "core_attention",
            Self::Layernorm => "layernorm",
            Self::MlaUpProj => "mla_up_proj",
            Self::Mlp => "mlp",
            Self::Moe => "moe",
            Self::MoeAct => "moe_act",
            Self::SharedExperts => "shared_experts",
        }
    }
}

impl Member for Module {
    const ALL: &'static [Self] = &[
        Self::CoreAttention,
        Self::Layernorm,
        Self::MlaUpProj,
        Self::Mlp,
        Self::Moe,
        Self::MoeAct,
        Self::SharedExperts,
    ];

    fn number(self) -> u8 {
        self as u8
    }
}
