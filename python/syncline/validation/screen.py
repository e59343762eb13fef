"""Prints a validation on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import counted, percent
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers
from syncline.validation.groups import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from syncline.validation.figures import Figures, Outlier, Validation
    from syncline.validation.outcome import Fits, Spread

LISTED = 20
"""Most outliers that are listed."""


_LEGEND = (
    "Errors are |predicted / measured - 1| of the time of a step; p90 is the 90th percentile. A bar is the largest "
    "error that a group may have; groups in bold miss one."
)


def screen(found: Validation, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def answer(found: Validation) -> str:
    """The result in one or two sentences."""
    compared = sum(each.error is not None for each in found.outcomes)
    rows = f"{counted(len(found.excluded), 'row')} excluded"
    said = f"{counted(compared, 'measured step')} compared with predictions; {rows}."
    if found.missed:
        return f"{said} {counted(len(found.missed), 'bar')} missed: {', '.join(found.missed)}."
    return f"{said} All bars are kept."


def bar_text(figures: Figures) -> str:
    """The bars of a group, such as ``mean 3.0, largest 8.0``, in percent."""
    if figures.bar is None:
        return ""
    kept = [(name, getattr(figures.bar, name)) for name in ("median", "mean", "p90", "largest")]
    return ", ".join(f"{name} {100 * most:.1f}" for name, most in kept if most is not None)


def fits_text(fits: Fits | None) -> str:
    """How often fits were predicted right, such as ``90 of 96``."""
    return "" if fits is None else f"{fits.right} of {fits.rows}"


def _parts(found: Validation, width: int) -> Iterator[RenderableType]:
    yield Text(lines(answer(found), width), "bold")
    yield ""
    yield Text(lines(_LEGEND, width), "dim")
    yield ""
    yield _table(found.groups, "group", bars=True)
    yield ""
    yield _table(found.sources, "source", bars=False)
    if found.memory is not None or found.memory_fits is not None:
        yield ""
        yield Text(lines(_memory(found.memory, found.memory_fits), width))
    if found.cells:
        yield ""
        near, first = sum(each.near for each in found.cells), sum(each.among_first for each in found.cells)
        yield Text(
            lines(
                f"Fastest configuration of {counted(len(found.cells), 'cell')} of model and servers: the predicted one "
                f"is within 5 % in {near}, and the fastest is among the first three predicted in {first}.",
                width,
            )
        )
    if found.outliers:
        yield ""
        yield from _outliers(found.outliers, width)
    refused = [each for each in found.outcomes if each.refused]
    if refused:
        yield ""
        reasons: dict[str, int] = {}
        for each in refused:
            reasons[each.refused] = reasons.get(each.refused, 0) + 1
        said = "; ".join(f"{reason} ({count})" for reason, count in reasons.items())
        yield Text(lines(f"{counted(len(refused), 'row')} not predicted: {said}", width))


def _table(figures: Sequence[Figures], heading: str, *, bars: bool) -> Table:
    table = of_numbers(
        *(heading, "rows", "median", "mean", "p90", "largest", "memory", "fits right", "fits wrong", "fitted to"),
        *(["bars in %"] if bars else []),
        spare=("fits wrong", "fits right", "memory", "fitted to"),
    )
    for each in figures:
        step = ["", "", "", ""] if each.step is None else [percent(getattr(each.step, key)) for key in _KEYS]
        fits = ["", ""] if each.fits is None else [str(each.fits.right), str(each.fits.wrong)]
        memory = "" if each.memory is None else percent(each.memory.median)
        used = ", ".join(f"{name} ({count})" for name, count in each.calibrates.items())
        row = [each.name, str(each.rows), *step, memory, *fits, used]
        table.add_row(*row, *([bar_text(each)] if bars else []), style="bold" if each.missed else None)
    return table


_KEYS = ("median", "mean", "p90", "largest")


def _memory(spread: Spread | None, fits: Fits | None) -> str:
    said = "Memory of nanotron's rows with tensor parallelism up to 8:"
    if spread is not None:
        said += f" median error {percent(spread.median)}, mean {percent(spread.mean)}."
    if fits is not None:
        said += (
            f" Fits or not: right for {fits_text(fits)} ({percent(fits.accuracy)}); {fits.ran_but_does_not} ran that "
            f"were predicted not to fit, and {fits.failed_but_fits} failed that were predicted to fit."
        )
    return (
        f"{said} Bars: median {percent(MEMORY.median)}, mean {percent(MEMORY.mean)}, right {percent(MEMORY.accuracy)}."
    )


def _outliers(outliers: Sequence[Outlier], width: int) -> Iterator[RenderableType]:
    unexplained = sum(each.explanation is None for each in outliers)
    head = (
        f"{counted(len(outliers), 'outlier')}, beyond twice the bar of the 90th percentile; {unexplained} unexplained:"
    )
    yield Text(lines(head, width))
    explained = unexplained < len(outliers)
    table = of_numbers("row", "group", "error", *(["explanation"] if explained else []))
    table.columns[1].justify = "left"
    if explained:
        table.columns[3].justify = "left"
        table.columns[3].no_wrap = False
    for each in outliers[:LISTED]:
        cells = [each.explanation or "unexplained"] if explained else []
        table.add_row(each.outcome.run.id, each.group, f"{100 * each.error:+.1f} %", *cells)
    yield table
    if len(outliers) > LISTED:
        yield Text(f"and {len(outliers) - LISTED} more; --json lists all", "dim")
