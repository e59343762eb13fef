"""Figure 13: raw communication of a Transformer, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020 import training
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Choice, Experiment, Findings
from experiments.harness.rows import layers, rows
from experiments.harness.table import Table
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline import Result

FOLDER = Path(__file__).parent
TRANSFORMER = FOLDER / "transformer.yaml"
EXCHANGES = ("forward", "input_grad", "weight_grad")
"""Passes of training that communicate: output activations, input gradients, weight gradients."""

UNIFORM = Claim(
    "astra-10",
    "Fig. 13",
    "Transformer, data-parallel over local and horizontal, tensor-parallel over vertical, 2x2x2, 2 iterations, LIFO, "
    "local minibatch of 32: communication time is near uniform across layers 1 to 6.",
)
NEAR = 0.1
"""Near uniform: the largest of the six is at most a tenth above the smallest."""


def measure(runner: Runner) -> Findings:
    """Sums raw communication over the layers of each block."""
    result = runner.simulate(TRANSFORMER)
    found = layers(result)
    sums = [training.by_part(found, f"{each}_communication_s") for each in EXCHANGES]
    sizes = training.by_part(found, "collective_bytes")
    blocks = Table(
        "blocks",
        "Raw communication in two iterations, from issue to result, summed over the layers of each block",
        ("block", *(f"{each}_s" for each in EXCHANGES), "total_s", "collective_bytes"),
    )
    for block in sums[0]:
        times = [exchange[block] for exchange in sums]
        blocks.add(block, *times, sum(times), int(sizes[block]))
    detail = Table(
        "layers",
        "Raw communication of each layer in two iterations",
        ("layer", *(f"{each}_communication_s" for each in EXCHANGES), "communication_s", "compute_s"),
        listed=False,
    )
    for layer in found:
        detail.add(*(layer[column] for column in detail.columns))
    return Findings([blocks, detail], [_uniform(result, blocks)])


def _uniform(result: Result, blocks: Table) -> Verdict:
    pairs = zip(blocks.column("block"), blocks.column("total_s"), strict=True)
    totals = {block: total for block, total in pairs if block.startswith("block")}
    least, most = (by(totals, key=lambda block: totals[block]) for by in (min, max))
    spread = totals[most] / totals[least] - 1
    named = f" ({most.replace('block', 'layer ')})" if spread > 0 else ""
    # Collectives of rank 0. Other ranks do the same in other groups.
    sets = [each for each in rows(result, "collectives") if each["group"] in ("tensor.0", "data.0")]
    waited = [(each["issue_s"], each["finish_s"]) for each in sets if each["part"] != "weight grad"]
    every = [(each["issue_s"], each["finish_s"]) for each in sets]
    share = 1 - sum(blocks.column("weight_grad_s")) / sum(blocks.column("total_s"))
    return UNIFORM.judged(
        spread <= NEAR,
        f"{time(totals[least])} to {time(totals[most])}{named}, {percent(spread)} apart",
        f"The six blocks are alike, and {percent(share)} of the raw time belongs to activations and input gradients, "
        f"for which the next layer waits: a rank has {len(waited)} collectives of this kind, of which "
        f"{training.overlapping(waited)} begin before an earlier one has ended. Of all its {len(every)} collectives, "
        f"{training.overlapping(every)} begin while another is under way: reductions of weight gradients, for which no "
        "layer waits, and exchanges between layers.",
    )


def draw(findings: Findings) -> Figure:
    """Draws a bar for each block, in the order of the forward pass."""
    blocks = findings.table("blocks")
    shown = [row for row in range(len(blocks.rows)) if blocks.column("total_s")[row] > 0]
    figure, axes = plot.new(height=3.0)
    looks = {"forward": (plot.BLUE, ""), "input_grad": (plot.ORANGE, "////"), "weight_grad": (plot.GREEN, "....")}
    names = {"forward": "output activations", "input_grad": "input gradients", "weight_grad": "weight gradients"}
    parts = []
    for each in EXCHANGES:
        times = blocks.column(f"{each}_s")
        parts.append(plot.Part(names[each], [1e6 * times[row] for row in shown], *looks[each]))
    plot.stacked(axes, range(len(shown)), parts, width=0.65)
    axes.set_xticks(range(len(shown)), labels=[blocks.column("block")[row].replace("block", "layer ") for row in shown])
    axes.set_ylabel("raw communication [µs]")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "raw communication of a Transformer on 2x2x2, hybrid parallel, 2 iterations",
    (UNIFORM,),
    measure,
    draw,
    (
        Choice("the big Transformer", {"workload.model": "transformer_big"}),
        Choice("512 tokens a sample", {"workload.sequence": 512}),
        Choice("weight gradient first", {"workload.parallel.backward": "weight_first"}),
        Choice("first in, first out", {"collectives.order": "fifo"}),
        *training.CHOICES,
        training.MANY_CHUNKS,
    ),
)
