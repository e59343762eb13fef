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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.config.problem import error, refuse
from syncline.report.quantity import counted, duration, size
from syncline.report.quantity import time as shown_time
from syncline.testbed import guardian
from syncline.testbed.commands import LEAST_BURST
from syncline.testbed.cores import busy_s
from syncline.testbed.flows import Flow, alone, latency_s, pairs, patterns, queueing_s, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.testbed.flows import Port, Share
    from syncline.testbed.guardian import Watch
    from syncline.testbed.layout import Host, Layout

PROBE = Path(__file__).with_name("probe.py")
PORT = 29_499
TOLERANCE = 0.05
"""Part of its rate by which a link may be slower or faster."""
FAIR = 0.1
"""Part of its share that a flow has at least where flows take from each other: TCP gives as little as a fifth."""
SECONDS = 1.0
TRIES = 3
"""How often rates are measured that do not hold: congestion control may miss by chance what a link has."""
SETTLE_S = 0.3
"""Left out of a rate at least: congestion control has to find it."""
SETTLE_WAITS = 10
"""The same, in times that a packet may wait in a queue: slow start doubles from 10 segments to what it holds."""
FAIR_WAITS = 25
"""How long flows are measured that take from each other, in the same: by and by they come to share."""
ROUND_TRIPS = 200
PATIENCE_S = 60.0
"""How long a program on a host may take besides."""
START_S = 0.5
"""What programs on hosts take to begin and to end, about."""
LONGEST_S = 300.0
"""How long all of it may take where everything holds at once."""
BUSY = 0.9
"""Part of all cores beyond which the machine, not a link, sets a rate."""


@dataclass(frozen=True)
class Measured:
    """What a flow got."""

    flow: Flow
    share: Share
    """What it should get."""
    bits: float
    """Payload that arrived, in bits per second."""
    most_bits: float
    """The same in the best of all tries."""

    @property
    def holds(self) -> bool:
        """Whether it got its share: all of what nobody can take from it, or a fair part of what others want as well."""
        return self.most_bits >= self.share.bits * (FAIR if self.share.contended else 1 - TOLERANCE)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        ends = {"from": self.flow.sender.name, "to": self.flow.receiver.name}
        return {
            **ends,
            "expected_bits": self.share.bits,
            "measured_bits": self.most_bits,
            "contended": self.share.contended,
        }


@dataclass(frozen=True)
class Rate:
    """Rates that were measured: payload, in bits per second, of flows at the same time."""

    what: str
    each: tuple[Measured, ...]
    cores: float
    """Cores of the machine that were busy."""

    @property
    def expected_bits(self) -> float:
        """What the file says of all flows together."""
        return sum(one.share.bits for one in self.each)

    @property
    def measured_bits(self) -> float:
        """What came of all flows together."""
        return sum(one.bits for one in self.each)

    @property
    def slow(self) -> list[Measured]:
        """Flows that have less than their share, the slowest first."""
        return sorted((one for one in self.each if not one.holds), key=lambda one: one.most_bits / one.share.bits)

    @property
    def off(self) -> float:
        """By which part of it all flows together are beside what the file says."""
        return abs(self.measured_bits / self.expected_bits - 1)

    @property
    def holds(self) -> bool:
        """Whether it is what the file says: all flows together, and each of them."""
        return self.off <= TOLERANCE and not self.slow

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "what": self.what,
            "flows": len(self.each),
            "expected_bits": self.expected_bits,
            "measured_bits": self.measured_bits,
            "least_bits": min(one.bits for one in self.each),
            "most_bits": max(one.bits for one in self.each),
            "slow": [one.plain() for one in self.slow],
            "cores": self.cores,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Latency:
    """Round trips of 4 bytes that were measured, in seconds."""

    what: str
    file_s: float
    """Latencies of the links there and back, as the file has them. Nothing emulates them."""
    least_s: float
    median_s: float


@dataclass(frozen=True)
class Checked:
    """What was measured on a testbed."""

    rates: tuple[Rate, ...]
    latencies: tuple[Latency, ...]
    alone: tuple[Port, ...] = ()
    """Interfaces that reach no other host's: there is nothing to measure."""

    @property
    def holds(self) -> bool:
        """Whether all rates are what the file says."""
        return all(rate.holds for rate in self.rates)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "rates": [rate.plain() for rate in self.rates],
            "latencies": [asdict(latency) for latency in self.latencies],
            "alone": [port.name for port in self.alone],
        }


def _nobody(done: float, what: str) -> None:
    """Hears of progress where nobody wants to."""


def require(layout: Layout, seconds: float = SECONDS) -> float:
    """How long :func:`check` takes where all rates hold at once, in seconds; up to :data:`TRIES` times that otherwise.

    Raises :class:`SynclineError` where there is nothing to measure, and where that is too long.
    """
    if not any(True for _ in trips(layout)):
        found = counted(len(layout.hosts), "host")
        refuse(
            error("SL1103", "there is nothing to measure", found=found, allowed="two hosts or more, joined by links")
        )
    whole = sum(_durations(layout, seconds))
    if whole > LONGEST_S:
        _too_long(layout, seconds, whole)
    return whole


