"""Figures that a repository keeps, so that they do not get worse, and of which estimates take their error bars."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from syncline.validation.alike_rows import Alike
    from syncline.validation.figures import Validation
    from syncline.validation.outcome import Spread

SLACK = 0.0005
"""How much a figure may grow before it counts as worse: half of the last digit that is shown."""


def recorded(found: Validation, alike: Mapping[str, Alike] | None = None) -> str:
    """The figures as a repository keeps them: a line for each number, so that a change of one shows in a diff.

    ``alike`` has the errors of rows that are alike, by :func:`~.alike_rows.alike`.
    """
    kept: dict[str, Any] = {}
    for each in found.groups:
        kept[each.name] = {"rows": each.rows, "refused": each.refused, **_numbers(each.step)}
    kept["memory"] = {**_numbers(found.memory)}
    if found.memory_fits is not None:
        kept["memory"]["fits"] = round(found.memory_fits.accuracy, 4)
    if found.cells:
        kept["fastest"] = {
            "cells": len(found.cells),
            "near": sum(each.near for each in found.cells),
            "among_first": sum(each.among_first for each in found.cells),
        }
    for name, rows in (alike or {}).items():
        kept[name] = {"rows": rows.step.rows, **_numbers(rows.step), "gpus": rows.gpus, "sequence": rows.sequence}
    return json.dumps(kept, indent=1) + "\n"


def _numbers(found: Spread | None) -> dict[str, float]:
    if found is None:
        return {}
    return {name: round(getattr(found, name), 4) for name in ("median", "mean", "p90", "largest")}


def worse(now: str, before: str) -> list[str]:
    """What is worse in ``now`` than in ``before``, both made by :func:`recorded`, in sentences; empty: nothing."""
    new, old = json.loads(now), json.loads(before)
    found: list[str] = []
    for name, numbers in old.items():
        if name not in new:
            found.append(f"{name} is missing")
            continue
        for key, value in numbers.items():
            found += _worse(f"{name}: {key}", key, new[name].get(key), value)
    return found


_LARGER_IS_BETTER = ("rows", "cells", "near", "among_first", "fits", "gpus", "sequence")


def _worse(where: str, key: str, new: float | None, old: float) -> Iterable[str]:
    if new is None:
        yield f"{where} is missing; it was {old:g}"
    elif (new < old - SLACK) if key in _LARGER_IS_BETTER else (new > old + SLACK):
        yield f"{where} is {new:g}; it was {old:g}"
