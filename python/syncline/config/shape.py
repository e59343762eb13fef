"""Reads sizes of regular fabrics that are given as one word: ``Ring(4)_FC(2)_Switch(8)``, ``2x4x4``."""

from __future__ import annotations

import math

from syncline import _core
from syncline.input.base import validation_error
from syncline.input.problem import nearest, shown

_SHAPES = ("Ring", "FC", "FullyConnected", "Switch")


def check_shape(text: str) -> str:
    """Raises an error unless ``text`` is a shape in the notation of hier2021."""
    try:
        _core.parse_shape(text)
    except ValueError as unreadable:
        problem, remedy, part, at = unreadable.args
        raise validation_error(
            problem,
            found=part[:60] or shown(text),
            nearest=nearest(part, _SHAPES) if part.isalpha() else None,
            help=remedy,
            part=[at, len(part)],
        ) from None
    return text.strip()


def check_sizes(text: str, count: int, example: str) -> str:
    """Raises an error unless ``text`` is ``count`` sizes joined by ``x``; returns it in lower case."""
    parts = text.strip().lower().split("x")
    if len(parts) != count or not all(part.isascii() and part.isdigit() and 0 < len(part) < 11 for part in parts):
        raise validation_error(
            f"must be {count} sizes joined by `x`", found=shown(text), help=f"write it like {example}"
        )
    if not 0 < math.prod(int(part) for part in parts) < 2**32:
        raise validation_error("must give from 1 to 2^32 - 1 NPUs", found=shown(text), help=f"write it like {example}")
    return text.strip().lower()


def sizes(text: str) -> list[int]:
    """The numbers of a text that passed :func:`check_sizes`."""
    return [int(part) for part in text.split("x")]
