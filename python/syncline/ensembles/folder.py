"""The folder of an ensemble: a folder for each run, a summary, and the table of runs."""

from __future__ import annotations

import csv
import io
import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.problem import cannot_write, error, raise_errors

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

SUMMARY_FILE, TABLE_FILE = "ensemble.json", "seeds.csv"
"""Files of an ensemble's folder beside the runs."""


class Folder:
    """The folder of an ensemble while it is written. If its block fails, all files of the new ensemble are removed.

    Removes the runs of an earlier ensemble first. Raises :class:`SynclineError` if the folder holds anything else, or
    cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._new = not path.exists()
        if not self._new and any(path.iterdir()) and not (path / SUMMARY_FILE).is_file():
            raise_errors(
                error(
                    Code.CANNOT_WRITE,
                    f"the folder {path.as_posix()} holds files that no run of several seeds wrote",
                    help="choose another folder, or remove this one",
                )
            )
        earlier = path / SUMMARY_FILE
        if earlier.is_file():
            self._remove(json.loads(earlier.read_text("utf-8"))["seeds"])
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise_errors(cannot_write(self.path, problem))
        self._seeds: list[int] = []

    def of_seed(self, seed: int) -> Path:
        """The folder for the run of a seed."""
        self._seeds.append(seed)
        return self.path / f"seed-{seed}"

    def write(self, plain: dict[str, Any]) -> None:
        """Writes the table of runs and the summary."""
        table = io.StringIO()
        if rows := plain["runs"]:
            writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        try:
            write_whole(self.path / TABLE_FILE, table.getvalue())
            write_whole(self.path / SUMMARY_FILE, json.dumps(plain, indent=2) + "\n")
        except OSError as problem:
            raise_errors(cannot_write(self.path, problem))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._remove(self._seeds)
            if self._new:
                with suppress(OSError):
                    self.path.rmdir()

    def _remove(self, seeds: list[int]) -> None:
        """Removes runs, the summary and the table."""
        for seed in seeds:
            shutil.rmtree(self.path / f"seed-{seed}", ignore_errors=True)
        for name in (SUMMARY_FILE, TABLE_FILE):
            with suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
