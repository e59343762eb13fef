"""How a model is trained, as the core's estimates take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from syncline import _core
from syncline.estimate.model import model_text
from syncline.input.base import Strict
from syncline.quantity import listed, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.estimate.machines import Machine
    from syncline.models.architecture import Decoder

Count = Annotated[int, Field(ge=1, lt=1 << 32)]
DISPATCH_MULTIPROCESSORS = 20
"""Multiprocessors that send tokens to experts where a job does not say it: those of DeepEP in Megatron Core."""
Precision: TypeAlias = Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
Recompute: TypeAlias = Literal["none", "selective", "operators", "except_qkv", "full"]
RecomputeMethod: TypeAlias = Literal["uniform", "block"]
Module: TypeAlias = Literal["core_attention", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
Input: TypeAlias = Literal[
    "attn_norm", "qkv_linear", "core_attention", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"
]
Adapted: TypeAlias = Literal["all", "attention", "qkv"]
ExpertAdapters: TypeAlias = Literal["none", "shared", "each"]
Split: TypeAlias = Literal["even", "ends", "rest", "cost"]
AttentionLibrary: TypeAlias = Literal["measured", "triton", "flash-attention-2", "cudnn"]

Schedule: TypeAlias = Literal["gpipe", "1f1b", "zb-h1", "zb-v", "dualpipe", "dualpipe-v"]
ContextMethod: TypeAlias = Literal["ring", "all_gather", "ulysses"]
Graphs: TypeAlias = Literal["none", "partial", "full"]
Dispatcher: TypeAlias = Literal["all_to_all", "fused"]
Gradients: TypeAlias = Literal["fp32", "bf16", "fp16"]
Moments: TypeAlias = Literal["fp32", "bf16", "8bit"]

GRADIENT_BYTES: Mapping[Gradients, Literal[2, 4]] = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Bytes of a gradient by its type."""
MOMENT_BYTES: Mapping[Moments, Literal[1, 2, 4]] = {"fp32": 4, "bf16": 2, "8bit": 1}
"""Bytes of a moment by its type."""

METHODS: Mapping[str, str] = {"all_gather": "all-gather", "ulysses": "Ulysses"}
"""Methods of context parallelism other than the ring, as sentences name them."""
AXES = {"tensor": "TP", "pipeline": "PP", "context": "CP", "expert": "EP", "data": "DP"}
"""Axes of a job by their names in the core, and their usual short names."""
SCHEDULES: Mapping[Schedule, str] = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "zb-h1": "ZB-H1",
    "zb-v": "ZB-V",
    "dualpipe": "DualPipe",
    "dualpipe-v": "DualPipeV",
}
"""Schedules of a pipeline by their names in the core, and as their papers write them.

1F1B is interleaved where a stage has several chunks of layers."""


class Overlap(Strict):
    """Which communication overlaps with computing."""

    tensor: bool = False
    """Collectives of tensor parallelism, in parts beside the products that need them."""
    gradients: bool = False
    """Gradients, with the backward pass of the last micro-batch."""
    parameters: bool = False
    """Parameters that ZeRO gathers, with the forward pass."""
    pipeline: bool = False
    """Messages between stages."""
    experts: bool = False
    """Tokens to experts and back, with the computing of another micro-batch."""
    optimizer: bool = False
    """Gradients to the host and parameters back, with the update that the host computes."""


