"""Whether links do what a testbed's file says: rates in a rack, across racks, and of all hosts at once; and latency."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.config.problem import error, refuse
from syncline.testbed import guardian
from syncline.testbed.layout import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.testbed.guardian import Watch
    from syncline.testbed.layout import Host, Layout

PROBE = Path(__file__).with_name("probe.py")
PORT = 29_499
TOLERANCE = 0.05
"""Part of its rate by which a link may be slower or faster."""
SECONDS = 1.0
ROUND_TRIPS = 200
BUSY = 0.9
"""Part of all cores beyond which the machine, not a link, sets a rate."""


@dataclass(frozen=True)
class Rate:
    """A rate that was measured: payload, in bits per second, of all flows together."""

    what: str
    flows: int
    expected_bits: float
    measured_bits: float
    least_bits: float
    """The slowest flow."""
    most_bits: float
    """The fastest flow."""
    cores: float
    """Cores of the machine that were busy."""

    @property
    def holds(self) -> bool:
        """Whether it is what the file says."""
        return abs(self.measured_bits / self.expected_bits - 1) <= TOLERANCE


@dataclass(frozen=True)
class Latency:
    """Round trips of 4 bytes that were measured, in seconds."""

    what: str
    least_s: float
    median_s: float


@dataclass(frozen=True)
class Checked:
    """What was measured on a testbed."""

    rates: tuple[Rate, ...]
    latencies: tuple[Latency, ...]

    @property
    def holds(self) -> bool:
        """Whether all rates are what the file says."""
        return all(rate.holds for rate in self.rates)


@dataclass(frozen=True)
class _Flow:
    sender: Host
    receiver: Host


def _nobody(done: float, what: str) -> None:
    """Hears of progress where nobody wants to."""


def check(layout: Layout, seconds: float = SECONDS, tell: Callable[[float, str], None] = _nobody) -> Checked:
    """Measures a testbed that is up. ``tell`` hears which part is done and what is measured next."""
    patterns, pairs = list(_patterns(layout)), list(_pairs(layout))
    steps = len(patterns) + len(pairs)
    with guardian.watch() as watch, _servers(layout, watch):
        rates, latencies = [], []
        for done, (what, flows) in enumerate(patterns):
            tell(done / steps, f"measuring {what}")
            rates.append(_rate(layout, what, flows, seconds))
        for done, (what, flow) in enumerate(pairs):
            tell((len(patterns) + done) / steps, f"measuring latency {what}")
            times = json.loads(finish(_probe(layout, "latency", flow, str(ROUND_TRIPS))))
            latencies.append(Latency(what, min(times), statistics.median(times)))
        watch.done()
    return Checked(tuple(rates), tuple(latencies))


def _pairs(layout: Layout) -> Iterator[tuple[str, _Flow]]:
    """Two hosts of a rack, and two of different racks, where there are such."""
    first = layout.hosts[0]
    others = layout.hosts[1:]
    near = next((host for host in others if host.rack == first.rack), None)
    far = next((host for host in others if host.rack != first.rack), None)
    if near is not None:
        yield "in a rack", _Flow(first, near)
    if far is not None:
        yield "across racks", _Flow(first, far)


def neighbours(layout: Layout) -> tuple[str, int, int, int] | None:
    """Two hosts that are near each other: what is said of them, their numbers, and the links between them."""
    found = next(_pairs(layout), None)
    if found is None:
        return None
    what, flow = found
    return what, flow.sender.number, flow.receiver.number, len(_links(layout, flow))


def _patterns(layout: Layout) -> Iterator[tuple[str, list[_Flow]]]:
    """What is measured: one flow, and one from each host."""
    for what, flow in _pairs(layout):
        yield f"one flow {what}", [flow]
    racks: dict[int, list[Host]] = {}
    for host in layout.hosts:
        racks.setdefault(host.rack, []).append(host)
    near = [
        _Flow(host, hosts[(at + 1) % len(hosts)])
        for hosts in racks.values()
        if len(hosts) > 1
        for at, host in enumerate(hosts)
    ]
    if len(near) > 1:
        yield "all hosts, in a rack", near
    if len(racks) > 1:
        lists = list(racks.values())
        far = [
            _Flow(host, beyond[at % len(beyond)])
            for rack, hosts in enumerate(lists)
            for beyond in [lists[(rack + 1) % len(lists)]]
            for at, host in enumerate(hosts)
        ]
        yield "all hosts, across racks", far


def expected(layout: Layout, flows: Sequence[_Flow]) -> float:
    """What flows over first interfaces get together, max-min fair, in bits per second of payload."""
    ways = [_links(layout, flow) for flow in flows]
    rates = _capacities(layout)
    left = dict(rates)
    open_flows = set(range(len(flows)))
    total = 0.0
    while open_flows:
        users = {link: sum(link in ways[at] for at in open_flows) for link in left}
        link = min((link for link in left if users[link]), key=lambda link: left[link] / users[link])
        share = left[link] / users[link]
        held = {at for at in open_flows if link in ways[at]}
        for at in held:
            total += share
            for each in ways[at]:
                left[each] -= share
        open_flows -= held
    return total * PAYLOAD


def _capacities(layout: Layout) -> dict[tuple[str, str], float]:
    """Rates of links, by their ends."""
    found: dict[tuple[str, str], float] = {}
    for host in layout.hosts:
        nic = host.nics[0]
        found[f"h{host.number}", nic.bridge] = nic.up_bits
        found[nic.bridge, f"h{host.number}"] = nic.down_bits
    for trunk in layout.trunks:
        found[trunk.a, trunk.b], found[trunk.b, trunk.a] = trunk.ab_bits, trunk.ba_bits
    return found


def _links(layout: Layout, flow: _Flow) -> list[tuple[str, str]]:
    """The links that a flow passes: there is one way."""
    above: dict[str, str] = {}
    start, goal = flow.sender.nics[0].bridge, flow.receiver.nics[0].bridge
    todo = [start]
    while todo and goal not in above and goal != start:
        bridge = todo.pop()
        for trunk in layout.trunks:
            for a, b in ((trunk.a, trunk.b), (trunk.b, trunk.a)):
                if a == bridge and b != start and b not in above:
                    above[b] = a
                    todo.append(b)
    way = [goal]
    while way[0] != start:
        way.insert(0, above[way[0]])
    ends = [f"h{flow.sender.number}", *way, f"h{flow.receiver.number}"]
    return list(itertools.pairwise(ends))


def _rate(layout: Layout, what: str, flows: list[_Flow], seconds: float) -> Rate:
    began, busy = time.monotonic(), busy_s()
    running = [_probe(layout, "rate", flow, str(seconds)) for flow in flows]
    found = [8 * json.loads(finish(each))[0] for each in running]
    cores = (busy_s() - busy) / (time.monotonic() - began)
    return Rate(what, len(flows), expected(layout, flows), sum(found), min(found), max(found), cores)


def busy_s() -> float:
    """Seconds that all cores together were not idle."""
    fields = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, soft, _ = (int(each) for each in fields)
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _probe(layout: Layout, what: str, flow: _Flow, *rest: str) -> subprocess.Popen[str]:
    return _start(layout, flow.sender, what, flow.receiver.nics[0].address, *rest)


def _start(layout: Layout, host: Host, what: str, address: str, *rest: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-I", "-S", str(PROBE), what, layout.congestion_control, address, str(PORT), *rest]
    command = ["ip", "netns", "exec", layout.namespace(host.number), *program]
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], *, silent: bool = False) -> str:
    """What a program on a host prints, or nothing where it may be ``silent``.

    Raises :class:`SynclineError` where it fails.
    """
    try:
        out, problem = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        out, problem = "", "no answer within a minute"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode or not (out or silent):
        last = (problem.strip().splitlines() or [f"status {process.returncode}"])[-1]
        refuse(error("SL1104", "a measurement between hosts failed", notes=[last], help="syncline testbed status"))
    return out


@contextlib.contextmanager
def _servers(layout: Layout, watch: Watch) -> Iterator[None]:
    """Probes that answer on all hosts."""
    running = []
    try:
        for host in layout.hosts:
            running.append(_start(layout, host, "serve", host.nics[0].address))
            watch.group(running[-1].pid)
        for process in running:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                process.kill()
                finish(process)
        yield
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
