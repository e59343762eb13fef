"""Resolves a workload: turns a model into its layers, and all forms of a workload into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from syncline import _core
from syncline.codes import Code
from syncline.config import model_file, other_tools
from syncline.config.torch_module import folder_of, no_inputs, running
from syncline.config.workload import (
    AstraTextWorkload,
    Axes,
    ChakraWorkload,
    CollectivesWorkload,
    CollectiveWorkload,
    Comm,
    Exchange,
    FlexNetWorkload,
    Layer,
    LayersWorkload,
    ModelWorkload,
    ModuleWorkload,
    OperatorsWorkload,
    Ops,
    Parallel,
    Product,
    RankMesh,
    Workload,
)
from syncline.config.workload import Types as GivenTypes
from syncline.errors import SynclineError
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.input.words import PASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.config.origin import Origins
    from syncline.errors import Diagnostic
    from syncline.input.node import Path
    from syncline.input.source import Source
    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer as BuiltLayer
    from syncline.models.types import Types

_AT: Path = ("workload",)
_NOTHING_SELECTIVE = (
    "`recompute: selective` changes nothing, because no layer is `selective`: "
    "fused attention already recomputes its scores"
)
_OWN = tuple(ModelWorkload.model_fields)


@dataclass(frozen=True)
class Built:
    """The model that a workload names, built."""

    layers: list[BuiltLayer]
    """Its layers, from input to output."""
    info: ModelInfo
    """Its description and parameters."""
    name: str
    """Its name, for display."""


_OTHER_MODELS = "for any other model, give the path of its `config.json` from Hugging Face"


def model(source: Source) -> tuple[Built | None, list[Diagnostic]]:
    """The model that the workload names, None if it names none; and the errors in the model's parameters."""
    from syncline.models import ModelErrorKind, registry

    node = source.root.at(_AT)
    values = node.to_python() if node else None
    if not isinstance(values, dict) or not isinstance(values.get("model"), str):
        return None, []
    asked = values["model"]
    name, info = asked, registry.MODELS.get(asked)
    if model_file.names_file(asked):
        path = source.relative(asked)
        try:
            name, info = model_file.read(path)
        except SynclineError as problem:
            return None, list(problem.diagnostics)
    built, found = registry.request(info or asked, {key: value for key, value in values.items() if key not in _OWN})
    known = info.parameters if info else {}
    problems = []
    for each in found:
        key, path_of = each.key, (*_AT, *each.path)
        unknown = each.kind is ModelErrorKind.UNKNOWN_KEY
        own = [*_OWN, *known] if unknown else []
        hint = other_tools.hint(key) if unknown else None
        if each.kind is ModelErrorKind.MODEL and not each.nearest:
            hint = _OTHER_MODELS
        problems.append(
            error(
                Code.UNKNOWN_KEY if unknown else Code.BAD_VALUE,
                f"unknown key `{key}`" if unknown else "value not allowed",
                mark=source.mark(path_of, key=unknown),
                key=".".join(str(part) for part in path_of),
                found=shown(each.found),
                allowed=", ".join(own) if unknown else each.allowed,
                nearest=each.nearest if not unknown else None if hint else nearest(key, own),
                help=hint,
            )
        )
    return (Built(built, info, name) if info else None), problems


@dataclass(frozen=True)
class Expanded:
    """A resolved workload, and properties of it that other sections need."""

    resolved: dict[str, Any]
    """The workload in the core's form."""
    batch_per_npu: int | None = None
    """Samples that one NPU works on at a time; None if unknown."""
    types: Types | None = None
    """Element types of a training job; None for any other job."""


def expand(workload: Workload, origins: Origins, built: Built | None) -> Expanded:
    """The resolved workload; ``built`` is the result of :func:`model`."""
    match workload:
        case ModelWorkload():
            return _model(workload, origins, cast("Built", built))
        case ModuleWorkload():
            return _module(workload, origins)
        case LayersWorkload():
            types = _types(workload.precision, workload.types)
            layers = [_layer(layer, types.activations) for layer in workload.layers]
            memory = {"optimizer": workload.optimizer} if workload.optimizer != "sgd" else {}
            resolved = {**_layers(layers, workload, types), **memory}
            if workload.sample is not None:
                resolved["sample"] = workload.sample.model_dump(exclude_none=True)
            if workload.batch_per_npu is not None:
                counted = {} if workload.sample else _given_sample(layers, workload.batch_per_npu)
                resolved |= {"batch_per_npu": workload.batch_per_npu, **counted}
            return Expanded(resolved, workload.batch_per_npu, types)
        case CollectiveWorkload():
            origins.move(("workload", "collectives", 0), ("workload",))
            origins.move(("workload", "collectives", 0, "kind"), ("workload", "collective"))
            comms = [_comm(workload)]
            return Expanded({"source": "collectives", "collectives": comms, "iterations": workload.iterations})
        case CollectivesWorkload():
            comms = [_comm(comm) for comm in workload.collectives]
            return Expanded({"source": "collectives", "collectives": comms, "iterations": workload.iterations})
        case ChakraWorkload():
            origins.move(("workload", "prefix"), ("workload", "chakra"))
            groups = workload.groups and origins.source.relative(workload.groups)
            prefix = origins.source.relative(workload.chakra)
            return Expanded({"source": "chakra", "prefix": prefix, "groups": groups})
        case OperatorsWorkload():
            file = origins.source.relative(workload.operators)
            types = _types(workload.precision, GivenTypes())
            resolved = {"source": "operators", "file": file, "iterations": workload.iterations}
            return Expanded(resolved, types=types)
        case FlexNetWorkload():
            origins.move(("workload", "file"), ("workload", "flexnet"))
            file = origins.source.relative(workload.flexnet)
            return Expanded({"source": "flexnet", "file": file, "iterations": workload.iterations})
        case AstraTextWorkload():
            origins.move(("workload", "file"), ("workload", "astra_text"))
            file = origins.source.relative(workload.astra_text)
            return Expanded({"source": "astra_text", "file": file, "iterations": workload.iterations})


