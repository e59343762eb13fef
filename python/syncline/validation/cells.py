"""Whether predictions find the fastest configuration of a cell: a model on a number of servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.validation.outcome import Outcome

NEAR = 0.05
"""How much slower than the fastest measured configuration the chosen one may be."""
FIRST = 3
"""Among how many predicted configurations the fastest measured one should be."""
NEAR_BAR, FIRST_BAR = 14 / 22, 20 / 22
"""The fractions of cells that must be near, and that must hold the fastest among the first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A model on a number of servers, and the configuration that is predicted to be the fastest."""

    model: str
    servers: int
    rows: int
    """Configurations that ran."""
    fastest: Outcome
    """The fastest measured configuration."""
    chosen: Outcome
    """The one that is predicted to be the fastest, of those that ran."""
    rank: int
    """Place of the fastest measured configuration in the order of predictions, from 1."""

    @property
    def loss(self) -> float:
        """How much longer a token takes with the chosen configuration than with the fastest, as a fraction."""
        return _measured(self.chosen) / _measured(self.fastest) - 1

    @property
    def near(self) -> bool:
        """Whether the chosen configuration is nearly as fast as the fastest."""
        return self.loss <= NEAR

    @property
    def among_first(self) -> bool:
        """Whether the fastest configuration is among the first predicted ones."""
        return self.rank <= FIRST


def cells(outcomes: Iterable[Outcome]) -> list[Cell]:
    """The cells of nanotron's rows that ran, by model and servers. Refused rows are predicted to be the slowest."""
    found: dict[tuple[str, int], list[Outcome]] = {}
    for each in outcomes:
        if each.run.dataset == "nanotron" and each.run.step_s is not None:
            servers = each.run.gpus // each.cluster.host
            found.setdefault((each.run.model, servers), []).append(each)
    return [_cell(model, servers, rows) for (model, servers), rows in sorted(found.items())]


def _cell(model: str, servers: int, rows: Sequence[Outcome]) -> Cell:
    # Equal predictions count against the predictor: tables list fast configurations first, so the order of rows would
    # give the answer away.
    order = sorted(rows, key=lambda each: (_predicted(each), -_measured(each), each.run.id))
    fastest = min(rows, key=lambda each: (_measured(each), each.run.id))
    return Cell(model, servers, len(rows), fastest, order[0], 1 + order.index(fastest))


def _tokens(of: Outcome) -> int:
    return of.run.global_batch * of.run.sequence


def _measured(of: Outcome) -> float:
    return (of.run.step_s or 0.0) / _tokens(of)


def _predicted(of: Outcome) -> float:
    return float("inf") if of.prediction is None else of.prediction.step_s / _tokens(of)
