"""Workloads of SimAI as scenarios: what they take follows from the lines by hand, and errors name line and column."""

from __future__ import annotations

import json

import pytest

import syncline
from syncline.clusters.printed import Printed
from syncline.errors import SynclineError
from syncline.simai import convert, repeats

MS = 1_000_000
HEADER = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: {vpp} ga: {ga}"
END = " all_gpus: {gpus} checkpoints: 0 checkpoint_initiates: 0 pp_comm: {pp_comm}"
ONCE = ["shard -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 800000000 100"]
BLOCK = [
    f"column -1 {2 * MS} ALLGATHER 80000000 {MS} REDUCESCATTER 80000000 {MS} NONE 0 100",
    f"row -1 {2 * MS} REDUCESCATTER 80000000 {MS} ALLGATHER 80000000 {MS} NONE 0 100",
]
EXPERTS = [f"experts -1 {MS} ALLTOALL_EP 40000000 {MS} ALLTOALL_EP 40000000 1 NONE 0 100"]


def text(lines: list[str], **degrees: int) -> str:
    given = {"tp": 1, "ep": 1, "pp": 1, "vpp": 1, "ga": 1, "gpus": 8, "pp_comm": 0} | degrees
    return "\n".join([(HEADER + END).format(**given), str(len(lines)), *lines]) + "\n"


def simulated(content: str, gpus: int, rate: str = "100GB/s") -> syncline.Summary:
    made = convert(Printed("job.txt", content)).scenario
    fabric = {"switch": {"hosts": gpus, "rate": rate}}
    return syncline.simulate(made, fabric=fabric).summary


def test_a_step_takes_what_its_lines_take():
    # Four collectives of 80 MB over 8 ranks at 100 GB/s, each 7/8 of 0.8 ms; SimAI overlaps none of them.
    got = simulated(text(BLOCK, tp=8), 8)
    assert got.step_time_s == pytest.approx(8e-3 + 4 * 0.8e-3 * 7 / 8, rel=1e-3)


def test_gradients_are_reduced_once_after_the_last_micro_batch():
    one = simulated(text(ONCE + 3 * BLOCK, tp=1, ga=3), 8)
    # 3 micro-batches of 8 ms; then the reduce-scatter of 800 MB over 8 ranks of data parallelism.
    assert one.step_time_s == pytest.approx(24e-3 + 8e-3 * 7 / 8, rel=1e-3)


def test_experts_exchange_among_their_own_ranks():
    # 2 x 4 of 8 ranks: each sends 3/4 of 40 MB forward, and the same backward.
    got = simulated(text(EXPERTS, tp=2, ep=4), 8)
    assert got.step_time_s == pytest.approx(2e-3 + 2 * 0.4e-3 * 3 / 4, rel=1e-3)


def test_ranks_with_the_same_experts_reduce_their_gradients():
    lines = [f"moe -1 {MS} NONE 0 {MS} NONE 0 1 ALLREDUCE_DP_EP 100000000 100"]
    got = simulated(text(lines, ep=4), 8)
    # Two ranks, an all-reduce of 100 MB.
    assert got.step_time_s == pytest.approx(2e-3 + 1e-3, rel=1e-3)


@pytest.mark.parametrize(("parts", "wait"), [(1, 3), (2, 1.5)])
def test_a_pipeline_waits_as_its_formula_says(parts, wait):
    # Narayanan et al. 2021, 2.2: (p - 1) / v times the 16 ms of a micro-batch; messages of 2 bytes cost nothing.
    lines = 8 * (2 * BLOCK)
    got = simulated(text(lines, tp=1, pp=4, vpp=parts, ga=8, gpus=4, pp_comm=2), 4)
    assert got.step_time_s == pytest.approx((8 + wait) * 16e-3, rel=1e-3)


def test_stages_send_the_bytes_of_the_first_line():
    lines = 4 * BLOCK
    # With one micro-batch: 8 ms a stage, and one message each way of 200 MB.
    got = simulated(text(lines[:2], pp=2, gpus=2, pp_comm=200_000_000), 2)
    assert got.step_time_s == pytest.approx(16e-3 + 2 * 2e-3, rel=1e-3)


