"""Prints a validation on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import counted, memory, percent, time
from syncline.terminal.prose import lines
from syncline.terminal.table import of_columns
from syncline.validation.groups import MEMORY, SETS, group
from syncline.validation.outcome import Fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from syncline.validation.figures import Figures, Outlier, Validation
    from syncline.validation.outcome import Outcome, Spread

LISTED = 20
"""Most remarks about outliers that are listed."""

FEW = 40
"""Most rows that are listed one by one."""


_ERRORS = "Errors are |predicted / measured - 1| of the time of a step; p90 is the 90th percentile."
_BARS = "A bar is the largest error that a group may have; groups in bold miss one."


def screen(found: Validation, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def answer(found: Validation) -> str:
    """The result in one or two sentences."""
    compared = sum(each.error is not None for each in found.outcomes)
    rows = f"{counted(len(found.excluded), 'row')} excluded"
    said = f"{counted(compared, 'measured step')} compared with predictions; {rows}."
    if found.missed:
        by_title: dict[str, list[str]] = {}
        for each in found.missed:
            name, _, bar = each.partition(": ")
            by_title.setdefault(_title(found, name), []).append(bar)
        missed = "; ".join(f"{title}: {', '.join(bars)}" for title, bars in by_title.items())
        return f"{said} {counted(len(found.missed), 'bar')} missed. {missed}."
    if any(each.bar is not None for each in found.groups):
        return f"{said} All bars are kept."
    return f"{said} Rows of your own have no bars."


def _title(found: Validation, name: str) -> str:
    """The title of what has bars: a group, memory, or the fastest configurations."""
    others = {"memory": "Memory of nanotron's rows", "fastest": "Fastest configurations"}
    return others.get(name) or next((each.title for each in found.groups if each.name == name), name)


def sets_text(figures: Figures) -> str:
    """The sets of constants that may be fitted to the rows, such as ``H100 (88)``."""
    return ", ".join(f"{SETS.get(name, name)} ({count})" for name, count in figures.calibrates.items())


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
    bars = any(each.bar is not None for each in found.groups)
    yield Text(lines(f"{_ERRORS} {_BARS}" if bars else _ERRORS, width), "dim")
    yield ""
    yield _table(found.groups, "group", bars=True)
    yield ""
    yield _table(found.sources, "source", bars=False)
    if len(found.outcomes) <= FEW:
        yield ""
        yield _rows(found.outcomes)
    if found.memory is not None or found.memory_fits is not None:
        yield ""
        yield Text(lines(_memory(found.memory, found.memory_fits), width))
    if fits := fits_of_runs(found):
        yield ""
        yield Text(lines(fits, width))
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
    columns: dict[str, list[str]] = {heading: [each.title for each in figures]}
    columns["rows"] = [str(each.rows) for each in figures]
    for key in _KEYS:
        columns[key] = ["" if each.step is None else percent(getattr(each.step, key)) for each in figures]
    columns["memory"] = ["" if each.memory is None else percent(each.memory.median) for each in figures]
    columns["fits right"] = [fits_text(each.fits) for each in figures]
    columns["fitted to"] = [sets_text(each) for each in figures]
    if bars:
        columns["bars in %"] = [bar_text(each) for each in figures]
    spare = ("fitted to", "bars in %", "memory", "fits right")
    return of_columns(columns, spare, bold=[bool(each.missed) for each in figures])


def row_columns(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """A table of rows with their predictions, as columns by their headings; columns without a cell are left out."""
    made = {
        "row": [each.run.id for each in outcomes],
        "model": [each.run.model for each in outcomes],
        "GPUs": [f"{each.run.gpus:,}" for each in outcomes],
        "measured": ["" if each.run.step_s is None else time(each.run.step_s) for each in outcomes],
        "predicted": ["" if each.prediction is None else time(each.prediction.step_s) for each in outcomes],
        "error": [_signed(each.error) for each in outcomes],
        "memory": ["" if each.run.memory_bytes is None else memory(each.run.memory_bytes) for each in outcomes],
        "predicted memory": [_predicted_memory(each) for each in outcomes],
    }
    return {heading: cells for heading, cells in made.items() if any(cells)}


def _predicted_memory(outcome: Outcome) -> str:
    found = None if outcome.prediction is None else outcome.prediction.memory_bytes
    said = "" if found is None else memory(found)
    return f"{said}, too much" if outcome.fits is False else said


def _signed(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.1f} %"


def _rows(outcomes: Sequence[Outcome]) -> Table:
    return of_columns(row_columns(outcomes), ("GPUs", "memory", "model", "predicted memory"))


def fits_of_runs(found: Validation) -> str:
    """How many of the runs that ran were predicted to fit, as a sentence; empty if nothing is known of that."""
    fits = Fits.of([each for each in found.outcomes if each.ran])
    if fits is None:
        return ""
    return (
        f"{fits.ran_and_fits:,} of {counted(fits.rows, 'run')} that ran were predicted to fit into memory "
        f"({percent(fits.accuracy)})."
    )


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


def remark(outlier: Outlier) -> str:
    """What is known of an outlier."""
    if outlier.explanation is not None:
        return outlier.explanation
    return f"Unexplained: {outlier.seen}" if outlier.seen is not None else "Unexplained: nobody has looked into it."


def _outliers(outliers: Sequence[Outlier], width: int) -> Iterator[RenderableType]:
    """Outliers by what is known of them: the first of :data:`LISTED` remarks, with all their rows."""
    unexplained = sum(each.explanation is None for each in outliers)
    head = (
        f"{counted(len(outliers), 'outlier')}, beyond twice the bar of the 90th percentile; {unexplained} unexplained. "
        f"A sign says whether the prediction is too long."
    )
    yield Text(lines(head, width))
    by_remark: dict[tuple[str, str], list[Outlier]] = {}
    for each in outliers:
        by_remark.setdefault((group(each.group).title, remark(each)), []).append(each)
    for (title, said), rows in list(by_remark.items())[:LISTED]:
        named = ", ".join(f"{each.outcome.run.id} {100 * each.error:+.0f} %" for each in rows)
        yield ""
        yield Text(lines(f"{title}: {named}", width), "bold")
        yield Text(lines(said, width, indent="  "))
    if len(by_remark) > LISTED:
        yield Text(f"and {len(by_remark) - LISTED} more; --json lists all", "dim")
