"""Resolves fabrics of a family: into numbers from which the core builds, or into dimensions for a regular family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.config.built import BuiltFabric, Ecmp
from syncline.config.shape import sizes
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from syncline.config.origin import Origins
    from syncline.input.base import Strict


def expand(fabric: BuiltFabric, origins: Origins) -> dict[str, Any]:
    """The resolved fabric. A torus, a hypercube or a switch becomes dimensions, unless it joins nodes."""
    family = next(name for name in fabric.FAMILIES if getattr(fabric, name) is not None)
    numbers = _given(getattr(fabric, family))
    if "sizes" in numbers:
        numbers["sizes"] = sizes(numbers["sizes"])
    if fabric.nodes is None and family in ("torus", "hypercube", "switch"):
        if fabric.routing not in (None, "dimension_order"):
            at = ("fabric", "routing")
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    f"a {family} without nodes supports only dimension-order routing",
                    mark=origins.source.mark(at),
                    key="fabric.routing",
                    allowed="dimension_order",
                    help="leave `routing` out, or give the fabric link by link",
                )
            )
        return {"dims": _dims(family, numbers, origins)}
    built: dict[str, Any] = {"network": {family: numbers}}
    origins.move(("fabric", "built", "network", family), ("fabric", family))
    origins.move(("fabric", "built", "network"), ("fabric", family))
    for key in ("nodes", "routing"):
        origins.move(("fabric", "built", key), ("fabric", key))
    origins.move(("fabric", "built", "routing", "explicit"), ("fabric", "routing"))
    if fabric.nodes is not None:
        built["nodes"] = _given(fabric.nodes)
    match fabric.routing:
        case None:
            pass
        case "ecmp":
            built["routing"] = {"ecmp": {}}
        case Ecmp(seed=seed):
            built["routing"] = {"ecmp": {} if seed is None else {"seed": seed}}
        case list(paths):
            built["routing"] = {"explicit": [[str(vertex) for vertex in path] for path in paths]}
        case word:
            built["routing"] = word
    return {"built": built}


def _given(of: Strict) -> dict[str, Any]:
    """The keys and values of a model, without absent ones and without an efficiency of 1, the default."""
    return {
        key: value for key, value in of.model_dump().items() if value is not None and (key, value) != ("efficiency", 1)
    }


def _dims(family: str, numbers: dict[str, Any], origins: Origins) -> list[dict[str, Any]]:
    along = {
        "torus": ("ring", numbers.get("sizes", []), "sizes"),
        "hypercube": ("fully_connected", [2] * numbers.get("dimensions", 0), "dimensions"),
        "switch": ("switch", [numbers.get("hosts")], "hosts"),
    }
    shape, found, key = along[family]
    for index in range(len(found)):
        origins.move(("fabric", "dims", index), ("fabric", family))
        origins.move(("fabric", "dims", index, "size"), ("fabric", family, key))
    return [
        {
            "name": f"dim{index + 1}",
            "shape": shape,
            "size": size,
            "rate": numbers["rate"],
            "latency": numbers["latency"],
            "efficiency": numbers.get("efficiency", 1.0),
        }
        for index, size in enumerate(found)
    ]
