"""Which key of a job file each setting of Megatron-LM becomes.

- :mod:`~syncline.jobs.megatron.mapping.model`: sizes of the model; its experts in
  :mod:`~syncline.jobs.megatron.mapping.experts`, with what sends tokens to them;
- :mod:`~syncline.jobs.megatron.mapping.parallel`: axes, ZeRO and batch; layers of stages in
  :mod:`~syncline.jobs.megatron.mapping.stages`;
- :mod:`~syncline.jobs.megatron.mapping.precision`: data types;
- :mod:`~syncline.jobs.megatron.mapping.memory`: recomputation and offload;
- :mod:`~syncline.jobs.megatron.mapping.kernels`: attention, CUDA graphs and overlap.

Names are those of Megatron-LM's arguments, without dashes. Defaults and rules are those of
``megatron/training/arguments.py`` (``validate_args``), unless a comment names another source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.megatron.arguments import arguments
from syncline.jobs.megatron.mapping import experts, kernels, memory, model, parallel, precision

if TYPE_CHECKING:
    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings


def map_settings(settings: Settings, given: Given) -> None:
    """Adds a line for each key of the job file, and notes problems."""
    tensor = settings.whole("tensor-model-parallel-size") or settings.whole("model-parallel-size") or 1
    named = given.architecture
    has_experts = any(map(settings.has, experts.NAMES)) or (named is not None and named.experts is not None)
    if given.model is not None:
        settings.put("model", given.model, *model.SIZES, note=f"--model {given.model}")
    else:
        model.model(settings, given)
    settings.put("cluster.accelerator", given.accelerator, note=given.accelerator_said)
    if given.gpus is not None:
        settings.put("cluster.gpus", given.gpus, note=given.gpus_said, mark=given.gpus_mark)
    settings.put("framework", "megatron")
    model.padding(settings)
    parallel.axes(settings, tensor, experts=has_experts)
    parallel.zero(settings, given, tensor)
    parallel.batch(settings, given, tensor)
    precision.products(settings)
    memory.recompute(settings)
    memory.offload(settings)
    kernels.attention(settings)
    _optimizer(settings)
    experts.dispatch(settings, experts=has_experts)
    kernels.graphs(settings, experts=has_experts)
    precision.exceptions(settings)
    precision.moments(settings)
    kernels.overlap(settings, experts=has_experts)
    _refused(settings)


def _optimizer(settings: Settings) -> None:
    optimizer = settings.word("optimizer", default="adam")
    if optimizer != "adam":
        settings.problem(
            "optimizer", "only the optimizer Adam can be estimated", allowed="adam", help="write --optimizer adam"
        )


def _refused(settings: Settings) -> None:
    """Refuses settings of jobs that cannot be estimated."""
    for name, setting in settings.found.items():
        if (why := arguments().refused.get(name)) is not None and setting.value is not False:
            settings.used.add(name)
            settings.problem(name, f"this job cannot be estimated: {why}", help=f"add --ignore {name} to leave it out")
