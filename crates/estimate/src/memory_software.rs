//! Memory that frameworks allocate beyond what training needs: constants of each framework.

use crate::job::Job;
use crate::machine::Cluster;
use serde::Deserialize;

/// Copies of FP8 weights that matrix products need on Hopper, whose tensor cores take only row-wise FP8 operands: weights are also
/// kept transposed. Accelerators of compute capability 10 and above (Blackwell) need 1, which their clusters say
/// (`is_non_tn_fp8_gemm_supported` of Transformer Engine).
pub const FP8_WEIGHT_COPIES: u8 = 2;

/// What a framework allocates beyond what training needs, and what it keeps whole although ranks could divide it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySoftware {
    /// Bytes of a gradient in the type of the backward pass, beside the sum of gradients; 0 if matrix products add to that sum
    /// themselves.
    pub gradient_copy_bytes: u8,
    /// Whether ZeRO-3 keeps parameters in 32 bits alone and casts them as it gathers them, as FSDP does.
    pub gathers_from_master: bool,
    /// Bytes of a logit at the loss: all copies that exist at once.
    pub logit_bytes: f64,
    /// Whether one kernel computes the activation function and multiplies by the gate, so that its output is not kept.
    pub fused_gate: bool,
    /// Part of the inputs of linear layers that sequence-parallel ranks keep gathered, instead of gathering them again in the
    /// backward pass (Korthikanti et al. 2022, 4.2.2, gather them again: 0).
    pub whole_inputs: f64,
    /// Whether linear layers keep cast inputs and weights (Transformer Engine), instead of casting them again in the backward
    /// pass.
    pub keeps_casts: bool,
    /// Copies of FP8 weights, if these are kept: [`FP8_WEIGHT_COPIES`], or as [`Self::on`] a cluster.
    pub fp8_weight_copies: u8,
    /// Whether the router's weights multiply the outputs of experts, which are kept for that. Megatron Core multiplies the
    /// activations in experts instead (since 0.12, April 2025).
    pub keeps_expert_outputs: bool,
    /// Bytes of workspaces of libraries, in the allocator's memory.
    pub workspace_bytes: u64,
    /// Bytes of NCCL's buffers for each communicator, and for each peer of the all-to-all of experts on one server.
    pub communicator_bytes: u64,
    /// Bytes of the CUDA context, with the code of kernels.
    pub context_bytes: u64,
    /// Fragmentation: memory that the allocator reserves and cannot use, over the memory of temporary tensors.
    pub fragmentation: f64,
    /// Further fragmentation where tensor-parallel collectives hold tensors on a stream of their own: the CPU runs ahead, and their
    /// memory is not reused before the accelerator has passed that point.
    pub stream_fragmentation: f64,
}

impl MemorySoftware {
    pub(crate) const fn megatron() -> Self {
        Self::MEGATRON
    }

    /// Fragmentation in this job, over the memory of temporary tensors.
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
