"""Two iterations of DLRM on four systems: the runs of Figures 11 to 16, and the values they take from a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.dlrm2020.all_reduce import whole
from experiments.dlrm2020.apart import SEEDS, Draws, medians, starts
from experiments.harness import plot, rows
from experiments.harness.experiment import Choice
from experiments.harness.table import Table
from syncline.quantity import counted, percent, time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner
    from syncline import Result
    from syncline.summary import Packets

FOLDER = Path(__file__).parent / "fig11"
FLAT, HIERARCHICAL = FOLDER / "flat.yaml", FOLDER / "hierarchical.yaml"
SYSTEMS: Mapping[str, tuple[Path, Mapping[str, Any]]] = {
    "hier": (HIERARCHICAL, {"collectives.all_reduce": "hierarchical"}),
    "hierOpt": (HIERARCHICAL, {}),
    "flat100": (FLAT, {}),
    "flat800": (FLAT, {"fabric.dims.scale_out.rate": "800Gb/s"}),
}
"""The four systems of IV.B, by the paper's names: a scenario, and changes to it."""
NODES, FEW_NODES = 128, 16
"""Number of nodes of a system, and in a quick run."""
BUFFERS = {"64 MB": 512 << 10, "128 MB": 1 << 20, "1 GB": 8 << 20}
"""Buffer sizes of the scale-out switch, and the bytes for each of its 128 ports."""
USUAL_BUFFER = "1 GB"

_PORTS = {FLAT: NODES, HIERARCHICAL: 16}
"""Ports of a scale-out switch. In the hierarchical scenario, eight switches of 16 ports replace the paper's one of 128:
the i-th node of a super-node sends only to the i-th nodes of others."""
_FEW_PORTS = {FLAT: FEW_NODES, HIERARCHICAL: 4}
_FEW: Mapping[Path, Mapping[str, Any]] = {
    FLAT: {"fabric.dims.scale_out.size": FEW_NODES},
    HIERARCHICAL: {"fabric.dims.scale_up.size": 4, "fabric.dims.scale_out.size": 4},
}
_SMALL: Mapping[str, Any] = {
    "workload.bottom_mlp": [512],
    "workload.top_mlp": [512, 512, 512],
    "workload.batch_per_npu": 64,
    "collectives.chunks": 16,
}
"""Changes that make the model small in a quick run."""
_WEIGHTS = {"hier": 1.4, "hierOpt": 1.0, "flat100": 2.5, "flat800": 2.4}
"""Approximate relative run times."""


@dataclass(frozen=True)
class Training:
    """A run of two iterations on a system."""

    system: str
    result: Result

    @property
    def compute_s(self) -> float:
        """Compute of a node in both iterations, mean over nodes."""
        return self.result.summary.compute_s

    @property
    def at_end_s(self) -> float:
        """Wait of a node after its last compute, for the reductions of the last iteration."""
        return float(sum(layer["exposed_at_end_s"] for layer in self.layers))

    @cached_property
    def skew_s(self) -> float:
        """Time for which a node's compute waits for nodes that join a collective later, mean over nodes."""
        ranks = self.result.table("ranks")
        total = fsum(skew * count for skew, count in zip(ranks["skew_s"], ranks["ranks"], strict=True))
        return total / self.result.summary.ranks

    @property
    def exposed_s(self) -> float:
        """Wait of compute: exposed communication without the wait at the end, plus the wait for late nodes."""
        return self.result.summary.exposed_communication_s - self.at_end_s + self.skew_s

    @property
    def share(self) -> float:
        """Exposed communication over compute and exposed communication."""
        return self.exposed_s / (self.compute_s + self.exposed_s)

    @property
    def share_with_end(self) -> float:
        """Like :attr:`share`, but including the wait at the end."""
        exposed = self.exposed_s + self.at_end_s
        return exposed / (self.compute_s + exposed)

    @property
    def iteration_s(self) -> float:
        """Compute plus exposed communication of one iteration."""
        return (self.compute_s + self.exposed_s) / self.result.summary.iterations

    @property
    def packets(self) -> Packets:
        """Statistics of packets."""
        found = self.result.summary.packets
        assert found is not None, "the network model has packets"  # noqa: S101 - as `NETWORKS` below says
        return found

    @cached_property
    def layers(self) -> list[dict[str, Any]]:
        """The layers from input to output, with times summed over both iterations."""
        return rows.layers(self.result)

    @cached_property
    def held_s(self) -> dict[str, float]:
        """Wait of compute for each layer, without the wait at the end."""
        return {
            layer["layer"]: float(layer["exposed_communication_s"] - layer["exposed_at_end_s"]) for layer in self.layers
        }

    def of(self, part: str) -> list[dict[str, Any]]:
        """The layers of a part of the model: ``embedding``, ``bottom`` or ``top``."""
        return [layer for layer in self.layers if layer["layer"].rstrip("0123456789") == part]

    def exchange_s(self, way: str) -> float:
        """Raw time of the all-to-all ``forward`` or ``backward``, mean over iterations."""
        column = {"forward": "forward_communication_s", "backward": "input_grad_communication_s"}[way]
        return float(self.layers[0][column]) / self.result.summary.iterations

    def beside_s(self, way: str) -> float:
        """Compute of the bottom MLP that can overlap with the all-to-all ``forward`` or ``backward``."""
        passes = {"forward": ("forward",), "backward": ("weight_grad", "input_grad")}[way]
        sums = (layer[f"{each}_compute_s"] for layer in self.of("bottom") for each in passes)
        return float(sum(sums)) / self.result.summary.iterations


