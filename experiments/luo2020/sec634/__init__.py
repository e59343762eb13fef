"""Section 6.3.4: applications with a better order of ranks, LightGBM and training of a network with PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.cluster import Cluster, cluster
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Session
from experiments.luo2020.applications import BINS, FEATURES, LEAVES
from experiments.luo2020.beside import CALIBRATED
from experiments.luo2020.cloud import CLOUD, HOSTS, NBYTES, RACKS, RATE, judged, predicted_s, rack
from experiments.luo2020.exchange import NEAR, host_costs
from experiments.luo2020.orders import costs, modelled, parsed, shuffled, written
from syncline.distances import by_groups
from syncline.grouping import find
from syncline.reordering import reorder_job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline.distances import Measured as Distances

FOLDER = Path(__file__).parent
PROGRAM = FOLDER.parent / "applications.py"
RANDOM, SEED, START = 8, 4, 99
"""Number and seed of random orders; seed of the order in which searches begin."""
STEPS = 7
"""Timed steps in each order."""


@dataclass(frozen=True)
class Application:
    """An application, and the collective on which its steps wait."""

    name: str
    software: str
    package: str
    collective: str
    plan: str
    nbytes: int
    """Size of a collective."""
    count: int
    """How many collectives a step has, one after the other."""
    speedup: float
    """What the dissertation measures."""


HISTOGRAMS = FEATURES * BINS * 2 * 8
"""Bytes of a leaf's histograms: sums of gradients and of second derivatives of each bin, as doubles."""
APPLICATIONS = (
    Application("lightgbm", "LightGBM", "lightgbm", "reduce_scatter", "halving_doubling", HISTOGRAMS, LEAVES - 1, 1.3),
    Application("pytorch", "PyTorch", "torch", "all_reduce", "ring", NBYTES, 1, 1.2),
)
TREES = Claim(
    "luo-sec634-trees",
    "6.3.4",
    "the order of ranks that is found speeds up training of boosted trees with LightGBM 1.3 times.",
)
NETWORKS = Claim(
    "luo-sec634-networks",
    "6.3.4",
    "the order of ranks that is found speeds up training of AlexNet with PyTorch, by a ring, 1.2 times.",
)
TIMES = Claim(
    "luo-sec634-predicted",
    "Prediction",
    f"the speedup, and times of steps in the order that is found and in random ones, are within {NEAR:.0%} of the "
    "measured ones.",
)


@dataclass(frozen=True)
class Outcome:
    """Steps of an application in the order that was found and in random ones."""

    application: Application
    alone_s: float | None
    """Seconds of a step without communication; ``None`` if not measured."""
    exchanged: tuple[float, float]
    """Simulated seconds of all collectives of a step: in the order that was found, and in random ones, on average."""
    measured: tuple[float, float] | str
    """Measured seconds of steps, likewise, or why there are none."""

    @property
    def predicted(self) -> tuple[float, float]:
        """Simulated seconds of the collectives, and measured ones of the rest."""
        found, random = self.exchanged
        return found + (self.alone_s or 0.0), random + (self.alone_s or 0.0)

    @property
    def values(self) -> dict[str, tuple[float, float]]:
        """Predicted and measured values, by name."""
        if isinstance(self.measured, str):
            return {}
        name, predicted, measured = self.application.software, self.predicted, self.measured
        return {
            f"{name}, found": (predicted[0], measured[0]),
            f"{name}, random": (predicted[1], measured[1]),
            f"{name}, speedup": (predicted[1] / predicted[0], measured[1] / measured[0]),
        }


def measure(runner: Runner) -> Findings:
    """Searches for orders, simulates the collectives of steps in them, and measures steps."""
    steps = Table(
        "steps",
        f"Steps of {HOSTS} hosts in the order that is found, and in {RANDOM} random ones on average",
        (
            "application",
            "order",
            "compute_s",
            "collectives_s",
            "predicted_s",
            "measured_s",
            "error_off",
        ),
    )
    speedups = Table(
        "speedups",
        "How much faster steps are in the order that is found",
        ("application", "paper_ratio", "predicted_ratio", "measured_ratio"),
    )
    outcomes = []
    for application in APPLICATIONS:
        outcome = _outcome(runner, application)
        outcomes.append(outcome)
        measured: Sequence[float | str | None] = (
            (outcome.measured, outcome.measured) if isinstance(outcome.measured, str) else outcome.measured
        )
        rows = zip(("found", "random"), outcome.exchanged, outcome.predicted, measured, strict=True)
        for order, exchanged, predicted, seconds in rows:
            error = None if isinstance(seconds, str) or seconds is None else predicted / seconds - 1
            steps.add(application.software, order, outcome.alone_s, exchanged, predicted, seconds, error)
        ratios = [random / found for found, random in (outcome.predicted,)]
        if not isinstance(outcome.measured, str):
            ratios.append(outcome.measured[1] / outcome.measured[0])
        speedups.add(application.software, application.speedup, ratios[0], ratios[1] if ratios[1:] else None)
    return Findings([steps, speedups], _verdicts(outcomes))


def _outcome(runner: Runner, application: Application) -> Outcome:
    found = runner.bench.collect(
        Session(
            application.name,
            lambda python: session(application, python, quick=runner.quick),
            package=application.package,
            quick=runner.quick,
        )
    )

    def simulated(order: Sequence[int]) -> float:
        return application.count * collective_s(runner, application, order)

    if isinstance(found, str):
        orders = chosen(application, assumed(), quick=runner.quick)
        first, *others = map(simulated, orders)
        return Outcome(application, None, (first, mean(others)), found)
    first, *others = (simulated(parsed(order)) for order in found.values["orders"])
    alone, best, *randoms = found.values["seconds"]
    return Outcome(application, alone, (first, mean(others)), (best, mean(randoms)))


