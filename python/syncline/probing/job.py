"""Probes the ranks of a running job, over the job's own connections: it opens no port.

All ranks call :func:`probe` with the same arguments, and all get the whole result. A round trip here is that of a
message of 8 bytes through the runtime, so it contains the runtime's work on both ranks, besides the network's.
"""

from __future__ import annotations

import math
import socket
import statistics
import time
from array import array
from collections import Counter
from typing import TYPE_CHECKING

from syncline.distances import Measured, Pair
from syncline.probing.budget import PAIR_S, Costs, Plan, Wanted, plan
from syncline.probing.estimates import MIN_SAMPLES, of_samples
from syncline.probing.outcome import Outcome
from syncline.probing.rounds import Results, Round, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.probing.rounds import MakeSchedule
    from syncline.runtime import Communicator, Pending

SPACE = 0x50_52_4F_42_45
"""The space of tags of all messages of a probe."""
ECHO, ORDER, DATA = range(3)
"""Tags: echoes; the size of the next transfer, or 0; transfers."""
MESSAGE = 8
"""Bytes of an echo. Its first byte is 1 in the last one."""
FIRST_SIZE, LARGEST_SIZE = 256 << 10, 64 << 20
"""Sizes of transfers, in bytes."""
GROWTH = 4
REPEATS = 5
"""Transfers of the final size that are timed."""
NAME_BYTES = 64


def probe(
    ranks: Communicator,
    schedule: MakeSchedule,
    wanted: Wanted,
    *,
    tell: Callable[[float, str], None] = lambda _, __: None,
) -> Outcome:
    """Probes the ranks of a job. All ranks must call it, with equal arguments; all get the same measurements.

    ``tell`` is called with the fraction done and what is done next. Ctrl-C ends the probe on its rank, which gets what
    was measured until then; the job is then of no further use.

    :raises SynclineError: the budget is too short (on all ranks), or a rank or link failed.
    """
    return _Probe(ranks, schedule, wanted, tell).run()


