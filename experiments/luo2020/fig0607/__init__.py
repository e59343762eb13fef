"""Figure 6.7: chunk sizes, and numbers of connections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import beside
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, pair, source
from experiments.luo2020.exchange import CHUNK, Exchange, hub
from experiments.luo2020.fig0605 import STAR
from syncline.quantity import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

NBYTES = 25 << 20
WORKERS = 8
CHUNKS = (4 << 10, 16 << 10, CHUNK, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
CORES = (1, 2, 4, 8)
"""Cores of the hub; each worker has a connection to each core."""
USUAL = 2
BEST = Claim("luo-08", "Fig. 6.7", "the hub's best chunk size is 32 KB.")
FEW = Claim("luo-fig0607-connections", "Fig. 6.7", "a worker with fewer connections to the hub is faster.")
NEAR = beside.claim("fig0607")
SAME = 0.05
"""Times within this fraction of the best count as equally good."""
WHY = (
    "The simulator sends a worker's data in one stream, and host costs delay a chunk without keeping a core busy. So "
    "it predicts the pipeline (a chunk is summed once it is complete), but not the work of many small messages."
)


def measure(runner: Runner) -> Findings:
    """Predicts and measures exchanges of 25 MiB with a hub."""
    chunks = Table("chunks", "An exchange of 25 MiB, 8 workers, by chunk size", ("chunk_bytes", *COLUMNS))
    connections = Table(
        "connections",
        "The same by number of connections from a worker to the hub, in chunks of 32 KiB",
        ("connections", *COLUMNS),
    )
    by_chunk = {
        chunk: pair(runner, f"chunks of {size(chunk)}", hub(STAR, WORKERS, NBYTES, chunk=chunk))
        for chunk in (CHUNKS[2::2] if runner.quick else CHUNKS)
    }
    by_cores = {
        cores: pair(runner, f"{cores} connections", _by_cores(cores))
        for cores in (CORES[:2] if runner.quick else CORES)
    }
    for chunk, found in by_chunk.items():
        chunks.add(chunk, *found.cells())
    for cores, found in by_cores.items():
        connections.add(cores, *found.cells())
    pairs = [*by_chunk.values(), *(each for cores, each in by_cores.items() if cores != USUAL)]
    return Findings([chunks, connections], [_best(by_chunk), _few(by_cores), beside.judged(NEAR, pairs, WHY)])


def _by_cores(cores: int) -> Exchange:
    return hub(STAR, WORKERS, NBYTES, **({} if cores == USUAL else {"cores": cores}))


def _best(found: Mapping[int, Pair]) -> Verdict:
    times = {chunk: each.best_s for chunk, each in found.items()}
    best = min(times, key=lambda chunk: times[chunk])
    good = [chunk for chunk in times if times[chunk] <= (1 + SAME) * times[best]]
    return BEST.judged(
        CHUNK in good,
        f"best {size(best)}; within {SAME:.0%} of it {', '.join(map(size, good))}; 32 KiB takes "
        f"{times[CHUNK] / times[best]:.2f} times as long{source(found.values())}",
        "A chunk is summed once it is complete, and its sum is sent back while other chunks arrive. With large chunks, "
        "the way back is idle at the beginning and the way to the hub at the end. Small chunks cost hosts more per "
        "byte.",
    )


def _few(found: Mapping[int, Pair]) -> Verdict:
    times = {cores: each.best_s for cores, each in found.items()}
    best = min(times.values())
    return FEW.judged(
        times[min(times)] <= (1 + SAME) * best,
        ", ".join(f"{cores} {1e3 * seconds:.0f} ms" for cores, seconds in times.items()) + source(found.values()),
        "TCP connections, unlike InfiniBand's queue pairs, do not fill a cache of the network card. Each connection "
        "belongs to another core of the hub, and the machine has two cores for all hosts.",
    )


def draw(findings: Findings) -> Figure:
    """Draws times by chunk size and by number of connections."""
    figure, (left, right) = plot.new(2, height=3.0, sharey=True)
    for axes, name, column in ((left, "chunks", "chunk_bytes"), (right, "connections", "connections")):
        table = findings.table(name)
        for index, (key, label) in enumerate((("predicted_s", "predicted"), ("measured_s", "measured"))):
            points = [
                (at, 1e3 * seconds)
                for at, seconds in zip(table.column(column), table.column(key), strict=True)
                if not isinstance(seconds, str)
            ]
            plot.line(axes, [x for x, _ in points], [y for _, y in points], label, index)
    plot.sizes_below(left, findings.table("chunks").column("chunk_bytes"))
    right.set_xticks(CORES)
    left.set_xlabel("chunk")
    right.set_xlabel("connections of a worker")
    left.set_ylabel("exchange of 25 MiB [ms]")
    left.set_ylim(bottom=0)
    left.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "exchanges with a hub by chunk size, and by number of connections",
    (BEST, FEW, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)
