"""Training of the networks of Table 6.1 on 8 workers with a parameter server: what Figures 6.2 and 6.3 predict.

Sizes and compute times are the table's. Its sizes are in MiB, as counts of parameters show (AlexNet's 50.8 million are
193.9 MiB). How they are spread over layers comes from the architectures of AlexNet and VGG and from the package's
ResNet-50, whose profile also stands for the other networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.table import Table
from syncline.models import layers as layers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SCENARIO = Path(__file__).parent / "fig0602" / "cluster.yaml"
WORKERS = 8
INTERFACES = 10
"""Interfaces of the box, each as fast as a worker's (6.1.1)."""
MIB = 1 << 20
PIECE = 512 << 10
"""Bytes of a message of Parameter Hub in the simulation. The paper's 32 KB would need sixteen times as many."""
KEY = 4 << 20
"""Bytes of a message of MXNet, which sums a whole piece of this size before it answers (3.2.3)."""
Profile = tuple[tuple[int, int], ...]
"""Parameters and multiply-adds of each layer, from input to output."""


@dataclass(frozen=True)
class Network:
    """A row of Table 6.1."""

    mebibytes: int
    seconds: float
    """Time of forward and backward pass of a batch."""
    batch: int
    profile: str
    """The network whose layers it has, in proportion."""


NETWORKS: Mapping[str, Network] = {
    "AlexNet": Network(194, 0.016, 32, "AlexNet"),
    "VGG 11": Network(505, 0.121, 32, "VGG 11"),
    "VGG 19": Network(548, 0.268, 32, "VGG 19"),
    "GoogleNet": Network(38, 0.100, 32, "ResNet 50"),
    "Inception V3": Network(91, 0.225, 32, "ResNet 50"),
    "ResNet 18": Network(45, 0.054, 32, "ResNet 50"),
    "ResNet 50": Network(97, 0.161, 32, "ResNet 50"),
    "ResNet 269": Network(390, 0.350, 16, "ResNet 50"),
    "ResNext 269": Network(390, 0.386, 8, "ResNet 50"),
}
LARGE = ("AlexNet", "VGG 11", "VGG 19")
"""Networks that the paper calls network-bound even at 56 Gb/s."""
FEW = ("AlexNet", "ResNet 50")


@dataclass(frozen=True)
class Arm:
    """A way to exchange gradients."""

    hub: bool
    """Whether the server is a box on its own; otherwise every worker has a shard."""
    piece: int
    """Bytes of a message."""
    workers: int = WORKERS


ARMS: Mapping[str, Arm] = {
    "MXNet": Arm(hub=False, piece=KEY),
    "PShard": Arm(hub=False, piece=PIECE),
    "PBox": Arm(hub=True, piece=PIECE),
    "PBox, 7 workers": Arm(hub=True, piece=PIECE, workers=WORKERS - 1),
}
BASE, SHARDS, BOX, SEVEN = ARMS


def convolutions(image: int, stages: Sequence[tuple[int, int, int, int]], hidden: int, pooled: int) -> Profile:
    """Layers of a network of convolutions and three linear layers.

    ``stages`` has outputs, kernel, size of the output, and number of convolutions; the first linear layer reads a
    square of ``pooled`` by ``pooled``.
    """
    found, inputs = [], image
    for outputs, kernel, size, many in stages:
        for _ in range(many):
            weights = outputs * inputs * kernel * kernel
            found.append((weights + outputs, weights * size * size))
            inputs = outputs
    inputs *= pooled * pooled
    for outputs in (hidden, hidden, 1000):
        found.append((inputs * outputs + outputs, inputs * outputs))
        inputs = outputs
    return tuple(found)


@cache
def profile(name: str) -> Profile:
    """Layers of AlexNet, VGG 11 or 19, or ResNet 50.

    AlexNet is that of Krizhevsky et al. 2012 without the division between two GPUs; VGG 11 and 19 are configurations A
    and E of Simonyan and Zisserman 2015.
    """
    if name == "AlexNet":
        stages = ((96, 11, 54, 1), (256, 5, 26, 1), (384, 3, 12, 2), (256, 3, 12, 1))
        return convolutions(3, stages, 4096, 5)
    if name in ("VGG 11", "VGG 19"):
        numbers = (1, 1, 2, 2, 2) if name == "VGG 11" else (2, 2, 4, 4, 4)
        sizes = zip((64, 128, 256, 512, 512), (224, 112, 56, 28, 14), numbers, strict=True)
        return convolutions(3, [(outputs, 3, size, many) for outputs, size, many in sizes], 4096, 7)
    return tuple((each.parameters, each.multiply_adds) for each in layers_of("resnet50", batch_per_npu=1))


