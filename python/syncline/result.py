"""The result of a simulation: a finished run that can be plotted, printed and saved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from syncline.run import Folder, Run, Tables

if TYPE_CHECKING:
    from syncline import _core
    from syncline.report.html.plot import Plot


class Result(Run):
    """The result of a simulation."""

    def __init__(self, tables: Tables, scenario: dict[str, Any] | None = None, folder: Path | None = None) -> None:
        super().__init__(tables, scenario, folder)
        self._start = _here() if scenario else None

    def plot(self, what: str) -> Plot:
        """A chart of the report, which notebooks display.

        ``layers``, ``pipeline``, ``timeline``, ``communication``, ``collectives``, ``phases``, ``dimensions``,
        ``activity``, ``losses``, ``queues``, ``round_trips``, ``fabric``, ``cost``, ``critical_path``. Raises
        ``ValueError`` for any other name, and for a chart without data in this run.
        """
        from syncline.report.html.plot import plot

        return plot(self, what)

    def save(self, folder: str | Path) -> list[str]:
        """Writes the results into a folder, atomically; returns the names of its files.

        Replaces results that are already in the folder. Raises an error if it holds anything else.
        """
        path = Path(folder)
        if isinstance(self._tables, Folder):
            shutil.copytree(self._tables.folder, path)
            return sorted(each.name for each in path.iterdir())
        from syncline.config.files import moved
        from syncline.input.dump import dump

        run, scenario = cast("_core.Run", self._tables), self.scenario or {}
        extra = []
        if scenario.get("report", True):
            from syncline.report.html import page

            extra.append((page.FILE, page.report(self)))
        if self._start is not None:
            scenario = moved(scenario, self._start, path)
        files = run.write(path, dump(scenario), int(scenario.get("seed", 0)), extra=extra)
        self.folder = path
        return [name for name, _ in files]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the folder of the results, not the results."""
        if self.folder is None:
            raise TypeError("a result that is not on disk cannot be copied or pickled: save it into a folder first")
        return Result.load, (self.folder.absolute(),), {"scenario": self.scenario, "_start": self._start}

    def __repr__(self) -> str:
        answer = self.summary
        step = "per step" if answer.iterations else "so far"
        return (
            f"<Result: {answer.step_time_s:.6g} s {step}, {answer.exposed_fraction:.1%} exposed, "
            f"bound by {answer.bottleneck}, network {answer.network_model}>"
        )

    def __str__(self) -> str:
        from syncline.report.terminal.answer import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from syncline.report.html.plot import overview

        return overview(self)


def _here() -> Path | None:
    """The current directory; None if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
