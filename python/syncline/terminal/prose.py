"""Wraps sentences for a terminal."""

from __future__ import annotations

import re
from textwrap import wrap

MAX_WIDTH = 100
"""Columns beyond which lines are hard to read."""

_QUANTITY = re.compile(r"(?<=\d) (?=(?:%|[kMGTPE]i?B|B|[kMGTPE]?B/s|[munp]?s)(?!\w))")
"""The space between a number and its unit."""


def lines(text: str, width: int, indent: str = "", hanging: str | None = None) -> str:
    """``text`` in lines of at most ``width`` columns, with no break between a number and its unit."""
    kept = _QUANTITY.sub("\N{NO-BREAK SPACE}", text)
    found = wrap(
        kept,
        max(min(width, MAX_WIDTH), 20),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
    )
    return "\n".join(found).replace("\N{NO-BREAK SPACE}", " ")
