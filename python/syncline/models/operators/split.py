"""How a layer is split by its output features, for models that are built layer by layer.

A product with weights is split by the columns of its matrix: each part reads all inputs. Everything else is split in
proportion: elementwise operations, the heads of attention, the columns of a table of embeddings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from syncline.models.calculus import Amount, Op
from syncline.models.calculus.op import product

if TYPE_CHECKING:
    from syncline.models.layer import Layer


def features(layer: Layer) -> int:
    """The number of output features of a layer of one sample: it can be split into any number of parts that divides it.

    1 if it cannot be split: a norm needs all features, and a layer with several matrices would exchange values within.
    """
    weighted = [_weighted(op) for op in layer.ops]
    if layer.sharding == "replicated" or any(weighted[1:]):
        return 1
    if layer.heads is not None:
        return layer.heads
    first = layer.ops[0]
    if weighted[0]:
        (forward, *others) = first.forward.products
        return 1 if others or forward.count > 1 else forward.n
    if first.parameters and layer.vocabulary is not None:
        return first.parameters // layer.vocabulary
    return layer.outputs if layer.sharding == "divided" else 1


def part(layer: Layer, parts: int) -> Layer:
    """One of ``parts`` equal parts of a layer; ``parts`` divides its :func:`features`."""
    if parts == 1:
        return layer
    scaled = {key: value // parts for key in ("hands_on", "updated") if (value := getattr(layer, key)) is not None}
    return replace(layer, ops=tuple(_part(op, parts) for op in layer.ops), **scaled)


def _weighted(op: Op) -> bool:
    """Whether an operation multiplies activations by weights."""
    return op.parameters > 0 and op.multiply_adds > 0


def _part(op: Op, parts: int) -> Op:
    if _weighted(op):
        (whole,) = op.forward.products
        return product(
            op.name,
            rows=whole.m,
            reduced=whole.k,
            columns=whole.n // parts,
            parameters=op.parameters // parts,
            inputs=op.inputs,
            outputs=op.outputs // parts,
        )
    return replace(
        op,
        parameters=op.parameters // parts,
        inputs=op.inputs // parts,
        outputs=op.outputs // parts,
        forward=_share(op.forward, parts),
        input_grad=_share(op.input_grad, parts),
        weight_grad=_share(op.weight_grad, parts),
        multiply_adds=op.multiply_adds // parts,
        masked=op.masked // parts,
    )


def _share(amount: Amount, parts: int) -> Amount:
    """Work of one part, without its products: operators are timed by work and memory alone."""
    return Amount(amount.flop // parts, amount.moved // parts)
