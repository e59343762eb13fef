"""Families of fabrics that the core builds from a few numbers, as a user writes them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from syncline.config.base import Strict, either, wrong
from syncline.config.problem import shown
from syncline.config.quantity import Rate, Time

Count = Annotated[int, Field(ge=1, le=2**32 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**63)]
Efficiency = Annotated[float, Field(gt=0, le=1)]

MAX_DIMENSIONS = 16
"""Dimensions of a grid."""


def check_grid(text: str) -> str:
    """Refuses what is not sizes joined by ``x``."""
    parts = text.strip().lower().split("x")
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 11 and int(part) for part in parts):
        raise wrong("not sizes above zero joined by `x`", found=shown(text), help="write it like 4x4x4")
    if len(parts) > MAX_DIMENSIONS:
        raise wrong("too many dimensions", found=str(len(parts)), allowed=f"at most {MAX_DIMENSIONS}")
    if any(int(part) >= 2**32 for part in parts):
        raise wrong("a size is too large", found=shown(text), allowed="below 2^32")
    return text.strip().lower()


Grid = Annotated[str, AfterValidator(check_grid)]


class Wired(Strict):
    """What all families say of their links."""

    rate: Rate
    """Rate of a link."""
    latency: Time = "0s"
    """Latency of a link."""
    efficiency: Efficiency = 1.0
    """Payload over all bits on a link, above 0 to 1."""


class FatTree(Wired):
    """The k-ary fat-tree: three levels of switches with k ports, k^3/4 hosts."""

    k: Count
    """Ports of a switch; even."""
    oversubscription: Count = 1
    """Rate of a switch's links to hosts over that of its uplinks, by fewer uplinks; a divisor of k/2."""
    uplink_rate: Rate | None = None
    """Rate of links between switches, where it is another."""
    uplink_latency: Time | None = None
    """Latency of links between switches, where it is another."""
    uplink_efficiency: Efficiency | None = None
    """Efficiency of links between switches, where it is another."""


class LeafSpine(Wired):
    """Leaf and spine switches; with pods, cores above them."""

    leaves: Count
    """Leaves of a pod."""
    hosts_per_leaf: Count
    """Hosts on each leaf."""
    spines: Annotated[int, Field(ge=0, le=2**32 - 1)]
    """Spines of a pod, each joined to every leaf of it. 0 for one leaf alone, or for rails whose nodes `forward`."""
    pods: Count = 1
    """Pods."""
    cores: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Cores that join several pods, each to one spine of each pod; a multiple of `spines`."""
    cables: Count = 1
    """Parallel cables between a leaf and a spine."""
    uplink_rate: Rate | None = None
    """Rate of links between leaves and spines, where it is another."""
    uplink_latency: Time | None = None
    """Latency of links between leaves and spines, where it is another."""
    uplink_efficiency: Efficiency | None = None
    """Efficiency of links between leaves and spines, where it is another."""
    core_rate: Rate | None = None
    """Rate of links between spines and cores, where it is not that of the uplinks."""
    core_latency: Time | None = None
    """Latency of links between spines and cores, where it is not that of the uplinks."""
    core_efficiency: Efficiency | None = None
    """Efficiency of links between spines and cores, where it is not that of the uplinks."""


class Dragonfly(Wired):
    """Groups of routers, joined with each other within a group, and groups with each other."""

    p: Count
    """Hosts of a router."""
    a: Count
    """Routers of a group."""
    h: Annotated[int, Field(ge=0, le=2**32 - 1)]
    """Links of a router to other groups."""
    groups: Count | None = None
    """Groups, at most a * h + 1, which it is unless said otherwise."""
    local_rate: Rate | None = None
    """Rate of links within a group, where it is another."""
    local_latency: Time | None = None
    """Latency of links within a group, where it is another."""
    local_efficiency: Efficiency | None = None
    """Efficiency of links within a group, where it is another."""
    global_rate: Rate | None = None
    """Rate of links between groups, where it is another."""
    global_latency: Time | None = None
    """Latency of links between groups, where it is another."""
    global_efficiency: Efficiency | None = None
    """Efficiency of links between groups, where it is another."""


class Expander(Wired):
    """A random regular graph of switches with hosts, or of hosts."""

    degree: Count
    """Links of a switch to other switches, or of a host."""
    switches: Count | None = None
    """Switches."""
    hosts_per_switch: Count | None = None
    """Hosts on each switch."""
    hosts: Count | None = None
    """Hosts that are joined with each other, in place of switches."""
    seed: Seed | None = None
    """Which graph is drawn. Without it, the scenario's `seed` says."""
    uplink_rate: Rate | None = None
    """Rate of links between switches, where it is another."""
    uplink_latency: Time | None = None
    """Latency of links between switches, where it is another."""
    uplink_efficiency: Efficiency | None = None
    """Efficiency of links between switches, where it is another."""

    @model_validator(mode="after")
    def _consistent(self) -> Expander:
        if self.hosts is not None and (self.switches is not None or self.hosts_per_switch is not None):
            raise wrong(
                "an expander is one of switches, or one of hosts",
                help="give `switches` and `hosts_per_switch`, or `hosts` alone",
            )
        if self.hosts is None:
            for key in ("switches", "hosts_per_switch"):
                if getattr(self, key) is None:
                    raise wrong(
                        f"missing key `{key}`",
                        code="SL0103",
                        help="give `switches` and `hosts_per_switch`, or `hosts` for a graph of hosts",
                    )
        return self


