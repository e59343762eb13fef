"""Scenario, readings and helpers for Figures 13 to 18, which run two training iterations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.experiment import Choice
from experiments.harness.table import Table, Value
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure

    from syncline import Result

RESNET50 = Path(__file__).parent / "fig14" / "resnet50.yaml"
"""The scenario of Figures 14 to 18."""

TWO_BYTES = {"parameters": "bf16", "activations": "bf16", "gradients": "bf16"}
"""Element types of 2 bytes, including the gradients that are reduced."""

CHOICES = (
    Choice("other operators on a vector unit", {"compute.vector": "512GFLOP/s"}),
    Choice("4 samples on an NPU", {"workload.batch_per_npu": 4}),
    Choice("output-stationary array", {"compute.dataflow": "output_stationary"}),
    Choice("elements of 2 bytes", {"workload.types": TWO_BYTES}),
    Choice("16 chunks", {"collectives.chunks": 16}),
)
"""Other readings of what the paper leaves open about training."""
_ARRAY = {
    "model": "systolic",
    "rows": 256,
    "columns": 256,
    "clock": "1GHz",
    "memory": "900GB/s",
    "vector": "free",
}


def _array(samples: int = 32, **compute: str) -> dict[str, Any]:
    """Changes that simulate ResNet-50's compute on a 256 x 256 array. The paper does not give its clock or memory."""
    model = {"workload.norm_parameters": True, "workload.batch_per_npu": samples}
    return {"compute": {**_ARRAY, **compute}, **model}


READINGS = (
    Choice("array of 256 x 256, 32 samples", _array()),
    Choice("array, 4 samples", _array(4)),
    Choice("array, others on a vector unit", _array(vector="512GFLOP/s")),
    Choice("array, output-stationary", _array(dataflow="output_stationary")),
    Choice("elements of 2 bytes", {"workload.types": TWO_BYTES}),
    Choice("16 chunks", {"collectives.chunks": 16}),
)
"""Other readings for Figures 14 to 18, whose scenario has the compute times of ASTRA-sim's own workload."""
MANY_CHUNKS = Choice("256 chunks", {"collectives.chunks": 256})
"""One more reading, which takes long on large systems."""


def part(layer: str) -> str:
    """The part of a model that a layer belongs to: ``conv5`` of ``conv5_3.conv2``, ``block1`` of ``block1.mlp2``."""
    return layer.partition(".")[0].partition("_")[0]


def by_part(found: list[dict[str, Any]], column: str) -> dict[str, float]:
    """A column summed over the layers of each part, in the order of the layers."""
    sums: dict[str, float] = {}
    for layer in found:
        sums[part(layer["layer"])] = sums.get(part(layer["layer"]), 0) + layer[column]
    return sums


def overlapping(spans: Iterable[tuple[float, float]]) -> int:
    """Number of time spans that begin before an earlier one has ended."""
    end, count = 0.0, 0
    for begin, finish in sorted(spans):
        count += begin < end
        end = max(end, finish)
    return count


def shares(name: str, title: str, first: str) -> Table:
    """An empty table of runs with step, compute and communication times. :func:`shared` makes its rows."""
    columns = ("step_s", "compute_s", "exposed_s", "communication_s", "exposed_share", "bottleneck")
    return Table(name, f"{title}; step: time of one; communication: time with any under way", (first, *columns))


def shared(result: Result) -> tuple[Value, ...]:
    """A row of :func:`shares` without its first value. The share is exposed over compute plus exposed communication."""
    answer = result.summary
    compute, exposed = answer.compute_s, answer.exposed_communication_s
    return (
        answer.step_time_s,
        compute,
        exposed,
        answer.communication_s,
        exposed / (compute + exposed),
        answer.bottleneck.name,
    )


def hidden(answers: Table, last: str) -> str:
    """A sentence that says how much communication of the last run is hidden."""
    under_way, exposed = answers.column("communication_s")[-1], answers.column("exposed_s")[-1]
    return (
        f"At {last}, communication is under way for {time(under_way)} in two iterations; compute hides "
        f"{percent(1 - exposed / under_way)} of that."
    )


def drawn_shares(answers: Table, first: str, label: str) -> Figure:
    """Draws the share of exposed communication on the left, exposed time and time under way on the right.

    Axes are logarithmic where values span more than a decade.
    """
    names = answers.column(first)
    at = range(len(names))
    figure, (left, right) = plot.new(2, height=3.0)
    plot.line(left, at, [100 * share for share in answers.column("exposed_share")], "exposed", 1)
    left.set_ylabel("exposed communication [% of time]")
    for index, (column, name) in enumerate((("communication_s", "under way"), ("exposed_s", "exposed"))):
        plot.line(right, at, [1e3 * value for value in answers.column(column)], name, index)
    right.set_ylabel("communication [ms]")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    for axes in (left, right):
        drawn = [value for line in axes.lines for value in line.get_ydata()]
        if max(drawn) > 10 * min(drawn):
            axes.set_yscale("log")
            plot.decimal_ticks(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
        axes.set_xticks(at, labels=names)
    figure.supxlabel(label, fontsize=9)
    return figure
