"""Searches with several numbers of accelerators, and the frontier of time against accelerator-hours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.design.parallel.objective import Costs, Objective, hours
from syncline.design.parallel.search_configurations import search
from syncline.errors import SynclineError
from syncline.input.problem import error, raise_errors
from syncline.models import ModelError, accelerators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.parallel.search_configurations import Configuration, Found, Request
    from syncline.errors import Diagnostic
    from syncline.estimate import Software


@dataclass(frozen=True)
class Refused:
    """A number of accelerators without an answer."""

    gpus: int
    reason: str
    """Why: nothing fits, or the batch cannot be divided."""


@dataclass(frozen=True)
class Sweep:
    """Searches of one job with one or more numbers of accelerators."""

    founds: tuple[Found, ...]
    """What was found, by rising numbers of accelerators."""
    refused: tuple[Refused, ...]
    """Numbers with which nothing was found."""
    objective: Objective
    costs: Costs

    @property
    def best(self) -> Found:
        """The search whose best configuration is the best of all."""
        return min(self.founds, key=lambda each: self.costs.score(each.best[0], self.objective))

    @property
    def frontier(self) -> tuple[Found, ...]:
        """Searches whose best configuration none beats in both time and accelerator-hours, the slowest first."""
        return tuple(
            each for each in self.founds if not any(_beats(other.best[0], each.best[0]) for other in self.founds)
        )

    def others(self, count: int) -> list[Configuration]:
        """The best configurations that differ from the winner in an axis, over all numbers of accelerators."""
        found = self.best
        winner = found.best[0]
        every = [each for search in self.founds for each in search.best if each.plan != winner.plan]
        return sorted(every, key=lambda each: self.costs.score(each, self.objective))[:count]


def _beats(one: Configuration, other: Configuration) -> bool:
    pairs = ((one.step_s, other.step_s), (hours(one), hours(other)))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def sweep(
    requests: Sequence[Request],
    objective: Objective = Objective.TIME,
    costs: Costs | None = None,
    software: Software | None = None,
) -> Sweep:
    """Searches with each request; they differ only in their numbers of accelerators. Without costs, those of the board.

    :raises SynclineError: nothing fits with any number, or kernels of the precision were not measured; the error
        is that of the largest number.
    """
    if costs is None:
        draws = board_power(requests[0])
        if draws is None and objective is Objective.ENERGY:
            raise_errors(unknown_power(requests[0]))
        costs = Costs(draws or 0.0)
    waiting = costs.waiting if objective is Objective.ENERGY else 1.0
    founds, refused = [], []
    last: SynclineError | None = None
    for request in sorted(requests, key=lambda each: each.gpus):
        try:
            founds.append(search(replace(request, waiting=waiting), software))
        except SynclineError as problem:
            first = problem.diagnostics[0]
            refused.append(Refused(request.gpus, "; ".join((first["message"], *first.get("notes", [])))))
            last = problem
    if not founds and last is not None:
        raise last
    return Sweep(tuple(founds), tuple(refused), objective, costs)


def unknown_power(request: Request) -> Diagnostic:
    """The error for an accelerator whose power nothing says."""
    return error(
        Code.MISSING_KEY,
        "the power of this accelerator is not known",
        key="power",
        found=request.machine.accelerator,
        help="add `--power 700W`, or in Python the argument `costs`",
    )


def board_power(request: Request) -> float | None:
    """What the board of the accelerator draws at most, in watts; None if its data sheet is not known."""
    try:
        return accelerators.find(request.machine.accelerator).board_w
    except ModelError:
        return None
