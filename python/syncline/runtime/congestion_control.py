"""The TCP congestion controls of this kernel."""

from __future__ import annotations

from pathlib import Path

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available() -> list[str] | None:
    """Returns the congestion controls of this kernel, or ``None`` if it does not report them."""
    try:
        return _AVAILABLE.read_text("ascii").split()
    except OSError:
        return None


def check(name: str | None, *, key: str = "congestion", code: str = Code.BAD_VALUE) -> None:
    """Raises :class:`SynclineError` if this kernel has no congestion control of that name."""
    known = available()
    if name is None or known is None or name in known:
        return
    raise_errors(
        error(
            code,
            "this kernel has no such congestion control",
            key=key,
            found=name,
            allowed=", ".join(known),
            nearest=nearest(name, known),
            help=f"load it with modprobe tcp_{name}, or choose another one",
        )
    )
