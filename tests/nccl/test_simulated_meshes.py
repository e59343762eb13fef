"""Groups that divide the network differently take NCCL's times, by one rank that represents many."""

from __future__ import annotations

from typing import Any

import pytest

import syncline
from syncline import nccl
from syncline.design.parallel.scenario import loaded
from syncline.estimate import Job, machine
from syncline.jobs import TrainingJob
from syncline.models.hugging_face.architecture import architecture

NODES = 128
SPARSE = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 64,
    "num_experts_per_tok": 4,
}


def layers(expert: int, **more: Any) -> dict[str, Any]:
    """A dense layer of 1,024 copies, and one whose experts are divided among nodes; one collective after the other."""

    def exchange(when: str, axis: str, collective: str) -> dict[str, Any]:
        return {"when": when, "axis": axis, "collective": collective, "bytes": "64MiB", "blocks": True}

    dense = {"name": "dense", "forward": "1ms", "input_grad": "1ms", "weight_grad": "1ms", "parameters": 0}
    moments = ("before_forward", "after_forward", "before_backward", "after_input_grad")
    tokens = [exchange(when, "expert", "all_to_all") for when in moments]
    return {
        "workload": {
            "layers": [
                {**dense, "exchanges": [exchange("after_weight_grad", "data", "all_reduce")]},
                {
                    **dense,
                    "name": "experts",
                    "mesh": "experts",
                    "exchanges": [*tokens, exchange("after_weight_grad", "data", "all_reduce")],
                },
            ],
            "parallel": {
                "tensor": 1,
                "data": "rest",
                "meshes": {"experts": {"tensor": 1, "axes": {"expert": expert}, "data": "rest"}},
            },
            "batch_per_npu": 1,
        },
        "fabric": {
            "dims": [
                {"name": "nvlink", "shape": "switch", "size": 8, "rate_per_npu": "450GB/s", "latency": "100ns"},
                {"name": "rail", "shape": "switch", "size": NODES, "rate_per_npu": "400Gb/s", "latency": "100ns"},
            ]
        },
        "collectives": {"nccl": "h100-sxm", "element": "2B"},
        "report": False,
        **more,
    }


@pytest.mark.parametrize("expert", [4, 16, 64])
def test_one_rank_represents_all_with_the_times_of_the_model(expert: int) -> None:
    found = syncline.simulate(layers(expert))
    assert (found.summary.ranks, found.summary.simulated_ranks) == (1024, 1)
    table = found.table("collectives")
    in_node = min(expert, 8)
    # Groups as they lie on nodes: GPUs in each, nodes, and how many share a node.
    shapes = {
        "all_to_all": (in_node, expert // in_node, 8 // in_node),
        1024 // expert: (8 // in_node, NODES // (expert // in_node), in_node),
        1024: (8, NODES, 1),
    }
    seen = set()
    for kind, ranks, seconds, alone in zip(
        table["kind"], table["group_ranks"], table["duration_s"], table["nccl_s"], strict=True
    ):
        key = kind if kind == "all_to_all" else ranks
        gpus, nodes, concurrent = shapes[key]
        expected = nccl.load("h100-sxm").time(kind, 64 << 20, gpus_per_node=gpus, nodes=nodes, concurrent=concurrent)
        assert expected is not None
        assert alone == pytest.approx(expected.seconds, rel=1e-9)
        assert seconds == pytest.approx(alone, rel=1e-3), (kind, ranks)
        seen.add(key)
    assert seen == set(shapes)


@pytest.mark.parametrize("network", ["analytical", "flow"])
def test_all_ranks_take_as_long_as_one_that_represents_them(network: str) -> None:
    few = layers(16, network=network)
    few["fabric"]["dims"][1]["size"] = 4
    each = syncline.simulate({**few, "symmetry": False})
    one = syncline.simulate(few)
    assert (one.summary.simulated_ranks, each.summary.simulated_ranks) == (1, 32)
    assert one.summary.step_time_s == pytest.approx(each.summary.step_time_s, rel=1e-9)
    assert one.summary.bytes == each.summary.bytes


@pytest.mark.parametrize(
    "how",
    [
        {"data": 1024, "expert": 64, "micro_batches": 1},
        {"data": 256, "expert": 32, "pipeline": 4},
        {"tensor": 2, "data": 128, "expert": 32, "pipeline": 4, "sequence_parallel": True},
    ],
    ids=str,
)
def test_training_jobs_on_1024_gpus_have_few_unlike_ranks(how: dict[str, Any]) -> None:
    given = Job.model_validate({"sequence": 4096, "micro_batches": 8, "zero": 1, **how})
    job = TrainingJob("a job", architecture(SPARSE, "a model"), machine("H100"), given, "megatron")
    summary = syncline.simulate(loaded(job)).summary
    assert summary.ranks == 1024
    assert summary.simulated_ranks == given.pipeline
    # Events bound the time: a million of them take a second or two.
    assert summary.events < 300_000
