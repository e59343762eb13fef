"""Schedules: who measures whom in which round."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from syncline.distances import Pair

Round = Sequence[tuple[int, int]]
"""Pairs of hosts, from and to. No host is in two of them, so that measurements do not disturb each other."""
Results = dict[tuple[int, int], Pair]
"""What a round has measured."""


@dataclass(frozen=True)
class Schedule:
    """The rounds of a probe. A generator is sent the results of each round."""

    rounds: Iterable[Round]
    count: int
    """How many rounds there are, or are expected."""


MakeSchedule = Callable[[int], Schedule]
"""Makes the schedule for a number of hosts."""


class Turns:
    """Goes through the rounds of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._rounds = iter(schedule.rounds)
        self._begun = False

    def next(self, results: Results) -> Round | None:
        """Returns the next round, given the results of the last one; ``None`` at the end."""
        try:
            if self._begun and isinstance(self._rounds, Generator):
                found: Any = self._rounds.send(results)
            else:
                found = next(self._rounds)
        except StopIteration:
            return None
        self._begun = True
        return list(found)


def full(hosts: int) -> Schedule:
    """Makes the schedule that measures every pair in both directions."""
    from syncline.probing.tournament import full_schedule

    rounds = list(full_schedule(hosts))
    return Schedule(rounds, len(rounds))


def sampled(seed: int) -> MakeSchedule:
    """Makes the schedule of few pairs that suffice to find groups of near hosts.

    :raises SynclineError: a package of the extra ``group`` is not installed.
    """
    from syncline.grouping.packages import require

    require()

    def make(hosts: int) -> Schedule:
        from syncline.probing.sampled_schedule import sampled_schedule

        # 2 N log2 N probes, half as many as there are hosts in a round.
        return Schedule(sampled_schedule(hosts, seed), 4 * max(math.ceil(math.log2(hosts)), 1))

    return make
