"""The schema of the spec of a search for bandwidths."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from syncline import _core
from syncline.codes import Code
from syncline.config.fabric import Efficiencies, Times
from syncline.config.shape import check_shape
from syncline.input.base import Strict, either, validation_error
from syncline.input.units import Rate

Shape = Annotated[str, AfterValidator(check_shape)]
Kind = Literal["ring", "fully_connected", "switch"]

MAX_CANDIDATES = 20_000
"""Maximum number of shapes of a search."""


class Shapes(Strict):
    """The shape of the fabric, or several to choose from. The search finds the rates."""

    shape: Annotated[
        Shape | Annotated[list[Shape], Field(min_length=1, max_length=MAX_CANDIDATES)] | None,
        either("a shape such as Ring(8)_Switch(128), or a list of shapes"),
    ] = None
    """A shape such as `Ring(8)_Switch(128)`, lowest dimension first; or a list of shapes, all with the same number of
    NPUs. Exactly one of this and `npus`."""
    npus: Annotated[int, Field(ge=2, le=2**32 - 1)] | None = None
    """Number of NPUs: the search tries all shapes with this number, in which every dimension has two NPUs or more."""
    dims: Annotated[
        Annotated[int, Field(ge=1, le=8)]
        | Annotated[list[Annotated[int, Field(ge=1, le=8)]], Field(min_length=1, max_length=8)],
        either("a number of dimensions, or a list of such"),
    ] = 2
    """With `npus`: the number of dimensions, or a list of numbers to try."""
    kinds: Annotated[
        list[Annotated[Kind | list[Kind], either("ring, fully_connected, switch, or a list of these")]],
        Field(min_length=1, max_length=8),
    ] = ["switch"]
    """With `npus`: the kind of each dimension, lowest first; the last one applies to all dimensions above. In place of
    a kind, a list of kinds to try."""
    names: list[Annotated[str, Field(min_length=1)]] | None = None
    """Names of the dimensions, lowest first. Without it, `dim1`, `dim2` and so on."""
    latency: Times = "0s"
    """Latency of a link; one for all dimensions, or a list with one for each."""
    efficiency: Efficiencies = 1.0
    """Fraction of the bits on the wire that is payload; one for all dimensions, or a list with one for each."""

    @model_validator(mode="after")
    def _one_way(self) -> Shapes:
        if (self.shape is None) == (self.npus is None):
            raise validation_error(
                "give exactly one of `shape` and `npus`",
                code=Code.MISSING_KEY if self.shape is None else Code.BAD_VALUE,
                help="write shape: Ring(8)_Switch(128), or npus: 1024 and dims: [2, 3]",
            )
        if self.npus is None:
            for key in ("dims", "kinds"):
                if key in self.model_fields_set:
                    raise validation_error(
                        f"`{key}` has no effect with `shape`", at=(key,), help=f"remove `{key}`, or give `npus`"
                    )
        for at, name in enumerate(self.names or ()):
            if name == "last":
                raise validation_error(
                    "`last` is reserved for the highest dimension",
                    at=("names", at),
                    help="give the dimension another name",
                )
            if name in (self.names or ())[:at]:
                raise validation_error(
                    "two dimensions have the same name", at=("names", at), found=name, help="give each its own name"
                )
        return self


Usd = Annotated[float, Field(gt=0, le=1e15, strict=False)]


class Budget(Strict):
    """The budget: bandwidth, money, or both."""

    rate_per_npu: Rate | None = None
    """Total rate of one NPU over all dimensions."""
    usd: Annotated[Usd | None, either("an amount above 0, in US dollars")] = None
    """Price of the whole fabric, by `prices`."""

    @model_validator(mode="after")
    def _some(self) -> Budget:
        if self.rate_per_npu is None and self.usd is None:
            raise validation_error(
                "the budget is empty",
                code=Code.MISSING_KEY,
                help="give `rate_per_npu`, such as 300GB/s, or `usd`, or both",
            )
        if self.rate_per_npu is not None and _core.parse_quantity("rate", self.rate_per_npu) == 0:
            raise validation_error("the budget is 0", found=self.rate_per_npu, allowed="a rate above 0")
        return self


class Bounds(Strict):
    """Bounds on the rate of one NPU in a dimension."""

    min: Rate | None = None
    """Lower bound. Without it, 1 kB/s, which even a dimension that carries nothing has."""
    max: Rate | None = None
    """Upper bound."""
    fixed: Rate | None = None
    """Exact rate, in place of `min` and `max`."""

    @model_validator(mode="after")
    def _consistent(self) -> Bounds:
        if self.fixed is not None and (self.min is not None or self.max is not None):
            raise validation_error("`fixed` excludes `min` and `max`", help="remove `min` and `max`, or `fixed`")
        for key in ("max", "fixed"):
            value = getattr(self, key)
            if value is not None and _core.parse_quantity("rate", value) == 0:
                raise validation_error(
                    "a dimension needs some bandwidth", found=f"{key}: {value}", allowed="a rate above 0"
                )
        return self


class WeightedJob(Strict):
    """One of several jobs for which the fabric is designed."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Name of the job."""
    weight: Annotated[float, Field(gt=0, le=1e9, strict=False)] = 1.0
    """Number of its steps that count for each step of a job with weight 1."""
    workload: Any
    """The job's work, as in a scenario."""
    compute: Any = None
    """The job's compute model, as in a scenario. Without it, that of the spec."""


