"""Tables of a run, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline import Result


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    """A table of a run as a list of rows."""
    columns = result.table(table)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def layers(result: Result) -> list[dict[str, Any]]:
    """The layers from input to output, with times summed over all iterations of the run."""
    found = rows(result, "layers")
    for layer in found:
        for column in layer:
            if column.endswith("_s"):
                layer[column] *= result.summary.iterations
    return found
