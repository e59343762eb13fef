"""A whole scenario, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from syncline.config.base import Strict, either, wrong
from syncline.config.collectives import Collectives
from syncline.config.compute import Compute
from syncline.config.fabric import Fabric
from syncline.config.faults import Fault, Index
from syncline.config.jitter import Jitter
from syncline.config.jobs import Job
from syncline.config.network import Network
from syncline.config.prices import Prices
from syncline.config.quantity import Bytes, LongTime, Time
from syncline.config.workload import Workload


class Limits(Strict):
    """When to stop early, keeping what was finished; and what a run may need at most."""

    events: Annotated[int, Field(ge=1, le=2**63)] | None = None
    """Largest number of events."""
    sim_time: Time | None = None
    """Largest simulated time."""
    wall: LongTime | None = None
    """Largest wall time, from reading the scenario on. Where a run stops then depends on the machine's speed."""
    memory: Bytes = "16GB"
    """Largest memory that a run may be estimated to need. One that needs more is refused before it begins."""


class Trace(Strict):
    """What the trace shows."""

    ranks: Annotated[Literal["classes"] | list[Index], either("classes, or a list of ranks", "classes")] = "classes"
    """Traced ranks: `classes` is the first rank of each class of ranks that do the same, of at most 8 classes, and up
    to 8 ranks that `faults` name: slow ones, then those at broken links; or a list of ranks."""
    max_spans: Annotated[int, Field(ge=0, le=2**63)] = 400_000
    """Largest number of spans kept."""


class Scenario(Strict):
    """A training job, the cluster it runs on, and how it is simulated."""

    schema_: Annotated[Literal["syncline/1"], Field(alias="schema")] = "syncline/1"
    """Version of this form."""
    name: Annotated[str, Field(max_length=200)] = ""
    """A name for people; results go to a folder of that name. Without it, the file's name is taken."""
    seed: Annotated[int, Field(ge=0, le=2**63)] = 0
    """Seed of everything random."""
    workload: Workload | None = None
    """The job. Exactly one of this and `jobs`."""
    jobs: Annotated[list[Job], Field(max_length=1024)] = []
    """Several jobs that share the fabric, in place of `workload` and `placement`."""
    compute: Compute = "given"
    """What turns work into time."""
    fabric: Fabric
    """The network."""
    placement: Annotated[
        Literal["linear"] | list[Index], either("linear, or a list of NPUs, one for each rank", "linear")
    ] = "linear"
    """Which NPU each rank runs on: `linear` is rank `i` on NPU `i`; or a list, one NPU for each rank."""
    collectives: Collectives = Collectives()
    """How collectives are carried out."""
    network: Network = "analytical"
    """What turns messages into delivery times."""
    faults: list[Fault] = []
    """What is slow or broken: ranks and links."""
    jitter: Jitter = Jitter()
    """What varies between ranks and tasks: start skew and compute noise. By default nothing does."""
    prices: Prices | None = None
    """What the parts of the network cost: the name of a shipped list, the path of a YAML file, or a list of one's own.
    Results then say what the fabric costs, and what training a dollar buys."""
    limits: Limits = Limits()
    """When to stop early."""
    trace: Trace = Trace()
    """What the trace shows."""
    quotient: bool = True
    """Whether ranks and iterations that are like others are left out of the simulation. The results are the same."""
    report: bool = True
    """Whether the results folder gets `report.html`."""

    @model_validator(mode="after")
    def _some_job(self) -> Scenario:
        if self.workload is None and not self.jobs:
            raise wrong(
                "missing key `workload`", code="SL0103", help="add `workload` to the scenario, or several `jobs`"
            )
        if self.workload is not None and self.jobs:
            raise wrong("both `workload` and `jobs` are given", help="one job is a `workload`; several are `jobs`")
        if self.jobs and self.placement != "linear":
            raise wrong("`placement` is that of one job, and `jobs` are several", help="give each job its `placement`")
        return self
