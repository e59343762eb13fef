"""The schema of ``jobs``: several jobs on one fabric."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from syncline.config.collectives import JobCollectives
from syncline.config.compute import Compute
from syncline.config.faults import Index
from syncline.config.workload import Workload
from syncline.input.base import Strict, either, validation_error
from syncline.input.problem import shown
from syncline.input.units import Time

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

MAX_NPUS = 1 << 24
"""Maximum number of NPUs of a job whose placement is given by ranges."""


def numbers(text: str) -> list[int]:
    """The numbers of ranges such as ``0-7, 16``, in order."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or len(found) + last - first >= MAX_NPUS:
            raise validation_error("not valid ranges of NPUs", found=shown(text), help="write them like 0-7, 16, 24-31")
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
    """Name of the job in the results. Names of its layers and groups begin with it."""
    workload: Workload
    """The job's work."""
    compute: Compute | None = None
    """The job's compute model. Without it, the scenario's."""
    placement: Placement = "linear"
    """Which NPU each of its ranks runs on: `linear` is rank `i` on NPU `i` of all NPUs; or ranges such as `0-7, 16`; or
    a list. Jobs may share NPUs."""
    start: Time = "0s"
    """When the job begins."""
    collectives: JobCollectives = JobCollectives()
    """How the job's collectives are planned: each key replaces that of the scenario's `collectives`, whose other keys
    schedule the collectives of all jobs."""
