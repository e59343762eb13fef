"""Where and how often a hub saves its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syncline.input.problem import bad_value


@dataclass(frozen=True)
class Saves:
    """Where and how often a hub saves its jobs."""

    folder: str | Path
    """The folder, on a disk of the hub's host. Only one hub may use it. A hub that is started again with it continues
    the jobs there."""
    every_s: float | None = 60.0
    """Seconds from one save of a job to the next; with ``None`` a hub saves only when asked, and when it drains."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings as data for the core. Raises ``SynclineError`` if the interval is invalid."""
        if self.every_s is not None and not 0 < self.every_s < float("inf"):
            raise bad_value("not a valid interval between saves", f"every_s={self.every_s}", allowed="more than 0")
        return {"folder": str(Path(self.folder).absolute()), "every_s": self.every_s}
