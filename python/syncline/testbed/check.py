"""Measures whether links have the rates in a testbed's file: in a rack, across racks, and of all hosts; and latency."""

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

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.quantity import counted, duration, size
from syncline.quantity import time as shown_time
from syncline.testbed import cleanup
from syncline.testbed.commands import MIN_BURST
from syncline.testbed.cores import busy_s
from syncline.testbed.flows import Flow, alone, latency_s, pairs, patterns, queueing_s, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.testbed.cleanup import Watch
    from syncline.testbed.flows import Port, Share
    from syncline.testbed.layout import Host, Layout

PROBE = Path(__file__).with_name("probe.py")
PORT = 29_499
TOLERANCE = 0.05
"""Relative deviation of a rate that still counts as correct."""
FAIR = 0.1
"""Minimum part of its fair share that a contended flow must get: TCP gives some flows as little as a fifth."""
SECONDS = 1.0
TRIES = 3
"""How often a rate that does not hold is measured: congestion control may miss the rate of a link by chance."""
SETTLE_S = 0.3
"""Minimum time before a measurement begins, in which congestion control finds its rate."""
SETTLE_WAITS = 10
"""The same, in queueing delays: slow start doubles from 10 segments until the queue is full."""
FAIR_WAITS = 25
"""Minimum time for which contended flows are measured, in queueing delays: they approach fair shares slowly."""
ROUND_TRIPS = 200
PATIENCE_S = 60.0
"""How much longer than its measurement a program on a host may take."""
START_S = 0.5
"""Estimated time for programs on hosts to start and end."""
LONGEST_S = 300.0
"""Maximum time of a check in which every rate holds at the first try."""
BUSY = 0.9
"""Part of all cores beyond which the machine, rather than a link, limits a rate."""


@dataclass(frozen=True)
class MeasuredFlow:
    """The measured rate of a flow."""

    flow: Flow
    share: Share
    """The flow's fair share."""
    bits: float
    """Payload that arrived, in bits per second."""
    most_bits: float
    """The same, in the flow's best try."""

    @property
    def holds(self) -> bool:
        """Whether the flow got its share; of a contended share, at least the part :data:`FAIR`."""
        return self.most_bits >= self.share.bits * (FAIR if self.share.contended else 1 - TOLERANCE)

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        ends = {"from": self.flow.sender.name, "to": self.flow.receiver.name}
        return {
            **ends,
            "expected_bits": self.share.bits,
            "measured_bits": self.most_bits,
            "contended": self.share.contended,
        }


