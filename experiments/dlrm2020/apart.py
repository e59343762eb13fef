"""Runs whose nodes begin at different times, one run per seed.

Nodes that begin at the same picosecond always send to different receivers, so that no queue grows. That balance is
unstable: if nodes begin a microsecond apart, their packets meet at ports. So several runs decide claims that depend on
losses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from experiments.harness.claim import Verdict
    from experiments.harness.runner import Runner

K = TypeVar("K")
T = TypeVar("T")

SKEW = "1us"
"""Largest difference between the start times of two nodes."""
SEEDS = 3
"""Runs of each configuration, unless a figure sets another number."""


def skewed(seed: int) -> Mapping[str, Any]:
    """Changes to a scenario after which nodes begin at different times."""
    return {"jitter": {"start": SKEW}, "seed": seed}


def starts(runner: Runner, seeds: int = SEEDS) -> list[Mapping[str, Any]]:
    """For each run of a configuration, the changes to the scenario that set when nodes begin.

    In the default reading there is one run per seed, or only one in quick mode, and nodes begin at different times.
    Under other readings of the paper there is one run, and all nodes begin at once.
    """
    return [skewed(seed) for seed in range(1 if runner.quick else seeds)] if runner.usual else [{}]


@dataclass(frozen=True)
class Draws(Generic[T]):
    """Runs of one configuration that differ only in their seed; or a single run."""

    runs: Sequence[T]

    def median(self, value: Callable[[T], float]) -> float:
        """The median of a value over the runs."""
        return median(map(value, self.runs))

    def least(self, value: Callable[[T], float]) -> float:
        """The smallest value of the runs."""
        return min(map(value, self.runs))

    def most(self, value: Callable[[T], float]) -> float:
        """The largest value of the runs."""
        return max(map(value, self.runs))

    def said(self, value: Callable[[T], float], shown: Callable[[float], str]) -> str:
        """The median as text, with the range if there are several runs."""
        middle = shown(self.median(value))
        if len(self.runs) == 1:
            return middle
        least, most = shown(self.least(value)), shown(self.most(value))
        return (
            f"{middle} (all of {counted(len(self.runs), 'seed')})" if least == most else f"{middle} ({least} to {most})"
        )

    def typical(self, value: Callable[[T], float]) -> T:
        """The run with the median value; the lower of the two middle ones if their number is even."""
        return sorted(self.runs, key=value)[(len(self.runs) - 1) // 2]


def medians(runs: int) -> str:
    """Suffix of a table's title that gives the number of seeds; empty for one run."""
    return f"; medians of {counted(runs, 'seed')}" if runs > 1 else ""


def judged(draws: Mapping[K, Draws[T]], judge: Callable[[Mapping[K, Draws[T]]], Sequence[Verdict]]) -> list[Verdict]:
    """Verdicts on medians. If single seeds give another verdict, the measurement says in how many the claim holds."""
    count = len(next(iter(draws.values())).runs)
    seeds = [{key: Draws(each.runs[seed : seed + 1]) for key, each in draws.items()} for seed in range(count)]
    verdicts = []
    for verdict, *alone in zip(judge(draws), *map(judge, seeds), strict=True):
        holds = [each.holds for each in alone]
        agreed = all(each == verdict.holds for each in holds)
        said = "" if agreed else f"; the claim holds in {sum(holds)} of {counted(count, 'seed')}"
        verdicts.append(replace(verdict, measured=verdict.measured + said))
    return verdicts
