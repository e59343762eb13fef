"""Compares predictions with measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.luo2020.exchange import FACTOR, LARGE, NEAR
from syncline.quantity import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.harness.runner import Runner
    from experiments.harness.testbed import Measurement
    from experiments.luo2020.exchange import Exchange

COLUMNS = ("predicted_s", "measured_s", "least_s", "error_off", "others")
"""Predicted time; median and minimum of the measured times; error of the prediction relative to the median; cores that
other processes kept busy just before a round."""
CALIBRATED = "host costs, between two hosts (host-costs.yaml)"


@dataclass(frozen=True)
class Pair:
    """An exchange with its predicted and its measured time."""

    what: str
    """Name of the exchange in verdicts."""
    exchange: Exchange
    predicted_s: float
    measured: Measurement | str

    @property
    def error(self) -> float | None:
        """Relative error: prediction over measured median, minus one; ``None`` if not measured."""
        return None if isinstance(self.measured, str) else self.predicted_s / self.measured.median_s - 1

    @property
    def best_s(self) -> float:
        """The time that decides verdicts: the measured median, or the prediction if there is no measurement."""
        return self.predicted_s if isinstance(self.measured, str) else self.measured.median_s

    @property
    def near(self) -> bool:
        """Whether the prediction is as close as required."""
        if isinstance(self.measured, str):
            return False
        ratio = self.predicted_s / self.measured.median_s
        large = self.exchange.nbytes >= LARGE
        return abs(ratio - 1) <= NEAR if large else 1 / FACTOR <= ratio <= FACTOR

    def cells(self) -> tuple[float | str | None, ...]:
        """The values of :data:`COLUMNS`."""
        if isinstance(self.measured, str):
            return self.predicted_s, self.measured, None, None, None
        return self.predicted_s, self.measured.median_s, self.measured.least_s, self.error, self.measured.others


def pair(runner: Runner, what: str, exchange: Exchange) -> Pair:
    """Predicts and measures an exchange."""
    return Pair(what, exchange, exchange.predicted(runner), exchange.measured(runner))


def source(pairs: Iterable[Pair]) -> str:
    """A suffix that says that numbers are predicted, and why they were not measured; empty if all were."""
    missing = sorted({each.measured for each in pairs if isinstance(each.measured, str)})
    return f" (predicted: {', '.join(missing)})" if missing else ""


def claim(figure: str) -> Claim:
    """The accuracy that the project requires of its predictions."""
    return Claim(
        f"luo-{figure}-predicted",
        "Prediction",
        f"the simulator is within {NEAR:.0%} of what the testbed measures from 1 MB on, and within a factor of "
        f"{FACTOR:g} below.",
    )


def judged(asked: Claim, pairs: Sequence[Pair], why: str) -> Verdict:
    """Whether all predictions are as close as required, and which are not."""
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
