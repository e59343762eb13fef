"""Figure 13: shares of exposed communication and compute of DLRM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.all_reduce import near
from experiments.dlrm2020.apart import Draws, judged
from experiments.dlrm2020.training import (
    CHOICES,
    NETWORKS,
    Runs,
    Training,
    cases,
    compared,
    iteration,
    lost,
    share,
    share_with_end,
    waits,
)
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from syncline.quantity import percent, size, time

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
    "as dlrm-11, flat800: communication is exposed for 20 %, and an iteration is 2.97 times as fast as on flat100.",
)
OPTIMAL = Claim(
    "dlrm-13",
    "Fig. 13, obs. 7",
    "as dlrm-11, hierarchical: communication is exposed for 73.2 %, and with the optimal all-reduce for 22.1 %, which "
    "makes an iteration 2.91 times as fast.",
)
SAME = Claim(
    "dlrm-fig13",
    "Fig. 13, obs. 8",
    "hierOpt achieves the same performance as flat800, with an eighth of its rate between super-nodes.",
)


def measure(runner: Runner) -> Findings:
    """Measures the share of exposed communication and the time of an iteration."""
    runs = Runs(runner).all()
    return Findings([compared("Compute and exposed communication", runs)], judged(runs, _verdicts))


def _verdicts(runs: Mapping[str, Draws[Training]]) -> list[Verdict]:
    return [_flat(runs), _faster(runs), _optimal(runs), _same(runs)]


def _why(runs: Mapping[str, Draws[Training]], system: str) -> str:
    return f"{system} waits for: {waits(runs[system])}."


def _lost(runs: Mapping[str, Draws[Training]], *systems: str) -> str:
    return lost({system: runs[system] for system in systems})


def _flat(runs: Mapping[str, Draws[Training]]) -> Verdict:
    draws = runs["flat100"]
    reduced = sum(layer["collective_bytes"] for layer in draws.runs[0].layers[1:])
    return FLAT.judged(
        near(draws.median(share), 0.731),
        f"{draws.said(share, percent)}; {draws.said(share_with_end, percent)} with the wait at the end",
        f"An iteration reduces {size(reduced)}, which takes {time(2 * 8 * reduced / 100e9)} at 100 Gb/s; in the second "
        f"one, {time(draws.median(_at_end))} of that remain after the last compute. {_why(runs, 'flat100')} "
        f"{_lost(runs, 'flat100')}",
    )


def _at_end(run: Training) -> float:
    return run.at_end_s


def _faster(runs: Mapping[str, Draws[Training]]) -> Verdict:
    slow, fast = runs["flat100"], runs["flat800"]
    ratio = slow.median(iteration) / fast.median(iteration)
    return FASTER.judged(
        near(fast.median(share), 0.2) and near(ratio, 2.97),
        f"{fast.said(share, percent)}; {fast.said(share_with_end, percent)} with the wait at the end; "
        f"{ratio:.3g} times as fast",
        f"An iteration takes {time(fast.median(iteration))}, {time(fast.runs[0].compute_s / 2)} of which is compute. "
        f"{_why(runs, 'flat800')} Reductions that overlap with back-propagation or the next lookup cause no wait. "
        f"{_lost(runs, 'flat800')}",
    )


def _optimal(runs: Mapping[str, Draws[Training]]) -> Verdict:
    plain, optimal = runs["hier"], runs["hierOpt"]
    ratio = plain.median(iteration) / optimal.median(iteration)
    return OPTIMAL.judged(
        near(plain.median(share), 0.732) and near(optimal.median(share), 0.221) and near(ratio, 2.91),
        f"{plain.said(share, percent)}; {optimal.said(share, percent)} with the optimal one, {ratio:.3g} times as fast",
        "hier reduces whole gradients between super-nodes, hierOpt an eighth of them. "
        f"{_why(runs, 'hier')} {_why(runs, 'hierOpt')} {_lost(runs, 'hier', 'hierOpt')}",
    )


def _same(runs: Mapping[str, Draws[Training]]) -> Verdict:
    optimal, fast = runs["hierOpt"], runs["flat800"]
    ratio = optimal.median(iteration) / fast.median(iteration)
    return SAME.judged(
        near(ratio, 1),
        f"hierOpt {optimal.said(iteration, time)}, flat800 {fast.said(iteration, time)} an iteration: "
        f"{ratio:.3g} times",
        f"{_why(runs, 'hierOpt')} {_why(runs, 'flat800')} Relative to the rate of a link, both reduce an eighth of "
        "what flat100 reduces; but the all-to-all of hierOpt has only the rate of flat100 between super-nodes.",
    )


def draw(findings: Findings) -> Figure:
    """Draws a stacked bar for each system."""
    table = findings.table("shares")
    figure, axes = plot.new(height=3.0, width=5.0)
    exposed = [100 * each for each in table.column("share_fraction")]
    at = range(len(exposed))
    parts = [
        plot.Part("compute", [100 - each for each in exposed], plot.GREY),
        plot.Part("exposed communication", exposed, plot.ORANGE, "////"),
    ]
    plot.stacked(axes, at, parts, width=0.6)
    for place, each in zip(at, exposed, strict=True):
        axes.text(place, 101, f"{each:.1f} %", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(at, labels=table.column("system"))
    axes.set_ylim(0, 110)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("part of an iteration [%]")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "shares of exposed communication and compute of DLRM, on four systems",
    (FLAT, FASTER, OPTIMAL, SAME),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)
