"""Host costs: the time that hosts take per message and per byte, measured between two hosts and saved to a file.

Scenarios use two of the values (`collectives.endpoint_delay` and `collectives.reduction_rate`), and links use the third
as their latency. All three come from exchanges between two hosts that do nothing else. They therefore do not depend on
the scenario that uses them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from syncline import _core
from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.dump import dump
from syncline.input.problem import cannot_write, error, raise_errors
from syncline.input.source import from_file
from syncline.input.units import Rate, Time
from syncline.schemas import HOST_COSTS
from syncline.testbed import cleanup
from syncline.testbed.check import finish, trips
from syncline.testbed.flows import way

if TYPE_CHECKING:
    from pathlib import Path

    from syncline.testbed.check import Checked
    from syncline.testbed.flows import Port
    from syncline.testbed.layout import Layout


class Collectives(Strict):
    """Values for `collectives` of a scenario."""

    endpoint_delay: Time
    """Time of a message from one process to another, in addition to the latency of links."""
    reduction_rate: Rate
    """Rate at which a process receives vectors and combines them with its own, if no link limits it."""


class Form(Strict):
    """The format of a file of host costs."""

    schema_: Annotated[Literal["syncline-host-costs/1"], Field(alias="schema")]
    """Version of this format."""
    cores: Annotated[int, Field(ge=1)]
    """Number of cores of the machine on which the costs were measured."""
    link_latency: Time
    """Latency of a link: the shortest time of a packet from host to host, divided by the links between them."""
    collectives: Collectives
    """Values that a scenario takes over unchanged."""


@dataclass(frozen=True)
class HostCosts:
    """Measured host costs, in seconds and bytes per second."""

    link_latency_s: float
    endpoint_delay_s: float
    reduction_bytes_per_s: float
    cores: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the costs as data for a file, rounded to three or four digits."""
        collectives = {
            "endpoint_delay": f"{1e6 * self.endpoint_delay_s:.3g}us",
            "reduction_rate": f"{self.reduction_bytes_per_s / 1e6:.4g}MB/s",
        }
        latency = f"{1e6 * self.link_latency_s:.3g}us"
        return {"schema": HOST_COSTS, "cores": self.cores, "link_latency": latency, "collectives": collectives}

    def save(self, path: Path) -> None:
        """Writes a file: JSON if its name ends with ``.json``, or else YAML.

        Raises :class:`SynclineError` if the file cannot be written.
        """
        costs = self.as_dict()
        text = json.dumps(costs, indent=1) + "\n" if path.suffix == ".json" else dump(costs)
        try:
            write_whole(path, text)
        except OSError as problem:
            raise_errors(cannot_write(path, problem))


def read(path: str | Path) -> HostCosts:
    """Reads host costs from a file that ``syncline testbed check --save`` wrote.

    Raises :class:`SynclineError` with all errors in the file.
    """
    form = check(from_file(str(path)), Form, Whole("the host costs"))
    latency, delay = (
        _core.parse_quantity("time", text) / 1e12 for text in (form.link_latency, form.collectives.endpoint_delay)
    )
    rate = _core.parse_quantity("rate", form.collectives.reduction_rate) / 8
    return HostCosts(latency, delay, rate, form.cores)


def measure(layout: Layout, checked: Checked) -> HostCosts:
    """Measures the costs of two hosts of a testbed that was checked before.

    The cost of a message is half the time of an exchange of 4 bytes between two processes, minus the latency of links.
    The latency of a link is half of the shortest round trip, divided by the number of links on the path.

    Raises :class:`SynclineError` if the testbed does not have two hosts, or a program on them fails.
    """
    pair = next(trips(layout), None)
    if pair is None:
        raise_errors(
            error(
                Code.WHICH_TESTBED, "measuring host costs needs two hosts", found="1 host", allowed="two hosts or more"
            )
        )
    what, flow = pair
    way_s = next(each.least_s for each in checked.latencies if each.what == what) / 2
    exchange_s = statistics.median(_pair(layout, "exchange", flow.receiver, flow.sender))
    rate = statistics.median(_pair(layout, "stream", flow.receiver, flow.receiver))
    links = len(way(layout, flow))
    return HostCosts(way_s / links, max(exchange_s / 2 - way_s, 0.0), rate, os.cpu_count() or 1)


def _pair(layout: Layout, what: str, first: Port, second: Port) -> list[float]:
    """Runs two ranks of :mod:`syncline.testbed.pace`, on two hosts or on one, and returns what they measured."""
    with cleanup.watch() as watch:
        running = []
        for rank, port in enumerate((first, second)):
            program = [sys.executable, "-m", "syncline.testbed.pace", what, str(rank), first.nic.address]
            program += [port.nic.address, layout.congestion_control]
            command = ["ip", "netns", "exec", layout.namespace(port.host.number), *program]
            running.append(
                subprocess.Popen(  # noqa: S603 - our own command
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
            watch.group(running[-1].pid)
        said = [finish(each, silent=True) for each in running]
        watch.done()
    return list(json.loads("".join(said)))
