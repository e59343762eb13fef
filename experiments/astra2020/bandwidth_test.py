"""One collective at a time, at several sizes: the bandwidth test of section V."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.quantity import percent

if TYPE_CHECKING:
    from experiments.harness.runner import Runner
    from syncline import Result

KIB, MIB = 1 << 10, 1 << 20
SIZES = tuple(256 * KIB << step for step in range(8))
"""256 KiB to 32 MiB."""
COLLECTIVES = ("all_to_all", "all_reduce")
Case = tuple[Path, str, int, Mapping[str, Any]]
"""Scenario, collective, size, changes."""


def sizes(runner: Runner) -> tuple[int, ...]:
    """The sizes of a run; in a quick run only the ends, and the start of the paper's bandwidth-bound range."""
    return (SIZES[0], 4 * MIB, SIZES[-1]) if runner.quick else SIZES


def collective(
    runner: Runner,
    scenario: Path,
    kind: str,
    size: int,
    changes: Mapping[str, Any] | None = None,
    *,
    network: str | None = None,
) -> Result:
    """Simulates one collective of ``size`` bytes."""
    workload = {"workload": {"collective": kind, "bytes": f"{size}B"}}
    return runner.simulate(scenario, {**workload, **(changes or {})}, network=network)


def busiest_link(result: Result) -> tuple[str, int, float]:
    """Dimension, carried bytes and busy share of the link that carried most bytes.

    With `analytical`, the busy share counts only messages for which the link is the first or the last on their way.
    """
    links = result.table("links")
    most = max(range(len(links["carried_bytes"])), key=lambda index: (links["carried_bytes"][index], -index))
    busy = links["busy_s"][most] / result.summary.total_time_s
    return links["dimension"][most], links["carried_bytes"][most], busy


def agreement(runner: Runner, cases: Iterable[Case]) -> str:
    """A phrase that compares times of the network model `analytical` with the runner's, where nothing contends."""
    times = [
        [collective(runner, *case, network=network).summary.total_time_s for network in ("analytical", runner.network)]
        for case in cases
    ]
    apart = max(abs(analytical / usual - 1) for analytical, usual in times)
    return f"analytical gives {'the same times' if apart == 0 else f'times that differ by at most {percent(apart)}'}"


def bound(result: Result) -> float:
    """Lower bound in seconds on the time of any execution of the collective's plan."""
    return float(max(result.table("collectives")["bound_s"]))
