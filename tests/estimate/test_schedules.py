"""Schedules of pipelines, beside a list scheduler that shares no code with the crate."""

from __future__ import annotations

import json
import random

import pytest

from syncline import _core
from syncline.errors import SynclineError
from tests.estimate.scheduler import run

SCHEDULES = ("zb-h1", "zb-v", "dualpipe", "dualpipe-v")
EQUAL = [(1, 1, 1), (10, 12, 8), (10, 8, 10), (3, 4, 1), (2, 5, 2)]


def job(schedule, stages, batches):
    chunks = 2 if schedule in ("zb-v", "dualpipe-v") else 1
    return {
        "tensor": 1,
        "sequence_parallel": False,
        "pipeline": stages,
        "virtual_stages": chunks,
        "schedule": schedule,
        "split": "even",
        "context": 1,
        "expert": 1,
        "expert_tensor": 1,
        "data": 1,
        "zero": 0,
        "shard_group": 1,
        "micro_batch": 1,
        "micro_batches": batches,
        "sequence": 2048,
        "precision": "bf16",
        "gradient_bytes": 4,
        "recompute": "none",
        "fused_attention": True,
        "dispatch_multiprocessors": 20,
        "overlap": {"tensor": False, "gradients": False, "parameters": False, "pipeline": False},
    }


def timeline(schedule, stages, batches, chunks, message=0):
    return _core.schedule_timeline(json.dumps(job(schedule, stages, batches)), chunks, message)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "batches"), [(2, 4), (4, 8), (4, 14), (6, 30), (8, 16), (8, 48)])
def test_a_step_takes_as_long_as_an_independent_scheduler_says(schedule, stages, batches):
    count = stages * (2 if schedule in ("zb-v", "dualpipe-v") else 1)
    for message in (0, 2):
        for times in EQUAL:
            found, _ = timeline(schedule, stages, batches, [times] * count, message)
            expected, _ = run(schedule, stages, batches, lambda kind, _, t=times: t["FBW".index(kind)], message)
            assert found == expected
        # A first chunk with an embedding, a last one with an output layer, layers that grow.
        uneven = [(3 + at % 3, 4 + at % 4, 2 + at % 2) for at in range(count)]
        uneven[0], uneven[-1] = (5, 4, 3), (9, 9, 6)
        found, lines = timeline(schedule, stages, batches, uneven, message)
        expected, busy = run(
            schedule, stages, batches, lambda kind, chunk, t=uneven: t[chunk]["FBW".index(kind)], message
        )
        assert found == expected
        worked = [
            sum(end - begin for begin, end in {(begin, end) for *_, begin, end in line if end > begin})
            for line in lines
        ]
        assert worked == busy


@pytest.mark.parametrize("batches", range(1, 12))
def test_few_micro_batches_do_not_wait_for_ever(batches):
    for schedule in ("zb-h1", "zb-v"):
        for stages in (2, 3, 5):
            count = stages * (2 if schedule == "zb-v" else 1)
            found, _ = timeline(schedule, stages, batches, [(1, 1, 1)] * count)
            assert found == run(schedule, stages, batches, lambda *_: 1)[0]


def plain(schedule, stages, batches, parts):
    return {**job("1f1b", stages, batches), "schedule": schedule, "virtual_stages": parts}


@pytest.mark.parametrize(
    ("stages", "parts"), [(2, 1), (4, 1), (8, 1), (16, 1), (2, 3), (4, 3), (8, 2), (8, 6), (16, 3)]
)
def test_unequal_chunks_take_as_long_as_an_independent_scheduler_says(stages, parts):
    """Chunks of any lengths, with layers of two kinds, with a long output layer or a short first and last chunk."""
    random_ = random.Random(f"{stages} {parts}")
    for number in range(12):
        count = stages * parts
        lengths = [
            lambda _: random_.randint(2, 20),
            lambda _: random_.choice([10, 20]),
            lambda at, n=count: 10 + (8 if at == n - 1 else 0),
            lambda at, n=count: {0: 5, n - 1: 7}.get(at, 10),
        ][number % 4]
        forward = [lengths(at) for at in range(count)]
        backward = [2 * each + random_.randint(0, 1) for each in forward]
        batches, message = stages * random_.choice([2, 3, 6]), random_.choice([0, 1, 3])
        for schedule in ["1f1b"] if parts > 1 else ["1f1b", "gpipe"]:
            asked = json.dumps(plain(schedule, stages, batches, parts))
            chunks = [(f, b - 1, 1) for f, b in zip(forward, backward, strict=True)]
            expected, _ = run(
                schedule,
                stages,
                batches,
                lambda kind, chunk, f=forward, b=backward: (f if kind == "F" else b)[chunk],
                message,
                parts,
            )
            assert _core.schedule_seconds(asked, chunks, message) == expected
            assert _core.schedule_timeline(asked, chunks, message)[0] == expected


def test_times_of_a_pipeline_that_is_none_are_refused():
    for stages, count in [(4, 3), (1, 1)]:
        with pytest.raises(ValueError, match="not a time for each chunk"):
            _core.schedule_seconds(json.dumps(job("1f1b", stages, 8)), [(1, 1, 1)] * count, 0)


def test_bubbles_are_those_of_the_papers():
    """Qi et al. (2024), table 1; DeepSeek-V3 report, table 2, whose ``B`` is the whole backward pass."""
    for stages, batches in [(4, 16), (8, 32), (16, 64)]:
        for f, b, w in [(10, 12, 8), (1, 1, 1), (3, 4, 1)]:
            end, _ = timeline("zb-h1", stages, batches, [(f, b, w)] * stages)
            assert end - batches * (f + b + w) == (stages - 1) * (f + b - w)
        end, _ = timeline("dualpipe", stages, batches, [(1, 1, 1)] * stages)
        assert end - batches * 3 == (stages / 2 - 1) * (3 + 2 - 3)


@pytest.mark.parametrize(
    ("changes", "key", "help_"),
    [
        ({"pipeline": 5}, "pipeline", "write pipeline: 4"),
        ({"micro_batches": 9}, "micro_batches", "write micro_batches: 10"),
        ({"micro_batches": 6}, "micro_batches", "write micro_batches: 8"),
        ({"virtual_stages": 2}, "virtual_stages", "write virtual_stages: 1"),
    ],
)
def test_dualpipe_says_what_it_cannot_order(changes, key, help_):
    asked = {**job("dualpipe", 4, 12), **changes}
    with pytest.raises(SynclineError) as found:
        _core.schedule_timeline(json.dumps(asked), [(1, 1, 1)] * 4, 0)
    assert (found.value.diagnostics[0]["key"], found.value.diagnostics[0]["help"]) == (key, help_)
