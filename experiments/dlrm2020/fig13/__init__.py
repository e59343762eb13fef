"""Figure 13: exposed communication of DLRM beside its compute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.all_reduce import near
from experiments.dlrm2020.training import CHOICES, NETWORKS, Runs, Training, cases, lost, shared, shares, waits
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from syncline.report.quantity import percent, size, time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FLAT = Claim(
    "dlrm-11",
    "Fig. 13, obs. 7",
    "DLRM, 128 nodes, defaults, flat100: communication is exposed for 73.1 % of an iteration.",
)
FASTER = Claim(
    "dlrm-12",
    "Fig. 13, obs. 7",
    "as dlrm-11, flat800: 20 % are exposed, and an iteration is 2.97 times as fast as on flat100.",
)
OPTIMAL = Claim(
    "dlrm-13",
    "Fig. 13, obs. 7",
    "as dlrm-11, hierarchical: 73.2 % are exposed, 22.1 % with the optimal all-reduce, which makes an iteration 2.91 "
    "times as fast.",
)
SAME = Claim(
    "dlrm-fig13",
    "Fig. 13, obs. 8",
    "hierOpt achieves the same performance as flat800, with an eighth of its rate between super-nodes.",
)


def measure(runner: Runner) -> Findings:
    """Shares of exposed communication, and how long an iteration takes."""
    runs = {run.system: run for run in Runs(runner).all()}
    table = shares("shares", "Compute and exposed communication", "system")
    for run in runs.values():
        table.add(run.system, *shared(run))
    return Findings([table], [_flat(runs), _faster(runs), _optimal(runs), _same(runs)])


def _why(run: Training) -> str:
    return f"{run.system} waits for: {waits(run)}."


def _flat(runs: Mapping[str, Training]) -> Verdict:
    run = runs["flat100"]
    reduced = sum(layer["collective_bytes"] for layer in run.layers[1:])
    return FLAT.judged(
        near(run.share, 0.731),
        f"{percent(run.share)} ({percent(run.share_with_end)} with what is waited for at the end)",
        f"An iteration reduces {size(reduced)}, which takes {time(2 * 8 * reduced / 100e9)} at 100 Gb/s; of the second "
        f"one's, {time(run.at_end_s)} are left at the end. {_why(run)} {lost({run.system: run})}",
    )


def _faster(runs: Mapping[str, Training]) -> Verdict:
    slow, fast = runs["flat100"], runs["flat800"]
    ratio = slow.iteration_s / fast.iteration_s
    return FASTER.judged(
        near(fast.share, 0.2) and near(ratio, 2.97),
        f"{percent(fast.share)} ({percent(fast.share_with_end)} with the end); {ratio:.3g} times as fast",
        f"An iteration is {time(fast.iteration_s)}, of which compute takes {time(fast.compute_s / 2)}. {_why(fast)} "
        "What is reduced during back-propagation and the next lookup is not waited for.",
    )


def _optimal(runs: Mapping[str, Training]) -> Verdict:
    plain, optimal = runs["hier"], runs["hierOpt"]
    ratio = plain.iteration_s / optimal.iteration_s
    return OPTIMAL.judged(
        near(plain.share, 0.732) and near(optimal.share, 0.221) and near(ratio, 2.91),
        f"{percent(plain.share)}, {percent(optimal.share)} with the optimal one, {ratio:.3g} times as fast",
        f"hier reduces all of a gradient between super-nodes, hierOpt an eighth. {_why(plain)} {_why(optimal)} "
        f"{lost({run.system: run for run in (plain, optimal)})}",
    )


def _same(runs: Mapping[str, Training]) -> Verdict:
    optimal, fast = runs["hierOpt"], runs["flat800"]
    ratio = optimal.iteration_s / fast.iteration_s
    return SAME.judged(
        near(ratio, 1),
        f"hierOpt {time(optimal.iteration_s)}, flat800 {time(fast.iteration_s)} an iteration: {ratio:.3g} times",
        f"{_why(optimal)} {_why(fast)} What both reduce is an eighth of flat100's for the rate of the link; between "
        "super-nodes, an all-to-all has the rate of flat100.",
    )


def draw(findings: Findings) -> Figure:
    """A stacked bar for each system."""
    table = findings.table("shares")
    figure, axes = plot.new(height=3.0, width=5.0)
    exposed = [100 * share for share in table.column("share_fraction")]
    at = range(len(exposed))
    parts = [
        plot.Part("compute", [100 - share for share in exposed], plot.GREY),
        plot.Part("exposed communication", exposed, plot.ORANGE, "////"),
    ]
    plot.stacked(axes, at, parts, width=0.6)
    for place, share in zip(at, exposed, strict=True):
        axes.text(place, 101, f"{share:.1f} %", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(at, labels=table.column("system"))
    axes.set_ylim(0, 110)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("part of an iteration [%]")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "exposed communication of DLRM beside its compute, on four systems",
    (FLAT, FASTER, OPTIMAL, SAME),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)
