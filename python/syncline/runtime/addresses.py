"""Where members are, as users and launchers say it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from syncline.config.problem import shown
from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

LAST_PORT = 65_535
PORT_DIGITS = 5
"""Digits that a port has at most, zeros in front of it included."""


def setting(environment: Mapping[str, str], name: str, given: int | None) -> int:
    """A number that is given, or that a launcher tells."""
    if given is not None:
        return given
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        found = environment.get(name, "nothing")
        raise refusal(f"the environment does not tell `{name}`", found, "a whole number, or the argument") from None


def resolve(address: str, default: int) -> tuple[str, int]:
    """The address and port of ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``; port ``default`` where none is said."""
    host, port = _parts(address.strip(), str(default))
    if not host:
        raise refusal("an address names a host", address or "nothing", "HOST or HOST:PORT")
    if not (port.isascii() and port.isdecimal() and len(port) <= PORT_DIGITS and int(port) <= LAST_PORT):
        what = "this is no port" if port else "a colon has no port behind it"
        raise refusal(what, shown(address), f"HOST or HOST:PORT, with a port of 0 to {LAST_PORT}")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise refusal("the address is not known", f"{host}: {why}", "HOST or HOST:PORT") from None
    return str(found[0][4][0]), int(found[0][4][1])


def _parts(address: str, default: str) -> tuple[str, str]:
    """Host and port of an address, the host without brackets."""
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if not closed or rest[:1] not in ("", ":"):
            raise refusal("the brackets of an address are round its host", address, "[IPV6] or [IPV6]:PORT")
        return host, rest[1:] if rest else default
    host, colon, port = address.rpartition(":")
    # An address of version 6 has colons of its own.
    return (address, default) if not colon or ":" in host else (host, port)


def with_port(host: str, port: int) -> str:
    """``HOST:PORT`` or ``[IPV6]:PORT``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
