"""What is asked of a search for bandwidths, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from syncline import _core
from syncline.config.base import Strict, either, wrong
from syncline.config.fabric import Efficiencies, Times
from syncline.config.quantity import Rate
from syncline.config.shape import check_shape

Shape = Annotated[str, AfterValidator(check_shape)]
Kind = Literal["ring", "fully_connected", "switch"]

MOST_CANDIDATES = 20_000
"""Most shapes that a search looks at."""


class Shapes(Strict):
    """The shape of the fabric, or several to choose from. Rates are what is searched for."""

    shape: Annotated[
        Shape | Annotated[list[Shape], Field(min_length=1, max_length=MOST_CANDIDATES)] | None,
        either("a shape such as Ring(8)_Switch(128), or a list of shapes"),
    ] = None
    """Such as `Ring(8)_Switch(128)`, lowest dimension first, or a list of such, all of one number of NPUs.
    Either this or `npus`."""
    npus: Annotated[int, Field(ge=2, le=2**32 - 1)] | None = None
    """Number of NPUs: all shapes of as many are looked at, in which every dimension has two NPUs or more."""
    dims: Annotated[
        Annotated[int, Field(ge=1, le=8)]
        | Annotated[list[Annotated[int, Field(ge=1, le=8)]], Field(min_length=1, max_length=8)],
        either("a number of dimensions, or a list of such"),
    ] = 2
    """With `npus`: how many dimensions, or a list of what may be."""
    kinds: Annotated[
        list[Annotated[Kind | list[Kind], either("ring, fully_connected, switch, or a list of these")]],
        Field(min_length=1, max_length=8),
    ] = ["switch"]
    """With `npus`: what dimensions are, lowest first; the last one stands for all above. A list in place of a word:
    each of them is tried."""
    names: list[Annotated[str, Field(min_length=1)]] | None = None
    """Names of the dimensions, lowest first, in place of `dim1`, `dim2` and so on."""
    latency: Times = "0s"
    """Latency of a link; one for all dimensions, or a list with one for each."""
    efficiency: Efficiencies = 1.0
    """Payload over all bits on the wire; one for all dimensions, or a list."""

    @model_validator(mode="after")
    def _one_way(self) -> Shapes:
        if (self.shape is None) == (self.npus is None):
            raise wrong(
                "either `shape` or `npus` says which shapes there are",
                code="SL0103" if self.shape is None else "SL0102",
                help="write shape: Ring(8)_Switch(128), or npus: 1024 and dims: [2, 3]",
            )
        if self.npus is None:
            for key in ("dims", "kinds"):
                if key in self.model_fields_set:
                    raise wrong(f"`{key}` is for `npus`: a shape says it itself", at=(key,), help=f"remove `{key}`")
        for at, name in enumerate(self.names or ()):
            if name == "last":
                raise wrong(
                    "`last` is the highest dimension, whatever its name",
                    at=("names", at),
                    help="give the dimension another name",
                )
            if name in (self.names or ())[:at]:
                raise wrong(
                    "two dimensions have one name", at=("names", at), found=name, help="give each a name of its own"
                )
        return self


Usd = Annotated[float, Field(gt=0, le=1e15, strict=False)]


class Budget(Strict):
    """What there is to spend: bandwidth, money, or both."""

    rate_per_npu: Rate | None = None
    """Sum over all dimensions of what one NPU sends into each."""
    usd: Annotated[Usd | None, either("an amount above 0, in US dollars")] = None
    """Price of the whole fabric, by `prices`."""

    @model_validator(mode="after")
    def _some(self) -> Budget:
        if self.rate_per_npu is None and self.usd is None:
            raise wrong(
                "the budget is empty", code="SL0103", help="give `rate_per_npu`, such as 300GB/s, or `usd`, or both"
            )
        if self.rate_per_npu is not None and _core.parse_quantity("rate", self.rate_per_npu) == 0:
            raise wrong("a budget of nothing", found=self.rate_per_npu, allowed="a rate above 0")
        return self


class Bounds(Strict):
    """What the rate of a dimension must keep to. All are of what one NPU sends into it."""

    min: Rate | None = None
    """It is at least this. Without it, 1 kB/s: the least that a dimension has, even one that carries nothing."""
    max: Rate | None = None
    """It is at most this."""
    fixed: Rate | None = None
    """It is this, in place of `min` and `max`."""

    @model_validator(mode="after")
    def _consistent(self) -> Bounds:
        if self.fixed is not None and (self.min is not None or self.max is not None):
            raise wrong("`fixed` is both `min` and `max`", help="remove `min` and `max`, or `fixed`")
        for key in ("max", "fixed"):
            value = getattr(self, key)
            if value is not None and _core.parse_quantity("rate", value) == 0:
                raise wrong("a dimension needs some bandwidth", found=f"{key}: {value}", allowed="a rate above 0")
        return self


class WeightedJob(Strict):
    """One of several jobs that the fabric is for."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Its name."""
    weight: Annotated[float, Field(gt=0, le=1e9, strict=False)] = 1.0
    """How many of its steps are counted for one of a job of weight 1."""
    workload: Any
    """What it does, as in a scenario."""
    compute: Any = None
    """What turns its work into time; without it, that of all jobs."""


