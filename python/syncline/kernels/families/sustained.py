"""One large matrix product again and again, with clock, power and temperature every half second.

It tells the rate of a device that is hot and limited by its power from that of a short burst. Zeros switch fewer
transistors than random numbers, and run at higher clocks.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from syncline.kernels.bench import summary as summarise
from syncline.kernels.cases import Case, row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

_INTERVAL_S = 0.5


def cases(*, quick: bool) -> list[Case]:
    """Both data types, with random numbers and with zeros."""
    size, both = (64, ("bf16",)) if quick else (8192, ("bf16", "fp8_e4m3"))
    return [
        Case(
            0,
            row(
                "sustained_gemm",
                variant=variant,
                data_type=kind,
                layout="nt",
                m=size,
                n=size,
                k=size,
                bytes=((2 if kind == "bf16" else 1) * 2 + 2) * size * size,
                flop=2 * size**3,
            ),
            {"seconds": 0.05 if quick else seconds},
        )
        for variant, seconds in (("random", 8.0), ("zeros", 4.0))
        for kind in both
    ]


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Runs the product for some seconds; yields a row for each interval."""
    torch = bench.torch
    shape: Any = case.row
    size = shape["m"]
    zeros = shape["variant"] == "zeros"

    def operand() -> Any:
        kind = bench.types[shape["data_type"]]
        found = bench.random(size, size, data_type=shape["data_type"])
        return torch.zeros(size, size, dtype=torch.bfloat16, device=bench.device).to(kind) if zeros else found

    left, right = operand(), operand().t()
    if shape["data_type"] == "bf16":
        out = bench.scratch(size, size)

        def call() -> Any:
            return torch.mm(left, right, out=out)
    else:
        one = torch.ones((), device=bench.device)

        def call() -> Any:
            return torch._scaled_mm(  # noqa: SLF001 - the only way to fp8
                left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
            )

    call()
    bench.synchronize()
    interval = min(_INTERVAL_S, case.settings["seconds"] / 2)
    until = time.perf_counter() + case.settings["seconds"]
    while time.perf_counter() < until:
        times: list[float] = []
        gauged: list[Row] = []
        ends = time.perf_counter() + interval
        while time.perf_counter() < ends:
            times += _burst(bench, call, gauged)
        yield {"launch": "loop", **summarise(times), **_mean(gauged)}


def _burst(bench: Bench, call: Any, gauged: list[Row]) -> list[float]:
    """Some calls, queued at once, so that the device does not wait for the host but between bursts."""
    if not bench.cuda:
        began = time.perf_counter()
        call()
        return [time.perf_counter() - began]
    event = bench.torch.cuda.Event
    marks = [event(enable_timing=True) for _ in range(51)]
    for mark in marks[:-1]:
        mark.record()
        call()
    marks[-1].record()
    gauged.append(bench.gauge.read())
    bench.synchronize()
    return [first.elapsed_time(second) * 1e-3 for first, second in pairwise(marks)]


def _mean(gauged: list[Row]) -> Row:
    found: Row = {}
    for name in ("sm_clock_mhz", "power_w", "temperature_c"):
        values = [value for each in gauged if isinstance(value := each.get(name), (int, float))]
        if values:
            mean = sum(values) / len(values)
            found[name] = mean if name == "power_w" else round(mean)
    return found
