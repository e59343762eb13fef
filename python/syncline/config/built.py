"""The schema of fabric families, which the core builds from a few numbers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from syncline.codes import Code
from syncline.input.base import Strict, either, validation_error
from syncline.input.problem import shown
from syncline.input.units import Rate, Time

Count = Annotated[int, Field(ge=1, le=2**32 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**63)]
Efficiency = Annotated[float, Field(gt=0, le=1)]

MAX_DIMENSIONS = 16
"""Maximum number of dimensions of a grid."""


def check_grid(text: str) -> str:
    """Raises an error unless ``text`` is sizes joined by ``x``; returns it in lower case."""
    parts = text.strip().lower().split("x")
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 11 and int(part) for part in parts):
        raise validation_error("must be sizes above zero joined by `x`", found=shown(text), help="write it like 4x4x4")
    if len(parts) > MAX_DIMENSIONS:
        raise validation_error("too many dimensions", found=str(len(parts)), allowed=f"at most {MAX_DIMENSIONS}")
    if any(int(part) >= 2**32 for part in parts):
        raise validation_error("a size is too large", found=shown(text), allowed="below 2^32")
    return text.strip().lower()


Grid = Annotated[str, AfterValidator(check_grid)]


def one_rate(rate: object, rate_per_npu: object) -> None:
    """Raises an error unless exactly one of the rates is given."""
    if rate is None and rate_per_npu is None:
        raise validation_error("missing key `rate`", code=Code.MISSING_KEY, help="give either `rate` or `rate_per_npu`")
    if rate is not None and rate_per_npu is not None:
        raise validation_error(
            "both `rate` and `rate_per_npu` are given", help="keep one: the rate of a link, or an NPU's total"
        )


class FamilyLinks(Strict):
    """Properties of links that every family has."""

    rate: Rate
    """Rate of a link."""
    latency: Time = "0s"
    """Latency of a link."""
    efficiency: Efficiency = 1.0
    """Fraction of the bits on a link that is payload, above 0 to 1."""


class FatTree(FamilyLinks):
    """The k-ary fat-tree: three levels of switches with k ports, k^3/4 hosts."""

    k: Count
    """Ports of a switch; even."""
    oversubscription: Count = 1
    """Total rate of a switch's links to hosts, divided by that of its uplinks: there are fewer uplinks. A divisor of
    k/2."""
    uplink_rate: Rate | None = None
    """Rate of links between switches. Without it, `rate`."""
    uplink_latency: Time | None = None
    """Latency of links between switches. Without it, `latency`."""
    uplink_efficiency: Efficiency | None = None
    """Efficiency of links between switches. Without it, `efficiency`."""


class LeafSpine(FamilyLinks):
    """Leaf and spine switches; several pods are joined by core switches above the spines."""

    leaves: Count
    """Leaves of a pod."""
    hosts_per_leaf: Count
    """Hosts on each leaf."""
    spines: Annotated[int, Field(ge=0, le=2**32 - 1)]
    """Spines of a pod, each joined to every leaf of it. 0 for a single leaf, or for rails whose nodes `forward`."""
    pods: Count = 1
    """Pods."""
    cores: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Core switches that join the pods; each is linked to one spine of each pod. A multiple of `spines`."""
    cables: Count = 1
    """Parallel cables between a leaf and a spine."""
    uplink_rate: Rate | None = None
    """Rate of links between leaves and spines. Without it, `rate`."""
    uplink_latency: Time | None = None
    """Latency of links between leaves and spines. Without it, `latency`."""
    uplink_efficiency: Efficiency | None = None
    """Efficiency of links between leaves and spines. Without it, `efficiency`."""
    core_rate: Rate | None = None
    """Rate of links between spines and cores. Without it, that of the uplinks."""
    core_latency: Time | None = None
    """Latency of links between spines and cores. Without it, that of the uplinks."""
    core_efficiency: Efficiency | None = None
    """Efficiency of links between spines and cores. Without it, that of the uplinks."""


class Dragonfly(FamilyLinks):
    """Groups of routers: the routers of a group are joined with each other, and so are the groups."""

    p: Count
    """Hosts of a router."""
    a: Count
    """Routers of a group."""
    h: Annotated[int, Field(ge=0, le=2**32 - 1)]
    """Links of a router to other groups."""
    groups: Count | None = None
    """Groups, at most a * h + 1. Without it, a * h + 1."""
    local_rate: Rate | None = None
    """Rate of links within a group. Without it, `rate`."""
    local_latency: Time | None = None
    """Latency of links within a group. Without it, `latency`."""
    local_efficiency: Efficiency | None = None
    """Efficiency of links within a group. Without it, `efficiency`."""
    global_rate: Rate | None = None
    """Rate of links between groups. Without it, `rate`."""
    global_latency: Time | None = None
    """Latency of links between groups. Without it, `latency`."""
    global_efficiency: Efficiency | None = None
    """Efficiency of links between groups. Without it, `efficiency`."""


