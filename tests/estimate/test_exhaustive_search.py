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


def configurations(model: Sizes, gpus: int, sequence: int, batch: int) -> Iterator[tuple[Mesh, dict[str, Any]]]:
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
            yield mesh, {**keys, "overlap": OVERLAP}


@pytest.mark.parametrize(
    ("model", "gpus", "sequence", "batch"),
    [
        (LLAMA_8B, 8, 8192, 16),
        (THIRTY_LAYERS, 8, 4096, 32),
        (GEMMA_3_1B, 8, 4096, 16),
        (QWEN3_30B, 16, 4096, 16),
    ],
)
def test_a_search_finds_the_best_of_all(model: Sizes, gpus: int, sequence: int, batch: int):
    card = machine("H100")
    possible, steps, architecture = 0, [], None
    for _, keys in configurations(model, gpus, sequence, batch):
        try:
            job = resolve(Source(from_python(keys)))
        except SynclineError:
            continue
        architecture = job.architecture
        found = estimate(job)
        possible += 1
        if found.memory_bytes <= 0.96 * card.memory_bytes:
            steps.append(found.step_s)
    assert architecture is not None
    request = Request(
        architecture, card, gpus, sequence, batch, micro_batch=2, virtual_stages=2, context=2, variants=True, keep=10
    )
    found = search(request)
    assert (found.possible, found.fitting) == (possible, len(steps))
    assert [each.step_s for each in found.best] == sorted(steps)[:10]
