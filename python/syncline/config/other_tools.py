"""Hints for keys of a job that users know from other tools: their names here, or that syncline has no such thing.

The tools are Megatron-LM, NeMo, DeepSpeed, PyTorch and Hugging Face's Trainer.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TENSOR = "tensor parallelism is `parallel.tensor`, such as `parallel: { tensor: 8 }`"
_PIPELINE = "pipeline parallelism is `parallel.pipeline`, such as `parallel: { pipeline: 4 }`"
_DATA = "data parallelism is `parallel.data`; its default, `rest`, is all ranks that the other axes leave"
_CONTEXT = (
    "context parallelism is not derived yet: `parallel.axes` and `exchanges` of layers can describe it; "
    "`parallel.sequence: true` is Megatron-LM's sequence parallelism, which divides tokens among tensor-parallel ranks"
)
_EXPERT = "expert parallelism is not derived yet: `parallel.meshes` and `exchanges` of layers can describe it"
_BATCH = "the samples of one micro-batch are `batch_per_npu`"
_GLOBAL = "the samples of a step are `global_batch`"
_STEPS = "the number of micro-batches in a step is `micro_batches`; or give `global_batch`"
_SEQUENCE = "the number of tokens in a sample is `sequence`, a parameter of models with tokens"
_TYPE = "the precision of training is `precision`, such as `precision: bf16`; `types` sets element types one by one"
_ZERO = "ZeRO is `parallel.zero: 1`, `2` or `3`; FSDP that divides parameters is stage 3"
_RECOMPUTE = "recomputation is `parallel.recompute`: `selective` or `full`"
_VIRTUAL = "interleaved stages are `parallel: { schedule: interleaved, virtual_stages: 2 }`"

HINTS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "tp",
                "tp_size",
                "tensor",
                "tensor_parallel",
                "tensor_parallel_size",
                "tensor_model_parallel_size",
                "model",
                "model_parallel",
                "mp",
            ),
            _TENSOR,
        ),
        **dict.fromkeys(
            ("pp", "pp_size", "pipe", "pipeline_parallel", "pipeline_parallel_size", "pipeline_model_parallel_size"),
            _PIPELINE,
        ),
        **dict.fromkeys(("dp", "dp_size", "data_parallel", "data_parallel_size", "replicas"), _DATA),
        **dict.fromkeys(("cp", "cp_size", "context", "context_parallel", "context_parallel_size", "ulysses"), _CONTEXT),
        **dict.fromkeys(
            (
                "ep",
                "ep_size",
                "expert",
                "experts",
                "expert_parallel",
                "expert_model_parallel_size",
                "num_experts",
                "moe",
            ),
            _EXPERT,
        ),
        **dict.fromkeys(("sp", "sequence_parallel"), "sequence parallelism is `parallel.sequence: true`"),
        **dict.fromkeys(
            (
                "micro_batch",
                "micro_batch_size",
                "mbs",
                "batch",
                "batch_size",
                "train_micro_batch_size_per_gpu",
                "per_device_train_batch_size",
            ),
            _BATCH,
        ),
        **dict.fromkeys(("global_batch_size", "gbs", "train_batch_size"), _GLOBAL),
        **dict.fromkeys(("gradient_accumulation_steps", "grad_accumulation", "accumulate_grad_batches"), _STEPS),
        **dict.fromkeys(("seq_length", "seq_len", "sequence_length", "seqlen", "context_length"), _SEQUENCE),
        **dict.fromkeys(("data_type", "dtype", "torch_dtype", "fp16", "bf16", "fp8", "mixed_precision"), _TYPE),
        **dict.fromkeys(("zero_stage", "zero_optimization", "fsdp", "use_distributed_optimizer"), _ZERO),
        **dict.fromkeys(
            ("activation_checkpointing", "gradient_checkpointing", "recompute_granularity", "recompute_activations"),
            _RECOMPUTE,
        ),
        **dict.fromkeys(
            (
                "vp",
                "vpp",
                "virtual_pipeline_model_parallel_size",
                "interleave",
                "num_layers_per_virtual_pipeline_stage",
            ),
            _VIRTUAL,
        ),
    }
)
"""Hint for a key, by its spelling in other tools."""


def hint(key: str) -> str | None:
    """The hint for a key of a workload that other tools have; None for any other key."""
    return HINTS.get(key.lower().replace("-", "_"))
