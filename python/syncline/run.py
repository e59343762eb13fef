"""A finished run, in memory or in a folder: summary, tables, warnings, scenario."""

from __future__ import annotations

import json
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

from syncline import _core
from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.schemas import ANSWER
from syncline.summary import Summary

if TYPE_CHECKING:
    from syncline.errors import Diagnostic

Columns = list[tuple[str, str, list[Any]]]


class Tables(Protocol):
    """The source of tables: a run in memory, or a folder."""

    def summary(self) -> str:
        """The summary as JSON."""

    def diagnostics(self) -> str:
        """Warnings as a JSON array."""

    def tables(self) -> list[tuple[str, str]]:
        """Name of each table, and what one of its rows is."""

    def table(self, name: str) -> Columns:
        """Name, meaning and values of each column."""

    def outline(self, most: int) -> str | None:
        """The timeline of the traced ranks, as JSON; None if it was not kept."""


class Run:
    """What a run has found. :class:`~syncline.Result` adds charts, and writes the run into a folder."""

    def __init__(self, tables: Tables, scenario: dict[str, Any] | None = None, folder: Path | None = None) -> None:
        self._tables = tables
        self._scenario = scenario
        self.folder = folder
        """Folder of the results; None if they are not on disk."""

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = False) -> Self:
        """Reads the results of an earlier run: its folder, or the ``manifest.json`` or ``summary.json`` in it.

        Each file is checked against its hash when it is read; with ``verify``, all files are checked at once.
        """
        path = _folder_of(Path(folder))
        manifest = json.loads(_core.read_manifest(path, verify=verify))
        return cls(Folder(path, manifest), None, path)

    @cached_property
    def scenario(self) -> dict[str, Any] | None:
        """The resolved scenario; None if it is unknown.

        Its paths are relative to the directory in which the run was started; if the results were loaded, to the current
        directory.
        """
        return self._tables.scenario() if isinstance(self._tables, Folder) else self._scenario

    @property
    def version(self) -> str:
        """The version of syncline that ran the simulation."""
        return str(self._tables.manifest["version"]) if isinstance(self._tables, Folder) else _core.version()

    @cached_property
    def summary(self) -> Summary:
        """The main numbers of the run."""
        return Summary.from_json(self._tables.summary())

    @cached_property
    def warnings(self) -> list[Diagnostic]:
        """The warnings of the run."""
        found: list[Diagnostic] = json.loads(self._tables.diagnostics())
        return found

    @property
    def tables(self) -> dict[str, str]:
        """Name of each table, and what one of its rows is."""
        return dict(self._tables.tables())

    def table(self, name: str) -> dict[str, list[Any]]:
        """The columns of a table, by name. The name of a column ends in its unit."""
        return {column: values for column, _, values in self._columns(name)}

    def meanings(self, name: str) -> dict[str, str]:
        """The meaning of each column of a table, by name."""
        return {column: meaning for column, meaning, _ in self._columns(name)}

    def frame(self, name: str) -> Any:
        """A table as a data frame of pandas or polars, whichever is installed."""
        for library in ("pandas", "polars"):
            if find_spec(library):
                return import_module(library).DataFrame(self.table(name))
        raise ImportError(
            "frame() needs pandas or polars, and neither is installed: `pip install pandas`. table() needs neither."
        )

    def outline(self, most: int) -> str | None:
        """The first ``most`` blocks of the timeline of the traced ranks, as JSON; None if it was not kept.

        Folders keep the timeline only in the Perfetto trace and in the report, so it is None for loaded results.
        """
        return self._tables.outline(most)

    def _columns(self, name: str) -> Columns:
        known = self.tables
        if name not in known:
            near = _core.nearest(name, list(known))
            hint = f" Did you mean {near!r}?" if near else ""
            raise KeyError(f"there is no table {name!r}, only {', '.join(known)}.{hint}")
        return self._tables.table(name)


def _folder_of(path: Path) -> Path:
    """The folder of the results, given by its own path or that of a file in it. Raises an error for any other file."""
    if path.is_file():
        if path.name not in ("manifest.json", "summary.json", ANSWER):
            _raise_not_a_run(path)
        path = path.parent
    if (path / ANSWER).is_file() and not (path / "manifest.json").is_file():
        _raise_search_folder(path)
    return path


def _raise_search_folder(path: Path) -> NoReturn:
    """Raises the error for the folder of a search, which holds results only in subfolders."""
    runs = sorted(each.parent.as_posix() for each in path.glob("run*/manifest.json"))
    raise_errors(
        error(
            Code.BAD_RESULTS,
            "this is the folder of a search, which holds no results itself",
            mark=Mark(Text(path.as_posix(), ()), 0, 0, 0),
            help=f"the results of its solutions are in {' and '.join(runs[:8])}" if runs else None,
        )
    )


def _raise_not_a_run(path: Path) -> NoReturn:
    name = path.as_posix()
    message, help = "results are in a folder, and this is a file", "name the folder that has the manifest.json"
    if path.suffix in (".yaml", ".yml", ".json"):
        message = "this is a scenario, not the folder of a run"
        help = f"simulate it with `syncline simulate {name}`, and name the folder of its results"
    mark = Mark(Text(name, ()), 0, 0, 0)
    raise_errors(error(Code.BAD_VALUE, message, mark=mark, allowed="the folder of a run", help=help))


class Folder:
    """The tables in a run's folder."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest

    def summary(self) -> str:
        """The summary as JSON."""
        return _core.read_summary(self.folder)

    def scenario(self) -> dict[str, Any] | None:
        """The resolved scenario; None if the folder has none or an empty one, as after ``syncline astra-sim``."""
        from syncline.config.load import RESOLVED_FILE, kept  # slow to import

        there = any(each["name"] == RESOLVED_FILE for each in self.manifest["files"])
        return kept(self.folder) if there else None

    def diagnostics(self) -> str:
        """Warnings as a JSON array."""
        return json.dumps(self.manifest.get("warnings", []))

    def tables(self) -> list[tuple[str, str]]:
        """Name of each table, and what one of its rows is."""
        return [(each["name"], each["meaning"]) for each in self.manifest["tables"]]

    def table(self, name: str) -> Columns:
        """Name, meaning and values of each column."""
        return _core.read_table(self.folder, name)

    def outline(self, most: int) -> None:
        """None: the timeline of a run is in its Perfetto trace, which is not read back."""
