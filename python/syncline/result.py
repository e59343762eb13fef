"""What a simulation leaves: the answer, tables, and a folder to keep them in."""

from __future__ import annotations

import json
import shutil
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from syncline import _core
from syncline.summary import Summary

if TYPE_CHECKING:
    from syncline.errors import Diagnostic
    from syncline.report.html.plot import Plot

Columns = list[tuple[str, str, list[Any]]]


class Tables(Protocol):
    """Where tables come from: a run in memory, or a folder."""

    def summary(self) -> str:
        """The answer as JSON."""

    def diagnostics(self) -> str:
        """Warnings as a JSON array."""

    def tables(self) -> list[tuple[str, str]]:
        """Names of the tables, and what a row is."""

    def table(self, name: str) -> Columns:
        """Name, meaning and values of each column."""

    def outline(self, most: int) -> str | None:
        """What the traced ranks did when, as JSON; nothing where it was not kept."""


class Result:
    """What a simulation left."""

    def __init__(self, tables: Tables, scenario: dict[str, Any] | None = None, folder: Path | None = None) -> None:
        self._tables = tables
        self._scenario = scenario
        self._start = _here() if scenario else None
        self.folder = folder
        """Where the results are on disk, if they are."""

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = False) -> Result:
        """Reads the results of an earlier run: its folder, or the ``manifest.json`` or ``summary.json`` in it.

        A file is compared with its hash when it is read; with ``verify``, all of them are at once.
        """
        path = _folder_of(Path(folder))
        manifest = json.loads(_core.read_manifest(path, verify=verify))
        return cls(_Folder(path, manifest), None, path)

    @cached_property
    def scenario(self) -> dict[str, Any] | None:
        """The resolved scenario, where it is known; paths are as seen from the directory of the run.

        Those of results that were loaded are as seen from the current directory.
        """
        return self._tables.scenario() if isinstance(self._tables, _Folder) else self._scenario

    @property
    def version(self) -> str:
        """The version of syncline that simulated it."""
        return str(self._tables.manifest["version"]) if isinstance(self._tables, _Folder) else _core.version()

    @cached_property
    def summary(self) -> Summary:
        """The answer in a few numbers."""
        return Summary.from_json(self._tables.summary())

    @cached_property
    def warnings(self) -> list[Diagnostic]:
        """What the run warned of."""
        found: list[Diagnostic] = json.loads(self._tables.diagnostics())
        return found

    @property
    def tables(self) -> dict[str, str]:
        """Name of each table, and what one of its rows is."""
        return dict(self._tables.tables())

    def table(self, name: str) -> dict[str, list[Any]]:
        """The columns of a table by name. Their names end in their units."""
        return {column: values for column, _, values in self._columns(name)}

    def meanings(self, name: str) -> dict[str, str]:
        """What each column of a table says."""
        return {column: meaning for column, meaning, _ in self._columns(name)}

    def frame(self, name: str) -> Any:
        """A table as a data frame of pandas or polars, whichever is installed."""
        for library in ("pandas", "polars"):
            if find_spec(library):
                return import_module(library).DataFrame(self.table(name))
        raise ImportError(
            "frame() needs pandas or polars, and neither is installed: `pip install pandas`. table() needs neither."
        )

    def plot(self, what: str) -> Plot:
        """A chart of the report, which notebooks show by themselves.

        ``layers``, ``pipeline``, ``timeline``, ``communication``, ``collectives``, ``phases``, ``dimensions``,
        ``activity``, ``losses``, ``queues``, ``round_trips``, ``fabric``, ``cost``, ``critical_path``. Raises
        ``ValueError`` for other names, and where the run left no data for it.
        """
        from syncline.report.html.plot import plot

        return plot(self, what)

    def outline(self, most: int) -> str | None:
        """The first ``most`` blocks of what the traced ranks did when, as JSON; nothing where it was not kept.

        Folders keep it in the Perfetto trace and in the report alone.
        """
        return self._tables.outline(most)

    def save(self, folder: str | Path) -> list[str]:
        """Writes the results into a folder, which appears whole or not at all; gives the names of its files.

        Results that are already there are replaced; a folder with anything else in it is left alone.
        """
        path = Path(folder)
        if isinstance(self._tables, _Folder):
            shutil.copytree(self._tables.folder, path)
            return sorted(each.name for each in path.iterdir())
        from syncline.config.dump import dump
        from syncline.config.files import moved

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
            raise TypeError("a result that is on no disk cannot be copied or pickled: save it into a folder first")
        return Result.load, (self.folder.absolute(),), {"scenario": self.scenario, "_start": self._start}

    def _columns(self, name: str) -> Columns:
        known = self.tables
        if name not in known:
            near = _core.nearest(name, list(known))
            hint = f" Did you mean {near!r}?" if near else ""
            raise KeyError(f"there is no table {name!r}, only {', '.join(known)}.{hint}")
        return self._tables.table(name)

    def __repr__(self) -> str:
        answer = self.summary
        return (
            f"<Result: {answer.step_time_s:.6g} s per step, {answer.exposed_fraction:.1%} exposed, "
            f"bound by {answer.bottleneck}, network {answer.network_model}>"
        )

    def __str__(self) -> str:
        from syncline.report.answer import plain

        return plain(self)

    def _repr_html_(self) -> str:
        from syncline.report.html.plot import overview

        return overview(self)


