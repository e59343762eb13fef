"""Models of accelerators whose kernels nobody measured: those of a relative, changed by the ratios of both data sheets.

A file of the schema ``syncline-kernel-model-scaled/1`` names the relative under ``from`` and says how the accelerator
differs. What it does not name is the same.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def changed(base: Mapping[str, Any], derived: Mapping[str, Any]) -> dict[str, Any]:
    """The file of a relative with the constants of the accelerator that ``derived`` describes, but for its memory.

    - ``matrix_ratio``: operations per second of the matrix units over the relative's, by data type. They scale the
      rates of tiles of products and of attention, and the peak. The rate at which a multiprocessor takes operands
      scales with a faster unit, as far as products of another type showed that it can: operands pass through the same
      shared memory in bytes, whatever their type.
    - ``multiprocessors``: how many there are. Times of a tile on one stay, so that its waves are others. Corrections at
      measured shapes are left out then: they belong to the waves of the relative.
    - ``exponential_ratio``: exponentials per second over the relative's, for the scores of attention.
    - ``power_ratio``: power of the board over the relative's, for the operations that it does. Power grows with the
      cube of the clock where the voltage follows it, so that under a limit of power the clock of long kernels is higher
      by the cube root: ``throttle`` is lower by that, and at least 0.
    - ``libraries``: measured rates of products and attention by libraries of training, over those of the changed
      kernels, by operation, data type and library, in place of the relative's.

    The rate of the memory, ``memory_ratio``, is not applied: the core does that, because clusters differ in it, too.
    """
    found = copy.deepcopy(dict(base))
    found["accelerator"] = derived["accelerator"]
    found["notes"] = [*derived.get("notes", []), *base.get("notes", [])]
    if "multiprocessors" in derived:
        found["multiprocessors"] = derived["multiprocessors"]
        for section in found["gemm"].values():
            section.pop("corrections", None)
        for section in found.get("attention", {}).values():
            for fitted in (section["forward"], section["backward"].get("fitted", {})):
                fitted.pop("corrections", None)
    matrix: Mapping[str, float] = derived.get("matrix_ratio", {})
    reached = max(each["constants"]["operand_bytes_per_s"] for each in base["gemm"].values())
    for data_type, ratio in matrix.items():
        found["peak_flop_per_s"][data_type] *= ratio
        if data_type in found["gemm"]:
            constants = found["gemm"][data_type]["constants"]
            constants["flop_per_s"] *= ratio
            operands = constants["operand_bytes_per_s"]
            constants["operand_bytes_per_s"] = max(operands, min(operands * ratio, reached))
        for constants in _passes(found, data_type):
            constants["flop_per_s"] *= ratio
    clock = derived.get("power_ratio", 1.0) ** (1 / 3)
    for section in found["gemm"].values():
        _cool(section["constants"], clock)
    for data_type in found.get("attention", {}):
        for constants in _passes(found, data_type):
            constants["scores_per_s"] *= derived.get("exponential_ratio", 1.0)
            _cool(constants, clock)
    for operation, data_types in derived.get("libraries", {}).items():
        for data_type, libraries in data_types.items():
            found[operation][data_type]["libraries"] = libraries
    return found


def _cool(constants: dict[str, float], clock: float) -> None:
    """Raises the clock of long kernels by a factor, up to that of short ones."""
    if clock != 1.0:
        constants["throttle"] = max(0.0, (1.0 + constants["throttle"]) / clock - 1.0)


def _passes(document: Mapping[str, Any], data_type: str) -> list[dict[str, float]]:
    """The constants of each pass of attention in a data type."""
    section = document.get("attention", {}).get(data_type)
    if section is None:
        return []
    passes = [section["forward"], section["backward"].get("fitted")]
    return [each["constants"] for each in passes if each is not None]
