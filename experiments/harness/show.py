"""The report on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table as Drawn
from rich.text import Text

from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from experiments.harness.claim import Verdict
    from experiments.harness.study import Study
    from experiments.harness.table import Table


_WORDS = 14
"""Minimum width of a column of names, in characters, unless all its names are shorter."""


def report(study: Study) -> Iterator[RenderableType]:
    """Title, tables, verdicts, and the verdicts that differ under other readings."""
    experiment = study.experiment
    yield Text.assemble((f"{experiment.paper} {experiment.name}", "bold"), f"  {experiment.title}")
    yield Text(study.obtained, style="dim")
    for table in study.findings.tables:
        if table.listed:
            yield ""
            yield Text(table.title)
            yield Text(f"  {table.missing}", style="dim") if table.missing else drawn(table)
    for verdict in study.verdicts:
        yield ""
        yield from judged(verdict)
    if study.sensitivity:
        yield ""
        yield Text(study.sensitivity.title)
        yield drawn(study.sensitivity)


def judged(verdict: Verdict) -> Iterator[RenderableType]:
    """A claim with its measurement, verdict and reason."""
    grid = Drawn.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    style = "green" if verdict.holds else "red"
    grid.add_row(Text(verdict.claim.id, style="bold"), Text.assemble(verdict.claim.where, ": ", verdict.claim.text))
    grid.add_row("  measured", Text(verdict.measured))
    grid.add_row("  verdict", Text(verdict.word, style=f"bold {style}"))
    grid.add_row("  why", Text(verdict.why))
    yield grid


def drawn(table: Table) -> Drawn:
    """A table for the terminal; text is left-aligned, numbers are right-aligned."""
    box = Drawn(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    cells = table.shown()
    for index, heading in enumerate(table.headings()):
        number = any(isinstance(row[index], int | float) for row in table.rows)
        widest = max((len(row[index]) for row in cells), default=0)
        # Headings and sentences wrap; numbers and names do not.
        box.add_column(heading, justify="right" if number else "left", min_width=min(widest, _WORDS), overflow="fold")
    for row in cells:
        box.add_row(*row)
    return box


def overview(studies: Sequence[Study]) -> Iterator[RenderableType]:
    """All verdicts of several figures in one table."""
    held = sum(verdict.holds for study in studies for verdict in study.verdicts)
    total = sum(len(study.verdicts) for study in studies)
    box = Drawn(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    for heading in ("figure", "claim", "verdict", "measured"):
        box.add_column(heading, no_wrap=heading != "measured")
    for study in studies:
        for verdict in study.verdicts:
            style = "green" if verdict.holds else "red"
            box.add_row(study.experiment.name, verdict.claim.id, Text(verdict.word, style=style), verdict.measured)
    yield Text(f"{held} of {counted(total, 'claim')} hold", style="bold")
    yield box
