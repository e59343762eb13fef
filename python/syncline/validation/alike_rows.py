"""Errors of rows that are alike, by constants, accelerator and kind of job: the error bars of estimates.

The groups of :mod:`~.groups` follow sources, and have bars; these follow what a user asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.estimate import kind_of, shipped
from syncline.estimate.error_bars import name_of
from syncline.estimate.software import choose
from syncline.models import accelerators
from syncline.models.errors import ModelError
from syncline.validation.outcome import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.validation.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Alike:
    """Errors of some rows, and how far these rows reach."""

    step: Spread
    gpus: int
    """The most accelerators of a row."""
    sequence: int
    """The longest sequence of a row, in tokens."""


def alike(outcomes: Iterable[Outcome]) -> dict[str, Alike]:
    """Errors of rows that are alike, by :func:`~syncline.estimate.error_bars.name_of`, in alphabetical order.

    Rows of full fine-tuning are left out: their sequences are packed, which estimates do not know.
    """
    found: dict[str, list[Outcome]] = {}
    for each in outcomes:
        name = _name(each)
        if name is not None and each.error is not None and each.run.task != "sft":
            found.setdefault(name, []).append(each)
    return {name: made for name in sorted(found) if (made := _of(found[name])) is not None}


def _name(outcome: Outcome) -> str | None:
    run = outcome.run
    constants = choose(shipped(), run.framework or "megatron", outcome.cluster.accelerator)
    if constants is None:
        return None
    try:
        accelerator = accelerators.find(outcome.cluster.accelerator).name
    except ModelError:
        return None
    return name_of(constants, accelerator, kind_of(outcome.model, adapters=run.task == "lora"))


def _of(rows: list[Outcome]) -> Alike | None:
    step = Spread.of([each.error for each in rows if each.error is not None])
    if step is None:
        return None
    return Alike(step, max(each.run.gpus for each in rows), max(each.run.sequence for each in rows))
