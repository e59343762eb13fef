"""Figure 14: how much of the bandwidth is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import CHOICES, SCHEMES, Run, mean, near, sweep
from syncline.quantity import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

AVERAGE = Claim(
    "hier-06", "Fig. 14", "on average EqualBW uses 56.67 %, MessageBW 96.59 % and SmartBW 94.46 % of the bandwidth."
)
LESS = Claim(
    "hier-fig14",
    "VI-B",
    "where model- and data-parallel ranks share a dimension, SmartBW uses slightly less bandwidth than MessageBW, and "
    "is faster.",
)
CLAIMED = {"EqualBW": 0.5667, "MessageBW": 0.9659, "SmartBW": 0.9446}


def measure(runner: Runner) -> Findings:
    """Computes the utilisation of every run, and its mean over budgets."""
    head = ("model", "topology", *(f"{scheme}_fraction" for scheme in SCHEMES))
    used = Table("used", "Used fraction of the bandwidth, simulated; mean over budgets", head)
    closed = Table("used_closed", "The same by closed forms, which ignore chunks", head)
    runs: dict[tuple[str, str], list[dict[str, Run]]] = {}
    for each in sweep(runner):
        system = each["EqualBW"].system
        runs.setdefault((system.workload, system.topology), []).append(each)
    for key, of_budgets in runs.items():
        used.add(*key, *(mean([each[scheme].utilization for each in of_budgets]) for scheme in SCHEMES))
        closed.add(*key, *(mean([each[scheme].ideal_utilization for each in of_budgets]) for scheme in SCHEMES))
    return Findings([used, closed], [_average(used, closed), _less(used)])


def _average(used: Table, by_closed_forms: Table) -> Verdict:
    found = {scheme: mean(used.column(f"{scheme}_fraction")) for scheme in SCHEMES}
    closed = {scheme: mean(by_closed_forms.column(f"{scheme}_fraction")) for scheme in SCHEMES}
    return AVERAGE.judged(
        all(near(found[scheme], CLAIMED[scheme], 0.03) for scheme in SCHEMES),
        ", ".join(f"{scheme} {percent(each)}" for scheme, each in found.items()),
        f"Closed forms give {', '.join(f'{scheme} {percent(each)}' for scheme, each in closed.items())}. The simulated "
        "values depend on the number of chunks, which the paper does not give.",
    )


def _less(used: Table) -> Verdict:
    shared = [("GPT-3", "2D"), ("GPT-3", "3D"), ("Transformer-1T", "2D"), ("Transformer-1T", "3D")]
    rows = {(row[0], row[1]): row for row in used.rows}
    pairs = {key: (rows[key][3], rows[key][4]) for key in shared}
    return LESS.judged(
        all(smart < message for message, smart in pairs.values()),  # type: ignore[operator]
        "; ".join(
            f"{model} {topology}: MessageBW {percent(message)}, SmartBW {percent(smart)}"  # type: ignore[arg-type]
            for (model, topology), (message, smart) in pairs.items()
        ),
        "MessageBW adds up the bytes of both kinds of groups, so the traffic of one also shifts the shares that the "
        "other gets. SmartBW considers each kind separately, and gives a shared dimension the larger of both shares.",
    )


def draw(findings: Findings) -> Figure:
    """Draws a bar for each scheme, by model and network."""
    used = findings.table("used")
    figure, axes = plot.new(height=3.0)
    plot.grouped(axes, {scheme: [100 * each for each in used.column(f"{scheme}_fraction")] for scheme in SCHEMES})
    names = [
        f"{model}\n{topology}" for model, topology in zip(used.column("model"), used.column("topology"), strict=True)
    ]
    axes.set_xticks(range(len(names)), labels=names)
    axes.tick_params(axis="x", labelsize=6.5)
    axes.set_ylabel("bandwidth used [%]")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "used fraction of a budget divided in three ways",
    (AVERAGE, LESS),
    measure,
    draw,
    CHOICES,
    ("analytical",),
)
