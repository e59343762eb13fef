"""Products of several experts at once: batched, and grouped with as many tokens as each expert has."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from syncline.kernels.cases import Case, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

_EXPERTS = ((14336, 4096), (4096, 14336), (28672, 4096), (4096, 7168), (7168, 2048), (1536, 2048), (2048, 768))
"""Outputs and inputs of experts: Mixtral 8x7B, DeepSeek-V3, Qwen3 30B-A3B."""


def cases(*, quick: bool) -> list[Case]:
    """All grouped products."""
    if quick:
        return [_case(0, backend, "nt", 2, 16, 32, 48) for backend in ("bmm", "grouped_mm")]
    found = []
    for backend, groups, tokens, (out, into) in product(
        ("bmm", "grouped_mm"), (1, 2, 4, 8, 16, 32, 64), (32, 128, 512, 2048, 8192), _EXPERTS
    ):
        level = 0 if groups == 8 and tokens in (512, 2048) and (out, into) in _EXPERTS[3:5] else 1
        for layout, m, n, k in (("nt", tokens, out, into), ("nn", tokens, into, out), ("tn", out, into, tokens)):
            found.append(_case(level, backend, layout, groups, m, n, k))
    return [case for case in found if case.settings["flop"] <= 8e12 and case.settings["bytes"] <= 6e9]


def _case(level: int, backend: str, layout: str, groups: int, m: int, n: int, k: int) -> Case:
    size, flop = 2 * groups * (m * k + k * n + m * n), 2 * groups * m * n * k
    known = row(
        "grouped_gemm",
        pass_="forward" if layout == "nt" else "backward",
        backend=backend,
        data_type="bf16",
        layout=layout,
        m=m,
        n=n,
        k=k,
        groups=groups,
        bytes=size,
        flop=flop,
    )
    return Case(level, known, {"flop": flop, "bytes": size})


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times the products on operands in rotation."""
    shape: Any = case.row
    make = _batched if shape["backend"] == "bmm" else _grouped
    yield bench.time([make(shape, bench) for _ in range(bench.copies(shape["bytes"]))])


def _batched(shape: Any, bench: Bench) -> Callable[[], Any]:
    g, m, n, k, layout = (shape[key] for key in ("groups", "m", "n", "k", "layout"))
    out = bench.scratch(g, m, n)
    left = bench.random(g, k, m).transpose(1, 2) if layout == "tn" else bench.random(g, m, k)
    right = bench.random(g, n, k).transpose(1, 2) if layout == "nt" else bench.random(g, k, n)
    bmm = bench.torch.bmm
    return lambda: bmm(left, right, out=out)


def _grouped(shape: Any, bench: Bench) -> Callable[[], Any]:
    torch = bench.torch
    g, m, n, k, layout = (shape[key] for key in ("groups", "m", "n", "k", "layout"))
    grouped_mm = torch._grouped_mm  # noqa: SLF001 - public only from 2.10 on
    tokens = k if layout == "tn" else m
    ends = torch.arange(1, g + 1, dtype=torch.int32, device=bench.device) * tokens
    if layout == "tn":
        left, right = bench.random(g * k, m).t(), bench.random(g * k, n)
    else:
        left = bench.random(g * m, k)
        right = bench.random(g, n, k).transpose(1, 2) if layout == "nt" else bench.random(g, k, n)
    return lambda: grouped_mm(left, right, offs=ends)
