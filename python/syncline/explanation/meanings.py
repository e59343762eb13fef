"""The meaning of every name in the results: tables, their columns, keys of the summary.

No meaning is written here: the core declares tables and summary (``crates/timeline``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from syncline import _core

SUMMARY = "summary"
"""The name of the summary where tables have their names: before the dot of a full name."""

_PAGES = (
    (r"usd|^power_w|_per_w$|^prices", "docs/how-to/cost.md", "What a dollar buys"),
    (r"exposed|^communication_s", "docs/explanation/semantics.md", "What a rank's time goes to"),
    (r"queue_delay_s|network_delay_s|reduction_s", "docs/explanation/semantics.md", "Delays of a message"),
    (r"^bottleneck|^reason", "docs/explanation/semantics.md", "The bottleneck in one sentence"),
    (r"^step_time_s|^iteration", "docs/explanation/semantics.md", "The training loop, and what blocks"),
    (r"^micro_batches", "docs/explanation/semantics.md", "Micro-batches"),
    (r"^total_time_s|finish_s", "docs/explanation/semantics.md", "Time"),
    (r"^simulated_", "docs/explanation/semantics.md", "Determinism"),
    (r"chunk", "docs/explanation/semantics.md", "The endpoint"),
    (r"^alone_|^slowdown|^job", "docs/how-to/several-jobs.md", "Several jobs on one fabric"),
    (r"fault|healthy", "docs/how-to/stragglers.md", "Slow ranks and broken links"),
    (r"^network_model", "docs/explanation/models.md", "When each is valid"),
    (r"^compute_model", "docs/explanation/models.md", "Compute models"),
    (
        r"queue_bytes|limit_bytes|dropped|marked|pause|retransmissions|timeouts|recoveries|^rtt_",
        "",
        "Reading the numbers",
    ),
    (r"^(algorithm|bus)_bytes_per_s|^bound_s|busy|utilization|^bytes$|_communication_s", "", "Reading the numbers"),
)
"""Pages and headings with more about names that match a pattern. The first entry that matches applies."""

_REFERENCE = "docs/reference/results.md"


@dataclass(frozen=True)
class Meaning:
    """The meaning of a column of a table, or of a key of the summary."""

    table: str
    """Name of the table; ``summary`` for keys of the summary."""
    name: str
    """Name of the column or key; ``dims[].carried_bytes`` for a key of each of the summary's dimensions."""
    type: str
    """Type of its values: ``int``, ``float``, ``text``, ``bool``, ``list of text``, and so on."""
    unit: str
    """The unit, such as ``bytes per second`` or ``fraction``; empty for counts, ratios and words."""
    meaning: str
    """Its meaning, in a sentence."""
    row: str
    """What a row of the table is; for the summary, what applies to all its keys."""

    @property
    def full_name(self) -> str:
        """The name after that of its table, such as ``phases.queue_delay_s``."""
        return f"{self.table}.{self.name}"

    @property
    def file(self) -> str:
        """The file of a results folder that holds it."""
        return "summary.json" if self.table == SUMMARY else f"{self.table}.parquet"

    @property
    def page(self) -> tuple[str, str]:
        """Page and heading of the documentation with more about the name."""
        last = self.name.rpartition(".")[2]
        for pattern, page, heading in _PAGES:
            if re.search(pattern, last):
                return page or _REFERENCE, heading
        return _REFERENCE, "The summary" if self.table == SUMMARY else "Tables"

    def json(self) -> dict[str, str]:
        """The meaning as JSON, for ``explain --json``."""
        page, heading = self.page
        return {
            "name": self.full_name,
            "table": self.table,
            "column": self.name,
            "file": self.file,
            "type": self.type,
            "unit": self.unit,
            "meaning": self.meaning,
            "row": self.row,
            "page": page,
            "heading": heading,
        }


@cache
def everything() -> tuple[Meaning, ...]:
    """The summary's keys, then every column of every table, in the order in which they are written."""
    return tuple(
        Meaning(table, name, kind, unit, meaning, row.rstrip("."))
        for table, name, kind, unit, meaning, row in _core.result_names()
    )


def find(name: str) -> list[Meaning]:
    """All meanings of a name.

    The name is one of:

    * a column in any table (``queue_delay_s``), or in one table (``phases.queue_delay_s``);
    * a table, whose columns are all returned (``links.parquet``, or ``links`` if no column has this name).
    """
    plain = name.replace("[]", "")
    table = plain.removesuffix(".parquet").removesuffix(".json")
    columns = [each for each in everything() if plain in _names(each)]
    return columns or [each for each in everything() if each.table == table]


def names() -> list[str]:
    """Every name that :func:`find` knows, once: short names of columns first, then tables, then full names."""
    short = [each.name.rpartition(".")[2] for each in everything()]
    tables = [each.table for each in everything()]
    return list(dict.fromkeys([*short, *tables, *(each.full_name for each in everything())]))


def _names(each: Meaning) -> set[str]:
    plain = each.name.replace("[]", "")
    return {plain, plain.rpartition(".")[2], f"{each.table}.{plain}"}
