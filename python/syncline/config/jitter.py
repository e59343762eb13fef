"""What varies between ranks and tasks, as a user writes it."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from syncline import _core
from syncline.config.base import Strict, wrong
from syncline.config.built import Seed
from syncline.config.problem import shown
from syncline.config.quantity import Time

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) *%")
_MOST = 2.0


def _variation(value: Any) -> float:
    """A part of the mean: a number, or a text such as ``2%``."""
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if percent:
        value = float(percent[1]) / 100
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value <= _MOST:
        raise wrong(
            "value not allowed", found=shown(value), allowed="a part of the mean, such as 2% or 0.02: 0 to 2, or 200%"
        )
    return float(value)


Variation = Annotated[
    float,
    BeforeValidator(_variation),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": _MOST},
                {"type": "string", "pattern": r"^\s*[0-9]{1,3}(\.[0-9]{1,9})? *%\s*$", "examples": ["2%"]},
            ]
        }
    ),
]
"""A coefficient of variation: ``2%`` or ``0.02``."""


class Jitter(Strict):
    """What varies between ranks and tasks, drawn by a seed. Every rank and iteration is simulated then."""

    start: Time = "0s"
    """Start skew: each rank begins late by a time that is drawn evenly from 0 to this one, once a run."""
    compute: Variation = 0.0
    """Compute noise: coefficient of variation (standard deviation over mean) of the time of each compute task, such as
    `2%` or `0.02`. Times are multiplied by a factor drawn from a lognormal distribution of mean 1, for each rank,
    iteration and task."""
    seed: Seed | None = None
    """What these are drawn by. Without it, the scenario's `seed`."""

    @model_validator(mode="after")
    def _seed_has_meaning(self) -> Jitter:
        if self.seed is not None and not self.compute and not _core.parse_quantity("time", self.start):
            raise wrong(
                "`seed` has no meaning where nothing varies", help="leave `seed` out, or add `start` or `compute`"
            )
        return self
