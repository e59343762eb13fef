"""Compares predictions with measurements, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.errors import SynclineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.clusters.known import Cluster
    from syncline.models.architecture import Architecture
    from syncline.validation.checks import Row
    from syncline.validation.prediction import Predict, Prediction
    from syncline.validation.runs import Run


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run and its prediction."""

    run: Run
    model: Architecture
    cluster: Cluster
    prediction: Prediction | None
    """None if the run is refused."""
    refused: str = ""
    """Why the predictor refuses the run."""

    @property
    def error(self) -> float | None:
        """``predicted / measured - 1`` of the step; None if one of them is missing."""
        if self.prediction is None or self.run.step_s is None:
            return None
        return self.prediction.step_s / self.run.step_s - 1

    @property
    def memory_error(self) -> float | None:
        """``predicted / measured - 1`` of the memory; None if one of them is missing."""
        if self.prediction is None or self.prediction.memory_bytes is None or self.run.memory_bytes is None:
            return None
        return self.prediction.memory_bytes / self.run.memory_bytes - 1

    @property
    def fits(self) -> bool | None:
        """Whether the run is predicted to fit into memory; None if that is not predicted."""
        if self.prediction is None:
            return None
        if self.prediction.fits is not None:
            return self.prediction.fits
        room = self.cluster.memory_bytes
        if self.prediction.memory_bytes is None or room is None:
            return None
        return self.prediction.memory_bytes <= room

    @property
    def ran(self) -> bool | None:
        """Whether the run fitted, as one whose step was measured did; None if the source does not say.

        A run that failed counts as one that did not fit.
        """
        if self.run.fits is None:
            return None if self.run.step_s is None else True
        return self.run.fits == "yes"


def compare(rows: Iterable[Row], predict: Predict) -> list[Outcome]:
    """Predicts all rows. A row that the predictor refuses keeps the reason."""
    return [_outcome(row, predict) for row in rows]


def _outcome(row: Row, predict: Predict) -> Outcome:
    try:
        return Outcome(row.run, row.model, row.cluster, predict(row.run, row.model, row.cluster))
    except SynclineError as problem:
        said = [each["message"] for each in problem.diagnostics]
        return Outcome(row.run, row.model, row.cluster, None, "; ".join(said) or str(problem))


@dataclass(frozen=True, slots=True)
class Spread:
    """Absolute errors of some rows, as fractions: 0.03 is 3 %."""

    rows: int
    median: float
    mean: float
    p90: float
    """90th percentile, interpolated between rows."""
    largest: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Spread | None:
        """The spread of signed errors; None without rows."""
        if not errors:
            return None
        sizes = sorted(abs(each) for each in errors)
        return cls(len(sizes), quantile(sizes, 0.5), sum(sizes) / len(sizes), quantile(sizes, 0.9), sizes[-1])


def quantile(ordered: Sequence[float], part: float) -> float:
    """A quantile of ordered values, interpolated between the two next to it."""
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True, slots=True)
class Fits:
    """How often it was predicted right whether runs fit into memory."""

    ran_and_fits: int
    """Ran, and was predicted to fit."""
    ran_but_does_not: int
    """Ran, and was predicted not to fit."""
    failed_but_fits: int
    """Failed, and was predicted to fit."""
    failed_and_does_not: int
    """Failed, and was predicted not to fit."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Fits | None:
        """Counts the outcomes whose fit is both measured and predicted; None if there are none."""
        counts = {(ran, fits): 0 for ran in (True, False) for fits in (True, False)}
        for each in outcomes:
            if each.ran is not None and each.fits is not None:
                counts[each.ran, each.fits] += 1
        if not sum(counts.values()):
            return None
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def rows(self) -> int:
        """All counted rows."""
        return self.right + self.wrong

    @property
    def right(self) -> int:
        """Rows that were predicted right."""
        return self.ran_and_fits + self.failed_and_does_not

    @property
    def wrong(self) -> int:
        """Rows that were predicted wrong."""
        return self.ran_but_does_not + self.failed_but_fits

    @property
    def accuracy(self) -> float:
        """Fraction that was predicted right."""
        return self.right / self.rows