WAYS = ("forward", "backward")
"""The two all-to-alls of an iteration."""


class Runs:
    """Runs of the systems with several seeds, each simulated on first access."""

    def __init__(self, runner: Runner, seeds: int = SEEDS) -> None:
        self._runner = runner
        self.nodes = FEW_NODES if runner.quick else NODES
        """Number of nodes of every system."""
        self.starts = starts(runner, seeds)
        """For each run of a configuration, the changes to the scenario that set when nodes begin."""

    def training(
        self, system: str, changes: Mapping[str, Any] | None = None, *, buffer: str = USUAL_BUFFER
    ) -> Draws[Training]:
        """The runs of a system with the given changes and buffer size of the scale-out switch."""
        settings = self._each(system, changes, buffer)
        return Draws([Training(system, self._runner.simulate(*each)) for each in settings])

    def cases(self, system: str, changes: Mapping[str, Any] | None = None, *, buffer: str = USUAL_BUFFER) -> list[Case]:
        """The cases that :meth:`training` simulates."""
        return [self._runner.case(*each, weight=_WEIGHTS[system]) for each in self._each(system, changes, buffer)]

    def alone(self, system: str, changes: Mapping[str, Any]) -> Result:
        """Simulates a small workload on a system with the network model `analytical`."""
        scenario, merged = self._settings(system, changes, USUAL_BUFFER)
        merged = {key: value for key, value in merged.items() if not key.startswith(("workload.", "network."))}
        return self._runner.simulate(scenario, merged, network="analytical")

    def all(self) -> dict[str, Draws[Training]]:
        """The four systems with the paper's defaults."""
        return {system: self.training(system) for system in SYSTEMS}

    def _each(self, system: str, changes: Mapping[str, Any] | None, buffer: str) -> list[tuple[Path, dict[str, Any]]]:
        """Scenario and changes of each run of a system."""
        return [self._settings(system, {**(changes or {}), **start}, buffer) for start in self.starts]

    def _settings(self, system: str, changes: Mapping[str, Any], buffer: str) -> tuple[Path, dict[str, Any]]:
        scenario, own = SYSTEMS[system]
        quick = self._runner.quick
        few = {**_SMALL, **_FEW[scenario]} if quick else {}
        ports = (_FEW_PORTS if quick else _PORTS)[scenario]
        size = {"network.buffer": f"{BUFFERS[buffer] * ports}B"} if quick or buffer != USUAL_BUFFER else {}
        return scenario, {**few, **own, **size, **changes}


def cases(runner: Runner) -> Sequence[Case]:
    """The cases that Figures 11 to 13 simulate."""
    runs = Runs(runner)
    return [case for system in SYSTEMS for case in runs.cases(system)]


def share(run: Training) -> float:
    """See :attr:`Training.share`."""
    return run.share


def share_with_end(run: Training) -> float:
    """See :attr:`Training.share_with_end`."""
    return run.share_with_end


def computing(run: Training) -> float:
    """The share of compute in compute plus exposed communication."""
    return 1 - run.share


def iteration(run: Training) -> float:
    """See :attr:`Training.iteration_s`."""
    return run.iteration_s


def compared(
    title: str, found: Mapping[str, Draws[Training]] | Mapping[tuple[str, str], Draws[Training]], *by: str
) -> Table:
    """Compute and exposed communication of runs: a row for each system, or for each of ``by`` on each system."""
    count = len(next(iter(found.values())).runs)
    said = (
        f"{title} in two iterations, mean over nodes; share: exposed over the sum of both{medians(count)}. At end: "
        "wait after the last compute, counted only by the share `with end`"
    )
    ends = ("least_share_fraction", "most_share_fraction") if count > 1 else ()
    columns = ("exposed_s", "share_fraction", *ends, "iteration_s", "at_end_s", "with_end_fraction", "timeouts")
    table = Table("shares", said, ("system", *by, *columns))
    for of, draws in found.items():
        spread = (draws.least(share), draws.most(share)) if count > 1 else ()
        times = draws.median(iteration), draws.median(lambda run: run.at_end_s), draws.median(share_with_end)
        table.add(
            *((of,) if isinstance(of, str) else of),
            *(draws.median(lambda run: run.exposed_s), draws.median(share), *spread, *times),
            int(draws.median(lambda run: run.packets.timeouts)),
        )
    return table


