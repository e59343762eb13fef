"""Times kernels: on buffers from a pool, in CUDA graphs if possible, with medians of several repeats."""

from __future__ import annotations

import ctypes
import itertools
import math
import statistics
import time
from typing import TYPE_CHECKING, Any

from syncline.kernels.device import Gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.kernels.columns import Row

MAX_COPIES = 64
"""At most so many sets of operands rotate. Smaller operands stay in the cache in spite of that."""
MAX_LAUNCHES = 160
"""At most so many calls are in a graph."""
_GRAPH_S = 2e-3
"""A graph holds so much work at least, if :data:`MAX_LAUNCHES` allows, so that its own start is negligible."""
_ALIGNMENT = 256
_POOLS = {"bf16": 0.45, "fp32": 0.2, "fp8_e4m3": 0.05, "fp16": 0.05, "scratch": 0.25}
"""The part of memory for pools that each of them gets."""


class CaptureError(RuntimeError):
    """A CUDA graph cannot be captured of some calls. Only a new process can be trusted after that."""


class Bench:
    """A device with its pools of random numbers and scratch memory, and a way to time calls on it."""

    def __init__(self, torch: Any, device: str, *, row_s: float, pool_bytes: int | None = None) -> None:
        """``row_s`` is how long the timed repeats of a row take together, if it has more than a few.

        Call :meth:`start` before anything else.
        """
        self.torch = torch
        self.device = device
        self.cuda = device == "cuda"
        self.row_s = row_s
        self.gauge = Gauge(device)
        self.cache_bytes = 0
        """Operands together exceed twice this size, so that calls do not find them in the cache."""
        self._pools: dict[str, Any] = {}
        self._used: dict[str, int] = {}
        self._pool_bytes = pool_bytes
        self._graph_pool: Any = None
        self._anchor: Any = None
        self._captures = True
        self._driver: Any = None
        self._total = 1 << 28
        self.types = {
            "bf16": torch.bfloat16,
            "fp16": torch.float16,
            "fp32": torch.float32,
            "tf32": torch.float32,
            "fp8_e4m3": getattr(torch, "float8_e4m3fn", None),
            "int64": torch.int64,
        }

    def start(self) -> None:
        """Fills the pools. On a GPU, a stream of the caller's own is current: the default one cannot be captured."""
        torch = self.torch
        torch.manual_seed(1)
        if self.cuda:
            about = torch.cuda.get_device_properties(0)
            self.cache_bytes = getattr(about, "L2_cache_size", 50 << 20)
            self._total = about.total_memory
            self._graph_pool = torch.cuda.graph_pool_handle()
            try:
                self._driver = ctypes.CDLL("libcuda.so.1")
            except OSError:
                self._driver = None
        budget = self._pool_bytes or min(24 << 30, self._total // 4)
        while True:
            try:
                for name, part in _POOLS.items():
                    self._fill(name, int(budget * part))
                self.synchronize()
            except RuntimeError:
                # Others use the device's memory too; operands that find no room get memory of their own.
                if budget < 1 << 26:
                    raise
                budget //= 4
                self._pools.clear()
            else:
                return

    def _fill(self, name: str, size: int) -> None:
        torch = self.torch
        if name == "scratch":
            self._pools[name] = torch.zeros(size, dtype=torch.uint8, device=self.device)
        elif name == "fp8_e4m3":
            if (kind := self.types[name]) is not None:
                self._pools[name] = self._pools["bf16"][:size].to(kind)
        else:
            kind = self.types[name]
            count = size // torch.empty((), dtype=kind).element_size()
            self._pools[name] = torch.empty(count, dtype=kind, device=self.device).normal_()
        self._used[name] = 0

    def begin(self, *, capture: bool = True) -> None:
        """Starts a case: all pools are free again. ``capture`` allows CUDA graphs."""
        self._captures = capture
        self._used = dict.fromkeys(self._used, 0)
        if self.cuda and self.torch.cuda.memory_reserved() > 0.75 * self._total:
            self.recover()
        self.torch.set_float32_matmul_precision("highest")

    def recover(self) -> None:
        """Frees cached memory, after a case that failed."""
        if self.cuda:
            self._anchor = None
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()
            # A pool whose graphs are gone cannot be used again.
            self._graph_pool = self.torch.cuda.graph_pool_handle()

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def random(self, *shape: int, data_type: str = "bf16") -> Any:
        """A tensor of normal random numbers, from the pool if it has room; calls in one case do not overlap."""
        name = "fp32" if data_type == "tf32" else data_type
        kind, count = self.types[name], math.prod(shape)
        if kind is None:
            raise RuntimeError(f"this PyTorch has no {data_type}")
        if (flat := self._take(name, count)) is not None:
            return flat.view(shape)
        if name == "fp8_e4m3":
            return self.torch.empty(shape, dtype=self.torch.bfloat16, device=self.device).normal_().to(kind)
        return self.torch.empty(shape, dtype=kind, device=self.device).normal_()

    def scratch(self, *shape: int, data_type: str = "bf16") -> Any:
        """A tensor to write to, with any contents."""
        kind = self.types[data_type]
        size = self.torch.empty((), dtype=kind).element_size()
        if (flat := self._take("scratch", math.prod(shape) * size)) is not None:
            return flat.view(kind).view(shape)
        return self.torch.empty(shape, dtype=kind, device=self.device)

    def _take(self, name: str, count: int) -> Any:
        pool = self._pools.get(name)
        start = self._used.get(name, 0)
        if pool is None or start + count > pool.numel():
            return None
        self._used[name] = -(-(start + count) // _ALIGNMENT) * _ALIGNMENT
        return pool[start : start + count]

    def copies(self, footprint: int) -> int:
        """How many sets of operands of ``footprint`` bytes rotate."""
        return max(1, min(MAX_COPIES, -(-2 * self.cache_bytes // max(1, footprint))))

    def time(self, calls: Sequence[Callable[[], Any]], *, capture: bool = True, repeats: int = 5) -> Row:
        """Times calls that do the same on different operands; ``capture`` allows a CUDA graph.

        The row has the columns from ``launch`` to ``repeats``, and clock, power and temperature.
        """
        for call in calls:
            call()
        self.synchronize()
        began = time.perf_counter()
        for call in calls[:8]:
            call()
        self.synchronize()
        estimate = max(1e-7, (time.perf_counter() - began) / len(calls[:8]))
        found: Row = {"copies": len(calls)}
        if self.cuda and capture and self._captures:
            return {**found, **self._time_graph(calls, estimate, repeats)}
        return {**found, **self._time_loop(calls, estimate, repeats)}

    def capture(self, calls: Sequence[Callable[[], Any]], count: int) -> Any:
        """A CUDA graph of ``count`` calls, and the number of its nodes (None if unknown)."""
        torch = self.torch
        if torch.cuda.memory_reserved() > 0.5 * self._total:
            # A capture cannot free what calls before it have left in the cache.
            torch.cuda.empty_cache()
        if self._anchor is None:
            # A graph that lives on keeps the memory of the pool, which later graphs then use again.
            self._anchor = torch.cuda.CUDAGraph()
            some = torch.zeros(1, device="cuda")
            self.synchronize()
            self._record(self._anchor, [lambda: some + 1], 1)
        try:
            graph = torch.cuda.CUDAGraph(keep_graph=True)
        except TypeError:
            graph = torch.cuda.CUDAGraph()
        self._record(graph, calls, count)
        nodes = self._nodes(graph)
        if hasattr(graph, "instantiate") and nodes is not None:
            graph.instantiate()
        return graph, nodes

    def _record(self, graph: Any, calls: Sequence[Callable[[], Any]], count: int) -> None:
        """Captures without ``torch.cuda.graph``, which collects garbage each time."""
        self.synchronize()
        graph.capture_begin(pool=self._graph_pool, capture_error_mode="thread_local")
        try:
            for call in itertools.islice(itertools.cycle(calls), count):
                call()
        except BaseException as problem:
            try:
                graph.capture_end()
            except RuntimeError:
                raise CaptureError(str(problem)) from problem
            raise
        try:
            graph.capture_end()
        except RuntimeError as problem:
            raise CaptureError(str(problem)) from problem

    def _nodes(self, graph: Any) -> int | None:
        if self._driver is None or not hasattr(graph, "raw_cuda_graph"):
            return None
        try:
            many = ctypes.c_size_t(0)
            raw = ctypes.c_void_p(int(graph.raw_cuda_graph()))
            status = self._driver.cuGraphGetNodes(raw, None, ctypes.byref(many))
        except (RuntimeError, TypeError, AttributeError):
            return None
        return many.value if status == 0 else None

    def _time_graph(self, calls: Sequence[Callable[[], Any]], estimate: float, repeats: int) -> Row:
        count = max(min(MAX_LAUNCHES, math.ceil(_GRAPH_S / estimate)), min(len(calls), MAX_LAUNCHES))
        graph, nodes = self.capture(calls, count)
        try:
            began = time.perf_counter()
            graph.replay()
            self.synchronize()
            once = max(1e-6, time.perf_counter() - began)
            many = max(repeats, min(30, int(self.row_s / once)))
            times, gauged = self._events([graph.replay], many)
        finally:
            graph.reset()
        kernels = None if nodes is None else round(nodes / count)
        return {"launch": "graph", "kernels": kernels, **summary([each / count for each in times]), **gauged}

    def _time_loop(self, calls: Sequence[Callable[[], Any]], estimate: float, repeats: int) -> Row:
        many = max(repeats, min(50, int(self.row_s / estimate)))
        if self.cuda:
            times, gauged = self._events(calls, many)
            return {"launch": "loop", **summary(times), **gauged}
        times = []
        for call in itertools.islice(itertools.cycle(calls), many):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return {"launch": "loop", **summary(times)}

    def _events(self, calls: Sequence[Callable[[], Any]], many: int) -> tuple[list[float], Row]:
        """Seconds of each of ``many`` calls by CUDA events, and what the gauge reads while they run."""
        event = self.torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(many)]
        for (start, end), call in zip(pairs, itertools.cycle(calls), strict=False):
            start.record()
            call()
            end.record()
        gauged = self.gauge.read()
        self.synchronize()
        return [start.elapsed_time(end) * 1e-3 for start, end in pairs], gauged

    def host_time(self, call: Callable[[], Any], *, repeats: int = 5) -> Row:
        """Times calls by the host's clock until the device is done, as of copies that block the host."""
        call()
        self.synchronize()
        began = time.perf_counter()
        call()
        self.synchronize()
        many = max(repeats, min(30, int(self.row_s / max(1e-6, time.perf_counter() - began))))
        times = []
        for _ in range(many):
            began = time.perf_counter()
            call()
            self.synchronize()
            times.append(time.perf_counter() - began)
        return {"launch": "host", **summary(times)}


def summary(times: Sequence[float]) -> Row:
    """The columns of several times: median, percentiles and number."""
    ranked = sorted(times)
    last = len(ranked) - 1
    return {
        "seconds": statistics.median(ranked),
        "p10_s": ranked[round(0.1 * last)],
        "p90_s": ranked[round(0.9 * last)],
        "repeats": len(ranked),
    }


def backward(torch: Any, output: Any, inputs: Sequence[Any], gradient: Any) -> Callable[[], Any]:
    """A call that runs the backward pass of ``output`` alone, as often as wanted."""
    wanted = tuple(inputs)
    return lambda: torch.autograd.grad(output, wanted, gradient, retain_graph=True)
