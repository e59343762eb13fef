"""An exchange of gradients that is both simulated and run: with the same fabric, the same plan, the same chunks.

In the simulator every participant is a rank with a vector, so a hub on its own host is simulated as one more rank: the
plan of central colocated (CC) with one more rank sends the same messages as non-colocated (NCC), and the hub's own
vector crosses no link. :mod:`tests.experiments.test_luo2020` checks that the two plans are equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import syncline
from experiments.harness.testbed import Measurement, Trial
from syncline.runtime import Resources
from syncline.testbed import read_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
COSTS = FOLDER / "host-costs.yaml"
"""Host costs that ``syncline testbed check --save`` measured once, between two hosts."""
RANKS = FOLDER / "ranks.py"
CHUNK = 32 << 10
"""Bytes of a hub's chunk: the hub's default, and the dissertation's."""
MESSAGE = 64 << 10
"""Bytes of a message of the executor: the executor's default, and AggEngine's (4.2.2)."""
WINDOW = Resources().window // MESSAGE
"""Number of chunks that the executor has under way at a time, with messages of this size."""
UNLIMITED = "unlimited"
LARGE = 1 << 20
"""Predictions must be within a fraction :data:`NEAR` from this size on, and within a factor :data:`FACTOR` below it."""
NEAR, FACTOR = 0.15, 2.0


@cache
def host_costs() -> dict[str, Any]:
    """The host costs in the file :data:`COSTS`."""
    return read_costs(COSTS).as_dict()


@cache
def fabric(scenario: Path) -> dict[str, Any]:
    """A scenario's fabric, with the measured latency on its links."""
    found: dict[str, Any] = dict(syncline.load(scenario).written["fabric"])
    found["links"] = [{**link, "latency": host_costs()["link_latency"]} for link in found["links"]]
    return found


@dataclass(frozen=True)
class Exchange:
    """One all-reduce or PushPull."""

    scenario: Path
    """The scenario whose fabric is used."""
    arm: str
    """The arm of :mod:`~experiments.luo2020.ranks` that runs."""
    nbytes: int
    """Size of the vector in bytes."""
    hosts: Sequence[int]
    """The host of each rank."""
    chunks: int
    """Number of chunks of the simulated vector."""
    plan: str
    """The simulated algorithm, or the path of a plan file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the ranks."""
    collectives: Mapping[str, Any] = field(default_factory=dict)
    """Settings that schedule the simulated chunks; by default, all are issued at once."""
    hosted: bool = True
    """Whether the calibrated host costs apply to its software."""

    @cached_property
    def name(self) -> str:
        """Key of its measurement in the record."""
        said = [self.scenario.stem, self.arm, f"{self.nbytes}B", f"{len(self.hosts)} hosts"]
        return " ".join([*said, *(f"{key}={value}" for key, value in self.options.items())])

    def case(self, runner: Runner) -> Case:
        """The case that predicts the exchange."""
        own = self.plan.endswith(".json")
        changes: dict[str, Any] = {
            "name": f"{self.scenario.stem}-{self.arm}",
            "workload": {"collective": "all_reduce", "bytes": f"{self.nbytes}B"},
            "fabric": fabric(self.scenario),
            "placement": list(self.hosts),
            "collectives": {
                "all_reduce": "baseline",
                **({"plans": {"all_reduce": self.plan}} if own else {}),
                **({} if own else {"algorithms": {"default": {"all_reduce": self.plan}}}),
                "chunks": self.chunks,
                "min_chunk": "4B",
                "issue_threshold": UNLIMITED,
                "issue_batch": UNLIMITED,
                "active_chunks": UNLIMITED,
                **(host_costs()["collectives"] if self.hosted else {}),
                **self.collectives,
            },
        }
        return runner.case(self.scenario, changes)

    def predicted(self, runner: Runner) -> float:
        """Simulated time in seconds."""
        return runner.result(self.case(runner)).summary.total_time_s

    def measured(self, runner: Runner) -> Measurement | str:
        """The testbed's measurement, or the reason why there is none."""
        steps = 4 if self.nbytes >= 1 << 22 else 40
        told = [f"{key}={value}" for key, value in self.options.items()]
        program = [str(RANKS), self.arm, str(self.nbytes), str(steps), *told]
        package = "torch" if self.arm == "gloo" else None
        return runner.bench.measure(Trial(self.name, self.scenario, {}, self.hosts, program, package=package))


def cut(nbytes: int, size: int) -> int:
    """Number of chunks of at most ``size`` bytes in a vector; at least 1."""
    return max(1, math.ceil(nbytes / size))


def hub(scenario: Path, workers: int, nbytes: int, *, chunk: int = CHUNK, **options: Any) -> Exchange:
    """PushPull with a hub on host 0, and workers on the hosts after it."""
    told = {**({} if chunk == CHUNK else {"chunk": chunk}), **options}
    hosts = range(workers + 1)
    return Exchange(scenario, "hub", nbytes, hosts, cut(nbytes, chunk), "parameter_server(placement=CC)", told)


def sharded(scenario: Path, hosts: Sequence[int], nbytes: int) -> Exchange:
    """PushPull with a hub on every worker's host, each with its part of the chunks."""
    return Exchange(scenario, "sharded", nbytes, hosts, cut(nbytes, len(hosts) * CHUNK), "parameter_server")


def planned(scenario: Path, hosts: Sequence[int], nbytes: int, plan: str, **options: Any) -> Exchange:
    """An all-reduce of the executor, with a plan of the library."""
    told = {"plan": plan, "message": MESSAGE, **options}
    chunks = cut(nbytes, len(hosts) * MESSAGE)
    return Exchange(scenario, "plan", nbytes, hosts, chunks, plan, told, {"active_chunks": WINDOW})


def racked(scenario: Path, count: int, hosts: Sequence[int], nbytes: int, between: str, plan: str) -> Exchange:
    """PushPull with a hub in each of ``count`` racks, on the first hosts; ``plan`` is the path of the plan file."""
    told = {"racks": count, "between": between}
    return Exchange(scenario, "racks", nbytes, hosts, cut(nbytes, count * CHUNK), plan, told)


def gloo(scenario: Path, hosts: Sequence[int], nbytes: int) -> Exchange:
    """Gloo's all-reduce, which is a ring; its host costs are not calibrated."""
    return Exchange(scenario, "gloo", nbytes, hosts, cut(nbytes, len(hosts) * MESSAGE), "ring", hosted=False)
