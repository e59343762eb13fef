"""Maps keys of a resolved scenario, which the core reports, back to the file and line where the user wrote them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline.input.node import Path, dotted, undotted

if TYPE_CHECKING:
    from syncline.errors import Diagnostic
    from syncline.input.source import Source


@dataclass(slots=True)
class Origins:
    """Origins of resolved paths. A path without an entry came from the same path in the scenario's own file."""

    source: Source
    moved: dict[Path, tuple[Source, Path]] = field(default_factory=dict)

    def move(self, resolved: Path, path: Path, source: Source | None = None) -> None:
        """Records that ``resolved``, and everything in it, came from ``path``."""
        self.moved[resolved] = (source or self.source, path)

    def find(self, resolved: Path) -> tuple[Source, Path]:
        """The origin of a resolved path, cut to the part that exists in the user's file."""
        for length in range(len(resolved), -1, -1):
            if resolved[:length] in self.moved:
                source, path = self.moved[resolved[:length]]
                return source, _written(source, path + resolved[length:])
        return self.source, _written(self.source, resolved)

    def placed(self, diagnostic: Diagnostic) -> Diagnostic:
        """A diagnostic of the core with its file and line."""
        key = diagnostic.get("key")
        if not key or "place" in diagnostic or " " in key:
            return diagnostic
        source, path = self.find(undotted(key))
        mark = source.mark(path) if path else None
        placed = diagnostic.copy()
        if mark is not None:
            placed["place"], placed["key"] = mark.place(), dotted(path)
        if "help" in placed:
            placed["help"] = placed["help"].replace("`workload.", f"`{_workload(undotted(key))}.")
        return placed


def _workload(resolved: Path) -> str:
    """Path of the workload that a resolved path is in; with several jobs, that of the job."""
    return dotted((*resolved[1:3], "workload")) if resolved[:2] == ("workload", "jobs") else "workload"


def _written(source: Source, path: Path) -> Path:
    """The longest prefix of ``path`` that exists in the file."""
    while path and source.root.at(path) is None:
        path = path[:-1]
    return path
