"""Resolves a fabric: turns shorthands into dimensions, and names of vertices into numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from syncline import _core
from syncline.clusters.known import find
from syncline.clusters.size import fabric as part_of
from syncline.codes import Code
from syncline.config import expand_built
from syncline.config.built import BuiltFabric
from syncline.config.edges import graph, read_edges
from syncline.config.fabric import (
    FORMS,
    AllToAllFabric,
    ClusterFabric,
    Dim,
    DimsFabric,
    Fabric,
    FileFabric,
    GraphFabric,
    Links,
    MeasuredFabric,
    ShapeFabric,
    TorusFabric,
    Uplinks,
)
from syncline.config.measured import measured
from syncline.config.origin import Origins
from syncline.config.shape import sizes
from syncline.errors import SynclineError
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.node import Node, dotted
from syncline.input.problem import error, exception, raise_errors
from syncline.input.source import Source, from_file

if TYPE_CHECKING:
    from syncline.distances import Measured
    from syncline.errors import Diagnostic

_KINDS = {"Ring": "ring", "FC": "fully_connected", "FullyConnected": "fully_connected", "Switch": "switch"}


def expand(fabric: Fabric, origins: Origins, hosts: Measured | None = None) -> dict[str, Any]:
    """The resolved fabric. ``hosts`` are those of a measured one, in place of the hosts in its file."""
    match fabric:
        case DimsFabric():
            return {"dims": [_dim(index, dim, origins) for index, dim in enumerate(fabric.dims)]}
        case ShapeFabric():
            return {"dims": _shape(fabric, origins)}
        case TorusFabric():
            return {"dims": _torus(fabric, origins)}
        case AllToAllFabric():
            return {"dims": _alltoall(fabric, origins)}
        case GraphFabric():
            return {"graph": graph(fabric, origins, origins.source, ("fabric",))}
        case BuiltFabric():
            return expand_built.expand(fabric, origins)
        case ClusterFabric():
            return _cluster(fabric, origins)
        case FileFabric():
            return _file(fabric, origins)
        case MeasuredFabric():
            return {"graph": measured(fabric, origins, hosts)}


def _cluster(fabric: ClusterFabric, origins: Origins) -> dict[str, Any]:
    """The resolved form of a part of a known cluster."""
    try:
        made = part_of(find(fabric.cluster), fabric.npus, fabric.latency, fabric.scale_up_latency)
    except SynclineError as problem:
        placed: list[Diagnostic] = []
        for each in problem.diagnostics:
            at = ("fabric", each.get("key", "cluster").removeprefix("fabric."))
            mark = origins.source.mark(at if origins.source.root.at(at) else ("fabric", "cluster"))
            named: Diagnostic = {**each, "key": dotted(at)}
            if mark is not None:
                named["place"] = mark.place()
            placed.append(named)
        raise exception(*placed) from None
    resolved = expand_built.expand(BuiltFabric.model_validate(made), origins)
    # What the core says of the family's numbers is about the cluster.
    for path in [path for path in origins.moved if path[:1] == ("fabric",)]:
        del origins.moved[path]
    origins.move(("fabric",), ("fabric",))
    return resolved


class _File(Strict):
    """A file of a fabric that is not given link by link."""

    fabric: Fabric
    """The fabric: all keys of the file."""


def _file(fabric: FileFabric, origins: Origins) -> dict[str, Any]:
    """The resolved form of a fabric that is in a separate file."""
    path = origins.source.relative(fabric.file)
    if not path.lower().endswith((".yaml", ".yml", ".json")):
        return {"graph": read_edges(fabric, origins)}
    root = from_file(path).root
    if not isinstance(root.value, dict) or "links" in root.value or not set(root.value) & set(FORMS):
        return {"graph": read_edges(fabric, origins)}
    for key in ("npus", "switches", "routing"):
        if getattr(fabric, key) is not None:
            at = ("fabric", key)
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    f"`{key}` applies only to a file that gives links one by one",
                    mark=origins.source.mark(at, key=True),
                    key=dotted(at),
                    help=f"leave it out, or write it into {path}",
                )
            )
    inner = Source(Node({"fabric": root}, root.mark), path)
    if "file" in root.value:
        at = ("fabric", "file")
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a file of a fabric names another file",
                mark=inner.mark(at, key=True),
                key="file",
                help="name that file in the scenario",
            )
        )
    own = Origins(inner)
    resolved = expand(check(inner, _File, Whole("the file")).fabric, own)
    origins.move(("fabric",), ("fabric",), inner)
    origins.moved |= own.moved
    return resolved


def _rates(links: Dim | Uplinks) -> dict[str, Any]:
    return {
        "rate": links.rate,
        "rate_per_npu": links.rate_per_npu,
        "latency": links.latency,
        "efficiency": links.efficiency,
    }


def _dim(index: int, dim: Dim, origins: Origins) -> dict[str, Any]:
    for key in ("rings", "links", "switches"):
        if getattr(dim, key) is not None:
            origins.move(("fabric", "dims", index, "count"), ("fabric", "dims", index, key))
    return {
        "name": dim.name,
        "shape": _KINDS.get(dim.shape, dim.shape),
        "size": dim.size,
        "count": dim.rings or dim.links or dim.switches or 1,
        "direction": dim.direction,
        **({"spread": dim.spread} if dim.spread else {}),
        **_rates(dim),
        **({"tier": dim.tier} if dim.tier else {}),
    }


def _shape(fabric: ShapeFabric, origins: Origins) -> list[dict[str, Any]]:
    dims = []
    for index, (kind, size) in enumerate(_core.parse_shape(fabric.shape)):
        dim = {"name": fabric.names[index] if fabric.names else f"dim{index + 1}", "shape": kind, "size": size}
        origins.move(("fabric", "dims", index), ("fabric", "shape"))
        for key in ("rate", "rate_per_npu", "latency", "efficiency"):
            value = getattr(fabric, key)
            listed = isinstance(value, list)
            dim[key] = value[index] if listed else value
            origins.move(("fabric", "dims", index, key), ("fabric", key, index) if listed else ("fabric", key))
        dims.append(dim)
    return dims


L = TypeVar("L", bound=Uplinks)


def _given(name: str, size: int, links: L | None, key: str, origins: Origins) -> L:
    if links is None:
        raise_errors(
            error(
                Code.MISSING_KEY,
                f"missing key `{key}`",
                mark=origins.source.mark(("fabric",), key=True),
                key=f"fabric.{key}",
                help=f"the {name} dimension has {size} NPUs; give the links that join them",
            )
        )
    return links


def _ring(name: str, size: int, links: Links, direction: str) -> dict[str, Any]:
    return {
        "name": name,
        "shape": "ring",
        "size": size,
        "count": links.rings,
        "direction": links.direction or direction,
        **_rates(links),
    }


def _torus(fabric: TorusFabric, origins: Origins) -> list[dict[str, Any]]:
    local, horizontal, vertical = sizes(fabric.torus)
    wanted = (
        ("local", local, fabric.local, "one-way"),
        ("vertical", vertical, fabric.vertical or fabric.package, "both"),
        ("horizontal", horizontal, fabric.horizontal or fabric.package, "both"),
    )
    dims: list[dict[str, Any]] = []
    for name, size, links, direction in wanted:
        if size == 1 and (dims or local * horizontal * vertical > 1 or name != "local"):
            continue
        key = name if name == "local" or getattr(fabric, name) else "package"
        origins.move(("fabric", "dims", len(dims)), ("fabric", key))
        origins.move(("fabric", "dims", len(dims), "count"), ("fabric", key, "rings"))
        origins.move(("fabric", "dims", len(dims), "size"), ("fabric", "torus"))
        dims.append(_ring(name, size, _given(name, size, links, key, origins), direction))
    return dims


def _alltoall(fabric: AllToAllFabric, origins: Origins) -> list[dict[str, Any]]:
    local, packages = sizes(fabric.alltoall)
    dims: list[dict[str, Any]] = []
    if local > 1:
        origins.move(("fabric", "dims", 0), ("fabric", "local"))
        origins.move(("fabric", "dims", 0, "count"), ("fabric", "local", "rings"))
        origins.move(("fabric", "dims", 0, "size"), ("fabric", "alltoall"))
        dims.append(_ring("local", local, _given("local", local, fabric.local, "local", origins), "one-way"))
    if packages > 1 or local == 1:
        at = ("fabric", "dims", len(dims))
        origins.move(at, ("fabric", "package"))
        origins.move((*at, "count"), ("fabric", "switches"))
        origins.move((*at, "size"), ("fabric", "alltoall"))
        links = _given("alltoall", packages, fabric.package, "package", origins)
        dim = {"name": "alltoall", "shape": "switch", "size": packages, "count": fabric.switches, "direction": "both"}
        dims.append({**dim, **_rates(links)})
    return dims
