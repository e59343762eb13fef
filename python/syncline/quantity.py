"""Formats numbers for people: four digits and a unit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "component",
    "counted",
    "digits",
    "duration",
    "listed",
    "memory",
    "money",
    "npu_name",
    "npu_number",
    "per_kilowatt",
    "per_million",
    "percent",
    "rate",
    "scaled",
    "signed",
    "size",
    "time",
    "worth",
]


_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))
_LARGE = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def digits(value: float) -> str:
    """``value`` with four significant digits, but at least all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def time(seconds: float) -> str:
    """A time, such as ``81.6 ms``."""
    factor, unit = next((each for each in _TIMES if seconds >= each[0] * 0.99995), _TIMES[-1])
    return f"{digits(seconds / factor)} {unit}" if seconds else "0 s"


def duration(seconds: float) -> str:
    """A wall-clock time: ``2 h 11 min``, ``2 min 5 s``, ``5 s``."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: float) -> str:
    """A number of bytes: ``64 MiB`` if that is exact, else ``4.907 GB``."""
    if count == int(count):
        for factor, unit in _BINARY:
            if factor <= count < 1024 * factor and int(count) % factor == 0:
                return f"{int(count) // factor} {unit}"
    return scaled(count, "B")


def memory(count: float) -> str:
    """Bytes of an NPU's memory, in binary units as memory is sold: ``74.51 GiB``."""
    factor, unit = next((each for each in _BINARY if count >= each[0] * 0.99995), (1, "B"))
    return f"{digits(count / factor)} {unit}"


def rate(bytes_per_s: float) -> str:
    """A rate, such as ``25 GB/s``."""
    return scaled(bytes_per_s, "B/s")


def scaled(value: float, unit: str) -> str:
    """``value`` with a decimal prefix."""
    factor, prefix = next((each for each in _LARGE if value >= each[0] * 0.99995), _LARGE[-1])
    return f"{digits(value / factor)} {prefix}{unit}"


def money(usd: float) -> str:
    """An amount of US dollars: ``$2,220``, ``$31.25``, ``$4.536 M``."""
    for factor, unit in ((1e9, " G"), (1e6, " M")):
        if usd >= factor * 0.99995:
            return f"${digits(usd / factor)}{unit}"
    return f"${usd:,.0f}" if usd >= 1000 or usd == int(usd) else f"${usd:,.2f}"


def component(name: str) -> str:
    """The name of a component of a bill, for people: ``NIC``, ``switch port``."""
    return name.upper() if name in ("nic", "npu") else name.replace("_", " ").replace("ocs", "OCS")


def npu_name(number: int) -> str:
    """The name of an NPU in tables, if the user gave none: ``NPU 3``."""
    return f"NPU {number}"


def npu_number(name: str) -> int | None:
    """The number of the NPU with a name of :func:`npu_name`; None for any other name, such as that of a switch."""
    found = re.fullmatch(r"NPU (\d+)", name)
    return int(found[1]) if found else None


def worth(key: str, value: float | None, *, signed: bool = False) -> str:
    """The value of a summary key about cost or power: ``$2,220``, ``12 kW``, or a number for performance.

    Performance is in iterations per second per million dollars, or per kilowatt.
    """
    if value is None:
        return "-"
    sign = ("+" if value > 0 else "-" if value < 0 else "") if signed else ""
    value = abs(value)
    match key:
        case "cost_usd":
            return f"{sign}{money(value)}"
        case "power_w":
            return f"{sign}{scaled(value, 'W')}"
        case "iterations_per_s_per_w":
            return f"{sign}{digits(value * 1e3)}"
        case _:
            return f"{sign}{digits(value * 1e6)}"


def per_million(per_usd: float) -> str:
    """Training iterations per second per dollar, scaled to a million dollars: ``3.2 iterations/s per $1 M``."""
    return f"{digits(per_usd * 1e6)} iterations/s per $1 M"


def per_kilowatt(per_w: float) -> str:
    """Training iterations per second per watt, scaled to a kilowatt: ``0.4 iterations/s per kW``."""
    return f"{digits(per_w * 1e3)} iterations/s per kW"


def percent(fraction: float) -> str:
    """A percentage, such as ``3.2 %``. Only 0 is shown as ``0.0 %``, and only 1 as ``100.0 %``."""
    text = f"{100 * fraction:.1f}"
    if text == "0.0" and fraction > 0:
        return "< 0.1 %"
    if text == "100.0" and fraction < 1:
        return "> 99.9 %"
    return f"{text} %"


def counted(count: int, word: str) -> str:
    """A number with its noun: ``1 layer``, ``54 layers``, ``2 micro-batches``, ``3 topologies``."""
    if count == 1:
        return f"1 {word}"
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{count} {word[:-1]}ies"
    return f"{count} {word}{'es' if word.endswith('ch') else 's'}"


def listed(parts: Sequence[str]) -> str:
    """A list in words: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(each for each in (", ".join(parts[:-1]), *parts[-1:]) if each)


def signed(seconds: float) -> str:
    """A difference of times: ``+1.2 ms``, ``-340 us``."""
    return f"{'+' if seconds > 0 else '-' if seconds < 0 else ''}{time(abs(seconds))}"
