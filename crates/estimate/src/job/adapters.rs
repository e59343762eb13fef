//! Adapters, if only these are trained (LoRA).

use serde::{Deserialize, Serialize};

/// Which products of a layer have adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapted {
    /// All but those of experts.
    #[default]
    All,
    /// Those of attention.
    Attention,
    /// Those of queries, keys and values.
    Qkv,
}

/// Adapters beside products of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertAdapters {
    /// None.
    #[default]
    None,
    /// One beside each of the two products, for all experts of a layer (`share_expert_adapters` of Megatron-Bridge).
    Shared,
    /// One for each expert.
    Each,
}
