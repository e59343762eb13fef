"""The data that charts are made from: summary, tables, spans and scenario of a run, each read at most once."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from syncline.quantity import npu_number
from syncline.report.html.stages import traced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.report.html.stages import Stage
    from syncline.run import Run
    from syncline.summary import Summary

BLOCKS = 16_000
"""Maximum number of blocks of the overlap timeline that a report holds; the Perfetto trace has all spans."""

SPANS = 1 << 20
"""Maximum number of spans of traced ranks that a chart reads to sum them up."""

Table = dict[str, list[Any]]


def rows_of(names: Sequence[str], among: Iterable[int] | None = None) -> dict[str, list[int]]:
    """The rows of each name, in order of first appearance. ``among`` selects rows; all, if it is left out."""
    rows: dict[str, list[int]] = {}
    for index in range(len(names)) if among is None else among:
        rows.setdefault(names[index], []).append(index)
    return rows


class Source:
    """The data of a run, for charts."""

    def __init__(self, result: Run) -> None:
        self.result = result
        self._tables: dict[str, Table] = {}

    @property
    def summary(self) -> Summary:
        """The summary of the run."""
        return self.result.summary

    @property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario; empty if it is unknown."""
        return self.result.scenario or {}

    def table(self, name: str, *needed: str) -> Table | None:
        """A table; None if the run has no table with this name, or it has no rows, or lacks a needed column."""
        if name not in self._tables:
            self._tables[name] = self.result.table(name) if name in self.result.tables else {}
        found = self._tables[name]
        there = found and all(column in found for column in needed) and any(found.values())
        return found if there else None

    def npu(self, vertex: str) -> int | None:
        """The number of the NPU with this name; None for a switch or a network card."""
        if self._own_names:
            return self._own_names.get(vertex)
        return npu_number(vertex)

    @cached_property
    def _own_names(self) -> dict[str, int]:
        """Numbers of NPUs by the user's names for them; empty if the fabric was given without names."""
        graph = self.scenario.get("fabric", {}).get("graph", {})
        names: Sequence[str] = graph.get("names", ())
        return {name: number for number, name in enumerate(names[: graph.get("npus", 0)])}

    @cached_property
    def spans(self) -> dict[str, Any] | None:
        """Like :attr:`outline`, but complete (up to :data:`SPANS`), for charts that sum it up before drawing."""
        text = self.result.outline(SPANS)
        return None if text is None else json.loads(text)

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages of a pipeline with a traced rank, in the order of stages; empty without a pipeline."""
        return traced(self)

    @cached_property
    def outline(self) -> dict[str, Any] | None:
        """The timeline of the traced ranks; None if the run's spans are not available."""
        text = self.result.outline(BLOCKS)
        return None if text is None else json.loads(text)
