"""Figure 14: a cluster of 432 servers that jobs share."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import syncline
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.cluster import kept, mean
from syncline.design import joint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SERVERS, SHARD = 432, 16
"""Servers of the cluster, and of a job."""
DEGREE, GBPS = 8, 100
LOADS = (0.2, 0.4, 0.6, 0.8, 1.0)
DRAWS = 2
"""Sets of jobs for each load."""
ITERATIONS = 2
MIX = {"dlrm": 0.4, "bert": 0.3, "candle": 0.2, "vgg16": 0.1}
"""Fractions of jobs, by model (5.4)."""
SIZES: dict[str, dict[str, int]] = {
    "dlrm": {"tables": 16, "embedding": 256, "bottom": 1024, "top": 2048, "batch": 256},
    "bert": {"blocks": 6, "hidden": 768, "heads": 6, "sequence": 256},
    "candle": {"feature_width": 4096, "width": 4096},
    "vgg16": {"batch": 64},
}
"""Table 2, bottom row."""
QUICK: dict[str, dict[str, int]] = {
    "dlrm": {"tables": 4, "entries": 10_000, "bottom": 256, "top": 256, "batch": 16},
    "bert": {"blocks": 1, "hidden": 128, "heads": 2, "sequence": 32, "batch": 4},
    "candle": {"feature_width": 256, "width": 256, "batch": 16},
    "vgg16": {"batch": 1},
}
NETWORKS = {
    "oneshot": "TopoOpt-oneshot",
    "ideal": "Ideal Fat-tree",
    "equal": "Cost-equiv. Fat-tree",
    "oversub": "Oversub. Fat-tree",
}

MEAN = Claim(
    "topo-fig14-mean",
    "Fig. 14a",
    "TopoOpt-oneshot has a shorter mean iteration than the cost-equivalent and the oversubscribed fat-tree, and a "
    "slightly shorter one than the ideal fat-tree.",
)
TAIL = Claim(
    "topo-fig14-tail",
    "Fig. 14b",
    "TopoOpt-oneshot has a shorter 99th percentile of iterations than all three fat-trees.",
)


@dataclass(frozen=True)
class Job:
    """A model on 16 servers: its step on links of its own, and its strategy on a switch."""

    step_s: float
    operators: dict[str, Any]
    equal_bits: int
    """Rate of a server on a fat-tree of the same price, in bits per second."""


@dataclass(frozen=True)
class Drawn:
    """Jobs that run at the same time, the same ones on every network."""

    models: Sequence[str]
    servers: Sequence[int]
    """The servers of all jobs: those that were free when they began."""
    starts: Sequence[float]
    """When each begins, as a fraction of its step."""


def measure(runner: Runner) -> Findings:
    """Draws jobs for each load, and simulates those on fat-trees jointly."""
    jobs = {model: _job(runner, model) for model in MIX}
    times = Table(
        "iterations",
        f"Time of an iteration of jobs of {SHARD} servers on a cluster of {SERVERS}, d = {DEGREE}, B = {GBPS} Gb/s",
        ("load", "jobs", "statistic", *(f"{name}_s" for name in NETWORKS)),
    )
    for load in (0.6,) if runner.quick else LOADS:
        found: dict[str, list[float]] = {name: [] for name in NETWORKS}
        count = round(load * (SERVERS if not runner.quick else 64) / SHARD)
        for draw in range(1 if runner.quick else DRAWS):
            chosen = random.Random(f"{load} {draw}")  # noqa: S311 - a sample of jobs
            models = chosen.choices(list(MIX), list(MIX.values()), k=count)
            free = list(range(SERVERS))
            chosen.shuffle(free)
            drawn = Drawn(models, free[: SHARD * count], [chosen.random() for _ in models])
            found["oneshot"] += [jobs[model].step_s for model in models]
            for name in ("ideal", "equal", "oversub"):
                found[name] += _shared(runner, name, drawn, jobs)
        for statistic, of in (("mean", mean), ("99th percentile", _tail)):
            times.add(load, count, statistic, *(of(found[name]) for name in NETWORKS))
    return Findings([times], [_means(times), _tails(times)])


def _tail(values: Sequence[float]) -> float:
    """The 99th percentile: the smallest value that at least 99 % do not exceed."""
    ordered = sorted(values)
    return ordered[-(-99 * len(ordered) // 100) - 1]


def _job(runner: Runner, model: str) -> Job:
    spec = {
        "model": model,
        "parameters": (QUICK if runner.quick else SIZES)[model],
        "servers": SHARD,
        "degree": DEGREE,
        "link": f"{GBPS}Gb/s",
        "compare": ["ideal", "same_price"],
        "search": {"proposals": 100 if runner.quick else 4000},
    }

    def search() -> dict[str, Any]:
        found = joint.search(joint.read(spec))
        ideal, equal = found.others
        operators = joint.operators_of(found, ideal.answer)
        # A full fat-tree has the same parts per server whatever its size: 16 servers (k = 4), or 432 (k = 12).
        return {"step_s": found.answer.step_s, "operators": operators, "equal_bits": equal.baseline.rate}

    return Job(**kept(runner, f"fig14-{model}", spec, search))


def _shared(runner: Runner, network: str, drawn: Drawn, jobs: dict[str, Job]) -> list[float]:
    """The mean iteration of each of the jobs, which share a fat-tree."""
    models, free, starts = drawn.models, drawn.servers, drawn.starts
    rate = jobs[models[0]].equal_bits if network == "equal" else DEGREE * GBPS * 10**9
    tree = {"k": 12, "rate": f"{rate}b/s", "latency": "1us", "oversubscription": 2 if network == "oversub" else 1}
    said = {
        "network": network,
        "models": list(models),
        "servers": list(free),
        "starts": list(starts),
        "iterations": ITERATIONS,
        "jobs": {model: [jobs[model].step_s, jobs[model].operators] for model in sorted(set(models))},
        "tree": tree,
        "quick": runner.quick,
    }

    def simulate() -> list[float]:
        with TemporaryDirectory() as name:
            folder = Path(name)
            for model in set(models):
                (folder / f"{model}.json").write_text(json.dumps(jobs[model].operators), "utf-8")
            entries = [
                {
                    "name": f"{model}-{at}",
                    "workload": {"operators": f"{model}.json", "iterations": ITERATIONS},
                    "placement": list(free[SHARD * at : SHARD * (at + 1)]),
                    # Jobs begin at different times of each other's steps.
                    "start": f"{round(starts[at] * jobs[model].step_s * 1e6)}us",
                }
                for at, model in enumerate(models)
            ]
            scenario = {
                "schema": "syncline/1",
                "jobs": entries,
                "compute": {"model": "roofline", "accelerator": "A100-SXM4-40GB"},
                "fabric": {"fat_tree": tree},
                "collectives": {"chunks": 1},
                "network": "flow",
            }
            (folder / "scenario.yaml").write_text(json.dumps(scenario), "utf-8")
            result = syncline.simulate(folder / "scenario.yaml", set={"report": False})
        return [job.step_time_s for job in result.summary.jobs]

    return list(kept(runner, f"fig14-{network}", said, simulate))


def _over(times: Table, network: str, statistic: str) -> list[float]:
    theirs = times.column(f"{network}_s", statistic=statistic)
    return [slow / fast for slow, fast in zip(theirs, times.column("oneshot_s", statistic=statistic), strict=True)]


def _said(times: Table, statistic: str) -> str:
    parts = []
    for name in ("ideal", "equal", "oversub"):
        ratios = _over(times, name, statistic)
        parts.append(f"{NETWORKS[name]} {mean(ratios):.3g}x on average ({min(ratios):.3g}x to {max(ratios):.3g}x)")
    return ", ".join(parts)


def _means(times: Table) -> Verdict:
    ideal, equal, oversub = (mean(_over(times, name, "mean")) for name in ("ideal", "equal", "oversub"))
    return MEAN.judged(
        equal > 1 and oversub > 1 and 1 <= ideal < 1.2,
        _said(times, "mean"),
        "A job on direct links has them for itself, wherever its servers are. On fat-trees, jobs are spread over free "
        "servers, and equal-cost paths collide.",
    )


def _tails(times: Table) -> Verdict:
    return TAIL.judged(
        all(mean(_over(times, name, "99th percentile")) > 1 for name in ("ideal", "equal", "oversub")),
        _said(times, "99th percentile"),
        "A load has 10 to 54 jobs, so the percentile is the longest of their mean iterations. That is VGG16's, which "
        "computes for nearly all of its 307 ms and is as fast on every network, unless contention makes another job "
        "longer.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the mean and the 99th percentile by load."""
    times = findings.table("iterations")
    figure, axes = plot.new(2, width=7.5, height=3.0)
    for at, statistic in zip(axes, ("mean", "99th percentile"), strict=True):
        loads = [100 * load for load in times.column("load", statistic=statistic)]
        for index, (name, title) in enumerate(NETWORKS.items()):
            plot.line(at, loads, times.column(f"{name}_s", statistic=statistic), title, index)
        at.set_title(statistic)
        at.set_xlabel("load [%]")
        at.set_ylim(bottom=0)
    axes[0].set_ylabel("iteration [s]")
    axes[0].legend()
    return figure


EXPERIMENT = Experiment(Path(__file__).parent, "a cluster that jobs share", (MEAN, TAIL), measure, draw, (), ("flow",))