def _folder_of(path: Path) -> Path:
    """The folder that is meant by itself or by a file in it. A scenario's file has no results."""
    if path.is_file():
        if path.name not in ("manifest.json", "summary.json", "design.json"):
            _refuse(path)
        path = path.parent
    if (path / "design.json").is_file() and not (path / "manifest.json").is_file():
        _refuse_search(path)
    return path


def _refuse_search(path: Path) -> NoReturn:
    """The folder of a search holds the results of its winner in a folder of their own."""
    from syncline.config.node import Mark, Text
    from syncline.config.problem import error, refuse

    runs = sorted(each.parent.as_posix() for each in path.glob("run*/manifest.json"))
    refuse(
        error(
            "SL0802",
            "the folder of a search, which holds no results itself",
            mark=Mark(Text(path.as_posix(), ()), 0, 0, 0),
            help=f"the results of what it found are in {' and '.join(runs[:8])}" if runs else None,
        )
    )


def _refuse(path: Path) -> NoReturn:
    from syncline.config.node import Mark, Text
    from syncline.config.problem import error, refuse

    name = path.as_posix()
    message, help = "results are a folder, not this file", "name the folder that has the manifest.json"
    if path.suffix in (".yaml", ".yml", ".json"):
        message = "a scenario has no results: it says what to simulate"
        help = f"simulate it, `syncline simulate {name}`, and name the folder that this leaves"
    mark = Mark(Text(name, ()), 0, 0, 0)
    refuse(error("SL0102", message, mark=mark, allowed="the folder of a run", help=help))


def _here() -> Path | None:
    """The current directory, unless it was removed meanwhile."""
    try:
        return Path.cwd()
    except OSError:
        return None


class _Folder:
    """Tables of a run's folder."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest

    def summary(self) -> str:
        """The answer as JSON."""
        return _core.read_summary(self.folder)

    def scenario(self) -> dict[str, Any] | None:
        """Nothing where the folder keeps none, or an empty one: the drop-in for ASTRA-sim has no scenario."""
        from syncline.config.load import RESOLVED_FILE, kept

        there = any(each["name"] == RESOLVED_FILE for each in self.manifest["files"])
        return kept(self.folder) if there else None

    def diagnostics(self) -> str:
        """Warnings as a JSON array."""
        return json.dumps(self.manifest.get("warnings", []))

    def tables(self) -> list[tuple[str, str]]:
        """Names of the tables, and what a row is."""
        return [(each["name"], each["meaning"]) for each in self.manifest["tables"]]

    def table(self, name: str) -> Columns:
        """Name, meaning and values of each column."""
        return _core.read_table(self.folder, name)

    def outline(self, most: int) -> None:
        """The spans of a run are in its Perfetto trace, which is not read back."""
