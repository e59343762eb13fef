"""Which key of a job file each key of torchtitan's TOML file becomes.

- :mod:`~syncline.jobs.torchtitan.mapping.model`: the model, by its name and flavor;
- :mod:`~syncline.jobs.torchtitan.mapping.parallel`: axes of parallelism, FSDP and experts; the pipeline's schedule and
  layers in :mod:`~syncline.jobs.torchtitan.mapping.stages`;
- :mod:`~syncline.jobs.torchtitan.mapping.batch`: sequences, micro-batches and the batch;
- :mod:`~syncline.jobs.torchtitan.mapping.precision`: data types;
- :mod:`~syncline.jobs.torchtitan.mapping.memory`: recomputation and offload;
- :mod:`~syncline.jobs.torchtitan.mapping.kernels`: compilation, attention and overlap.

Defaults and rules are those of torchtitan 0.2: ``torchtitan/config/job_config.py``, ``torchtitan/distributed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.torchtitan.mapping import batch, kernels, memory, model, parallel, precision, stages

if TYPE_CHECKING:
    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings


def map_settings(settings: Settings, given: Given) -> None:
    """Adds a line for each key of the job file, and notes problems."""
    architecture = model.model(settings, given)
    experts = architecture is not None and architecture.experts is not None
    degrees = parallel.degrees(settings, given)
    settings.put("framework", "torchtitan", *kernels.compiled(settings))
    parallel.tensor(settings, degrees.tensor)
    stages.stages(settings, degrees.pipeline, None if architecture is None else architecture.layers)
    parallel.context(settings, degrees.context)
    parallel.data(settings, degrees)
    if experts:
        parallel.experts(settings, degrees.tensor)
    batch.batch(settings, degrees.pipeline, degrees.replicate * degrees.shard)
    precision.products(settings, experts=experts, shard=degrees.shard)
    _optimizer(settings)
    memory.recompute(settings)
    kernels.attention(settings)
    memory.offload(settings)
    kernels.overlap(settings, exchanges=degrees.shard * degrees.context > 1 or degrees.replicate > 1)


def _optimizer(settings: Settings) -> None:
    if settings.word("optimizer.name", default="AdamW") not in ("Adam", "AdamW"):
        settings.problem("optimizer.name", "only the optimizer Adam can be estimated", allowed="Adam, AdamW")