class _Probe:
    """One rank's part of a probe."""

    def __init__(
        self, ranks: Communicator, schedule: MakeSchedule, wanted: Wanted, tell: Callable[[float, str], None]
    ) -> None:
        self._ranks = ranks
        self._schedule = schedule
        self._wanted = wanted
        self._tell = tell
        self._began = time.monotonic()
        self._elapsed_s = 0.0
        """Time since the start, on the rank that started first; the same number on all ranks."""
        self._pairs: Results = {}

    def run(self) -> Outcome:
        """Probes."""
        names = self._names()
        schedule = self._schedule(self._ranks.world)
        turns = Turns(schedule)
        chosen: Plan | None = None
        results: Results = {}
        rounds = 0
        limited = interrupted = False
        try:
            while (pairs := turns.next(results)) is not None:
                if chosen is None:
                    chosen = plan(self._wanted, schedule.count, self._try(pairs), self._left_s(), self._elapsed_s)
                left_s = self._left_s()
                if left_s is not None and left_s <= 0:
                    limited = True
                    break
                expected = max(schedule.count, rounds + 1)
                self._tell(rounds / expected, f"round {rounds + 1} of {expected}")
                share_s = None if left_s is None else left_s / max(schedule.count - rounds, 1)
                results = self._round(pairs, chosen, share_s)
                self._pairs |= results
                rounds += 1
        except KeyboardInterrupt:
            if not self._pairs:
                raise
            interrupted = True
        return Outcome(
            measured=Measured(names, self._pairs).among(sorted({rank for pair in self._pairs for rank in pair})),
            samples=chosen.samples if chosen else 0,
            rounds=rounds,
            took_s=time.monotonic() - self._began,
            clock="runtime" if self._wanted.rtt else "none",
            limited=limited,
            interrupted=interrupted,
        )

    def _left_s(self) -> float | None:
        """Returns the time left, which is the same on all ranks."""
        budget_s = self._wanted.budget_s
        return None if budget_s is None else budget_s - self._elapsed_s

    def _names(self) -> tuple[str, ...]:
        """Returns the names of all ranks: that of the host, and the rank's number if several have one host."""
        own = socket.gethostname().encode("utf-8", "replace")[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
        everyone = bytearray(NAME_BYTES * self._ranks.world)
        self._ranks.all_gather(bytearray(own), everyone).wait()
        cut = [bytes(everyone[at : at + NAME_BYTES]) for at in range(0, len(everyone), NAME_BYTES)]
        hosts = [each.rstrip(b"\0").decode("utf-8", "replace") or "host" for each in cut]
        count = Counter(hosts)
        return tuple(name if count[name] == 1 else f"{name}/{rank}" for rank, name in enumerate(hosts))

    def _shared(self, row: Sequence[float]) -> list[list[float]]:
        """Returns the rows of all ranks."""
        everyone = array("d", bytes(8 * len(row) * self._ranks.world))
        self._ranks.all_gather(array("d", row), everyone).wait()
        rows = [list(everyone[at : at + len(row)]) for at in range(0, len(everyone), len(row))]
        self._elapsed_s = max(each[-1] for each in rows)
        return rows

    def _partner(self, pairs: Round) -> tuple[int | None, int | None]:
        """Returns the rank that this one measures, and the rank that measures this one."""
        own = self._ranks.rank
        return next((b for a, b in pairs if a == own), None), next((a for a, b in pairs if b == own), None)

    def _try(self, pairs: Round) -> Costs:
        """Echoes a few times, so that costs can be estimated; the result is the same on all ranks."""
        began = time.monotonic()
        to, source = self._partner(pairs)
        took_s = 0.0
        if to is not None:
            took_s = sum(self._echo(to, MIN_SAMPLES, PAIR_S))
        elif source is not None:
            self._answer(source)
        self._ranks.barrier().wait()
        whole_s = time.monotonic() - began
        rows = self._shared([took_s, whole_s, time.monotonic() - self._began])
        longest_s = max(each[0] for each in rows)
        step_s = max(max(each[1] for each in rows) - longest_s, 0.001)
        return Costs(max(longest_s / MIN_SAMPLES, 1e-6), min(step_s, 0.1))

    def _round(self, pairs: Round, chosen: Plan, share_s: float | None) -> Results:
        """Measures the pairs of a round; returns the results of all."""
        to, source = self._partner(pairs)
        # Round trip, its median and error, samples, rate and transfers.
        row = [math.nan, math.nan, math.nan, 0.0, math.nan, 0.0]
        if self._wanted.rtt:
            if to is not None:
                time_s = PAIR_S if share_s is None else max(share_s - chosen.rate_s, 0.01)
                found = of_samples(self._echo(to, chosen.samples, time_s))
                values = (found.rtt_s, found.rtt_median_s, found.rtt_error_s)
                row[:4] = [*(math.nan if each is None else each for each in values), found.samples]
            elif source is not None:
                self._answer(source)
        if self._wanted.rate:
            # Transfers of one pair would slow the echoes of others.
            self._ranks.barrier().wait()
            if to is not None:
                row[4:] = self._transfer(to, chosen.rate_s)
            elif source is not None:
                self._receive_transfers(source)
        rows = self._shared([*row, time.monotonic() - self._began])
        return {(a, b): _pair(rows[a]) for a, b in pairs}

    def _echo(self, to: int, count: int, time_s: float) -> list[float]:
        """Sends messages to a rank that sends them back; returns the round trips in seconds."""
        found: list[float] = []
        there, back = bytearray(MESSAGE), bytearray(MESSAGE)
        began = time.monotonic()
        while not there[0]:
            late = len(found) + 1 >= MIN_SAMPLES and time.monotonic() - began > time_s
            there[0] = late or len(found) + 1 >= count
            start = time.perf_counter_ns()
            waiting = self._receive(back, to, ECHO)
            sending = self._send(there, to, ECHO)
            waiting.wait()
            found.append((time.perf_counter_ns() - start) / 1e9)
            sending.wait()
        return found

    def _answer(self, source: int) -> None:
        """Sends the messages of :meth:`_echo` back."""
        message = bytearray(MESSAGE)
        while not message[0]:
            self._receive(message, source, ECHO).wait()
            self._send(message, source, ECHO).wait()

    def _transfer(self, to: int, time_s: float) -> tuple[float, int]:
        """Sends messages to a rank; returns the median rate in bytes per second, and how many messages it is of.

        The time of a message ends when the receiver's answer arrives, so the rate is a little too low, the less so the
        larger messages are. Sizes grow as long as several messages of the next size fit into the time.
        """
        began = time.monotonic()
        size = FIRST_SIZE
        took_s = self._time(to, bytearray(size))
        while size * GROWTH <= LARGEST_SIZE:
            if GROWTH * took_s * (REPEATS + 1) > time_s - (time.monotonic() - began):
                break
            size *= GROWTH
            took_s = self._time(to, bytearray(size))
        data = bytearray(size)
        rates = [size / self._time(to, data) for _ in range(REPEATS)]
        self._send(array("q", [0]), to, ORDER).wait()
        return statistics.median(rates), len(rates)

    def _time(self, to: int, data: bytearray) -> float:
        """Sends a message; returns the seconds until the receiver has answered that it has all of it."""
        self._send(array("q", [len(data)]), to, ORDER).wait()
        answer = self._receive(bytearray(MESSAGE), to, DATA)
        start = time.perf_counter()
        # A send may be over while bytes still wait in this host's buffers.
        sending = self._send(data, to, DATA)
        answer.wait()
        took_s = time.perf_counter() - start
        sending.wait()
        return max(took_s, 1e-9)

    def _receive_transfers(self, source: int) -> None:
        """Receives the messages of :meth:`_transfer`."""
        order, buffer = array("q", [0]), bytearray()
        while True:
            self._receive(order, source, ORDER).wait()
            if not order[0]:
                return
            if len(buffer) != order[0]:
                buffer = bytearray(order[0])
            self._receive(buffer, source, DATA).wait()
            self._send(bytearray(MESSAGE), source, DATA).wait()

    def _send(self, buffer: bytearray | array[float] | array[int], to: int, tag: int) -> Pending:
        return self._ranks.send(buffer, to, tag, space=SPACE)

    def _receive(self, buffer: bytearray | array[float] | array[int], source: int, tag: int) -> Pending:
        return self._ranks.receive(buffer, source, tag, space=SPACE)


def _pair(row: Sequence[float]) -> Pair:
    """Returns what the row of a rank says of its path to the rank that it measured."""
    rtt, median, error, samples, rate, transfers = row[:6]
    return Pair(
        rtt_s=_given(rtt),
        rtt_median_s=_given(median),
        rtt_error_s=_given(error),
        samples=int(samples),
        rate_bytes_per_s=_given(rate),
        transfers=int(transfers),
    )


def _given(value: float) -> float | None:
    return None if math.isnan(value) else value