@dataclass(frozen=True)
class Rate:
    """Measured rates of flows that ran at the same time: payload, in bits per second."""

    what: str
    each: tuple[MeasuredFlow, ...]
    cores: float
    """Number of the machine's cores that were busy."""

    @property
    def expected_bits(self) -> float:
        """The rate of all flows together by the file."""
        return sum(one.share.bits for one in self.each)

    @property
    def measured_bits(self) -> float:
        """The measured rate of all flows together."""
        return sum(one.bits for one in self.each)

    @property
    def slow(self) -> list[MeasuredFlow]:
        """Flows that got less than their share, the slowest first."""
        return sorted((one for one in self.each if not one.holds), key=lambda one: one.most_bits / one.share.bits)

    @property
    def off(self) -> float:
        """The relative difference between the measured and the expected rate of all flows together."""
        return abs(self.measured_bits / self.expected_bits - 1)

    @property
    def holds(self) -> bool:
        """Whether the rate of all flows together is that of the file, and no flow is slow."""
        return self.off <= TOLERANCE and not self.slow

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        return {
            "what": self.what,
            "flows": len(self.each),
            "expected_bits": self.expected_bits,
            "measured_bits": self.measured_bits,
            "least_bits": min(one.bits for one in self.each),
            "most_bits": max(one.bits for one in self.each),
            "slow": [one.as_dict() for one in self.slow],
            "cores": self.cores,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Latency:
    """Measured times of round trips of 4 bytes, in seconds."""

    what: str
    file_s: float
    """The latencies in the file of all links of the round trip. A testbed does not emulate them."""
    least_s: float
    median_s: float


@dataclass(frozen=True)
class Checked:
    """The measurements on a testbed."""

    rates: tuple[Rate, ...]
    latencies: tuple[Latency, ...]
    alone: tuple[Port, ...] = ()
    """Interfaces that reach no other host, and are not measured."""

    @property
    def holds(self) -> bool:
        """Whether all rates are those of the file."""
        return all(rate.holds for rate in self.rates)

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        return {
            "rates": [rate.as_dict() for rate in self.rates],
            "latencies": [asdict(latency) for latency in self.latencies],
            "alone": [port.name for port in self.alone],
        }


def _ignore_progress(done: float, what: str) -> None:
    """Ignores progress."""


def require(layout: Layout, seconds: float = SECONDS) -> float:
    """Returns the seconds that :func:`check` takes if all rates hold at the first try.

    It may take up to :data:`TRIES` times as long otherwise. Raises :class:`SynclineError` if there is nothing to
    measure, or if the check would take too long.
    """
    if layout.paths:
        raise_errors(
            error(
                Code.WHICH_TESTBED,
                "only rates of switches can be measured, and these hosts are joined directly",
                found=layout.name,
                help="run a collective instead, and compare its time with `syncline simulate`",
            )
        )
    if not any(True for _ in trips(layout)):
        found = counted(len(layout.hosts), "host")
        raise_errors(
            error(
                Code.WHICH_TESTBED,
                "there is nothing to measure",
                found=found,
                allowed="two hosts or more, joined by links",
            )
        )
    whole = sum(_durations(layout, seconds))
    if whole > LONGEST_S:
        _too_long(layout, seconds, whole)
    return whole


def _too_long(layout: Layout, seconds: float, whole: float) -> NoReturn:
    """Raises the error for a check that would take too long; proposes a shorter queue if one would do."""
    wait_s = max(queueing_s(layout, flows) for _, flows in patterns(layout))
    shorter = 1 << layout.queue_bytes.bit_length() - 1
    while shorter >= MIN_BURST and sum(_durations(replace(layout, queue_bytes=shorter), seconds)) > LONGEST_S:
        shorter //= 2
    # A queue shorter than a burst would drop what TCP sends at once.
    queue = f"a shorter queue, such as `queue: {size(shorter).replace(' ', '')}`, or " if shorter >= MIN_BURST else ""
    raise_errors(
        error(
            Code.BAD_VALUE,
            f"measuring this testbed would take {duration(whole)}, which is too long",
            key="queue",
            found=size(layout.queue_bytes),
            allowed=f"a queue with which it takes at most {LONGEST_S / 60:.0f} min",
            help=f"give it {queue}faster links",
            notes=[f"a packet waits in queues for up to {shown_time(wait_s)}, and rates need many times as long"],
        )
    )


def _durations(layout: Layout, seconds: float) -> list[float]:
    """Returns the seconds that each measurement takes, rates first."""
    rates = (sum(window(layout, flows, seconds)) for _, flows in patterns(layout))
    return [START_S + each for each in (*rates, *(0.0 for _ in trips(layout)))]


def window(layout: Layout, flows: Sequence[Flow], seconds: float) -> tuple[float, float]:
    """Returns the seconds before the measurement of flows begins, and the seconds for which it runs."""
    wait_s = queueing_s(layout, flows)
    contended = any(share.contended for share in shares(layout, flows))
    return max(SETTLE_S, SETTLE_WAITS * wait_s), max(seconds, FAIR_WAITS * wait_s if contended else 0.0)


def check(layout: Layout, seconds: float = SECONDS, tell: Callable[[float, str], None] = _ignore_progress) -> Checked:
    """Measures a testbed that is up. ``tell`` is called with the part of the time that is over, and the next step.

    Raises :class:`SynclineError` as :func:`require` does, and if a program on a host fails.
    """
    whole = require(layout, seconds)
    begins = [0.0, *itertools.accumulate(_durations(layout, seconds))]
    with cleanup.watch() as watch, _servers(layout, watch):
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
    """Yields the flows whose round trips are measured, each with a description."""
    most = max(len(host.nics) for host in layout.hosts)
    for at in range(most):
        for what, flow in pairs(layout, at):
            yield what + (f", eth{at}" if most > 1 else ""), flow


def _rate(layout: Layout, what: str, flows: list[Flow], seconds: float) -> Rate:
    """Measures flows until their rates hold, at most :data:`TRIES` times; returns the best try."""
    fair = shares(layout, flows)
    settle_s, seconds = window(layout, flows, seconds)
    total = sum(share.bits for share in fair)
    tries: list[tuple[list[float], float]] = []
    while True:
        tries.append(_try(layout, flows, settle_s, seconds))
        best, cores = min(tries, key=lambda each: abs(sum(each[0]) - total))
        most = [max(each) for each in zip(*(found for found, _ in tries), strict=True)]
        rate = Rate(what, tuple(map(MeasuredFlow, flows, fair, best, most)), cores)
        if rate.holds or len(tries) == TRIES:
            return rate


def _try(layout: Layout, flows: list[Flow], settle_s: float, seconds: float) -> tuple[list[float], float]:
    """Measures all flows at the same time: returns bits per second of each, and the number of busy cores."""
    running = [_probe(layout, "rate", flow) for flow in flows]
    _ready(running)
    began, busy = time.monotonic(), busy_s()
    begin = began + settle_s
    for each in running:
        _write_line(each, f"{begin} {begin + seconds}\n")
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
    """Waits until all probes are ready. Raises :class:`SynclineError` if one fails."""
    for process in running:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            process.kill()
            finish(process)


def _write_line(process: subprocess.Popen[str], line: str) -> None:
    # If the process has failed, `finish` reports it.
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(line)
            process.stdin.flush()


def finish(process: subprocess.Popen[str], patience_s: float = PATIENCE_S, *, silent: bool = False) -> str:
    """Waits for a program on a host, and returns what it printed, which may be nothing if ``silent``.

    Raises :class:`SynclineError` if it fails.
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
        raise_errors(
            error(Code.HOST_FAILED, "a measurement between hosts failed", notes=[last], help="syncline testbed status")
        )
    return out


@contextlib.contextmanager
def _servers(layout: Layout, watch: Watch) -> Iterator[None]:
    """Runs a probe that answers on each host, for as long as the block runs."""
    running = []
    try:
        for host in layout.hosts:
            running.append(_start(layout, host, "serve", "0.0.0.0"))  # noqa: S104 - the host is a namespace of ours
            watch.group(running[-1].pid)
        _ready(running)
        yield
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
