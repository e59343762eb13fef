"""What a testbed that is up has other than a file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.report.quantity import counted, scaled, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.testbed.layout import Layout


def difference(there: Layout, asked: Layout) -> str | None:
    """The first thing in which two testbeds differ, in words: what is ``there``, then what is ``asked``.

    Latencies are left out: nothing emulates them.
    """
    for (what, one), (_, other) in zip(_told(there), _told(asked), strict=False):
        if one != other:
            return f"{what}: {one} there, {other} in the file"
    return None


def _told(layout: Layout) -> Iterator[tuple[str, str]]:
    """All that makes a testbed, the same number of things for the same number of hosts, interfaces and cables."""
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
    yield "`shaper`", layout.shaper
    yield "`queue`", size(layout.queue_bytes)
    yield "`congestion_control`", layout.congestion_control


def _bits(rate: int) -> str:
    """All digits where four would hide some."""
    return scaled(rate, "b/s") if rate == float(f"{rate:.4g}") else f"{rate} b/s"
