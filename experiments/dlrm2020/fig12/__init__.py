"""Figure 12: compute and exposed communication of DLRM, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.dlrm2020.training import CHOICES, NETWORKS, SYSTEMS, WAYS, Runs, Training, cases, waits
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.report.quantity import size, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

STALL = Claim(
    "dlrm-fig12-stall",
    "Fig. 12, IV.B obs. 5",
    "compute stalls at top layer 0, whose weight gradients of the iteration before are not reduced yet: of all layers "
    "of the perceptrons it has the largest exposed communication.",
)
EXPOSED = Claim(
    "dlrm-fig12-exchange",
    "Fig. 12, IV.B obs. 6",
    "flat800 has no exposed all-to-all; on the other systems both take longer than the part of the bottom perceptron "
    "that runs beside them.",
)


def measure(runner: Runner) -> Findings:
    """Compute and exposed communication of each layer on each system."""
    runs = Runs(runner).all()
    exposed = Table(
        "exposed",
        "Compute, and communication that compute waits for, in two iterations, mean over nodes; without what is waited "
        "for after the last compute",
        ("layer", "compute_s", *(f"{system}_s" for system in SYSTEMS)),
    )
    for index, layer in enumerate(runs[0].layers):
        exposed.add(layer["layer"], layer["compute_s"], *(held(run.layers[index]) for run in runs))
    beside = Table(
        "exchanges",
        "An all-to-all from issue to result, beside the compute of the bottom perceptron that may hide it; means over "
        "iterations and nodes",
        ("system", *(f"{what}_{way}_s" for way in WAYS for what in ("all_to_all", "bottom"))),
    )
    for run in runs:
        beside.add(run.system, *(value for way in WAYS for value in (run.exchange_s(way), run.beside_s(way))))
    exchanged = runs[0].layers[0]["collective_bytes"] // len(WAYS)
    return Findings([exposed, beside], [_stall(runs, exposed), _exposed(exposed, beside, exchanged)])


def held(layer: dict[str, Any]) -> float:
    """How long compute waits for a layer before its last task."""
    return float(layer["exposed_communication_s"] - layer["exposed_at_end_s"])


def _stall(runs: Sequence[Training], exposed: Table) -> Verdict:
    names = exposed.column("layer")[1:]
    longest = {}
    for system in SYSTEMS:
        times = exposed.column(f"{system}_s")[1:]
        longest[system] = names[times.index(max(times))] if max(times) > 0 else "none"
    at_top = {system: exposed.column(f"{system}_s", layer="top0")[0] for system in SYSTEMS}
    return STALL.judged(
        all(layer == "top0" for layer in longest.values()),
        f"top0: {', '.join(f'{system} {time(value)}' for system, value in at_top.items())}; largest: "
        f"{', '.join(f'{system} {layer}' for system, layer in longest.items())}",
        "Compute waits for: " + "; ".join(f"{run.system} {waits(run)}" for run in runs) + ".",
    )


def _exposed(exposed: Table, beside: Table, exchanged: int) -> Verdict:
    tables = {system: exposed.column(f"{system}_s")[0] for system in SYSTEMS}

    def longer(system: str, way: str) -> bool:
        (raw,), (hiding,) = (beside.column(f"{what}_{way}_s", system=system) for what in ("all_to_all", "bottom"))
        return bool(raw > hiding)

    others = [system for system in SYSTEMS if system != "flat800"]
    said = ", ".join(
        f"{system} {' and '.join(way for way in WAYS if longer(system, way)) or 'none'}" for system in SYSTEMS
    )
    return EXPOSED.judged(
        tables["flat800"] == 0 and all(longer(system, way) for system in others for way in WAYS),
        f"compute waits for the embedding: {', '.join(f'{system} {time(value)}' for system, value in tables.items())}; "
        f"longer than what runs beside it: {said}",
        "The bottom perceptron computes for "
        f"{time(beside.column('bottom_forward_s')[0])} forward and {time(beside.column('bottom_backward_s')[0])} "
        f"backward. An all-to-all of {size(exchanged)} takes {time(8 * exchanged / 100e9)} at 100 Gb/s and "
        f"{time(8 * exchanged / 800e9)} at 800 Gb/s, without headers and with nothing before it.",
    )


def draw(findings: Findings) -> Figure:
    """Stacked bars for each layer, a panel for each system."""
    exposed = findings.table("exposed")
    names = exposed.column("layer")
    figure, panels = plot.new(2, 2, height=4.8, sharex=True, sharey=True)
    compute = [1e3 * value for value in exposed.column("compute_s")]
    for system, axes in zip(SYSTEMS, panels.flat, strict=True):
        parts = [
            plot.Part("compute", compute, plot.GREY),
            plot.Part(
                "exposed communication", [1e3 * each for each in exposed.column(f"{system}_s")], plot.ORANGE, "////"
            ),
        ]
        plot.stacked(axes, range(len(names)), parts)
        axes.set_title(system)
        axes.set_xticks(range(len(names)), labels=names)
        axes.tick_params(axis="x", labelrotation=90)
    for axes in panels[:, 0]:
        axes.set_ylabel("two iterations [ms]")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "compute and exposed communication of two iterations of DLRM, layer by layer",
    (STALL, EXPOSED),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)
