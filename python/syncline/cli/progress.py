"""How far a simulation is: on a terminal, once it has taken two seconds."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from rich.status import Status

PATIENCE_S = 2.0
"""Nothing is shown before."""


class Progress:
    """A callback of the simulation that keeps one line on stderr up to date."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = sys.stderr.isatty() and not quiet and not os.environ.get("CI")
        self._start = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, simulated_s: float, events: int, messages: int, done: float) -> None:
        """Shows the state of the run."""
        elapsed = time.monotonic() - self._start
        if not self._shown or elapsed < PATIENCE_S:
            return
        text = line(elapsed, simulated_s, events, done)
        if self._status is None:
            from syncline.cli.streams import console

            self._status = console(error=True).status(text)
            self._status.start()
        else:
            self._status.update(text)


def line(elapsed_s: float, simulated_s: float, events: int, done: float) -> str:
    """``37 % done, 12.4 ms simulated, 310 k events/s, 5 s left``."""
    from syncline.report.quantity import percent, scaled
    from syncline.report.quantity import time as shown

    parts = [f"{percent(done)} done", f"{shown(simulated_s)} simulated"]
    if elapsed_s > 0:
        parts.append(f"{scaled(events / elapsed_s, 'events/s')}")
    if done > 0:
        left = round(elapsed_s * (1 - done) / done)
        minutes, seconds = divmod(left, 60)
        parts.append(f"{minutes} min {seconds} s left" if minutes else f"{seconds} s left")
    return ", ".join(parts)
