"""Multi-layer perceptron: linear layers with an activation between them.

The default is LeNet-300-100 (LeCun et al., "Gradient-based learning applied to document recognition", 1998, III-C.3):
28 x 28 inputs, hidden layers of 300 and 100, 10 classes, 266,610 parameters. Its sigmoid is a ReLU here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from syncline.models.calculus import linear, relu
from syncline.models.info import model
from syncline.models.layer import Layer
from syncline.models.parameters import boolean, integers

if TYPE_CHECKING:
    from collections.abc import Sequence


def layers(*, batch_per_npu: int, sizes: Sequence[int], bias: bool) -> list[Layer]:
    """Builds the layers ``fc1`` to ``fcN``. The last one has no activation."""
    last = len(sizes) - 1
    built = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes), start=1):
        product = linear(batch_per_npu, inputs, outputs, bias=bias)
        ops = (product,) if index == last else (product, relu(product.outputs))
        built.append(Layer(f"fc{index}", ops, reads_data=index == 1))
    return built


INFO = model(
    "Multi-layer perceptron (MLP) of any size",
    "LeCun et al. 1998 (LeNet-300-100) for the default sizes",
    layers,
    {
        "sizes": integers((784, 300, 100, 10), "elements of the input and of every layer's output", 1, 1 << 24),
        "bias": boolean("whether layers have a bias", default=True),
    },
)
