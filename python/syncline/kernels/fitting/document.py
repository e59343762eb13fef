"""Fits all models of an accelerator to its measured kernels, as the text of a file."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.kernels.fitting import attention, gemm
from syncline.kernels.fitting.held_out import held_out
from syncline.kernels.fitting.libraries import libraries
from syncline.kernels.fitting.machines import machine_of
from syncline.kernels.fitting.rows import attentions, products
from syncline.schemas import KERNEL_MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from syncline.kernels.fitting.machines import Machine
    from syncline.kernels.fitting.rows import Kernels, Row

FEWEST_ROWS = 100
"""Rows of a data type that a fit needs: a model has some forty constants."""
_FEWEST_FACTOR_ROWS = 20
_PREPARING = "TensorRT-LLM"
"""Attention of this software includes rotary embedding and a cache; its fp8 and nvfp4 products include a cast."""
_CAST_TYPES = ("fp8", "nvfp4")


def fit(kernels: Kernels, progress: Callable[[str], None] = lambda _: None) -> str:
    """The text of a file with models of all operations and data types that the rows hold enough of.

    :param progress: called with what is fitted next, and with what has too few rows.
    :raises SynclineError: the accelerator is unknown to the fit, or there are too few rows.
    """
    machine = machine_of(kernels)
    sections = _gemms(machine, kernels, progress)
    attended = _attentions(machine, kernels, progress, prepares=_of_inference(kernels))
    if not sections:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "too few matrix products to fit",
                found=f"{len([row for row in kernels.rows if row['operation'] == 'gemm'])} rows",
                allowed=f"at least {FEWEST_ROWS} of one data type",
            )
        )
    document = {
        "schema": KERNEL_MODELS,
        "accelerator": machine.name,
        "software": ", ".join(kernels.named("software")) or "unknown",
        "source": "; ".join(kernels.named("source")),
        "notes": _notes(kernels),
        "multiprocessors": machine.multiprocessors,
        **_memory_size(kernels),
        **_peaks(machine, [*sections, *attended]),
        "memory_bound": _memory_bound(kernels, sections),
        "gemm": sections,
        "attention": attended,
    }
    return to_text(document)


def _memory_size(kernels: Kernels) -> dict[str, float]:
    size = kernels.facts.get("memory_bytes", "")
    return {"memory_bytes": float(size)} if size.isascii() and size.isdigit() and len(size) < 19 else {}


def _peaks(machine: Machine, data_types: Iterable[str]) -> dict[str, dict[str, float]]:
    """The rates that no kernel exceeds, if they are known."""
    found = {each: float(f"{peak:.5g}") for each in data_types if (peak := machine.bound(each)) is not None}
    return {"peak_flop_per_s": found} if found else {}


def includes_cast(kernels: Kernels, data_type: str) -> bool:
    """Whether products in a data type were measured with the cast of their left operand."""
    return _of_inference(kernels) and data_type in _CAST_TYPES


def _of_inference(kernels: Kernels) -> bool:
    return any(_PREPARING in each for each in kernels.named("software"))


def to_text(document: dict[str, Any]) -> str:
    """A document as JSON, with a line for each entry that holds no others, so that differences are readable."""
    return _text(document, "") + "\n"


def _text(value: Any, indent: str) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(flat) + len(indent) <= 118:
        return flat
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_text(each, indent + ' ')}" for key, each in value.items()]
        return "{\n" + ",\n".join(f"{indent} {each}" for each in inner) + f"\n{indent}}}"
    if all(isinstance(each, int | float) for each in value):
        return flat
    return "[\n" + ",\n".join(f"{indent} {_text(each, indent + ' ')}" for each in value) + f"\n{indent}]"


def _gemms(machine: Machine, kernels: Kernels, progress: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    sections = {}
    for data_type in kernels.named("data_type"):
        rows = kernels.products(data_type)
        plain = [row for row in rows if row.get("layout", "nt") == "nt"]
        if len(plain) < FEWEST_ROWS:
            _too_few(f"matrix products in {data_type}", len(plain), progress)
            continue
        progress(f"Fitting matrix products in {data_type}: {len(plain)} rows")
        measured, cast = products(plain), includes_cast(kernels, data_type)
        errors = held_out(measured, partial(gemm.fit_products, machine, data_type, casts=cast))
        fitted = gemm.fit_products(machine, data_type, measured, casts=cast)
        section = fitted.section
        for layout in ("nn", "tn"):
            factor = _factor(fitted, [row for row in rows if row.get("layout") == layout])
            if factor is not None:
                section["layouts"][layout] = factor
        grouped = kernels.products(data_type, "grouped_gemm")
        several = [row for row in grouped if row.get("layout", "nt") == "nt" and row.get("groups", 1) > 1]
        section["grouped"] = _factor(fitted, [row for row in several if row.get("backend") != "bmm"])
        sections[data_type] = {**section, **_libraries(machine, kernels, "gemm", data_type), "held_out": errors}
    return sections


def _too_few(what: str, rows: int, progress: Callable[[str], None]) -> None:
    """Says that rows are too few for a model."""
    if rows:
        progress(f"No model of {what}: {rows} rows, and a fit needs {FEWEST_ROWS}")


def _libraries(machine: Machine, kernels: Kernels, operation: str, data_type: str) -> dict[str, Any]:
    """Rates of libraries of training, where the measured kernels are those of inference."""
    rates = libraries(machine.name, operation, data_type) if _of_inference(kernels) else {}
    return {"libraries": rates} if rates else {}


def _factor(fitted: gemm.Fitted, rows: Sequence[Row]) -> float | None:
    """Median of measured over modelled time, as far as layout and groups go; None if too few rows were measured."""
    import numpy as np

    if len(rows) < _FEWEST_FACTOR_ROWS:
        return None
    models = fitted.models()
    times = [
        models.gemm("fit", row["m"], row["n"], row["k"], row.get("groups", 1), "nt", "measured")[0] for row in rows
    ]
    return round(float(np.median(np.array([row["seconds"] for row in rows]) / times)), 4)


def _attentions(
    machine: Machine, kernels: Kernels, progress: Callable[[str], None], *, prepares: bool
) -> dict[str, dict[str, Any]]:
    sections = {}
    for data_type in kernels.named("data_type"):
        passes: dict[str, dict[str, Any] | None] = {"forward": None, "backward": None}
        for direction in passes:
            rows = kernels.attention(data_type, direction)
            if len(rows) < FEWEST_ROWS:
                _too_few(f"attention {direction} in {data_type}", len(rows), progress)
                continue
            progress(f"Fitting attention {direction} in {data_type}: {len(rows)} rows")
            measured = attentions(rows)
            errors = held_out(measured, partial(attention.fit_attention, machine, data_type, prepares=prepares))
            fitted = attention.fit_attention(machine, data_type, measured, prepares=prepares)
            passes[direction] = {**fitted.section, "held_out": errors}
        forward, backward = passes["forward"], passes["backward"]
        if forward is not None:
            section = attention.data_type_section(data_type, forward, backward and {"fitted": backward})
            if backward is None:
                section["backward"] = {"rule": attention.BY_RULE.get(machine.name, attention.RULE)}
            sections[data_type] = {**section, **_libraries(machine, kernels, "attention", data_type)}
    return sections


def _memory_bound(kernels: Kernels, sections: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Launch time and rate of kernels that move bytes: fitted, or those of matrix products where none were measured."""
    import numpy as np

    from syncline.kernels.fitting.least_squares import Constant, fit
    from syncline.kernels.fitting.regression import Errors

    rows = [
        row
        for row in kernels.rows
        if row.get("bytes", 0) > 0
        and not row.get("flop")
        and row.get("launch", "graph") == "graph"
        and row.get("kernels", 1) == 1
    ]
    section = sections.get("bf16") or next(iter(sections.values()))
    launch, rate = section["constants"]["launch_s"], section["constants"]["memory_bytes_per_s"]
    if len(rows) < FEWEST_ROWS:
        return {"launch_s": launch, "bytes_per_s": rate, "range": [1, 1]}
    moved = np.array([row["bytes"] for row in rows], dtype=float)
    seconds = np.array([row["seconds"] for row in rows], dtype=float)
    order = np.random.default_rng(0).permutation(len(rows))
    constants = [Constant("launch_s", launch), Constant("bytes_per_s", rate)]

    def found(part: Any) -> list[float]:
        return fit(constants, lambda values: values[0] + moved[part] / values[1], seconds[part])

    fourth = np.sort(order[: len(rows) // 4])
    rest = np.sort(order[len(rows) // 4 :])
    few = found(fourth)
    errors = Errors.of(few[0] + moved[rest] / few[1], seconds[rest])
    launch, rate = found(np.arange(len(rows)))
    return {
        "launch_s": launch,
        "bytes_per_s": rate,
        "range": [int(moved.min()), int(moved.max())],
        "held_out": {"left_out": 0.75, "seed": 0, "constants_only": errors.as_dict()},
    }


def _notes(kernels: Kernels) -> list[str]:
    import numpy as np

    notes = []
    clocks = [int(row["sm_clock_mhz"]) for row in kernels.rows if row.get("sm_clock_mhz")]
    if clocks:
        notes.append(f"clock of the multiprocessors while kernels ran: median {int(np.median(clocks))} MHz")
    else:
        notes.append("the clock while kernels ran was not recorded: `throttle` holds how far it falls in long kernels")
    return notes
