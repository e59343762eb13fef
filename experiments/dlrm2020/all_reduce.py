"""A single all-reduce on 128 nodes around one switch: the runs of Figures 7 to 10, and other readings of the paper."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.dlrm2020.apart import SKEW, Draws, medians, starts
from experiments.harness.experiment import Choice
from experiments.harness.table import Table
from syncline.plans import plan, receive, send, wait
from syncline.quantity import counted
from syncline.quantity import size as shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner
    from syncline import Result
    from syncline.plans import Instruction
    from syncline.summary import Packets

FOLDER = Path(__file__).parent / "fig07"
SCENARIOS = {"DBT": FOLDER / "dbt.yaml", "A2A": FOLDER / "a2a.yaml"}
"""The two algorithms of the study (Table II)."""
BUFFERS = {"64 MB": 512 << 10, "1 GB": 8 << 20}
"""Buffer sizes of the switch, and the bytes for each of its 128 ports (IV.A: 512 KB of 64 MB)."""
MB = 1_000_000
SIZES = tuple(8 * MB << step for step in range(6))
"""8 to 256 MB. MB = 10⁶ B, because 2 x 8 MB over 100 Gb/s then take the paper's 1.28 ms."""
NODES, FEW_NODES = 128, 8
"""Number of nodes in the study, and in a quick run."""
BYTES_PER_S = 12.5e9
"""Rate of a link: 100 Gb/s."""
FRAME = 1502
"""Bytes on the wire of a full packet, with an MTU of 1500 B."""
BYTES, BUFFER = "workload.layers.matrix.exchanges.0.bytes", "network.buffer"


@dataclass(frozen=True)
class Single:
    """One run."""

    algorithm: str
    buffer: str
    """Buffer size of the whole switch, a key of ``BUFFERS``."""
    size: int
    result: Result

    @property
    def analytical_s(self) -> float:
        """The paper's analytical time, 2 D / bandwidth (IV.A.1)."""
        return 2 * self.size / BYTES_PER_S

    @property
    def completion_s(self) -> float:
        """Time from the first node's start to the last node's end; the mean if there are several all-reduces."""
        return fmean(self.result.table("collectives")["duration_s"])

    @property
    def over_analytical(self) -> float:
        """Completion time over analytical time."""
        return self.completion_s / self.analytical_s

    @property
    def utilization(self) -> float:
        """Bytes on the wire over what all links could have carried since the first node's start (Fig. 8)."""
        answer = self.result.summary
        started: float = self.result.table("collectives")["issue_s"][0]
        return answer.dims[0].utilization * answer.total_time_s / (answer.total_time_s - started)

    @property
    def packets(self) -> Packets:
        """Statistics of packets: retransmissions, time-outs, round-trip times."""
        found = self.result.summary.packets
        assert found is not None, "the network model has packets"  # noqa: S101 - as `networks` below says
        return found

    @cached_property
    def longest_queue(self) -> int:
        """Bytes of the longest queue at a port of the switch."""
        ports = self.result.table("ports")
        pairs: Iterable[tuple[str, int]] = zip(ports["from"], ports["longest_queue_bytes"], strict=True)
        return max(queue for place, queue in pairs if place.startswith("switch"))


class Grid:
    """The runs of every algorithm, buffer and size, each simulated on first access.

    In the default reading each configuration has one run per seed, in which nodes begin at different times. Under other
    readings of the paper it has one run, in which all nodes begin at once.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.nodes = FEW_NODES if runner.quick else NODES
        """Number of nodes around the switch."""
        self.sizes = _sizes(runner)
        """Sizes of the all-reduce: all, or in a quick run and under other readings those that claims mention."""
        self.starts = starts(runner)
        """For each run of a configuration, the changes to the scenario that set when nodes begin."""
        self._known: dict[tuple[str, str, int], Draws[Single]] = {}

    def __getitem__(self, which: tuple[str, str, int]) -> Draws[Single]:
        """The runs of an algorithm, a buffer and a size."""
        if which not in self._known:
            algorithm, buffer, size = which
            results = [
                self._runner.simulate(SCENARIOS[algorithm], self._changes(buffer, size, start)) for start in self.starts
            ]
            self._known[which] = Draws([Single(algorithm, buffer, size, result) for result in results])
        return self._known[which]

    def line(self, algorithm: str, buffer: str) -> list[Draws[Single]]:
        """The runs of an algorithm and a buffer at all sizes."""
        return [self[algorithm, buffer, size] for size in self.sizes]

    def cases(self) -> list[Case]:
        """All cases. DBT takes about twice as long to simulate as A2A, because it sends 1024 chunks."""
        weight = {"DBT": 2, "A2A": 1}
        return [
            self._runner.case(SCENARIOS[algorithm], self._changes(buffer, size, start), weight=weight[algorithm] * size)
            for algorithm, buffer in configurations()
            for size in self.sizes
            for start in self.starts
        ]

    def _changes(self, buffer: str, size: int, start: Mapping[str, Any]) -> dict[str, Any]:
        few = {} if self.nodes == NODES else {"fabric.dims.scale_out.size": self.nodes}
        # The buffer scales with the number of ports.
        return {**few, BYTES: f"{size}B", BUFFER: f"{BUFFERS[buffer] * self.nodes}B", **start}

    def table(self, name: str, title: str, unit: str, value: Callable[[Single], float], *, first: str = "") -> Table:
        """A row for each size: the median of ``value`` of each configuration, in columns that end in ``unit``."""
        columns = [column(algorithm, buffer, unit) for algorithm, buffer in configurations()]
        said = f"{title}; {self.nodes} nodes{medians(len(self.starts))}"
        table = Table(name, said, ("size_bytes", *([first] if first else []), *columns))
        for size in self.sizes:
            runs = [self[algorithm, buffer, size] for algorithm, buffer in configurations()]
            analytical = [runs[0].runs[0].analytical_s] if first else []
            table.add(size, *analytical, *(draws.median(value) for draws in runs))
        return table

    def spreads(self) -> Table:
        """The spread of the runs of each configuration."""
        table = Table(
            "spreads",
            f"Nodes begin up to {SKEW} apart, {counted(len(self.starts), 'seed')}: completion over analytical, and "
            "time-outs",
            (
                *("algorithm", "switch_buffer", "size_bytes"),
                *("median_ratio", "least_ratio", "most_ratio", "least_timeouts", "most_timeouts"),
            ),
        )
        for algorithm, buffer in configurations():
            for size in self.sizes:
                draws = self[algorithm, buffer, size]
                ratios = draws.median(over), draws.least(over), draws.most(over)
                table.add(algorithm, buffer, size, *ratios, int(draws.least(timeouts)), int(draws.most(timeouts)))
        return table


def over(run: Single) -> float:
    """Completion time of a run over the analytical time."""
    return run.over_analytical


def timeouts(run: Single) -> int:
    """Number of time-outs of a run."""
    return run.packets.timeouts


def again(run: Single) -> int:
    """Number of retransmitted segments of a run."""
    return run.packets.retransmissions


def used(run: Single) -> float:
    """Fraction of the links' capacity that a run uses."""
    return run.utilization


