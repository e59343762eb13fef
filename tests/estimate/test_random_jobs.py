"""What holds for every job: drawn at random, always the same ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from syncline.errors import SynclineError
from syncline.input.node import from_python
from syncline.input.source import Source
from syncline.jobs import estimate
from syncline.jobs.detail import detail
from syncline.jobs.training_job import resolve
from tests.estimate.closed_forms import Mesh, Sizes
from tests.estimate.test_closed_forms import FEW_KEYS, LLAMA_8B, LLAMA_70B, MIXTRAL, QWEN3_30B, TIED, least_s

MODELS = [LLAMA_8B, LLAMA_70B, FEW_KEYS, TIED, MIXTRAL, QWEN3_30B]
SCHEDULES = ["1f1b", "1f1b", "gpipe", "zb-h1", "zb-v", "dualpipe-v"]
COMPUTING = ("products", "attention", "element_wise", "launch", "ends")


def drawn(count: int) -> list[Mesh]:
    """Jobs that can run."""
    draw, found = random.Random(24), []
    while len(found) < count:
        model: Sizes = draw.choice(MODELS)
        t, p, c = draw.choice([1, 2, 4, 8]), draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 1, 2, 4])
        data = draw.choice([1, 2, 4, 16])
        schedule = draw.choice(SCHEDULES) if p > 1 else "1f1b"
        v = 2 if schedule in ("zb-v", "dualpipe-v") else draw.choice([1, 2]) if schedule == "1f1b" and p > 1 else 1
        experts = {"e": draw.choice([1, 2, 4, 8]), "te": draw.choice([1, 1, 2])} if model.experts else {}
        overlap = {each: draw.random() < 0.5 for each in ("tensor", "gradients", "parameters", "pipeline", "experts")}
        mesh = Mesh(
            model,
            t * p * c * data,
            draw.choice([4096, 8192]),
            draw.choice([1, 2]),
            data * 4 * p * draw.choice([1, 2, 4]),
            t=t,
            sp=draw.random() < 0.8,
            p=p,
            v=v,
            c=c,
            zero=draw.choice([0, 1, 2, 3]) if p == 1 else draw.choice([0, 1]),
            recompute=draw.choice(["none", "full"]),
            more={"overlap": overlap},
            **experts,
        )
        try:
            resolve(keys(mesh, schedule))
        except SynclineError:
            continue
        found.append(replace(mesh, more={"overlap": overlap, "schedule": schedule}))
    return found


def keys(mesh: Mesh, schedule: str | None = None) -> Source:
    made = mesh.keys
    made["parallel"]["schedule"] = schedule or made.pop("schedule")
    return Source(from_python(made))


JOBS = drawn(60)


@pytest.mark.parametrize("mesh", JOBS, ids=[f"{at}" for at in range(len(JOBS))])
def test_a_step_and_its_memory_are_sums_of_what_is_possible(mesh: Mesh):
    job = resolve(keys(mesh))
    found, inside = estimate(job), detail(job)
    assert sum(found.parts.values()) == pytest.approx(found.step_s)
    assert sum(found.memory.values()) == found.memory_bytes > found.memory["weights"] > 0
    # Waiting is no less than nothing, and no more than all of the communication.
    assert all(seconds >= 0 for seconds in found.parts.values())
    for part in ("tensor", "context", "exchange"):
        whole = sum(each.seconds for each in inside.communication if each.part == part)
        assert found.parts[part] <= whole * (1 + 1e-9), part
    assert found.mfu is not None and 0 < found.mfu < 1
    for call in inside.communication:
        assert call.each_s >= 0.999 * least_s(call), call
    for kernel in inside.kernels:
        assert kernel.each_s >= kernel.flop / 989.4e12, kernel
    # The last stage to end waits for at most a micro-batch of each other stage, whose tokens nothing may hide.
    alone = replace(mesh, more={**mesh.more, "overlap": {**mesh.more["overlap"], "experts": False}})
    assert found.parts["bubble"] <= sum(estimate(resolve(keys(alone))).stages_s) + 1e-9


@pytest.mark.parametrize("mesh", JOBS, ids=[f"{at}" for at in range(len(JOBS))])
def test_more_replicas_compute_for_a_shorter_time(mesh: Mesh):
    twice = replace(mesh, gpus=2 * mesh.gpus)
    if mesh.batch % (twice.d * mesh.b):
        pytest.skip("the batch does not divide")
    try:
        more = estimate(resolve(keys(twice)))
    except SynclineError:
        pytest.skip("the schedule needs more micro-batches")
    one = estimate(resolve(keys(mesh)))
    for part in COMPUTING:
        assert more.parts[part] <= one.parts[part] * (1 + 1e-9), part
    assert more.memory["weights"] <= one.memory["weights"]
    assert more.memory["optimizer"] <= one.memory["optimizer"]
    assert more.memory["activations"] <= one.memory["activations"]
