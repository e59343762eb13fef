"""The schema of a whole scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from syncline.codes import Code
from syncline.config.collectives import Collectives
from syncline.config.compute import Compute
from syncline.config.fabric import Fabric
from syncline.config.faults import Fault, Index
from syncline.config.jitter import Jitter
from syncline.config.jobs import Job
from syncline.config.network import Network
from syncline.config.prices import Prices
from syncline.config.workload import Workload
from syncline.input.base import Strict, either, validation_error
from syncline.input.units import Bytes, LongTime, Time


class Limits(Strict):
    """When to stop early and keep partial results; and how much memory a run may need."""

    events: Annotated[int, Field(ge=1, le=2**63)] | None = None
    """Largest number of events."""
    sim_time: Time | None = None
    """Largest simulated time."""
    wall: LongTime | None = None
    """Largest wall-clock time, counted from reading the scenario. With it, the point at which a run stops depends on
    the machine's speed."""
    memory: Bytes = "16GB"
    """Largest estimated memory of a run. A run that needs more is refused before it begins."""


class Trace(Strict):
    """Contents of the trace."""

    ranks: Annotated[Literal["classes"] | list[Index], either("classes, or a list of ranks", "classes")] = "classes"
    """Traced ranks, as a list; or `classes`: the first rank of each class of equal ranks, for at most 8 classes, and up
    to 8 ranks that `faults` affect, slow ranks before those at broken links."""
    max_spans: Annotated[int, Field(ge=0, le=2**63)] = 400_000
    """Maximum number of spans that the trace keeps."""


class Scenario(Strict):
    """A training job, the cluster it runs on, and how it is simulated."""

    schema_: Annotated[Literal["syncline/1"], Field(alias="schema")] = "syncline/1"
    """Version of the schema."""
    name: Annotated[str, Field(max_length=200)] = ""
    """Name of the scenario, and of the folder of its results. Without it, the file's name."""
    seed: Annotated[int, Field(ge=0, le=2**63)] = 0
    """Default seed of everything random."""
    workload: Workload | None = None
    """The job. Exactly one of this and `jobs`."""
    jobs: Annotated[list[Job], Field(max_length=1024)] = []
    """Several jobs that share the fabric, in place of `workload` and `placement`."""
    compute: Compute = "given"
    """The compute model, which turns work into time."""
    fabric: Fabric
    """The network."""
    placement: Annotated[
        Literal["linear"] | list[Index], either("linear, or a list of NPUs, one for each rank", "linear")
    ] = "linear"
    """Which NPU each rank runs on: `linear` is rank `i` on NPU `i`; or a list, one NPU for each rank."""
    collectives: Collectives = Collectives()
    """How collectives are planned and scheduled."""
    network: Network = "analytical"
    """The network model, which turns messages into delivery times."""
    faults: list[Fault] = []
    """Slow ranks, and slow or broken links."""
    jitter: Jitter = Jitter()
    """Random variation between ranks and tasks: start skew and compute noise. None by default."""
    prices: Prices | None = None
    """Prices of the parts of the network: the name of a shipped list, the path of a YAML file, or your own list. With
    prices, results include the cost of the fabric, and training performance per dollar."""
    limits: Limits = Limits()
    """When to stop early."""
    trace: Trace = Trace()
    """Contents of the trace."""
    symmetry: bool = True
    """Whether to simulate only one of several equal ranks or iterations. The results are the same."""
    report: bool = True
    """Whether to write `report.html`."""

    @model_validator(mode="after")
    def _some_job(self) -> Scenario:
        if self.workload is None and not self.jobs:
            raise validation_error(
                "missing key `workload`",
                code=Code.MISSING_KEY,
                help="add `workload` to the scenario, or several `jobs`",
            )
        if self.workload is not None and self.jobs:
            raise validation_error(
                "both `workload` and `jobs` are given", help="one job is a `workload`; several are `jobs`"
            )
        if self.jobs and self.placement != "linear":
            raise validation_error(
                "`placement` does not apply to several `jobs`", help="give each job its own `placement`"
            )
        return self
