"""Operations on each element by itself."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op


def pointwise(name: str, elements: int, *, forward: int, backward: int) -> Op:
    """Apply a function of one element that costs ``forward`` and ``backward`` FLOP.

    Backward reads the saved input and the output gradient and writes the input gradient.
    """
    return Op(
        name,
        parameters=0,
        inputs=elements,
        outputs=elements,
        forward=Amount(forward * elements, 2 * elements),
        input_grad=Amount(backward * elements, 3 * elements),
        weight_grad=NOTHING,
    )


def relu(elements: int) -> Op:
    """``max(x, 0)``: one comparison forward, one selection backward."""
    return pointwise("relu", elements, forward=1, backward=1)


def residual(elements: int) -> Op:
    """Add the value that a block was given to what it computed.

    Forward reads two operands and writes one. Backward the gradients of the two paths meet where the block began and
    are added there, which costs the same. ``inputs`` counts the computed operand alone: the chain of layers is meant.
    """
    each = Amount(elements, 3 * elements)
    return Op("residual", 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)
