"""VGG-16 (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015).

Configuration D of its Table 1: 13 convolutions of 3 x 3 in five groups, each group ending in a pooling of 2 x 2, then
three linear layers; all with a bias. 138,357,544 parameters and 15.47 G multiply-adds for 1000 classes and 224 x 224
pixels. Dropout is left out: it has no parameters, and its cost is small.
"""

from __future__ import annotations

from syncline.models.calculus import Image, conv2d, linear, max_pool, relu
from syncline.models.info import model
from syncline.models.layer import Layer
from syncline.models.parameters import integer

GROUPS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions of each group."""
HIDDEN = 4096
"""Outputs of the first two linear layers."""


def layers(*, batch_per_npu: int, image_size: int, classes: int) -> list[Layer]:
    """Builds ``conv1_1`` to ``conv5_3``, ``fc6``, ``fc7`` and ``fc8``. Pooling belongs to the layer before it."""
    batch, image = batch_per_npu, Image(3, image_size, image_size)
    built: list[Layer] = []
    for group, (channels, count) in enumerate(GROUPS, start=1):
        for index in range(1, count + 1):
            conv, image = conv2d(batch, image, channels, 3, padding=1, bias=True)
            ops = [conv, relu(conv.outputs)]
            if index == count:
                pool, image = max_pool(batch, image, 2, stride=2)
                ops.append(pool)
            built.append(Layer(f"conv{group}_{index}", tuple(ops), reads_data=not built))
    inputs = image.elements
    for name, outputs in (("fc6", HIDDEN), ("fc7", HIDDEN), ("fc8", classes)):
        product = linear(batch, inputs, outputs)
        built.append(Layer(name, (product,) if name == "fc8" else (product, relu(product.outputs))))
        inputs = outputs
    return built


INFO = model(
    "VGG-16, image classification, 138.4 M parameters",
    "Simonyan and Zisserman 2015, Table 1, configuration D",
    layers,
    {
        "image_size": integer(224, "height and width of an image in pixels", 32, 4096),
        "classes": integer(1000, "number of classes", 1, 1 << 24),
    },
)