class Spec(Strict):
    """How to spend a bandwidth budget on a fabric for one job or several."""

    schema_: Annotated[Literal["syncline-design/1"], Field(alias="schema")] = "syncline-design/1"
    """Version of this form."""
    name: Annotated[str, Field(max_length=200)] = ""
    """A name for people; results go to a folder of that name. Without it, the file's name is taken."""
    workload: Any = None
    """The job, as in a scenario. Exactly one of this and `jobs`."""
    jobs: Annotated[list[WeightedJob], Field(max_length=64)] = []
    """Several jobs, each of which has the fabric for itself, in place of `workload`."""
    compute: Any = None
    """What turns work into time, as in a scenario."""
    fabric: Shapes
    """The shape of the network, or several to choose from."""
    budget: Budget
    """What there is to spend."""
    bandwidth: dict[str, Bounds] = {}
    """What rates must keep to, by the name of the dimension; `last` is the highest one. Of several shapes, those that
    have the dimension."""
    order: Literal["any", "descending"] = "any"
    """`descending`: no dimension has more than the one below it."""
    objective: Literal["time", "performance_per_cost", "pareto"] = "time"
    """What is best: the shortest time of all jobs' steps, the most steps per second and dollar, or all trade-offs
    between time and the cost of the network. Of these, the winner is the best per dollar where `npu_usd` is given, and
    the fastest where not."""
    points: Annotated[int, Field(ge=2, le=200)] = 16
    """With `pareto`: how many budgets are tried."""
    prices: Any = None
    """What parts cost, as in a scenario."""
    npu_usd: Annotated[float, Field(ge=0, le=1e9, strict=False)] = 0.0
    """What an NPU costs, with its part of a host: performance per cost counts it besides the network."""
    collectives: Any = None
    """How collectives are carried out, as in a scenario."""
    network: Any = None
    """The network model that simulates what was found, as in a scenario."""
    simulate: Annotated[int, Field(ge=1, le=1000)] = 3
    """Of several shapes, how many of the best are simulated; and how many points of `pareto`."""

    @model_validator(mode="after")
    def _some_job(self) -> Spec:
        if self.workload is None and not self.jobs:
            raise wrong(
                "missing key `workload`", code="SL0103", at=("workload",), help="add `workload`, or several `jobs`"
            )
        if self.workload is not None and self.jobs:
            raise wrong(
                "both `workload` and `jobs` are given", at=("jobs",), help="one job is a `workload`; several are `jobs`"
            )
        names = [job.name for job in self.jobs]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise wrong(
                    "two jobs have one name", at=("jobs", at, "name"), found=name, help="give each a name of its own"
                )
        return self

    @model_validator(mode="after")
    def _priced(self) -> Spec:
        remedy = "add prices: hier2021, or a list of yours"
        if self.prices is None:
            if self.budget.usd is not None:
                raise wrong("`budget.usd` needs `prices`", code="SL0103", at=("budget", "usd"), help=remedy)
            if self.objective != "time":
                raise wrong(
                    f"`objective: {self.objective}` needs `prices`", code="SL0103", at=("objective",), help=remedy
                )
            if self.npu_usd:
                raise wrong(
                    "`npu_usd` is counted beside `prices`, and there are none",
                    code="SL0103",
                    at=("npu_usd",),
                    help=f"{remedy}; or remove `npu_usd`",
                )
        if self.objective != "pareto" and "points" in self.model_fields_set:
            raise wrong(
                "`points` is for `objective: pareto`",
                at=("points",),
                found=f"objective: {self.objective}",
                help="remove `points`, or ask for `pareto`",
            )
        bounded = any(each.min is not None or each.fixed is not None for each in self.bandwidth.values())
        if self.objective == "performance_per_cost" and not self.npu_usd and not bounded:
            raise wrong(
                "of the network alone, the slowest one has the most performance per cost",
                code="SL0103",
                at=("objective",),
                help="add `npu_usd`, what an NPU costs, or bounds from below in `bandwidth`",
            )
        return self
