"""The meaning of every name in the results: tables, their columns, keys of the summary.

No meaning is written here. The core gives columns together with their meanings, so they are read from a run of a few
simulated microseconds; meanings of the summary's keys are the docstrings of :mod:`syncline.summary`.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from syncline import summary as summary_module
from syncline.api import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.result import Result

SUMMARY = "summary"
"""The name of the summary where tables have their names: before the dot of a full name."""

_UNITS = {
    "bytes_per_s": "bytes per second",
    "bytes": "bytes",
    "flop": "floating-point operations",
    "iterations_per_s_per_usd": "iterations per second per US dollar",
    "iterations_per_s_per_w": "iterations per second per watt",
    "usd": "US dollars",
    "power_w": "watts",
    "s": "seconds",
}
"""Units by the end of a name. The first entry that matches applies."""

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

_TYPES = {
    "str": "text",
    "str | None": "optional_text",
    "int": "int",
    "float": "float",
    "int | None": "optional_int",
    "float | None": "optional_float",
    "tuple[str, ...]": "list of text",
    "tuple[Dimension, ...]": "list of dimensions",
    "tuple[JobSummary, ...]": "list of jobs",
    "tuple[Axis, ...]": "list of axes",
    "tuple[PathPart, ...]": "list of parts",
    "Packets | None": "packets",
    "Overload | None": "overload",
}
"""Names that manifests use for Python's types."""

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
    meaning: str
    """Its meaning, in a sentence."""
    row: str
    """What a row of the table is; for the summary, what applies to all its keys."""

    @property
    def full_name(self) -> str:
        """The name after that of its table, such as ``phases.queue_delay_s``."""
        return f"{self.table}.{self.name}"

    @property
    def unit(self) -> str:
        """The unit, by the end of the name; ``fraction`` for a ``float`` without a unit, else empty."""
        last = self.name.rpartition(".")[2]
        found = next((unit for end, unit in _UNITS.items() if last == end or last.endswith(f"_{end}")), "")
        return found or ("fraction" if self.type == "float" else "")

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
    return (*_summary(), *_columns())


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


def _columns() -> Iterator[Meaning]:
    known: set[str] = set()
    # Together, the two runs have every table, and none is empty.
    for network in ("packet", "flow"):
        run = _small_run(network)
        for table, row in run.tables.items():
            if table in known:
                continue
            known.add(table)
            meanings, columns = run.meanings(table), run.table(table)
            for column, values in columns.items():
                yield Meaning(table, column, _type(values), meanings[column], row)


def _small_run(network: str) -> Result:
    """A run with collectives on a network model."""
    exchange = {"when": "after_weight_grad", "axis": "data", "collective": "all_reduce", "bytes": "2kB"}
    layer = {"name": "layer", "forward": "1us", "weight_grad": "1us", "exchanges": [exchange]}
    # A fabric without dimensions has a table of tiers.
    racks = {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 1, "spines": 1, "rate": "1GB/s"}}
    fabric = racks if network == "flow" else {"shape": "Ring(2)", "rate": "1GB/s"}
    # Timers that expire before acknowledgements arrive, so that there are retransmissions.
    timers = {"initial_timeout": "1us", "min_timeout": "1us"} if network == "packet" else {}
    jobs = [{"name": name, "workload": {"layers": [layer]}} for name in ("one", "two")]
    return simulate(jobs=jobs, compute="given", fabric=fabric, network={"model": network, **timers}, prices="hier2021")


def _type(values: list[Any]) -> str:
    """The type of a column, as manifests name it."""
    kinds = {type(value) for value in values}
    for kind, name in ((bool, "bool"), (str, "text"), (float, "float"), (int, "int")):
        if kind in kinds:
            return f"optional_{name}" if type(None) in kinds else name
    return "optional_float"


def _summary() -> Iterator[Meaning]:
    tree = ast.parse(inspect.getsource(summary_module))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name, prefix in (
        ("Summary", ""),
        ("Dimension", "dims[]."),
        ("Packets", "packets."),
        ("Overload", "overload."),
        ("JobSummary", "jobs[]."),
        ("Axis", "exposed_by_axis[]."),
        ("PathPart", "critical_path[]."),
    ):
        about = " ".join((ast.get_docstring(classes[name]) or "").split()).rstrip(".")
        # An attribute's docstring is the expression after it.
        for node, below in itertools.pairwise(classes[name].body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
                said = str(ast.literal_eval(below.value)).replace("``", "`")
                kind = _annotation(ast.unparse(node.annotation))
                yield Meaning(SUMMARY, f"{prefix}{node.target.id}", kind, " ".join(said.split()), about)


def _annotation(text: str) -> str:
    """The name that manifests use for a Python type."""
    if text.startswith("Literal"):
        words = ast.literal_eval(f"({text.removeprefix('Literal[').removesuffix(']')},)")
        return f"text: {', '.join(json.dumps(word) for word in words)}"
    return _TYPES[text]
