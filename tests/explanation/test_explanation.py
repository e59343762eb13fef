"""Runs explained in sentences."""

from __future__ import annotations

from pathlib import Path

import syncline
from syncline.explanation.explanation import explain
from syncline.report.terminal.answer import as_text
from tests.report.runs import SMALL, incast, packets, resnet, stages

FABRIC = {"shape": "Ring(4)_Switch(2)", "rate": "25GB/s", "latency": "1us"}


def told(result: syncline.Result) -> dict[str, str]:
    return {section.title: "\n".join(section.paragraphs) for section in explain(result)}


def test_a_training_step_is_explained_in_sections() -> None:
    text = told(resnet())
    assert list(text) == [
        "What was simulated",
        "How long a step takes, and why",
        "How much work gets done",
        "Where compute waits",
        "How the network is used",
        "What collectives wait for",
        "What the network costs",
        "How far to trust it",
        "Where to look next",
    ]
    assert text["What the network costs"].startswith("Cost: $32,000, $1,000 per NPU (prices of hier2021).")
    assert text["What was simulated"].startswith("resnet50-torus trains resnet50 on 32 ranks (data 32), for 2 iter")
    assert "vertical, 2 rings of 4, both ways, 23.5 GB/s and 200 ns per link" in text["What was simulated"]
    assert "A step takes 33.35 ms: 2 iterations in 66.7 ms." in text["How long a step takes, and why"]
    assert "The bottleneck is compute." in text["How long a step takes, and why"]
    assert text["Where compute waits"] == "- conv1: 2.224 us per step, 100.0 % of the waiting."
    assert "The busiest link is NPU 0 -> NPU 24 in horizontal" in text["How the network is used"]
    assert "delayed longest in P2 vertical all_reduce (ring)" in text["What collectives wait for"]
    assert "1 of 32 ranks" in text["How far to trust it"]


def gathered(size: str) -> dict[str, str]:
    return {"when": "after_forward", "axis": "tensor", "collective": "all_gather", "bytes": size}


def test_layers_with_the_longest_waits_come_first_and_the_rest_is_counted() -> None:
    layer = {"forward": "1us", "weight_grad": "1us"}
    layers = [{**layer, "name": name, "exchanges": [gathered(f"{at + 1}MB")]} for at, name in enumerate("abcdefg")]
    workload = {"layers": layers, "parallel": {"tensor": ["dim1"], "data": ["dim2"]}}
    text = told(syncline.simulate(workload=workload, compute="given", fabric=FABRIC))["Where compute waits"]
    assert text.startswith("- g: ")
    assert text.count("\n") == 5
    assert "7 of 7 layers make compute wait; these 5 account for" in text


def test_equal_blocks_of_a_model_are_merged() -> None:
    layer = {"forward": "1us", "weight_grad": "1us"}
    layers = [
        {
            **layer,
            "name": f"block{at}.output",
            "exchanges": [gathered("1MB")],
        }
        for at in range(4)
    ]
    workload = {"layers": layers, "parallel": {"tensor": ["dim1"], "data": ["dim2"]}}
    text = told(syncline.simulate(workload=workload, compute="given", fabric=FABRIC))["Where compute waits"]
    assert text.startswith("- block*.output (4 layers): ")
    assert "100.0 % of the waiting" in text
    assert "\n" not in text


def test_a_job_without_waiting_is_said_to_never_wait() -> None:
    layer = {"name": "only", "forward": "1us", "weight_grad": "1us"}
    result = syncline.simulate(workload={"layers": [layer]}, compute="given", fabric=FABRIC)
    text = told(result)
    assert "and never waits" in text["How long a step takes, and why"]
    assert text["Where compute waits"] == "Nowhere: all communication is hidden behind compute."
    assert "What collectives wait for" not in text


def test_communication_alone_is_explained_without_compute() -> None:
    text = told(syncline.simulate(workload={"collective": "all_gather", "bytes": "1MB"}, fabric=FABRIC))
    assert "runs one all_gather of 1MB and nothing else on 8 ranks." in text["What was simulated"]
    assert "How long it takes, and why" in text
    assert "Where compute waits" not in text


def test_a_run_that_was_cut_short_says_so_first() -> None:
    result = syncline.simulate(SMALL, limits={"events": 200})
    text = told(result)["How long a step takes, and why"]
    assert text.startswith("A limit was reached: all numbers describe the time before it. No iteration was completed")
    assert "The run is complete" not in told(result)["How far to trust it"]


def test_faults_are_explained_with_their_cost() -> None:
    text = told(syncline.simulate(SMALL, faults=[{"rank": 0, "factor": 2}]))["How long a step takes, and why"]
    assert "Faults: " in text
    assert "They add" in text


def test_results_from_a_folder_have_the_same_explanation(tmp_path: Path) -> None:
    result = resnet()
    result.save(tmp_path / "run")
    loaded = syncline.Result.load(tmp_path / "run")
    before, after = told(result), told(loaded)
    assert before == after
    where = after["Where to look next"]
    assert f"`syncline simulate {(tmp_path / 'run').as_posix()} --set" in where


def test_the_port_that_drops_most_is_named() -> None:
    result = incast(buffer="1MiB", initial_window=100, min_timeout="1ms")
    assert "All drops are at switch 0 -> NPU 0." in told(result)["How the network is used"]
    assert "\nAll drops are at switch 0 -> NPU 0.\n" in as_text(result)
    spread = packets()
    ports, links = spread.table("ports"), spread.table("links")
    most = max(ports["dropped"])
    row = ports["dropped"].index(most)
    dimension = links["dimension"][links["link"].index(ports["link"][row])]
    text = f"The port with most drops is {ports['from'][row]} -> {ports['to'][row]} in {dimension}: {most} of"
    assert f"{text} {sum(ports['dropped'])}." in told(spread)["How the network is used"]


def test_the_port_that_is_paused_longest_is_named() -> None:
    result = incast(transport="rdma", congestion="none", buffer="512KiB")
    text = told(result)["How the network is used"]
    assert "The port paused longest is NPU " in text
    assert "drop" not in text


def test_no_port_is_named_if_no_packet_was_lost_or_paused() -> None:
    for result in (packets(buffer="unlimited"), syncline.simulate(SMALL)):
        text = told(result)["How the network is used"]
        assert "drop" not in text
        assert "paused" not in text


def test_layers_of_many_blocks_have_a_row_for_each_kind() -> None:
    """120 layers in 40 blocks become three rows on the screen, without a row for other layers."""
    result = stages()
    screen = str(result)
    assert "Layers, per step (all blocks together)" in screen
    assert [f"block*.{kind} (40 layers)" in screen for kind in "abc"] == [True, True, True]
    assert "other layer" not in screen
