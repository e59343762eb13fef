"""Warns about properties of a fabric that a testbed does not emulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.problem import warning
from syncline.quantity import percent, time
from syncline.testbed.layout import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.errors import Diagnostic
    from syncline.testbed.layout import Layout
    from syncline.testbed.spec import TestbedRequest


def warnings(request: TestbedRequest, layout: Layout) -> Iterator[Diagnostic]:
    """Yields warnings if a file has latencies or efficiencies of links, which are not emulated."""
    mark = request.source.mark(("fabric",), key=True)
    longest = max(_latencies(layout), default=0.0)
    if longest:
        yield warning(
            Code.BAD_TESTBED,
            "latencies of links are not emulated: packets take only the kernel's own time",
            mark=mark,
            key="fabric",
            found=f"up to {time(longest)} per link",
            help="syncline testbed check shows measured round trips beside those of the file",
        )
    if request.least_efficiency < 1:
        yield warning(
            Code.BAD_TESTBED,
            "`efficiency` is not emulated: links have their full rate, and packets have real headers",
            mark=mark,
            key="fabric",
            found=f"{request.least_efficiency:g}",
            help=f"TCP uses {percent(PAYLOAD)} of a link's rate for payload",
        )


def _latencies(layout: Layout) -> Iterator[float]:
    for host in layout.hosts:
        for nic in host.nics:
            yield from (nic.up_latency_s, nic.down_latency_s)
    for trunk in layout.trunks:
        yield from (trunk.ab_latency_s, trunk.ba_latency_s)
