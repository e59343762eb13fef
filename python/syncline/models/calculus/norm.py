"""Batch norm (Ioffe and Szegedy 2015), layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019), in training.

FLOP per element. Forward 7: mean 1, variance 2, normalise 2, scale and shift 2. Input gradient 6 (recompute the
normalised value 2, multiply 1, subtract two means 2, scale 1). Weight gradient 5 (recompute 2, multiply 1, two sums 2).
An RMS norm has no mean and no shift: forward 4 (square and sum 2, normalise 1, scale 1), input gradient 4 (recompute 1,
multiply 1, subtract one mean 1, scale 1), weight gradient 3 (recompute 1, multiply 1, sum 1).
The inverse square root for each channel or row is not counted.
"""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Image, Op


def batch_norm(batch: int, image: Image, *, affine: bool = True) -> Op:
    """Normalises each channel over the batch. ``affine`` says whether scale and shift are trained."""
    return _norm("batch_norm", batch * image.elements, image.channels if affine else 0)


def layer_norm(rows: int, width: int, *, affine: bool = True, bias: bool = True) -> Op:
    """Normalises ``rows`` vectors of ``width`` elements. ``affine``: a scale is trained; ``bias``: a shift too."""
    return _norm("layer_norm", rows * width, width if affine else 0, bias=bias)


def rms_norm(rows: int, width: int, *, affine: bool = True) -> Op:
    """Divides each of ``rows`` vectors of ``width`` elements by the root of its mean square.

    ``affine`` says whether a scale is trained.
    """
    elements, scales = rows * width, width if affine else 0
    return Op(
        "rms_norm",
        scales,
        inputs=elements,
        outputs=elements,
        forward=Amount(4 * elements, 2 * elements + scales),
        input_grad=Amount(4 * elements, 3 * elements + scales),
        weight_grad=Amount(3 * elements, 2 * elements + scales) if scales else NOTHING,
    )


def _norm(name: str, elements: int, scales: int, *, bias: bool = True) -> Op:
    parameters = (1 + bias) * scales
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
