"""A search finds the best of all configurations: small spaces, enumerated here one by one through job files."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from syncline.design.parallel import Request, search
from syncline.errors import SynclineError
from syncline.estimate import machine
from syncline.input.node import from_python
from syncline.input.source import Source
from syncline.jobs import estimate
from syncline.jobs.training_job import resolve
from tests.estimate.closed_forms import Mesh, Sizes
from tests.estimate.test_closed_forms import GEMMA_3_1B, LLAMA_8B, QWEN3_30B

if TYPE_CHECKING:
    from collections.abc import Iterator

THIRTY_LAYERS = Sizes(4096, 30, 32, 8, 14336, 128256)
"""Layers and both ends divide by four and eight stages, layers alone do not."""
OVERLAP = {"tensor": True, "gradients": True, "parameters": True, "pipeline": True}
POWERS = [1, 2, 4, 8, 16]


def offloads(model: Sizes, p: int, v: int) -> list[dict[str, Any]]:
    """Nothing, half of a chunk or as much as can; states of no, half of or all parameters."""
    most = -(-model.layers // (p * v)) - (p == 1)
    return [
        {"layers": layers, "optimizer": part} for layers, part in product(sorted({0, most // 2, most}), [0.0, 0.5, 1.0])
    ]


def configurations(
    model: Sizes, gpus: int, sequence: int, batch: int, *, offload: bool = False
) -> Iterator[tuple[Mesh, dict[str, Any]]]:
    """All that the request allows, with their job files: two chunks, micro-batches of two, two ranks of a sequence."""
    experts = POWERS if model.experts else [1]
    for t, p, c, v, b, e in product(POWERS[:4], POWERS, [1, 2], [1, 2], [1, 2], experts):
        data = gpus // (t * p * c)
        if gpus % (t * p * c) or batch % (data * b) or (v > 1 and (p == 1 or batch // (data * b) % p)):
            continue
        for recompute, zero, split in product(["none", "full"], [1, 3], ["even", "ends"]):
            if zero == 3 and (p > 1 or data * c == 1):
                continue
            layers = model.layers + (2 if split == "ends" else 0)
            if (layers % (p * v) and (split == "ends" or v > 1)) or (split == "ends" and p == 1):
                continue
            mesh = Mesh(model, gpus, sequence, b, batch, t=t, p=p, v=v, c=c, e=e, zero=zero, recompute=recompute)
            keys = mesh.keys
            keys["parallel"]["split"] = split
            for each in offloads(model, p, v) if offload else [{"optimizer": 0.0}]:
                overlap = {**OVERLAP, "optimizer": each["optimizer"] > 0}
                yield mesh, {**keys, "overlap": overlap, "offload": each}


@pytest.mark.parametrize(
    ("model", "gpus", "sequence", "batch", "host"),
    [
        (LLAMA_8B, 8, 8192, 16, None),
        (THIRTY_LAYERS, 8, 4096, 32, None),
        (GEMMA_3_1B, 8, 4096, 16, None),
        (QWEN3_30B, 16, 4096, 16, None),
        (LLAMA_8B, 4, 8192, 4, 256 * 2**30),
        (LLAMA_8B, 4, 8192, 4, 20 * 2**30),
    ],
)
def test_a_search_finds_the_best_of_all(model: Sizes, gpus: int, sequence: int, batch: int, host: int | None):
    card = machine("H100", host_memory_bytes=host)
    possible, steps, architecture = 0, [], None
    for _, keys in configurations(model, gpus, sequence, batch, offload=host is not None):
        try:
            job = resolve(Source(from_python(keys)))
        except SynclineError:
            continue
        architecture = job.architecture
        found = estimate(job)
        possible += 1
        if found.memory_bytes <= 0.96 * card.memory_bytes and found.host_bytes <= (host or 0):
            steps.append(found.step_s)
    assert architecture is not None
    request = Request(
        architecture,
        card,
        gpus,
        sequence,
        batch,
        micro_batch=2,
        virtual_stages=2,
        context=2,
        variants=True,
        keep=10,
        offload=() if host is None else ("activations", "optimizer"),
    )
    found = search(request)
    assert (found.possible, found.fitting) == (possible, len(steps))
    assert [each.step_s for each in found.best] == sorted(steps)[:10]
