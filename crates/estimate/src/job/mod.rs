//! How a model is trained.
//!
//! [`Job`] has everything. Its choices are in modules of their own: `precision` of products, the `pipeline`, `communication`
//! and what it overlaps with, what the backward pass recomputes (`recompute`), what is offloaded to host memory
//! (`offload`), and `adapters`.

mod adapters;
mod communication;
mod offload;
mod pipeline;
mod precision;
mod recompute;
mod set;

pub use adapters::{Adapted, ExpertAdapters};
pub use communication::{ContextMethod, Dispatcher, Overlap, Routing};
pub use offload::{Input, Offload};
pub use pipeline::{Schedule, Split};
pub use precision::Precision;
pub(crate) use precision::{ELEMENT, ELEMENT_BYTES};
pub use recompute::{Module, Recompute, RecomputeMethod};
pub use set::{Member, Set};

use crate::model::Model;
use serde::{Deserialize, Serialize};
use syncline_kernels::Library;

/// How ranks divide the work, and in which batches they do it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Ranks that divide each layer.
    pub tensor: u32,
    /// Whether these also divide norms and what is between layers by tokens (Korthikanti et al. 2022, 4.2.2).
    pub sequence_parallel: bool,
    /// Stages of the pipeline.
    pub pipeline: u32,
    /// Chunks of layers of each stage: 1, or more with interleaving; 2 for schedules whose chunks form a V.
    pub virtual_stages: u32,
    /// The order in which stages work on micro-batches.
    #[serde(default)]
    pub schedule: Schedule,
    /// How layers are divided among chunks.
    pub split: Split,
    /// Layers of each chunk in the order of the model, those for multi-token prediction the last ones; without any, as `split`
    /// says.
    #[serde(default)]
    pub chunk_layers: Vec<u32>,
    /// Ranks that divide each sequence.
    pub context: u32,
    /// How these have the keys and values of each other.
    #[serde(default)]
    pub context_method: ContextMethod,
    /// Ranks that divide the experts.
    pub expert: u32,
    /// Ranks that divide each expert.
    pub expert_tensor: u32,
    /// Tokens that the experts of the fullest rank take over those of equal parts.
    #[serde(default = "equal")]
    pub expert_load: f64,
    /// Copies of the model.
    pub data: u32,
    /// Stage of ZeRO: 0, 1, 2 or 3.
    pub zero: u8,
    /// Ranks that together hold one copy of what ZeRO divides; fewer than all data-parallel and context-parallel ranks with
    /// HSDP, or ZeRO in groups.
    pub shard_group: u32,
    /// Sequences of a micro-batch.
    pub micro_batch: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Data type of linear layers.
    pub precision: Precision,
    /// Bytes of a gradient, as it is summed over micro-batches and ranks.
    pub gradient_bytes: u8,
    /// Bytes of each of Adam's two moments: 4, or 2 or 1 where the optimizer keeps them in 16 or 8 bits.
    #[serde(default = "four")]
    pub moment_bytes: u8,
    /// What the backward pass recomputes.
    pub recompute: Recompute,
    /// Which layers, if whole layers are recomputed; without it each of them, one by one.
    #[serde(default)]
    pub recompute_method: Option<RecomputeMethod>,
    /// Layers of a group, or the first ones of each chunk, as the method says.
    #[serde(default = "one")]
    pub recompute_layers: u32,
    /// Which parts of a layer, if selected ones are; without any, scores of attention that is not fused.
    #[serde(default)]
    pub recompute_modules: Set<Module>,
    /// Whether one kernel computes attention without writing its scores (FlashAttention).
    pub fused_attention: bool,
    /// Whose kernels compute it, if not those that the software takes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_library: Option<Library>,
    /// Whether one kernel rotates positions into queries, and one into keys, rather than one for each operation
    /// (`apply_rope_fusion` of Megatron Core).
    #[serde(default = "yes")]
    pub rope_fusion: bool,
    /// What overlaps with computing.
    pub overlap: Overlap,
    /// Which kernels the accelerator launches by itself, from CUDA graphs.
    #[serde(default)]
    pub graphs: Graphs,
    /// What sends tokens to experts on other ranks.
    #[serde(default)]
    pub dispatcher: Dispatcher,
    /// Which experts a token goes to.
    #[serde(default)]
    pub routing: Routing,
    /// Multiprocessors that send tokens to experts, where [`Dispatcher::Fused`] does.
    pub dispatch_multiprocessors: u32,
    /// Whether one kernel computes all products of a rank's experts with what is between them, at the rate of one large
    /// product (Transformer Engine's fused grouped feed-forward block, in MXFP8 alone).
    #[serde(default)]
    pub fused_experts: bool,
    /// Whether the output layer has the precision of the linear layers, rather than 16 bits.
    #[serde(default)]
    pub low_precision_output_layer: bool,
    /// Whether the products of attention have 8 bits, forward and backward, rather than 16 (Transformer Engine's
    /// `fp8_dpa`).
    #[serde(default)]
    pub fp8_attention: bool,
    /// Whether parameters of linear layers are in the precision of their products, without those of 16 bits, and gathered in
    /// it (`--fp8-param-gather` of Megatron-LM).
    #[serde(default)]
    pub low_precision_parameters: bool,
    /// How many layers at the start of the model stay in BF16, linear layers and attention, in a job of lower precision
    /// (`--num-layers-at-start-in-bf16` of Megatron-LM).
    #[serde(default)]
    pub first_layers_bf16: u32,
    /// The same at the end, before layers for multi-token prediction.
    #[serde(default)]
    pub last_layers_bf16: u32,
    /// The tokens of each tensor-parallel rank are a multiple of this: the vocabulary is padded to that
    /// (`--make-vocab-size-divisible-by` of Megatron-LM).
    #[serde(default = "one")]
    pub vocab_multiple: u32,
    /// Rank of adapters, if only these are trained (LoRA).
    #[serde(default)]
    pub adapters: Option<u32>,
    /// Which products have adapters.
    #[serde(default)]
    pub adapted: Adapted,
    /// Adapters beside products of experts.
    #[serde(default)]
    pub expert_adapters: ExpertAdapters,
    /// What is offloaded to host memory.
    #[serde(default)]
    pub offload: Offload,
}

