"""The schema of ``fabric``: the network."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from syncline.codes import Code
from syncline.config.built import BuiltFabric, Count, Ecmp, Efficiency, Vertex, one_rate, routing_form
from syncline.config.shape import check_shape, check_sizes
from syncline.input import limits
from syncline.input.base import Strict, either, form, validation_error
from syncline.input.units import Rate, Time

Rates = Annotated[Rate | list[Rate], either('a rate such as "100Gb/s", or a list with one for each dimension')]
Times = Annotated[Time | list[Time], either('a time such as "0.5us", or a list with one for each dimension')]
Efficiencies = Annotated[
    Efficiency | list[Efficiency], either("a fraction above 0 to 1, or a list with one for each dimension")
]


class Dim(Strict):
    """One dimension of a regular fabric."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the dimension, to which parallelism and algorithms refer."""
    shape: Literal["ring", "fully_connected", "switch", "Ring", "FC", "FullyConnected", "Switch"]
    """How the NPUs of the dimension are joined."""
    size: Count
    """Number of NPUs along the dimension."""
    rings: Count | None = None
    """Parallel rings. Only for a ring."""
    links: Count | None = None
    """Parallel links between each pair of NPUs. Only for `fully_connected`."""
    switches: Count | None = None
    """Switches, each joined to every NPU. Only for a switch."""
    direction: Literal["both", "one-way"] = "both"
    """Direction of each ring: `both` makes it a pair of rings, one each way. Other shapes are always full duplex."""
    spread: Literal["lane", "pair"] | None = None
    """How a message chooses among several switches. `lane`: by the chunk's scheduling queue and the distance between
    source and destination. `pair`: (source + destination) mod switches, by coordinates in the dimension. Only for a
    switch. Without it, `lane`."""
    rate: Rate | None = None
    """Rate of one link. Exactly one of this and `rate_per_npu`."""
    rate_per_npu: Rate | None = None
    """Total rate of one NPU's links in this dimension."""
    latency: Time = "0s"
    """Latency of one link."""
    efficiency: Efficiency = 1.0
    """Fraction of the bits on the wire that is payload, above 0 to 1."""
    tier: Annotated[str, Field(min_length=1)] | None = None
    """Name of the dimension in price lists, such as `inter_node`. Without it, its own name."""

    @model_validator(mode="after")
    def _consistent(self) -> Dim:
        one_rate(self.rate, self.rate_per_npu)
        mine = {"r": "rings", "f": "links", "s": "switches"}[self.shape[0].lower()]
        for key in ("rings", "links", "switches"):
            if key != mine and getattr(self, key) is not None:
                raise validation_error(f"a dimension of shape {self.shape} has no `{key}`", allowed=mine)
        if self.spread is not None and mine != "switches":
            help = "leave it out: it chooses among several switches"
            raise validation_error(f"a dimension of shape {self.shape} has no `spread`", help=help)
        return self


class DimsFabric(Strict):
    """A regular fabric, dimension by dimension."""

    dims: Annotated[list[Dim], Field(min_length=1)]
    """Its dimensions, lowest first."""


class ShapeFabric(Strict):
    """A regular fabric by its shape. Other keys hold one value for all dimensions, or a list with one for each."""

    shape: Annotated[str, AfterValidator(check_shape)]
    """Shapes and sizes of the dimensions, lowest first, such as `Ring(4)_FC(2)_Switch(8)`."""
    names: list[str] | None = None
    """Names of the dimensions. Without it, `dim1`, `dim2` and so on."""
    rate: Rates | None = None
    """Rate of one link. Exactly one of this and `rate_per_npu`."""
    rate_per_npu: Rates | None = None
    """Total rate of one NPU's links in the dimension."""
    latency: Times = "0s"
    """Latency of one link."""
    efficiency: Efficiencies = 1.0
    """Fraction of the bits on the wire that is payload, above 0 to 1."""

    @model_validator(mode="after")
    def _consistent(self) -> ShapeFabric:
        one_rate(self.rate, self.rate_per_npu)
        dims = self.shape.count("_") + 1
        for key in ("names", "rate", "rate_per_npu", "latency", "efficiency"):
            value = getattr(self, key)
            if isinstance(value, list) and len(value) != dims:
                raise validation_error(
                    f"`{key}` has {len(value)} entries for {dims} dimensions",
                    code=Code.BAD_FABRIC,
                    help="give one for each",
                )
        return self


