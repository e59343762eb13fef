"""Gaussian-process regression with the exponential kernel, and errors of predictions.

The exponential kernel suits measured kernels: their times are continuous in a shape's features, but not smooth, because
libraries switch between kernels. Distances add up over the features (city block), so that a feature that says nothing
about a shape does not hide those that do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NOISE = 0.04
"""Variance of what no shape explains, over the variance of what shapes explain."""
_ROWS_AT_ONCE = 2000


class Regression:
    """The mean of a Gaussian process of mean zero, given values at points."""

    def __init__(self, points: Array, values: Array, noise: float = NOISE) -> None:
        import numpy as np
        from scipy.linalg import cho_factor, cho_solve

        covariance = _kernel(points, points)
        covariance[np.diag_indices_from(covariance)] += noise
        self._points = points
        factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        self._weights: Array = cho_solve(factor, values, check_finite=False)

    def __call__(self, points: Array) -> Array:
        """The mean at other points."""
        import numpy as np

        parts = range(0, len(points), _ROWS_AT_ONCE)
        means = [_kernel(points[at : at + _ROWS_AT_ONCE], self._points) @ self._weights for at in parts]
        return np.concatenate(means) if means else np.zeros(0)


def _kernel(left: Array, right: Array) -> Array:
    import numpy as np
    from scipy.spatial.distance import cdist

    distances: Array = cdist(left, right, "cityblock")
    return np.exp(np.negative(distances, out=distances), out=distances)


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors ``|predicted / measured - 1|`` of predictions, in percent."""

    rows: int
    mean: float
    median: float
    p90: float
    largest: float

    @classmethod
    def of(cls, predicted: Any, measured: Any) -> Errors:
        """The errors of predictions, which are as many as the measurements."""
        import numpy as np

        off = 100 * np.abs(np.asarray(predicted) / np.asarray(measured) - 1)
        return cls(len(off), float(off.mean()), float(np.median(off)), float(np.percentile(off, 90)), float(off.max()))

    def as_dict(self) -> dict[str, float]:
        """The errors for a file."""
        numbers = {"mean": self.mean, "median": self.median, "p90": self.p90, "largest": self.largest}
        return {"rows": self.rows, **{f"{name}_percent": round(number, 2) for name, number in numbers.items()}}
