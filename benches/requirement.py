"""How benches print lines, and say whether measurements meet what is required of them."""

from __future__ import annotations

import sys


def print_out(text: str) -> None:
    """Prints a line at once, even into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def outcome(*, reached: bool) -> str:
    """Returns the word for a requirement that is reached, or not."""
    return "reached" if reached else "NOT reached"


def requirement(value: float, bar: float, *, least: bool = True) -> str:
    """Says whether ``value`` meets ``bar``, the smallest allowed value (``least``) or the largest."""
    return f"(required: {bar:g}, {outcome(reached=value >= bar if least else value <= bar)})"
