"""Several jobs on one fabric, as a user writes them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from syncline.config.base import Strict, either, wrong
from syncline.config.collectives import JobCollectives
from syncline.config.compute import Compute
from syncline.config.faults import Index
from syncline.config.problem import shown
from syncline.config.quantity import Time
from syncline.config.workload import Workload

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

MAX_NPUS = 1 << 24
"""NPUs of a job that ranges name."""


def numbers(text: str) -> list[int]:
    """The numbers of ranges such as ``0-7, 16``, in order."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or len(found) + last - first >= MAX_NPUS:
            raise wrong("not ranges of NPUs", found=shown(text), help="write them like 0-7, 16, 24-31")
        found.extend(range(first, last + 1))
    return found


def _checked(text: str) -> str:
    if text != "linear":
        numbers(text)
    return text


Placement = Annotated[
    Literal["linear"] | Annotated[str, AfterValidator(_checked)] | list[Index],
    either("linear, ranges such as 0-7, 16, or a list of NPUs", "linear"),
]


class Job(Strict):
    """One of several jobs."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Its name, by which results tell it from the others. Names of its layers and groups begin with it."""
    workload: Workload
    """What it does."""
    compute: Compute | None = None
    """What turns its work into time; without it, the scenario's."""
    placement: Placement = "linear"
    """Which NPU each of its ranks runs on: `linear` is rank `i` on NPU `i` of all NPUs; ranges such as `0-7, 16`, or a
    list. Jobs may share NPUs."""
    start: Time = "0s"
    """When it begins."""
    collectives: JobCollectives = JobCollectives()
    """How its collectives are planned, key by key, where not as the scenario says. Endpoints schedule the sets of all
    jobs by the scenario's `collectives`."""
