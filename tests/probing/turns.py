"""A round-robin tournament: a schedule that is written anew for tests of what drives schedules."""

from __future__ import annotations

from syncline.probing.rounds import Schedule


def tournament(hosts: int) -> Schedule:
    """Every ordered pair once, by the circle method."""
    players = [*range(hosts), *([] if hosts % 2 == 0 else [None])]
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = [(a, b) for a, b in zip(players[:half], reversed(players[half:]), strict=True) if None not in (a, b)]
        rounds += [pairs, [(b, a) for a, b in pairs]]
        players = [players[0], players[-1], *players[1:-1]]
    return Schedule(rounds, len(rounds))
