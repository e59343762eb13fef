"""Runs tests that need one GPU for each rank on CPUs: tensors for a GPU stay on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed

CPU = torch.device("cpu")

SILENT = ["set_device", "synchronize", "manual_seed", "empty_cache", "manual_seed_all"]
"""Functions of ``torch.cuda`` that do nothing on a CPU."""


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return CPU
    return value


class OnCpu(TorchFunctionMode):
    """Replaces GPUs by the CPU in all calls of PyTorch functions."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if "device" in kwargs:
            kwargs["device"] = CPU if isinstance(kwargs["device"], int) else _on_cpu(kwargs["device"])
        if func is torch.Tensor.to:
            # An integer is the number of a GPU.
            args = (args[0], *(CPU if type(value) is int else _on_cpu(value) for value in args[1:]))
        return func(*args, **kwargs)


def gates() -> None:
    """Disables the checks that skip tests without GPUs. Call it before the tests are imported."""

    def open_gate(function: Any) -> Any:
        return function

    common_distributed.skip_if_no_gpu = open_gate
    common_distributed.skip_if_lt_x_gpu = lambda *_, **__: open_gate
    # The tests with this check need four ranks, rather than the eight that it requires.
    common_distributed.skip_if_small_worldsize = open_gate
    common_distributed.nccl_skip_if_lt_x_gpu = lambda *_, **__: open_gate
    common_distributed.init_multigpu_helper = lambda world, _: {rank: [rank] for rank in range(world)}


def ranks() -> None:
    """Makes this process, which is a rank, use no GPU."""
    for name in SILENT:
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.current_device = lambda: 0
    torch.nn.Module.cuda = lambda self, *_, **__: self
    plain = DistributedDataParallel.__init__

    def init(self, module, device_ids=None, output_device=None, **more):
        # On CPUs, DDP takes no numbers of devices.
        del device_ids, output_device
        plain(self, module, **more)

    DistributedDataParallel.__init__ = init
    OnCpu().__enter__()
