"""Operations, and the rules for counting their cost.

**Operations.** A FLOP is one addition, multiplication, division, comparison or elementary function of one number.
A multiply-add is 2 FLOP. A matrix product costs the same in the forward pass and in each of its two gradients.
A bias starts the accumulator and is not counted.

**Memory traffic.** Each operation moves each of its operands once: forward, it reads inputs and weights and writes
outputs. A gradient reads the operands of its formula (output gradient, saved inputs, weights) and writes its result.
Operations are not fused, and nothing stays in a cache between them. So the traffic is a lower bound for each operation
alone, and an upper bound for a compiler that fuses operations.

Traffic is counted in *elements* here; :meth:`Amount.memory` turns it into bytes once a data type is known.

**Matrix products.** Their shapes are kept in addition, because the time on a matrix unit depends on them. Each
product of a pass is m x k times k x n: forward, rows x inputs times inputs x outputs; input gradient, rows x outputs
times outputs x inputs; weight gradient, inputs x rows times rows x outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from syncline.models.data_types import bytes_of


@dataclass(frozen=True)
class Product:
    """Matrix products of one shape."""

    m: int
    """Rows of the left operand."""
    k: int
    """Length of the dimension that is summed over."""
    n: int
    """Columns of the right operand."""
    moved: int
    """Elements that all of them move; a convolution moves its image, not its unfolded windows."""
    count: int = 1
    """Number of products."""


@dataclass(frozen=True)
class Amount:
    """Work of one pass."""

    flop: int
    """Floating-point operations."""
    moved: int
    """Elements moved between memory and the compute units."""
    products: tuple[Product, ...] = ()
    """The matrix products in it."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.flop + other.flop, self.moved + other.moved, self.products + other.products)

    def memory(self, data_type: str) -> int:
        """Bytes moved if every element has the type ``data_type``."""
        return self.moved * bytes_of(data_type)


NOTHING = Amount(0, 0)


@dataclass(frozen=True)
class Image:
    """Shape of one sample: channels of ``height`` x ``width`` elements."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return self.channels * self.height * self.width

    def slide(self, channels: int, kernel: int, stride: int, padding: int) -> Image:
        """Returns the shape of the output of a square window, with ``padding`` on every side (rounded down)."""

        def positions(size: int) -> int:
            free = size + 2 * padding - kernel
            if free < 0:
                raise ValueError(f"a window of {kernel} does not fit {size} elements with {padding} of padding")
            return free // stride + 1

        return Image(channels, positions(self.height), positions(self.width))


@dataclass(frozen=True)
class Op:
    """One operation on one NPU's share of the batch. All sizes are in elements."""

    name: str
    """Name of the operation, such as ``conv2d``."""
    parameters: int
    """Trained weights."""
    inputs: int
    """Elements read as activations."""
    outputs: int
    """Elements written as activations."""
    forward: Amount
    """Work of the forward pass."""
    input_grad: Amount
    """Work of the gradient with respect to the inputs."""
    weight_grad: Amount
    """Work of the gradient with respect to the parameters."""
    multiply_adds: int = 0
    """Multiply-adds of the forward pass on which its result depends, for matrix products; 0 for other operations.
    Published counts are sums of these."""
    masked: int = 0
    """Multiply-adds of the forward pass whose results a mask hides, whether they are computed or not. Some published
    counts of decoders include these, and some do not."""


def weightless(name: str, sizes: tuple[int, int, int], *, count: int, inputs: int, outputs: int) -> Op:
    """Multiplies two activations: both operands need a gradient, and each of the two costs the forward pass.

    ``sizes`` are m, k and n of one of ``count`` products. The gradient of one operand reads the output gradient and the
    other operand, and writes itself; the two together read the output gradient twice and touch every input element
    twice.
    """
    m, k, n = sizes
    multiply_adds, moved = count * m * k * n, inputs + outputs
    left, right = Product(m, n, k, moved, count), Product(k, m, n, moved, count)
    return Op(
        name,
        parameters=0,
        inputs=inputs,
        outputs=outputs,
        forward=Amount(2 * multiply_adds, moved, (Product(m, k, n, moved, count),)),
        input_grad=Amount(4 * multiply_adds, 2 * moved, (left, right)),
        weight_grad=NOTHING,
        multiply_adds=multiply_adds,
    )


def product(name: str, *, rows: int, reduced: int, columns: int, parameters: int, inputs: int, outputs: int) -> Op:
    """Multiplies activations with weights: ``rows`` x ``reduced`` times ``reduced`` x ``columns``.

    Forward reads inputs and weights and writes outputs. The input gradient reads the output gradient and the weights
    and writes as many elements as there are inputs; the weight gradient reads inputs and the output gradient and
    writes as many elements as there are weights. So all three move the same number of elements.
    """
    multiply_adds, moved = rows * reduced * columns, inputs + parameters + outputs

    def each(m: int, k: int, n: int) -> Amount:
        return Amount(2 * multiply_adds, moved, (Product(m, k, n, moved),))

    return Op(
        name,
        parameters,
        inputs,
        outputs,
        forward=each(rows, reduced, columns),
        input_grad=each(rows, columns, reduced),
        weight_grad=each(reduced, rows, columns),
        multiply_adds=multiply_adds,
    )
