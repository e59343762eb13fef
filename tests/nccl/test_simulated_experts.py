"""Simulations with DeepEP take the times of its dispatches and combines, by hand and as measured."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import syncline
from syncline.errors import SynclineError
from syncline.nccl import experts
from syncline.report.html.page import report

ROWS = Path(__file__).parents[2] / "validation" / "collectives" / "deepep" / "deepep.csv.gz"
EIGHT = {"name": "nvlink", "shape": "switch", "size": 8, "rate_per_npu": "450GB/s", "latency": "100ns"}
TOKENS, COPIES, HIDDEN = 4096, 8, 7168


def fabric(nodes: int) -> dict[str, Any]:
    rail = {"name": "rail", "shape": "switch", "size": nodes, "rate_per_npu": "400Gb/s", "latency": "100ns"}
    return {"dims": [EIGHT, rail] if nodes > 1 else [EIGHT]}


def one(phase: str, nodes: int = 1, tokens: int = TOKENS, hidden: int = HIDDEN, **deepep: Any) -> dict[str, Any]:
    """One exchange of all ranks."""
    size = tokens * COPIES * experts.token_bytes(hidden, phase)
    return {
        "workload": {"collective": "all_to_all", "bytes": f"{size}B"},
        "fabric": fabric(nodes),
        "collectives": {
            "nccl": "h100-sxm",
            "deepep": {"tokens": tokens, "experts": COPIES, "phase": phase, **deepep},
        },
        "report": False,
    }


def by_hand(kernels: str, phase: str, nodes: int, sms: int) -> float:
    """Microseconds: launch, tokens, and the slower of multiprocessors and links for what an NPU sends."""
    known = experts.exchange("h100-sxm", kernels, phase, nodes)

    def number(text: str, unit: str) -> float:
        return float(text.removesuffix(unit))

    gpus = 8 * nodes
    # A token goes once to each GPU with one of its 8 experts, or to each expert.
    copies = gpus * (1 - (1 - 1 / gpus) ** COPIES) if kernels == "normal" else COPIES
    # FP8 with a scale of 4 bytes for 128 elements to the experts, BF16 back.
    token = HIDDEN + HIDDEN / 128 * 4 if phase == "dispatch" else 2 * HIDDEN
    sent = TOKENS * token * copies
    seconds = sent / (number(known.link_rate, "GB/s") * 1e3)
    if known.sm_rate is not None:
        seconds = max(seconds, sent / (sms * number(known.sm_rate, "GB/s") * 1e3))
    return number(known.launch, "us") + TOKENS * number(known.token, "us") + seconds


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
@pytest.mark.parametrize("phase", ["dispatch", "combine"])
@pytest.mark.parametrize("kernels", ["normal", "low_latency"])
def test_an_exchange_alone_takes_the_time_of_deepep(kernels: str, phase: str, nodes: int) -> None:
    found = syncline.simulate(one(phase, nodes, kernels=kernels, sms=24))
    slower = [each for each in found.warnings if "slower than the machine" in each["message"]]
    table = found.table("collectives")
    assert table["nccl_algorithm"] == [f"deepep_{phase}"]
    assert (table["nccl_protocol"][0], table["nccl_channels"][0]) == ("", "")
    assert table["nccl_s"][0] * 1e6 == pytest.approx(by_hand(kernels, phase, nodes, 24), rel=1e-6)
    if not slower:
        assert found.summary.step_time_s == pytest.approx(table["nccl_s"][0], rel=1e-3)


@pytest.mark.parametrize("phase", ["dispatch", "combine"])
def test_simulated_exchanges_are_near_the_measured_ones(phase: str) -> None:
    with gzip.open(ROWS, "rt", encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if (row["system"], row["phase"], row["kernels"]) == ("h100-sxm", phase, "normal")
            and int(row["experts_per_token"]) == COPIES
            and int(row["nodes"]) <= 2
        ]
    errors = []
    for row in rows[::20]:
        given = one(phase, int(row["nodes"]), int(row["tokens"]), int(row["hidden"]), sms=int(row["sms"]))
        errors.append(abs(syncline.simulate(given).summary.step_time_s / float(row["seconds"]) - 1))
    assert len(errors) >= 20
    assert median(errors) < 0.12


def layers(**deepep: Any) -> dict[str, Any]:
    """A block with experts on two nodes, each with all experts."""
    forth, back = (TOKENS * COPIES * experts.token_bytes(HIDDEN, phase) for phase in ("dispatch", "combine"))
    moments = (
        ("before_forward", forth),
        ("after_forward", back),
        ("before_backward", back),
        ("after_input_grad", back),
    )
    tokens = [
        {"when": when, "axis": "expert", "collective": "all_to_all", "bytes": f"{size}B"} for when, size in moments
    ]
    dense = {"name": "attention", "forward": "1ms", "input_grad": "1ms", "weight_grad": "1ms", "parameters": 1000}
    block = {**dense, "name": "experts", "mesh": "experts", "exchanges": tokens}
    return {
        "workload": {
            "layers": [dense, block],
            "parallel": {
                "tensor": 1,
                "data": "rest",
                "meshes": {"experts": {"tensor": 1, "axes": {"expert": 8}, "data": "rest"}},
            },
            "batch_per_npu": 1,
        },
        "fabric": fabric(2),
        "collectives": {"nccl": "h100-sxm", "deepep": {"tokens": TOKENS, "experts": COPIES, **deepep}},
        "report": False,
    }


def test_exchanges_before_a_pass_are_dispatches_and_those_after_it_combines() -> None:
    found = syncline.simulate(layers(group="experts.expert"))
    table = found.table("collectives")
    rows = sorted(
        (issue, part, algorithm, seconds)
        for issue, part, algorithm, seconds, kind in zip(
            table["issue_s"], table["part"], table["nccl_algorithm"], table["nccl_s"], table["kind"], strict=True
        )
        if kind == "all_to_all"
    )
    said = list(dict.fromkeys((part, algorithm) for _, part, algorithm, _ in rows))
    assert said == [
        ("forward", "deepep_dispatch"),
        ("forward", "deepep_combine"),
        ("input grad", "deepep_dispatch"),
        ("input grad", "deepep_combine"),
    ]
    first = next(seconds for _, _, _, seconds in rows)
    assert first * 1e6 == pytest.approx(by_hand("normal", "dispatch", 1, 20), rel=1e-6)
    # Gradients go to experts in BF16: as many bytes as they bring back, at the rates of dispatches.
    assert "tokens of experts by DeepEP of sglang" in found.summary.calibrated
    assert "deepep_combine" in str(found)
    assert "<td>deepep_combine</td>" in report(found).decode()


def test_links_carry_a_token_once_to_each_gpu() -> None:
    found = syncline.simulate(one("combine")).table("links")
    sent = TOKENS * 2 * HIDDEN * 8 * (1 - (7 / 8) ** COPIES)
    assert max(found["carried_bytes"]) == pytest.approx(sent * 7 / 8, rel=0.01)


def problem(wrong: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(SynclineError) as caught:
        syncline.simulate(wrong)
    found: dict[str, Any] = dict(caught.value.diagnostics[0])
    return found


def test_what_deepep_cannot_carry_out_is_named() -> None:
    found = problem(one("dispatch", 3))
    assert found["message"] == "DeepEP was not measured with groups of this shape"
    assert found["found"] == "group `all`: 24 GPUs on 3 nodes"
    assert "8 GPUs on 1 node" in found["allowed"]
    undecided = one("dispatch")
    del undecided["collectives"]["deepep"]["phase"]
    found = problem(undecided)
    assert found["key"] == "collectives.deepep.phase"
    many = one("dispatch")
    many["collectives"]["deepep"]["tokens"] = 2**31
    assert problem(many)["key"] == "collectives.deepep.tokens"
    alone = one("dispatch")
    del alone["collectives"]["nccl"]
    assert problem(alone)["message"] == "needs `nccl`"
    a100 = one("dispatch")
    a100["collectives"]["nccl"] = "a100-sxm"
    found = problem(a100)
    assert found["message"] == "DeepEP was not measured on NVIDIA A100-SXM4-80GB"
    assert "h100-sxm" in found["allowed"]


def test_a_job_without_exchanges_of_tokens_is_warned_of() -> None:
    found = syncline.simulate(layers(group="expert"))
    [warning] = [each for each in found.warnings if each["key"] == "collectives.deepep"]
    assert warning["message"] == "the job has no all-to-all of group `expert` for DeepEP"
    assert "deepep_dispatch" not in found.table("collectives")["nccl_algorithm"]
