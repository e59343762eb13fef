"""Fits constants of software to measured steps by least squares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from syncline.validation.calibration import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from syncline import _core
    from syncline.estimate.software import Software

TOLERANCE = 0.05
"""Relative error beyond which an error counts linearly instead of by its square (soft L1)."""
SPREAD = 0.15
"""Standard deviation of constants that stay near their first values, as a difference of logarithms."""
PACES = ("layer_cpu_s", "expert_cpu_s")
"""Constants without effect where kernels take longer than their launches."""
CPU_STARTS = (1e-3, 4e-3, 9e-3)
"""Values of :data:`PACES` at which searches begin, in seconds."""


def fit(
    start: Software,
    names: Sequence[str],
    jobs: Sequence[tuple[_core.Estimator, float]],
    near: Collection[str] = (),
) -> Software:
    """The constants that minimise the soft-L1 loss of log(predicted / measured) over all jobs.

    :param start: constants before the fit.
    :param names: the constants that are fitted, each within :data:`~syncline.validation.calibration.BOUNDS`; others
        keep their values in ``start``.
    :param jobs: pairs of a job's estimator and the measured seconds of its step.
    :param near: those of ``names`` that count as if a row had measured their value in ``start``, with a standard
        deviation of :data:`SPREAD`.
    :raises SynclineError: the package `scipy` is not installed.
    """
    optimize = _scipy()
    measured = [math.log(seconds) for _, seconds in jobs]

    def constants(values: Iterable[float]) -> Software:
        return start.model_copy(update=dict(zip(names, map(float, values), strict=True)))

    def residuals(values: Iterable[float]) -> list[float]:
        found = constants(values)
        text = found.model_dump_json()
        rows = [math.log(job.seconds(text)) - log for (job, _), log in zip(jobs, measured, strict=True)]
        return rows + [weight * math.log(max(getattr(found, name), 1e-6) / getattr(start, name)) for name in kept]

    kept, weight = [name for name in names if name in near], TOLERANCE / SPREAD
    lows, highs = zip(*(BOUNDS[name] for name in names), strict=True)

    def search(values: Any) -> Any:
        # Kernels' times are step functions: wide finite differences smooth them; narrow ones then find the minimum.
        for step in (0.02, 1e-4):
            answer = optimize.least_squares(
                residuals,
                values,
                bounds=(lows, highs),
                x_scale="jac",
                loss="soft_l1",
                f_scale=TOLERANCE,
                diff_step=step,
                max_nfev=60,
            )
            values = answer.x
        return answer

    def within(values: Iterable[float]) -> list[float]:
        return [min(max(value, low), high) for value, low, high in zip(values, lows, highs, strict=True)]

    # Below some value, a pace has no effect, and so no gradient: searches begin at several values.
    launched = [name for name in PACES if name in names]
    paces = CPU_STARTS if launched else (0.0,)
    starts = (start.model_copy(update=dict.fromkeys(launched, pace)) for pace in paces)
    answers = [search(within(getattr(each, name) for name in names)) for each in starts]
    best = min(answers, key=lambda answer: float(answer.cost))
    return constants(round(float(f"{value:.4g}"), 6) for value in best.x)


def _scipy() -> Any:
    from syncline.kernels.fitting.packages import require

    require()
    from scipy import optimize

    return optimize
