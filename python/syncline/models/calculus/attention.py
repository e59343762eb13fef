"""Scaled dot-product attention without its projections (Vaswani et al. 2017, 3.2).

The projections to queries, keys and values and the one after the heads are :func:`~.dense.linear` layers. Heads divide
the hidden size, so they change the number of scores but not the operations of the two products. No mask is assumed.
"""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op, Product


def scores(batch: int, sequence: int, hidden: int, heads: int) -> Op:
    """Multiply queries and keys: one score for each head and pair of tokens."""
    tokens = batch * sequence
    return _weightless(
        "scores",
        (sequence, hidden // heads, sequence),
        count=batch * heads,
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
        (sequence, sequence, hidden // heads),
        count=batch * heads,
        inputs=heads * tokens * sequence + tokens * hidden,
        outputs=tokens * hidden,
    )


def _weightless(name: str, sizes: tuple[int, int, int], *, count: int, inputs: int, outputs: int) -> Op:
    """Multiply two activations: both operands need a gradient, and each of the two costs the forward pass.

    ``sizes`` are those of one head's product. The gradient of one operand reads the output gradient and the other
    operand, and writes itself; the two together read the output gradient twice and touch every input element twice.
    """
    m, k, n = sizes
    multiply_adds, moved = count * m * k * n, inputs + outputs
    left, right = Product(m, n, k, moved, count), Product(k, m, n, moved, count)
    return Op(
        name,
        parameters=0,
        inputs=inputs,
        outputs=outputs,
        forward=Amount(2 * multiply_adds, moved, (Product(m, k, n, moved, count),)),
        input_grad=Amount(4 * multiply_adds, 2 * moved, (left, right)),
        weight_grad=NOTHING,
        multiply_adds=multiply_adds,
    )
