"""Where members are, as users and launchers say it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

LAST_PORT = 65_535


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
    host, colon, port = address.strip().rpartition(":")
    if not colon or "]" in port or (":" in host and not host.startswith("[")):
        host, port = address.strip(), str(default)
    if not host:
        raise refusal("an address names a host", address or "nothing", "HOST or HOST:PORT")
    if not (port.isascii() and port.isdecimal() and int(port) <= LAST_PORT):
        raise refusal("this is no port", f"{port} in {address}", f"HOST or HOST:PORT, with a port of 0 to {LAST_PORT}")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise refusal("the address is not known", f"{host}: {why}", "HOST or HOST:PORT") from None
    return str(found[0][4][0]), int(found[0][4][1])


def with_port(host: str, port: int) -> str:
    """``HOST:PORT`` or ``[IPV6]:PORT``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