def scenario_layers(network: Network) -> list[dict[str, Any]]:
    """The layers for a scenario: parameters and times in proportion to those of the profile.

    The forward pass and the gradients of inputs and of weights take equally long; the first layer needs no gradient of
    its inputs.
    """
    layers = profile(network.profile)
    total, work = (sum(each) for each in zip(*layers, strict=True))
    unit = network.seconds / (3 * work - layers[0][1])
    found = []
    for number, (parameters, operations) in enumerate(layers):
        time = f"{round(1e12 * unit * operations)}ps"
        passes = dict.fromkeys(("forward", "weight_grad", "input_grad") if number else ("forward", "weight_grad"), time)
        count = round(network.mebibytes * MIB / 4 * parameters / total)
        found.append({"name": f"layer{number}", **passes, "parameters": count})
    return found


def star(arm: Arm, rate: int) -> dict[str, Any]:
    """The rack: workers at ``rate`` Gb/s, and a box with as fast interfaces as NPU 0 if there is one."""
    rates = [rate] * arm.workers
    if arm.hub:
        rates.insert(0, rate * INTERFACES)
    links = [{"from": f"npu{npu}", "to": "switch0", "rate": f"{each}Gb/s"} for npu, each in enumerate(rates)]
    return {"npus": len(rates), "switches": 1, "links": links}


def step(runner: Runner, network: Network, arm: Arm, rate: int) -> float:
    """Simulated time of a training step in seconds: the second and third of three."""
    # A chunk has one message for each shard; the box is one shard.
    chunk = arm.piece * (1 if arm.hub else arm.workers)
    layers = scenario_layers(network)
    largest = max(4 * layer["parameters"] for layer in layers)
    changes = {
        "workload.layers": layers,
        "fabric": star(arm, rate),
        "collectives.algorithms": {
            "default": {"all_reduce": f"parameter_server(placement={'CC' if arm.hub else 'CS'})"}
        },
        "collectives.chunks": max(1, -(-largest // chunk)),
        "collectives.min_chunk": f"{chunk}B",
    }
    first, third = (
        runner.simulate(SCENARIO, {**changes, "workload.iterations": each}).summary.total_time_s for each in (1, 3)
    )
    return (third - first) / 2


def link(network: Network, arm: Arm, rate: int) -> float:
    """Time in which the busiest worker's link carries a step's gradients, in seconds.

    With shards a worker's link carries ``2 (N - 1) / N`` models in each direction: its own pushes and its shard's
    answers. With a box it carries one.
    """
    models = 1 if arm.hub else 2 * (arm.workers - 1) / arm.workers
    return models * 8 * network.mebibytes * MIB / (rate * 1e9)


def bound(network: Network, arm: Arm, rate: int) -> float:
    """A lower bound on a step: the larger of compute and of the busiest link, in seconds."""
    return max(network.seconds, link(network, arm, rate))


def measure(runner: Runner, rate: int) -> Table:
    """Predicted steps at a rate in Gb/s, and throughput relative to sharded MXNet."""
    table = Table(
        "steps",
        f"Predicted time of a step of {WORKERS} workers at {rate} Gb/s, and throughput relative to MXNet's",
        ("network", "compute_s", *(f"{arm}_s" for arm in ARMS), *(f"{arm} gain_ratio" for arm in list(ARMS)[1:])),
    )
    for name, network in NETWORKS.items():
        if runner.quick and name not in FEW:
            continue
        steps = {arm: step(runner, network, how, rate) for arm, how in ARMS.items()}
        gains = [ARMS[arm].workers / WORKERS * steps[BASE] / steps[arm] for arm in list(ARMS)[1:]]
        table.add(name, network.seconds, *steps.values(), *gains)
    return table


def gains(table: Table, arm: str) -> dict[str, float]:
    """Throughput relative to MXNet's, by network."""
    return dict(zip(table.column("network"), table.column(f"{arm} gain_ratio"), strict=True))


def draw(table: Table) -> Figure:
    """Draws throughput relative to MXNet's."""
    figure, axes = plot.new(height=3.2, width=8.0)
    plot.grouped(axes, {arm: table.column(f"{arm} gain_ratio") for arm in list(ARMS)[1:]})
    names = table.column("network")
    axes.set_xticks(range(len(names)), labels=names, rotation=25)
    axes.axhline(1.0, color=plot.GREY, linewidth=0.8)
    axes.set_ylabel("throughput over MXNet's, predicted")
    axes.legend(ncols=3)
    return figure
