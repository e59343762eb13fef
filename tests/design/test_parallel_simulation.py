"""Configurations that are simulated, beside their estimates."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

import syncline
from syncline.design.parallel import Objective, Request, read_model, search, sweep
from syncline.design.parallel.scenario import loaded, refusal, scenario
from syncline.design.parallel.simulation import simulated
from syncline.design.parallel.simulation_screen import WHY, rows
from syncline.estimate import Job, machine
from syncline.jobs import TrainingJob, estimate
from syncline.models.hugging_face.architecture import architecture
from tests.conftest import Cli
from tests.design.test_parallel import LLAMA_70B

MODEL = architecture(LLAMA_70B, "a model")


def of(**how):
    given = {"sequence": 4096, "overlap": {"gradients": True, "pipeline": True}, **how}
    return TrainingJob("a model", MODEL, machine("H100"), Job.model_validate(given), "megatron")


def request(gpus, batch):
    return Request(MODEL, machine("H100"), gpus, 8192, batch, keep=5)


def test_with_little_communication_both_are_alike():
    """A pipeline of two stages: what is left is that messages are hidden, of which the estimate exposes a part."""
    job = of(tensor=1, pipeline=2, micro_batches=8)
    found = syncline.simulate(scenario(job)).summary.total_time_s
    assert found == pytest.approx(estimate(job).step_s, rel=0.006)


@pytest.mark.parametrize("pipeline", [1, 4])
def test_gradients_of_a_stage_with_one_chunk_are_reduced_while_it_goes_backward(pipeline):
    """By hand: all but the gradients of the first bucket, here those of an embedding or a layer, are hidden."""
    how = {
        "tensor": 8,
        "sequence_parallel": True,
        "pipeline": pipeline,
        "data": 16,
        "shard_group": 16,
        "zero": 0,
        "micro_batch": 4,
    }
    overlaps, waits = (
        syncline.simulate(scenario(of(**how, micro_batches=8, overlap={"gradients": each}))).summary.total_time_s
        for each in (True, False)
    )
    layers = 80 / pipeline
    # 4 bytes of 16 ranks in as many domains; an all-reduce moves 2 (n - 1) / n times that through 50 GB/s.
    layer = 8192 * (2 * 8192 + 2 * 1024 + 3 * 28672) / 8 * 4 * 2 * 15 / 16 / 50e9
    assert 0.9 * layers * layer < waits - overlaps < 1.3 * (layers + 2) * layer


@pytest.mark.parametrize(("gpus", "batch"), [(64, 128), (512, 512), (1024, 1024)])
def test_the_best_configurations_take_about_as_long_as_estimated(gpus, batch):
    found = simulated(sweep([request(gpus, batch)]), 3)
    assert len(found) == 3
    for each in found:
        assert each.difference is not None and abs(each.difference) < 0.05


LLAMA_405B = {**LLAMA_70B, "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128}


@pytest.mark.parametrize("config", [LLAMA_70B, {**LLAMA_405B, "intermediate_size": 53248}], ids=["70B", "405B"])
def test_a_configuration_of_1024_accelerators_is_simulated_within_a_second(config):
    """With NCCL's times. Processor time, since other tests may run beside this one."""
    model = architecture(config, "a model")
    best = search(Request(model, machine("H100"), 1024, 8192, 1024, keep=1)).best[0]
    made = loaded(TrainingJob("a model", model, machine("H100"), best.how, "megatron"))
    begun = time.process_time()
    syncline.simulate(made)
    assert time.process_time() - begun < 1


def test_experts_whose_exchanges_overlap_are_simulated_within_a_second_too():
    """DeepSeek-V3 on 1,024 accelerators: 16 stages of 4 chunks, 64 micro-batches, and each step in full."""
    model = read_model("deepseek-v3")
    given = {"pipeline": 16, "virtual_stages": 4, "data": 16, "tensor": 4, "expert": 16, "micro_batches": 64, "zero": 1}
    overlap = {"gradients": True, "parameters": True, "pipeline": True, "experts": True}
    how = Job.model_validate({**given, "sequence": 4096, "shard_group": 16, "overlap": overlap})
    job = TrainingJob("a job", model, machine("H100"), how, "megatron")
    made = loaded(job)
    begun = time.process_time()
    found = syncline.simulate(made).summary
    # Twice of what it takes on an idle machine.
    assert time.process_time() - begun < 1.6
    assert found.total_time_s == pytest.approx(estimate(job).step_s, rel=0.08)


def test_a_slower_network_makes_the_simulated_step_longer():
    slow, fast = (
        simulated(sweep([replace(request(512, 512), machine=machine("H100", nic_bytes_per_s=rate))]), 1)[0]
        for rate in (5e9, 50e9)
    )
    assert slow.step_s is not None and fast.step_s is not None and slow.step_s > fast.step_s


def test_the_best_of_all_numbers_are_simulated_in_their_order():
    every = sweep([request(256, 512), request(512, 512)], Objective.DOLLARS)
    found = simulated(every, 2)
    assert found[0].configuration is every.best.best[0]


@pytest.mark.parametrize(
    ("how", "key", "remedy"),
    [
        ({"pipeline": 2, "schedule": "zb-h1", "micro_batches": 4}, "parallel.schedule", "schedule: 1f1b"),
        ({}, "cluster.gpus", "without a simulation"),
        ({"data": 12}, "cluster.gpus", "domain: 4"),
    ],
)
def test_what_has_no_scenario_says_which_key_and_what_to_do(how, key, remedy):
    problem = refusal(of(**how))
    assert problem is not None
    assert problem["key"] == key and remedy in problem["help"]


def test_the_remedy_for_domains_that_are_not_full_works():
    assert refusal(replace(of(data=12), machine=machine("H100", domain=4))) is None
    assert refusal(of(data=16)) is None


def test_the_command_shows_both_times(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    given = ("design", "parallel", "config.json", "--gpus", "512", "--simulate", "2")
    found = cli(*given)
    assert found.returncode == 0, found.stderr
    assert "simulated configuration" in found.stdout and WHY.split()[0] in found.stdout
    told = json.loads(cli(*given, "--json").stdout)["parallel"]["simulated"]
    assert len(told) == 2
    for each in told:
        assert each["simulated_s"] == pytest.approx(each["estimated_s"], rel=0.05)


def test_rows_have_a_sign():
    found = simulated(sweep([request(512, 512)]), 1)
    assert rows(found)[0][-1][0] in "+-0"


def test_a_machine_of_nccl_without_a_network_is_refused_for_several_nodes(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    found = cli("design", "parallel", "config.json", "--gpus", "64", "--nccl", "h100-sxm-2.23")
    assert found.returncode == 2
    assert "measured in one node" in found.stderr and "h100-sxm," in found.stderr and "--nics" in found.stderr
