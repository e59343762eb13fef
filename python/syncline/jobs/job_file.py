"""The schema of a job file: a model, a cluster, and how the one trains on the other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag
from pydantic.types import Discriminator

from syncline.estimate.job import (
    Adapted,
    ContextMethod,
    Dispatcher,
    ExpertAdapters,
    Gradients,
    Graphs,
    Input,
    Module,
    Moments,
    Overlap,
    Precision,
    Recompute,
    RecomputeMethod,
    Schedule,
    Split,
)
from syncline.input.base import Strict, form
from syncline.input.units import Bytes, Rate
from syncline.models.architecture import Decoder

Ranks = Annotated[int, Field(ge=1, le=1 << 20)]
Framework = Literal[
    "megatron",
    "megatron-deepspeed",
    "automodel",
    "torchtitan",
    "fsdp2",
    "nanotron",
    "llm-foundry",
    "internevo",
    "maxtext",
]


class JobCluster(Strict):
    """The accelerators of a job, and the network between them."""

    accelerator: Annotated[str, Field(min_length=1, max_length=100)]
    """Name of the accelerators, such as H100, A100, H200, B200 or GB200; or a `.json` file of `syncline kernels fit`,
    relative to the job file."""
    gpus: Ranks
    """How many of them the job has."""
    nic_rate: Rate | None = None
    """Rate of the network for each accelerator, in one direction. Without it, that of commercial servers."""
    domain: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Accelerators that NVLink joins. Without it, those of commercial servers: 8, or 72 for GB200."""
    memory: Bytes | None = None
    """Memory of an accelerator. Without it, as it is sold."""
    nccl: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """Machine for the times of NCCL, such as `h100-sxm`; or a `.yaml` file of `syncline calibrate`, relative to the job
    file, with GPUs of the same generation. Without it, that of the accelerator."""
    host_rate: Rate | None = None
    """Rate of copies between an accelerator and its host, in each direction, while all accelerators copy. Without it,
    what was measured on commercial servers."""
    host_memory: Bytes | None = None
    """Memory of the host for each accelerator. Without it, that of commercial servers."""
    host_memory_rate: Rate | None = None
    """Peak rate of the host's memory for each accelerator, of which an update on the host reaches half."""


class JobParallel(Strict):
    """How the accelerators divide the work. Data parallelism is what the other axes leave."""

    tensor: Ranks = 1
    """Tensor parallelism: ranks that divide each layer."""
    sequence_parallel: bool = False
    """Whether these ranks also divide by tokens what is between the products of layers."""
    pipeline: Ranks = 1
    """Stages of the pipeline."""
    virtual_stages: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    """Chunks of layers of each stage: 1, or more with an interleaved schedule; 2 with `zb-v` and `dualpipe-v`."""
    schedule: Schedule = "1f1b"
    """The order in which stages work on micro-batches. `1f1b`: interleaved with several chunks. `zb-h1`, `zb-v`:
    gradients of weights fill the bubble. `dualpipe`, `dualpipe-v`: forward and backward passes hide each other's
    communication."""
    split: Split = "even"
    """How layers are divided among chunks. `even`: equal numbers of layers. `ends`: embedding and output layer count as
    a layer each. `rest`: all chunks but the last have the same number, rounded up, as in NVIDIA's recipes of
    DeepSeek-V3. `cost`: equal cost, by nanotron's rule."""
    chunk_layers: Annotated[list[Annotated[int, Field(ge=0, le=1 << 16)]], Field(max_length=1 << 16)] | None = None
    """Layers of each chunk instead of `split`, such as `[9, 11, 11, 9]`, in the order of the model: with several chunks
    a stage, the first ones of all stages come first. Layers for multi-token prediction are the last ones."""
    context: Ranks = 1
    """Context parallelism: ranks that divide each sequence."""
    context_method: ContextMethod = "ring"
    """How these have the keys and values of each other (`--cp-comm-type`). `ring`: they go around while ranks compute,
    with equal parts of a causal mask (`p2p`). `all_gather`: gathered before attention, as for Llama 3. `ulysses`: each
    rank has all tokens of a part of the heads (`a2a`)."""
    expert: Ranks = 1
    """Expert parallelism: ranks that divide the experts of a layer."""
    expert_tensor: Ranks = 1
    """Ranks that divide each expert."""
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    """Stage of ZeRO: what data-parallel ranks divide. 0: nothing. 1: optimizer states. 2: gradients too. 3:
    parameters too (FSDP)."""
    shard_group: Ranks | None = None
    """Ranks that together hold one copy of what ZeRO divides. Without it, all data-parallel and context-parallel ranks;
    fewer with HSDP."""


