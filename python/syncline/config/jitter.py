"""The schema of ``jitter``: random variation between ranks and tasks."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from syncline import _core
from syncline.config.built import Seed
from syncline.input.base import Strict, validation_error
from syncline.input.problem import shown
from syncline.input.units import Time

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) *%")
_MAX_VARIATION = 2.0


def _variation(value: Any) -> float:
    """Reads a fraction of the mean: a number, or a text such as ``2%``."""
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if percent:
        value = float(percent[1]) / 100
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value <= _MAX_VARIATION:
        raise validation_error(
            "value not allowed", found=shown(value), allowed="a fraction of the mean from 0 to 2, such as 2% or 0.02"
        )
    return float(value)


Variation = Annotated[
    float,
    BeforeValidator(_variation),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": _MAX_VARIATION},
                {"type": "string", "pattern": r"^\s*[0-9]{1,3}(\.[0-9]{1,9})? *%\s*$", "examples": ["2%"]},
            ]
        }
    ),
]
"""A coefficient of variation: ``2%`` or ``0.02``."""


class Jitter(Strict):
    """Random variation between ranks and tasks, drawn by a seed. With it, every rank and iteration is simulated."""

    start: Time = "0s"
    """Start skew: each rank begins late by a time drawn uniformly between 0 and this one, once a run."""
    compute: Variation = 0.0
    """Compute noise: coefficient of variation (standard deviation over mean) of the time of each compute task, such as
    `2%` or `0.02`. Times are multiplied by a factor drawn from a lognormal distribution of mean 1, for each rank,
    iteration and task."""
    seed: Seed | None = None
    """Seed of start skew and compute noise. Without it, the scenario's `seed`."""

    @model_validator(mode="after")
    def _seed_has_effect(self) -> Jitter:
        if self.seed is not None and not self.compute and not _core.parse_quantity("time", self.start):
            raise validation_error(
                "`seed` has no effect without `start` or `compute`", help="leave `seed` out, or add one of them"
            )
        return self
