"""The hosts to probe: names on the command line, or a file with one host a line."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.distances.files import MAX_HOSTS
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAME = 253
"""Longest name of a host, as in DNS."""
IGNORED = ("slots", "max_slots", "max-slots")
"""Keys of Open MPI's host files: probing needs one agent a host, however many ranks it has."""

_HELP = "one host a line: NAME, or NAME address=10.0.0.1"


@dataclass(frozen=True)
class Host:
    """A host to probe."""

    name: str
    """Its name for the launch command, and in the results."""
    address: str | None = None
    """The IP address at which the others reach it; ``None`` to find out."""


def from_names(names: Sequence[str]) -> list[Host]:
    """Returns the hosts of the command line.

    :raises SynclineError: a name is not valid, or given twice.
    """
    hosts: dict[str, Host] = {}
    for name in names:
        _add(hosts, Host(name), None)
    return list(hosts.values())


def from_file(path: str) -> list[Host]:
    """Returns the hosts of a file: ``NAME``, and optionally ``address=IP``, on each line.

    ``#`` starts a comment. Open MPI's ``slots=N`` is allowed and ignored.

    :raises SynclineError: the file cannot be read, a line is malformed, or a host is listed twice.
    """
    lines = read_file(path).splitlines()
    file = Text(path, lines)
    hosts: dict[str, Host] = {}
    for number, line in enumerate(lines, start=1):
        name, *rest = line.partition("#")[0].split() or [""]
        if not name:
            continue
        mark = Mark(file, number, 1, 0)
        address = None
        for word in rest:
            key, equals, value = word.partition("=")
            if not equals or key not in ("address", *IGNORED):
                known = ("address", *IGNORED)
                raise_errors(
                    error(
                        Code.UNKNOWN_KEY if equals else Code.BAD_SYNTAX,
                        f"unknown key `{shown(key)}`" if equals else "a line names one host",
                        mark=mark,
                        found=shown(word),
                        allowed="address, slots" if equals else None,
                        nearest=nearest(key, known) if equals else None,
                        help=_HELP,
                    )
                )
            if key == "address":
                address = _address(value, mark)
        _add(hosts, Host(name, address), mark)
    return list(hosts.values())


def _address(text: str, mark: Mark) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise_errors(
            error(Code.BAD_VALUE, "not an IP address", mark=mark, key="address", found=shown(text), help=_HELP)
        )


def _add(hosts: dict[str, Host], host: Host, mark: Mark | None) -> None:
    key = None if mark else "HOSTS"
    if not host.name or len(host.name) > MAX_NAME or not host.name.isprintable() or " " in host.name:
        allowed = f"1 to {MAX_NAME} printable characters without spaces"
        raise_errors(
            error(Code.BAD_VALUE, "not a host's name", mark=mark, key=key, found=shown(host.name), allowed=allowed)
        )
    if host.name.startswith("-"):
        # The launch command would take it for an option.
        raise_errors(
            error(Code.BAD_VALUE, "a host's name cannot begin with a dash", mark=mark, key=key, found=shown(host.name))
        )
    if host.name in hosts:
        help = "list each host once; ranks of one host share its distances"
        raise_errors(
            error(Code.BAD_DISTANCES, "a host is listed twice", mark=mark, key=key, found=shown(host.name), help=help)
        )
    if len(hosts) == MAX_HOSTS:
        raise_errors(error(Code.BAD_DISTANCES, "too many hosts", mark=mark, key=key, allowed=f"at most {MAX_HOSTS:,}"))
    hosts[host.name] = host
