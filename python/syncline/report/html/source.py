"""What charts are made from: summary, tables, spans and scenario of a run, each read at most once."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from syncline.report.html.stages import traced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.report.html.stages import Stage
    from syncline.result import Result
    from syncline.summary import Summary

BLOCKS = 16_000
"""Blocks of the overlap timeline that a report holds; the Perfetto trace has all spans."""

SPANS = 1 << 20
"""Spans of traced ranks that a chart may read to sum them up."""

Table = dict[str, list[Any]]


def rows_of(names: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each name, in the order in which they come."""
    rows: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        rows.setdefault(name, []).append(index)
    return rows


class Source:
    """A run as charts see it."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self._tables: dict[str, Table] = {}

    @property
    def summary(self) -> Summary:
        """The answer in a few numbers."""
        return self.result.summary

    @property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario; empty where it is not known."""
        return self.result.scenario or {}

    def table(self, name: str, *needed: str) -> Table | None:
        """A table; nothing where the run has none of this name, no rows, or lacks a column that is needed."""
        if name not in self._tables:
            self._tables[name] = self.result.table(name) if name in self.result.tables else {}
        found = self._tables[name]
        there = found and all(column in found for column in needed) and any(found.values())
        return found if there else None

    def npu(self, vertex: str) -> int | None:
        """The number of the NPU of this name; nothing for a switch or a network card."""
        if self._own_names:
            return self._own_names.get(vertex)
        found = re.fullmatch(r"NPU (\d+)", vertex)
        return int(found[1]) if found else None

    @cached_property
    def _own_names(self) -> dict[str, int]:
        """Numbers of NPUs by the names that the fabric was given with; empty where it was given without."""
        graph = self.scenario.get("fabric", {}).get("graph", {})
        names: Sequence[str] = graph.get("names", ())
        return {name: number for number, name in enumerate(names[: graph.get("npus", 0)])}

    @cached_property
    def spans(self) -> dict[str, Any] | None:
        """The same as :attr:`outline`, but all of it, for what is summed up before it is drawn."""
        text = self.result.outline(SPANS)
        return None if text is None else json.loads(text)

    @cached_property
    def stages(self) -> list[Stage]:
        """What traced ranks of the stages of a pipeline did, in the order of stages; nothing without a pipeline."""
        return traced(self)

    @cached_property
    def outline(self) -> dict[str, Any] | None:
        """What the traced ranks did when; nothing where no spans are at hand."""
        text = self.result.outline(BLOCKS)
        return None if text is None else json.loads(text)
