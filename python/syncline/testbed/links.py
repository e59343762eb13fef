"""The links of a testbed: one for each direction of a cable. Their rates, and the names by which users choose them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from syncline.testbed.layout import Host, Layout, Nic

Link = tuple[str, str]
"""One direction of a cable, by its ends: bridges, and interfaces of hosts such as ``h3.eth0``."""
DIRECTIONS = ("out", "in")
"""Directions of the links of a host, interface or rack: from it, and to it."""
_WORD = re.compile(r"(host|machine|rack)\s*(?=[0-9])")
_SHORT = {"host": "h", "machine": "m", "rack": "rack"}


def end(host: Host, nic: Nic) -> str:
    """Returns the name of the host's end of a cable, such as ``h3.eth0``."""
    return f"{host.part}.{nic.interface}"


def name(link: Link) -> str:
    """Returns the name of a link, such as ``leaf0-spine0``."""
    return "-".join(link)


def link_rates(layout: Layout) -> dict[Link, int]:
    """Returns the rates of all links, in bits per second."""
    found: dict[Link, int] = {}
    for host in layout.everything:
        for nic in host.nics:
            found[end(host, nic), nic.bridge] = nic.up_bits
            found[nic.bridge, end(host, nic)] = nic.down_bits
    for trunk in layout.trunks:
        found[trunk.a, trunk.b], found[trunk.b, trunk.a] = trunk.ab_bits, trunk.ba_bits
    return found


def with_rates(layout: Layout, changed: Mapping[Link, int]) -> Layout:
    """Returns a layout whose links have other rates, in bits per second."""
    if not changed:
        return layout
    bits = link_rates(layout) | dict(changed)

    def host(old: Host) -> Host:
        nics = (
            replace(nic, up_bits=bits[end(old, nic), nic.bridge], down_bits=bits[nic.bridge, end(old, nic)])
            for nic in old.nics
        )
        return replace(old, nics=tuple(nics))

    trunks = (replace(trunk, ab_bits=bits[trunk.a, trunk.b], ba_bits=bits[trunk.b, trunk.a]) for trunk in layout.trunks)
    return replace(
        layout,
        hosts=tuple(map(host, layout.hosts)),
        machines=tuple(map(host, layout.machines)),
        trunks=tuple(trunks),
    )


class Target(NamedTuple):
    """Links that users choose by one name."""

    out: tuple[Link, ...]
    """Links from a host, interface or rack; or the single link that is named by both ends."""
    back: tuple[Link, ...] = ()
    """Links to it."""


def targets(layout: Layout) -> dict[str, Target]:
    """Returns everything whose links users can choose, by its name.

    ``leaf0-spine0`` is the link from one to the other. ``h3.eth0``, ``h3``, ``m8`` (a tenant's machine) and ``rack1``
    have links in both directions; those of a rack join its switch to other switches. ``h0-h1`` is the link between two
    hosts that are joined directly.
    """
    found = {name(link): Target((link,)) for link in link_rates(layout)}
    for host in layout.everything:
        cables = [_cable(layout, host, nic) for nic in host.nics]
        for nic, cable in zip(host.nics, cables, strict=True):
            found[end(host, nic)] = cable
            if layout.paths:
                found[name((host.part, cable.out[-1][1].partition(".")[0]))] = Target(cable.out)
        found[host.part] = _together(cables)
    if not layout.paths:
        for host in layout.hosts:
            found.setdefault(f"rack{host.rack}", _uplinks(layout, host.nics[0].bridge))
    return found


def _cable(layout: Layout, host: Host, nic: Nic) -> Target:
    """Returns the links of an interface: to its bridge and back, or to the other host if hosts are joined directly."""
    out: list[Link] = [(end(host, nic), nic.bridge)]
    back: list[Link] = [(nic.bridge, end(host, nic))]
    if layout.paths:
        for other in layout.hosts:
            far = [end(other, each) for each in other.nics if other is not host and each.bridge == nic.bridge]
            out += [(nic.bridge, each) for each in far]
            back = [*((each, nic.bridge) for each in far), *back]
    return Target(tuple(out), tuple(back))


def _uplinks(layout: Layout, bridge: str) -> Target:
    """Returns the links between a rack's switch and other switches."""
    others = [b if a == bridge else a for a, b in ((trunk.a, trunk.b) for trunk in layout.trunks) if bridge in (a, b)]
    return Target(tuple((bridge, other) for other in others), tuple((other, bridge) for other in others))


def _together(parts: Iterable[Target]) -> Target:
    out, back = zip(*parts, strict=True)
    return Target(sum(out, ()), sum(back, ()))


def choose(layout: Layout, text: str, direction: str | None = None) -> tuple[Link, ...]:
    """Returns the links that a user's text names, in both directions unless ``direction`` is one of :data:`DIRECTIONS`.

    ``host 3``, ``host 3 eth0``, ``machine 8`` and ``rack 1`` are accepted like ``h3``, ``h3.eth0``, ``m8`` and
    ``rack1``. Raises :class:`SynclineError` if there are no such links.
    """
    known = targets(layout)
    short = re.sub(r"\s+", ".", _WORD.sub(lambda found: _SHORT[found[1]], text.strip()))
    found = known.get(short)
    if found is None:
        raise_errors(
            error(
                Code.WHICH_TESTBED,
                "there is no such host, interface, rack or link",
                found=shown(text),
                allowed=_examples(layout, known),
                nearest=nearest(short, known),
                help=f"syncline testbed status {layout.name} lists them",
            )
        )
    if not found.out:
        raise_errors(error(Code.WHICH_TESTBED, "this rack's switch has no links to other switches", found=shown(text)))
    if direction is None:
        return found.out + found.back
    if not found.back:
        message = "a link that is named by both ends has one direction"
        help = "leave out --direction, or name the host, interface or rack"
        raise_errors(error(Code.BAD_VALUE, message, key="--direction", found=shown(text), help=help))
    return found.out if direction == DIRECTIONS[0] else found.back


def _examples(layout: Layout, known: Mapping[str, Target]) -> str:
    """Describes the names that users may choose."""
    first = layout.hosts[0]
    racks = [each for each in known if each.startswith("rack") and known[each].out]
    between = [name((trunk.a, trunk.b)) for trunk in layout.trunks[:1]]
    between += ["-".join(f"h{host}" for host in path[:2]) for path in layout.paths[:1]]
    named = [f"h0 to h{len(layout.hosts) - 1}" if len(layout.hosts) > 1 else "h0"]
    named += [f"interfaces such as {end(first, first.nics[0])}"]
    named += [racks[0] if len(racks) == 1 else f"{racks[0]} to {racks[-1]}"] if racks else []
    return ", ".join([*named, *(f"links such as {each}" for each in between)])
