//! What a job runs on: times of kernels and collectives, which callers supply, and constants.

use crate::job::Precision;
use crate::memory_software::{FP8_WEIGHT_COPIES, MemorySoftware};
use serde::Deserialize;
use syncline_kernels::{AttentionShape, Library, Pass};
use syncline_nccl::Exchange;

/// Which of the three matrix products of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Outputs from inputs and weights.
    Forward,
    /// Gradients of inputs.
    InputGradient,
    /// Gradients of weights.
    WeightGradient,
}

/// A collective of NCCL; its bytes are as for `syncline_nccl::Operation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The vector that every rank has.
    AllReduce,
    /// The gathered vector.
    AllGather,
    /// The vector that every rank has.
    ReduceScatter,
    /// What one rank sends to all.
    AllToAll,
    /// The message.
    Send,
}

/// Ranks of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Ranks in each NVLink domain.
    pub in_domain: u32,
    /// NVLink domains.
    pub domains: u32,
    /// Groups of this shape that communicate at the same time through the interfaces of the same domain.
    pub concurrent: u32,
}

impl Group {
    /// All ranks.
    pub const fn ranks(self) -> u32 {
        self.in_domain * self.domains
    }

    /// The group of `ranks` ranks of which each is `stride` after the one before, in domains of `domain` ranks.
    pub const fn strided(ranks: u32, stride: u32, domain: u32) -> Self {
        let stride = if stride == 0 { 1 } else { stride };
        let span = ranks * stride;
        if span <= domain && !domain.is_multiple_of(span) {
            // Some of these groups lie across the border of two domains, and the others wait for them.
            let in_domain = ranks.div_ceil(2);
            return Self { in_domain, domains: ranks.div_ceil(in_domain), concurrent: stride };
        }
        let room = if stride >= domain { 1 } else { domain / stride };
        let in_domain = if ranks < room { ranks } else { room };
        let concurrent = if stride < domain { stride } else { domain };
        Self { in_domain, domains: ranks.div_ceil(in_domain), concurrent }
    }
}

/// Sizes of attention on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionWork {
    /// Sequences.
    pub batch: u64,
    /// Tokens of a sequence, all of which are both queries and keys.
    pub sequence: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Elements of a head of queries and keys.
    pub key_dim: u64,
    /// Elements of a head of values.
    pub value_dim: u64,
    /// Tokens to which each attends at most; 0 for no limit.
    pub window: u64,
    /// Whether it is the backward pass.
    pub backward: bool,
    /// Whose kernel computes it.
    pub library: Library,
    /// Whether its products have 8 bits, rather than 16.
    pub fp8: bool,
}

impl AttentionWork {
    /// Causal attention with heads of `head_dim` elements.
    pub const fn shape(self, head_dim: u64) -> AttentionShape {
        AttentionShape {
            batch: self.batch,
            sequence: self.sequence,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim,
            causal: true,
            window: self.window,
            pass: if self.backward { Pass::Backward } else { Pass::Forward },
            prepare: false,
        }
    }

    /// Operations of the products that the mask leaves: scores, and outputs; backward, scores again, and gradients of
    /// scores, of values, of queries and of keys.
    pub fn flop(self) -> f64 {
        let sizes =
            if self.backward { 3 * self.key_dim + 2 * self.value_dim } else { self.key_dim + self.value_dim };
        let pairs = self.shape(1).pairs() * (self.batch * self.heads) as f64;
        2.0 * pairs * sizes as f64
    }
}

/// Times of kernels and collectives on a cluster, in seconds.
pub trait Costs {
    /// `groups` products of `m` x `k` times `k` x `n`, by one kernel.
    fn product(&self, product: Product, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64;
    /// Causal attention by one kernel.
    fn attention(&self, work: AttentionWork) -> f64;
    /// The least time of such a product, at the peak of the accelerator; 0 if that is unknown.
    fn least_product(&self, _precision: Precision, _m: u64, _n: u64, _k: u64, _groups: u64) -> f64 {
        0.0
    }
    /// The least time of causal attention, at the peak of the accelerator; 0 if that is unknown.
    fn least_attention(&self, _work: AttentionWork) -> f64 {
        0.0
    }
    /// Kernels that only move bytes between memory and registers.
    fn memory(&self, bytes: f64) -> f64;
    /// A collective.
    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64;
}

/// The cluster's shape, and its accelerators under load.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Ranks that `NVLink` joins.
    pub domain: u32,
    /// Rate of matrix products of 16 bits, and of attention by cuDNN, under sustained load over that of the measured kernels,
    /// which ran in short bursts. The loss of products of 8 and 4 bits is part of [`Software::low_precision_products`].
    pub sustained: f64,
    /// Rate of matrix products of all types under load over what the kernels of a relative and the constants of software give.
    #[serde(default = "unchanged")]
    pub clock: f64,
    /// The memory of the host; nothing if it is not known.
    #[serde(default)]
    pub host: Option<Host>,
    /// Kernels that send tokens to experts and bring them back; nothing if they were not measured on these accelerators.
    #[serde(default)]
    pub token_kernels: Option<TokenKernels>,
    /// [`MemorySoftware::fp8_weight_copies`] of its accelerators.
    #[serde(default = "fp8_weight_copies")]
    pub fp8_weight_copies: u8,
}

