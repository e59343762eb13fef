"""The machine of NCCL that a job names: results say by what they are calibrated, and other GPUs are an error."""

from __future__ import annotations

import json

import pytest

from syncline.errors import SynclineError
from syncline.estimate import machine
from syncline.nccl import load
from syncline.nccl.generations import generation
from tests.conftest import Cli
from tests.nccl.made_up import output

JOB = """\
schema: syncline-job/1
model: {{ hidden: 4096, layers: 32, heads: 32, kv_heads: 8, ffn: 14336, gated: true, vocab: 128256 }}
cluster: {{ accelerator: {accelerator}, gpus: 8, nccl: {nccl} }}
parallel: {{ tensor: 8, sequence_parallel: true }}
batch: {{ sequence: 8192, micro_batch: 1, global_batch: 8 }}
"""


@pytest.fixture
def ours(cli: Cli) -> str:
    programs = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf")
    text = "".join(
        output(program, gpus, reduces=program != "all_gather_perf") for program in programs for gpus in (2, 4, 8)
    )
    assert cli("calibrate", cli.write("tests.txt", text), "--out", "ours.yaml", "--name", "ours").returncode == 0
    return "ours.yaml"


def test_an_estimate_says_by_what_it_is_calibrated(cli: Cli, ours: str) -> None:
    job = cli.write("job.yaml", JOB.format(accelerator="H100", nccl=ours))
    date = load(str(cli.folder / ours)).content.date
    # The times follow the model but for their digits.
    said = f"collectives by ours (NCCL 2.27.3, {date}); errors in a node median 0.0 %, 90th percentile 0."
    assert said in " ".join(cli("estimate", job).stdout.split())
    found = json.loads(cli("estimate", job, "--json").stdout)["estimate"]["calibrated"]
    assert found.startswith(said)
    assert "between nodes" not in found


def test_the_machine_of_the_accelerator_is_in_json_alone(cli: Cli) -> None:
    job = cli.write("job.yaml", JOB.format(accelerator="H100", nccl="h100-sxm"))
    assert "Calibrated" not in cli("estimate", job).stdout
    found = json.loads(cli("estimate", job, "--json").stdout)["estimate"]["calibrated"]
    assert found.startswith("collectives by h100-sxm (NCCL ")


def test_a_search_says_it_too_and_that_the_network_was_not_measured(cli: Cli) -> None:
    done = cli("design", "parallel", "llama3-8b", "--gpus", "16", "--nccl", "h200-sxm", "--top", "1")
    told = " ".join(done.stdout.split())
    assert "Calibrated: collectives by h200-sxm (NCCL " in told
    assert told.rstrip(".").endswith("between nodes not measured")


def test_the_nccl_of_another_generation_is_an_error(cli: Cli) -> None:
    job = cli.write("job.yaml", JOB.format(accelerator="H100", nccl="a100-sxm"))
    done = cli("estimate", job)
    assert done.returncode == 2
    assert "with other GPUs than H100-SXM5-80GB" in done.stderr
    assert "job.yaml:3:" in done.stderr
    with pytest.raises(SynclineError) as raised:
        machine("B200", nccl="h100-sxm")
    assert "b300-sxm" in raised.value.diagnostics[0]["allowed"]
    assert machine("GB300", nccl="b200-sxm").nccl == "b200-sxm"


def test_names_of_accelerators_have_generations() -> None:
    assert generation("NVIDIA H100 80GB HBM3") == generation("H20-SXM-96GB") == generation("GH200")
    assert generation("NVIDIA A100-SXM4-80GB") == ("A100",)
    assert generation("Own 1") is None
