"""Makes PyTorch's tests for Gloo run over any backend, by changing the checks that select tests by backend."""

from __future__ import annotations

import os
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed

from tests.torch_suite import cpu

TABLES = ["PROFILING_SUPPORTED_BACKENDS", "CUDA_PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"]
"""Lists of backends that the tests consult while they run."""


class Widened(str):
    """The name of a backend that also equals "gloo"."""

    __slots__ = ()

    def __eq__(self, other):
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def widened(backend: str) -> type[unittest.TestCase]:
    """Returns the tests for a backend.

    While the module of the tests is imported, checks read ``BACKEND``, so it must be "gloo" then. Afterwards it is the
    backend's name, which also equals "gloo".
    """
    os.environ["BACKEND"] = "gloo"
    cpu.gates()
    # The backend registers itself here. Ranks are copies of this process, and do not import it again.
    dist.Backend._ensure_backend_registered(backend)
    for feature in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in feature:
            feature.add(backend)
    from torch.testing._internal.distributed import distributed_test

    os.environ["BACKEND"] = backend
    distributed_test.BACKEND = Widened(backend)
    for name in TABLES:
        table = getattr(distributed_test, name, [])
        if "gloo" in table and backend not in table:
            table.append(backend)

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            # Fork ranks, because this process has imported PyTorch already.
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank, *arguments, **more):
            cpu.ranks()
            super()._run(rank, *arguments, **more)

    return Suite


def names(tests: type[unittest.TestCase]) -> list[str]:
    """Returns the names of all tests, including skipped ones."""
    return unittest.TestLoader().getTestCaseNames(tests)
