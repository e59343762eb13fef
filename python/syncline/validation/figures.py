"""The figures of a validation: errors by group and by source, memory, fits, fastest configurations, outliers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from syncline.validation.cells import FIRST_BAR, NEAR_BAR, Cell, cells
from syncline.validation.folder import Remarks
from syncline.validation.groups import MEMORY, SOURCES, Bar, group, grouped, in_memory_bar
from syncline.validation.outcome import Fits, Outcome, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.validation.runs import Excluded


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of some rows."""

    name: str
    title: str
    rows: int
    refused: int
    """Rows that the predictor refuses."""
    step: Spread | None
    """Errors of the step; None if no row has one."""
    memory: Spread | None
    fits: Fits | None
    calibrates: Mapping[str, int]
    """How many rows each set of constants may be fitted to."""
    bar: Bar | None = None
    missed: tuple[str, ...] = ()
    """The bars that are missed."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A row whose error is beyond twice the bar of its group."""

    outcome: Outcome
    group: str
    error: float
    explanation: str | None
    """None: unexplained."""
    seen: str | None = None
    """What was found of it, if it is unexplained; None: nobody has looked into it."""


@dataclass(frozen=True, slots=True)
class Validation:
    """All rows with their predictions, and the figures of them."""

    outcomes: Sequence[Outcome]
    excluded: Sequence[Excluded]
    groups: Sequence[Figures]
    sources: Sequence[Figures]
    memory: Spread | None
    """Errors of memory in the rows of :data:`~.groups.MEMORY`."""
    memory_fits: Fits | None
    memory_missed: Sequence[str]
    cells: Sequence[Cell]
    outliers: Sequence[Outlier]

    @property
    def missed(self) -> list[str]:
        """All bars that are missed, as ``group: bar``."""
        found = [f"{each.name}: {bar}" for each in self.groups for bar in each.missed]
        found += [f"memory: {bar}" for bar in self.memory_missed]
        if self.cells:
            near = sum(each.near for each in self.cells) / len(self.cells)
            first = sum(each.among_first for each in self.cells) / len(self.cells)
            found += ["fastest: near"] if near < NEAR_BAR else []
            found += ["fastest: among the first"] if first < FIRST_BAR else []
        return found

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        return {
            "groups": [_figures(each) for each in self.groups],
            "sources": [_figures(each) for each in self.sources],
            "memory": {
                "step": None,
                "memory": _spread(self.memory),
                "fits": _fits(self.memory_fits),
                "missed": list(self.memory_missed),
            },
            "cells": [
                {
                    "model": each.model,
                    "servers": each.servers,
                    "rows": each.rows,
                    "fastest": each.fastest.run.id,
                    "chosen": each.chosen.run.id,
                    "loss": each.loss,
                    "rank": each.rank,
                }
                for each in self.cells
            ],
            "missed": self.missed,
            "outliers": [
                {
                    "id": each.outcome.run.id,
                    "group": each.group,
                    "error": each.error,
                    "explanation": each.explanation,
                    "seen": each.seen,
                }
                for each in self.outliers
            ],
            "rows": [_row(each) for each in self.outcomes],
            "refused": [{"id": each.run.id, "reason": each.refused} for each in self.outcomes if each.refused],
            "excluded": [{"id": each.id, "reason": each.reason} for each in self.excluded],
        }


def validated(
    outcomes: Sequence[Outcome], excluded: Sequence[Excluded] = (), remarks: Remarks | None = None
) -> Validation:
    """The figures of predicted rows. ``remarks`` says what is known of outliers."""
    known = remarks or Remarks.none()
    of_groups = grouped(outcomes)
    groups, outliers = [], []
    for name, rows in of_groups.items():
        found = group(name)
        groups.append(_of(name, found.title, rows, found.bar))
        beyond = None if found.bar is None else found.bar.outlier
        outliers += [
            Outlier(each, name, each.error, known.explained.get(each.run.id), known.seen.get(each.run.id))
            for each in rows
            if beyond is not None and each.error is not None and abs(each.error) > beyond
        ]
    of_sources: dict[str, list[Outcome]] = {}
    for each in outcomes:
        of_sources.setdefault(each.run.dataset, []).append(each)
    counted = [each for each in outcomes if in_memory_bar(each)]
    memory = Spread.of([each.memory_error for each in counted if each.memory_error is not None])
    fits = Fits.of(counted)
    return Validation(
        outcomes=outcomes,
        excluded=excluded,
        groups=groups,
        sources=[_of(name, SOURCES.get(name, name), rows) for name, rows in of_sources.items()],
        memory=memory,
        memory_fits=fits,
        memory_missed=MEMORY.missed(memory, fits),
        cells=cells(outcomes),
        outliers=sorted(outliers, key=lambda each: -abs(each.error)),
    )


def _of(name: str, title: str, rows: Sequence[Outcome], bar: Bar | None = None) -> Figures:
    step = Spread.of([each.error for each in rows if each.error is not None])
    sets: dict[str, int] = {}
    for each in rows:
        for constants in (each.run.calibrates or "").split():
            sets[constants] = sets.get(constants, 0) + 1
    refused = sum(each.prediction is None for each in rows)
    missed = [] if bar is None else bar.missed(step)
    return Figures(
        name=name,
        title=title,
        rows=len(rows),
        refused=refused,
        step=step,
        memory=Spread.of([each.memory_error for each in rows if each.memory_error is not None]),
        fits=Fits.of(rows),
        calibrates=sets,
        bar=bar,
        # A row that is refused cannot keep a bar.
        missed=tuple([*missed, "refused"] if bar is not None and refused else missed),
    )


def _row(found: Outcome) -> dict[str, Any]:
    predicted = found.prediction
    return {
        "id": found.run.id,
        "measured_s": found.run.step_s,
        "predicted_s": None if predicted is None else predicted.step_s,
        "error": found.error,
        "measured_memory_bytes": found.run.memory_bytes,
        "predicted_memory_bytes": None if predicted is None else predicted.memory_bytes,
        "memory_error": found.memory_error,
        "ran": found.ran,
        "fits": found.fits,
    }


def _spread(found: Spread | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _fits(found: Fits | None) -> dict[str, Any] | None:
    return None if found is None else {**asdict(found), "accuracy": found.accuracy}


def _figures(found: Figures) -> dict[str, Any]:
    return {
        "name": found.name,
        "title": found.title,
        "rows": found.rows,
        "refused": found.refused,
        "step": _spread(found.step),
        "memory": _spread(found.memory),
        "fits": _fits(found.fits),
        "calibrates": dict(found.calibrates),
        "bar": None if found.bar is None else asdict(found.bar),
        "missed": list(found.missed),
    }
