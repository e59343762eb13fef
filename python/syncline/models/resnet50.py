"""ResNet-50 (He et al., "Deep residual learning for image recognition", 2016, Table 1).

One convolution of 7 x 7, four stages of 3, 4, 6 and 3 bottleneck blocks (1 x 1, 3 x 3, 1 x 1, and a 1 x 1 shortcut in
the first block of a stage), and a linear layer: 53 + 1 weighted layers. 25,557,032 parameters for 1000 classes, of
which 25,502,912 are weights, 53,120 belong to batch norms and 1,000 are the classifier's bias.

Two things that the paper leaves open or that differ in practice:

* *Where a stage halves the image.* He et al. put the stride into the block's first 1 x 1 convolution (3.8 G
  multiply-adds in their Table 1). Today's implementations put it into the 3 x 3 one ("version 1.5", 4.09 G at
  224 x 224); so does the default here. ``stride_in`` chooses.
* *Which gradients are exchanged.* ``norm_parameters=False`` leaves out scale and shift of batch norms and the
  classifier's bias. That is what the layer file of astra2020 does: 102,011,648 bytes of 4-byte gradients.

Each layer is a convolution with the operations after it: batch norm, activation, residual sum, pooling. The shortcut
comes first in its block, as in that file; the network does not determine its place.
"""

from __future__ import annotations

from syncline.models.calculus import (
    Image,
    Op,
    average_pool,
    batch_norm,
    conv2d,
    linear,
    max_pool,
    relu,
    residual,
)
from syncline.models.info import model
from syncline.models.layer import Layer
from syncline.models.parameters import boolean, choice, integer

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Channels inside a block, and number of blocks, for conv2_x to conv5_x."""
EXPANSION = 4
"""Output channels of a block, over channels inside it."""


def layers(*, batch_per_npu: int, image_size: int, classes: int, norm_parameters: bool, stride_in: str) -> list[Layer]:
    """Builds the layers ``conv1``, ``conv2_1.shortcut``, ``conv2_1.conv1`` and so on to ``conv5_3.conv3``, ``fc``."""
    batch = batch_per_npu

    def normalised(image: Image, channels: int, kernel: int, stride: int = 1) -> tuple[list[Op], Image]:
        conv, target = conv2d(batch, image, channels, kernel, stride=stride, padding=kernel // 2)
        return [conv, batch_norm(batch, target, affine=norm_parameters)], target

    def activation(image: Image) -> Op:
        return relu(batch * image.elements)

    ops, image = normalised(Image(3, image_size, image_size), 64, 7, stride=2)
    pool, pooled = max_pool(batch, image, 3, stride=2, padding=1)
    built = [Layer("conv1", (*ops, activation(image), pool), reads_data=True)]
    image = pooled

    for stage, (channels, blocks) in enumerate(STAGES, start=2):
        for block in range(1, blocks + 1):
            name = f"conv{stage}_{block}"
            stride = 2 if block == 1 and stage > 2 else 1
            strides = (stride, 1) if stride_in == "conv1" else (1, stride)
            if block == 1:
                ops, _ = normalised(image, EXPANSION * channels, 1, stride)
                built.append(Layer(f"{name}.shortcut", tuple(ops)))
            ops, image = normalised(image, channels, 1, strides[0])
            built.append(Layer(f"{name}.conv1", (*ops, activation(image))))
            ops, image = normalised(image, channels, 3, strides[1])
            built.append(Layer(f"{name}.conv2", (*ops, activation(image))))
            ops, image = normalised(image, EXPANSION * channels, 1)
            ops += [residual(batch * image.elements), activation(image)]
            if (stage, block) == (1 + len(STAGES), blocks):
                mean, image = average_pool(batch, image)
                ops.append(mean)
            built.append(Layer(f"{name}.conv3", tuple(ops)))

    return [*built, Layer("fc", (linear(batch, image.elements, classes, bias=norm_parameters),))]


INFO = model(
    "ResNet-50, image classification, 25.6 M parameters",
    "He et al. 2016, Table 1; stride of the 3 x 3 convolutions as in version 1.5",
    layers,
    {
        "image_size": integer(224, "height and width of an image in pixels", 32, 4096),
        "classes": integer(1000, "number of classes", 1, 1 << 24),
        "norm_parameters": boolean("whether batch norms and the classifier's bias are trained", default=True),
        "stride_in": choice("conv2", "convolution of a block that halves the image", "conv1", "conv2"),
    },
)
