"""Maximum and average pooling with a square window."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Image, Op


def max_pool(batch: int, image: Image, kernel: int, *, stride: int, padding: int = 0) -> tuple[Op, Image]:
    """Takes the largest element of each window; the second result is the shape of the output.

    Forward compares every element of a window: ``kernel`` squared FLOP for each output. Backward adds each output
    gradient to that of the largest element: 1 FLOP for each output. It reads the output gradient and the same number
    of positions, and writes the input gradient.
    """
    target = image.slide(image.channels, kernel, stride, padding)
    inputs, outputs = batch * image.elements, batch * target.elements
    op = Op(
        "max_pool",
        parameters=0,
        inputs=inputs,
        outputs=outputs,
        forward=Amount(outputs * kernel * kernel, inputs + outputs),
        input_grad=Amount(outputs, inputs + 2 * outputs),
        weight_grad=NOTHING,
    )
    return op, target


def average_pool(batch: int, image: Image) -> tuple[Op, Image]:
    """Takes the mean of each channel (global average pooling); the second result is the shape of the output.

    1 FLOP for each input and direction: a sum forward, a division backward.
    """
    target = Image(image.channels, 1, 1)
    inputs, outputs = batch * image.elements, batch * target.elements
    each = Amount(inputs, inputs + outputs)
    op = Op("average_pool", 0, inputs, outputs, forward=each, input_grad=each, weight_grad=NOTHING)
    return op, target
