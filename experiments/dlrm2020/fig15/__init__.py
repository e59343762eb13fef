"""Figure 15: exposed communication of DLRM for several buffers of the scale-out switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.apart import SKEW, Draws, skewed
from experiments.dlrm2020.training import (
    BUFFERS,
    NETWORKS,
    SYSTEMS,
    Runs,
    Training,
    compared,
    drawn,
    listed,
    lost,
    named,
)
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.report.quantity import counted, percent, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

SMALL, LARGE = "64 MB", "1 GB"
INSENSITIVE_BY = 0.05
"""A system is insensitive to buffers if iterations with any two of them take as long but for a twentieth."""
UNSTABLE = (("hierOpt", SMALL),)
"""Systems and buffers that a claim is about and in which packets are lost, so that one run is one draw of many."""

INSENSITIVE = Claim(
    "dlrm-15",
    "Fig. 15, obs. 10",
    "flat100 and flat800 are insensitive to the size of the switch buffer, from 64 MB to 1 GB.",
)
NEEDED = Claim(
    "dlrm-fig15",
    "Fig. 15, obs. 10",
    "hierOpt: increasing the buffer of the scale-out switch from 64 MB to 1 GB increases the part of compute.",
)


def measure(runner: Runner) -> Findings:
    """Shares of exposed communication with every buffer, over seeds and in step, and how full ports become."""
    runs = Runs(runner)
    in_step = {(system, buffer): runs.training(system, buffer=buffer) for system in SYSTEMS for buffer in BUFFERS}
    apart = {(system, buffer): runs.apart(system, buffer=buffer) for system, buffer in UNSTABLE}
    seeds = counted(len(runs.seeds), "seed")
    spreads = Table(
        "spreads",
        f"Nodes begin up to {SKEW} apart, {seeds}: the share of exposed communication, median and range, and time-outs",
        (
            "system",
            "switch_buffer",
            "median_fraction",
            "least_fraction",
            "most_fraction",
            "least_timeouts",
            "most_timeouts",
        ),
    )
    for (system, buffer), draws in apart.items():
        shares = draws.median(_share), draws.least(_share), draws.most(_share)
        spreads.add(system, buffer, *shares, int(draws.least(_timeouts)), int(draws.most(_timeouts)))
    table = compared("All nodes begin at once: compute and exposed communication", "switch_buffer", in_step)
    queues = Table(
        "queues",
        "The longest queue of a port of the scale-out switch, beside its part of the buffer; all nodes begin at once",
        ("system", *(f"{buffer.replace(' ', '')}_bytes" for buffer in BUFFERS)),
    )
    for system in SYSTEMS:
        queues.add(system, *(longest(in_step[system, buffer]) for buffer in BUFFERS))
    return Findings([spreads, table, queues], [_insensitive(in_step), _needed(apart, in_step)])


def _share(run: Training) -> float:
    return run.share


def _timeouts(run: Training) -> int:
    return run.packets.timeouts


def _compute(run: Training) -> float:
    return 1 - run.share


def longest(run: Training) -> int:
    """Bytes of the longest queue of a port of the scale-out switches."""
    links, ports = run.result.table("links"), run.result.table("ports")
    places = zip(links["link"], links["dimension"], links["from"], strict=True)
    mine = {link for link, dim, place in places if dim == "scale_out" and place.startswith("switch")}
    queues = zip(ports["link"], ports["longest_queue_bytes"], strict=True)
    return max(int(queue) for link, queue in queues if link in mine)


def simulated(runner: Runner) -> Sequence[Case]:
    """What is simulated."""
    runs = Runs(runner)
    in_step = [runs.case(system, buffer=buffer) for system in SYSTEMS for buffer in BUFFERS]
    apart = [runs.case(system, skewed(seed), buffer=buffer) for system, buffer in UNSTABLE for seed in runs.seeds]
    return [*in_step, *apart]


def _insensitive(found: Mapping[tuple[str, str], Training]) -> Verdict:
    flats = [system for system in SYSTEMS if system.startswith("flat")]
    spread = {}
    for system in flats:
        times = [found[system, buffer].iteration_s for buffer in BUFFERS]
        spread[system] = max(times) / min(times) - 1
    return INSENSITIVE.judged(
        all(each <= INSENSITIVE_BY for each in spread.values()),
        f"iterations differ by {listed(spread)}",
        f"All nodes begin at once. The longest queue of a port is {size(max(longest(found[s, LARGE]) for s in flats))} "
        f"where it may be {size(BUFFERS[LARGE])}. {lost(named(found, *flats))}",
    )


def _needed(apart: Mapping[tuple[str, str], Draws[Training]], in_step: Mapping[tuple[str, str], Training]) -> Verdict:
    small = apart["hierOpt", SMALL]
    together = {buffer: _compute(in_step["hierOpt", buffer]) for buffer in BUFFERS}
    larger = ", ".join(f"{percent(together[buffer])} with {buffer}" for buffer in BUFFERS if buffer != SMALL)
    return NEEDED.judged(
        together[LARGE] > small.median(_compute),
        f"part of compute: {percent(small.median(_compute))} with {SMALL} (median of "
        f"{counted(len(small.runs), 'seed')}, {percent(small.least(_compute))} to {percent(small.most(_compute))}), "
        f"{larger}",
        f"In step it is {percent(together[SMALL])} with {SMALL}, one draw of an unstable system: nodes in step send to "
        f"different ones at a time; those that begin up to {SKEW} apart meet at a port, whose part of {SMALL} is "
        f"{size(BUFFERS[SMALL])}. The longest queue of a port is {size(longest(in_step['hierOpt', LARGE]))} where it "
        f"may be {size(BUFFERS[LARGE])}. {lost(named(in_step, 'hierOpt'))}",
    )


def draw(findings: Findings) -> Figure:
    """A panel for each system: the median over seeds where there are several, else the one run."""
    in_step, spreads = findings.table("shares"), findings.table("spreads")
    at = {(row[0], row[1]): row[2] for row in spreads.rows}
    shown = Table(in_step.name, in_step.title, in_step.columns)
    column = in_step.columns.index("share_fraction")
    for row in in_step.rows:
        shown.add(*row[:column], at.get((row[0], row[1]), row[column]), *row[column + 1 :])
    return drawn(shown, "switch_buffer", "buffer of the scale-out switch")


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "exposed communication of DLRM beside its compute, for several switch buffers",
    (INSENSITIVE, NEEDED),
    measure,
    draw,
    networks=NETWORKS,
    cases=simulated,
)
