"""Which setting of Megatron-LM each key of Megatron-Bridge's YAML file is.

- :mod:`~syncline.jobs.bridge.mapping.recipes`: what a recipe sets, if the file holds the overrides of one;
- :mod:`~syncline.jobs.bridge.mapping.model`: heads, embeddings, sequence and vocabulary;
- :mod:`~syncline.jobs.bridge.mapping.parallel`: sharding of optimizer and parameters, layers of stages;
- :mod:`~syncline.jobs.bridge.mapping.precision`: data types;
- :mod:`~syncline.jobs.bridge.mapping.memory`: offload;
- :mod:`~syncline.jobs.bridge.mapping.kernels`: attention and overlap;
- :mod:`~syncline.jobs.bridge.mapping.adapters`: LoRA adapters.

Keys of ``model`` are fields of Megatron Core's ``TransformerConfig``: arguments of Megatron-LM with underscores, but
for those here. Defaults are those of ``GPTModelProvider``, ``DistributedDataParallelConfig`` and ``CommOverlapConfig``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from syncline.jobs.bridge.mapping import kernels, memory, model, parallel, precision
from syncline.jobs.keys import Keys, read_keys
from syncline.jobs.megatron.arguments import arguments
from syncline.jobs.megatron.renamed import Renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Setting, Settings

FILE = "bridge-keys.yaml"
_RENAMED = {
    "model.num_moe_experts": "num-experts",
    "model.fp8": "fp8-format",
    "model.fp4": "fp4-format",
    "train.micro_batch_size": "micro-batch-size",
    "train.global_batch_size": "global-batch-size",
    "ddp.use_megatron_fsdp": "use-megatron-fsdp",
    "ddp.use_custom_fsdp": "use-custom-fsdp",
    "ddp.data_parallel_sharding_strategy": "data-parallel-sharding-strategy",
    "ddp.num_distributed_optimizer_instances": "num-distributed-optimizer-instances",
    "dist.use_torch_fsdp2": "use-torch-fsdp2",
    "optimizer.optimizer": "optimizer",
    "optimizer.optimizer_cpu_offload": "optimizer-cpu-offload",
    "optimizer.optimizer_offload_fraction": "optimizer-offload-fraction",
    "optimizer.overlap_cpu_optimizer_d2h_h2d": "overlap-cpu-optimizer-d2h-h2d",
}
"""Keys whose names are not the argument's with underscores, below ``model``."""
_SPECIAL = frozenset(
    (
        "model.num_query_groups",
        "model.bf16",
        "model.fp16",
        "model.tokenizer_type",
        "model.group_query_attention",
        "model.attention_backend",
        "model.fp8",
        "model.fp8_recipe",
        "model.fp4",
        "model.fp8_dot_product_attention",
        "model.fp8_multi_head_attention",
        "model.fp8_param",
        "model.fp8_param_gather",
        *(f"model.{name}" for name in precision.BF16_KEYS),
        "ddp.use_megatron_fsdp",
    )
)
"""Keys that need more than the name of an argument: modules of this package map them."""
SPELLED: Mapping[str, str] = {
    **{name: f"model.{name.replace('-', '_')}" for name in arguments().mapped},
    **{argument: key for key, argument in _RENAMED.items()},
    "bf16": "mixed_precision: bf16_mixed",
}
"""How settings of Megatron-LM are written in Megatron-Bridge's file, for what is missing."""


@cache
def keys() -> Keys:
    """All keys: those of the file, and arguments of Megatron-LM below ``model``."""
    own, known = read_keys(FILE), arguments()

    def below(names: Any) -> list[str]:
        listed = {f"model.{name.replace('-', '_')}" for name in names}
        return sorted(listed - own.all)

    return Keys(
        mapped=[*own.mapped, *below(known.mapped)],
        without_effect=[*own.without_effect, *below(known.without_effect)],
        not_modelled=[*own.not_modelled, *below(known.not_modelled)],
        refused={name: known.refused[name[6:].replace("_", "-")] for name in below(known.refused)},
    )


def megatron(settings: Settings) -> dict[str, Setting]:
    """The settings as those of Megatron-LM by the names of its arguments; notes problems."""
    renamed = Renamed(settings)
    names = {**{f"model.{name.replace('-', '_')}": name for name in arguments().mapped}, **_RENAMED}
    for key, name in names.items():
        if key in _SPECIAL or not settings.has(key):
            continue
        settings.used.add(key)
        if not settings.found[key].off:
            renamed.put(name, key, value=settings.found[key].value)
    memory.offload(renamed)
    model.attention_groups(renamed)
    model.untied(renamed)
    model.rope_fusion(renamed)
    model.sequence(renamed)
    model.vocabulary(renamed)
    parallel.stages(renamed)
    kernels.attention(renamed)
    parallel.sharding(renamed)
    precision.products(renamed)
    precision.types(renamed)
    kernels.overlap(renamed)
    return renamed.found
