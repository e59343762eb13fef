"""What a rank measures while it runs operations, and what it tells others about that.

Each read sends one command to each lane. Between reads, a lane only adds up bytes.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from syncline.input.problem import bad_value, cannot_write, raise_errors
from syncline.runtime import prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from syncline.runtime.communicator import Communicator

__all__ = ["Connection", "Log", "OperationTimes", "Signals", "Tcp", "read", "serve_metrics"]

PORT = 29_422
"""Default port of a rank's metrics."""


@dataclass(frozen=True)
class Tcp:
    """What the kernel knows about a TCP connection (``TCP_INFO`` of ``tcp(7)``)."""

    round_trip_s: float
    """Smoothed round trip time (RFC 6298). It contains the time in queues."""
    variation_s: float
    """Variation of round trip times (RFC 6298)."""
    shortest_round_trip_s: float
    """The shortest round trip of the last minutes; 0 if the kernel does not know it."""
    busy_s: float
    """Time for which the connection had data to send since it began."""
    delivery_rate_bytes_per_s: int
    """The rate at which data reached the peer recently; 0 if the kernel does not know it."""
    application_limited: bool
    """Whether this rank sent too little to fill the connection then, so that it may be faster."""
    retransmits: int
    """Segments that were sent again since the connection began."""


@dataclass(frozen=True)
class Connection:
    """The traffic between this rank and another one on one lane."""

    rank: int
    """The other rank, by its number when the job began."""
    lane: int
    sent_bytes: int
    """Bytes sent since the epoch began, with headers and heartbeats."""
    received_bytes: int
    """Bytes received since then."""
    tcp: Tcp | None
    """``None`` unless the connection is TCP, or TLS on it, on Linux."""


@dataclass(frozen=True)
class OperationTimes:
    """How long collectives of one kind and of similar sizes took, of those that have succeeded."""

    kind: str
    from_bytes: int
    """The smallest size of this class. The largest is less than twice as much."""
    count: int
    bytes: int
    """The sum of their sizes."""
    total_s: float
    """The sum of their times, each from its beginning on this rank to its end."""
    longest_s: float


@dataclass(frozen=True)
class Signals:
    """What a rank has measured since its epoch began."""

    at_s: float
    """Seconds since 1970."""
    rank: int
    """The rank, by its number when the job began."""
    epoch: int
    edition: int
    """The number of the plans in force; 0 for those with which the epoch began."""
    connections: Sequence[Connection]
    operations: Sequence[OperationTimes]

    def as_dict(self) -> dict[str, Any]:
        """Returns the signals as plain data, as logs contain them."""
        return asdict(self)


def connections(rows: Sequence[Any]) -> list[Connection]:
    """Returns connections from the rows of the core."""

    def tcp(row: Any) -> Tcp:
        (trip, variation, shortest, busy), rate, limited, retransmits = row
        return Tcp(trip, variation, shortest, busy, rate, limited, retransmits)

    return [
        Connection(rank, lane, sent, received, None if kernel is None else tcp(kernel))
        for rank, lane, sent, received, kernel in rows
    ]


def operation_times(rows: Sequence[Any]) -> list[OperationTimes]:
    """Returns times of operations from the rows of the core."""
    return [OperationTimes(kind, 1 << (digits - 1) if digits else 0, *row) for kind, digits, *row in rows]


def read(ranks: Communicator) -> Signals:
    """Returns what this rank of a job has measured since its epoch began. Groups have no connections of their own."""
    return Signals(
        at_s=time.time(),
        rank=ranks.ranks[ranks.rank],
        epoch=ranks.epoch,
        edition=ranks.edition,
        connections=ranks.connections,
        operations=ranks.operation_times,
    )


class Log:
    """Appends the signals of a rank to a file, as a line of JSON at each interval, on a thread of its own.

    The thread ends with :meth:`close`, which writes a last line; close the log before the communicator. Counts begin
    again with each epoch. A full disk ends the log and nothing else:
    :attr:`failed` says why.
    """

    def __init__(self, ranks: Communicator, file: str | Path, interval_s: float = 10.0) -> None:
        """Begins the log. Raises ``SynclineError`` if the file cannot be written."""
        if not 0.001 <= interval_s <= 86_400:
            raise bad_value("the interval is out of range", f"{interval_s} s", allowed="0.001 to 86,400 s")
        self.failed: str | None = None
        """Why no more is written, if the file could not be written."""
        self._ranks = ranks
        self._interval_s = interval_s
        try:
            self._file = Path(file).open("a", encoding="utf-8")  # noqa: SIM115 - `close` closes it
        except OSError as problem:
            raise_errors(cannot_write(str(file), problem))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="syncline signals", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            self._write()

    def _write(self) -> None:
        if self.failed is not None:
            return
        try:
            self._file.write(json.dumps(read(self._ranks).as_dict()) + "\n")
            self._file.flush()
        except OSError as problem:
            self.failed = problem.strerror or str(problem)

    def close(self) -> None:
        """Writes a last line, and closes the file."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        self._write()
        try:
            self._file.close()
        except OSError as problem:
            self.failed = self.failed or problem.strerror or str(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def serve_metrics(ranks: Communicator, address: str) -> str:
    """Serves the signals of a rank to Prometheus at ``address``, at port 29422 unless it names one; port 0 is any.

    Returns the address with its port. The server runs on a thread until the process ends. Ranks on one host need ports
    of their own. Raises ``SynclineError`` if ``prometheus-client`` is not installed (SL0902), or the server cannot
    listen there (SL1201).
    """
    return prometheus.serve(_Collector(ranks), address, PORT)


class _Collector:
    """Reads the signals at every scrape, and converts them to metrics."""

    def __init__(self, ranks: Communicator) -> None:
        self._ranks = ranks

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of one scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

        signals = read(self._ranks)
        own = str(signals.rank)
        plans = "Number of the plans in force, which changes of plans increase."
        edition = GaugeMetricFamily("syncline_plan_edition", plans, labels=["rank"])
        edition.add_metric([own], signals.edition)
        by = ["rank", "peer", "lane"]
        sent = CounterMetricFamily("syncline_sent_bytes", "Bytes sent to a peer.", labels=by)
        received = CounterMetricFamily("syncline_received_bytes", "Bytes received from a peer.", labels=by)
        again = CounterMetricFamily("syncline_retransmits", "TCP segments sent again.", labels=by)
        trip = GaugeMetricFamily("syncline_round_trip_seconds", "Smoothed TCP round trip time.", labels=by)
        rate = GaugeMetricFamily("syncline_delivery_rate_bytes_per_second", "TCP delivery rate.", labels=by)
        for each in signals.connections:
            labels = [own, str(each.rank), str(each.lane)]
            sent.add_metric(labels, each.sent_bytes)
            received.add_metric(labels, each.received_bytes)
            if each.tcp is not None:
                again.add_metric(labels, each.tcp.retransmits)
                trip.add_metric(labels, each.tcp.round_trip_s)
                rate.add_metric(labels, each.tcp.delivery_rate_bytes_per_s)
        labels = ["rank", "kind", "from_bytes"]
        times = SummaryMetricFamily(
            "syncline_operation_seconds",
            "Times of collectives by kind and smallest size of their class.",
            labels=labels,
        )
        moved = CounterMetricFamily("syncline_operation_bytes", "Bytes of the vectors of collectives.", labels=labels)
        for size in signals.operations:
            values = [own, size.kind, str(size.from_bytes)]
            times.add_metric(values, size.count, size.total_s)
            moved.add_metric(values, size.bytes)
        yield from (edition, sent, received, again, trip, rate, times, moved)
