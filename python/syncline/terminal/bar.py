"""Bars made of block characters, or of ASCII characters for terminals without the former."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(fraction: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar that fills ``fraction`` of ``width`` characters; a fraction above 0 is always visible."""
    fraction = min(max(fraction, 0.0), 1.0)
    if ascii_only:
        filled = max(round(fraction * width), 1 if fraction > 0 else 0)
        return "#" * filled + "." * (width - filled)
    eighths = max(round(fraction * width * 8), 1 if fraction > 0 else 0)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text + " " * (width - len(text))
