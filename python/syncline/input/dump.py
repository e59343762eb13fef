"""Writes plain values as YAML, always in the same way, so that equal scenarios give equal files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from syncline.input.yaml import scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./()-]*|[0-9.]+[A-Za-z][A-Za-z/]*")
_WORDS = frozenset(("yes", "no", "on", "off", "y", "n"))
"""Words that YAML 1.1 parsers read as true or false."""


def dump(value: Any) -> str:
    """``value`` as a YAML document."""
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _entry(f"{pad}{_scalar(key)}:", each, depth)
    elif isinstance(value, list) and value:
        for each in value:
            if isinstance(each, dict) and each:
                first, *rest = _lines(each, depth + 1)
                yield f"{pad}- {first.lstrip()}"
                yield from rest
            else:
                yield from _entry(f"{pad}-", each, depth)
    else:
        yield f"{pad}{_scalar(value)}"


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    flat = isinstance(value, list) and not any(isinstance(each, (dict, list)) for each in value)
    if isinstance(value, (dict, list)) and value and not flat:
        yield head
        yield from _lines(value, depth + 1)
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS and scalar(value) == value
        return value if plain else _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(_scalar(each) for each in value)}]"
    return json.dumps(value)


def _quoted(value: str) -> str:
    """``value`` in double quotes. Unprintable characters become 32-bit escapes, which YAML has and JSON lacks."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
