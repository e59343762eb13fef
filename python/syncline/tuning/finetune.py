"""Moves masters away from the rank that holds an all-reduce up (luo2020 4.2.3, *Finetune*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.tuning.masters import Assignment

BETA, GAMMA, EPSILON = 0.5, 1.0, 1.1
"""Weights of imbalance and time in a rank's blame, and the ratio of the largest blame to the smallest that is left
alone. The paper names these parameters, and gives no values."""


@dataclass(frozen=True)
class Traffic:
    """What a rank has measured over some time."""

    sent_bytes: float
    """Bytes that it sent to all others, ``sum of D(i, j)``."""
    rate_bytes_per_s: float
    """The rate at which it sends to all others, ``sum of BW(i, j)``."""
    round_trip_s: float
    """The longest round trip to another rank, ``max of RTT(i, j)``."""


def blame(traffic: Sequence[Traffic], *, beta: float = BETA, gamma: float = GAMMA) -> list[float]:
    """How much each rank is to blame for the time of an all-reduce: ``beta`` of imbalance, ``gamma`` of time.

    Time is the longest round trip plus bytes over rate, in means of all ranks. Imbalance is 0 for the rank that sends
    least, and 1 for the one that sends most.
    """
    times = [each.round_trip_s + each.sent_bytes / each.rate_bytes_per_s for each in traffic]
    mean = sum(times) / len(times)
    sent = [each.sent_bytes for each in traffic]
    least, spread = min(sent), max(sent) - min(sent)
    return [
        beta * ((load - least) / spread if spread > 0 else 0.0) + gamma * (time / mean if mean > 0 else 1.0)
        for load, time in zip(sent, times, strict=True)
    ]


@dataclass
class Finetune:
    """Improves an assignment step by step. Each step moves twice as much as the one before from the same rank."""

    epsilon: float = EPSILON
    bottleneck: int | None = None
    """The rank that the last step moved masters away from."""
    last_moves: int = 1
    """How many masters the last step was to move."""
    moved: int = 0
    """How many it moved."""

    def step(self, assignment: Assignment, blames: Sequence[float]) -> Assignment | None:
        """Moves masters from the rank with the highest blame to those with the lowest.

        Global masters move first, then local ones. Returns ``None`` if blames differ little, or if the rank is the
        master of nothing that another could take over.
        """
        ranked = sorted(range(len(blames)), key=lambda rank: (blames[rank], rank))
        worst = ranked[-1]
        if blames[worst] <= self.epsilon * blames[ranked[0]]:
            return None
        self.last_moves = 2 * self.last_moves if worst == self.bottleneck else 1
        self.moved = 0
        self.bottleneck = worst
        moved = assignment
        others = ranked[:-1]
        for number in range(self.last_moves):
            # Several masters go to several ranks, the first to the one with the lowest blame.
            first = number % len(others)
            following = _move(moved, worst, [*others[first:], *others[:first]])
            if following is None:
                break
            moved = following
            self.moved += 1
        return None if moved is assignment else moved


def _move(assignment: Assignment, source: int, targets: Sequence[int]) -> Assignment | None:
    """Moves one mastery away from ``source``, to the first of ``targets`` that can take it over."""
    top, local = assignment.mastered(source)
    moves = (assignment.moved(block, source, target) for block in (*top, *local) for target in targets)
    return next((moved for moved in moves if moved is not None), None)
