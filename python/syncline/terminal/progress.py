"""Shows a command's progress: on a terminal, once the command has taken two seconds."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.status import Status

PATIENCE_S = 2.0
"""Time before progress is first shown."""


class _Line:
    """One line on stderr that is kept up to date."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = sys.stderr.isatty() and not quiet and not os.environ.get("CI")
        self._start = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    @property
    def _due(self) -> float | None:
        """Seconds since the start; None while no progress should be shown."""
        elapsed = time.monotonic() - self._start
        return elapsed if self._shown and elapsed >= PATIENCE_S else None

    def _show(self, text: str) -> None:
        if self._status is None:
            from syncline.terminal.streams import console

            self._status = console(error=True).status(text)
            self._status.start()
        else:
            self._status.update(text)


class Progress(_Line):
    """A callback of the simulation."""

    def __call__(self, simulated_s: float, events: int, messages: int, done: float) -> None:
        """Shows the state of the run."""
        if (elapsed := self._due) is not None:
            self._show(line(elapsed, simulated_s, events, done))


class Waiting(_Line):
    """A callback of work in parts."""

    def __call__(self, done: float, part: str) -> None:
        """Shows the fraction done, the time left, and the part that is next."""
        if (elapsed := self._due) is not None:
            from syncline.quantity import percent

            self._show(", ".join([f"{percent(done)} done", *left(elapsed, done), part]))


def line(elapsed_s: float, simulated_s: float, events: int, done: float) -> str:
    """A simulation's progress, such as ``37 % done, 12.4 ms simulated, 310 k events/s, 5 s left``."""
    from syncline.quantity import percent, scaled
    from syncline.quantity import time as shown

    parts = [f"{percent(done)} done", f"{shown(simulated_s)} simulated"]
    if elapsed_s > 0:
        parts.append(f"{scaled(events / elapsed_s, 'events/s')}")
    return ", ".join([*parts, *left(elapsed_s, done)])


def left(elapsed_s: float, done: float) -> list[str]:
    """The time left, such as ``2 min 5 s left``; empty while nothing is done."""
    from syncline.quantity import duration

    return [f"{duration(elapsed_s * (1 - done) / done)} left"] if done > 0 else []
