"""Resolves a compute model: replaces an accelerator's name by its rates, and a table's path by its times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncline import _core
from syncline.codes import Code
from syncline.config.compute import Given, MeasuredKernels, Roofline, Systolic, Table, Throughput
from syncline.errors import SynclineError
from syncline.input.node import dotted
from syncline.input.problem import error, raise_errors, shown
from syncline.input.units import decimal
from syncline.input.words import PASSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.config.compute import Compute
    from syncline.config.expand_workload import Expanded
    from syncline.config.origin import Origins
    from syncline.kernels import KernelModels
    from syncline.models.errors import ModelError
    from syncline.models.types import Types


def expand(compute: Compute, workload: Expanded, origins: Origins) -> dict[str, Any]:
    """The resolved compute model."""
    match compute:
        case Given() | Throughput():
            return compute.model_dump(exclude={"memory_capacity"})
        case Roofline():
            return _roofline(compute, workload, origins)
        case Systolic():
            return _systolic(compute)
        case Table():
            return _table(compute, workload, origins)
        case MeasuredKernels():
            return _kernels(compute, workload, origins)
        case _:
            return Given(model="given").model_dump(exclude={"memory_capacity"})


def memory(compute: Compute, origins: Origins) -> str | None:
    """Memory of an NPU, from ``memory_capacity`` or from the accelerator; None if neither gives it."""
    given = getattr(compute, "memory_capacity", None)
    if given is not None:
        origins.move(("npu_memory",), ("compute", "memory_capacity"))
        return str(given)
    name = compute.accelerator if isinstance(compute, Roofline) else None
    if isinstance(compute, MeasuredKernels):
        name = _models(compute, origins).accelerator
    if name is not None:
        from syncline.models.accelerators import find

        origins.move(("npu_memory",), ("compute", "accelerator"))
        return decimal(find(name).memory_bytes, "B")
    return None


def _roofline(compute: Roofline, workload: Expanded, origins: Origins) -> dict[str, Any]:
    resolved = compute.model_dump(include={"model", "efficiency", "compute_power"})
    if compute.accelerator is not None:
        from syncline.models import ModelError
        from syncline.models.accelerators import find

        try:
            accelerator = find(compute.accelerator)
        except ModelError as problem:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "no such accelerator",
                    mark=origins.source.mark(("compute", "accelerator")),
                    key="compute.accelerator",
                    found=shown(problem.found),
                    allowed=problem.allowed,
                    nearest=problem.nearest,
                    help="or give `peak`, `memory` and `memory_capacity` yourself",
                )
            )
        try:
            resolved.update(accelerator.roofline(_types(workload)))
        except ModelError as problem:
            _raise_type_error("the accelerator does not compute with this data type", problem, origins)
    if isinstance(compute.peak, dict):
        resolved.pop("peaks", None)
        resolved.update(_peaks(compute.peak, _types(workload), origins))
    elif compute.peak is not None:
        resolved.pop("peaks", None)
        resolved["peak"] = compute.peak
    own = _own_peaks(compute, workload, origins)
    if own:
        resolved["peaks"] = {**resolved.get("peaks", {}), **own}
    return {**resolved, **({} if compute.memory is None else {"memory": compute.memory})}


def _own_peaks(compute: Roofline, workload: Expanded, origins: Origins) -> dict[str, str]:
    """Peak rates of the data types that operations of layers name; empty if one rate covers all types."""
    from syncline.models.accelerators import find

    rates: dict[str, str] = {}
    if isinstance(compute.peak, dict):
        rates = {str(each): rate for each, rate in compute.peak.items()}
    elif compute.peak is None and compute.accelerator is not None:
        peaks = find(compute.accelerator).peak_flop_per_s
        rates = {each: decimal(rate, "FLOP/s") for each, rate in peaks.items()}
    own = {}
    for number, layer in enumerate(workload.resolved.get("layers", []) if rates else []):
        for key in PASSES:
            work = layer.get(key)
            data_type = work.get("ops", {}).get("data_type") if isinstance(work, dict) else None
            path = ("workload", "layers", number, key, "data_type")
            # Only types that the user gave for an operation count: those of a model's layers follow `types`.
            if data_type is None or origins.source.root.at(path) is None or data_type == _types(workload).compute:
                continue
            if data_type not in rates:
                message = "the compute model has no peak rate for this data type"
                mark, allowed = origins.source.mark(path), ", ".join(rates)
                raise_errors(
                    error(Code.BAD_VALUE, message, mark=mark, key=dotted(path), found=data_type, allowed=allowed)
                )
            own[data_type] = rates[data_type]
    return own


def _peaks(given: Mapping[Any, str], types: Types, origins: Origins) -> dict[str, Any]:
    """The given peak rates that a job with these types needs."""
    from syncline.models.errors import unknown_name

    for data_type in (types.compute, types.others):
        if data_type is not None and data_type not in given:
            _raise_type_error(
                "`compute.peak` has no rate for this data type", unknown_name("precision", data_type, given), origins
            )
    others = {} if types.others is None else {"peaks": {types.others: given[types.others]}}
    return {"peak": given[types.compute], **others}


def _raise_type_error(message: str, problem: ModelError, origins: Origins) -> NoReturn:
    """Raises an error about the type that the job computes in, placed at its key or else at the compute model."""
    help = "or give `peak` and `memory` yourself"
    _raise_at_type(message, problem.found, problem.allowed, help, origins)


def _raise_at_type(message: str, found: object, allowed: str | None, help: str, origins: Origins) -> NoReturn:
    said = (("workload", "types", "compute"), ("workload", "precision"))
    path = next((path for path in said if origins.source.root.at(path) is not None), said[1])
    mark = origins.source.mark(path) or origins.source.mark(("compute",))
    raise_errors(
        error(Code.BAD_VALUE, message, mark=mark, key=".".join(path), found=shown(found), allowed=allowed, help=help)
    )


def _models(compute: MeasuredKernels, origins: Origins) -> KernelModels:
    """The models that a scenario names."""
    from syncline import kernels

    name = compute.accelerator
    try:
        return kernels.load(origins.source.relative(name) if name.endswith(".json") else name)
    except SynclineError as problem:
        mark = origins.source.mark(("compute", "accelerator"))
        for each in problem.diagnostics:
            each["key"] = "compute.accelerator"
            if mark is not None:
                each.setdefault("place", mark.place())
        raise SynclineError(problem.diagnostics, problem.exit_status) from None


def _kernels(compute: MeasuredKernels, workload: Expanded, origins: Origins) -> dict[str, Any]:
    models = _models(compute, origins)
    # A job that computes nothing has no type.
    data_type = models.gemm_types[0] if workload.types is None else workload.types.compute
    others = None if workload.types is None else workload.types.others
    for each in (data_type, others):
        # fp16 runs on the same units as bf16, at the same rates.
        if each is not None and each.replace("fp16", "bf16") not in models.gemm_types:
            message = "no matrix products of this accelerator were measured in this data type"
            _raise_at_type(
                message, each, ", ".join(models.gemm_types), "choose another type, or another model", origins
            )
    found = models.peak(data_type)
    return {
        "model": "measured",
        "accelerator": models.accelerator,
        "data_type": data_type,
        **({} if found is None else {"peak": decimal(found, "FLOP/s")}),
        "models": models.text,
        "memory_ratio": models.memory_ratio,
        "compute_power": compute.compute_power,
    }


def _types(workload: Expanded) -> Types:
    """The types of a training job; fp32 for any other job, which computes nothing."""
    from syncline.models.types import PRECISIONS

    return workload.types or PRECISIONS["fp32"]


def _systolic(compute: Systolic) -> dict[str, Any]:
    resolved = compute.model_dump(exclude={"memory_capacity"})
    if compute.vector == "free":
        resolved["vector"] = None
    elif compute.vector is None:
        clock = _core.parse_quantity("frequency", compute.clock)
        resolved["vector"] = decimal(min(2 * compute.columns * clock, 2**64 - 1), "FLOP/s")
    return resolved


def _table(compute: Table, workload: Expanded, origins: Origins) -> dict[str, Any]:
    from syncline.models import times

    path = origins.source.relative(compute.file)
    table, _ = times.read(path)
    at = ("compute", "file")
    set_by = {"data_type": "precision"}
    for key, measured, wanted in (
        ("batch_per_npu", table.batch_per_npu, workload.batch_per_npu),
        ("data_type", table.data_type, _types(workload).compute),
    ):
        if measured is not None and wanted is not None and measured != wanted:
            raise_errors(
                error(
                    Code.BAD_WORKLOAD,
                    f"the table was measured with a different {key} than the workload's",
                    mark=origins.source.mark(at),
                    key=".".join(at),
                    found=str(measured),
                    allowed=str(wanted),
                    help=f"measure again, or set workload.{set_by.get(key, key)} to {measured}",
                )
            )
    origins.move(("compute", "layers"), at)
    label = f"{Path(path).name}: {table.label}" if table.label else Path(path).name
    return {"model": "table", "name": label, "layers": table.by_layer(), "compute_power": compute.compute_power}
