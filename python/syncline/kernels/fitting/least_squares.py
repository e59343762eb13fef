"""Fits of positive constants: robust least squares on the logarithm of predicted over measured time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SCALE = 0.04
"""Errors beyond this part count linearly, not squared: libraries sometimes choose slow kernels."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant to fit, above zero."""

    name: str
    start: float
    """Where the fit begins, and what it stays near."""
    freedom: float = 1.0
    """Standard deviation of the logarithm around the start, before anything was measured."""
    most: float = float("inf")
    """What it cannot exceed."""


def fit(
    constants: Sequence[Constant], predict: Callable[[list[float]], Array], measured: Array, rounds: int = 30
) -> list[float]:
    """The constants with which predictions come closest to the measured times.

    :param predict: times with given constants, in the order of ``measured``.
    """
    import numpy as np
    from scipy.optimize import least_squares

    start = np.log([each.start for each in constants])
    freedom = np.array([each.freedom for each in constants])
    wanted = np.log(measured)

    def off(logs: Array) -> Array:
        return np.concatenate([np.log(predict(np.exp(logs).tolist())) - wanted, (logs - start) / freedom * SCALE])

    most = np.log([each.most for each in constants])
    found = least_squares(
        off,
        np.minimum(start, most - 0.05),
        bounds=(-np.inf, most),
        loss="soft_l1",
        f_scale=SCALE,
        max_nfev=rounds,
        diff_step=1e-3,
    )
    return [float(f"{value:.5g}") for value in np.exp(found.x)]
