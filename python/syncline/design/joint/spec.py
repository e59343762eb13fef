"""The schema of the spec of a search for strategy and topology."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from syncline import _core
from syncline.codes import Code
from syncline.config.prices import Prices
from syncline.config.workload import ModuleInput
from syncline.input.base import Strict, validation_error
from syncline.input.units import Rate, Time

Count = Annotated[int, Field(ge=1, le=2**20)]
MAX_SERVERS = 1024
"""Maximum number of servers of a search: it stores a route between any two."""


class Module(Strict):
    """A PyTorch module as a model."""

    factory: Annotated[str, Field(min_length=1)]
    """A function or class that returns the module, such as `models.vision:resnet50` (Python module, colon, name), or a
    pair of the module and its example inputs."""
    arguments: dict[str, Any] = {}
    """Keyword arguments of the factory."""
    inputs: Annotated[list[ModuleInput], Field(min_length=1)] | None = None
    """Tensors that the module takes, in order. Without it, those that the factory returns."""
    costs: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = {}
    """FLOP per element of the result, for operators that syncline does not know, such as `_fft_r2c: 20`."""
    build: Literal["meta", "real"] = "meta"
    """How the factory makes its tensors: `meta`, without values or memory; `real`, with values, if it needs them."""


class Server(Strict):
    """A server."""

    accelerator: Annotated[str, Field(min_length=1)] = "A100-SXM4-40GB"
    """Name of the accelerators, whose peak rates give the time of operators."""
    accelerators: Annotated[int, Field(ge=1, le=64)] = 4
    """Number of accelerators, which share the samples of an operator's part evenly."""
    rate: Rate | None = None
    """Rate of an accelerator to the others of its server. Without it, that of the accelerator's own links."""
    efficiency: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0
    """Fraction of the peak rate that operators reach."""
    limit_memory: bool = False
    """Whether strategies must fit into the accelerators' memory."""


class Search(Strict):
    """How to search."""

    method: Literal["chains", "greedy", "exhaustive"] = "chains"
    """`chains`: Markov chains, which change the strategy and the topology in turn. `greedy`: operator by operator, on
    the topology for data parallelism. `exhaustive`: all strategies, on that topology; for few operators and servers."""
    proposals: Annotated[int, Field(ge=1, le=10**8)] = 4000
    """Proposals of each chain."""
    chains: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of chains, each with its own random numbers."""
    seed: Annotated[int, Field(ge=0, le=2**64 - 1)] = 0
    """Seed of the random numbers."""
    temperature: Time | None = None
    """Temperature: a proposal that lengthens the step by this much is accepted with probability 1/e. Without it, the
    temperature falls from 10 % to 0.05 % of the first step."""
    patience: Annotated[int, Field(ge=1, le=10**8)] = 50
    """Proposals without an improvement after which a new topology is chosen."""
    rounds: Annotated[int, Field(ge=0, le=10**8)] | None = None
    """Maximum number of times that one chain chooses a topology. Without it, unlimited."""
    rings: Literal["hops", "direct"] = "hops"
    """How direct links are chosen. `hops`: rings for which transfers take few links, and of several divisions of the
    interfaces the one with the shortest step. `direct`: as in the paper, rings for which most bytes of transfers have a
    link of their own, and interfaces divided by bytes alone."""
    all_reduce: Literal["rings", "double_binary_trees"] = "rings"
    """Links that all-reduces get: rings in several orders; or pairs of binary trees, which take four interfaces each,
    move 32 chunks, and have less latency among many servers. A group with fewer interfaces left gets rings."""
    rerank: Literal["none", "flow", "packet"] = "none"
    """Network model with which up to four of the best answers are simulated; the one with the shortest simulated step
    wins. `none`: the answer with the shortest predicted step wins."""


class Reconfiguration(Strict):
    """How fast optical circuits change, for `reconfigured` in `compare`."""

    switch: Literal["patch_panel", "mems_3d", "mems_2d", "silicon_photonics", "tunable_lasers", "rotornet"] = "mems_3d"
    """The optical switch, which says how long all transfers pause while circuits change (topoopt2022 Table 1)."""
    pause: Time | None = None
    """The pause, in place of the switch's."""
    period: Time | None = None
    """Time from one measurement of the demand to the next. Without it, five pauses, as in the paper (50 ms)."""


