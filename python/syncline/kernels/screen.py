"""Shows models of kernels on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import digits
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from syncline.kernels.models import KernelModels

_UNITS = (("flop_per_s", 1e12, "TFLOP/s"), ("bytes_per_s", 1e9, "GB/s"), ("per_s", 1e12, "T/s"), ("bytes", 1e6, "MB"))
"""Units of constants by the end of their names; the first that fits."""


def about(models: KernelModels) -> dict[str, Any]:
    """What a file says, without its corrections."""
    return {key: _without(value) for key, value in models.document.items()}


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key != "corrections"}
    return value


def screen(models: KernelModels) -> RenderableType:
    """The screen: errors, ranges, constants."""
    return Group(*_parts(models))


def _parts(models: KernelModels) -> Iterator[RenderableType]:
    document = models.document
    yield Text.assemble((models.accelerator, "bold"), (f"  {document.get('software', '')}", "dim"))
    if "memory_ratio" in document:
        yield Text(f"Models of {document['from']}, with a memory {digits(document['memory_ratio'])} times as fast")
    for note in document.get("notes", []):
        yield Text(note)
    yield ""
    errors = of_numbers("errors on kernels left out, %", "rows", "median", "mean", "p90", "largest")
    for name, section in _sections(document):
        for kind, label in (("corrected", ""), ("constants_only", ", constants alone")):
            found = section.get("held_out", {}).get(kind)
            if found is not None:
                numbers = (f"{found[f'{each}_percent']:.1f}" for each in ("median", "mean", "p90", "largest"))
                errors.add_row(f"{name}{label}", str(found["rows"]), *numbers)
    yield errors
    yield ""
    ranges = of_numbers("measured range", "from", "to")
    for name, section in _sections(document):
        for size, limits in _ranges(section.get("range")):
            if limits[0] < limits[1]:
                ranges.add_row(f"{name} {size}".strip(), *(f"{limit:,}" for limit in limits))
    yield ranges
    yield ""
    constants = of_numbers("constant", "value", "")
    for name, section in _sections(document):
        for key, value in _constants(section):
            constants.add_row(f"{name} {key}", *_shown(key, value))
    yield constants


def _sections(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "memory-bound", document["memory_bound"]
    for data_type, section in document.get("gemm", {}).items():
        yield f"gemm {data_type}", section
    for data_type, section in document.get("attention", {}).items():
        yield f"attention {data_type} forward", section["forward"]
        if "fitted" in section["backward"]:
            yield f"attention {data_type} backward", section["backward"]["fitted"]


def _ranges(found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, list):
        yield "bytes", found
    elif found:
        yield from ((key, value) for key, value in found.items() if isinstance(value, list))


def _constants(section: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    if "constants" in section:
        yield from section["constants"].items()
    else:
        yield from ((key, section[key]) for key in ("launch_s", "bytes_per_s"))


def _shown(key: str, value: float) -> tuple[str, str]:
    if key.endswith("_s") and not key.endswith("per_s"):
        factor, unit = (1e6, "us") if value >= 1e-7 else (1e9, "ns") if value >= 1e-10 else (1e12, "ps")
        return digits(value * factor), unit
    for end, factor, unit in _UNITS:
        if key.endswith(end) and value >= factor / 1000:
            return digits(value / factor), unit
    return digits(value), ""
