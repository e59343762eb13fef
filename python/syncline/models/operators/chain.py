"""Any model of syncline as a chain of operators, one for each layer."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from syncline.models.operators import split
from syncline.models.operators.operator import Operator, OperatorModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from syncline.models.layer import Layer
    from syncline.models.operators.operator import Kind

_KINDS: Mapping[str, Kind] = {
    "linear": "dense",
    "conv2d": "convolution",
    "embedding": "embedding",
    "embedding_bag": "embedding",
    "attention": "attention",
    "scores": "attention",
    "context": "attention",
    "layer_norm": "norm",
    "rms_norm": "norm",
    "batch_norm": "norm",
    "max_pool": "pooling",
    "average_pool": "pooling",
    "softmax": "elementwise",
    "residual": "elementwise",
    "positions": "elementwise",
    "dropout": "elementwise",
    "gelu": "elementwise",
    "silu": "elementwise",
    "relu": "elementwise",
    **{f"gated_{name}": "elementwise" for name in ("gelu", "silu", "relu", "sigmoid")},
}
"""Kinds of layers, by their first operation that is listed."""

_NOTE = "skip connections are not modelled: each operator reads only the output of the one before it"


def build(
    name: str, layers: Callable[[int], Sequence[Layer]], *, batch: int, notes: tuple[str, ...] = ()
) -> OperatorModel:
    """Builds an operator for each layer, which reads the layer before it.

    ``layers(samples)`` are the layers of a model on that many samples, the same layers for any number. A layer is split
    by samples, and by features where :mod:`~.split` says so. The table of a tied embedding is a parameter of the layer
    that holds it: the other layer only computes with it.
    """
    built = cache(layers)

    def operator(at: int) -> Operator:
        layer = built(1)[at]
        before = (built(1)[at - 1].name,) if at else ()
        return Operator(
            layer.name,
            next((_KINDS[op.name] for op in layer.ops if op.name in _KINDS), "layer"),
            before,
            lambda samples, parts: split.part(built(samples)[at], parts),
            features=split.features(layer),
            element_wise=layer.sharding == "divided",
        )

    return OperatorModel(name, tuple(map(operator, range(len(built(1))))), batch, notes=(*notes, _NOTE))
