"""What all ranks measure between two looks, brought together on rank 0.

Each rank answers rank 0 on a thread of its own, by messages of a group that has only this purpose: if it ends, the job
goes on. Answers are rows of numbers of a fixed length.
"""

from __future__ import annotations

import math
import threading
from array import array
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from syncline.errors import SynclineError
from syncline.tuning.finetune import Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.runtime import Communicator
    from syncline.runtime.signals import OperationTimes

DEADLINE_S = 3e8
"""A rank may take as long as it likes to ask: the messages have no deadline that matters."""
ASK, ANSWER = range(2)
"""Tags."""
OPERATIONS = 3
"""Numbers about operations in a row: their count, bytes and time."""
MAX_RATE_OVER_MEDIAN = 4
"""Cap on a rank's rate, as a multiple of the median."""
PEER = 3
"""Numbers about each rank that follow: bytes sent to it, the time busy with them, and the round trip."""


@dataclass(frozen=True)
class Window:
    """What all ranks measured between two looks."""

    operations: int
    """All-reduces that the tuner looks after."""
    mean_bytes: float
    """The mean size of their vectors."""
    seconds_per_byte: float
    """The time of these all-reduces over the bytes of their vectors, on the rank that waited least for others; not a
    number if there were none."""
    traffic: Sequence[Traffic]
    """The traffic of each rank."""
    known: bool
    """Whether the kernels told the rates of all ranks: connections are TCP and carried something."""


class Sampler:
    """Counts what one rank measures between two looks."""

    def __init__(self, ranks: Communicator, above: int) -> None:
        self._ranks = ranks
        self._above = above
        self._last: list[float] | None = None

    def row(self) -> list[float]:
        """Returns what this rank measured since the last call.

        These are :data:`OPERATIONS` numbers about all-reduces, then :data:`PEER` about each rank.
        """
        now = self._totals()
        last, self._last = self._last or [0.0] * len(now), now
        row = [value - before for value, before in zip(now, last, strict=True)]
        # Round trips are no totals.
        row[OPERATIONS + 2 :: PEER] = now[OPERATIONS + 2 :: PEER]
        return row

    def operations(self) -> int:
        """Returns how many all-reduces are over since the last row. Asks no lane."""
        before = self._last[0] if self._last else 0
        return int(sum(each.count for each in self._ranks.operation_times if self._counts(each)) - before)

    def seconds_per_byte(self) -> float:
        """Returns the time of all-reduces over their bytes on this rank since the last row; 0 if none is over."""
        before = self._last or [0.0] * 3
        counted = [each for each in self._ranks.operation_times if self._counts(each)]
        total_s, nbytes = sum(each.total_s for each in counted), sum(each.bytes for each in counted)
        return (total_s - before[2]) / (nbytes - before[1]) if nbytes > before[1] else 0.0

    def tells_rates(self) -> bool:
        """Whether the kernel knows the rate of some connection of this rank: none of shared memory."""
        return any(connection.tcp is not None for connection in self._ranks.connections)

    def _counts(self, times: OperationTimes) -> bool:
        """Whether the tuner looks after a class: all-reduces, some of which may have more bytes than the limit."""
        return times.kind == "all_reduce" and 2 * times.from_bytes - 1 > self._above

    def _totals(self) -> list[float]:
        totals = [0.0] * (OPERATIONS + PEER * self._ranks.world)
        for each in self._ranks.operation_times:
            if self._counts(each):
                totals[0] += each.count
                totals[1] += each.bytes
                totals[2] += each.total_s
        places = {rank: place for place, rank in enumerate(self._ranks.ranks)}
        for connection in self._ranks.connections:
            at = OPERATIONS + PEER * places[connection.rank]
            # The kernel knows nothing of shared memory, which is no bottleneck.
            if connection.tcp is not None:
                totals[at] += connection.sent_bytes
                totals[at + 1] += connection.tcp.busy_s
                totals[at + 2] = max(totals[at + 2], connection.tcp.round_trip_s)
        return totals


def combine(rows: Sequence[Sequence[float]]) -> Window:
    """Brings the rows of all ranks together.

    The rate of a rank is the lower one of those at which it sends and receives: bytes over the time for which there
    were some to send, summed over the other ranks. (The kernel's own rates take bursts that queues absorb for the rate
    of a link.) A rank has at most :data:`MAX_RATE_OVER_MEDIAN` times the median.
    """
    world = len(rows)
    sent, busy, trips = ([row[OPERATIONS + at :: PEER] for row in rows] for at in range(PEER))

    def rate(source: int, target: int) -> float:
        time_s = busy[source][target]
        return sent[source][target] / time_s if time_s > 0 else 0.0

    others = [[other for other in range(world) if other != rank] for rank in range(world)]
    rates = [
        min(sum(rate(rank, other) for other in others[rank]), sum(rate(other, rank) for other in others[rank]))
        for rank in range(world)
    ]
    most = MAX_RATE_OVER_MEDIAN * median(rates)
    times = [row[2] / row[1] for row in rows if row[1] > 0]
    return Window(
        operations=int(min(row[0] for row in rows)),
        mean_bytes=rows[0][1] / rows[0][0] if rows[0][0] > 0 else math.nan,
        seconds_per_byte=min(times) if len(times) == world else math.nan,
        traffic=[
            Traffic(sum(sent[rank]), max(min(rates[rank], most), 1e-9), max(trips[rank])) for rank in range(world)
        ],
        known=all(rate > 0 for rate in rates),
    )


class Answers:
    """The thread that answers rank 0, on the other ranks."""

    def __init__(self, group: Communicator, sampler: Sampler) -> None:
        self._group = group
        self._sampler = sampler
        self._thread = threading.Thread(target=self._run, name="syncline tuner", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._group.receive(bytearray(1), 0, ASK).wait()
                self._group.send(array("d", self._sampler.row()), 0, ANSWER).wait()
        except SynclineError:
            return  # The group or the job has ended.

    def close(self) -> None:
        """Ends the thread."""
        self._group.close()
        self._thread.join()


def look(group: Communicator, sampler: Sampler) -> Window:
    """Asks all ranks, from rank 0. Raises ``SynclineError`` if the group or the job has ended."""
    own = sampler.row()
    others = range(1, group.world)
    rows = {other: array("d", bytes(8 * len(own))) for other in others}
    answers = [group.receive(rows[other], other, ANSWER) for other in others]
    for other in others:
        group.send(bytearray(1), other, ASK)
    for answer in answers:
        answer.wait()
    return combine([own, *(rows[other].tolist() for other in others)])
