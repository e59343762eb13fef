"""Elementwise operations."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op


def pointwise(name: str, elements: int, *, forward: int, backward: int) -> Op:
    """Applies a function of one element that costs ``forward`` and ``backward`` FLOP.

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


def squared_relu(elements: int) -> Op:
    """``max(x, 0)`` squared (So et al. 2021): a comparison and a product; backward a selection and two products."""
    return pointwise("squared_relu", elements, forward=2, backward=3)


def sigmoid(elements: int) -> Op:
    """``1 / (1 + exp(-x))``; backward ``y (1 - y) dy``."""
    return pointwise("sigmoid", elements, forward=4, backward=3)


def residual(elements: int) -> Op:
    """Adds the input of a block to its result.

    Forward reads two operands and writes one. Backward adds the gradients of the two paths at the input of the block,
    which costs the same. ``inputs`` counts only the result of the block, which comes from the layer before.
    """
    each = Amount(elements, 3 * elements)
    return Op("residual", 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)


def gelu(elements: int) -> Op:
    """``x/2 (1 + tanh(c (x + a x^3)))`` (Hendrycks and Gimpel 2016): 9 FLOP forward.

    Backward 18: recompute the tanh (6), its derivative (7), that of its argument (3), a sum and the output gradient
    (2).
    """
    return pointwise("gelu", elements, forward=9, backward=18)


def gated(activation: Op) -> Op:
    """Applies ``activation`` to one half of the inputs and multiplies by the other half (Shazeer 2020, GLU variants).

    Forward reads both halves and writes the product: 1 FLOP more for each element. Backward reads both halves and the
    output gradient, recomputes the activation, takes two products, and writes two gradients.
    """
    elements = activation.outputs
    return Op(
        f"gated_{activation.name}",
        parameters=0,
        inputs=2 * elements,
        outputs=elements,
        forward=Amount(activation.forward.flop + elements, 3 * elements),
        input_grad=Amount(activation.input_grad.flop + 3 * elements, 5 * elements),
        weight_grad=NOTHING,
    )


def silu(elements: int) -> Op:
    """``x sigmoid(x)``: 5 FLOP; backward ``s (1 + x (1 - s)) dy``, which recomputes the sigmoid: 9."""
    return pointwise("silu", elements, forward=5, backward=9)


def dropout(elements: int) -> Op:
    """Multiplies each element by 0 or a constant (Srivastava et al. 2014): 1 FLOP, forward and backward.

    The mask, one byte for each element, stays in memory until the backward pass. Making and moving it is not counted.
    """
    each = Amount(elements, 2 * elements)
    return Op("dropout", 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)
