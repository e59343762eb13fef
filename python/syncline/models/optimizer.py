"""What a parameter update computes and moves, by optimiser.

All operations are on each parameter by itself, so one count holds for all of a layer's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.models.data_types import bytes_of

if TYPE_CHECKING:
    from syncline.models.types import Types


@dataclass(frozen=True)
class Optimizer:
    """An optimiser; all amounts are for one parameter."""

    name: str
    """As scenarios name it."""
    flop: int
    """Operations of an update."""
    moments: int
    """States that it keeps, besides a copy of the parameter."""
    updates: bool = True
    """Whether it updates anything."""

    def moved(self, types: Types) -> int:
        """Bytes that an update moves.

        Reads the gradient; reads and writes its states and the parameter. Where it has states, and these have a longer
        type than parameters, it reads and writes a copy in that type, and writes the parameter (Micikevicius et al.
        2018).
        """
        if not self.updates:
            return 0
        state, parameter = bytes_of(types.optimizer), bytes_of(types.parameters)
        copy = types.master if self.moments else 0
        updated = 2 * copy + parameter if copy else 2 * parameter
        return bytes_of(types.gradients) + 2 * self.moments * state + updated


SGD = Optimizer("sgd", flop=2, moments=0)
"""``w = w - rate * g``, without momentum: keeps no state, and updates parameters in their own type."""

ADAM = Optimizer("adam", flop=14, moments=2)
"""Kingma and Ba 2015, Algorithm 1. FLOP: first moment 3, second 4, corrections 2, root, sum and quotient 3, step 2.

With fp32 and with fp16 28 bytes, with bf16, whose gradients are in fp32, 30."""

NONE = Optimizer("none", flop=0, moments=0, updates=False)
"""No time and no state: as if parameters were never updated."""

OPTIMIZERS = {each.name: each for each in (SGD, ADAM, NONE)}
"""By name."""
