"""What commands such as ``syncline doctor`` find out about a machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class State(StrEnum):
    """How well something works."""

    OK = "ok"
    """It works."""
    ABSENT = "absent"
    """It is optional, and missing."""
    POOR = "poor"
    """It works, but badly or not for long."""
    BROKEN = "broken"
    """It does not work, and is needed."""


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    state: State
    what: str
    """What was checked."""
    detail: str
    """What was found."""

    def as_dict(self) -> dict[str, str]:
        """Returns the finding as plain data."""
        return asdict(self)
