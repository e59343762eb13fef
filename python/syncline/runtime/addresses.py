"""Where members are, as users and launchers say it."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from syncline.config.problem import shown
from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAST_PORT = 65_535
BEYOND = ("192.0.2.1", "2001:db8::1")
"""Addresses in networks that are nobody's (RFC 5737, RFC 3849): what goes there takes the way to the outside."""
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
    """The first address and port of ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``; port ``default`` where none is said."""
    return resolve_all(address, default)[0]


def resolve_all(address: str, default: int) -> list[tuple[str, int]]:
    """All addresses of ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``, in the system's order, each with the port."""
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
    return list(dict.fromkeys((str(each[4][0]), int(each[4][1])) for each in found))


def listening(address: str, default: int, interfaces: Sequence[Interface], own: str | None) -> list[tuple[str, int]]:
    """Where rank 0 listens: at ``own``, where that is said, or at all of ``address``, where others look for it.

    A name that means this machine alone here (``127.0.1.1``, as some systems have it in ``/etc/hosts``) means another
    of its addresses elsewhere: then rank 0 listens at its interfaces, too.
    """
    if own is not None:
        return resolve_all(own, default)
    found = resolve_all(address, default)
    host, _ = _parts(address.strip(), "0")
    beyond = [each.listen for each in interfaces if not is_loopback(each.listen)]
    if beyond and not is_literal(host) and host != "localhost" and all(is_loopback(each) for each, _ in found):
        found = [*((each, found[0][1]) for each in dict.fromkeys(beyond)), *found]
    return found


def is_literal(host: str) -> bool:
    """Whether it is an address itself, and no name of one."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether an address means this machine alone."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def toward(host: str) -> str | None:
    """The address from which this host reaches another; none where it does not, or only from one of a single link.

    A name that means this machine alone here may mean another of its addresses elsewhere: then it is the address from
    which this host reaches networks beyond, where there is one.
    """
    found = _sources(host)
    if host != "localhost" and not is_literal(host) and found and all(is_loopback(each) for each in found):
        beyond = [each for net in BEYOND for each in _sources(net)]
        found = [each for each in beyond if not is_loopback(each)] or found
    return found[0] if found else None


def _sources(host: str) -> list[str]:
    """The addresses from which this host reaches another."""
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    sources = []
    for family, kind, _, _, address in found:
        # Nothing is sent: the system says which of its addresses it would send from.
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(address)
                own = str(probe.getsockname()[0])
        except OSError:
            continue
        if not ipaddress.ip_address(own.partition("%")[0]).is_link_local:
            sources.append(own)
    return sources


@dataclass(frozen=True)
class Interface:
    """An interface of this host."""

    told: str
    """The address at which others find it."""
    listen: str
    """The address at which this host listens, and from which it connects."""

    @classmethod
    def read(cls, text: str) -> Self:
        """An interface, as users say it: ``ADDRESS``, or ``ADDRESS@LISTEN`` where others find it at another address.

        Raises ``SynclineError`` where that is no address.
        """
        told, at, listen = text.strip().partition("@")
        for each in (told, listen) if at else (told,):
            if not is_literal(each):
                allowed = "an address, or ADDRESS@LISTEN where others find it at another than it has"
                raise refusal("an interface is an address of this host", shown(text), allowed)
        return cls(told, listen if at else told)


def port_range(text: str | None) -> tuple[int, int] | None:
    """The first and the last port of ``29500-29599``, or of one port.

    Raises ``SynclineError`` where that is none.
    """
    if text is None:
        return None
    first, dash, last = text.strip().partition("-")
    ports = [first, last if dash else first]
    if not all(each.isascii() and each.isdecimal() and len(each) <= PORT_DIGITS for each in ports):
        raise refusal("this is no range of ports", shown(text), "FIRST-LAST, such as 29500-29599")
    low, high = map(int, ports)
    if not 0 < low <= high <= LAST_PORT:
        raise refusal("this is no range of ports", shown(text), f"FIRST-LAST, of 1 to {LAST_PORT}")
    return low, high


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


def at_port(address: str, port: int) -> str:
    """The host of an address, with another port."""
    return with_port(_parts(address.strip(), "0")[0], port)