class Spec(Strict):
    """A search: how to divide a bandwidth budget among the dimensions of a fabric for one job or several."""

    schema_: Annotated[Literal["syncline-design/1"], Field(alias="schema")] = "syncline-design/1"
    """Version of the schema."""
    name: Annotated[str, Field(max_length=200)] = ""
    """Name of the search, and of the folder of its results. Without it, the file's name."""
    workload: Any = None
    """The job, as in a scenario. Exactly one of this and `jobs`."""
    jobs: Annotated[list[WeightedJob], Field(max_length=64)] = []
    """Several jobs, in place of `workload`. Each has the fabric for itself."""
    compute: Any = None
    """The compute model, which turns work into time, as in a scenario."""
    fabric: Shapes
    """The shape of the network, or several to choose from."""
    budget: Budget
    """The budget: bandwidth, money, or both."""
    bandwidth: dict[str, Bounds] = {}
    """Bounds on rates, by name of the dimension; `last` is the highest one. They apply to the shapes that have the
    dimension."""
    order: Literal["any", "descending"] = "any"
    """Order of the rates. `descending`: no dimension has a higher rate than the one below it."""
    objective: Literal["time", "performance_per_cost", "pareto"] = "time"
    """The objective. `time`: the shortest time of all jobs' steps. `performance_per_cost`: the most steps per second
    and dollar. `pareto`: all trade-offs between time and the cost of the network; the winner is the best per dollar if
    `npu_usd` is given, else the fastest."""
    points: Annotated[int, Field(ge=2, le=200)] = 16
    """With `pareto`: the number of budgets to try."""
    prices: Any = None
    """Prices of parts, as in a scenario."""
    npu_usd: Annotated[float, Field(ge=0, le=1e9, strict=False)] = 0.0
    """Price of an NPU, with its part of a host. Performance per cost counts it in addition to the network."""
    collectives: Any = None
    """How collectives are planned and scheduled, as in a scenario."""
    network: Any = None
    """The network model for simulating the results, as in a scenario."""
    simulate: Annotated[int, Field(ge=1, le=1000)] = 3
    """Number of the best shapes to simulate; and number of points of `pareto` to simulate."""

    @model_validator(mode="after")
    def _some_job(self) -> Spec:
        if self.workload is None and not self.jobs:
            raise validation_error(
                "missing key `workload`",
                code=Code.MISSING_KEY,
                at=("workload",),
                help="add `workload`, or several `jobs`",
            )
        if self.workload is not None and self.jobs:
            raise validation_error(
                "both `workload` and `jobs` are given", at=("jobs",), help="one job is a `workload`; several are `jobs`"
            )
        names = [job.name for job in self.jobs]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise validation_error(
                    "two jobs have the same name", at=("jobs", at, "name"), found=name, help="give each its own name"
                )
        return self

    @model_validator(mode="after")
    def _priced(self) -> Spec:
        remedy = "add prices: hier2021, or your own list"
        if self.prices is None:
            if self.budget.usd is not None:
                raise validation_error(
                    "`budget.usd` needs `prices`", code=Code.MISSING_KEY, at=("budget", "usd"), help=remedy
                )
            if self.objective != "time":
                raise validation_error(
                    f"`objective: {self.objective}` needs `prices`",
                    code=Code.MISSING_KEY,
                    at=("objective",),
                    help=remedy,
                )
            if self.npu_usd:
                raise validation_error(
                    "`npu_usd` needs `prices`",
                    code=Code.MISSING_KEY,
                    at=("npu_usd",),
                    help=f"{remedy}; or remove `npu_usd`",
                )
        if self.objective != "pareto" and "points" in self.model_fields_set:
            raise validation_error(
                "`points` needs `objective: pareto`",
                at=("points",),
                found=f"objective: {self.objective}",
                help="remove `points`, or set `objective: pareto`",
            )
        bounded = any(each.min is not None or each.fixed is not None for each in self.bandwidth.values())
        if self.objective == "performance_per_cost" and not self.npu_usd and not bounded:
            raise validation_error(
                "if only the network has a price, the slowest network has the most performance per cost",
                code=Code.MISSING_KEY,
                at=("objective",),
                help="add `npu_usd`, the price of an NPU, or lower bounds in `bandwidth`",
            )
        return self
