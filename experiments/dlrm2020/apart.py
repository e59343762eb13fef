"""Runs whose nodes do not begin at once: one draw for each seed.

Nodes that begin at the same picosecond always send to different receivers, so that no queue grows. That balance is
unstable: if nodes begin a microsecond apart, their packets meet at ports. So claims that depend on losses are judged by
several runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from syncline.report.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from experiments.harness.claim import Verdict
    from experiments.harness.runner import Runner

K = TypeVar("K")
T = TypeVar("T")

SKEW = "1us"
"""How far apart nodes begin, at most."""
SEEDS = 3
"""Runs of each configuration, where a figure has no other number."""


def skewed(seed: int) -> Mapping[str, Any]:
    """Changes to the scenario of a run whose nodes begin apart."""
    return {"jitter": {"start": SKEW}, "seed": seed}


def starts(runner: Runner, seeds: int = SEEDS) -> list[Mapping[str, Any]]:
    """Changes to the scenario of each run of a configuration: when nodes begin.

    Nodes begin apart, once for each seed; a quick run has one. Under other readings of the paper all begin at once,
    which is one run.
    """
    return [skewed(seed) for seed in range(1 if runner.quick else seeds)] if runner.usual else [{}]


@dataclass(frozen=True)
class Draws(Generic[T]):
    """Runs of one configuration that differ only in their seed; or a single run."""

    runs: Sequence[T]

    def median(self, value: Callable[[T], float]) -> float:
        """The median of a value."""
        return median(map(value, self.runs))

    def least(self, value: Callable[[T], float]) -> float:
        """The least of a value."""
        return min(map(value, self.runs))

    def most(self, value: Callable[[T], float]) -> float:
        """The largest of a value."""
        return max(map(value, self.runs))

    def said(self, value: Callable[[T], float], shown: Callable[[float], str]) -> str:
        """The median, with the range if there are several runs."""
        middle = shown(self.median(value))
        if len(self.runs) == 1:
            return middle
        least, most = shown(self.least(value)), shown(self.most(value))
        return (
            f"{middle} (all of {counted(len(self.runs), 'seed')})" if least == most else f"{middle} ({least} to {most})"
        )

    def typical(self, value: Callable[[T], float]) -> T:
        """The run whose value is the median, the lower one of two."""
        return sorted(self.runs, key=value)[(len(self.runs) - 1) // 2]


def medians(runs: int) -> str:
    """What a table's title says of so many runs of each configuration; nothing of one."""
    return f"; medians of {counted(runs, 'seed')}" if runs > 1 else ""


def judged(draws: Mapping[K, Draws[T]], judge: Callable[[Mapping[K, Draws[T]]], Sequence[Verdict]]) -> list[Verdict]:
    """Verdicts on medians, which say in how many seeds their claims hold where seeds disagree with the median."""
    count = len(next(iter(draws.values())).runs)
    seeds = [{key: Draws(each.runs[seed : seed + 1]) for key, each in draws.items()} for seed in range(count)]
    verdicts = []
    for verdict, *alone in zip(judge(draws), *map(judge, seeds), strict=True):
        holds = [each.holds for each in alone]
        agreed = all(each == verdict.holds for each in holds)
        said = "" if agreed else f"; it holds in {sum(holds)} of {counted(count, 'seed')}"
        verdicts.append(replace(verdict, measured=verdict.measured + said))
    return verdicts