def _too_long(layout: Layout, seconds: float, whole: float) -> NoReturn:
    """Says which queue would do, or that none would."""
    wait_s = max(queueing_s(layout, flows) for _, flows in patterns(layout))
    shorter = 1 << layout.queue_bytes.bit_length() - 1
    while shorter >= LEAST_BURST and sum(_durations(replace(layout, queue_bytes=shorter), seconds)) > LONGEST_S:
        shorter //= 2
    # A shorter one would drop what TCP hands down at once.
    queue = f"a shorter queue, such as `queue: {size(shorter).replace(' ', '')}`, or " if shorter >= LEAST_BURST else ""
    refuse(
        error(
            "SL0102",
            f"to measure this testbed takes {duration(whole)}, which is too long",
            key="queue",
            found=size(layout.queue_bytes),
            allowed=f"what is measured in {LONGEST_S / 60:.0f} min",
            help=f"give it {queue}faster links",
            notes=[f"a packet waits in queues for up to {shown_time(wait_s)}, and rates are those of many such times"],
        )
    )


def _durations(layout: Layout, seconds: float) -> list[float]:
    """How long each part takes, rates first, in seconds."""
    rates = (sum(window(layout, flows, seconds)) for _, flows in patterns(layout))
    return [START_S + each for each in (*rates, *(0.0 for _ in trips(layout)))]


def window(layout: Layout, flows: Sequence[Flow], seconds: float) -> tuple[float, float]:
    """Before which time flows are not measured, and for how long they are then."""
    wait_s = queueing_s(layout, flows)
    contended = any(share.contended for share in shares(layout, flows))
    return max(SETTLE_S, SETTLE_WAITS * wait_s), max(seconds, FAIR_WAITS * wait_s if contended else 0.0)


def check(layout: Layout, seconds: float = SECONDS, tell: Callable[[float, str], None] = _nobody) -> Checked:
    """Measures a testbed that is up. ``tell`` hears which part of the time is over and what is measured next.

    Raises :class:`SynclineError` as :func:`require` does, and where a program on a host fails.
    """
    whole = require(layout, seconds)
    begins = [0.0, *itertools.accumulate(_durations(layout, seconds))]
    with guardian.watch() as watch, _servers(layout, watch):
        rates: list[Rate] = []
        latencies: list[Latency] = []
        for what, flows in patterns(layout):
            tell(begins[len(rates)] / whole, f"measuring {what}")
            rates.append(_rate(layout, what, flows, seconds))
        for what, flow in trips(layout):
            tell(begins[len(rates) + len(latencies)] / whole, f"measuring latency {what}")
            times = json.loads(finish(_probe(layout, "latency", flow, str(ROUND_TRIPS))))
            back = Flow(flow.receiver, flow.sender)
            said = latency_s(layout, flow) + latency_s(layout, back)
            latencies.append(Latency(what, said, min(times), statistics.median(times)))
        watch.done()
    return Checked(tuple(rates), tuple(latencies), tuple(alone(layout)))


def trips(layout: Layout) -> Iterator[tuple[str, Flow]]:
    """Between which interfaces a round trip is measured, and what is said of them."""
    most = max(len(host.nics) for host in layout.hosts)
    for at in range(most):
        for what, flow in pairs(layout, at):
            yield what + (f", eth{at}" if most > 1 else ""), flow


def _rate(layout: Layout, what: str, flows: list[Flow], seconds: float) -> Rate:
    """Tries until all hold; the best of all tries, where none does."""
    fair = shares(layout, flows)
    settle_s, seconds = window(layout, flows, seconds)
    total = sum(share.bits for share in fair)
    tries: list[tuple[list[float], float]] = []
    while True:
        tries.append(_try(layout, flows, settle_s, seconds))
        best, cores = min(tries, key=lambda each: abs(sum(each[0]) - total))
        most = [max(each) for each in zip(*(found for found, _ in tries), strict=True)]
        rate = Rate(what, tuple(map(Measured, flows, fair, best, most)), cores)
        if rate.holds or len(tries) == TRIES:
            return rate


def _try(layout: Layout, flows: list[Flow], settle_s: float, seconds: float) -> tuple[list[float], float]:
    """Bits per second of each flow, all measured at the same time, and cores that were busy."""
    running = [_probe(layout, "rate", flow) for flow in flows]
    _ready(running)
    began, busy = time.monotonic(), busy_s()
    begin = began + settle_s
    for each in running:
        _tell(each, f"{begin} {begin + seconds}\n")
    found = [8 * json.loads(finish(each, settle_s + seconds + PATIENCE_S))[0] for each in running]
    return found, (busy_s() - busy) / (time.monotonic() - began)


def _probe(layout: Layout, what: str, flow: Flow, *rest: str) -> subprocess.Popen[str]:
    return _start(layout, flow.sender.host, what, flow.receiver.nic.address, flow.sender.nic.address, *rest)


def _start(layout: Layout, host: Host, what: str, address: str, *rest: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-I", "-S", str(PROBE), what, layout.congestion_control, address, str(PORT), *rest]
    command = ["ip", "netns", "exec", layout.namespace(host.number), *program]
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _ready(running: list[subprocess.Popen[str]]) -> None:
    """Waits until all probes say that they are. Raises :class:`SynclineError` where one fails."""
    for process in running:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            process.kill()
            finish(process)


def _tell(process: subprocess.Popen[str], line: str) -> None:
    # One that has failed says so when it is waited for.
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(line)
            process.stdin.flush()


def finish(process: subprocess.Popen[str], patience_s: float = PATIENCE_S, *, silent: bool = False) -> str:
    """What a program on a host prints, or nothing where it may be ``silent``.

    Raises :class:`SynclineError` where it fails.
    """
    try:
        out, problem = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        out, problem = "", f"no answer within {patience_s:.0f} seconds"
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
            running.append(_start(layout, host, "serve", "0.0.0.0"))  # noqa: S104 - nobody else is on that host
            watch.group(running[-1].pid)
        _ready(running)
        yield
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