class JobOffload(Strict):
    """What lies in the host's memory."""

    layers: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    """The first layers of each chunk, all of whose activations do (`--cpu-offloading-num-layers` of Megatron-LM)."""
    modules: Annotated[list[Input], Field(max_length=7, default_factory=list)]
    """Modules of all layers whose inputs do (`--offload-modules` of Megatron Core). `attn_norm`, `mlp_norm`: the norms.
    `qkv_linear`, `attn_proj`: the products around attention. `core_attention`: attention, without these. `expert_fc1`:
    the first product of experts. `moe_act`: activations of experts."""
    optimizer: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Part of the parameters whose optimizer states do, and which the host updates (`--optimizer-offload-fraction`)."""


class JobBatch(Strict):
    """The batches of a step."""

    sequence: Annotated[int, Field(ge=1, le=1 << 30)]
    """Tokens of a sequence."""
    micro_batch: Annotated[int, Field(ge=1, le=1 << 20)]
    """Sequences of a micro-batch."""
    global_batch: Annotated[int, Field(ge=1, le=1 << 30)]
    """Sequences of a step, of all accelerators."""


ModelOfJob = Annotated[
    Annotated[Annotated[str, Field(min_length=1, max_length=4096)], Tag("word")] | Annotated[Decoder, Tag("sizes")],
    Discriminator(form(word=True, default="sizes")),
]


class JobFile(Strict):
    """A training job of a language model, for `syncline estimate`."""

    schema_: Annotated[Literal["syncline-job/1"], Field(alias="schema")] = "syncline-job/1"
    """Version of the schema."""
    name: Annotated[str, Field(max_length=200)] = ""
    """Name of the job. Without it, the file's name."""
    model: ModelOfJob
    """The model: a name such as `llama3-70b`; the path of a `config.json` as Hugging Face has it, relative to the job
    file; or its sizes."""
    cluster: JobCluster
    """The accelerators, and the network between them."""
    framework: Framework = "megatron"
    """The software that trains, whose constants count."""
    constants: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """A `.yaml` file of `syncline validate constants`, relative to the job file: constants that were fitted to your own
    measured runs. Without it, those of the package."""
    parallel: JobParallel = JobParallel()
    """How the accelerators divide the work."""
    batch: JobBatch
    """The batches of a step."""
    precision: Precision = "bf16"
    """Data type of the matrix products of linear layers. Logits and tensors between layers are in 16 bits, and so is
    attention unless `fp8_attention` is set."""
    gradients: Gradients = "fp32"
    """Data type in which gradients are summed over micro-batches and ranks."""
    moments: Moments = "fp32"
    """Data type of Adam's two moments: 16 bits with a precision-aware optimizer, 8 bits with a scale for each block."""
    recompute: Recompute = "none"
    """Activation recomputation (checkpointing): what the backward pass computes again. `selective`: scores of
    attention, if it is not fused, or `recompute_modules`. `operators`: every second matrix product, and all operations
    between products (torchtitan's selective checkpointing). `except_qkv`: all of a layer but queries, keys and values
    (MaxText's `save_qkv_proj`). `full`: whole layers."""
    recompute_method: RecomputeMethod | None = None
    """Which layers `full` computes again. `block`: the first `recompute_layers` of each chunk. `uniform`: all, in
    groups of `recompute_layers`, of which only the first input is kept. Without it, all, one by one."""
    recompute_layers: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    """Number of layers of the method (Megatron-LM's `--recompute-num-layers`)."""
    recompute_modules: Annotated[list[Module], Field(max_length=7, default_factory=list)]
    """Parts of a layer that `selective` computes again (`--recompute-modules` of Megatron Core). `core_attention`:
    attention without its projections. `layernorm`: both norms. `mla_up_proj`: queries, keys and values of latent
    attention, from their compressed forms. `mlp`: the dense feed-forward block. `moe`: experts with dispatch and
    combine. `moe_act`: the activation function of experts. `shared_experts`: the shared experts."""
    attention: Literal["fused", "unfused", "flash-attention-2", "triton", "cudnn"] = "fused"
    """Kernels of attention. `fused`: a fused kernel (FlashAttention) of the library that the framework uses. `unfused`:
    products and softmax, which write the scores. The others name the library of a fused kernel."""
    rope_fusion: bool = True
    """Whether one kernel rotates positions into queries, and one into keys, rather than a kernel of PyTorch for each
    operation (`apply_rope_fusion` of Megatron Core, off with `--no-rope-fusion`)."""
    graphs: Graphs = "none"
    """Which kernels CUDA graphs launch: none, all but experts and dispatch (`partial`), or all (`full`)."""
    dispatcher: Dispatcher = "all_to_all"
    """What sends tokens to experts: NCCL's all-to-all, or kernels that send a token once to each rank (DeepEP,
    HybridEP: `fused`)."""
    routing: Literal["random", "consecutive"] = "random"
    """Which experts a token goes to, where `dispatcher` is `fused`: any (`random`), as by a balanced router, or some
    one after the other, so that it reaches few ranks, as in benchmarks of NeMo Automodel (`fake_balanced_gate`)."""
    dispatch_multiprocessors: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Multiprocessors of each accelerator that send tokens to experts, where `dispatcher` is `fused`
    (`--moe-flex-dispatcher-num-sms` of Megatron Core). Without it, 20."""
    expert_load: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Load imbalance of experts: tokens of the most loaded expert-parallel rank over the mean of all ranks, which wait
    for it. 1: balanced. If experts are padded to a capacity, the capacity factor."""
    fused_experts: bool = False
    """Whether one kernel computes all products of a rank's experts and what is between them (Transformer Engine's fused
    grouped block, which needs `precision: mxfp8`)."""
    low_precision_output_layer: bool = False
    """Whether the output layer (LM head) has `precision`, too, rather than 16 bits (`fp8_output_proj` of
    Megatron-Bridge)."""
    fp8_attention: bool = False
    """Whether attention multiplies in FP8, forward and backward, rather than in 16 bits (`fp8_dot_product_attention` of
    Megatron Core, `fp8_dpa` of Transformer Engine). Needs `precision` fp8, mxfp8 or nvfp4, and fused attention of
    the framework's library or `cudnn`."""
    low_precision_parameters: bool = False
    """Whether parameters of linear layers are kept and gathered in `precision`, without a copy in 16 bits
    (`--fp8-param-gather` of Megatron-LM, `fp4_param_gather`; `enable_fsdp_float8_all_gather` of torchtitan). Needs
    `precision` fp8, mxfp8 or nvfp4."""
    first_layers_bf16: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    """How many layers at the start of the model stay in BF16, linear layers and attention, where `precision` is fp8,
    mxfp8 or nvfp4 (`--first-last-layers-bf16` with `--num-layers-at-start-in-bf16` of Megatron-LM)."""
    last_layers_bf16: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    """The same at the end (`--num-layers-at-end-in-bf16`), before layers for multi-token prediction."""
    vocab_multiple: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    """The vocabulary is padded to a multiple of this times `tensor` (Megatron-LM's `--make-vocab-size-divisible-by`).
    Without it, the default of the framework: 128 for `megatron` and `megatron-deepspeed`, 1 for all others."""
    lora: Annotated[int, Field(ge=1, le=1 << 16)] | None = None
    """Rank of LoRA adapters, if only these are trained."""
    lora_targets: Adapted = "all"
    """Which products have adapters: `all` but those of experts, those of `attention`, or only those of queries, keys
    and values (`qkv`)."""
    lora_experts: ExpertAdapters = "none"
    """Adapters of both products of experts, which need `lora_targets: all`: one that all experts of a layer share
    (`shared`, the default of Megatron-Bridge), or one for each expert (`each`)."""
    offload: JobOffload = JobOffload(modules=[])
    """What lies in the host's memory rather than the accelerator's."""
    overlap: Overlap = Overlap()
    """Which communication overlaps with computing."""
