"""Finds the difference between a testbed that is up and a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import counted, scaled, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.testbed.layout import Layout
    from syncline.testbed.traffic.schedule import Tenant


def difference(there: Layout, asked: Layout) -> str | None:
    """Describes the first difference between a testbed that is ``there`` and one that is ``asked`` for.

    Returns ``None`` if they are the same. Latencies do not count, because a testbed does not emulate them.
    """
    for (what, one), (_, other) in zip(_properties(there), _properties(asked), strict=False):
        if one != other:
            return f"{what}: {one} in the testbed, {other} in the file"
    return None


def _properties(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yields the names and values of everything that makes up a testbed.

    Two testbeds with as many hosts, interfaces and cables yield the same names in the same order.
    """
    yield "number of hosts", str(len(layout.hosts))
    for host in layout.hosts:
        yield f"host {host.number}", counted(len(host.nics), "interface")
    for host in layout.hosts:
        for nic in host.nics:
            name = f"{nic.interface} of host {host.number}"
            yield f"rate of {name}", _bits(nic.up_bits)
            yield f"rate to {name}", _bits(nic.down_bits)
            yield f"switch of {name}", nic.bridge
            yield f"address of {name}", nic.address
    yield "switches", ", ".join(layout.bridges)
    yield "links between switches", ", ".join(f"{trunk.a} to {trunk.b}" for trunk in layout.trunks) or "none"
    for trunk in layout.trunks:
        yield f"rate from {trunk.a} to {trunk.b}", _bits(trunk.ab_bits)
        yield f"rate from {trunk.b} to {trunk.a}", _bits(trunk.ba_bits)
    for path in layout.paths:
        yield f"route from host {path[0]} to host {path[-1]}", " ".join(map(str, path))
    yield "`shaper`", layout.shaper
    yield "`queue`", size(layout.queue_bytes)
    yield "`congestion_control`", layout.congestion_control
    yield "tenants", ", ".join(tenant.name for tenant in layout.traffic) or "none"
    for tenant in layout.traffic:
        yield f"traffic of {tenant.name}", _words(tenant)
    for machine in layout.machines:
        (nic,) = machine.nics
        yield f"rate of machine {machine.number}", f"{_bits(nic.up_bits)} to {nic.bridge}, {_bits(nic.down_bits)} back"


def _words(tenant: Tenant) -> str:
    """Formats everything that determines a tenant's traffic."""
    return ", ".join(f"{key} {value}" for key, value in vars(tenant).items() if key != "name")


def _bits(rate: int) -> str:
    """Formats a rate; with all digits if four would not be exact."""
    return scaled(rate, "b/s") if rate == float(f"{rate:.4g}") else f"{rate} b/s"
