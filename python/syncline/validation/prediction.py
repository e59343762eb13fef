"""What a predictor says about a run, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from syncline.clusters.known import Cluster
from syncline.models.architecture import Architecture
from syncline.validation.runs import Run


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted step."""

    step_s: float
    """Seconds a step."""
    memory_bytes: float | None = None
    """Peak memory of the fullest accelerator; None: not predicted."""
    fits: bool | None = None
    """Whether the run fits into memory. None: it does if ``memory_bytes`` is at most the accelerator's memory."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Seconds by part of the step, for people."""


Predict: TypeAlias = Callable[[Run, Architecture, Cluster], Prediction]
"""Predicts a run. It raises :class:`~syncline.errors.SynclineError` for a run that it does not model."""

Calibrate: TypeAlias = Callable[[str, Sequence[Run]], Predict]
"""Fits a set of constants, given its name and its rows, and returns the predictor with them."""


def leave_one_model_out(runs: Sequence[Run], constants: str, calibrate: Calibrate) -> Predict:
    """A predictor that has never seen the model of the run that it predicts.

    For each model, ``calibrate`` fits the set ``constants`` to the rows that name it in ``calibrates``, without those
    of the model. Each model is fitted once.
    """
    rows = [run for run in runs if constants in (run.calibrates or "").split()]
    made: dict[str, Predict] = {}

    def predict(run: Run, model: Architecture, cluster: Cluster) -> Prediction:
        if run.model not in made:
            made[run.model] = calibrate(constants, [each for each in rows if each.model != run.model])
        return made[run.model](run, model, cluster)

    return predict