/// Which kernels the accelerator launches by itself, from CUDA graphs; the processor launches the others one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Graphs {
    /// None.
    #[default]
    None,
    /// Those of attention and of the router: all but experts' products and dispatch, whose sizes depend on the tokens.
    Partial,
    /// All.
    Full,
}

const fn four() -> u8 {
    4
}

const fn equal() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

impl Job {
    /// Whether a layer stays in BF16 in a job of lower precision.
    pub const fn is_bf16(&self, model: &Model, layer: u32) -> bool {
        let last = layer < model.layers && layer + self.last_layers_bf16 >= model.layers;
        self.precision.casts() && (layer < self.first_layers_bf16 || last)
    }

    /// A job all of whose layers are as those that stay in BF16 in this one; nothing if it has none.
    pub(crate) fn of_bf16_layers(&self) -> Option<Self> {
        let some = self.precision.casts() && self.first_layers_bf16 + self.last_layers_bf16 > 0;
        some.then(|| Self {
            precision: Precision::Bf16,
            fp8_attention: false,
            low_precision_parameters: false,
            fused_experts: false,
            ..self.clone()
        })
    }

    /// The data type of the output layer.
    pub(crate) const fn output_precision(&self) -> Precision {
        if self.low_precision_output_layer { self.precision } else { Precision::Bf16 }
    }

    /// Tokens of a micro-batch on one rank.
    pub const fn tokens(&self) -> u64 {
        self.micro_batch as u64 * self.sequence / self.context as u64
    }

    /// Ranks that have the same gradients to sum.
    pub const fn replicas(&self) -> u32 {
        self.data * self.context * self.schedule.ways()
    }

    /// Parts of a layer that the backward pass recomputes.
    pub fn modules_again(&self) -> Set<Module> {
        match self.recompute {
            Recompute::Selective if !self.recompute_modules.is_empty() => self.recompute_modules,
            Recompute::Selective if !self.fused_attention => vec![Module::CoreAttention].into(),
            _ => Set::default(),
        }
    }

    /// Whether the backward pass computes all of a layer again, which is the `nth` of its chunk.
    pub const fn computes_again(&self, nth: u32) -> bool {
        matches!(self.recompute, Recompute::Full)
            && match self.recompute_method {
                Some(RecomputeMethod::Block) => nth < self.recompute_layers,
                Some(RecomputeMethod::Uniform) | None => true,
            }
    }

    /// Whether activations of a layer are offloaded to host memory: the `nth` of its chunk, which is the `last` before the loss or
    /// not. The backward pass needs that one at once.
    pub const fn offloads(&self, nth: u32, last: bool) -> bool {
        nth < self.offload.layers || (!self.offload.modules.is_empty() && !last)
    }

    /// Tokens of the vocabulary on each tensor-parallel rank, with those that pad it.
    pub const fn rank_vocab(&self, model: &Model) -> u64 {
        let unit = self.vocab_multiple as u64;
        model.vocab.div_ceil(unit * self.tensor as u64) * unit
    }

    /// Tokens of the vocabulary, with those that pad it to a multiple of `vocab_multiple` for each tensor-parallel rank.
    pub const fn padded_vocab(&self, model: &Model) -> u64 {
        self.rank_vocab(model) * self.tensor as u64
    }

    /// Parameters of a table of tokens on each tensor-parallel rank.
    pub const fn rank_table(&self, model: &Model) -> u64 {
        self.rank_vocab(model) * model.hidden
    }

    /// Ranks of a stage.
    pub const fn stage_ranks(&self) -> u32 {
        self.data * self.context * self.tensor
    }

    /// Ranks that hold the same experts.
    pub const fn expert_replicas(&self) -> u32 {
        let ranks = self.replicas() * self.tensor / (self.expert * self.expert_tensor);
        if ranks == 0 { 1 } else { ranks }
    }

    /// All ranks.
    pub const fn ranks(&self) -> u32 {
        self.tensor * self.pipeline * self.context * self.data
    }
}
