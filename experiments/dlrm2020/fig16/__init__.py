"""Figure 16: exposed communication of DLRM for several numbers of chunks, and of chunks under way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.dlrm2020.apart import Draws, judged
from experiments.dlrm2020.training import AT_ONCE, NETWORKS, Runs, Training, compared, drawn, lost, named, share
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from syncline.quantity import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

STUDIED = ("hierOpt", "flat800")
CHUNKS = (1024, 128, 32)
UNDER_WAY = (64, 128)
ALL_TO_ALL_CHUNKS = 64
"""Largest number of chunks of an all-to-all on flat."""
SEEDS = 2
"""Runs of each schedule: fewer than in other figures, because a run with 1024 chunks on hierOpt takes ten times as long
as one with 128."""

VARIES = Claim(
    "dlrm-fig16",
    "Fig. 16, obs. 11",
    "exposed communication varies much on flat800, and less on hierOpt, with the number of chunks and of chunks under "
    "way.",
)


def measure(runner: Runner) -> Findings:
    """Measures the share of exposed communication for every number of chunks and of chunks under way."""
    runs = Runs(runner, SEEDS)
    found = {
        (system, _word(*schedule)): runs.training(system, _changes(system, *schedule))
        for system in STUDIED
        for schedule in _schedules()
    }
    title = "Compute and exposed communication, by chunks of a set / chunks under way,"
    table = compared(title, found, "schedule")
    return Findings([table], judged(found, lambda each: [_varies(each)]))


def simulated(runner: Runner) -> Sequence[Case]:
    """The cases of this figure."""
    runs = Runs(runner, SEEDS)
    return [
        case
        for system in STUDIED
        for schedule in _schedules()
        for case in runs.cases(system, _changes(system, *schedule))
    ]


def _schedules() -> list[tuple[int, int]]:
    return [(chunks, under_way) for chunks in CHUNKS for under_way in UNDER_WAY]


def _word(chunks: int, under_way: int) -> str:
    return f"{chunks}/{under_way}"


def _changes(system: str, chunks: int, under_way: int) -> dict[str, Any]:
    changes: dict[str, Any] = {"collectives.chunks": chunks, "collectives.outstanding": under_way}
    if system.startswith("flat") and chunks < ALL_TO_ALL_CHUNKS:
        changes["collectives.chunks_of.all_to_all"] = chunks
    return changes


def _varies(found: Mapping[tuple[str, str], Draws[Training]]) -> Verdict:
    shares_of = {
        system: {word: draws.median(share) for (which, word), draws in found.items() if which == system}
        for system in STUDIED
    }
    spread = {system: max(of.values()) - min(of.values()) for system, of in shares_of.items()}

    def between(system: str) -> str:
        of = shares_of[system]
        least, most = (by(of, key=lambda word: of[word]) for by in (min, max))
        return f"{system} {percent(of[least])} ({least}) to {percent(of[most])} ({most})"

    return VARIES.judged(
        spread["flat800"] > spread["hierOpt"],
        f"exposed: {', '.join(between(system) for system in STUDIED)} (chunks/under way)",
        "Large chunks fill pipelines late and delay all-to-alls for longer; small chunks have more headers. With "
        f"more chunks under way, more messages meet in the switch. {lost(named(found))}",
    )


def draw(findings: Findings) -> Figure:
    """Draws a panel for each system."""
    return drawn(findings.table("shares"), "schedule", "chunks of a set / chunks under way")


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "shares of exposed communication and compute of DLRM, for several schedules",
    (VARIES,),
    measure,
    draw,
    (AT_ONCE,),
    NETWORKS,
    simulated,
)
