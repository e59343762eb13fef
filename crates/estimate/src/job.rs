//! How a model is trained.

use crate::model::Model;
use serde::{Deserialize, Serialize};
use syncline_kernels::Library;

/// Bytes of an element of 16 bits, which all has that has no type of its own: parameters for products, what is between them.
pub(crate) const ELEMENT_BYTES: u64 = 2;
/// The same, among numbers that may be fractions.
pub(crate) const ELEMENT: f64 = ELEMENT_BYTES as f64;

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
    /// What the backward pass computes again.
    pub recompute: Recompute,
    /// Which layers, if whole layers are computed again; without it each of them, one by one.
    #[serde(default)]
    pub recompute_method: Option<RecomputeMethod>,
    /// Layers of a group, or the first ones of each chunk, as the method says.
    #[serde(default = "one")]
    pub recompute_layers: u32,
    /// Which parts of a layer, if selected ones are; without any, scores of attention that is not fused.
    #[serde(default)]
    pub recompute_modules: Modules,
    /// Whether one kernel computes attention without writing its scores (FlashAttention).
    pub fused_attention: bool,
    /// Whose kernels compute it, if not those that the software takes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_library: Option<Library>,
    /// What overlaps with computing.
    pub overlap: Overlap,
    /// Which kernels the accelerator launches by itself, from CUDA graphs.
    #[serde(default)]
    pub graphs: Graphs,
    /// What sends tokens to experts on other ranks.
    #[serde(default)]
    pub dispatcher: Dispatcher,
    /// Multiprocessors that send tokens to experts, where [`Dispatcher::Fused`] does.
    pub dispatch_multiprocessors: u32,
    /// Whether one kernel computes all products of a rank's experts with what is between them, at the rate of one large
    /// product (Transformer Engine's fused grouped feed-forward block for MXFP8).
    #[serde(default)]
    pub fused_experts: bool,
    /// Whether the output layer has the precision of the linear layers, rather than 16 bits.
    #[serde(default)]
    pub narrow_output: bool,
    /// Whether the products of attention have 8 bits, forward and backward, rather than 16 (Transformer Engine's
    /// `fp8_dpa`).
    #[serde(default)]
    pub narrow_attention: bool,
    /// Whether parameters of linear layers are in the precision of their products, without those of 16 bits, and gathered in
    /// it (`--fp8-param-gather` of Megatron-LM).
    #[serde(default)]
    pub narrow_parameters: bool,
    /// The first layers of the model whose linear layers and attention have 16 bits, whatever those of others have
    /// (`--num-layers-at-start-in-bf16` of Megatron-LM).
    #[serde(default)]
    pub wide_first_layers: u32,
    /// The last ones, without layers for multi-token prediction.
    #[serde(default)]
    pub wide_last_layers: u32,
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
    /// What lies in the host's memory.
    #[serde(default)]
    pub offload: Offload,
}

/// What lies in the host's memory rather than the accelerator's.
#[derive(Clone, Copy, Debug, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Offload {
    /// The first layers of each chunk all of whose activations do (`--cpu-offloading-num-layers` of Megatron-LM).
    #[serde(default)]
    pub layers: u32,
    /// Modules of all layers whose inputs do (`--offload-modules` of Megatron Core).
    #[serde(default)]
    pub modules: Inputs,
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
    /// The product of queries, keys and values.
    QkvLinear,
    /// Attention between its products: queries, keys and values.
    CoreAttention,
    /// The product after attention.
    AttnProj,
    /// The norm before the feed-forward block.
    MlpNorm,
    /// The first product of experts: tokens in their order.
    ExpertFc1,
    /// Activations of experts: outputs of their first product.
    MoeAct,
}

impl Input {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AttnNorm,
        Self::QkvLinear,
        Self::CoreAttention,
        Self::AttnProj,
        Self::MlpNorm,
        Self::ExpertFc1,
        Self::MoeAct,
    ];

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

/// Modules whose inputs lie in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(from = "Vec<Input>", into = "Vec<Input>")]
pub struct Inputs(u8);

impl Inputs {
    /// Whether a module is among them.
    pub const fn has(self, module: Input) -> bool {
        self.0 & 1 << module as u8 != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Vec<Input>> for Inputs {
    fn from(modules: Vec<Input>) -> Self {
        Self(modules.into_iter().fold(0, |all, each| all | 1 << each as u8))
    }
}

impl From<Inputs> for Vec<Input> {
    fn from(modules: Inputs) -> Self {
        Input::ALL.into_iter().filter(|each| modules.has(*each)).collect()
    }
}

/// A data type of linear layers. Logits and what is between layers have 16 bits, and so has attention by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 16 bits.
    Bf16,
    /// 16 bits.
    Fp16,
    /// 8 bits, a scale for each tensor or block.
    Fp8,
    /// 8 bits, a scale for each 32 elements.
    Mxfp8,
    /// 4 bits, a scale for each 16 elements.
    Nvfp4,
}

impl Precision {
    /// Whether operands are converted from 16 bits.
    pub const fn converts(self) -> bool {
        !matches!(self, Self::Bf16 | Self::Fp16)
    }

    /// Bytes of an element, with its part of a scale.
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2.0,
            Self::Fp8 => 1.0,
            Self::Mxfp8 => 1.0 + 1.0 / 32.0,
            Self::Nvfp4 => 0.5 + 1.0 / 16.0,
        }
    }

    /// Bytes of an element, without scales.
    pub const fn data_bytes(self) -> f64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2.0,
            Self::Fp8 | Self::Mxfp8 => 1.0,
            Self::Nvfp4 => 0.5,
        }
    }

    /// The name in files of kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }
}

