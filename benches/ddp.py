"""Samples per second of DDP over `syncline` and over Gloo, on an emulated cluster.

Four hosts in two racks, with 1 Gb/s to each host and between the racks. Ranks are numbered so that neighbours are in
different racks, as a scheduler may place them: a ring crosses the core at every step. Gloo cannot change that; syncline
reads the racks from a file. Needs root (network namespaces) and a Python that has PyTorch.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from emulated import TESTBED, can_emulate
from emulated import name as bed_name
from peers import ROUNDS, answer, arguments, output_of
from requirement import requirement

import syncline

SPEC = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 2, hosts_per_leaf: 2, spines: 1, rate: 1Gb/s, uplink_rate: 1Gb/s }}
"""
PACKAGE = Path(syncline.__file__).parents[1]
"""The folder that contains the package."""
ALTERNATING = "0,2,1,3"
RACKS = "0 2\n1 3\n"
"""Ranks of each rack, in the order ``ALTERNATING``."""
WARM, STEPS = 3, 6
BARS = {"resnet18": 1.25, "mlp": 1.8}
"""For each model, the required ratio of syncline's samples per second to Gloo's."""


def resnet18() -> tuple[Any, Any]:
    """ResNet-18 with a stem for CIFAR: 11.2 M parameters. Batches of 8."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outer),
                nn.ReLU(),
                nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outer),
            )
            same = stride == 1 and inner == outer
            short = [nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)]
            self.short = nn.Identity() if same else nn.Sequential(*short)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(value) + self.short(value))

    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [Block(*each) for each in [*widths, (512, 512, 1)]]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return model, torch.randn(8, 3, 32, 32)


def mlp() -> tuple[Any, Any]:
    """Four layers of 2048: 16.8 M parameters, hardly any computation. Batches of 32."""
    import torch
    from torch import nn

    layers = [layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(32, 2048)


def rank(backend: str, name: str, racks: str) -> None:
    """Trains as one rank; rank 0 prints the seconds of each step."""
    import torch
    import torch.distributed as dist

    from syncline.runtime import Plans
    from syncline.torch import Options

    torch.set_num_threads(1)
    dist.init_process_group(backend, pg_options=Options(plans=Plans(racks=racks)) if backend == "syncline" else None)
    torch.manual_seed(0)
    model, data = {"resnet18": resnet18, "mlp": mlp}[name]()
    trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)

    def steps(module: torch.nn.Module) -> list[float]:
        times = []
        for _ in range(WARM + STEPS):
            began = time.perf_counter()
            optimizer.zero_grad()
            module(data).square().mean().backward()
            optimizer.step()
            times.append(time.perf_counter() - began)
        return times[WARM:]

    times = steps(trained)
    dist.barrier()
    alone = steps(model)
    if dist.get_rank() == 0:
        found = {"seconds": times, "alone": alone, "samples": len(data) * dist.get_world_size()}
        sys.stdout.write(json.dumps(found) + "\n")
    dist.destroy_process_group()


def measure(python: str, bed: str, backend: str, name: str, racks: str) -> dict[str, Any]:
    """Returns the seconds of each step, the seconds of steps that only compute, and the samples of a step."""
    program = [python, "-W", "ignore", __file__, "--rank", backend, name, racks]
    # The other Python may not have syncline installed.
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return answer(output_of([*TESTBED, "run", bed, "--hosts", ALTERNATING, "--", *program], environment))


def main(given: list[str]) -> None:
    """Measures both backends in turn, and prints a line for each model."""
    python, names = arguments(given, BARS)
    if not can_emulate() or python is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        bed = Path(folder) / "bed.yaml"
        bed.write_text(SPEC.format(name=bed_name("ddp-bench")))
        racks = Path(folder) / "racks.txt"
        racks.write_text(RACKS)
        sys.stdout.write("syncline reads from a file which rank is in which rack; Gloo cannot.\n")
        for name in names:
            times: dict[str, list[float]] = {"gloo": [], "syncline": []}
            alone: list[float] = []
            samples = 0
            for _ in range(ROUNDS):
                for backend, found in times.items():
                    said = measure(python, str(bed), backend, name, str(racks))
                    found += said["seconds"]
                    alone += said["alone"]
                    samples = said["samples"]
            rates = {backend: samples / statistics.median(found) for backend, found in times.items()}
            ratio = rates["syncline"] / rates["gloo"]
            each = ", ".join(f"{backend} {rate:.1f} samples/s" for backend, rate in rates.items())
            computing = f"{1e3 * statistics.median(alone):.0f} ms of a step are compute"
            sys.stdout.write(
                f"{name}: {each} ({computing}); {ratio:.2f} times Gloo's {requirement(ratio, BARS[name])}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(*sys.argv[2:])
    else:
        main(sys.argv[1:])
