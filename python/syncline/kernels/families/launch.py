"""What a launch costs: of a kernel in a CUDA graph, of one from Python, and of a graph.

The kernel adds to one element, or is a small operation of a layer, so that launching takes most of the time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from syncline.kernels.bench import backward
from syncline.kernels.bench import summary as summarise
from syncline.kernels.cases import Case, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

_KERNELS = ("add", "mm", "linear_no_grad", "linear_grad", "layer_norm", "attention", "linear_backward")


def cases(*, quick: bool) -> list[Case]:
    """The variants: ``eager_host`` is the host's time of a launch from Python, ``eager_total`` until all have run."""
    found = [Case(0, row("launch", variant="eager", backend=name)) for name in _KERNELS]
    if not quick:
        found += [Case(0, row("launch", variant="graph", groups=count)) for count in (1, 10, 100, 1000, 4000)]
    return found


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times launches; each case yields a row for the host and one for the device."""
    if case.row["variant"] == "graph":
        yield from _graph(int(case.row["groups"] or 1), bench)
        return
    call = _small(str(case.row["backend"]), bench)
    many = 20 if bench.row_s < 0.02 else 500
    for _ in range(3):
        call()
    bench.synchronize()
    host, total = [], []
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(many):
            call()
        host.append((time.perf_counter() - began) / many)
        bench.synchronize()
        total.append((time.perf_counter() - began) / many)
    yield {"variant": "eager_host", "launch": "host", **summarise(host)}
    yield {"variant": "eager_total", "launch": "host", **summarise(total)}


def _graph(count: int, bench: Bench) -> Iterator[Row]:
    torch = bench.torch
    one = torch.zeros(1, device=bench.device)
    graph, _ = bench.capture([lambda: one.add_(1)], count)
    graph.replay()
    bench.synchronize()
    host, total = [], []
    for _ in range(20):
        began = time.perf_counter()
        graph.replay()
        host.append(time.perf_counter() - began)
        bench.synchronize()
        total.append(time.perf_counter() - began)
    yield {"variant": "graph_host", "launch": "host", "kernels": count, **summarise(host)}
    yield {"variant": "graph_total", "launch": "host", "kernels": count, **summarise(total)}
    # Replays queue up, so that the device starts one after another without a gap.
    event = torch.cuda.Event
    many = max(2, 2000 // count)
    times = []
    for _ in range(7):
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        for _ in range(many):
            graph.replay()
        end.record()
        bench.synchronize()
        times.append(start.elapsed_time(end) * 1e-3 / many)
    yield {"variant": "graph_device", "launch": "graph", "kernels": count, **summarise(times)}
    graph.reset()


def _small(name: str, bench: Bench) -> Callable[[], Any]:
    torch = bench.torch
    functional = torch.nn.functional
    x = bench.random(64, 64)
    w = bench.random(64, 64)
    if name == "add":
        one = torch.zeros(1, device=bench.device)
        return lambda: one.add_(1)
    if name == "mm":
        out = bench.scratch(64, 64)
        return lambda: torch.mm(x, w, out=out)
    if name == "layer_norm":
        ones = torch.ones(64, dtype=torch.bfloat16, device=bench.device)
        return lambda: functional.layer_norm(x, (64,), ones, ones)
    if name == "attention":
        q = bench.random(1, 1, 64, 64)
        return lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    if name != "linear_no_grad":
        w.requires_grad_()
        x.requires_grad_()
    if name == "linear_backward":
        return backward(torch, functional.linear(x, w), (x, w), bench.random(64, 64))
    return lambda: functional.linear(x, w)
