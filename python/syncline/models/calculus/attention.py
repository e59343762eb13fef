"""Scaled dot-product attention without its projections (Vaswani et al. 2017, 3.2).

The projections to queries, keys and values and the one after the heads are :func:`~.dense.linear` layers. Heads divide
the hidden size, so they change the number of scores but not the operations of the two products. No mask is assumed.

With grouped queries (Ainslie et al. 2023), several heads share one head of keys and values: the products stay, and
there are fewer keys and values to move.
"""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op, weightless


def rotary(tokens: int, width: int) -> Op:
    """Turn each pair of a token's elements by an angle that its position gives (Su et al. 2021, RoPE).

    FLOP per element: two multiplications and an addition, forward and backward. Backward turns the gradient back; no
    input is needed for that. Sines and cosines, one for each position and element, are left out.
    """
    elements = tokens * width
    each = Amount(3 * elements, 2 * elements)
    return Op("rotary", 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)


def scores(batch: int, sequence: int, hidden: int, heads: int, *, kv_heads: int | None = None) -> Op:
    """Multiply queries and keys: one score for each head and pair of tokens. ``hidden`` is the width of all heads."""
    tokens = batch * sequence
    keys = hidden // heads * (kv_heads or heads)
    return weightless(
        "scores",
        (sequence, hidden // heads, sequence),
        count=batch * heads,
        inputs=tokens * (hidden + keys),
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


def context(batch: int, sequence: int, hidden: int, heads: int, *, kv_heads: int | None = None) -> Op:
    """Attention weights times values. ``hidden`` is the width of all heads."""
    tokens = batch * sequence
    values = hidden // heads * (kv_heads or heads)
    return weightless(
        "context",
        (sequence, sequence, hidden // heads),
        count=batch * heads,
        inputs=heads * tokens * sequence + tokens * values,
        outputs=tokens * hidden,
    )
