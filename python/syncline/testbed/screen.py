"""Shows testbeds and their measurements in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from syncline.quantity import counted, listed, scaled, time
from syncline.terminal.table import of_numbers
from syncline.testbed.check import BUSY, TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from syncline.testbed.check import Checked
    from syncline.testbed.costs import HostCosts
    from syncline.testbed.layout import Layout

HOSTS = 32
"""Maximum number of hosts in a list."""
SLOW = 4
"""Maximum number of slow flows in a list."""


def bits(rate: float) -> str:
    """Formats a rate, such as ``956 Mb/s``."""
    return scaled(rate, "b/s")


def overview(layout: Layout) -> str:
    """Returns a line that describes a testbed."""
    rates = sorted({nic.up_bits for host in layout.hosts for nic in host.nics})
    between = sorted({trunk.ab_bits for trunk in layout.trunks})
    nics = sorted({len(host.nics) for host in layout.hosts})
    where = "joined directly" if layout.paths else f"in {counted(layout.racks, 'rack')}"
    text = f"{counted(len(layout.hosts), 'host')} {where}, {' or '.join(map(bits, rates))}"
    text += f" on each of {' or '.join(map(str, nics))} interfaces" if nics[-1] > 1 else ""
    text += f", {' or '.join(map(bits, between))} between switches" if between else ""
    return text


def hosts(layout: Layout) -> Iterator[RenderableType]:
    """Yields a description of a testbed, and a table of its hosts."""
    yield Text.assemble((layout.name, "bold"), f"  {overview(layout)}")
    yield Text(f"TCP {layout.congestion_control}, shaped by {layout.shaper}", "dim")
    yield ""
    table = of_numbers("host", "rack", "interface", "address", "switch", "sends", "namespace")
    for host in layout.hosts[:HOSTS]:
        for nic in host.nics:
            table.add_row(
                str(host.number),
                str(host.rack),
                nic.interface,
                nic.address,
                nic.bridge,
                bits(nic.up_bits),
                layout.namespace(host.number),
            )
    yield table
    if len(layout.hosts) > HOSTS:
        yield Text(f"and {len(layout.hosts) - HOSTS} more; --json lists all", "dim")


def checked(found: Checked, layout: Layout, cores: int, costs: HostCosts | None = None) -> Iterator[RenderableType]:
    """Yields tables of the measurements, and whether they match the file."""
    yield Text.assemble((layout.name, "bold"), f"  {overview(layout)}")
    yield Text(f"Payload of TCP {layout.congestion_control} with packets of 1,500 bytes", "dim")
    yield ""
    table = of_numbers("rate", "in the file", "measured", "slowest flow", "cores", "")
    table.columns[0].no_wrap = True
    for rate in found.rates:
        table.add_row(
            rate.what,
            bits(rate.expected_bits),
            bits(rate.measured_bits),
            bits(min(one.bits for one in rate.each)) if len(rate.each) > 1 else "",
            f"{rate.cores:.2f}",
            Text("holds", "green") if rate.holds else Text("does not hold", "red"),
        )
    yield table
    yield ""
    table = of_numbers("round trip of 4 bytes", "in the file", "least", "median")
    for latency in found.latencies:
        table.add_row(latency.what, time(latency.file_s), time(latency.least_s), time(latency.median_s))
    yield table
    if any(latency.file_s for latency in found.latencies):
        yield Text("Latencies in the file are not emulated, so they are not checked.", "dim")
    yield ""
    if costs is not None:
        table = of_numbers("host costs", "")
        table.add_row("latency of a link", time(costs.link_latency_s))
        table.add_row("a message, in addition", time(costs.endpoint_delay_s))
        table.add_row("receiving and combining", scaled(costs.reduction_bytes_per_s, "B/s"))
        yield table
        yield ""
    slow = [(rate, one) for rate in found.rates for one in rate.slow]
    for rate, one in slow[:SLOW]:
        yield Text(
            f"{rate.what}: the flow from {one.flow.sender.name} to {one.flow.receiver.name} got "
            f"{bits(one.most_bits)}; its share is {bits(one.share.bits)}.",
            "red",
        )
    if len(slow) > SLOW:
        yield Text(f"and {len(slow) - SLOW} more; --json lists all", "dim")
    if found.alone:
        names = listed([port.name for port in found.alone])
        reach = "reaches" if len(found.alone) == 1 else "reach"
        yield Text(f"Not measured: {names}, which {reach} no other host.", "yellow")
    if found.holds:
        yield Text(f"All rates are within {TOLERANCE:.0%} of what the file says.")
    elif any(not rate.holds and rate.cores > BUSY * cores for rate in found.rates):
        yield Text(
            f"The machine is the limit, not its links: up to {max(rate.cores for rate in found.rates):.1f} of "
            f"{counted(cores, 'core')} were busy. Use fewer hosts or lower rates.",
            "yellow",
        )
    else:
        yield Text(f"Some rates are not within {TOLERANCE:.0%} of what the file says.", "yellow")
