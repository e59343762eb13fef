"""What the backend can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.runtime.settings import RULES, Pace, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Options:
    """What a group is told with ``init_process_group("syncline", pg_options=Options(...))``.

    ``order`` has the job's ranks in the order in which plans count them: those of a rack together, and a ring crosses
    between racks twice. ``rules`` say which plan runs which collective. With ``in_order`` results are the same bit for
    bit in every run. ``interfaces``, ``congestion`` and ``pace`` are those of ``Communicator.join``; the deadline of
    operations is the group's time-out.

    Groups that are made without options (``new_group``) have those of the first, but for its rules.
    """

    order: Sequence[int] | None = None
    rules: Sequence[Rule] = RULES
    in_order: bool = False
    interfaces: Sequence[str] | None = None
    congestion: str | None = None
    pace: Pace | None = None
