"""Numbers as people read them: four digits and a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))
_LARGE = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def digits(value: float) -> str:
    """``value`` with four significant digits, and all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def time(seconds: float) -> str:
    """``81.6 ms``."""
    factor, unit = next((each for each in _TIMES if seconds >= each[0] * 0.99995), _TIMES[-1])
    return f"{digits(seconds / factor)} {unit}" if seconds else "0 s"


def size(count: float) -> str:
    """``64 MiB`` where that is exact, else ``4.907 GB``."""
    if count == int(count):
        for factor, unit in _BINARY:
            if factor <= count < 1024 * factor and int(count) % factor == 0:
                return f"{int(count) // factor} {unit}"
    return scaled(count, "B")


def rate(bytes_per_s: float) -> str:
    """``25 GB/s``."""
    return scaled(bytes_per_s, "B/s")


def scaled(value: float, unit: str) -> str:
    """``value`` with a decimal prefix."""
    factor, prefix = next((each for each in _LARGE if value >= each[0] * 0.99995), _LARGE[-1])
    return f"{digits(value / factor)} {prefix}{unit}"


def percent(fraction: float) -> str:
    """``3.2 %``; what is neither nothing nor all is never shown as such."""
    text = f"{100 * fraction:.1f}"
    if text == "0.0" and fraction > 0:
        return "< 0.1 %"
    if text == "100.0" and fraction < 1:
        return "> 99.9 %"
    return f"{text} %"


def counted(count: int, word: str) -> str:
    """``1 layer``, ``54 layers``, ``2 micro-batches``."""
    ending = "es" if word.endswith("ch") else "s"
    return f"{count} {word}{'' if count == 1 else ending}"


def listed(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(each for each in (", ".join(parts[:-1]), *parts[-1:]) if each)


def signed(seconds: float) -> str:
    """``+1.2 ms``, ``-340 us``: a difference of times."""
    return f"{'+' if seconds > 0 else '-' if seconds < 0 else ''}{time(abs(seconds))}"
