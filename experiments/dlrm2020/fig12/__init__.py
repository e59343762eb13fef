"""Figure 12: compute and exposed communication of DLRM, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.apart import Draws, judged, medians
from experiments.dlrm2020.training import CHOICES, NETWORKS, SYSTEMS, WAYS, Runs, Training, cases, held, waits
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import size, time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

STALL = Claim(
    "dlrm-fig12-stall",
    "Fig. 12, IV.B obs. 5",
    "compute stalls at top layer 0, because its weight gradients of the previous iteration are not reduced yet: of all "
    "layers of the MLPs it has the largest exposed communication.",
)
EXPOSED = Claim(
    "dlrm-fig12-exchange",
    "Fig. 12, IV.B obs. 6",
    "flat800 has no exposed all-to-all; on the other systems both all-to-alls take longer than the compute of the "
    "bottom MLP that overlaps with them.",
)


def measure(runner: Runner) -> Findings:
    """Measures compute and exposed communication of each layer on each system."""
    runs = Runs(runner).all()
    return Findings([_held(runs), _beside(runs)], judged(runs, _verdicts))


def _verdicts(runs: Mapping[str, Draws[Training]]) -> list[Verdict]:
    exchanged = runs["hier"].runs[0].layers[0]["collective_bytes"] // len(WAYS)
    return [_stall(runs, _held(runs)), _exposed(runs, _beside(runs), exchanged)]


def _held(runs: Mapping[str, Draws[Training]]) -> Table:
    first, count = runs["hier"].runs[0], len(runs["hier"].runs)
    table = Table(
        "exposed",
        "Compute, and wait of compute for communication, in two iterations, mean over nodes; without the wait after "
        f"the last compute{medians(count)}",
        ("layer", "compute_s", *(f"{system}_s" for system in runs)),
    )
    for layer in first.layers:
        name = layer["layer"]
        table.add(name, layer["compute_s"], *(draws.median(held(name)) for draws in runs.values()))
    return table


def _beside(runs: Mapping[str, Draws[Training]]) -> Table:
    table = Table(
        "exchanges",
        "An all-to-all from issue to result, and the compute of the bottom MLP that may hide it; means over "
        f"iterations and nodes{medians(len(runs['hier'].runs))}",
        ("system", *(f"{what}_{way}_s" for way in WAYS for what in ("all_to_all", "bottom"))),
    )
    for system, draws in runs.items():
        times = ((draws.median(_exchange(way)), draws.median(_hiding(way))) for way in WAYS)
        table.add(system, *(value for pair in times for value in pair))
    return table


def _exchange(way: str) -> Callable[[Training], float]:
    return lambda run: run.exchange_s(way)


def _hiding(way: str) -> Callable[[Training], float]:
    return lambda run: run.beside_s(way)


def _stall(runs: Mapping[str, Draws[Training]], exposed: Table) -> Verdict:
    names = exposed.column("layer")[1:]
    longest = {}
    for system in SYSTEMS:
        times = exposed.column(f"{system}_s")[1:]
        longest[system] = names[times.index(max(times))] if max(times) > 0 else "none"
    return STALL.judged(
        all(layer == "top0" for layer in longest.values()),
        f"top0: {_said(runs, 'top0')}; largest: {', '.join(f'{system} {layer}' for system, layer in longest.items())}",
        "Compute waits for: " + "; ".join(f"{system} {waits(draws)}" for system, draws in runs.items()) + ".",
    )


def _said(runs: Mapping[str, Draws[Training]], layer: str) -> str:
    return ", ".join(f"{system} {draws.said(held(layer), time)}" for system, draws in runs.items())


def _exposed(runs: Mapping[str, Draws[Training]], beside: Table, exchanged: int) -> Verdict:

    def longer(system: str, way: str) -> bool:
        (raw,), (hiding,) = (beside.column(f"{what}_{way}_s", system=system) for what in ("all_to_all", "bottom"))
        return bool(raw > hiding)

    others = [system for system in SYSTEMS if system != "flat800"]
    said = ", ".join(
        f"{system} {' and '.join(way for way in WAYS if longer(system, way)) or 'none'}" for system in SYSTEMS
    )
    return EXPOSED.judged(
        runs["flat800"].median(held("embedding")) == 0
        and all(longer(system, way) for system in others for way in WAYS),
        f"compute waits for the embedding: {_said(runs, 'embedding')}; all-to-alls longer than that compute: {said}",
        "The bottom MLP computes for "
        f"{time(beside.column('bottom_forward_s')[0])} forward and {time(beside.column('bottom_backward_s')[0])} "
        f"backward. An all-to-all of {size(exchanged)} takes {time(8 * exchanged / 100e9)} at 100 Gb/s and "
        f"{time(8 * exchanged / 800e9)} at 800 Gb/s, without headers and with no other traffic.",
    )


def draw(findings: Findings) -> Figure:
    """Draws stacked bars for each layer, a panel for each system."""
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
