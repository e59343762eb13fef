"""Figure 15: exposed communication of DLRM for several buffers of the scale-out switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.apart import Draws, judged
from experiments.dlrm2020.training import (
    AT_ONCE,
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
)
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import percent, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

SMALL, LARGE = "64 MB", "1 GB"
INSENSITIVE_BY = 0.05
"""A system is insensitive to the buffer size if its iteration times differ by at most this fraction."""

INSENSITIVE = Claim(
    "dlrm-15",
    "Fig. 15, obs. 10",
    "flat100 and flat800 are insensitive to the size of the switch buffer, from 64 MB to 1 GB.",
)
NEEDED = Claim(
    "dlrm-fig15",
    "Fig. 15, obs. 10",
    "hierOpt: increasing the buffer of the scale-out switch from 64 MB to 1 GB increases the share of compute.",
)


def measure(runner: Runner) -> Findings:
    """Measures the share of exposed communication with every buffer, and the longest queue of a port."""
    runs = Runs(runner)
    found = {(system, buffer): runs.training(system, buffer=buffer) for system in SYSTEMS for buffer in BUFFERS}
    queues = Table(
        "queues",
        "The longest queue of a port of the scale-out switch in any run, by switch buffer",
        ("system", *(f"{buffer.replace(' ', '')}_bytes" for buffer in BUFFERS)),
    )
    for system in SYSTEMS:
        queues.add(system, *(int(found[system, buffer].most(longest)) for buffer in BUFFERS))
    table = compared("Compute and exposed communication", found, "switch_buffer")
    return Findings([table, queues], judged(found, lambda each: [_insensitive(each), _needed(each)]))


def longest(run: Training) -> int:
    """Bytes of the longest queue of a port of the scale-out switches."""
    links, ports = run.result.table("links"), run.result.table("ports")
    places = zip(links["link"], links["dimension"], links["from"], strict=True)
    mine = {link for link, dim, place in places if dim == "scale_out" and place.startswith("switch")}
    queues = zip(ports["link"], ports["longest_queue_bytes"], strict=True)
    return max(int(queue) for link, queue in queues if link in mine)


def simulated(runner: Runner) -> Sequence[Case]:
    """The cases of this figure."""
    runs = Runs(runner)
    return [case for system in SYSTEMS for buffer in BUFFERS for case in runs.cases(system, buffer=buffer)]


def _insensitive(found: Mapping[tuple[str, str], Draws[Training]]) -> Verdict:
    flats = [system for system in SYSTEMS if system.startswith("flat")]
    times = {system: [found[system, buffer].median(iteration) for buffer in BUFFERS] for system in flats}
    spread = {system: max(of) / min(of) - 1 for system, of in times.items()}
    return INSENSITIVE.judged(
        all(each <= INSENSITIVE_BY for each in spread.values()),
        f"iterations differ by {listed(spread)}",
        f"With {LARGE}, the longest queue of a port is {size(max(int(found[s, LARGE].most(longest)) for s in flats))} "
        f"of {size(BUFFERS[LARGE])}; with {SMALL} only {size(BUFFERS[SMALL])} fit. "
        f"{lost(named(found, *flats))}",
    )


def _needed(found: Mapping[tuple[str, str], Draws[Training]]) -> Verdict:
    part = {buffer: found["hierOpt", buffer] for buffer in BUFFERS}
    said = ", ".join(f"{draws.said(computing, percent)} with {buffer}" for buffer, draws in part.items())
    return NEEDED.judged(
        part[LARGE].median(computing) > part[SMALL].median(computing),
        f"share of compute: {said}",
        f"Messages of several nodes meet at a port, which has {size(BUFFERS[SMALL])} of the {SMALL}. "
        f"{lost(named(found, 'hierOpt'))}",
    )


def draw(findings: Findings) -> Figure:
    """Draws a panel for each system."""
    return drawn(findings.table("shares"), "switch_buffer", "buffer of the scale-out switch")


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "shares of exposed communication and compute of DLRM, for several switch buffers",
    (INSENSITIVE, NEEDED),
    measure,
    draw,
    (AT_ONCE,),
    NETWORKS,
    simulated,
)
