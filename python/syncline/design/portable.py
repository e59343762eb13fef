"""A workload of a PyTorch module as its layers, for a scenario that is simulated where the module's code is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAID = ("parallel", "iterations", "micro_batches", "global_batch")
"""Keys that say nothing of the module itself."""
_WORK = ("forward", "input_grad", "weight_grad", "update")


def layers(workload: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The workload with the layers that were found in its module in its place.

    ``workload`` is what the user wrote, ``resolved`` the same with every name expanded. Read again, what is given has
    the same layers.
    """
    memory = {key: resolved[key] for key in ("optimizer", "batch_per_npu", "sample") if key in resolved}
    return {
        "layers": [_layer(layer) for layer in resolved["layers"]],
        "types": resolved["types"],
        **memory,
        **{key: workload[key] for key in _SAID if workload.get(key) is not None},
    }


def _layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer as users write it: work that there is none of is left out."""
    written = {key: value for key, value in layer.items() if key not in _WORK and value is not None}
    for key in _WORK:
        work = layer.get(key, "none")
        if work != "none":
            written[key] = work["ops"] if "ops" in work else work["time"]
    return written
