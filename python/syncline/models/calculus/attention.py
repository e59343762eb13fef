"""Scaled dot-product attention without its projections (Vaswani et al. 2017, 3.2).

The projections to queries, keys and values and the one after the heads are :func:`~.dense.linear` layers. Heads divide
the hidden size, so they change the number of scores but not the operations of the two products.

Attention is either three operations, :func:`scores`, :func:`softmax` and :func:`context`, which compute and keep every
score; or one, :func:`attention`, which computes scores in blocks that never leave the chip (Dao et al. 2022,
FlashAttention).

With grouped queries (Ainslie et al. 2023), several heads share one head of keys and values: the products are the same,
but there are fewer keys and values to move.

**Causal** attention masks the scores of later tokens, about half of all. :attr:`~.op.Op.multiply_adds` does not count
masked scores, even if they are computed; :attr:`~.op.Op.masked` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncline.models.calculus.op import NOTHING, Amount, Op, Product, weightless


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Sizes of attention on one NPU's share of the batch."""

    batch: int
    """Number of samples."""
    sequence: int
    """Tokens of a sample."""
    width: int
    """Elements of a token's queries: those of all heads."""
    heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and of values; divides ``heads``."""

    @property
    def tokens(self) -> int:
        """Tokens of all samples."""
        return self.batch * self.sequence

    @property
    def size(self) -> int:
        """Elements of a head."""
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        """Elements of a token's keys, and of its values."""
        return self.size * self.kv_heads

    def visible(self, *, causal: bool) -> int:
        """Keys that a query sees on average, rounded up: all of a sample, or half if later ones are masked."""
        return (self.sequence + 1) // 2 if causal else self.sequence


def rotary(tokens: int, width: int) -> Op:
    """Rotates each pair of a token's elements by an angle that depends on its position (Su et al. 2021, RoPE).

    FLOP per element: two multiplications and an addition, forward and backward. Backward rotates the gradient back,
    which needs no input. Sines and cosines, one for each position and element, are not counted.
    """
    elements = tokens * width
    each = Amount(3 * elements, 2 * elements)
    return Op("rotary", 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)


def attention(of: Heads, *, causal: bool, skips: bool) -> Op:
    """Attention as one operation, as FlashAttention computes it (Dao 2023, FlashAttention-2, 3.1).

    ``skips`` says whether to skip blocks of scores that a mask hides; with ``causal``, half of all. Forward: the two
    products, and 6 FLOP for each score (:func:`softmax`); reads queries, keys and values and writes the result.
    Backward: five products, 2.5 times the forward pass, because scores are recomputed; 3 FLOP for each score to
    recompute its weight, 5 for its gradient, and 2 for each element of the result. Reads the inputs of the forward
    pass, the result and its gradient, and writes three gradients. The traffic does not include the sums of rows of
    scores, one number for each token and head.
    """
    keys = of.visible(causal=causal and skips)
    count, scores = of.batch * of.heads, of.batch * of.heads * of.sequence * keys
    each = scores * of.size
    queries, kv = of.tokens * of.width, of.tokens * of.kv_width
    read, result = queries + 2 * kv, queries

    def products(shapes: list[tuple[int, int, int]], moved: int) -> tuple[Product, ...]:
        # Divide the traffic equally among the products, since they form one operation.
        share, rest = divmod(moved, len(shapes))
        return tuple(Product(*shape, share + (rest if at == 0 else 0), count) for at, shape in enumerate(shapes))

    rows, size = of.sequence, of.size
    score, weighted, to_keys = (rows, size, keys), (rows, keys, size), (keys, rows, size)
    forward, backward = read + result, 2 * read + 2 * result
    needed = 2 * count * rows * of.visible(causal=causal) * size
    return Op(
        "attention",
        parameters=0,
        inputs=read,
        outputs=result,
        forward=Amount(4 * each + 6 * scores, forward, products([score, weighted], forward)),
        input_grad=Amount(
            10 * each + 8 * scores + 2 * result,
            backward,
            products([score, score, weighted, to_keys, to_keys], backward),
        ),
        weight_grad=NOTHING,
        multiply_adds=needed,
        masked=2 * count * rows * rows * size - needed,
    )


def scores(batch: int, sequence: int, hidden: int, heads: int, *, kv_heads: int | None = None) -> Op:
    """Multiplies queries and keys: one score for each head and pair of tokens. ``hidden`` is the width of all heads."""
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


def causal(op: Op, sequence: int) -> Op:
    """:func:`scores` or :func:`context` with a causal mask, which hides the scores of later tokens.

    All scores are computed; ``multiply_adds`` counts only those of keys that a query sees.
    """
    needed = op.multiply_adds // sequence * ((sequence + 1) // 2)
    return replace(op, multiply_adds=needed, masked=op.multiply_adds - needed)
