"""A user's workload into the resolved form: a model into its layers, forms into one."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

from syncline import _core
from syncline.config import model_file
from syncline.config.problem import error, nearest, refuse, shown
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
    ModuleWorkload,
    Ops,
    Parallel,
    Product,
    Workload,
)
from syncline.errors import SynclineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.config.node import Path
    from syncline.config.origin import Origins
    from syncline.config.source import Source
    from syncline.errors import Diagnostic
    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer as BuiltLayer

_AT: Path = ("workload",)
_OWN = tuple(ModelWorkload.model_fields)


@dataclass(frozen=True)
class Built:
    """The model that a workload names."""

    layers: list[BuiltLayer]
    """From input to output."""
    info: ModelInfo
    """What it may be told."""
    name: str
    """For people."""


def model(source: Source) -> tuple[Built | None, list[Diagnostic]]:
    """The model that the workload names, if it names one; and what is wrong with the keys of its own."""
    from syncline.models import registry

    node = source.root.at(_AT)
    values = node.plain() if node else None
    if not isinstance(values, dict) or not isinstance(values.get("model"), str):
        return None, []
    asked = values["model"]
    name, info = asked, registry.MODELS.get(asked)
    if model_file.names_file(asked):
        path = source.relative(asked)
        try:
            name, info = model_file.name(path), model_file.read(path)
        except SynclineError as problem:
            return None, list(problem.diagnostics)
    built, found = registry.request(info or asked, {key: value for key, value in values.items() if key not in _OWN})
    known = info.parameters if info else {}
    problems = []
    for each in found:
        key, _, rest = each.key.partition("[")
        path_of = (*_AT, key, int(rest[:-1])) if rest else (*_AT, key)
        unknown = info is not None and key != "model" and key not in known
        own = [*_OWN, *known] if unknown else []
        problems.append(
            error(
                "SL0101" if unknown else "SL0102",
                f"unknown key `{key}`" if unknown else "value not allowed",
                mark=source.mark(path_of, key=unknown),
                key=".".join(str(part) for part in path_of),
                found=shown(each.found),
                allowed=", ".join(own) if unknown else each.allowed,
                nearest=nearest(key, own) if unknown else each.nearest,
            )
        )
    return (Built(built, info, name) if info else None), problems


@dataclass(frozen=True)
class Expanded:
    """A resolved workload, and what other sections need to know of it."""

    resolved: dict[str, Any]
    """What the core takes."""
    batch_per_npu: int | None = None
    """Samples that one NPU works on at a time, where that is known."""

    @property
    def data_type(self) -> str:
        """The element type that it computes with."""
        return str(self.resolved.get("data_type", "fp32"))


def expand(workload: Workload, origins: Origins, built: Built | None) -> Expanded:
    """The resolved workload; ``built`` is what :func:`model` gave."""
    match workload:
        case ModelWorkload():
            return _model(workload, origins, cast("Built", built))
        case ModuleWorkload():
            return _module(workload, origins)
        case LayersWorkload():
            layers = [_layer(layer, workload.data_type) for layer in workload.layers]
            memory = {"optimizer": workload.optimizer} if workload.optimizer != "sgd" else {}
            return Expanded({**_layers(layers, workload, workload.data_type), **memory})
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
        case AstraTextWorkload():
            origins.move(("workload", "file"), ("workload", "astra_text"))
            file = origins.source.relative(workload.astra_text)
            return Expanded({"source": "astra_text", "file": file, "iterations": workload.iterations})


def _model(workload: ModelWorkload, origins: Origins, built: Built) -> Expanded:
    given = workload.model_extra or {}
    defaults = built.info.parameters
    batch = given.get("batch_per_npu", defaults["batch_per_npu"].default)
    element = str(given.get("data_type", defaults["data_type"].default))
    origins.move(("workload", "layers"), ("workload", "model"))
    resolved = _layers([layer.scenario(element) for layer in built.layers], workload, element)
    optimizer = given.get("optimizer", defaults["optimizer"].default)
    memory = {"optimizer": optimizer} if optimizer != "sgd" else {}
    if any(layer.kept for layer in built.layers):
        memory["batch_per_npu"] = batch
    return Expanded({**resolved, "model": built.name, **memory}, int(batch))


def _module(workload: ModuleWorkload, origins: Origins) -> Expanded:
    from syncline.models.traced import factory, from_torch

    batch = workload.batch_per_npu
    # Stdout is for the answer, so what the module's code prints goes to stderr.
    with _placed(origins.source), redirect_stdout(sys.stderr):
        folder = str(origins.source.folder.absolute()) if origins.source.file else str(FilePath.cwd())
        module, inputs = factory.build(workload.module, workload.arguments, folder, meta=workload.build == "meta")
        if workload.inputs is not None:
            shapes = [(each.shape, each.type) for each in workload.inputs]
            inputs = factory.sample(batch or 32, shapes, module)
        elif inputs is None:
            help = "add `inputs`, such as [{ shape: [3, 224, 224] }], or let the factory give a pair"
            refuse(error("SL0103", "nothing says what the module takes", key="workload.inputs", help=help))
        traced = from_torch(
            module, inputs, sharding=workload.sharding, data_type=workload.data_type, costs=workload.costs
        )
        if batch not in (None, traced.batch_per_npu):
            refuse(
                error(
                    "SL0102",
                    "the factory's inputs have another batch",
                    key="workload.batch_per_npu",
                    found=str(batch),
                    allowed=str(traced.batch_per_npu),
                    help="give `inputs`, or say the batch to the factory under `arguments`",
                )
            )
    origins.move(("workload", "layers"), ("workload", "module"))
    resolved = _layers(traced.scenario(), workload, traced.data_type)
    return Expanded({**resolved, "model": traced.name}, traced.batch_per_npu)


def _layers(
    layers: list[dict[str, Any]], workload: ModelWorkload | ModuleWorkload | LayersWorkload, element: str
) -> dict[str, Any]:
    resolved = {
        "source": "layers",
        "layers": layers,
        "parallel": _parallel(workload.parallel),
        "iterations": workload.iterations,
        "data_type": element,
    }
    several = workload.micro_batches > 1
    return {**resolved, "micro_batches": workload.micro_batches} if several else resolved


@contextmanager
def _placed(source: Source) -> Iterator[None]:
    """Gives errors about a module their place in the scenario."""
    try:
        yield
    except SynclineError as problem:
        placed = []
        for each in problem.diagnostics:
            key = each.get("key", "module").removeprefix("workload.")
            # A pattern of a layer's name has dots of its own.
            mark = source.mark(("workload", *key.split(".", 1)))
            place = {"place": mark.place()} if mark else {}
            placed.append({**each, "key": f"workload.{key}", **place})
        raise SynclineError(cast("list[Diagnostic]", placed), problem.exit_status) from None


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
    marks = ("needed_by", "block", "heads", "vocabulary", "tokens", "kept", "kept_selective", "shares")
    resolved.update({key: value for key in marks if (value := getattr(layer, key)) is not None})
    return {**resolved, "selective": True} if layer.selective else resolved


def _axes(axes: Axes) -> Any:
    if isinstance(axes, list):
        return {"dims": axes}
    return {"degree": axes} if isinstance(axes, int) else axes


def _parallel(parallel: Parallel) -> dict[str, Any]:
    resolved = {"model": _axes(parallel.model), "data": _axes(parallel.data), "backward": parallel.backward}
    # What no pipeline needs is left out where it is not said.
    said = parallel.model_dump(exclude_defaults=True, exclude={"model", "data", "backward", "pipeline"})
    pipeline = {} if parallel.pipeline == "none" else {"pipeline": _axes(parallel.pipeline)}
    return {**resolved, **pipeline, **said}
