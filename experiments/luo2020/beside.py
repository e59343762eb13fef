"""What was predicted beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.luo2020.exchange import FACTOR, LARGE, NEAR
from syncline.report.quantity import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.harness.runner import Runner
    from experiments.harness.testbed import Measured
    from experiments.luo2020.exchange import Exchange

COLUMNS = ("predicted_s", "measured_s", "least_s", "error_off", "others")
"""Median and least of what was measured; by how much the prediction differs from the median; cores that others
kept busy just before."""
CALIBRATED = "host costs, between two hosts (host-costs.yaml)"


@dataclass(frozen=True)
class Pair:
    """An exchange, predicted and measured."""

    what: str
    """As verdicts name it."""
    exchange: Exchange
    predicted_s: float
    measured: Measured | str

    @property
    def error(self) -> float | None:
        """Part of the measured median by which the prediction is longer."""
        return None if isinstance(self.measured, str) else self.predicted_s / self.measured.median_s - 1

    @property
    def best_s(self) -> float:
        """What verdicts are about: the median that was measured, or what was predicted where nothing was."""
        return self.predicted_s if isinstance(self.measured, str) else self.measured.median_s

    @property
    def near(self) -> bool:
        """Whether the prediction is as near as is asked for."""
        if isinstance(self.measured, str):
            return False
        ratio = self.predicted_s / self.measured.median_s
        large = self.exchange.nbytes >= LARGE
        return abs(ratio - 1) <= NEAR if large else 1 / FACTOR <= ratio <= FACTOR

    def cells(self) -> tuple[float | str | None, ...]:
        """:data:`COLUMNS`."""
        if isinstance(self.measured, str):
            return self.predicted_s, self.measured, None, None, None
        return self.predicted_s, self.measured.median_s, self.measured.least_s, self.error, self.measured.others


def pair(runner: Runner, what: str, exchange: Exchange) -> Pair:
    """An exchange, predicted and measured."""
    return Pair(what, exchange, exchange.predicted(runner), exchange.measured(runner))


def source(pairs: Iterable[Pair]) -> str:
    """Whether numbers of a verdict were measured, or why not all."""
    missing = sorted({each.measured for each in pairs if isinstance(each.measured, str)})
    return f" (predicted: {', '.join(missing)})" if missing else ""


def claim(figure: str) -> Claim:
    """What the project asks of predictions."""
    return Claim(
        f"luo-{figure}-predicted",
        "Prediction",
        f"the simulator is within {NEAR:.0%} of what the testbed measures from 1 MB on, and within a factor of "
        f"{FACTOR:g} below.",
    )


def judged(asked: Claim, pairs: Sequence[Pair], why: str) -> Verdict:
    """Whether all predictions are near, and which are not."""
    found = [each for each in pairs if not isinstance(each.measured, str)]
    if not found:
        return asked.judged(
            holds=False, measured=f"0 of {len(pairs)} measured{source(pairs)}", why="Nothing was measured."
        )
    far = [each for each in found if not each.near]
    worst = max(found, key=lambda each: abs(each.error or 0.0))
    said = f"{len(found) - len(far)} of {len(found)} within; at most {_error(worst)}"
    if far:
        said += "; beyond: " + ", ".join(_error(each) for each in far[:6]) + (", ..." if len(far) > 6 else "")
    return asked.judged(not far, said, why)


def _error(each: Pair) -> str:
    return f"{100 * (each.error or 0.0):+.0f} % ({each.what}, {size(each.exchange.nbytes)})"
