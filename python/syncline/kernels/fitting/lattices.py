"""Corrections on a lattice, in the form of a file: one character for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

LARGEST = 45
"""Largest number of a character; the smallest is its negative."""
DOUBLE = 30
"""Number at which a value is twice as many steps."""
_ALPHABET = "".join(chr(code) for code in range(ord("#"), ord("~") + 1) if chr(code) != "\\")
"""The characters in the order of their values. ``crates/kernels/src/lattice.rs`` reads them."""


def axis(sizes: NDArray[np.int64], closest: float, most: int) -> list[int]:
    """Points of an axis: sizes whose neighbours are a ratio of ``closest`` apart or more, at most ``most`` of them."""
    import numpy as np

    while True:
        points: list[int] = []
        for size in np.unique(sizes).tolist():
            if not points or size >= points[-1] * closest:
                points.append(size)
        if len(points) <= most:
            return points
        closest *= 1.1


def encode(axes: Sequence[Sequence[int]], values: NDArray[np.float64]) -> dict[str, Any]:
    """A lattice as a file holds it. ``values`` has a dimension for each axis.

    The step is as fine as all but the largest thousandth of the values allow; these are cut off.
    """
    import numpy as np

    largest = float(np.quantile(np.abs(values), 0.999))
    step = round(min(0.1, max(0.0005, largest / (LARGEST * (1 + LARGEST / DOUBLE)))), 5)
    # The number whose value is this: the root of step * number * (1 + number / DOUBLE).
    sizes = DOUBLE / 2 * (np.sqrt(1 + 4 / DOUBLE * np.abs(values) / step) - 1)
    steps = np.clip(np.rint(np.sign(values) * sizes), -LARGEST, LARGEST).astype(int) + LARGEST
    lines = steps.reshape(len(axes[0]), -1)
    rows = ["".join(_ALPHABET[each] for each in line) for line in lines]
    return {"axes": [[int(point) for point in axis] for axis in axes], "step": step, "rows": rows}
