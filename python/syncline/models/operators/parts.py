"""Operators that several models have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.models.calculus import (
    NOTHING,
    Amount,
    Heads,
    Op,
    attention,
    embedding_bag,
    linear,
    relu,
    residual,
    sigmoid,
)
from syncline.models.layer import Layer
from syncline.models.operators.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def dense(
    name: str,
    reads: Sequence[str],
    inputs: int,
    outputs: int,
    *,
    rows: int = 1,
    activation: Callable[[int], Op] | None = relu,
    reads_data: bool = False,
) -> Operator:
    """A linear layer and its activation, on ``rows`` vectors of each sample. Parameters are split by outputs."""

    def part(samples: int, parts: int) -> Layer:
        product = linear(samples * rows, inputs, outputs // parts)
        after = () if activation is None else (activation(product.outputs),)
        return Layer(name, (product, *after), reads_data=reads_data)

    return Operator(name, "dense", tuple(reads), part, features=outputs, measured=f"Dense_{inputs}_{outputs}")


def classifier(name: str, reads: Sequence[str], inputs: int) -> Operator:
    """A linear layer with one output, and its sigmoid."""
    return dense(name, reads, inputs, 1, activation=sigmoid)


def table(name: str, entries: int, width: int, pooling: int) -> Operator:
    """A table of embeddings of which ``pooling`` are looked up and added for each sample.

    Its parameters may be split by columns. An update changes the vectors that were looked up.
    """

    def part(samples: int, parts: int) -> Layer:
        lookup = embedding_bag(samples, 1, entries, width // parts, pooling)
        return Layer(name, (lookup,), reads_data=True, updated=min(pooling * lookup.outputs, lookup.parameters))

    measured = f"Embed_{entries}x{width}"
    return Operator(name, "embedding", (), part, features=width, whole_batch=True, measured=measured)


def concatenation(name: str, reads: Sequence[str], features: int) -> Operator:
    """All inputs side by side: every element is read and written, forward and backward."""

    def part(samples: int, _: int) -> Layer:
        return Layer(name, (_moved("concatenate", samples * features),))

    return Operator(name, "concatenation", tuple(reads), part, measured="Concat_1")


def _moved(name: str, elements: int) -> Op:
    """Reads and writes every element, forward and backward, and computes nothing."""
    each = Amount(0, 2 * elements)
    return Op(name, 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)


def added(name: str, reads: Sequence[str], features: int, *, measured: str = "ElementBinary_31") -> Operator:
    """The sum of two inputs."""

    def part(samples: int, parts: int) -> Layer:
        return Layer(name, (residual(samples * features // parts),))

    return Operator(name, "elementwise", tuple(reads), part, features=features, element_wise=True, measured=measured)


def self_attention(
    name: str, reads: Sequence[str], *, sequence: int, hidden: int, heads: int, reads_data: bool = False
) -> Operator:
    """Attention with its four projections, on whole samples."""

    def part(samples: int, _: int) -> Layer:
        rows = samples * sequence
        of = Heads(batch=samples, sequence=sequence, width=hidden, heads=heads, kv_heads=heads)
        projections = (linear(rows, hidden, hidden) for _ in range(3))
        mixed = attention(of, causal=False, skips=False)
        return Layer(name, (*projections, mixed, linear(rows, hidden, hidden)), reads_data=reads_data)

    measured = f"MultiHeadAttention_{hidden}{heads}"
    return Operator(name, "attention", tuple(reads), part, measured=measured)
