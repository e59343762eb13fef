"""Matrix products with weights: convolution and linear layer."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Image, Op, product


def conv2d(
    batch: int, image: Image, channels: int, kernel: int, *, stride: int = 1, padding: int = 0, bias: bool = False
) -> tuple[Op, Image]:
    """Convolves with a square window; the second result is the shape of the output.

    Multiply-adds: one for each output element, input channel and window element, including padding, as in published
    counts. As a matrix product (im2col), the rows are the positions of all samples.
    """
    target = image.slide(channels, kernel, stride, padding)
    window = image.channels * kernel * kernel
    op = product(
        "conv2d",
        rows=batch * target.height * target.width,
        reduced=window,
        columns=channels,
        parameters=channels * window + (channels if bias else 0),
        inputs=batch * image.elements,
        outputs=batch * target.elements,
    )
    return op, target


def linear(rows: int, inputs: int, outputs: int, *, bias: bool = True) -> Op:
    """Multiplies ``rows`` vectors of ``inputs`` elements by a matrix, giving vectors of ``outputs`` elements."""
    return product(
        "linear",
        rows=rows,
        reduced=inputs,
        columns=outputs,
        parameters=inputs * outputs + (outputs if bias else 0),
        inputs=rows * inputs,
        outputs=rows * outputs,
    )


def bias(rows: int, outputs: int) -> Op:
    """The bias of a :func:`linear` operation whose matrix belongs to another layer; its work is counted there."""
    elements = rows * outputs
    return Op("bias", outputs, elements, elements, forward=NOTHING, input_grad=NOTHING, weight_grad=NOTHING)
