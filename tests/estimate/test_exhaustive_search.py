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
THIRTY_ONE_LAYERS = Sizes(4096, 31, 32, 8, 14336, 128256)
"""Layers, with both ends and without, divide by no number of stages but one and three."""
SEVEN_LAYERS = Sizes(4096, 7, 32, 8, 14336, 128256)
"""Fewer layers than chunks: with eight, the last one has only the output layer; 16 are too many."""
OVERLAP = {"tensor": True, "gradients": True, "parameters": True, "pipeline": True}
POWERS = [1, 2, 4, 8, 16]


def offloads(model: Sizes, p: int, v: int) -> list[dict[str, Any]]:
    """Nothing, half of a chunk or as much as can; states of no, half of or all parameters."""
    most = -(-model.layers // (p * v)) - (p == 1)
    return [
        {"layers": layers, "optimizer": part} for layers, part in product(sorted({0, most // 2, most}), [0.0, 0.5, 1.0])
    ]


def by_hand(layers: int, chunks: int) -> list[int]:
    """Layers of chunks that are as equal as can be with both ends counted: all are dealt out like cards, each to
    the next chunk, and what embedding and output layer take are not layers.
    """
    dealt = [0] * chunks
    for card in range(layers + 2):
        dealt[card % chunks] += 1
    return [dealt[0] - 1, *dealt[1:-1], dealt[-1] - 1]


def splits(layers: int, p: int, v: int) -> Iterator[dict[str, Any]]:
    """How layers are divided among chunks: keys of job files."""
    chunks = p * v
    if layers % chunks == 0 or (v == 1 and p <= layers):
        yield {"split": "even"}
    if p == 1:
        return
    if (layers + 2) % chunks == 0:
        yield {"split": "ends"}
    elif layers % chunks and chunks <= layers + 2:
        yield {"chunk_layers": by_hand(layers, chunks)}


def configurations(
    model: Sizes, gpus: int, sequence: int, batch: int, *, offload: bool = False
) -> Iterator[tuple[Mesh, dict[str, Any]]]:
    """All that the request allows, with their job files: two chunks, micro-batches of two, two ranks of a sequence."""
    experts = POWERS if model.experts else [1]
    for t, p, c, v, b, e in product(POWERS[:4], POWERS, [1, 2], [1, 2], [1, 2], experts):
        data = gpus // (t * p * c)
        if gpus % (t * p * c) or batch % (data * b) or (v > 1 and (p == 1 or batch // (data * b) % p)):
            continue
        for recompute, zero, split in product(["none", "full"], [1, 3], splits(model.layers, p, v)):
            if zero == 3 and (p > 1 or data * c == 1):
                continue
            mesh = Mesh(model, gpus, sequence, b, batch, t=t, p=p, v=v, c=c, e=e, zero=zero, recompute=recompute)
            keys = mesh.keys
            keys["parallel"] |= split
            for each in offloads(model, p, v) if offload else [{"optimizer": 0.0}]:
                overlap = {**OVERLAP, "optimizer": each["optimizer"] > 0}
                yield mesh, {**keys, "overlap": overlap, "offload": each}


def test_the_layouts_by_hand_are_those_of_megatrons_users():
    assert by_hand(61, 32) == [1, *[2] * 30, 0]  # Et|(tt|)*30L
    assert by_hand(61, 16) == [3, *[4] * 14, 2]  # Ettt|(tttt|)*14ttL


@pytest.mark.parametrize(
    ("model", "gpus", "sequence", "batch", "host"),
    [
        (LLAMA_8B, 8, 8192, 16, None),
        (THIRTY_LAYERS, 8, 4096, 32, None),
        (THIRTY_ONE_LAYERS, 8, 4096, 32, None),
        (SEVEN_LAYERS, 8, 4096, 32, None),
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
