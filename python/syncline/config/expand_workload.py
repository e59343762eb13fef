"""A user's workload into the resolved form: a model into its layers, forms into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.config.problem import error, shown
from syncline.config.workload import (
    AstraTextWorkload,
    Axes,
    ChakraWorkload,
    CollectivesWorkload,
    CollectiveWorkload,
    Comm,
    Layer,
    LayersWorkload,
    ModelWorkload,
    Ops,
    Parallel,
    Product,
    Workload,
)

if TYPE_CHECKING:
    from syncline.config.node import Path
    from syncline.config.origin import Origins
    from syncline.config.source import Source
    from syncline.errors import Diagnostic

_AT: Path = ("workload",)
_OWN = tuple(ModelWorkload.model_fields)


def model_problems(source: Source) -> list[Diagnostic]:
    """What a model has to say about the keys that are its own."""
    from syncline.models import MODELS, check

    node = source.root.at(_AT)
    values = node.plain() if node else None
    if not isinstance(values, dict) or not isinstance(values.get("model"), str):
        return []
    name = values["model"]
    found = check(name, {key: value for key, value in values.items() if key not in _OWN})
    problems = []
    for each in found:
        key, _, rest = each.key.partition("[")
        path = (*_AT, key, int(rest[:-1])) if rest else (*_AT, key)
        unknown = name in MODELS and key != "model" and key not in MODELS[name].parameters
        own = [*_OWN, *MODELS[name].parameters] if unknown else []
        from syncline.config.problem import nearest

        problems.append(
            error(
                "SL0101" if unknown else "SL0102",
                f"unknown key `{key}`" if unknown else "value not allowed",
                mark=source.mark(path, key=unknown),
                key=".".join(str(part) for part in path),
                found=shown(each.found),
                allowed=", ".join(own) if unknown else each.allowed,
                nearest=nearest(key, own) if unknown else each.nearest,
            )
        )
    return problems


def data_type(workload: Workload) -> str:
    """The element type that a workload computes with."""
    if isinstance(workload, LayersWorkload):
        return workload.data_type
    if isinstance(workload, ModelWorkload):
        from syncline.models import MODELS

        default = MODELS[workload.model].parameters["data_type"].default
        return str((workload.model_extra or {}).get("data_type", default))
    return "fp32"


def batch(workload: Workload) -> int | None:
    """Samples that one NPU works on in one iteration, where the workload says."""
    if not isinstance(workload, ModelWorkload):
        return None
    from syncline.models import MODELS

    default = MODELS[workload.model].parameters["batch_per_npu"].default
    return int((workload.model_extra or {}).get("batch_per_npu", default))


def expand(workload: Workload, origins: Origins) -> dict[str, Any]:
    """The resolved workload."""
    match workload:
        case ModelWorkload():
            from syncline.models import build

            origins.move(("workload", "layers"), ("workload", "model"))
            return {
                "source": "layers",
                "model": workload.model,
                "layers": build(workload.model, **(workload.model_extra or {})),
                "parallel": _parallel(workload.parallel),
                "iterations": workload.iterations,
                "data_type": data_type(workload),
            }
        case LayersWorkload():
            return {
                "source": "layers",
                "layers": [_layer(layer, workload.data_type) for layer in workload.layers],
                "parallel": _parallel(workload.parallel),
                "iterations": workload.iterations,
                "data_type": workload.data_type,
            }
        case CollectiveWorkload():
            origins.move(("workload", "collectives", 0), ("workload",))
            origins.move(("workload", "collectives", 0, "kind"), ("workload", "collective"))
            return {"source": "collectives", "collectives": [_comm(workload)], "iterations": workload.iterations}
        case CollectivesWorkload():
            comms = [_comm(comm) for comm in workload.collectives]
            return {"source": "collectives", "collectives": comms, "iterations": workload.iterations}
        case ChakraWorkload():
            origins.move(("workload", "prefix"), ("workload", "chakra"))
            groups = workload.groups and origins.source.relative(workload.groups)
            return {"source": "chakra", "prefix": origins.source.relative(workload.chakra), "groups": groups}
        case AstraTextWorkload():
            origins.move(("workload", "file"), ("workload", "astra_text"))
            file = origins.source.relative(workload.astra_text)
            return {"source": "astra_text", "file": file, "iterations": workload.iterations}


def _comm(comm: Comm) -> dict[str, str]:
    return {"kind": comm.collective, "bytes": comm.bytes}


def _work(work: str | Ops | None, element: str) -> Any:
    if work is None:
        return "none"
    return {"ops": _ops(work, element)} if isinstance(work, Ops) else {"time": work}


def _ops(ops: Ops, element: str) -> dict[str, Any]:
    """Operations; what is not said follows from the matrix products."""
    products = [_product(product, element) for product in ops.products]
    flop = sum(2 * each["m"] * each["k"] * each["n"] * each["count"] for each in products)
    moved = sum(_core.parse_quantity("bytes", each["memory"]) for each in products)
    resolved: dict[str, Any] = {
        "flop": f"{flop}FLOP" if ops.flop is None else ops.flop,
        "memory": f"{moved}B" if ops.memory is None else ops.memory,
    }
    return {**resolved, "products": products} if products else resolved


def _product(product: Product, element: str) -> dict[str, Any]:
    from syncline.models.data_types import bytes_of

    m, k, n, count = product.m, product.k, product.n, product.count
    moved = count * (m * k + k * n + m * n) * bytes_of(element)
    return {**product.model_dump(), "memory": f"{moved}B" if product.memory is None else product.memory}


def _layer(layer: Layer, element: str) -> dict[str, Any]:
    resolved: dict[str, Any] = {"name": layer.name}
    for key in ("forward", "input_grad", "weight_grad", "update"):
        resolved[key] = _work(getattr(layer, key), element)
    for key in ("parameters", "inputs", "outputs", "sharding"):
        resolved[key] = getattr(layer, key)
    if given := layer.communication:
        comms = ((key, getattr(given, key)) for key in ("forward", "input_grad", "weight_grad"))
        resolved["communication"] = {key: _comm(comm) for key, comm in comms if comm}
    return resolved


def _axes(axes: Axes) -> Any:
    if isinstance(axes, list):
        return {"dims": axes}
    return {"degree": axes} if isinstance(axes, int) else axes


def _parallel(parallel: Parallel) -> dict[str, Any]:
    return {"model": _axes(parallel.model), "data": _axes(parallel.data), "backward": parallel.backward}
