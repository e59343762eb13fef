"""Figure 13: training time by how a budget of bandwidth is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import CHOICES, FOLDER, SCHEMES, mean, near, panels, sweep, systems
from syncline.quantity import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

MESSAGE = Claim(
    "hier-04",
    "Fig. 13",
    "three models, three networks, all budgets: MessageBW is 1.10 times as fast as EqualBW on average, 1.45 at most.",
)
SMART = Claim("hier-05", "Fig. 13", "the same: SmartBW is 1.17 times as fast as EqualBW on average, 1.86 at most.")
ALWAYS = Claim("hier-fig13", "VI-B", "SmartBW always gives the best performance across all configurations.")
CLAIMED = {"MessageBW": (1.10, 1.45), "SmartBW": (1.17, 1.86)}


def measure(runner: Runner) -> Findings:
    """Simulates a layer under every scheme and budget."""
    shares = Table(
        "shares",
        "Shares of the budget, lowest dimension first, and the applicable case of SmartBW's closed form",
        ("model", "topology", "scheme", "dim1_fraction", "dim2_fraction", "dim3_fraction", "dim4_fraction", "case"),
    )
    for system in systems(runner):
        for scheme in SCHEMES:
            division = system.division(scheme)
            parts = (*division.shares, *[None] * (4 - len(division.shares)))
            shares.add(system.workload, system.topology, scheme, *parts, division.case or "")
    times = Table(
        "times",
        "A layer, simulated, and by closed forms",
        (
            "model", "topology", "budget", *(f"{scheme}_s" for scheme in SCHEMES),
            *(f"{scheme}_closed_form_s" for scheme in SCHEMES),
        ),
        listed=False,
    )  # fmt: skip
    for runs in sweep(runner):
        one = runs["EqualBW"]
        times.add(
            one.system.workload,
            one.system.topology,
            one.budget,
            *(runs[scheme].time for scheme in SCHEMES),
            *(runs[scheme].ideal for scheme in SCHEMES),
        )
    speed = Table(
        "speed",
        "Speed over that of EqualBW: mean and largest over models, networks and budgets",
        ("scheme", "mean_ratio", "max_ratio", "where", "closed_mean_ratio", "closed_max_ratio"),
    )
    for scheme in SCHEMES[1:]:
        found = _ratios(times, "EqualBW_s", f"{scheme}_s")
        ideal = _ratios(times, "EqualBW_closed_form_s", f"{scheme}_closed_form_s")
        most = max(range(len(found)), key=lambda at: found[at])
        model, topology, budget = times.rows[most][:3]
        speed.add(scheme, mean(found), max(found), f"{model} {topology}, {budget} GB/s", mean(ideal), max(ideal))
    verdicts = [_speed(speed, MESSAGE, "MessageBW"), _speed(speed, SMART, "SmartBW"), _always(times)]
    return Findings([shares, times, speed], verdicts)


def _ratios(times: Table, over: str, under: str) -> list[float]:
    return [a / b for a, b in zip(times.column(over), times.column(under), strict=True)]


def _speed(speed: Table, claim: Claim, scheme: str) -> Verdict:
    (found,) = speed.column("mean_ratio", scheme=scheme)
    (most,) = speed.column("max_ratio", scheme=scheme)
    (where,) = speed.column("where", scheme=scheme)
    closed = [speed.column(f"closed_{kind}_ratio", scheme=scheme)[0] for kind in ("mean", "max")]
    return claim.judged(
        near(found, CLAIMED[scheme][0], 0.03) and near(most, CLAIMED[scheme][1], 0.05),
        f"{found:.3f} on average, {most:.3f} at most ({where})",
        f"Closed forms give {closed[0]:.3f} and {closed[1]:.3f}; with more chunks per collective, simulated times "
        "approach them.",
    )


def _always(times: Table) -> Verdict:
    smart = _ratios(times, "EqualBW_s", "SmartBW_s")
    message = _ratios(times, "MessageBW_s", "SmartBW_s")
    closed = [
        min(_ratios(times, f"{other}_closed_form_s", "SmartBW_closed_form_s")) for other in ("EqualBW", "MessageBW")
    ]
    worst = min(range(len(message)), key=lambda at: message[at])
    model, topology, budget = times.rows[worst][:3]
    return ALWAYS.judged(
        min(*smart, *message) >= 1 - 1e-9,
        f"at worst {min(smart):.4f} times as fast as EqualBW and {message[worst]:.4f} times as fast as MessageBW "
        f"({model} {topology}, {budget} GB/s)",
        f"Closed forms give at worst {closed[0]:.6f} and {closed[1]:.6f} times, where both schemes are equal. In the "
        "simulation, chunks fill and empty the pipeline of dimensions, which takes longer if all dimensions take the "
        f"same time: {percent(1 - message[worst])} here.",
    )


def draw(findings: Findings) -> Figure:
    """Draws times over that of EqualBW at the smallest budget."""
    times = findings.table("times")
    figure = panels(
        times, {scheme: f"{scheme}_s" for scheme in SCHEMES}, "time over that of EqualBW with 100 GB/s", over_first=True
    )
    for axes in figure.axes:
        axes.set_ylim(0, 1.05)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "a layer of three models on three networks, with a budget divided in three ways",
    (MESSAGE, SMART, ALWAYS),
    measure,
    draw,
    CHOICES,
    ("analytical",),
)
