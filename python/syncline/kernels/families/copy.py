"""Copies within the device, to and from the host, and memsets, by bytes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from syncline.kernels.cases import Case, row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

_HOST = ("host_to_device", "device_to_host")


def cases(*, quick: bool) -> list[Case]:
    """All copies. ``elements`` is the number of bytes copied, ``bytes`` what device memory reads and writes."""
    if quick:
        return [_case(0, name, None, 1 << 12) for name in ("copy", "memset")]
    found = []
    for power in range(10, 32):
        level = 0 if power % 4 == 0 or power >= 30 else 1
        found += [_case(level, name, None, 1 << power) for name in ("copy", "memset")]
        if power <= 30:
            for variant in ("pinned", "pageable"):
                if variant == "pinned" or power <= 28:
                    found += [_case(level, name, variant, 1 << power) for name in _HOST]
    return found


def _case(level: int, operation: str, variant: str | None, size: int) -> Case:
    moved = 2 * size if operation == "copy" else size
    return Case(level, row(operation, variant=variant, elements=size, bytes=moved))


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times copies between buffers in rotation."""
    torch = bench.torch
    shape: Any = case.row
    size, operation = shape["elements"], shape["operation"]
    if operation not in _HOST:
        pairs = [
            (bench.scratch(size // 2), bench.random(size // 2) if operation == "copy" else None)
            for _ in range(bench.copies(shape["bytes"]))
        ]
        yield bench.time([to.zero_ if source is None else partial(to.copy_, source) for to, source in pairs])
        return
    # Random numbers of the pool stay as they are.
    there = bench.scratch(size // 2) if operation == "host_to_device" else bench.random(size // 2)
    here = torch.zeros(size // 2, dtype=torch.bfloat16, pin_memory=shape["variant"] == "pinned" and bench.cuda)
    to, source = (there, here) if operation == "host_to_device" else (here, there)
    if shape["variant"] == "pinned":
        # Copies of pinned memory run beside the host; a graph would do the same.
        yield bench.time([lambda: to.copy_(source, non_blocking=True)], capture=False)
    else:
        yield bench.host_time(lambda: to.copy_(source))