def _model(workload: ModelWorkload, origins: Origins, built: Built) -> Expanded:
    given = workload.model_extra or {}
    defaults = built.info.parameters
    batch = int(given.get("batch_per_npu", defaults["batch_per_npu"].default))
    types = _types(str(given.get("precision", defaults["precision"].default)), workload.types)
    origins.move(("workload", "layers"), ("workload", "model"))
    resolved = _layers([layer.scenario(types) for layer in built.layers], workload, types)
    optimizer = given.get("optimizer", defaults["optimizer"].default)
    memory = {"optimizer": optimizer} if optimizer != "sgd" else {}
    tokens = int(given.get("sequence", defaults["sequence"].default)) if "sequence" in defaults else None
    sample = _sample(built.layers, batch, tokens)
    notes = [*built.info.notes, *resolved.get("notes", ())]
    resolved |= {"model": built.name, **memory, "batch_per_npu": batch, **sample, **({"notes": notes} if notes else {})}
    return Expanded(resolved, batch, types)


def _module(workload: ModuleWorkload, origins: Origins) -> Expanded:
    from syncline.models.traced import factory, from_torch

    batch = workload.batch_per_npu
    with running(origins.source, ("workload",)):
        folder = folder_of(origins.source)
        module, inputs = factory.build(workload.module, workload.arguments, folder, meta=workload.build == "meta")
        if workload.inputs is not None:
            shapes = [(each.shape, each.type) for each in workload.inputs]
            inputs = factory.sample(batch or 32, shapes, module)
        elif inputs is None:
            raise_errors(no_inputs())
        traced = from_torch(
            module, inputs, sharding=workload.sharding, precision=workload.precision, costs=workload.costs
        )
        if batch not in (None, traced.batch_per_npu):
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "the factory's inputs have a different batch",
                    key="batch_per_npu",
                    found=str(batch),
                    allowed=str(traced.batch_per_npu),
                    help="give `inputs`, or pass the batch to the factory under `arguments`",
                )
            )
    origins.move(("workload", "layers"), ("workload", "module"))
    types = _types(traced.precision, workload.types)
    resolved = _layers([layer.scenario(types) for layer in traced.layers], workload, types)
    known = {}
    if traced.batch_per_npu is not None:
        known = {"batch_per_npu": traced.batch_per_npu, **_sample(traced.layers, traced.batch_per_npu, None)}
    return Expanded({**resolved, "model": traced.name, **known}, traced.batch_per_npu, types)


def _layers(
    layers: list[dict[str, Any]], workload: ModelWorkload | ModuleWorkload | LayersWorkload, types: Types
) -> dict[str, Any]:
    parallel, notes = _parallel(workload.parallel), {}
    if workload.parallel.recompute == "selective" and not any(layer.get("selective") for layer in layers):
        # Training scripts often set it by habit, even with fused attention.
        del parallel["recompute"]
        notes = {"notes": [_NOTHING_SELECTIVE]}
    resolved = {
        "source": "layers",
        "layers": layers,
        "parallel": parallel,
        "iterations": workload.iterations,
        "types": types.as_dict(),
        **notes,
    }
    if workload.global_batch is not None:
        return {**resolved, "global_batch": workload.global_batch}
    several = (workload.micro_batches or 1) > 1
    return {**resolved, "micro_batches": workload.micro_batches} if several else resolved


def _types(precision: str, given: GivenTypes) -> Types:
    from syncline.models.types import types

    return types(precision, given.model_dump(exclude_none=True))