def collective_s(runner: Runner, application: Application, order: Sequence[int]) -> float:
    """The simulated time of a collective of an application. LightGBM does not cut vectors into chunks."""
    plan, chunks = application.plan, 1 if application.package == "lightgbm" else None
    return predicted_s(runner, plan, order, application.nbytes, collective=application.collective, chunks=chunks)


def assumed() -> Distances:
    """What a probe would find: rates are measured by all hosts at a time, so pairs between racks share their links."""
    link_s = float(str(host_costs()["link_latency"]).removesuffix("us")) * 1e-6
    measured = modelled(HOSTS, RACKS, link_s)
    rates = {
        pair: replace(found, rate_bytes_per_s=RATE / 8 / (1 if rack(pair[0]) == rack(pair[1]) else HOSTS / RACKS))
        for pair, found in measured.pairs.items()
    }
    return replace(measured, pairs=rates)


def _verdicts(outcomes: Sequence[Outcome]) -> list[Verdict]:
    why = {
        "lightgbm": "A host sends half of the histograms to the host at distance 8, a quarter at distance 4, and so "
        "on. In the order that is found these two are in the rack, and in random ones most are not.",
        "pytorch": "With this order one hop of the ring shares the link of a rack, and in random ones 3 or 4 do. A GPU "
        "takes a tenth of the time of a step here, and the cloud's racks were less oversubscribed than these.",
    }
    found = []
    for claim, application in ((TREES, APPLICATIONS[0]), (NETWORKS, APPLICATIONS[1])):
        outcome = next(each for each in outcomes if each.application == application)
        predicted = outcome.predicted[1] / outcome.predicted[0]
        if isinstance(outcome.measured, str):
            said = f"predicted {predicted:.2f} times, by collectives alone ({outcome.measured})"
            ratio = predicted
        else:
            ratio = outcome.measured[1] / outcome.measured[0]
            said = f"{ratio:.2f} times, predicted {predicted:.2f}"
        found.append(claim.judged(ratio >= application.speedup, said, why[application.name]))
    values: dict[str, tuple[float, float]] = {}
    for outcome in outcomes:
        values |= outcome.values
    found.append(
        judged(
            TIMES,
            values,
            "A step is predicted as its time without communication, which is measured, and its collectives, one after "
            "the other, which are simulated. In LightGBM's, hosts whose partner is in the rack send the next part "
            "while others still send the last one through the rack's link. The network model gives all of these flows "
            "the same rate at once; probably TCP lets new flows gain on older ones only slowly, so that the older "
            "ones, on which more hosts wait, end sooner. The bytes of a step are as predicted.",
            ", ".join(sorted({each.measured for each in outcomes if isinstance(each.measured, str)})),
        )
    )
    return found


# The session


def session(application: Application, python: str, *, quick: bool) -> Mapping[str, Any]:
    """Probes the cloud, chooses an order by the probe, and measures steps in it and in random orders."""
    with cluster(CLOUD, python) as bed:
        orders = chosen(application, probed(application, bed), quick=quick)
        listed = ";".join(map(written, orders))
        (seconds,) = bed.run([str(PROGRAM), application.name, "2" if quick else str(STEPS), listed])
    return {"orders": [written(order) for order in orders], "seconds": [round(each, 5) for each in seconds]}


def probed(application: Application, bed: Cluster) -> Distances:
    """What is probed for an application: round trips for a ring.

    Halving sends more bytes to some ranks than to others, so it needs rates, too. Pairs that were measured at the same
    time shared links, so single rates say little, and those between groups count.
    """
    if application.collective == "all_reduce":
        return bed.probe()
    measured = bed.probe("both")
    return by_groups(measured, find(measured).groups)


def chosen(application: Application, measured: Distances, *, quick: bool) -> list[list[int]]:
    """The orders to measure: the one that is found by measured distances, and random ones."""
    start = shuffled(HOSTS, 1, START)[0]
    if application.collective == "all_reduce":
        best = costs(measured, application.plan, start).best
    else:
        names = [measured.hosts[host] for host in start]
        found = reorder_job(measured, job(application), order=names, seed=SEED)
        best = [measured.hosts.index(name) for name in found.hosts]
    return [best, *shuffled(HOSTS, 1 if quick else RANDOM, SEED)]


def job(application: Application) -> dict[str, Any]:
    """The scenario of one collective of an application, of which only distances between hosts are known."""
    return {
        "name": application.name,
        "workload": {"collective": application.collective, "bytes": f"{application.nbytes}B"},
        "collectives": {
            "all_reduce": "baseline",
            "algorithms": {"default": {application.collective: application.plan}},
            "chunks": 1,
        },
        "network": "flow",
    }


def draw(findings: Findings) -> Figure:
    """Draws the speedups."""
    speedups = findings.table("speedups")
    figure, axes = plot.new(height=2.6)
    columns = {
        name: [0.0 if each is None else each for each in speedups.column(f"{name}_ratio")]
        for name in ("paper", "predicted", "measured")
    }
    plot.grouped(axes, columns)
    axes.set_xticks(range(len(speedups.rows)), labels=speedups.column("application"))
    axes.axhline(1, color=plot.GREY, linewidth=0.8)
    axes.set_ylabel("random orders over the one found")
    axes.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "applications with a better order of ranks",
    (TREES, NETWORKS, TIMES),
    measure,
    draw,
    networks=("flow",),
    calibrated=CALIBRATED,
    runs=True,
)
