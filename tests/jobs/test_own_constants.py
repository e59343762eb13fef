"""Constants that were fitted to a user's own runs count in jobs, and say to what they were fitted."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli

CONSTANTS = Path(__file__).parent / "constants.yaml"
JOB = """\
schema: syncline-job/1
model: llama3-8b
cluster: { accelerator: H100, gpus: 8 }
parallel: { tensor: 2, sequence_parallel: true, zero: 1 }
batch: { sequence: 8192, micro_batch: 1, global_batch: 32 }
constants: own.yaml
"""


@pytest.fixture
def job(cli: Cli) -> str:
    shutil.copy(CONSTANTS, cli.folder / "own.yaml")
    return cli.write("job.yaml", JOB)


def test_a_file_of_constants_counts_and_says_what_it_was_fitted_to(cli: Cli, job: str) -> None:
    done = cli("estimate", job)
    told = " ".join(done.stdout.split())
    assert "Error bar: none. Constants are those of own.yaml, fitted to 12 runs of models without experts." in told
    assert "half of 12 were within 2.0 %, and nine of ten within 6.0 %." in told
    assert "by the error bar" not in told
    assert cli("estimate", job, "--report", "page.html").returncode == 0
    assert "constants megatron of own.yaml" in (cli.folder / "page.html").read_text("utf-8")


def test_a_set_without_rows_of_its_own_is_refused(cli: Cli, job: str) -> None:
    done = cli("estimate", job, "--set", "framework=torchtitan")
    assert done.returncode == 2
    assert "no row calibrated constants of torchtitan on H100-SXM5-80GB in this file" in done.stderr
    assert "this one has megatron" in done.stderr and "constants" in done.stderr


def test_a_file_that_is_no_file_of_constants_is_named(cli: Cli, job: str) -> None:
    assert "no such file" in cli("estimate", job, "--set", "constants=nosuch.yaml").stderr
    done = cli("estimate", job, "--set", "constants=job.yaml")
    assert done.returncode == 2 and "sets" in done.stderr


def test_a_search_uses_the_constants_and_writes_them_into_the_job(cli: Cli, job: str) -> None:
    search = ("design", "parallel", "llama3-8b", "--gpus", "8", "--global-batch", "32", "--top", "1")
    done = cli(*search, "--constants", "own.yaml", "--job", "best.yaml")
    told = " ".join(done.stdout.split())
    assert "fitted to 12 runs of models without experts" in told and "by the error bar" not in told
    assert "constants: own.yaml" in (cli.folder / "best.yaml").read_text("utf-8")
    step = json.loads(cli("estimate", "best.yaml", "--json").stdout)["estimate"]["step_s"]
    found = json.loads(cli(*search, "--constants", "own.yaml", "--json").stdout)["parallel"]
    assert found["configurations"][0]["step_s"] == pytest.approx(step, rel=1e-6)
    assert found["errors"] is None
    refused = cli(*search, "--constants", "own.yaml", "--accelerator", "A100")
    assert refused.returncode == 2
    assert "no row calibrated constants of megatron on A100-SXM4-80GB in this file" in refused.stderr


def test_a_cluster_has_no_nccl_of_other_gpus(cli: Cli) -> None:
    done = cli("design", "parallel", "llama3-8b", "--gpus", "8", "--cluster", "eos", "--nccl", "a100-sxm")
    assert done.returncode == 2 and "with other GPUs than H100" in done.stderr


@pytest.mark.slow
def test_runs_that_take_longer_give_constants_that_take_longer(cli: Cli) -> None:
    pytest.importorskip("scipy")
    with (ROOT / "validation" / "runs.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["calibrates"] == "h100" and not row["excluded"]]
    rows = [row for row in rows if row["model"] in ("llama3-70b", "llama3-8b")][:16]
    with (cli.folder / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "step_s": 1.2 * float(row["step_s"]), "mfu": ""} for row in rows)
    assert cli("validate", "constants", "runs.csv", "-o", "own.yaml").returncode == 0
    cli.write("job.yaml", JOB)

    def step(*more: str) -> float:
        return json.loads(cli("estimate", "job.yaml", "--json", *more).stdout)["estimate"]["step_s"]

    assert step() / step("--set", "constants=null") == pytest.approx(1.2, abs=0.08)
