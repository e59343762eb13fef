"""Kernels against their roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import percent
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from syncline.jobs.detail import Detail, Kernel
    from syncline.jobs.estimation import Estimate

_ROOFS = {"fp16": "bf16", "mxfp8": "fp8", "nvfp4": "fp8"}
"""Data types that are shown against the peak of another one."""


def chart(estimate: Estimate, detail: Detail) -> Chart | None:
    """Kernels below the roofs of the accelerator; None if its data sheet is not known."""
    card = estimate.job.machine.card
    if card is None:
        return None
    used = dict.fromkeys(_type(each) for each in detail.kernels if each.precision)
    types = [name for name in used if name in card.peak_flop_per_s]
    peaks: Mapping[str, float] = {name: card.peak_flop_per_s[name] for name in types}
    rows = sorted(detail.kernels, key=lambda each: -each.times * each.each_s)
    whole = sum(each.times * each.each_s for each in rows)
    first = rows[0]
    return Chart(
        "estimate_kernels",
        "Kernels against their roofline",
        f"Most time goes to {_named(first)}: {percent(first.times * first.each_s / whole)} of all kernels, at"
        f" {percent(_attained(first, peaks, estimate.job.machine.memory_bytes_per_s))} of its roof.",
        "A bar is the rate of a kernel in training, at the clock that the power allows, as a part of its roof: the"
        " peak of its data type on the data sheet, without sparsity, or the rate of memory if that is lower. Each"
        " operand and result moves once between memory and multiprocessors. The selector shows the same as a roofline:"
        " across, operations for each byte; a larger point takes more of the step. There, kernels that only move bytes"
        " stand at 0.5 operations a byte, as far below the slanted line as their rate is.",
        {
            "name": [_named(each) for each in rows],
            "group": [_group(each) for each in rows],
            "times": rounded([each.times for each in rows]),
            "each": rounded([each.each_s for each in rows]),
            "flop": rounded([each.flop for each in rows]),
            "bytes": rounded([each.bytes for each in rows]),
            "peak": [types.index(_type(each)) if each.precision else -1 for each in rows],
            "peaks": [{"name": f"peak in {name}", "flop_per_s": peaks[name]} for name in types],
            "bytes_per_s": estimate.job.machine.memory_bytes_per_s,
        },
        tuple(_notes(estimate)),
    )


def _notes(estimate: Estimate) -> Iterator[str]:
    if estimate.job.job.precision == "nvfp4":
        yield "The peak in NVFP4 is not drawn: products in it are shown against the peak in fp8."


def _type(kernel: Kernel) -> str:
    """The data type whose peak is a kernel's roof; "" if it only moves bytes."""
    return _ROOFS.get(kernel.precision or "", kernel.precision or "")


def _named(kernel: Kernel) -> str:
    return f"{kernel.name}: {kernel.which}"


def _group(kernel: Kernel) -> str:
    if kernel.precision is None:
        return "only bytes"
    return "attention" if kernel.name.startswith("attention") else "matrix products"


def _attained(kernel: Kernel, peaks: Mapping[str, float], bytes_per_s: float) -> float:
    """The part of its roof that a kernel attains."""
    at_memory = kernel.bytes / bytes_per_s
    peak = peaks.get(_type(kernel))
    return max(at_memory, kernel.flop / peak if peak else 0.0) / kernel.each_s