class Offload(Strict):
    """What lies in the host's memory."""

    layers: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    """The first layers of each chunk, all of whose activations do."""
    modules: list[Input] = Field(default_factory=list)
    """Modules of all layers whose inputs do."""
    optimizer: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Part of the parameters whose optimizer states do, and which the host updates."""

    def __bool__(self) -> bool:
        """Whether anything does."""
        return bool(self.layers or self.modules or self.optimizer)


class Job(Strict):
    """How ranks divide the work, and in which batches they do it: the type ``Job`` of the crate ``estimate``."""

    tensor: Count = 1
    """Ranks that divide each layer."""
    sequence_parallel: bool = False
    """Whether these also divide norms and what is between layers by tokens."""
    pipeline: Count = 1
    """Stages of the pipeline."""
    virtual_stages: Count = 1
    """Chunks of layers of each stage."""
    schedule: Schedule = "1f1b"
    """The order in which stages of the pipeline work."""
    split: Split = "even"
    """How layers are divided among chunks."""
    chunk_layers: list[Annotated[int, Field(ge=0, lt=1 << 32)]] = Field(default_factory=list)
    """Layers of each chunk, in the order of the model; without any, as ``split`` says."""
    context: Count = 1
    """Ranks that divide each sequence."""
    context_method: ContextMethod = "ring"
    """How these have the keys and values of each other."""
    expert: Count = 1
    """Ranks that divide the experts."""
    expert_tensor: Count = 1
    """Ranks that divide each expert."""
    expert_load: Annotated[float, Field(gt=0)] = 1.0
    """Tokens that the experts of the fullest rank take over those of equal parts."""
    data: Count = 1
    """Copies of the model."""
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    """Stage of ZeRO."""
    shard_group: Count = 1
    """Ranks that together hold one copy of what ZeRO divides."""
    micro_batch: Count = 1
    """Sequences of a micro-batch."""
    micro_batches: Count = 1
    """Micro-batches of a step."""
    sequence: Count
    """Tokens of a sequence."""
    precision: Precision = "bf16"
    """Data type of linear layers."""
    gradient_bytes: Literal[2, 4] = 4
    """Bytes of a gradient, as it is summed over micro-batches and ranks."""
    moment_bytes: Literal[1, 2, 4] = 4
    """Bytes of each of Adam's two moments."""
    recompute: Recompute = "none"
    """What the backward pass computes again."""
    recompute_method: RecomputeMethod | None = None
    """Which layers, if whole layers are computed again; without it each of them, one by one."""
    recompute_layers: Count = 1
    """Layers of a group, or the first ones of each chunk, as the method says."""
    recompute_modules: list[Module] = Field(default_factory=list)
    """Which parts of a layer, if selected ones are; without any, scores of attention that is not fused."""
    fused_attention: bool = True
    """Whether one kernel computes attention without writing its scores."""
    attention_library: AttentionLibrary | None = None
    """Whose kernels compute it, if not those that the software takes by default."""
    rope_fusion: bool = True
    """Whether one kernel rotates positions into queries, and one into keys, rather than one for each operation."""
    overlap: Overlap = Overlap()
    """What overlaps with computing."""
    graphs: Graphs = "none"
    """Which kernels CUDA graphs launch: ``partial`` is all but experts and dispatch."""
    routing: Literal["random", "consecutive"] = "random"
    """Which experts a token goes to: any, or some one after the other, as in benchmarks of NeMo Automodel."""
    dispatcher: Dispatcher = "all_to_all"
    """What sends tokens to experts: NCCL's all-to-all, or kernels that send a token once to each rank (``fused``)."""
    dispatch_multiprocessors: Annotated[int, Field(ge=1, le=1024)] = DISPATCH_MULTIPROCESSORS
    """Multiprocessors that send tokens to experts, where ``dispatcher`` is ``fused``."""
    fused_experts: bool = False
    """Whether one kernel computes all products of a rank's experts and what is between them."""
    low_precision_output_layer: bool = False
    """Whether the output layer has the precision of linear layers, rather than 16 bits."""
    fp8_attention: bool = False
    """Whether the products of attention have 8 bits, forward and backward, rather than 16."""
    low_precision_parameters: bool = False
    """Whether parameters of linear layers are kept and gathered in the precision of their products alone."""
    first_layers_bf16: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    """Layers at the start of the model that stay in BF16 where ``precision`` is lower."""
    last_layers_bf16: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    """The same at the end, before layers for multi-token prediction."""
    vocab_multiple: Count = 1
    """The vocabulary is padded to a multiple of this for each tensor-parallel rank."""
    adapters: Count | None = None
    """Rank of adapters, if only these are trained (LoRA)."""
    adapted: Adapted = "all"
    """Which products have adapters."""
    expert_adapters: ExpertAdapters = "none"
    """Adapters beside products of experts: one for all experts of a layer (``shared``), or one for each."""
    offload: Offload = Offload()
    """What lies in the host's memory."""

    def text(self) -> str:
        """The job for the core, as JSON."""
        return self.model_dump_json()

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def global_batch(self) -> int:
        """Sequences of a step."""
        return self.data * self.micro_batch * self.micro_batches

    @property
    def axes(self) -> str:
        """The axes with more than one rank, such as ``TP 4, PP 8, DP 16``, and how they are used.

        ETP are the ranks that divide each expert; VPP is chunks of layers of a stage.
        """
        names = {name: f"{short} {getattr(self, name)}" for name, short in AXES.items() if getattr(self, name) > 1}
        if self.context > 1 and self.context_method != "ring":
            names["context"] += f" by {METHODS[self.context_method]}"
        if self.expert_tensor > 1:
            names["expert"] = f"EP {self.expert}, ETP {self.expert_tensor}"
        found = [names[name] for name in AXES if name in names]
        if self.schedule != "1f1b":
            found.append(SCHEDULES[self.schedule])
        elif self.virtual_stages > 1:
            found.append(f"VPP {self.virtual_stages}")
        if self.zero == 3:
            divided = 1 < self.shard_group < self.data * self.context
            found.append(f"ZeRO-3 in groups of {self.shard_group}" if divided else "ZeRO-3")
        if self.recompute == "full":
            found.append("recomputed" if self.recompute_method != "block" else f"{self.recompute_layers} recomputed")
        if self.recompute_modules:
            found.append(f"{listed(self.recompute_modules)} recomputed")
        if self.offload.layers:
            found.append(f"{self.offload.layers} layers offloaded")
        if self.offload.modules:
            found.append(f"{listed(self.offload.modules)} offloaded")
        if self.offload.optimizer:
            part = "" if self.offload.optimizer == 1 else f"{percent(self.offload.optimizer)} of "
            found.append(f"{part}the optimizer offloaded")
        if self.adapters is not None:
            found.append(f"LoRA of rank {self.adapters}")
        return ", ".join(found) or "one accelerator"

    def changed(self, **values: Any) -> Job:
        """The job with other values, which are checked."""
        return Job.model_validate({**self.model_dump(), **values})


def estimator(architecture: Decoder, job: Job, machine: Machine, layers: int | None = None) -> _core.Estimator:
    """What estimates steps and memory of a job; ``layers`` replaces the model's number of layers.

    :raises SynclineError: the mesh does not divide the model, no kernels of the precision were measured, or NCCL has no
        times between nodes.
    """
    machine.check_network(job.ranks)
    return _core.Estimator.of(model_text(architecture, layers), job.text(), machine.cluster(), *machine.texts())