/// The order in which the stages of a pipeline work on micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// All forward, then all backward (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
    /// Backward as early as possible; interleaved with several chunks a stage (Narayanan et al. 2021, 2.2).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// As 1F1B, with gradients of weights apart from those of inputs, in the bubble (Qi et al. 2024).
    ZbH1,
    /// Two chunks a stage in a V (the first stage has the first and the last chunk), with gradients of weights apart (Qi et al. 2024).
    ZbV,
    /// Micro-batches from both ends of the pipeline, whose forward and backward passes hide each other's messages; two chunks a
    /// stage, so that the pipeline holds the model twice (DeepSeek-V3 report, 3.2.1).
    #[serde(rename = "dualpipe")]
    DualPipe,
    /// The same, cut in half: two chunks a stage in a V, of one copy of the model.
    #[serde(rename = "dualpipe-v")]
    DualPipeV,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::GPipe, Self::OneForwardOneBackward, Self::ZbH1, Self::ZbV, Self::DualPipe, Self::DualPipeV];

    /// The name in jobs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::ZbH1 => "zb-h1",
            Self::ZbV => "zb-v",
            Self::DualPipe => "dualpipe",
            Self::DualPipeV => "dualpipe-v",
        }
    }
}

/// What the backward pass computes again.
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

const fn four() -> u8 {
    4
}

const fn equal() -> f64 {
    1.0
}

const fn one() -> u32 {
    1
}

/// Which layers are computed again (`--recompute-method` of Megatron-LM, with `--recompute-num-layers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecomputeMethod {
    /// All, in groups: only the input of each group is kept, and a group is computed again at once.
    Uniform,
    /// The first ones of each chunk, one by one.
    Block,
}

/// A part of a layer that can be computed again alone (`--recompute-modules` of Megatron Core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// Attention between the products of queries, keys and values and that of outputs.
    CoreAttention,
    /// Both norms.
    Layernorm,
    /// Queries, keys and values of latent attention, from their compressed forms.
    MlaUpProj,
    /// The dense feed-forward block.
    Mlp,
    /// Experts, shared ones, router and both exchanges of tokens.
    Moe,
    /// Activations of experts, between their products.
    MoeAct,
    /// The feed-forward block that all tokens go to, beside experts.
    SharedExperts,
}

/// Parts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(from = "Vec<Module>", into = "Vec<Module>")]
pub struct Modules(u8);

impl Modules {
    /// Whether a part is among them.
    pub const fn has(self, module: Module) -> bool {
        self.0 & 1 << module as u8 != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Vec<Module>> for Modules {
    fn from(modules: Vec<Module>) -> Self {
        Self(modules.into_iter().fold(0, |all, each| all | 1 << each as u8))
    }
}

impl From<Modules> for Vec<Module> {
    fn from(modules: Modules) -> Self {
        Module::ALL.into_iter().filter(|each| modules.has(*each)).collect()
    }
}

impl Module {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CoreAttention,
        Self::Layernorm,
        Self::MlaUpProj,
        Self::Mlp,
        Self::Moe,
        Self::MoeAct,
        Self::SharedExperts,
    ];

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

/// How layers are divided among the chunks of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Equal numbers of layers, the later chunks one more where they do not divide.
    Even,
    /// Embedding, prediction layers and output layer count as a layer each.
    Ends,
    /// All chunks but the last one have the same number of layers, rounded up; the last one has the rest, and the layers for
    /// multi-token prediction (`Et*4|(t*4|)*14tmL` in NVIDIA's recipes of DeepSeek-V3).
    Rest,
    /// Equal cost, by nanotron's rule: a layer costs `4 h^2 + 3 h ffn`, the output layer `vocab h`.
    Cost,
}

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

impl Job {
    /// Whether a layer has 16 bits where others have fewer.
    pub const fn is_wide(&self, model: &Model, layer: u32) -> bool {
        let last = layer < model.layers && layer + self.wide_last_layers >= model.layers;
        self.precision.converts() && (layer < self.wide_first_layers || last)
    }

    /// A job whose layers are like those of this one that have 16 bits; nothing if it has none.
    pub(crate) fn of_wide_layers(&self) -> Option<Self> {
        let some = self.precision.converts() && self.wide_first_layers + self.wide_last_layers > 0;
        some.then(|| Self {
            precision: Precision::Bf16,
            narrow_attention: false,
            narrow_parameters: false,
            fused_experts: false,
            ..self.clone()
        })
    }

    /// The data type of the output layer.
    pub(crate) const fn output_precision(&self) -> Precision {
        if self.narrow_output { self.precision } else { Precision::Bf16 }
    }

    /// Tokens of a micro-batch on one rank.
    pub const fn tokens(&self) -> u64 {
        self.micro_batch as u64 * self.sequence / self.context as u64
    }

    /// Ranks that have the same gradients to sum.
    pub const fn replicas(&self) -> u32 {
        self.data * self.context * self.schedule.ways()
    }

    /// Parts of a layer that the backward pass computes again.
    pub fn modules_again(&self) -> Modules {
        match self.recompute {
            Recompute::Selective if !self.recompute_modules.is_empty() => self.recompute_modules,
            Recompute::Selective if !self.fused_attention => vec![Module::CoreAttention].into(),
            _ => Modules::default(),
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

    /// Whether activations of a layer lie in the host's memory: the `nth` of its chunk, which is the `last` before the loss or
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
