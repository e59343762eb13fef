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


def duration(seconds: float) -> str:
    """``2 h 11 min``, ``2 min 5 s``, ``5 s``: for whoever waits."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: float) -> str:
    """``64 MiB`` where that is exact, else ``4.907 GB``."""
    if count == int(count):
        for factor, unit in _BINARY:
            if factor <= count < 1024 * factor and int(count) % factor == 0:
                return f"{int(count) // factor} {unit}"
    return scaled(count, "B")


def memory(count: float) -> str:
    """``74.51 GiB``: bytes of an NPU's memory, which comes in binary units."""
    factor, unit = next((each for each in _BINARY if count >= each[0] * 0.99995), (1, "B"))
    return f"{digits(count / factor)} {unit}"


def rate(bytes_per_s: float) -> str:
    """``25 GB/s``."""
    return scaled(bytes_per_s, "B/s")


def scaled(value: float, unit: str) -> str:
    """``value`` with a decimal prefix."""
    factor, prefix = next((each for each in _LARGE if value >= each[0] * 0.99995), _LARGE[-1])
    return f"{digits(value / factor)} {prefix}{unit}"


def money(usd: float) -> str:
    """``$2,220``, ``$31.25``, ``$4.536 M``."""
    for factor, unit in ((1e9, " G"), (1e6, " M")):
        if usd >= factor * 0.99995:
            return f"${digits(usd / factor)}{unit}"
    return f"${usd:,.0f}" if usd >= 1000 or usd == int(usd) else f"${usd:,.2f}"


def component(name: str) -> str:
    """A component of a bill as people call it: ``NIC``, ``switch port``."""
    return name.upper() if name in ("nic", "npu") else name.replace("_", " ").replace("ocs", "OCS")


def worth(key: str, value: float | None, *, signed: bool = False) -> str:
    """A key of the summary about cost: ``$2,220``, ``12 kW``; iterations a second per million dollars, per kilowatt."""
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
    """Training iterations a second for each dollar, as people can read them: ``3.2 iterations/s per $1 M``."""
    return f"{digits(per_usd * 1e6)} iterations/s per $1 M"


def per_kilowatt(per_w: float) -> str:
    """Training iterations a second for each watt: ``0.4 iterations/s per kW``."""
    return f"{digits(per_w * 1e3)} iterations/s per kW"


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
