"""Job files of what a search found are those configurations, wherever the files are."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from syncline.clusters.known import find
from syncline.design.parallel import Request, read_model, search
from syncline.design.parallel.training import training_job
from syncline.errors import SynclineError
from syncline.estimate import machine, of_cluster
from syncline.jobs import estimate, read_job
from syncline.jobs.written import job_text
from tests.conftest import ROOT, Cli

LLAMA = ROOT / "examples/llama-3-70b/config.json"
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
}


def best(model, gpus=64, accelerator="H100", *, found=None, **changes):
    given = {"sequence": 4096, "global_batch": 128, **changes}
    made = search(Request(read_model(model), found or machine(accelerator), gpus, **given))
    return [training_job(made.request, each) for each in made.best]


def again(job, model, folder):
    """The job of its file."""
    (folder / "job.yaml").write_text(job_text(job, str(model), str(folder), "a\ncomment"))
    return read_job(str(folder / "job.yaml"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"accelerator": "H200", "precision": "fp8", "gradients": "bf16", "moments": "8bit"},
        {"offload": ("activations", "optimizer"), "gpus": 32},
        {"schedules": ("zb-v", "zb-h1")},
        {"schedules": ("dualpipe",)},
        {"found": machine("A100", nic_bytes_per_s=12.5e9, domain=4, memory_bytes=79e9)},
        {"found": machine("H100", host_bytes_per_s=3e10, host_memory_bytes=1e11, host_memory_bytes_per_s=2e10)},
        {"found": machine("GB200", nccl="b200-sxm")},
        {"found": of_cluster(find("selene"))},
    ],
    ids=str,
)
def test_the_file_is_the_configuration(changes, tmp_path):
    for job in best(LLAMA, **changes):
        found = again(job, LLAMA, tmp_path)
        assert found.job == job.job
        assert (found.name, estimate(found).step_s) == (job.name, estimate(job).step_s)
        assert found.machine.host == job.machine.host
        assert estimate(found).memory_bytes == estimate(job).memory_bytes


@pytest.mark.parametrize(
    ("experts", "changes"),
    [
        (False, {"low_precision_parameters": True, "fp8_attention": True, "low_precision_output_layer": True}),
        (False, {"first_layers_bf16": 2, "last_layers_bf16": 1}),
        (True, {"adapters": 8, "expert_adapters": "each"}),
        (True, {"adapters": 8, "expert_adapters": "shared"}),
    ],
    ids=str,
)
def test_types_and_adapters_of_a_job_are_those_of_its_file(experts, changes, tmp_path):
    model = tmp_path / "config.json"
    model.write_text(json.dumps(GPT_OSS))
    found = best(str(model) if experts else LLAMA, precision="bf16" if experts else "fp8")[0]
    job = replace(found, job=found.job.changed(**changes))
    assert again(job, model if experts else LLAMA, tmp_path).job == job.job


@pytest.mark.parametrize("dispatcher", ["all_to_all", "fused"])
def test_the_file_names_the_model_relative_to_itself(dispatcher, tmp_path, monkeypatch):
    """Experts of GPT-OSS have biases, which sizes in a job file cannot say: the file's model counts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(GPT_OSS))
    for model in ("model", "model/config.json"):
        job = best(model, dispatcher=dispatcher, graphs="full")[0]
        found = again(job, model, tmp_path / "jobs")
        assert 'model: "../model/config.json"' in (tmp_path / "jobs" / "job.yaml").read_text()
        assert found.job == job.job
        assert estimate(found).step_s == estimate(job).step_s


def test_a_model_may_have_a_name(tmp_path):
    job = best("llama3-8b")[0]
    assert "model: llama3-8b\n" in job_text(job, "llama3-8b", str(tmp_path), "a comment")
    assert again(job, "llama3-8b", tmp_path).job == job.job


def test_a_clock_that_files_cannot_say_is_an_error(tmp_path):
    job = best("llama3-8b", gpus=8, found=of_cluster(find("b200-simumax")))[0]
    with pytest.raises(SynclineError, match="clock under load"):
        job_text(job, "llama3-8b", str(tmp_path), "a comment")


def test_the_command_writes_a_file_that_is_estimated_at_once(cli: Cli):
    (cli.folder / "config.json").write_text(json.dumps(GPT_OSS))
    done = cli("design", "parallel", "config.json", "--gpus", "64", "--top", "1", "--job", "best.yaml")
    assert done.returncode == 0, done.stderr
    assert "Wrote best.yaml" in done.stderr
    assert "model: config.json\n" in (cli.folder / "best.yaml").read_text()
    step = " ".join(done.stdout.split()).split(" accelerators: ")[1].split(" a step")[0]
    assert f"{step} a step" in " ".join(cli("estimate", "best.yaml").stdout.split())
    again = cli("design", "parallel", "config.json", "--gpus", "64", "--job", "best.yaml")
    assert (again.returncode, "add --force" in again.stderr) == (2, True)
    wrong = cli("design", "parallel", "config.json", "--gpus", "64", "--job", "best.txt")
    assert (wrong.returncode, "a name that ends in .yaml" in wrong.stderr) == (2, True)


def test_the_file_has_the_layers_of_chunks_that_are_not_equal(cli: Cli):
    sizes = {"hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672}
    model = {"model_type": "llama", "num_hidden_layers": 61, "vocab_size": 128256, **sizes}
    (cli.folder / "config.json").write_text(json.dumps(model))
    done = cli("design", "parallel", "config.json", "--gpus", "64", "--simulate", "1", "--job", "best.yaml")
    assert done.returncode == 0, done.stderr
    assert "simulated configuration" in done.stdout
    assert re.search(r"chunk_layers: \[(\d+, )+\d+\]", (cli.folder / "best.yaml").read_text())
    step = " ".join(done.stdout.split()).split(" accelerators: ")[1].split(" a step")[0]
    again = cli("estimate", "best.yaml", "--simulate")
    assert again.returncode == 0, again.stderr
    assert f"{step} a step" in " ".join(again.stdout.split())
