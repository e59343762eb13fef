"""Figure 15: exposed communication of DLRM for several buffers of the scale-out switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.apart import SKEW, Draws, judged
from experiments.dlrm2020.training import (
    BUFFERS,
    NETWORKS,
    SYSTEMS,
    Runs,
    Training,
    compared,
    computing,
    drawn,
    iteration,
    listed,
    lost,
    named,
    share,
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
APART = (("hierOpt", SMALL), ("hierOpt", LARGE))
"""Systems and buffers that are simulated with nodes that begin apart; the others begin at once."""

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
    together, several = Runs(runner, apart=False), Runs(runner)
    in_step = {(system, buffer): together.training(system, buffer=buffer) for system in SYSTEMS for buffer in BUFFERS}
    apart = {(system, buffer): several.training(system, buffer=buffer) for system, buffer in APART}
    seeds = counted(len(several.starts), "seed")
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
        shares = draws.median(share), draws.least(share), draws.most(share)
        timeouts = (int(end(lambda run: run.packets.timeouts)) for end in (draws.least, draws.most))
        spreads.add(system, buffer, *shares, *timeouts)
    table = compared("All nodes begin at once: compute and exposed communication", in_step, "switch_buffer")
    queues = Table(
        "queues",
        "The longest queue of a port of the scale-out switch, beside its part of the buffer; all nodes begin at once",
        ("system", *(f"{buffer.replace(' ', '')}_bytes" for buffer in BUFFERS)),
    )
    for system in SYSTEMS:
        queues.add(system, *(int(in_step[system, buffer].median(longest)) for buffer in BUFFERS))
    needed = judged(apart, lambda each: [_needed(each, in_step)])
    return Findings([spreads, table, queues], [_insensitive(in_step), *needed])


def longest(run: Training) -> int:
    """Bytes of the longest queue of a port of the scale-out switches."""
    links, ports = run.result.table("links"), run.result.table("ports")
    places = zip(links["link"], links["dimension"], links["from"], strict=True)
    mine = {link for link, dim, place in places if dim == "scale_out" and place.startswith("switch")}
    queues = zip(ports["link"], ports["longest_queue_bytes"], strict=True)
    return max(int(queue) for link, queue in queues if link in mine)


def simulated(runner: Runner) -> Sequence[Case]:
    """What is simulated."""
    together, several = Runs(runner, apart=False), Runs(runner)
    in_step = [case for system in SYSTEMS for buffer in BUFFERS for case in together.cases(system, buffer=buffer)]
    return [*in_step, *(case for system, buffer in APART for case in several.cases(system, buffer=buffer))]


def _insensitive(found: Mapping[tuple[str, str], Draws[Training]]) -> Verdict:
    flats = [system for system in SYSTEMS if system.startswith("flat")]
    spread = {}
    for system in flats:
        times = [found[system, buffer].median(iteration) for buffer in BUFFERS]
        spread[system] = max(times) / min(times) - 1
    return INSENSITIVE.judged(
        all(each <= INSENSITIVE_BY for each in spread.values()),
        f"iterations differ by {listed(spread)}",
        f"All nodes begin at once. The longest queue of a port is "
        f"{size(max(int(found[s, LARGE].most(longest)) for s in flats))} where it may be {size(BUFFERS[LARGE])}. "
        f"{lost(named(found, *flats))}",
    )


def _needed(
    apart: Mapping[tuple[str, str], Draws[Training]], in_step: Mapping[tuple[str, str], Draws[Training]]
) -> Verdict:
    small, large = apart["hierOpt", SMALL], apart["hierOpt", LARGE]
    together = ", ".join(f"{percent(in_step['hierOpt', buffer].median(computing))} with {buffer}" for buffer in BUFFERS)
    return NEEDED.judged(
        large.median(computing) > small.median(computing),
        f"part of compute: {small.said(computing, percent)} with {SMALL}, "
        f"{large.said(computing, percent)} with {LARGE}",
        f"Where nodes begin up to {SKEW} apart, they meet at a port, whose part of {SMALL} is {size(BUFFERS[SMALL])}. "
        f"{lost(named(apart))} In step, nodes send to different ones at a time: {together}. "
        f"{lost(named(in_step, 'hierOpt'))}",
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
