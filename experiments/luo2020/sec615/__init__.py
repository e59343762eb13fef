"""Section 6.1.5: tall or wide aggregation; keys by interface and core, or workers by interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Measurement, Trial
from experiments.luo2020 import beside
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, pair, source
from experiments.luo2020.exchange import hub
from experiments.luo2020.fig0605 import STAR
from syncline.quantity import counted, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

WORKERS = 8
SIZES = (256 << 10, 25 << 20)
MAPPINGS = {"keys by interface and core": "key_by_interface", "workers by interface": "worker_by_interface"}
KEYS, BY_WORKER = MAPPINGS
INTERFACES = 2
LOCAL = Claim(
    "luo-07",
    "6.1.5",
    "keys by interface and core give 1.43 times as many exchanges as workers by interface, without compute.",
)
TALL = Claim("luo-06", "6.1.5", "tall aggregation has 20 times the throughput of wide aggregation.")
TIMES, MAGNITUDE = 20.0, 3.0
"""The claimed ratio, and the factor within which a measured ratio agrees."""
CORES = (1, 2)
WAYS = ("tall", "wide")
NEAR = beside.claim("sec615")
CLAIMED, WITHIN = 1.43, 0.15


def measure(runner: Runner) -> Findings:
    """Predicts and measures exchanges with a hub of two interfaces; measures sums without a network."""
    times = Table(
        "mappings",
        "An exchange of 8 workers with a hub that has two interfaces, by the mapping to interfaces",
        ("size_bytes", "mapping", *COLUMNS),
    )
    pairs: dict[tuple[int, str], Pair] = {}
    for nbytes in SIZES[-1:] if runner.quick else SIZES:
        for name, mapping in MAPPINGS.items():
            exchange = hub(STAR, WORKERS, nbytes, interfaces=INTERFACES, mapping=mapping)
            found = pairs[nbytes, name] = pair(runner, name, exchange)
            times.add(nbytes, name, *found.cells())
    sums = Table(
        "kernels",
        "Summing ResNet-50's keys of 8 workers, by how cores share the work",
        ("cores", "way", "measured_s", "least_s", "others"),
    )
    kernels: dict[tuple[int, str], Measurement | str] = {}
    for cores in CORES[-1:] if runner.quick else CORES:
        for way in WAYS:
            took = kernels[cores, way] = runner.bench.measure(_kernel(cores, way))
            cells = (took, None, None) if isinstance(took, str) else (took.median_s, took.least_s, took.others)
            sums.add(cores, way, *cells)
    verdicts = [_tall(kernels), _local(pairs), beside.judged(NEAR, list(pairs.values()), WHY)]
    return Findings([times, sums], verdicts)


def _kernel(cores: int, way: str) -> Trial:
    """The benchmark of the hub's sums, without a network."""
    bench = ["cargo", "bench", "--quiet", "--locked", "-p", "syncline-reduction", "--bench", "aggregation", "--"]
    return Trial(f"sums {way} {cores} cores", None, {}, [], [*bench, f"--way={way}", f"--cores={cores}"])


def _tall(kernels: Mapping[tuple[int, str], Measurement | str]) -> Verdict:
    ratios = {}
    for cores in sorted({cores for cores, _ in kernels}):
        tall, wide = (kernels[cores, way] for way in WAYS)
        if not isinstance(tall, str) and not isinstance(wide, str):
            ratios[cores] = wide.least_s / tall.least_s
    missing = sorted({each for each in kernels.values() if isinstance(each, str)})
    near = [TIMES / MAGNITUDE <= ratio <= TIMES * MAGNITUDE for ratio in ratios.values()]
    return TALL.judged(
        any(near),
        ", ".join(f"{ratio:.2f} times on {counted(cores, 'core')}" for cores, ratio in ratios.items())
        or ", ".join(missing),
        "Tall aggregation keeps a chunk in cache while it adds those of all workers, and needs no barrier. Its gain "
        "grows with the number of cores, which in wide aggregation wait for each other at every key. The "
        "dissertation's hub has 28 cores, and its wide aggregation, MXNet's, also waits for a whole key to arrive.",
    )


WHY = (
    "The simulator has one interface per host and does not model the mapping, so it predicts the same for both. The "
    "time of smaller exchanges depends on the machine's cores."
)


def _local(pairs: Mapping[tuple[int, str], Pair]) -> Verdict:
    ratios = {nbytes: pairs[nbytes, BY_WORKER].best_s / pairs[nbytes, KEYS].best_s for nbytes, _ in pairs}
    return LOCAL.judged(
        all(abs(ratio / CLAIMED - 1) <= WITHIN for ratio in ratios.values()),
        ", ".join(f"{ratio:.2f} times for {size(nbytes)}" for nbytes, ratio in ratios.items()) + source(pairs.values()),
        "In both mappings of this hub one core handles a chunk and has a connection to every worker, and cores share "
        "nothing. In the dissertation's workers by interface, cores of several interfaces and sockets work on one key, "
        "and the ratio is the cost of that synchronisation and of memory between sockets; here there is no such cost "
        "to save. Interfaces are two ports of one interface, because a testbed has one path between two hosts.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the times of both mappings."""
    table = findings.table("mappings")
    nbytes = max(table.column("size_bytes"))
    figure, axes = plot.new(height=3.0)
    groups = {}
    for key, label in (("predicted_s", "predicted"), ("measured_s", "measured")):
        values = table.column(key, size_bytes=nbytes)
        groups[label] = [0.0 if isinstance(each, str) else 1e3 * each for each in values]
    plot.grouped(axes, groups)
    axes.set_xticks(range(len(MAPPINGS)), labels=list(MAPPINGS))
    axes.set_ylabel(f"exchange of {size(nbytes)} [ms]")
    axes.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "tall or wide aggregation; keys by interface and core, or workers by interface",
    (TALL, LOCAL, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)