def lost(runs: Mapping[str, Draws[Training]]) -> str:
    """A sentence about the packets that were lost in named runs: medians, with ranges."""
    losses = {name: draws for name, draws in runs.items() if draws.most(lambda run: run.packets.dropped)}
    if not losses:
        return f"No packet is lost in {counted(sum(len(draws.runs) for draws in runs.values()), 'run')}."
    said = []
    for name, draws in losses.items():
        packets = draws.said(lambda run: run.packets.dropped, whole)
        again = draws.said(lambda run: run.packets.retransmissions, whole)
        timeouts = draws.said(lambda run: run.packets.timeouts, whole)
        plural = "" if timeouts == "1" else "s"
        said.append(f"{name} {packets} packets, {again} sent again, {timeouts} time-out{plural}")
    return f"Lost: {'; '.join(said)}."


def named(found: Mapping[tuple[str, str], Draws[Training]], *systems: str) -> dict[str, Draws[Training]]:
    """Renames runs from (system, word) to "system with word"; keeps those of ``systems``, or all if it is empty."""
    return {f"{system} with {word}": run for (system, word), run in found.items() if system in (systems or SYSTEMS)}


def held(layer: str) -> Callable[[Training], float]:
    """A function that returns a run's wait for a layer; see :attr:`Training.held_s`."""
    return lambda run: run.held_s[layer]


def waits(draws: Draws[Training], count: int = 3) -> str:
    """The ``count`` layers for which compute waits longest, and the wait in both iterations."""
    times = {layer: draws.median(held(layer)) for layer in draws.runs[0].held_s}
    most = [layer for layer in sorted(times, key=lambda layer: -times[layer])[:count] if times[layer] > 0]
    return ", ".join(f"{layer} {time(times[layer])}" for layer in most) or "none"


def listed(values: Mapping[str, float]) -> str:
    """Shares by name as text: ``hier 73.5 %, flat800 0.0 %``."""
    return ", ".join(f"{name} {percent(value)}" for name, value in values.items())


_FEW_BARS = 4
"""With more bars than this, labels below them are small."""


def drawn(table: Table, by: str, label: str) -> Figure:
    """Draws compute and exposed communication as parts of their sum: a panel for each system, a bar for each ``by``."""
    systems = list(dict.fromkeys(table.column("system")))
    figure, panels = plot.new(len(systems), height=2.9, sharey=True, squeeze=False)
    for system, axes in zip(systems, panels[0], strict=True):
        exposed = [100 * each for each in table.column("share_fraction", system=system)]
        at = range(len(exposed))
        parts = [
            plot.Part("compute", [100 - each for each in exposed], plot.GREY),
            plot.Part("exposed communication", exposed, plot.ORANGE, "////"),
        ]
        plot.stacked(axes, at, parts)
        for place, each in zip(at, exposed, strict=True):
            axes.text(place, 101, f"{each:.1f}", ha="center", va="bottom", fontsize=7)
        axes.set_title(system)
        axes.set_xticks(at, labels=table.column(by, system=system))
        axes.tick_params(axis="x", labelsize=7 if len(exposed) > _FEW_BARS else None)
        axes.set_ylim(0, 112)
        axes.set_yticks(range(0, 101, 20))
    panels[0][0].set_ylabel("part of an iteration [%]")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2)
    figure.supxlabel(label, fontsize=9)
    return figure


NETWORKS = ("packet",)
"""The network model that simulates packets."""
AT_ONCE = Choice("all nodes begin at once", {"jitter.start": "0s"})
"""The only other reading for Figures 14 to 16."""
CHOICES = (
    AT_ONCE,
    Choice("chunks of 32 KiB and more", {"collectives.min_chunk": "32KiB"}),
    Choice("flat: all-to-alls in 512 chunks too", {"flat:collectives.chunks_of": {}}),
    Choice("32 chunks under way", {"collectives.outstanding": 32}),
    Choice("updates of MLPs and tables take time", {"workload.optimizer": "sgd"}),
    Choice("lookups at 900 GB/s", {"compute.memory": "900GB/s"}),
    Choice("input gradient before weight gradient", {"workload.parallel": {"data": "all", "backward": "input_first"}}),
    Choice("packets of 9000 B", {"network.mtu": "9000B"}),
)
"""Other readings of what the paper leaves open about training. In all of them, nodes begin at once."""