class UniformTorus(Wired):
    """A torus of any number of dimensions, all with the same links."""

    sizes: Grid
    """Hosts along each dimension, lowest first: `4x4x4`. The dimensions are called `dim1`, `dim2` and so on."""


class Mesh(Wired):
    """A mesh of any number of dimensions: a torus without wrap-around."""

    sizes: Grid
    """Hosts along each dimension, lowest first: `4x4`."""
    cables: Count = 1
    """Parallel cables between neighbours."""


class Hypercube(Wired):
    """Two hosts along each of several dimensions."""

    dimensions: Annotated[int, Field(ge=1, le=24)]
    """How many dimensions: 2^dimensions hosts."""


class OneSwitch(Wired):
    """One abstract switch that joins all hosts."""

    hosts: Count
    """Hosts."""


class Nodes(Strict):
    """Nodes of several NPUs, whose network cards are the hosts of the network."""

    npus: Count
    """NPUs of a node."""
    switches: Count = 1
    """Switches inside, each joined to every NPU of the node. Flows are hashed over them; one switch with the sum of
    their rates is what NPUs see that spread every transfer over all."""
    rate: Rate | None = None
    """Rate of a link between an NPU and a switch of its node. Exactly one of this and `rate_per_npu`."""
    rate_per_npu: Rate | None = None
    """What an NPU sends to all switches of its node together."""
    latency: Time = "0s"
    """Latency of such a link."""
    efficiency: Efficiency = 1.0
    """Payload over all bits on such a link, above 0 to 1."""
    nics: Count | None = None
    """Network cards of a node, a divisor or a multiple of `npus`; one for each NPU unless said otherwise."""
    pcie_rate: Rate | None = None
    """Rate of the link between an NPU and a card. Needed where NPUs share cards; where given, cards are vertices."""
    pcie_latency: Time | None = None
    """Latency of such a link."""
    pcie_efficiency: Efficiency | None = None
    """Payload over all bits on such a link, above 0 to 1; without it, 1."""
    rails: bool = False
    """Rail-optimised: card i of each node is on leaf i of its group of leaves, as many as a node has cards."""
    forward: bool = False
    """Whether NPUs pass on what is for others, as NCCL's PXN does."""

    @model_validator(mode="after")
    def _consistent(self) -> Nodes:
        if self.rate is None and self.rate_per_npu is None:
            raise wrong("missing key `rate`", code="SL0103", help="give either `rate` or `rate_per_npu`")
        if self.rate is not None and self.rate_per_npu is not None:
            raise wrong(
                "both `rate` and `rate_per_npu` are given", help="keep one: the rate of a link, or an NPU's total"
            )
        return self


class Ecmp(Strict):
    """Equal-cost multi-path: each vertex chooses among the next hops of shortest paths by a hash of the flow."""

    policy: Literal["ecmp"]
    """The policy's name."""
    seed: Seed | None = None
    """What hashes begin with: another seed, other paths. Without it, the scenario's `seed`."""


Vertex = Annotated[
    str | Annotated[int, Field(ge=0, le=2**32 - 1)], either("a vertex's number, or its name such as npu0 or switch0")
]


def routing_form(value: Any) -> str | None:
    """Which form a value of ``routing`` has."""
    if isinstance(value, str):
        return "word"
    return "policy" if isinstance(value, dict | Ecmp) else "paths" if isinstance(value, list) else None


BuiltRouting = Annotated[
    Annotated[Literal["shortest", "ecmp", "dimension_order"], Tag("word")]
    | Annotated[Ecmp, Tag("policy")]
    | Annotated[list[list[Vertex]], Tag("paths")],
    Discriminator(routing_form),
]
"""How paths are found: a policy by its name or with its seed, or a list of paths."""


class BuiltFabric(Strict):
    """A family of fabrics, by its numbers: exactly one of the families, and perhaps nodes and routes."""

    FAMILIES: ClassVar = ("fat_tree", "leaf_spine", "dragonfly", "expander", "torus", "mesh", "hypercube", "switch")
    """Keys of which exactly one is given."""

    fat_tree: FatTree | None = None
    """A k-ary fat-tree."""
    leaf_spine: LeafSpine | None = None
    """Leaf and spine switches, in two or three levels."""
    dragonfly: Dragonfly | None = None
    """A dragonfly."""
    expander: Expander | None = None
    """A random regular graph."""
    torus: UniformTorus | None = None
    """A torus with equal links in all dimensions."""
    mesh: Mesh | None = None
    """A mesh."""
    hypercube: Hypercube | None = None
    """A hypercube."""
    switch: OneSwitch | None = None
    """One switch."""
    nodes: Nodes | None = None
    """What the hosts are, where they are no single NPUs."""
    routing: BuiltRouting | None = None
    """How paths are found: `ecmp`, but dimension by dimension on a mesh. As for a fabric given link by link; vertices
    of given paths have the names that `show fabric` lists."""

    @model_validator(mode="after")
    def _one(self) -> BuiltFabric:
        given = [name for name in self.FAMILIES if getattr(self, name) is not None]
        if len(given) != 1:
            raise wrong(
                f"{len(given)} families are given" if given else "no family is given",
                found=", ".join(given) or None,
                help=f"a fabric is of one family: {', '.join(self.FAMILIES)}",
            )
        return self
