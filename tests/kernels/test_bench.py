"""Timing: operands rotate, random numbers stay as they are, and graphs count as their calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from types import SimpleNamespace

import pytest

if find_spec("torch") is None:
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch

from syncline.kernels import cases
from syncline.kernels.bench import MAX_COPIES, Bench, CaptureError

REPLAY_S = 0.002


class Graph:
    """Stands in for a CUDA graph; each replay takes :data:`REPLAY_S`."""

    fails = False

    def __init__(self, keep_graph: bool = False) -> None:
        self.keep_graph = keep_graph

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        assert pool is not None

    def capture_end(self) -> None:
        if self.fails and self.keep_graph:
            raise RuntimeError("operation failed due to a previous error during capture")

    def replay(self) -> None:
        time.sleep(REPLAY_S)

    def reset(self) -> None:
        pass


class Event:
    """Stands in for a CUDA event, with the host's clock."""

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that takes the processor for a GPU with 64 KiB of L2 cache."""
    about = SimpleNamespace(L2_cache_size=1 << 16, total_memory=1 << 26)
    fakes = {
        "CUDAGraph": Graph,
        "Event": Event,
        "synchronize": lambda: None,
        "graph_pool_handle": lambda: (0, 1),
        "memory_reserved": lambda: 0,
        "get_device_properties": lambda _: about,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *size, **more: zeros(*size, **{**more, "device": "cpu"}))
    made = Bench(torch, "cpu", row_s=0.01, pool_bytes=1 << 22)
    made.cuda = True
    threads = torch.get_num_threads()
    # On a busy machine, threads wait for each other longer than tiny shapes take.
    torch.set_num_threads(1)
    made.start()
    yield made
    torch.set_num_threads(threads)


def test_operands_together_exceed_twice_the_cache(bench: Bench) -> None:
    assert bench.copies(1 << 14) * (1 << 14) >= 2 * bench.cache_bytes
    assert bench.copies(1 << 30) == 1
    assert bench.copies(1) == MAX_COPIES


def test_tensors_of_one_case_do_not_overlap(bench: Bench) -> None:
    bench.begin()
    made = [bench.random(10, 100) for _ in range(50)]
    ends = sorted((each.data_ptr(), each.data_ptr() + 2000) for each in made)
    assert all(first[1] <= second[0] for first, second in pairwise(ends))
    # The pool is full some time: then a tensor has memory of its own.
    assert bench.random(1 << 21).std() > 0.9


def test_the_time_of_a_call_is_that_of_the_graph_by_its_calls(bench: Bench) -> None:
    ran = []
    found = bench.time([lambda: ran.append(1), lambda: ran.append(2)])
    assert found["launch"] == "graph"
    count = len(ran) - 4
    assert found["seconds"] == pytest.approx(REPLAY_S / count, rel=0.5)
    assert ran[4:] == [1, 2] * (count // 2)


def test_calls_are_launched_one_by_one_where_no_graph_is_allowed(bench: Bench) -> None:
    bench.begin(capture=False)
    assert bench.time([lambda: time.sleep(0.001)])["launch"] == "loop"


def test_a_capture_that_fails_is_told_from_other_errors(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Graph, "fails", True)
    with pytest.raises(CaptureError, match="during capture"):
        bench.time([lambda: None])

    def unsupported() -> None:
        raise RuntimeError("no kernel")

    with pytest.raises(RuntimeError, match="no kernel") as raised:
        bench.time([unsupported])
    assert not isinstance(raised.value, CaptureError)


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_no_case_changes_the_random_numbers(family: str, bench: Bench) -> None:
    before = {name: bench._pools[name].float().sum() for name in ("bf16", "fp32", "fp8_e4m3")}
    module = cases.family(family)
    # The optimizer `foreach` insists on a GPU.
    for case in (each for each in module.cases(quick=True) if each.row.get("variant") != "foreach"):
        bench.begin()
        assert list(module.measure(case, bench))
    assert {name: bench._pools[name].float().sum() for name in before} == before
