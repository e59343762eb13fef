"""Parses the addresses and ports that users and launchers give."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from syncline.input.problem import bad_value, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAST_PORT = 65_535
BEYOND = ("192.0.2.1", "2001:db8::1")
"""Addresses reserved for documentation (RFC 5737, RFC 3849): the route to them is the route out of this network."""
PORT_DIGITS = 5
"""Maximum number of digits of a port, including leading zeros."""


def setting(environment: Mapping[str, str], name: str, given: int | None) -> int:
    """Returns ``given``, or the number that a launcher set in the environment."""
    if given is not None:
        return given
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        message, found = f"the environment has no valid `{name}`", environment.get(name, "nothing")
        raise bad_value(message, found, allowed="a whole number", help="or pass it as an argument") from None


def resolve(address: str, default: int) -> tuple[str, int]:
    """Returns the first address and port of ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``; without a port, ``default``."""
    return resolve_all(address, default)[0]


def resolve_all(address: str, default: int) -> list[tuple[str, int]]:
    """Returns all addresses of ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``, in the system's order, with the port."""
    host, port = _parts(address.strip(), str(default))
    if not host:
        raise bad_value("the address has no host", address or "nothing", allowed="HOST or HOST:PORT")
    if not (port.isascii() and port.isdecimal() and len(port) <= PORT_DIGITS and int(port) <= LAST_PORT):
        what = "the port is not valid" if port else "the colon has no port after it"
        raise bad_value(what, shown(address), allowed=f"HOST or HOST:PORT, with a port of 0 to {LAST_PORT}")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise bad_value("the host's address cannot be found", f"{host}: {why}", allowed="HOST or HOST:PORT") from None
    return list(dict.fromkeys((str(each[4][0]), int(each[4][1])) for each in found))


def listening(address: str, default: int, interfaces: Sequence[Interface], own: str | None) -> list[tuple[str, int]]:
    """Returns the addresses at which rank 0 listens: ``own`` if given, or else all of ``address``, which others try.

    On some systems ``/etc/hosts`` maps the machine's name to a loopback address (``127.0.1.1``), but other machines
    resolve the name to another address. For such a name rank 0 also listens at its interfaces.
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
    """Whether ``host`` is an IP address, rather than a name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether ``address`` is a loopback address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def toward(host: str) -> str | None:
    """Returns the address from which this host reaches ``host``; ``None`` if there is none, or only link-local ones.

    A name that resolves to a loopback address here may resolve to another of this host's addresses elsewhere. For such
    a name, returns the address from which this host reaches other networks, if there is one.
    """
    found = _sources(host)
    if host != "localhost" and not is_literal(host) and found and all(is_loopback(each) for each in found):
        beyond = [each for net in BEYOND for each in _sources(net)]
        found = [each for each in beyond if not is_loopback(each)] or found
    return found[0] if found else None


def _sources(host: str) -> list[str]:
    """Returns the addresses from which this host reaches ``host``."""
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    sources = []
    for family, kind, _, _, address in found:
        # Connecting a UDP socket sends nothing, but the system selects the source address.
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
    """A network interface of this host."""

    advertised: str
    """The address at which others reach it."""
    listen: str
    """The address at which this host listens, and from which it connects."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Parses ``ADDRESS``, or ``ADDRESS@LISTEN`` if others reach the interface at another address than its own.

        Raises ``SynclineError`` if either is not an IP address.
        """
        advertised, at, listen = text.strip().partition("@")
        for each in (advertised, listen) if at else (advertised,):
            if not is_literal(each):
                allowed = "an IP address, or ADDRESS@LISTEN if other hosts reach LISTEN at ADDRESS"
                raise bad_value("an interface must be an address of this host", shown(text), allowed=allowed)
        return cls(advertised, listen if at else advertised)


def port_range(text: str | None) -> tuple[int, int] | None:
    """Parses a range of ports, such as ``29500-29599``, or a single port, and returns the first and the last.

    Raises ``SynclineError`` if ``text`` is neither.
    """
    if text is None:
        return None
    first, dash, last = text.strip().partition("-")
    ports = [first, last if dash else first]
    if not all(each.isascii() and each.isdecimal() and len(each) <= PORT_DIGITS for each in ports):
        raise bad_value("the range of ports is not valid", shown(text), allowed="FIRST-LAST, such as 29500-29599")
    low, high = map(int, ports)
    if not 0 < low <= high <= LAST_PORT:
        raise bad_value("the range of ports is not valid", shown(text), allowed=f"FIRST-LAST, of 1 to {LAST_PORT}")
    return low, high


def _parts(address: str, default: str) -> tuple[str, str]:
    """Splits an address into host and port; removes brackets around the host."""
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if not closed or rest[:1] not in ("", ":"):
            raise bad_value("brackets must enclose the host of an address", address, allowed="[IPV6] or [IPV6]:PORT")
        return host, rest[1:] if rest else default
    host, colon, port = address.rpartition(":")
    # An IPv6 address contains colons.
    return (address, default) if not colon or ":" in host else (host, port)


def with_port(host: str, port: int) -> str:
    """Formats an address as ``HOST:PORT`` or ``[IPV6]:PORT``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def at_port(address: str, port: int) -> str:
    """Replaces the port of an address, or adds one."""
    return with_port(_parts(address.strip(), "0")[0], port)