def test_times_that_differ_between_micro_batches_are_averaged():
    first = [BLOCK[0].replace(str(2 * MS), str(4 * MS), 1), BLOCK[1]]
    got = simulated(text(first + BLOCK, ga=2), 8)
    assert got.step_time_s == pytest.approx(18e-3, rel=1e-6)


def test_lines_that_do_not_repeat_are_one_micro_batch():
    made = convert(Printed("job.txt", text([*BLOCK, *EXPERTS], ga=2)))
    assert made.notes[1] == "The layers do not repeat for each micro-batch: all of them are one."
    assert len(made.scenario["workload"]["layers"]) == 3


def test_a_list_of_collectives_is_a_scenario_of_collectives():
    lines = [f"micro_test -1 1 NONE 0 1 NONE 0 1 ALLREDUCE {size} 1" for size in (8_000_000, 16_000_000)]
    got = simulated("\n".join(["MICRO", "2", *lines]), 8)
    assert got.total_time_s == pytest.approx(2 * 7 / 8 * 24e6 / 100e9, rel=1e-3)


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (text(["column -1 2 ALLGATHER 8 1 NONE 0 1 NONE 0"]), (3, 1), "a layer has twelve fields"),
        (text([BLOCK[0].replace("ALLGATHER", "ALLGATHR")]), (3, 19), "unknown collective"),
        (text([BLOCK[0].replace("80000000", "-8", 1)]), (3, 29), "not a whole number"),
        (text(BLOCK).replace("vpp:", "vp:"), "vp:", "unknown name in the first line"),
        (text(BLOCK).replace("vpp:", "pp: 4 vpp:"), "pp: 4", "says a number twice"),
        (text(BLOCK).replace("model_parallel_NPU_group: 1 ", ""), (1, 1), "how many ranks divide a layer"),
        (text([BLOCK[0].replace("NONE 0", "NONE 9", 1)]), None, "a size without a collective"),
        (text(BLOCK, gpus=6, tp=4), "all_gpus", "6 GPUs are no multiple of tensor 4 x expert 1 x pipeline 1"),
        (text(BLOCK).replace("\n2\n", "\n3\n"), (2, 1), "there are not as many layers as the text says"),
        (
            text(BLOCK).replace("checkpoints: 0", "checkpoints: 1"),
            "1 checkpoint_init",
            "layers that are computed again",
        ),
        (text([*BLOCK, *EXPERTS], pp=2, ga=2, pp_comm=8), "ga:", "the layers do not repeat 2 times"),
        (text(BLOCK, pp=2), None, "stages send nothing"),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1\n", (1, 1), "the text ends after its first line"),
    ],
)
def test_errors_name_their_place(content, place, message):
    with pytest.raises(SynclineError) as caught:
        convert(Printed("job.txt", content))
    found = caught.value.diagnostics[0]
    assert message in found["message"]
    if isinstance(place, str):
        place = (1, content.index(place) + 1)
    if place is not None:
        assert (found["place"]["line"], found["place"]["column"]) == place


def test_the_first_part_that_repeats_is_the_longest():
    assert repeats.find("xababy", 2) == (1, 2)
    assert repeats.find("aaaa", 2) == (0, 2)
    assert repeats.find("abc", 2) is None
    assert repeats.find("abc", 1) == (0, 3)


def test_convert_writes_a_scenario_that_names_its_fabric(cli):
    job = cli.write("job.txt", text(BLOCK, tp=8))
    cli.write("fabric.yaml", "switch: { hosts: 8, rate: 100GB/s }\n")
    missing = cli("convert", job, "job.yaml")
    assert missing.returncode == 2
    assert "add --fabric FILE" in missing.stderr
    assert cli("convert", job, "job.yaml", "--fabric", "fabric.yaml").returncode == 0
    printed = json.loads(cli("simulate", "job.yaml", "--quiet", "--json").stdout)
    assert printed["summary"]["step_time_s"] == pytest.approx(8e-3 + 4 * 0.8e-3 * 7 / 8, rel=1e-3)
    refused = cli("convert", "job.yaml", "again.yaml", "--fabric", "fabric.yaml")
    assert refused.returncode == 2
    assert "--fabric applies only to converting a workload of SimAI" in refused.stderr
