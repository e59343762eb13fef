"""A user's compute model into the resolved form: an accelerator into its rates, a table's file into its times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.config import times
from syncline.config.compute import Given, Roofline, Systolic, Table, Throughput
from syncline.config.problem import error, refuse, shown
from syncline.config.quantity import decimal

if TYPE_CHECKING:
    from syncline.config.compute import Compute
    from syncline.config.expand_workload import Expanded
    from syncline.config.origin import Origins


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
        case _:
            return Given(model="given").model_dump(exclude={"memory_capacity"})


def memory(compute: Compute, origins: Origins) -> str | None:
    """What an NPU has, if it is said: by itself, or by the name of an accelerator."""
    given = getattr(compute, "memory_capacity", None)
    if given is not None:
        origins.move(("npu_memory",), ("compute", "memory_capacity"))
        return str(given)
    if isinstance(compute, Roofline) and compute.accelerator is not None:
        from syncline.models.accelerators import find

        origins.move(("npu_memory",), ("compute", "accelerator"))
        return decimal(find(compute.accelerator).memory_bytes, "B")
    return None


def _roofline(compute: Roofline, workload: Expanded, origins: Origins) -> dict[str, Any]:
    resolved = compute.model_dump(include={"model", "efficiency", "compute_power"})
    if compute.accelerator is not None:
        from syncline.models import ModelError
        from syncline.models.accelerators import find

        try:
            resolved.update(find(compute.accelerator).roofline(workload.data_type))
        except ModelError as problem:
            path = ("workload", "data_type") if problem.key == "data_type" else ("compute", "accelerator")
            known = origins.source.root.at(path)
            refuse(
                error(
                    "SL0102",
                    "the accelerator does not compute with this data type"
                    if known is None or "data_type" in path
                    else "no such accelerator",
                    mark=origins.source.mark(path if known else ("compute", "accelerator")),
                    key=".".join(path),
                    found=shown(problem.found),
                    allowed=problem.allowed,
                    nearest=problem.nearest,
                    help=None if problem.key == "accelerator" else "or give `peak` and `memory` yourself",
                )
            )
    given = {"peak": compute.peak, "memory": compute.memory}
    return {**resolved, **{key: value for key, value in given.items() if value is not None}}


def _systolic(compute: Systolic) -> dict[str, Any]:
    resolved = compute.model_dump(exclude={"memory_capacity"})
    if compute.vector == "free":
        resolved["vector"] = None
    elif compute.vector is None:
        clock = _core.parse_quantity("frequency", compute.clock)
        resolved["vector"] = decimal(min(2 * compute.columns * clock, 2**64 - 1), "FLOP/s")
    return resolved


def _table(compute: Table, workload: Expanded, origins: Origins) -> dict[str, Any]:
    path = origins.source.relative(compute.file)
    table, _ = times.read(path)
    at = ("compute", "file")
    for key, measured, wanted in (
        ("batch_per_npu", table.batch_per_npu, workload.batch_per_npu),
        ("data_type", table.data_type, workload.data_type),
    ):
        if measured is not None and wanted is not None and measured != wanted:
            refuse(
                error(
                    "SL0301",
                    f"the table was measured with another {key} than the workload has",
                    mark=origins.source.mark(at),
                    key=".".join(at),
                    found=str(measured),
                    allowed=str(wanted),
                    help=f"measure anew, or set workload.{key} to {measured}",
                )
            )
    origins.move(("compute", "layers"), at)
    label = f"{Path(path).name}: {table.label}" if table.label else Path(path).name
    return {"model": "table", "name": label, "layers": table.by_layer(), "compute_power": compute.compute_power}
