"""The full schedule: every pair of hosts in both directions, as many at a time as can be.

A round has pairs in which no host appears twice, so that probes do not disturb each other (luo2020 4.2.1 and 5.2.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def full_schedule(hosts: int) -> list[list[tuple[int, int]]]:
    """All ordered pairs ``(from, to)``, once each, in ``2 (N - 1)`` rounds of N/2 pairs; for odd N, ``2 N`` rounds.

    It is a round-robin tournament by the circle method, played in both directions.
    """
    rounds: list[list[tuple[int, int]]] = []
    for pairs in tournament(list(range(hosts))):
        rounds += [pairs, [(b, a) for a, b in pairs]]
    return rounds


def tournament(players: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Rounds in which every two players meet once, by the circle method; of an odd number, one rests."""
    table: list[int | None] = [*players, *([None] if len(players) % 2 else [])]
    half = len(table) // 2
    for _ in range(len(table) - 1):
        yield [
            (a, b) for a, b in zip(table[:half], table[: half - 1 : -1], strict=True) if a is not None and b is not None
        ]
        table = [table[0], table[-1], *table[1:-1]]