def ratio(value: float) -> str:
    """Formats a ratio."""
    return f"{value:.3g}"


def whole(value: float) -> str:
    """Formats a median of counts."""
    return f"{value:.0f}"


def configurations() -> Iterator[tuple[str, str]]:
    """Pairs of algorithm and buffer, one for each line of the figures."""
    return ((algorithm, buffer) for algorithm in SCENARIOS for buffer in BUFFERS)


def column(algorithm: str, buffer: str, unit: str) -> str:
    """Name of a configuration's column, such as ``dbt_64MB_ratio``."""
    return f"{algorithm.lower()}_{buffer.replace(' ', '')}{unit}"


def cases(runner: Runner) -> Sequence[Case]:
    """The cases that Figures 7 to 10 simulate."""
    return Grid(runner).cases()


def _sizes(runner: Runner) -> tuple[int, ...]:
    if runner.quick:
        return SIZES[:3]
    return SIZES if runner.usual else (*SIZES[:3], SIZES[-1])


def near(measured: float, paper: float) -> bool:
    """Whether a value is within 10 % of the paper's, which comes from one run and has two or three digits."""
    return abs(measured / paper - 1) <= 0.1


def of_magnitude(measured: float, paper: float) -> bool:
    """Whether a count is within a factor of 3 of the paper's."""
    return paper / 3 <= measured <= 3 * paper


def lost(draws: Draws[Single]) -> str:
    """A sentence about the packets that were lost in the run of median completion time."""
    run = draws.typical(over)
    packets, room = run.packets, shown(BUFFERS[run.buffer])
    if not packets.dropped:
        alone = run.longest_queue < 2 * FRAME
        why = "; no two nodes send to the same receiver at a time" if alone else ""
        return f"No packet is lost: the longest queue of a port is {shown(run.longest_queue)} of {room}{why}."
    which = f"In the median run, {packets.dropped}" if len(draws.runs) > 1 else f"{packets.dropped}"
    return (
        f"{which} packets find the {room} buffer of their port full; {packets.retransmissions} are sent again. "
        f"{packets.timeouts} losses end in a time-out of 50 ms or more, because no later packet reveals them."
    )


def apart(seconds: float) -> Mapping[str, Any]:
    """Changes after which nodes start up to ``seconds`` apart: each first computes for 1 to 2 times that, at random."""
    draw = random.Random(0)  # noqa: S311 - a fixed seed: the same draws on every machine
    slow = [{"rank": node, "factor": round(1 + draw.random(), 6)} for node in range(NODES)]
    return {"workload.layers.matrix.weight_grad": f"{seconds * 1e12:.0f}ps", "faults": slow}


def shuffled(folder: Path) -> Mapping[str, Any]:
    """Changes after which each node of A2A serves the others in its own random order."""

    def program(rank: int, ranks: int) -> Iterator[Instruction]:
        others = [other for other in range(ranks) if other != rank]
        random.Random(rank).shuffle(others)  # noqa: S311 - a fixed seed: the same draws on every machine
        for other in others:
            yield send(other, block=other)
            yield receive(other, block=rank, reduce=True)
        yield wait()
        for other in others:
            yield send(other, block=rank)
            yield receive(other, block=other)

    folder.mkdir(parents=True, exist_ok=True)
    path = plan("shuffled", "all_reduce", NODES, program).save(folder / "shuffled.json")
    return {"a2a:collectives.plans": {"all_reduce": str(path.absolute())}}


NETWORKS = ("packet",)
"""The network model that simulates packets."""
CHOICES = (
    Choice("all nodes begin at once", {"jitter.start": "0s"}),
    Choice("A2A: each node serves the others in its own random order", shuffled),
    Choice("packets of 9000 B", {"network.mtu": "9000B"}),
    Choice("initial window of 0.5 MB", {"network.initial_window": (512 << 10) // 1448}),
    Choice("CUBIC", {"network.congestion": "cubic"}),
    Choice("16 chunks of A2A, 128 of DBT", {"a2a:collectives.chunks": 16, "dbt:collectives.chunks": 128}),
    Choice("two all-reduces, one after the other", {"workload.iterations": 2}),
)
"""Other readings of what the paper leaves open about a single all-reduce. In all of them, nodes begin at once."""
