"""TCP's congestion controls."""

from __future__ import annotations

from pathlib import Path

from syncline.config.problem import error, nearest, refuse

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available() -> list[str] | None:
    """Those that this kernel has, or nothing where it does not say."""
    try:
        return _AVAILABLE.read_text("ascii").split()
    except OSError:
        return None


def check(name: str | None, *, key: str = "congestion", code: str = "SL0102") -> None:
    """Raises :class:`SynclineError` where this kernel has no such congestion control."""
    known = available()
    if name is None or known is None or name in known:
        return
    refuse(
        error(
            code,
            "this kernel has no such congestion control",
            key=key,
            found=name,
            allowed=", ".join(known),
            nearest=nearest(name, known),
            help=f"modprobe tcp_{name}, or choose another one",
        )
    )
