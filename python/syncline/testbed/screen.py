"""Shows testbeds and their measurements in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from syncline.quantity import counted, listed, scaled, size, time
from syncline.terminal.table import of_numbers
from syncline.testbed import links
from syncline.testbed.check import BUSY, TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from syncline.testbed.check import Checked
    from syncline.testbed.costs import HostCosts
    from syncline.testbed.layout import Layout
    from syncline.testbed.state import TestbedState
    from syncline.testbed.traffic.control import TenantState
    from syncline.testbed.traffic.schedule import Tenant

HOSTS = 32
"""Maximum number of hosts in a list."""
LINKS = 32
"""Maximum number of links in a list."""
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
    text += f", {counted(len(layout.traffic), 'tenant')}" if layout.traffic else ""
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
    yield from _more(len(layout.hosts) - HOSTS)


def trunks(layout: Layout) -> Iterator[RenderableType]:
    """Yields a table of the cables between switches, if there are any."""
    if not layout.trunks:
        return
    yield ""
    table = of_numbers("switch", "switch", "there", "back")
    for trunk in layout.trunks[:LINKS]:
        table.add_row(trunk.a, trunk.b, bits(trunk.ab_bits), bits(trunk.ba_bits))
    yield table
    yield from _more(len(layout.trunks) - LINKS)


def changed(known: TestbedState) -> Iterator[RenderableType]:
    """Yields a table of the links that have other rates than in the file."""
    in_file = links.link_rates(known.layout)
    table = of_numbers("changed link", "rate", "in the file")
    for link, rate in list(known.changed.items())[:LINKS]:
        table.add_row(links.name(link), bits(rate), bits(in_file[link]))
    yield table
    yield from _more(len(known.changed) - LINKS)


def changes(count: int) -> str:
    """Describes how many links have other rates than in the file, such as ``2 links with changed rates``."""
    return f"{counted(count, 'link')} with {'a changed rate' if count == 1 else 'changed rates'}"


def _more(count: int) -> Iterator[RenderableType]:
    """Yields how many rows a table leaves out, if it does."""
    if count > 0:
        yield Text(f"and {count} more; --json lists all", "dim")


def tenants(layout: Layout) -> Iterator[RenderableType]:
    """Yields a table of what tenants send, if there are any."""
    if layout.traffic:
        yield ""
        table = of_numbers("tenant", "from", "to", "traffic")
        for tenant in layout.traffic:
            table.add_row(tenant.name, _ends(layout, tenant.senders), _ends(layout, tenant.receivers), _pattern(tenant))
        yield table


def counters(layout: Layout, states: Sequence[TenantState]) -> Iterator[RenderableType]:
    """Yields a table of what tenants have sent. Without ``states``, their traffic is off as a whole."""
    if not layout.traffic:
        return
    yield ""
    if not states:
        yield Text(f"The traffic is off. Switch it on: syncline testbed traffic {layout.name} on", "dim")
        return
    table = of_numbers("tenant", "on for", "open", "begun", "complete", "blocked", "sent", "sent again", "received")
    for state in states:
        on_for, found = state.on_for_s, state.counters
        table.add_row(
            state.name,
            "off" if on_for is None else time(on_for),
            str(state.open),
            str(found.begun),
            str(found.complete),
            str(found.blocked),
            size(found.sent_bytes),
            size(found.retransmitted_bytes),
            size(found.received_bytes),
        )
    yield table
    for state in states:
        if state.counters.failed:
            failed = counted(state.counters.failed, "flow")
            yield Text(f"{state.name}: {failed} failed, the last with: {state.counters.error}", "yellow")


def _ends(layout: Layout, numbers: Sequence[int]) -> str:
    """Describes where the flows of a tenant begin or end, such as ``rack 0, 1`` or ``host 3``."""
    own = numbers[0] >= len(layout.hosts)
    where = dict.fromkeys(layout.everything[number].rack if own else number for number in numbers)
    return f"{'rack' if own else 'host'} {', '.join(map(str, where))}"


def _pattern(tenant: Tenant) -> str:
    """Describes the flows of a tenant, such as ``2 flows, tcp, 100 Mb/s, on 2 s, off 3 s (exponential)``."""
    how = f"{tenant.protocol}, {bits(tenant.rate_bits) if tenant.rate_bits else 'greedy'}"
    heavy = f" {tenant.shape:g}" if tenant.distribution == "pareto" else ""
    if tenant.interarrival_s:
        mean = f"{size(tenant.size_bytes)} each {time(tenant.interarrival_s)}"
        return f"{how}, {mean} ({tenant.distribution}{heavy}), up to {counted(tenant.flows, 'flow')}"
    text = f"{counted(tenant.flows, 'flow')}, {how}"
    if not tenant.on_s:
        return f"{text}, always on"
    return f"{text}, on {time(tenant.on_s)}, off {time(tenant.off_s)} ({tenant.distribution}{heavy})"


def checked(
    found: Checked, layout: Layout, cores: int, costs: HostCosts | None = None, changed: int = 0
) -> Iterator[RenderableType]:
    """Yields tables of the measurements, and whether they match the rates of links.

    These are the rates in the file, except those of ``changed`` links.
    """
    yield Text.assemble((layout.name, "bold"), f"  {overview(layout)}")
    if changed:
        yield Text(f"{changes(changed)}: syncline testbed status {layout.name}", "yellow")
    yield Text(f"Payload of TCP {layout.congestion_control} with packets of 1,500 bytes", "dim")
    yield ""
    table = of_numbers("rate", "as changed" if changed else "in the file", "measured", "slowest flow", "cores", "")
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
    yield from _more(len(slow) - SLOW)
    if found.alone:
        names = listed([port.name for port in found.alone])
        reach = "reaches" if len(found.alone) == 1 else "reach"
        yield Text(f"Not measured: {names}, which {reach} no other host.", "yellow")
    said = "of what the file and `testbed shape` say" if changed else "of what the file says"
    if found.holds:
        yield Text(f"All rates are within {TOLERANCE:.0%} {said}.")
    elif any(not rate.holds and rate.cores > BUSY * cores for rate in found.rates):
        yield Text(
            f"The machine is the limit, not its links: up to {max(rate.cores for rate in found.rates):.1f} of "
            f"{counted(cores, 'core')} were busy. Use fewer hosts or lower rates.",
            "yellow",
        )
    else:
        yield Text(f"Some rates are not within {TOLERANCE:.0%} {said}.", "yellow")
