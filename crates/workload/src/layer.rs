//! Layers, as models and files describe them, before any parallelism divides them.

use crate::exchange::GivenExchange;
use crate::product::Product;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use syncline_units::{Bytes, DataType, Flops, Time};

/// One layer of a model.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Unique within the model.
    pub name: String,
    /// Forward pass.
    #[serde(default)]
    pub forward: Work,
    /// Gradient with respect to the input.
    #[serde(default)]
    pub input_grad: Work,
    /// Gradient with respect to the parameters.
    #[serde(default)]
    pub weight_grad: Work,
    /// Time of the local parameter update after the gradients are reduced.
    #[serde(default)]
    pub update: Work,
    /// Number of parameters.
    #[serde(default)]
    pub parameters: u64,
    /// Elements of the input activations of one NPU's share of the batch.
    #[serde(default)]
    pub inputs: u64,
    /// Elements of the output activations of one NPU's share of the batch.
    #[serde(default)]
    pub outputs: u64,
    /// How tensor parallelism divides the layer.
    #[serde(default)]
    pub sharding: Sharding,
    /// The mesh that divides it; absent means that of [`Parallel`](crate::parallel::Parallel).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<String>,
    /// Which ranks have it: for each of these axes, the coordinates. Other ranks skip it. Empty means all ranks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranks: BTreeMap<String, Vec<u32>>,
    /// Its exchanges; replaces those that the parallelisation would derive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Vec<GivenExchange>>,
    /// The layer that first needs the output, if that is not the next one: the layers between them do not wait for
    /// this layer's exchanges, and its gradient is available once that layer's input gradient is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<String>,
    /// Consecutive layers with the same number form a block. A stage of a pipeline holds blocks whole, and
    /// recomputation recomputes them whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Number of parts, such as heads, that tensor parallelism may divide it into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Number of distinct tokens, if tensor-parallel ranks divide the layer by tokens. If they do not divide the
    /// number, their parts are equal all the same: it is padded to the next multiple, as in Megatron-LM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<u32>,
    /// Tokens of a sample, which sequence parallelism divides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// Whether it is recomputed under [`Recompute::Selective`](crate::parallel::Recompute::Selective).
    #[serde(default, skip_serializing_if = "is_false")]
    pub selective: bool,
    /// Bytes that its forward pass keeps for its backward pass, for one NPU's share of the batch and before tensor
    /// parallelism. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Bytes>,
    /// As `kept`, under selective recomputation and if the layer is recomputed; absent means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_selective: Option<Bytes>,
    /// The layer whose parameters it uses, such as a table of embeddings shared by the projection. It then has no
    /// parameters of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
}

/// How tensor parallelism divides a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// Parameters and outputs are divided; outputs are all-gathered forward, input gradients all-reduced backward
    /// (astra2020 III-A).
    #[default]
    Gather,
    /// Parameters are divided by columns and outputs stay divided: no exchange forward, input gradients all-reduced
    /// backward.
    Column,
    /// Parameters are divided by rows: outputs all-reduced forward, no exchange backward.
    Row,
    /// Work and activations are divided, and nothing is exchanged (attention heads).
    Divided,
    /// Every tensor-parallel rank computes the whole layer.
    Replicated,
    /// Parameters are divided among the data-parallel ranks, which exchange outputs and their gradients
    /// ([`exchanged`](crate::exchanged)). A rank's share of the work is that of its own samples.
    Exchange,
}

/// Work, as a time or as operations and memory traffic.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// No work.
    #[default]
    None,
    /// A given time.
    Time(Time),
    /// Operations and bytes, from which a compute model derives the time.
    Ops {
        /// Floating-point operations.
        flop: Flops,
        /// Bytes moved between memory and the compute units.
        memory: Bytes,
        /// The matrix products among these operations. Their operations and bytes are included in the two sums.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        products: Box<[Product]>,
        /// The type that the operations compute in, if that is not the job's [`Types::compute`](crate::types::Types::compute): attention, norms and
        /// losses of a job whose linear layers compute in fp8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data_type: Option<DataType>,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(yes: &bool) -> bool {
    !*yes
}
