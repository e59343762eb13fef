//! What the software that trains allocates: constants of each framework.

use crate::job::Job;
use crate::machine::Cluster;
use serde::Deserialize;

/// Copies of weights in FP8 that products need on Hopper, whose tensor cores multiply FP8 operands along rows alone: weights are
/// also kept transposed. Accelerators of compute capability 10 and above (Blackwell) need 1, which their clusters say
/// (`is_non_tn_fp8_gemm_supported` of Transformer Engine).
pub const FP8_WEIGHT_COPIES: u8 = 2;

/// What software allocates beyond what training needs, and what it could keep divided but does not.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySoftware {
    /// Bytes of a gradient in the type of products, beside the sum of gradients; 0 if products add to that sum themselves.
    pub gradient_copy_bytes: u8,
    /// Whether ZeRO-3 keeps parameters in 32 bits alone and casts them as it gathers them, as FSDP does.
    pub gathers_from_master: bool,
    /// Bytes of a logit at the loss: all copies that exist at the same time.
    pub logit_bytes: f64,
    /// Whether one kernel computes the activation and multiplies by the gate, so that the activation alone is not kept.
    pub fused_gate: bool,
    /// Part of the inputs of products that sequence-parallel ranks keep whole, rather than gather them again in the backward
    /// pass (Korthikanti et al. 2022, 4.2.2, gather them again: 0).
    pub whole_inputs: f64,
    /// Whether inputs and weights that products cast are kept in the products' type (Transformer Engine), rather than
    /// cast again in the backward pass.
    pub keeps_casts: bool,
    /// Copies of weights in FP8 that products need, if these are kept: [`FP8_WEIGHT_COPIES`], or as [`Self::on`] a cluster.
    pub fp8_weight_copies: u8,
    /// Whether the router's weights multiply the outputs of experts, which are kept for it. Megatron Core multiplies the
    /// activation between their products instead (since 0.12, April 2025).
    pub keeps_expert_outputs: bool,
    /// Bytes of workspaces of libraries, in the allocator's memory.
    pub workspace_bytes: u64,
    /// Bytes of NCCL's buffers for each communicator; that of experts, for each peer of an all-to-all on one server.
    pub communicator_bytes: u64,
    /// Bytes of the driver's context and of code on the accelerator.
    pub context_bytes: u64,
    /// Memory that the allocator reserves and cannot use, over that of tensors that come and go.
    pub fragmentation: f64,
    /// The same, in addition, where collectives of tensor parallelism hold tensors on a stream of their own: their memory is
    /// not reused before the accelerator has come there, and processors run ahead of it.
    pub stream_fragmentation: f64,
}

impl MemorySoftware {
    pub(crate) const fn megatron() -> Self {
        Self::MEGATRON
    }

    /// Memory that the allocator cannot use in this job, over that of tensors that come and go.
    pub(crate) fn fragmentation_in(&self, job: &Job) -> f64 {
        let streams = if job.tensor > 1 { self.stream_fragmentation } else { 0.0 };
        self.fragmentation + streams
    }

    /// The same on this cluster.
    #[must_use]
    pub const fn on(self, cluster: Cluster) -> Self {
        Self { fp8_weight_copies: cluster.fp8_weight_copies, ..self }
    }

    /// The constants of a framework; of one without constants of its own, those of FSDP.
    pub fn named(framework: &str) -> Self {
        match framework {
            "megatron" => Self::MEGATRON,
            "megatron-deepspeed" => Self::MEGATRON_DEEPSPEED,
            "nanotron" => Self::NANOTRON,
            "llm-foundry" => Self::LLM_FOUNDRY,
            _ => Self::FSDP,
        }
    }

    /// Megatron-LM with Transformer Engine and its distributed optimizer.
    ///
    /// Products add to the sum of gradients (`gradient_accumulation_fusion`), and one kernel computes SwiGLU. Logits: 16 bits
    /// by the product, 32 bits for the loss, whose gradient takes their place, and 16 bits of it.
    pub const MEGATRON: Self = Self {
        gradient_copy_bytes: 0,
        gathers_from_master: false,
        logit_bytes: 8.0,
        fused_gate: true,
        whole_inputs: 0.0,
        keeps_casts: true,
        fp8_weight_copies: FP8_WEIGHT_COPIES,
        keeps_expert_outputs: false,
        workspace_bytes: WORKSPACES,
        communicator_bytes: COMMUNICATOR,
        context_bytes: CONTEXT,
        fragmentation: 0.1,
        stream_fragmentation: 0.0,
    };

    /// nanotron.
    ///
    /// `DistributedDataParallel` has buckets of 16-bit gradients beside the 32-bit sum, and the activation of the gate is kept
    /// (`models/llama.py`). Logits: 16 bits by the product, 32 bits after `cast_to_fp32`, 32 bits of `sharded_cross_entropy`.
    ///
    /// The last three numbers are fitted to the runs of the Ultra-Scale Playbook with tensor parallelism up to 8. These are of
    /// two kinds, which differ by both inputs of products that `tp_recompute_allgather: false` keeps whole; which run is of
    /// which kind is not published, so that the middle stands for both.
    pub const NANOTRON: Self = Self {
        gradient_copy_bytes: 2,
        gathers_from_master: false,
        logit_bytes: 10.0,
        fused_gate: false,
        whole_inputs: 0.5,
        keeps_casts: false,
        fp8_weight_copies: FP8_WEIGHT_COPIES,
        keeps_expert_outputs: true,
        workspace_bytes: WORKSPACES,
        communicator_bytes: COMMUNICATOR,
        context_bytes: CONTEXT,
        fragmentation: 0.1,
        stream_fragmentation: 0.15,
    };

    /// torchtitan, and others that use FSDP.
    ///
    /// Parameters are in 32 bits, gathered in 16. Logits: 16 bits by the product, 32 bits for the loss, 32 bits of
    /// `log_softmax`, and 32 bits of its gradient (`cross_entropy_loss`).
    pub const FSDP: Self = Self {
        gradient_copy_bytes: 0,
        gathers_from_master: true,
        logit_bytes: 14.0,
        fused_gate: true,
        whole_inputs: 0.0,
        keeps_casts: false,
        fp8_weight_copies: FP8_WEIGHT_COPIES,
        keeps_expert_outputs: true,
        workspace_bytes: WORKSPACES,
        communicator_bytes: COMMUNICATOR,
        context_bytes: CONTEXT,
        fragmentation: 0.1,
        stream_fragmentation: 0.0,
    };

    /// LLM Foundry: FSDP with the fused loss of FlashAttention, whose gradient takes the place of the 16-bit logits.
    pub const LLM_FOUNDRY: Self = Self { logit_bytes: 2.0, ..Self::FSDP };

    /// Megatron-DeepSpeed: `BF16_Optimizer` sums 16-bit gradients into 32-bit ones.
    pub const MEGATRON_DEEPSPEED: Self =
        Self { gradient_copy_bytes: 2, keeps_casts: false, ..Self::MEGATRON };
}

/// cuBLAS takes 32 MiB for each stream on Hopper (`cublasSetWorkspace` in its documentation); products run on up to three.
const WORKSPACES: u64 = 96 << 20;

/// NCCL: 32 channels, with 10 MiB and 2 MiB for each peer: 3.3 GB for an all-to-all of eight H100 (NVIDIA/nccl, issue 1685),
/// which is this for each of seven peers. Rings and trees have two to four peers, fewer channels, and share buffers.
const COMMUNICATOR: u64 = 512 << 20;

/// The driver's context on A100 and H100 with PyTorch's kernels.
const CONTEXT: u64 = 512 << 20;