BaselineName = Literal["ideal", "same_price", "oversubscribed", "expander", "reconfigured", "sip_ml"]


class Joint(Strict):
    """A search for a parallelisation strategy and a topology of direct links."""

    schema_: Annotated[Literal["syncline-joint/1"], Field(alias="schema")] = "syncline-joint/1"
    """Version of the schema."""
    name: str = ""
    """Name of the search. Without it, that of the model."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """The model: `dlrm`, `candle`, `bert`, `ncf`, `vgg16`, `resnet50`, another model of `syncline show`, or the path of
    a `config.json` of Hugging Face."""
    module: Module | None = None
    """A PyTorch module, in place of `model`."""
    parameters: dict[str, Any] = {}
    """Parameters of the model, such as `{ tables: 16, batch: 256 }`. `batch` is the samples of an accelerator. A module
    has only `batch`: without it, 32 if `inputs` are given, else the batch of the factory's inputs."""
    servers: Annotated[int, Field(ge=2, le=MAX_SERVERS)]
    """Number of servers."""
    degree: Annotated[int, Field(ge=1, le=64)]
    """Interfaces of a server."""
    link: Rate
    """Rate of an interface."""
    latency: Time = "1us"
    """Latency of a link."""
    server: Server = Server()
    """Accelerators, rates and memory of a server."""
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    """Precision of training."""
    optimizer: Literal["sgd", "adam", "none"] = "sgd"
    """The optimizer, which determines the memory for its states and the time of updates."""
    split_parameters: bool = False
    """Whether operators may also be split by parameters, and not only by samples."""
    measured: str | None = None
    """Path of a table of measured times, as FlexFlow's profiler writes it. Without it, times follow from peak rates."""
    interpolate: bool = True
    """With `measured`: whether sizes that were not measured are interpolated."""
    search: Search = Search()
    """How to search."""
    compare: list[BaselineName] = ["ideal", "same_price"]
    """Networks to compare with. In `ideal`, `same_price` and `oversubscribed`, each server has one interface; in the
    others, `degree` direct ones. `ideal`: a switch whose ports have `degree` times the rate of a link. `same_price`: a
    fat-tree for the price of the direct links. `oversubscribed`: leaf switches whose uplinks have half the rate of
    their hosts. `expander`: a random graph of direct links. `reconfigured`: direct circuits that change during the
    step, as `reconfiguration` says. `sip_ml`: the same with a pause of 25 us, and all interfaces for the largest
    demand."""
    reconfiguration: Reconfiguration = Reconfiguration()
    """How fast the circuits of `reconfigured` change."""
    prices: Any = None
    """Prices of network parts, as in a scenario. `direct` says how servers are joined; an expander always has cables.
    Without it, the prices of topoopt2022, with patch panels whose second set of ports is prepared for the next job."""

    @model_validator(mode="after")
    def _possible(self) -> Joint:
        if self.model is None and self.module is None:
            help = "add `model`, such as `model: dlrm`, or `module` for a PyTorch module"
            raise validation_error("missing key `model`", code=Code.MISSING_KEY, help=help)
        if self.model is not None and self.module is not None:
            raise validation_error(
                "`model` and `module` both give the model", at=("module",), help="remove one of them"
            )
        if self.degree >= self.servers:
            raise validation_error(
                "a server has more interfaces than there are other servers",
                at=("degree",),
                found=str(self.degree),
                allowed=f"1 to {self.servers - 1}",
                help=f"take a degree of {self.servers - 1} or less, or more servers",
            )
        if self.search.all_reduce == "double_binary_trees" and self.degree < _core.tree_interfaces():
            raise validation_error(
                "double binary trees need more interfaces than a server has",
                at=("search", "all_reduce"),
                found=f"degree {self.degree}",
                allowed=f"a degree of at least {_core.tree_interfaces()}",
                help="take `rings`, or a higher degree",
            )
        if _core.parse_quantity("rate", self.link) == 0:
            raise validation_error("links need a rate above 0", at=("link",), found=self.link)
        return self


class Priced(Strict):
    """The section `prices` of a spec, which has the form of a scenario's."""

    prices: Prices
    """What networks cost."""