class Uplinks(Strict):
    """The links between NPUs and global switches. An NPU has one link to each switch."""

    rate: Rate | None = None
    """Rate of one link. Exactly one of this and `rate_per_npu`."""
    rate_per_npu: Rate | None = None
    """Total rate of one NPU's links in the dimension."""
    latency: Time = "0s"
    """Latency of one link."""
    efficiency: Efficiency = 1.0
    """Fraction of the bits on the wire that is payload, above 0 to 1."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        one_rate(self.rate, self.rate_per_npu)
        return self


class Links(Uplinks):
    """The links of one dimension that is made of rings."""

    rings: Count = 1
    """Parallel rings."""
    direction: Literal["both", "one-way"] | None = None
    """Direction of each ring: `both` makes it a pair of rings, one each way. Without it, local rings run one way and
    the others both ways."""


class TorusFabric(Strict):
    """The hierarchical torus of astra2020 III-C: M NPUs a package, N packages across, K packages down."""

    torus: Annotated[str, AfterValidator(lambda text: check_sizes(text, 3, "2x4x4"))]
    """`MxNxK`: sizes of the dimensions local, horizontal and vertical. The fabric's dimensions are local, vertical and
    horizontal, lowest first; those of size 1 are left out."""
    local: Links | None = None
    """Links within a package. Its rings run one way by default."""
    package: Links | None = None
    """Links between packages, in both dimensions."""
    vertical: Links | None = None
    """Links of the vertical dimension. Without it, `package`."""
    horizontal: Links | None = None
    """Links of the horizontal dimension. Without it, `package`."""


class AllToAllFabric(Strict):
    """The hierarchical alltoall of astra2020 III-C: M NPUs a package, N packages joined by global switches."""

    alltoall: Annotated[str, AfterValidator(lambda text: check_sizes(text, 2, "2x3"))]
    """`MxN`: size of the local dimension and number of packages. The dimensions are local and alltoall, lowest first;
    one of size 1 is left out."""
    switches: Count = 1
    """Global switches, each joined to every NPU."""
    local: Links | None = None
    """Links within a package. Its rings run one way by default."""
    package: Uplinks | None = None
    """Links between an NPU and a switch."""


Vertices = Annotated[
    list[str] | Annotated[int, Field(ge=0, le=limits.MAX_VERTICES)],
    either(f"a number of at most {limits.MAX_VERTICES}, or a list of names"),
]


Routing = Annotated[
    Annotated[Literal["shortest", "ecmp"], Tag("word")]
    | Annotated[Ecmp, Tag("policy")]
    | Annotated[list[list[Vertex]], Tag("paths")],
    Discriminator(routing_form),
]
"""How messages are routed: a policy by its name or with its seed, or a list of paths."""


class Link(Strict):
    """A link of a graph."""

    from_: Annotated[Vertex, Field(alias="from")]
    """The vertex at its sending end: a name, or a number (NPUs first, then switches)."""
    to: Vertex
    """The vertex at its receiving end."""
    rate: Rate
    """Rate of the link, in each direction."""
    latency: Time = "0s"
    """Latency of the link."""
    duplex: bool = True
    """Whether there is an equal link in the opposite direction."""
    count: Annotated[int, Field(ge=1, le=2**16)] = 1
    """Number of such links in parallel."""


class GraphFabric(Strict):
    """Any fabric, link by link."""

    npus: Vertices
    """Number of NPUs, which are then called `npu0`, `npu1` and so on; or a list of their names."""
    switches: Vertices = 0
    """Number of switches, which are then called `switch0`, `switch1` and so on; or a list of their names."""
    links: Annotated[list[Link], Field(min_length=1)]
    """Links of the fabric."""
    routing: Routing = "shortest"
    """How messages are routed. `shortest`: over the fewest links, ties go to the smaller vertex numbers. `ecmp`: over
    the fewest links, ties go by a hash of the flow. Or a list of paths, each a list of vertices from source to
    destination; every other pair takes the shortest path."""
    forward: bool = True
    """Whether NPUs forward messages between others. If not, only paths of `routing` may lead through them."""


class FileFabric(Strict):
    """Any fabric, from an edge list."""

    file: Annotated[str, Field(min_length=1)]
    """Path of a CSV file with the columns `from,to,rate` and optionally `latency` and `duplex`; or of a YAML file with
    the keys of a fabric in any other form, such as one that `syncline convert` wrote."""
    npus: list[str] | None = None
    """Names of the NPUs in a CSV file. Without it, `npu0`, `npu1` and so on."""
    switches: list[str] | None = None
    """Names of the switches in a CSV file. Without it, `switch0`, `switch1` and so on."""
    routing: Routing | None = None
    """How messages are routed, as for a fabric given link by link. Replaces the routing of a YAML file."""


class ClusterFabric(Strict):
    """A known cluster, or a part of it."""

    cluster: Annotated[str, Field(min_length=1)]
    """Name of a cluster, such as `eos`, or of a kind of server, such as `dgx-h100`."""
    npus: Count | None = None
    """Accelerators: whole servers, and whole scale-up domains if there are several. Without it, all of the cluster."""
    latency: Time = "0s"
    """Latency of each link between servers."""
    scale_up_latency: Time = "0s"
    """Latency of each link between an accelerator and the switch of its scale-up domain."""


class MeasuredNodes(Strict):
    """Hosts of several NPUs, joined by a switch inside the host. They share its interface."""

    npus: Count
    """NPUs of each host."""
    rate: Rate
    """Rate of the link between an NPU and the switch of its host."""
    latency: Time = "0s"
    """Latency of such a link. Messages between hosts take one at either end, besides half of the round trip."""


class MeasuredFabric(Strict):
    """The network between hosts that were measured, as `syncline probe` writes it."""

    measured: Annotated[str, Field(min_length=1)]
    """Path of a file of measurements between hosts: `.parquet`, or `.csv`. Each host is an NPU, or holds several
    (`nodes`). A message between two hosts takes half of their round trip, at the rate that was measured between them;
    pairs that were not measured are inferred from others."""
    rate: Rate | None = None
    """Rate of each host's interface, which its messages share, and of pairs whose rate was not measured. Without it,
    the highest rate that the host reached. Needed if no rates were measured."""
    nodes: MeasuredNodes | None = None
    """The NPUs of each host, if it has several. Without it, each host is an NPU."""


FORMS = {
    "dims": "dims",
    "shape": "shape",
    "torus": "torus",
    "alltoall": "alltoall",
    "file": "file",
    "measured": "measured",
    "cluster": "cluster",
    "links": "graph",
    **{family: "built" for family in BuiltFabric.FAMILIES if family != "torus"},
}
"""Keys that select the form of a fabric."""
_BY_KEY = form(word=False, **FORMS)


def _form(value: Any) -> str | None:
    """The tag of the form that a value of ``fabric`` has.

    ``torus`` selects a family if its value is a mapping, and the hierarchical torus if it is text.
    """
    uniform = isinstance(value, dict) and isinstance(value.get("torus"), dict)
    return "built" if uniform or isinstance(value, BuiltFabric) else _BY_KEY(value)


Fabric = Annotated[
    Annotated[DimsFabric, Tag("dims")]
    | Annotated[ShapeFabric, Tag("shape")]
    | Annotated[TorusFabric, Tag("torus")]
    | Annotated[AllToAllFabric, Tag("alltoall")]
    | Annotated[FileFabric, Tag("file")]
    | Annotated[MeasuredFabric, Tag("measured")]
    | Annotated[ClusterFabric, Tag("cluster")]
    | Annotated[GraphFabric, Tag("graph")]
    | Annotated[BuiltFabric, Tag("built")],
    Discriminator(_form),
]
"""A fabric in one of several forms; its keys select the form."""
