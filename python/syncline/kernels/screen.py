"""Shows models of kernels on a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import digits
from syncline.terminal.prose import lines
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


_ERRORS = (
    "Errors are |predicted / measured - 1| of kernels that were left out of a fit: with corrections at the shapes of "
    "the others, and by the constants alone."
)
_RANGES = "Beyond the sizes that were measured, a time is an extrapolation, and says so."
_CONSTANTS = "Constants are those of the fit. docs/explanation/kernels.md says how they make up a time."
MEANINGS = {
    "flop_per_s": "rate of all matrix units",
    "operand_bytes_per_s": "rate at which a multiprocessor loads operands",
    "memory_bytes_per_s": "rate of the memory",
    "cache_bytes_per_s": "rate of the cache",
    "cache_bytes": "size of operands of which half come from the cache",
    "reread": "part of the operands beyond the cache that is read again",
    "launch_s": "time of a kernel without work",
    "tile_s": "time to start a tile",
    "block_s": "time of a block, beside its operations",
    "element_s": "time to write an element of the result",
    "split_s": "time to add up the parts of a split sum",
    "spread": "how much slower than the fastest tile another one may be to count",
    "cast_s": "time of the kernel that casts the left operand",
    "cast_bytes": "bytes that it moves for each element",
    "throttle": "part by which long kernels are slower, as the clock falls",
    "throttle_s": "time after which it has fallen halfway",
    "scores_per_s": "exponentials of scores per second",
    "tail": "part of the longest tile's time that is not hidden",
    "prepare": "how often tensors are moved before the kernel, with prepare=True",
    "prepare_s": "time of that beside the traffic",
    "bytes_per_s": "rate of kernels that move bytes",
}
"""What the constants of a file mean."""
_RELATIVE = "rate of matrix units, times that of a tile and of a head size"


def screen(models: KernelModels, width: int) -> RenderableType:
    """The screen for a terminal of this width: errors, ranges, constants, and what they mean."""
    return Group(*_parts(models, width))


def _parts(models: KernelModels, width: int) -> Iterator[RenderableType]:
    document = models.document
    yield Text.assemble((models.accelerator, "bold"), (f"  {document.get('software', '')}", "dim"))
    if "memory_ratio" in document:
        ratio = digits(document["memory_ratio"])
        same = "with the same memory" if ratio == "1" else f"with a memory {ratio} times as fast"
        yield Text(lines(f"Models of {document['from']}, {same}", width))
    for note in document.get("notes", []):
        yield Text(lines(note, width))
    errors = of_numbers("errors on kernels left out, %", "rows", "median", "mean", "p90", "largest")
    for name, section in _sections(document):
        for kind, label in (("corrected", ""), ("constants_only", ", constants alone")):
            found = section.get("held_out", {}).get(kind)
            if found is not None:
                numbers = (f"{found[f'{each}_percent']:.1f}" for each in ("median", "mean", "p90", "largest"))
                errors.add_row(f"{name}{label}", str(found["rows"]), *numbers)
    ranges = of_numbers("measured range", "from", "to")
    for name, section in _sections(document):
        for size, limits in _ranges(section.get("range")):
            if limits[0] < limits[1]:
                ranges.add_row(f"{name} {size}".strip(), *(f"{limit:,}" for limit in limits))
    constants = of_numbers("constant", "value", "", "meaning")
    constants.columns[2].justify = constants.columns[3].justify = "left"
    constants.columns[3].no_wrap = False
    for name, section in _sections(document):
        for key, value, meaning in _constants(name, section, document.get("peak_flop_per_s", {})):
            constants.add_row(f"{name} {key}", *_shown(key, value), meaning)
    for legend, table in ((_ERRORS, errors), (_RANGES, ranges), (_CONSTANTS, constants)):
        yield from ("", Text(lines(legend, width), "dim"), "", table)


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


def _constants(name: str, section: Mapping[str, Any], peaks: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    """Names, values and meanings of the constants of a section."""
    if "constants" not in section:
        yield from ((key, section[key], MEANINGS[key]) for key in ("launch_s", "bytes_per_s"))
        return
    attention = "heads" in section
    for key, value in section["constants"].items():
        yield key, value, _RELATIVE if attention and key == "flop_per_s" else MEANINGS.get(key, "")
        if key == "flop_per_s":
            parts = [max(each[-1] for each in section[kind]) for kind in ("tiles", "heads") if kind in section]
            peak = peaks.get(name.split()[1])
            bound = "" if peak is None else f", at most {digits(peak / 1e12)} TFLOP/s at the highest clock"
            yield "fastest_flop_per_s", value * math.prod(parts), f"rate with the fastest tile{bound}"


def _shown(key: str, value: float) -> tuple[str, str]:
    if key.endswith("_s") and not key.endswith("per_s"):
        factor, unit = (1e6, "us") if value >= 1e-7 else (1e9, "ns") if value >= 1e-10 else (1e12, "ps")
        return digits(value * factor), unit
    for end, factor, unit in _UNITS:
        if key.endswith(end) and value >= factor / 1000:
            return digits(value / factor), unit
    # Small parts have two digits less, so that they are no wider than others.
    return (f"{value:.4f}" if 0 < value < 0.01 else digits(value)), ""
