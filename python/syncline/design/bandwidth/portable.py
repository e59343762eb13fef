"""Writes the workload of a PyTorch module as layers, so that it can be simulated without the module's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.input.words import PASSES

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAID = ("parallel", "iterations", "micro_batches", "global_batch")
"""Keys that do not describe the module itself."""


def layers(workload: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The workload with its module replaced by the module's layers.

    ``workload`` is what the user wrote, ``resolved`` is the resolved form. Reading the result gives the same layers.
    """
    memory = {key: resolved[key] for key in ("optimizer", "batch_per_npu", "sample") if key in resolved}
    return {
        "layers": [_layer(layer) for layer in resolved["layers"]],
        "types": resolved["types"],
        **memory,
        **{key: workload[key] for key in _SAID if workload.get(key) is not None},
    }


def _layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer in the form that users write, without passes that have no work."""
    written = {key: value for key, value in layer.items() if key not in PASSES and value is not None}
    for key in PASSES:
        work = layer.get(key, "none")
        if work != "none":
            written[key] = work["ops"] if "ops" in work else work["time"]
    return written
