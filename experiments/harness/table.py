"""Measured values, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.quantity import digits, percent, size, time

if TYPE_CHECKING:
    from collections.abc import Callable

Value = str | int | float | None
"""Value of a cell; ``None`` if there is nothing to measure."""


@dataclass
class Table:
    """Rows of values. Column names end in their units, as in the tables of a run; people see rounded values."""

    name: str
    """Name of the table's file."""
    title: str
    """What the table shows, in one line."""
    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]] = field(default_factory=list)
    listed: bool = True
    """Whether the terminal and the page show the table; long tables are only for files and pictures."""
    missing: str = ""
    """Why the table has no rows, if it needs data that is not here. Pages then keep theirs."""

    def add(self, *values: Value) -> None:
        """Appends a row."""
        if len(values) != len(self.columns):
            raise ValueError(f"{self.name}: {len(values)} values for {len(self.columns)} columns")
        self.rows.append(values)

    def column(self, name: str, **wanted: Value) -> list[Any]:
        """Values of a column, in the rows whose other columns have the ``wanted`` values."""
        at = {column: index for index, column in enumerate(self.columns)}
        return [row[at[name]] for row in self.rows if all(row[at[key]] == value for key, value in wanted.items())]

    def headings(self) -> list[str]:
        """Column names for people, without units, which stand beside the values."""
        return [_heading(column) for column in self.columns]

    def shown(self) -> list[list[str]]:
        """Every cell as text for people."""
        formats = [_format(column) for column in self.columns]
        return [
            ["" if value is None else _shown(form, value) for form, value in zip(formats, row, strict=True)]
            for row in self.rows
        ]


def _shown(form: Callable[[Any], str], value: Value) -> str:
    """A value with its unit; text (such as the reason why nothing was measured) is returned unchanged."""
    return value if isinstance(value, str) else form(value)


def share(fraction: float) -> str:
    """A fraction as a percentage with three significant digits: ``0.0163 %``."""
    return f"{100 * fraction:.3g} %"


def _plain(value: Value) -> str:
    return digits(value) if isinstance(value, float) else str(value)


_UNITS: dict[str, Callable[[Any], str]] = {
    "_s": time,
    "_bytes": size,
    "_fraction": percent,
    "_share": share,
    "_ratio": lambda value: f"{value:.3g}",
    "_off": lambda value: f"{100 * value:+.0f} %",
}
"""Suffixes of column names, and the functions that format their values."""


def _unit(column: str) -> str:
    return next((unit for unit in _UNITS if column.endswith(unit)), "")


def _heading(column: str) -> str:
    return column.removesuffix(_unit(column)).replace("_", " ")


def _format(column: str) -> Callable[[Any], str]:
    return _UNITS.get(_unit(column), _plain)
