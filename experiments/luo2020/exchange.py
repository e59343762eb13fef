"""An exchange of gradients, as it is simulated and as it runs: the same fabric, the same plan, the same chunks.

The simulator has no seats for hubs beside ranks, so a hub on a host of its own is a rank that has a vector, too:
central and colocated (CC) with one rank more is non-colocated (NCC), message by message, and what the hub adds of its
own crosses no link. :mod:`tests.experiments.test_luo2020` holds the two plans equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.testbed import Measured, Trial
from syncline.config.source import from_file
from syncline.runtime import Pace
from syncline.testbed import costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
COSTS = FOLDER / "host-costs.yaml"
"""What ``syncline testbed check --save`` measured, once, between two hosts."""
RANKS = FOLDER / "ranks.py"
CHUNK = 32 << 10
"""Bytes of a hub's chunk: its default, and the dissertation's."""
MESSAGE = 64 << 10
"""Bytes of an executor's message: its default, and AggEngine's (4.2.2)."""
WINDOW = Pace().window // MESSAGE
"""Chunks that the executor has under way at a time, of messages of this size."""
UNLIMITED = "unlimited"
LARGE = 1 << 20
"""From this size on predictions are asked to be within :data:`NEAR`, below it within :data:`FACTOR`."""
NEAR, FACTOR = 0.15, 2.0


@cache
def host_costs() -> dict[str, Any]:
    """Host costs as the file has them."""
    return costs.read(COSTS).plain()


@cache
def fabric(scenario: Path) -> dict[str, Any]:
    """A scenario's fabric, with the measured latency on its links."""
    found: dict[str, Any] = dict(from_file(str(scenario)).root.plain()["fabric"])
    found["links"] = [{**link, "latency": host_costs()["link_latency"]} for link in found["links"]]
    return found


@dataclass(frozen=True)
class Exchange:
    """One all-reduce or PushPull."""

    scenario: Path
    """Whose fabric it runs on."""
    arm: str
    """What runs: an arm of :mod:`~experiments.luo2020.ranks`."""
    nbytes: int
    """Of the vector."""
    hosts: Sequence[int]
    """The host of each rank."""
    chunks: int
    """Into which the simulated vector is cut."""
    plan: str
    """The algorithm that is simulated, or the path of a plan file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the ranks are told besides."""
    collectives: Mapping[str, Any] = field(default_factory=dict)
    """How the simulated chunks are scheduled, where it is not all at once."""
    hosted: bool = True
    """Whether the calibrated host costs are those of its software."""

    @cached_property
    def name(self) -> str:
        """By which its measurement is found again."""
        said = [self.scenario.stem, self.arm, f"{self.nbytes}B", f"{len(self.hosts)} hosts"]
        return " ".join([*said, *(f"{key}={value}" for key, value in self.options.items())])

    def case(self, runner: Runner) -> Case:
        """What is simulated."""
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
        """Seconds, by the simulator."""
        return runner.result(self.case(runner)).summary.total_time_s

    def measured(self, runner: Runner) -> Measured | str:
        """Seconds, on the testbed, or why there are none."""
        steps = 4 if self.nbytes >= 1 << 22 else 40
        told = [f"{key}={value}" for key, value in self.options.items()]
        program = [str(RANKS), self.arm, str(self.nbytes), str(steps), *told]
        return runner.bench.measure(Trial(self.name, self.scenario, {}, self.hosts, program, torch=self.arm == "gloo"))


def cut(nbytes: int, size: int) -> int:
    """Into how many chunks of at most ``size`` bytes a vector is cut."""
    return max(1, math.ceil(nbytes / size))


def hub(scenario: Path, workers: int, nbytes: int, *, chunk: int = CHUNK, **options: Any) -> Exchange:
    """PushPull with a hub on host 0, and workers on those after it."""
    told = {**({} if chunk == CHUNK else {"chunk": chunk}), **options}
    hosts = range(workers + 1)
    return Exchange(scenario, "hub", nbytes, hosts, cut(nbytes, chunk), "parameter_server(placement=CC)", told)


def sharded(scenario: Path, hosts: Sequence[int], nbytes: int) -> Exchange:
    """PushPull with a hub on every worker's host, each with its part of the chunks."""
    return Exchange(scenario, "sharded", nbytes, hosts, cut(nbytes, len(hosts) * CHUNK), "parameter_server")


def planned(scenario: Path, hosts: Sequence[int], nbytes: int, plan: str, **options: Any) -> Exchange:
    """An all-reduce by a plan of the library, on the executor."""
    told = {"plan": plan, "message": MESSAGE, **options}
    chunks = cut(nbytes, len(hosts) * MESSAGE)
    return Exchange(scenario, "plan", nbytes, hosts, chunks, plan, told, {"active_chunks": WINDOW})


def racked(scenario: Path, count: int, hosts: Sequence[int], nbytes: int, between: str, plan: str) -> Exchange:
    """PushPull with a hub in each of ``count`` racks: the hosts' first ones; ``plan`` is the file of what they do."""
    told = {"racks": count, "between": between}
    return Exchange(scenario, "racks", nbytes, hosts, cut(nbytes, count * CHUNK), plan, told)


def gloo(scenario: Path, hosts: Sequence[int], nbytes: int) -> Exchange:
    """Gloo's all-reduce, which is a ring; what its messages cost hosts is not calibrated."""
    return Exchange(scenario, "gloo", nbytes, hosts, cut(nbytes, len(hosts) * MESSAGE), "ring", hosted=False)
