"""Lists of hosts: names on a command line, or the host files of launchers."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from syncline.codes import Code
from syncline.input import limits
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAME = 253
"""Longest name of a host, as in DNS."""

_HELP = "a line is NAME, NAME slots=8, NAME:8 or NAME address=10.0.0.1"
_KEYS = ("slots", "max_slots", "max-slots", "address")


@dataclass(frozen=True)
class Host:
    """A host in a list."""

    name: str
    slots: int = 1
    """Ranks on it."""
    address: str | None = None
    """The IP address at which the others reach it; ``None`` if the list does not say."""


def named(names: Sequence[str]) -> list[Host]:
    """The hosts of a command line.

    :raises SynclineError: a name is not valid, or given twice.
    """
    hosts: dict[str, Host] = {}
    for name in names:
        _add(hosts, Host(name), None)
    return list(hosts.values())


def read_hosts(path: str) -> list[Host]:
    """The hosts of a file: one a line, as ``NAME``, ``NAME slots=8`` (Open MPI), ``NAME:8`` (MPICH).

    ``address=IP`` may follow, and ``#`` begins a comment. A name on consecutive lines, as in Slurm's lists of tasks,
    adds a slot each.

    :raises SynclineError: the file cannot be read, a line is malformed, the file lists no hosts, or one in two places.
    """
    lines = read_file(path, limits.MAX_BYTES).splitlines()
    file = Text(path, lines)
    hosts: dict[str, Host] = {}
    last = ""
    for number, line in enumerate(lines, start=1):
        # Open MPI allows spaces around the equals sign.
        words = line.partition("#")[0].replace(" =", "=").replace("= ", "=").split()
        if not words:
            continue
        mark = Mark(file, number, 1, 0)
        host = _host(words, mark)
        if host.name == last:
            hosts[last] = replace(hosts[last], slots=_slots(str(hosts[last].slots + host.slots), mark))
        else:
            _add(hosts, host, mark)
        last = host.name
    if not hosts:
        raise_errors(error(Code.BAD_SYNTAX, "the file lists no hosts", mark=Mark(file, 0, 0, 0), help=_HELP))
    return list(hosts.values())


def _host(words: Sequence[str], mark: Mark) -> Host:
    name, *rest = words
    host = Host(name)
    before, colon, count = name.rpartition(":")
    # More colons are those of an address of IPv6.
    if colon and _is_number(count) and ":" not in before:
        host = Host(before, _slots(count, mark))
    for word in rest:
        key, equals, value = word.partition("=")
        if not equals:
            raise_errors(error(Code.BAD_SYNTAX, "a line names one host", mark=mark, found=shown(word), help=_HELP))
        match key:
            case "slots":
                host = replace(host, slots=_slots(value, mark))
            case "address":
                host = replace(host, address=_address(value, mark))
            case "max_slots" | "max-slots":
                pass
            case _:
                _unknown(key, mark)
    return host


def _unknown(key: str, mark: Mark) -> NoReturn:
    raise_errors(
        error(
            Code.UNKNOWN_KEY,
            f"unknown key `{shown(key)}`",
            mark=mark,
            found=shown(key),
            allowed="slots, address",
            nearest=nearest(key, _KEYS),
            help=_HELP,
        )
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6


def _slots(text: str, mark: Mark) -> int:
    if not _is_number(text) or not 0 < int(text) <= limits.MAX_SLOTS:
        allowed = f"a whole number from 1 to {limits.MAX_SLOTS}"
        raise_errors(
            error(Code.BAD_VALUE, "not a valid number of slots", mark=mark, found=shown(text), allowed=allowed)
        )
    return int(text)


def _address(text: str, mark: Mark) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise_errors(
            error(Code.BAD_VALUE, "not an IP address", mark=mark, key="address", found=shown(text), help=_HELP)
        )


def check_name(name: str, mark: Mark | None, key: str | None = None) -> None:
    """Refuses a name that lists of hosts and launchers could not hold.

    :raises SynclineError: it is empty or too long, has spaces, commas or unprintable characters, or begins with a dash.
    """
    if not name or len(name) > MAX_NAME or not name.isprintable() or " " in name or "," in name:
        allowed = f"1 to {MAX_NAME} printable characters without spaces and commas"
        raise_errors(error(Code.BAD_VALUE, "not a host's name", mark=mark, key=key, found=shown(name), allowed=allowed))
    if name.startswith("-"):
        # A launcher would take it for an option.
        raise_errors(
            error(Code.BAD_VALUE, "a host's name cannot begin with a dash", mark=mark, key=key, found=shown(name))
        )


def _add(hosts: dict[str, Host], host: Host, mark: Mark | None) -> None:
    key = None if mark else "HOSTS"
    name = host.name
    check_name(name, mark, key)
    if name in hosts:
        help = "list each host once, with `slots=` for its ranks"
        raise_errors(
            error(Code.BAD_DISTANCES, "the host is listed twice", mark=mark, key=key, found=shown(name), help=help)
        )
    if len(hosts) == limits.MAX_HOSTS:
        raise_errors(
            error(Code.BAD_DISTANCES, "too many hosts", mark=mark, key=key, allowed=f"at most {limits.MAX_HOSTS:,}")
        )
    hosts[name] = host
