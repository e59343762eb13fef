"""Batch norm (Ioffe and Szegedy 2015) and layer norm (Ba et al. 2016), as in training.

FLOP per element. Forward 7: mean 1, variance 2, normalise 2, scale and shift 2. Input gradient 6 (recompute the
normalised value 2, multiply 1, subtract two means 2, scale 1). Weight gradient 5 (recompute 2, multiply 1, two sums 2).
The cost of one inverse square root for each channel or row is left out.
"""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Image, Op


def batch_norm(batch: int, image: Image, *, affine: bool = True) -> Op:
    """Normalises each channel over the batch. ``affine`` says whether scale and shift are trained."""
    return _norm("batch_norm", batch * image.elements, image.channels if affine else 0)


def layer_norm(rows: int, width: int) -> Op:
    """Normalises each of ``rows`` vectors of ``width`` elements; scale and shift are trained."""
    return _norm("layer_norm", rows * width, width)


def _norm(name: str, elements: int, scales: int) -> Op:
    parameters = 2 * scales
    return Op(
        name,
        parameters,
        inputs=elements,
        outputs=elements,
        forward=Amount(7 * elements, 2 * elements + parameters),
        # Reads inputs, the output gradient and the scales; writes the input gradient.
        input_grad=Amount(6 * elements, 3 * elements + scales),
        # Reads inputs and the output gradient; writes the parameters' gradients.
        weight_grad=Amount(5 * elements, 2 * elements + parameters) if scales else NOTHING,
    )
