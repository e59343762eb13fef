"""What a parameter update computes and moves, by optimiser.

All operations are on each parameter by itself, so one count holds for all of a layer's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.models.data_types import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Optimizer:
    """An optimiser; all amounts are for one parameter."""

    name: str
    """As scenarios name it."""
    flop: int
    """Operations of an update."""
    moved: Callable[[str], int]
    """Bytes that an update moves, by data type."""


def _adam(data_type: str) -> int:
    size = bytes_of(data_type)
    # Where parameters have fewer than 4 bytes, a copy in fp32 is what is updated (Micikevicius et al. 2018).
    state, copy = max(size, 4), size if size < 4 else 0
    # Reads the gradient; reads and writes two moments and the parameter; writes what the copy becomes.
    return size + 3 * 2 * state + copy


SGD = Optimizer("sgd", flop=2, moved=lambda data_type: 3 * bytes_of(data_type))
"""``w = w - rate * g``: reads both, writes one. It keeps no state and updates parameters in their own type."""

ADAM = Optimizer("adam", flop=14, moved=_adam)
"""Kingma and Ba 2015, Algorithm 1. FLOP: first moment 3, second 4, corrections 2, root, sum and quotient 3, step 2.

In mixed precision (fp16, bf16): 28 bytes, of which 24 are two moments and a copy of the parameter in fp32."""

NONE = Optimizer("none", flop=0, moved=lambda _: 0)
"""No time and no state: as if parameters were never updated."""

OPTIMIZERS = {each.name: each for each in (SGD, ADAM, NONE)}
"""By name."""