class Expander(FamilyLinks):
    """A random regular graph: of switches, each with hosts, or of hosts directly."""

    degree: Count
    """Links of a switch to other switches, or of a host."""
    switches: Count | None = None
    """Switches in the graph."""
    hosts_per_switch: Count | None = None
    """Hosts on each switch."""
    hosts: Count | None = None
    """Hosts in a graph without switches, whose hosts are joined directly. In place of `switches`."""
    seed: Seed | None = None
    """Seed from which the graph is drawn. Without it, the scenario's `seed`."""
    uplink_rate: Rate | None = None
    """Rate of links between switches. Without it, `rate`."""
    uplink_latency: Time | None = None
    """Latency of links between switches. Without it, `latency`."""
    uplink_efficiency: Efficiency | None = None
    """Efficiency of links between switches. Without it, `efficiency`."""

    @model_validator(mode="after")
    def _consistent(self) -> Expander:
        if self.hosts is not None and (self.switches is not None or self.hosts_per_switch is not None):
            raise validation_error(
                "an expander has either switches or hosts as its vertices, not both",
                help="give either `switches` and `hosts_per_switch`, or `hosts`",
            )
        if self.hosts is None:
            for key in ("switches", "hosts_per_switch"):
                if getattr(self, key) is None:
                    raise validation_error(
                        f"missing key `{key}`",
                        code=Code.MISSING_KEY,
                        help="give `switches` and `hosts_per_switch`, or `hosts` for a graph of hosts",
                    )
        return self


class UniformTorus(FamilyLinks):
    """A torus of any number of dimensions, all with the same links."""

    sizes: Grid
    """Hosts along each dimension, lowest first: `4x4x4`. The dimensions are called `dim1`, `dim2` and so on."""


class Mesh(FamilyLinks):
    """A mesh of any number of dimensions: a torus without wrap-around."""

    sizes: Grid
    """Hosts along each dimension, lowest first: `4x4`."""
    cables: Count = 1
    """Parallel cables between neighbours."""


class Hypercube(FamilyLinks):
    """Two hosts along each of several dimensions."""

    dimensions: Annotated[int, Field(ge=1, le=24)]
    """Number of dimensions; there are 2^dimensions hosts."""


class OneSwitch(FamilyLinks):
    """One abstract switch that joins all hosts."""

    hosts: Count
    """Hosts."""


class Nodes(Strict):
    """Nodes of several NPUs. Their network cards are the hosts of the network."""

    npus: Count
    """NPUs of a node."""
    switches: Count = 1
    """Switches inside a node, each joined to every NPU of the node. Flows are hashed over them. If NPUs spread every
    transfer over all switches instead, give one switch with the sum of their rates."""
    rate: Rate | None = None
    """Rate of a link between an NPU and a switch of its node. Exactly one of this and `rate_per_npu`."""
    rate_per_npu: Rate | None = None
    """Total rate of an NPU's links to the switches of its node."""
    latency: Time = "0s"
    """Latency of a link between an NPU and a switch of its node."""
    efficiency: Efficiency = 1.0
    """Fraction of the bits on such a link that is payload, above 0 to 1."""
    nics: Count | None = None
    """Network cards of a node, a divisor or a multiple of `npus`. Without it, one for each NPU."""
    pcie_rate: Rate | None = None
    """Rate of the link between an NPU and a card. Required if NPUs share cards. If given, cards are vertices of the
    network."""
    pcie_latency: Time | None = None
    """Latency of the link between an NPU and a card."""
    pcie_efficiency: Efficiency | None = None
    """Fraction of the bits on such a link that is payload, above 0 to 1. Without it, 1."""
    rails: bool = False
    """Whether the network is rail-optimised: a group of leaves has as many leaves as a node has cards, and card i of
    each node is on leaf i of its group."""
    forward: bool = False
    """Whether NPUs forward messages for other NPUs, as NCCL's PXN does."""

    @model_validator(mode="after")
    def _consistent(self) -> Nodes:
        one_rate(self.rate, self.rate_per_npu)
        return self


class Ecmp(Strict):
    """Equal-cost multi-path: each vertex chooses among the next hops of shortest paths by a hash of the flow."""

    policy: Literal["ecmp"]
    """The policy's name."""
    seed: Seed | None = None
    """Seed of the hash: another seed gives other paths. Without it, the scenario's `seed`."""


Vertex = Annotated[
    str | Annotated[int, Field(ge=0, le=2**32 - 1)], either("a vertex's number, or its name such as npu0 or switch0")
]


def routing_form(value: Any) -> str | None:
    """The tag of the form that a value of ``routing`` has."""
    if isinstance(value, str):
        return "word"
    return "policy" if isinstance(value, dict | Ecmp) else "paths" if isinstance(value, list) else None


BuiltRouting = Annotated[
    Annotated[Literal["shortest", "ecmp", "dimension_order"], Tag("word")]
    | Annotated[Ecmp, Tag("policy")]
    | Annotated[list[list[Vertex]], Tag("paths")],
    Discriminator(routing_form),
]
"""How messages are routed: a policy by its name or with its seed, or a list of paths."""


class BuiltFabric(Strict):
    """A fabric of one family, given by its numbers: exactly one of the families, and optionally nodes and routing."""

    FAMILIES: ClassVar = ("fat_tree", "leaf_spine", "dragonfly", "expander", "torus", "mesh", "hypercube", "switch")
    """Keys of the families; a fabric has exactly one of them."""

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
    """The nodes that hold the hosts, if a node has several NPUs. Without it, each host is an NPU."""
    routing: BuiltRouting | None = None
    """How messages are routed, as for a fabric given link by link; paths name vertices as `show fabric` lists them.
    Without it, `ecmp`, but `dimension_order` on a mesh."""

    @model_validator(mode="after")
    def _one(self) -> BuiltFabric:
        given = [name for name in self.FAMILIES if getattr(self, name) is not None]
        if len(given) != 1:
            raise validation_error(
                f"{len(given)} families are given" if given else "no family is given",
                found=", ".join(given) or None,
                help=f"a fabric is of one family: {', '.join(self.FAMILIES)}",
            )
        return self
