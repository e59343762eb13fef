"""What the software that trains has no way to do, by keys of a job file.

A row is here only if the source of the software leaves no doubt. Forks are not told apart from what they come from:
Megatron has forks with every schedule of a pipeline.

Sources: the code of Megatron-LM (``megatron/training/arguments.py``, ``megatron/core/pipeline_parallel/schedules.py``,
``megatron/core/transformer/enums.py``), Megatron-DeepSpeed (``megatron/arguments.py``), torchtitan
(``torchtitan/config``, ``torchtitan/distributed``), PyTorch (``torch/distributed/pipelining/schedules.py``), nanotron
(``src/nanotron/config``), LLM Foundry (``llmfoundry/command_utils/train.py``), InternEvo (``internlm/core/scheduler``)
and MaxText (``src/maxtext/configs``), in 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from syncline.errors import Diagnostic
    from syncline.estimate.job import Job

NAMES = {
    "megatron": "Megatron",
    "megatron-deepspeed": "Megatron-DeepSpeed",
    "automodel": "NeMo Automodel",
    "torchtitan": "torchtitan",
    "fsdp2": "PyTorch's FSDP",
    "nanotron": "nanotron",
    "llm-foundry": "LLM Foundry",
    "internevo": "InternEvo",
    "maxtext": "MaxText",
}
"""Frameworks as sentences name them."""
PYTORCH = frozenset({"torchtitan", "automodel", "fsdp2"})
"""Frameworks whose pipelines are those of PyTorch."""
_SMALL = frozenset({"nanotron", "llm-foundry", "internevo"})
"""Frameworks that have little but the parallelism of dense models."""
_ALL = frozenset(NAMES)


@dataclass(frozen=True)
class Feature:
    """Something that some frameworks lack."""

    key: str
    """The key of the job file that asks for it."""
    values: str
    """The values that do, for a table."""
    what: str
    """What it is, after "has no"."""
    lacking: frozenset[str]
    """The frameworks without it."""
    asked: Callable[[Job], Any]
    """The value with which a job asks for it; None or False if it does not."""
    remedy: str
    """What to write instead."""


def _other_than(key: str, *able: Any) -> Callable[[Job], Any]:
    """The value of a key of a job, unless it is one of some."""

    def asked(job: Job) -> Any:
        value = getattr(job, key)
        return None if value in able else value

    return asked


def _schedules(*refused: str) -> Callable[[Job], Any]:
    return lambda job: job.schedule if job.pipeline > 1 and job.schedule in refused else None


def _modules(job: Job) -> Any:
    return ", ".join(each for each in job.recompute_modules if each != "core_attention") or None


FEATURES: tuple[Feature, ...] = (
    Feature(
        "parallel.schedule",
        "zb-h1",
        "schedule ZB-H1",
        frozenset({*PYTORCH, "nanotron", "llm-foundry", "maxtext"}),
        _schedules("zb-h1"),
        "write schedule: 1f1b",
    ),
    Feature(
        "parallel.schedule",
        "zb-v",
        "schedule ZB-V",
        frozenset({"megatron-deepspeed", "nanotron", "llm-foundry", "maxtext"}),
        _schedules("zb-v"),
        "write schedule: 1f1b, with virtual_stages: 1",
    ),
    Feature(
        "parallel.schedule",
        "dualpipe",
        "schedule DualPipe",
        _ALL - {"megatron"},
        _schedules("dualpipe"),
        "write schedule: 1f1b",
    ),
    Feature(
        "parallel.schedule",
        "dualpipe-v",
        "schedule DualPipeV",
        _ALL - {"megatron"} - PYTORCH,
        _schedules("dualpipe-v"),
        "write schedule: 1f1b, with virtual_stages: 1",
    ),
    Feature(
        "parallel.schedule",
        "1f1b",
        "schedule 1F1B",
        frozenset({"maxtext"}),
        _schedules("1f1b"),
        "write schedule: gpipe",
    ),
    Feature(
        "parallel.virtual_stages",
        "2 or more",
        "interleaved pipeline",
        frozenset({"nanotron"}),
        lambda job: job.virtual_stages if job.virtual_stages > 1 and job.schedule == "1f1b" else None,
        "write virtual_stages: 1",
    ),
    Feature(
        "parallel.context_method",
        "ring, all_gather",
        "context parallelism other than Ulysses",
        frozenset({"megatron-deepspeed"}),
        lambda job: job.context_method if job.context > 1 and job.context_method != "ulysses" else None,
        "write context_method: ulysses",
    ),
    Feature(
        "parallel.context_method",
        "ulysses",
        "Ulysses context parallelism",
        frozenset({"torchtitan", "nanotron"}),
        lambda job: job.context_method if job.context > 1 and job.context_method == "ulysses" else None,
        "leave out context_method",
    ),
    Feature(
        "parallel.zero",
        "2, 3",
        "ZeRO stage other than 1",
        frozenset({"nanotron"}),
        _other_than("zero", 0, 1),
        "write zero: 1",
    ),
    Feature(
        "parallel.zero",
        "1",
        "ZeRO stage 1",
        frozenset({"torchtitan", "fsdp2", "llm-foundry"}),
        _other_than("zero", 0, 2, 3),
        "write zero: 3",
    ),
    Feature(
        "precision",
        "fp16",
        "FP16 mixed precision",
        frozenset({"torchtitan"}),
        lambda job: "fp16" if job.precision == "fp16" else None,
        "write precision: bf16",
    ),
    Feature(
        "precision",
        "mxfp8, nvfp4",
        "block-scaled formats (MXFP8, NVFP4)",
        _SMALL | {"megatron-deepspeed"},
        lambda job: job.precision if job.precision in ("mxfp8", "nvfp4") else None,
        "write precision: bf16",
    ),
    Feature(
        "fp8_attention",
        "true",
        "FP8 attention",
        _SMALL | {"megatron-deepspeed", "torchtitan", "fsdp2"},
        lambda job: job.fp8_attention,
        "leave out fp8_attention",
    ),
    Feature(
        "low_precision_parameters",
        "true",
        "parameters kept in FP8 alone",
        frozenset({"megatron-deepspeed", "llm-foundry", "internevo"}),
        lambda job: job.low_precision_parameters,
        "leave out low_precision_parameters",
    ),
    Feature(
        "first_layers_bf16",
        "1 or more",
        "layers that stay in BF16",
        _SMALL | {"megatron-deepspeed"},
        lambda job: job.first_layers_bf16 or None,
        "leave out first_layers_bf16",
    ),
    Feature(
        "last_layers_bf16",
        "1 or more",
        "layers that stay in BF16",
        _SMALL | {"megatron-deepspeed"},
        lambda job: job.last_layers_bf16 or None,
        "leave out last_layers_bf16",
    ),
    Feature(
        "recompute",
        "operators",
        "selective recomputation by operators",
        _ALL - PYTORCH,
        lambda job: "operators" if job.recompute == "operators" else None,
        "write recompute: full",
    ),
    Feature(
        "recompute",
        "except_qkv",
        "recomputation of all but queries, keys and values",
        _ALL - {"maxtext", "fsdp2"},
        lambda job: "except_qkv" if job.recompute == "except_qkv" else None,
        "write recompute: full",
    ),
    Feature(
        "recompute_method",
        "block, uniform",
        "recomputation of some layers or of groups",
        frozenset({"nanotron", "torchtitan", "llm-foundry"}),
        lambda job: job.recompute_method if job.recompute == "full" else None,
        "leave out recompute_method",
    ),
    Feature(
        "recompute_modules",
        "all but core_attention",
        "recomputation of single modules",
        _SMALL | {"megatron-deepspeed", "torchtitan"},
        _modules,
        "leave out recompute_modules",
    ),
    Feature(
        "graphs",
        "partial, full",
        "CUDA graphs",
        _SMALL | {"megatron-deepspeed"},
        _other_than("graphs", "none"),
        "leave out graphs",
    ),
    Feature(
        "dispatcher",
        "fused",
        "fused dispatcher (DeepEP, HybridEP)",
        _SMALL | {"megatron-deepspeed"},
        _other_than("dispatcher", "all_to_all"),
        "leave out dispatcher",
    ),
    Feature(
        "fused_experts",
        "true",
        "fused kernel for all experts of a rank",
        _SMALL | {"megatron-deepspeed", "torchtitan", "maxtext"},
        lambda job: job.fused_experts,
        "leave out fused_experts",
    ),
    Feature(
        "overlap.experts",
        "true",
        "overlap of dispatch and combine with other micro-batches",
        _SMALL | {"megatron-deepspeed", "maxtext"},
        lambda job: job.overlap.experts,
        "leave out overlap.experts",
    ),
    Feature(
        "moments",
        "bf16, 8bit",
        "Adam with moments of fewer than 32 bits",
        frozenset({"nanotron"}),
        lambda job: {2: "bf16", 1: "8bit"}.get(job.moment_bytes),
        "leave out moments",
    ),
    Feature(
        "attention",
        "triton",
        "Triton attention",
        frozenset({"megatron"}),
        lambda job: "triton" if job.attention_library == "triton" else None,
        "leave out attention",
    ),
    Feature(
        "lora",
        "any",
        "adapters",
        frozenset({"nanotron"}),
        lambda job: job.adapters,
        "leave out lora",
    ),
    Feature(
        "offload.layers",
        "1 or more",
        "offload to the host",
        frozenset({"nanotron"}),
        lambda job: job.offload.layers or None,
        "leave out offload",
    ),
    Feature(
        "offload.modules",
        "any",
        "offload of single modules",
        _SMALL | {"megatron-deepspeed", "torchtitan"},
        lambda job: ", ".join(job.offload.modules) or None,
        "leave out offload.modules",
    ),
    Feature(
        "offload.optimizer",
        "above 0",
        "offload to the host",
        frozenset({"nanotron"}),
        lambda job: job.offload.optimizer or None,
        "leave out offload",
    ),
)
"""What frameworks lack, in the order of job files."""


def unsupported(framework: str, job: Job) -> Iterator[Diagnostic]:
    """An error for everything in a job that its framework has no way to do, with what to write instead.

    :param framework: one of :data:`NAMES`; nothing is known of others.
    """
    for each in FEATURES:
        value = each.asked(job) if framework in each.lacking else None
        if value is None or value is False:
            continue
        able = sorted(_ALL - each.lacking)
        yield error(
            Code.BAD_VALUE,
            f"{NAMES[framework]} has no {each.what}",
            key=each.key,
            found="true" if value is True else str(value),
            help=f"{each.remedy}; or choose a framework that has it: {', '.join(able)}" if able else each.remedy,
        )
    yield from _micro_batches(framework, job)


def interleaves(framework: str, stages: int, micro_batches: int) -> bool:
    """Whether an interleaved pipeline of a framework takes this number of micro-batches.

    Megatron takes groups of as many as there are stages (``microbatch_group_size_per_vp_stage`` by default), and a last
    group must not be smaller; so do Megatron-DeepSpeed, InternEvo and MaxText. PyTorch (``ScheduleInterleaved1F1B``)
    takes as many rounds as the micro-batches have times the stages, and these must be equal.
    """
    if framework in PYTORCH:
        return micro_batches % max(1, micro_batches // stages) == 0
    return micro_batches % stages == 0


def _micro_batches(framework: str, job: Job) -> Iterator[Diagnostic]:
    """Interleaved pipelines whose micro-batches do not divide as the framework needs it."""
    stages, batches = job.pipeline, job.micro_batches
    if job.schedule != "1f1b" or job.virtual_stages == 1 or stages == 1 or interleaves(framework, stages, batches):
        return
    unit = job.data * job.micro_batch
    # A multiple of the stages always does.
    above = next(each for each in range(batches, batches + stages + 1) if interleaves(framework, stages, each))
    below = next((each for each in range(batches, 0, -1) if interleaves(framework, stages, each)), None)
    near = [each for each in (below, above) if each is not None]
    best = min(near, key=lambda each: (abs(each - batches), -each))
    need = (
        f"{batches // stages} rounds of equally many micro-batches"
        if framework in PYTORCH
        else f"micro-batches in groups of {stages}, as many as there are stages"
    )
    yield error(
        Code.BAD_VALUE,
        f"an interleaved pipeline of {NAMES.get(framework, framework)} takes {need}",
        key="batch.global_batch",
        found=f"{job.global_batch} sequences ({batches} micro-batches)",
        allowed=f"{_either(each * unit for each in near)} sequences ({_either(near)} micro-batches)",
        help=f"write global_batch: {best * unit}, or leave out virtual_stages",
    )


def _either(numbers: Iterable[int]) -> str:
    return " or ".join(map(str, numbers))
