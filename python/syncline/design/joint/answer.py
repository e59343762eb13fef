"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from syncline.design.joint.baselines import Baseline
    from syncline.design.joint.request import JointRequest
    from syncline.result import Result


class Placement(NamedTuple):
    """How an operator is split, and where its parts are."""

    choice: int
    """Number of the split, among the choices of the operator in the request's graph."""
    servers: tuple[int, ...]
    """The server of each part."""


class Links(NamedTuple):
    """Parallel links from one server to another."""

    sender: int
    receiver: int
    parallel: int
    """Number of these links."""


Pattern = Literal["rings", "double_binary_trees"]
"""How an all-reduce uses links: in rings of several orders, or in pairs of binary trees."""


class GroupLinks(NamedTuple):
    """Links of its own that a group has for its all-reduces."""

    members: tuple[int, ...]
    """The servers of the group, in order."""
    pattern: Pattern
    """How all-reduces use the links."""
    strides: tuple[int, ...]
    """For each ring, how many places after the sender its receiver is; for each pair of trees, what the places of
    members are multiplied by."""
    links: tuple[tuple[tuple[int, int], ...], ...]
    """For each stride, senders and receivers."""


@dataclass(frozen=True)
class Topology:
    """Direct links between servers."""

    links: tuple[Links, ...]
    ring_degree: int
    """Interfaces of a server that serve all-reduces."""
    groups: tuple[GroupLinks, ...]
    matched: tuple[tuple[int, int], ...]
    """Pairs of servers that were joined for transfers."""
    diameter: int
    """Links of the longest route."""
    routes: tuple[tuple[int, ...], ...]
    """The servers on each route over more than one link, if anything uses it."""


@dataclass(frozen=True)
class AllReduce:
    """An all-reduce of a step, which may take place several times."""

    group: str
    """Name of its group in the simulation."""
    members: tuple[int, ...]
    """The servers of the group, in order."""
    bytes: int
    """Size of one all-reduce."""
    count: int
    """Number of all-reduces of this group and size in a step."""
    pattern: Pattern
    """How it uses links."""
    strides: tuple[int, ...]
    """The strides of its rings, or pairs of trees; empty if it has no links of its own."""
    links: tuple[tuple[int, int], ...]
    """Senders and receivers, once for each ring or tree; each sends the same."""

    @property
    def algorithm(self) -> str:
        """Its algorithm, as in a scenario."""
        strides = "+".join(map(str, self.strides or (1,)))
        return f"multi_ring(strides={strides})" if self.pattern == "rings" else f"double_binary_tree(strides={strides})"

    @property
    def sent_bytes(self) -> int:
        """Bytes that all servers send together in a step, by rings as by trees."""
        return 2 * (len(self.members) - 1) * self.bytes * self.count


@dataclass(frozen=True)
class Answer:
    """The result of a search on one network."""

    strategy: tuple[Placement, ...]
    """The placement of each operator, in the order of the request's graph."""
    step_s: float
    """Seconds of a step."""
    start_s: float | None
    """Seconds of a step of the strategy from which the search started; None on circuits that change, on which nothing
    is searched."""
    data_parallel_fits: bool
    """Whether that is data parallelism, because it fits into the memory of servers."""
    trace: tuple[tuple[int, float], ...]
    """Best seconds so far, with the number of proposals before it."""
    proposals: int
    """Proposals over all chains."""
    accepted: int
    """Accepted ones."""
    topologies: int
    """Topologies that were tried."""
    topology: Topology | None
    """The topology; None on a given network."""
    transfers: tuple[tuple[int, int, int], ...]
    """Sender, receiver and bytes outside all-reduces."""
    all_reduces: tuple[AllReduce, ...]
    """The all-reduces of a step."""
    chunks: int
    """Number of chunks into which all-reduces are cut, as the search counts them: more than one if any moves through
    trees."""
    memory_bytes: int
    """Largest memory of an accelerator."""
    runners_up: tuple[Answer, ...] = ()
    """What other chains found, the shortest predicted step first."""


@dataclass(frozen=True)
class BaselineResult:
    """The best strategy on another network."""

    baseline: Baseline
    answer: Answer


class Reranked(NamedTuple):
    """An answer on the direct links, and its simulated time."""

    step_s: float
    """Predicted seconds of a step."""
    simulated_s: float
    """Simulated seconds of a step."""


@dataclass(frozen=True)
class Found:
    """The results of a search."""

    request: JointRequest
    answer: Answer
    """The strategy on the direct links."""
    topology: Topology
    """The direct links."""
    usd: float
    """Price of the direct links."""
    others: tuple[BaselineResult, ...] = ()
    """The networks of the spec's ``compare``, in its order."""
    notes: tuple[str, ...] = ()
    """What the reader should know."""
    reranked: tuple[Reranked, ...] = ()
    """The answers that were simulated to find the fastest, the shortest simulated step first; empty without
    ``rerank``."""
    result: Result | None = None
    """The simulation of the answer; None if it was not simulated."""

    @property
    def start_s(self) -> float:
        """Seconds of a step of the strategy from which the search on direct links started."""
        return self.answer.step_s if self.answer.start_s is None else self.answer.start_s

    @property
    def start_name(self) -> str:
        """What that strategy is."""
        return "data parallelism" if self.answer.data_parallel_fits else "first strategy"

    @property
    def data_parallel_s(self) -> float | None:
        """Seconds of a step of data parallelism on direct links; None if it does not fit into memory."""
        return self.start_s if self.answer.data_parallel_fits else None

    @property
    def simulated_with(self) -> str:
        """The network model with which the answer is simulated."""
        rerank = self.request.spec.search.rerank
        return "flow" if rerank == "none" else rerank

    @property
    def simulated_s(self) -> float | None:
        """Simulated seconds of a step."""
        return None if self.result is None else self.result.summary.total_time_s
