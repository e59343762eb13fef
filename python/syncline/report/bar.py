"""Bars made of block characters, and of plain ones where the terminal has no others."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(fraction: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar that fills ``fraction`` of ``width`` characters; what is there at all is seen."""
    fraction = min(max(fraction, 0.0), 1.0)
    if ascii_only:
        filled = max(round(fraction * width), 1 if fraction > 0 else 0)
        return "#" * filled + "." * (width - filled)
    eighths = max(round(fraction * width * 8), 1 if fraction > 0 else 0)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text + " " * (width - len(text))
