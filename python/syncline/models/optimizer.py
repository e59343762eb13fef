"""The operations and memory traffic of a parameter update, by optimizer.

Optimisers update each parameter independently, so amounts are per parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.models.data_types import bytes_of

if TYPE_CHECKING:
    from syncline.models.types import Types


@dataclass(frozen=True)
class Optimizer:
    """An optimizer; all amounts are for one parameter."""

    name: str
    """Its name in scenarios."""
    flop: int
    """Operations of an update."""
    moments: int
    """Number of states that it keeps, not counting a copy of the parameter."""
    updates: bool = True
    """Whether it updates anything."""

    def moved(self, types: Types) -> int:
        """Bytes that an update moves.

        An update reads the gradient, and reads and writes the states and the parameter. If states have a longer type
        than parameters, it reads and writes a copy of the parameter in that type, and only writes the parameter
        (Micikevicius et al. 2018).
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

An update moves 28 bytes with fp32 and fp16; 30 with bf16, whose gradients are in fp32."""

NONE = Optimizer("none", flop=0, moments=0, updates=False)
"""No time and no state: parameters are never updated."""

OPTIMIZERS = {each.name: each for each in (SGD, ADAM, NONE)}
"""Optimisers by name."""
