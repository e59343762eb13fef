"""Steps of AdamW, and clipping of gradients, by number of parameters."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from syncline.kernels.cases import Case, row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

_TENSOR = 1 << 24
"""Parameters of a tensor: as many as a linear layer of 4,096 x 4,096 has."""


def cases(*, quick: bool) -> list[Case]:
    """All optimizer steps."""
    sizes = {0: (1 << 12,)} if quick else {0: (1 << 24, 1 << 28, 1 << 30), 1: (1 << 20, 1 << 22, 1 << 26, 1 << 27)}
    found = []
    for level, counts in sizes.items():
        for kind, count in product(("fp32", "bf16"), counts):
            size = 4 if kind == "fp32" else 2
            # Adam reads parameters, gradients and two moments, and writes all but the gradients.
            found.append(_case(level, "adamw", "fused", kind, count, 7 * size * count))
            found.append(_case(level, "clip_gradients", None, kind, count, 3 * size * count))
            if level or quick:
                found.append(_case(1, "adamw", "foreach", kind, count, 7 * size * count))
    return found


def _case(level: int, operation: str, variant: str | None, kind: str, count: int, size: int) -> Case:
    known = row(operation, variant=variant, data_type=kind, groups=max(1, count // _TENSOR), elements=count, bytes=size)
    return Case(level, known)


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times steps on parameters of their own: they change."""
    torch = bench.torch
    shape: Any = case.row
    many, kind = shape["groups"], bench.types[shape["data_type"]]
    copies = bench.copies(shape["bytes"] // 2)
    calls = []
    for _ in range(min(copies, 8)):
        parameters = [
            torch.nn.Parameter(torch.empty(shape["elements"] // many, dtype=kind, device=bench.device).normal_())
            for _ in range(many)
        ]
        for each in parameters:
            each.grad = torch.empty_like(each).normal_()
        if shape["operation"] == "clip_gradients":
            calls.append(_clip(torch, parameters))
        else:
            more = {"fused": True} if shape["variant"] == "fused" else {"foreach": True}
            optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, capturable=bench.cuda, **more)
            calls.append(optimizer.step)
    yield bench.time(calls)


def _clip(torch: Any, parameters: list[Any]) -> Any:
    return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)
