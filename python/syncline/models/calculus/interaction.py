"""The interaction of features in a recommendation model (Naumov et al. 2019, 2.2)."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op, weightless


def concatenate(samples: int, vectors: int, width: int) -> Op:
    """Concatenates the ``vectors`` of each sample; nothing is computed, forward or backward."""
    elements = samples * vectors * width
    each = Amount(0, 2 * elements)
    return Op("concatenate", 0, elements, elements, forward=each, input_grad=each, weight_grad=NOTHING)


def dots(samples: int, vectors: int, width: int) -> Op:
    """Computes the dot product of each pair of the ``vectors`` of a sample; the output also has the first vector.

    This is the product of the matrix of vectors with its transpose, of which one half is kept, without the diagonal.
    """
    return weightless(
        "dots",
        (vectors, width, vectors),
        count=samples,
        inputs=samples * vectors * width,
        outputs=samples * (vectors * (vectors - 1) // 2 + width),
    )
