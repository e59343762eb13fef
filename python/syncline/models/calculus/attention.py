"""Scaled dot-product attention without its projections (Vaswani et al. 2017, 3.2).

The projections to queries, keys and values and the one after the heads are :func:`~.dense.linear` layers. Heads divide
the hidden size, so they change the number of scores but not the cost of the two products. No mask is assumed.
"""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op


def scores(batch: int, sequence: int, hidden: int, heads: int) -> Op:
    """Multiply queries and keys: one score for each head and pair of tokens."""
    tokens = batch * sequence
    return _weightless(
        "scores",
        multiply_adds=tokens * sequence * hidden,
        inputs=2 * tokens * hidden,
        outputs=heads * tokens * sequence,
    )


def softmax(rows: int, columns: int) -> Op:
    """Scaled softmax of ``rows`` vectors of ``columns`` elements.

    FLOP per element: forward 6 (scale, maximum, subtract, exponential, sum, divide); backward 5
    (``y * (dy - sum(y * dy))`` is multiply, add, subtract, multiply; scale). Backward reads the
    output and its gradient.
    """
    elements = rows * columns
    return Op(
        "softmax",
        parameters=0,
        inputs=elements,
        outputs=elements,
        forward=Amount(6 * elements, 2 * elements),
        input_grad=Amount(5 * elements, 3 * elements),
        weight_grad=NOTHING,
    )


def context(batch: int, sequence: int, hidden: int, heads: int) -> Op:
    """Attention weights times values."""
    tokens = batch * sequence
    return _weightless(
        "context",
        multiply_adds=tokens * sequence * hidden,
        inputs=heads * tokens * sequence + tokens * hidden,
        outputs=tokens * hidden,
    )


def _weightless(name: str, *, multiply_adds: int, inputs: int, outputs: int) -> Op:
    """Multiply two activations: both operands need a gradient, and each of the two costs the forward pass.

    The gradient of one operand reads the output gradient and the other operand, and writes itself; the two together
    read the output gradient twice and touch every input element twice.
    """
    return Op(
        name,
        parameters=0,
        inputs=inputs,
        outputs=outputs,
        forward=Amount(2 * multiply_adds, inputs + outputs),
        input_grad=Amount(4 * multiply_adds, 2 * (inputs + outputs)),
        weight_grad=NOTHING,
        multiply_adds=multiply_adds,
    )