fn fp8_weight_copies() -> u8 {
    FP8_WEIGHT_COPIES
}

fn unchanged() -> f64 {
    1.0
}

/// Kernels that send a token once to each rank that holds any of its experts, and bring outputs back (`DeepEP`, `HybridEP`),
/// as they were measured in one `NVLink` domain. Rates are of what goes to other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenKernels {
    /// To the experts.
    pub dispatch: Exchange,
    /// Back.
    pub combine: Exchange,
    /// Rate at which a rank sends over the network between domains, in bytes per second.
    pub network_rate: f64,
    /// Multiprocessors of the accelerator.
    pub multiprocessors: f64,
}

/// The host's memory as one accelerator has it while all others of the host use it too, and the link to it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Rate of copies to the host, in bytes per second.
    pub to_host: f64,
    /// Rate of copies from the host, at the same time, in bytes per second.
    pub to_device: f64,
    /// Rate at which the host reads and writes its memory as it updates parameters, in bytes per second.
    pub update: f64,
}

/// Constants of the software that trains, and of the machine under its load.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Rate of matrix products of 16 bits in training over that of the measured kernels under sustained load, alone.
    pub products: f64,
    /// Rate of products of 8 and 4 bits in training over that of the measured kernels.
    pub low_precision_products: f64,
    /// The same for attention.
    pub attention: f64,
    /// Whose kernels compute attention, in jobs that do not say it.
    #[serde(default)]
    pub attention_library: Library,
    /// Bytes that operations between products move, over those of kernels that fuse all that can be fused.
    pub element_wise: f64,
    /// Bytes that the output layer and the loss move for each logit, forward and backward.
    pub logit_bytes: f64,
    /// Whether products of weight gradients add to the sum of gradients themselves, and no other kernel does.
    pub fused_accumulation: bool,
    /// Least time of a layer, forward and backward: that of the processor that launches its kernels, seconds.
    pub layer_cpu_s: f64,
    /// How sharply the slower one of processor and accelerator sets the pace of a layer: the power mean of both times; without
    /// it, the longer one alone.
    #[serde(default)]
    pub launch_power: Option<f64>,
    /// What adds to that time, for each tensor-parallel rank, if the stages of the pipeline are in several NVLink domains,
    /// seconds. Measured with nanotron, whose reason is unknown; 0 for others.
    pub staged_layer_s: f64,
    /// Part of the time of tensor-parallel collectives that is exposed where they overlap.
    pub tensor_exposed: f64,
    /// Time that tokens take to experts and back by NCCL's all-to-all, over that of the all-to-all alone.
    pub dispatch: f64,
    /// Part of the time of tokens to experts and back by NCCL that is exposed where it overlaps.
    pub expert_exposed: f64,
    /// What experts add to the least time of a layer, forward and backward: routing and dispatch launch many kernels.
    pub expert_cpu_s: f64,
    /// What each expert of a rank adds to that time, seconds.
    pub each_expert_cpu_s: f64,
    /// Part of these times that is left with partial graphs.
    pub partial_graphs: f64,
    /// Bytes that routing, sorting and experts' activations move, over those of kernels that fuse all that can be fused; 1 where
    /// one kernel computes a block of experts.
    pub expert_element_wise: f64,
    /// Whether kernels of products and activations add biases of experts and limit activations, and no others do.
    pub fused_biases: bool,
    /// Whether the kernel that rotates positions into queries and keys also scales them, for models with `YaRN`.
    pub fused_yarn: bool,
    /// Part of the time of gradients and parameters that is exposed where they overlap.
    pub data_exposed: f64,
    /// With ZeRO-3, the part of the time of overlapped exchanges by which computing is slower; without it, `data_exposed`.
    #[serde(default)]
    pub sharded_exposed: Option<f64>,
    /// Part of the time of messages between stages that is exposed where they overlap.
    pub pipeline_exposed: f64,
    /// What it allocates; callers choose it by the framework.
    #[serde(skip, default = "MemorySoftware::megatron")]
    pub memory: MemorySoftware,
}

impl Software {
    /// Part of the time of overlapped exchanges of ZeRO-3 by which computing is slower.
    pub(crate) fn sharded_exposed(&self) -> f64 {
        self.sharded_exposed.unwrap_or(self.data_exposed)
    }

    /// The time of a layer whose kernels take `kernels` seconds, and a processor `least` seconds to launch.
    ///
    /// Some kernels are shorter than their launch, and others longer: even where the accelerator is slower on the whole, it waits
    /// for some of them.
    pub(crate) fn late(&self, least: f64, kernels: f64) -> f64 {
        let longer = least.max(kernels);
        match self.launch_power {
            Some(power) if longer > 0.0 => {
                longer * (1.0 + (least.min(kernels) / longer).powf(power)).powf(1.0 / power)
            }
            _ => longer,
        }
    }
}
