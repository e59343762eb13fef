"""Measured values, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.report.quantity import digits, percent, size, time

if TYPE_CHECKING:
    from collections.abc import Callable

Value = str | int | float | None
"""What a cell holds; ``None`` where there is nothing to measure."""


@dataclass
class Table:
    """Rows of values. Column names end in their units, as in the tables of a run; people see four digits."""

    name: str
    """Name of its file."""
    title: str
    """What it shows, in one line."""
    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]] = field(default_factory=list)
    listed: bool = True
    """Whether the terminal and the page list it; long ones are for machines and pictures."""

    def add(self, *values: Value) -> None:
        """One more row."""
        if len(values) != len(self.columns):
            raise ValueError(f"{self.name}: {len(values)} values for {len(self.columns)} columns")
        self.rows.append(values)

    def column(self, name: str, **wanted: Value) -> list[Any]:
        """Values of a column, of the rows that have the wanted values in other columns."""
        at = {column: index for index, column in enumerate(self.columns)}
        return [row[at[name]] for row in self.rows if all(row[at[key]] == value for key, value in wanted.items())]

    def headings(self) -> list[str]:
        """Column names as people read them: the values say the unit."""
        return [_heading(column) for column in self.columns]

    def shown(self) -> list[list[str]]:
        """Every cell as people read it."""
        formats = [_format(column) for column in self.columns]
        return [
            ["" if value is None else _shown(form, value) for form, value in zip(formats, row, strict=True)]
            for row in self.rows
        ]


def _shown(form: Callable[[Any], str], value: Value) -> str:
    """A value in its unit; a word in place of it, such as why it was not measured, as it is."""
    return value if isinstance(value, str) else form(value)


def share(fraction: float) -> str:
    """``0.0163 %``: three digits, however small."""
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
"""Ends of column names, and how their values are written."""


def _unit(column: str) -> str:
    return next((unit for unit in _UNITS if column.endswith(unit)), "")


def _heading(column: str) -> str:
    return column.removesuffix(_unit(column)).replace("_", " ")


def _format(column: str) -> Callable[[Any], str]:
    return _UNITS.get(_unit(column), _plain)