def _sample(layers: Sequence[BuiltLayer], batch: int, tokens: int | None) -> dict[str, Any]:
    """The tokens of a sample, and the operations of the matrix products that a sample takes in both passes."""
    # The backward pass of a product takes twice the forward pass; or once, if its inputs are data without a gradient.
    needed, masked = (
        sum((4 if layer.reads_data else 6) * getattr(layer, count) for layer in layers)
        for count in ("multiply_adds", "masked")
    )
    return _counted(needed // batch, (needed + masked) // batch, tokens)


def _given_sample(layers: list[dict[str, Any]], batch: int) -> dict[str, Any]:
    """Like :func:`_sample`, for layers that the user gives: estimated from the forward pass.

    Counts its matrix products, or all its operations if no products are given.
    """
    works = [work["ops"] for layer in layers if isinstance(work := layer["forward"], dict) and "ops" in work]
    products = [each for work in works for each in work.get("products", ())]
    if products:
        flop = sum(2 * each["m"] * each["k"] * each["n"] * each["count"] for each in products)
    else:
        flop = sum(_core.parse_quantity("flops", work["flop"]) for work in works)
    tokens = next((layer["tokens"] for layer in layers if layer.get("tokens")), None)
    return _counted(3 * flop // batch, 3 * flop // batch, tokens) if flop else {}


def _counted(flop: int, unmasked: int, tokens: int | None) -> dict[str, Any]:
    sample: dict[str, Any] = {"model_flop": f"{flop}FLOP"}
    if unmasked != flop:
        sample["model_flop_unmasked"] = f"{unmasked}FLOP"
    return {"sample": sample if tokens is None else {"tokens": tokens, **sample}}


def _comm(comm: Comm) -> dict[str, str]:
    return {"kind": comm.collective, "bytes": comm.bytes}


def _exchange(exchange: Exchange) -> dict[str, Any]:
    axes = [exchange.axis] if isinstance(exchange.axis, str) else exchange.axis
    said = exchange.model_dump(include={"blocks", "each_micro_batch"}, exclude_defaults=True)
    return {"when": exchange.when, "axes": axes, **_comm(exchange), **said}


def _work(work: str | Ops | None, element: str) -> Any:
    if work is None:
        return "none"
    return {"ops": _ops(work, element)} if isinstance(work, Ops) else {"time": work}


def _ops(ops: Ops, element: str) -> dict[str, Any]:
    """Operations in the resolved form; absent values are computed from the matrix products."""
    products = [_product(product, element) for product in ops.products]
    flop = sum(2 * each["m"] * each["k"] * each["n"] * each["count"] for each in products)
    moved = sum(_core.parse_quantity("bytes", each["memory"]) for each in products)
    resolved: dict[str, Any] = {
        "flop": f"{flop}FLOP" if ops.flop is None else ops.flop,
        "memory": f"{moved}B" if ops.memory is None else ops.memory,
    }
    if ops.data_type is not None:
        resolved["data_type"] = ops.data_type
    return {**resolved, "products": products} if products else resolved


def _product(product: Product, element: str) -> dict[str, Any]:
    from syncline.models.data_types import bytes_of

    m, k, n, count = product.m, product.k, product.n, product.count
    moved = count * (m * k + k * n + m * n) * bytes_of(element)
    return {**product.model_dump(), "memory": f"{moved}B" if product.memory is None else product.memory}


def _layer(layer: Layer, element: str) -> dict[str, Any]:
    resolved: dict[str, Any] = {"name": layer.name}
    for name in PASSES:
        resolved[name] = _work(getattr(layer, name), element)
    for key in ("parameters", "inputs", "outputs", "sharding"):
        resolved[key] = getattr(layer, key)
    if layer.exchanges is not None:
        resolved["exchanges"] = [_exchange(each) for each in layer.exchanges]
    if layer.ranks:
        resolved["ranks"] = layer.ranks
    marks = ("mesh", "needed_by", "block", "heads", "vocabulary", "tokens", "kept", "kept_selective", "shares")
    resolved.update({key: value for key in marks if (value := getattr(layer, key)) is not None})
    return {**resolved, "selective": True} if layer.selective else resolved


def axes(axes: Axes) -> Any:
    """The resolved form of a degree of parallelism: a number of ranks, dimensions, or a word."""
    if isinstance(axes, list):
        return {"dims": axes}
    return {"degree": axes} if isinstance(axes, int) else axes


def _mesh(mesh: RankMesh | Parallel) -> dict[str, Any]:
    """The axes of a mesh. Keys at their defaults are left out, but for those of the two axes that every mesh has."""
    resolved: dict[str, Any] = {"tensor": axes(mesh.tensor), "data": axes(mesh.data)}
    if isinstance(mesh, Parallel) and mesh.pipeline != "none":
        resolved["pipeline"] = axes(mesh.pipeline)
    if mesh.axes:
        resolved["axes"] = {name: axes(each) for name, each in mesh.axes.items()}
    order = mesh.order
    if order is None and mesh.axes:
        order = ["tensor", *mesh.axes, "data", "pipeline"]
    elif order is not None and isinstance(mesh, RankMesh):
        order = [*order, "pipeline"]
    return resolved if order is None else {**resolved, "order": order}


def _parallel(parallel: Parallel) -> dict[str, Any]:
    resolved = {**_mesh(parallel), "backward": parallel.backward}
    if parallel.meshes:
        resolved["meshes"] = {name: _mesh(each) for name, each in parallel.meshes.items()}
    # Leave out keys at their defaults.
    others = {"tensor", "data", "pipeline", "axes", "order", "meshes", "backward"}
    return {**resolved, **parallel.model_dump(exclude_defaults=True, exclude=others)}
