"""Other commands refuse the specs and the folders of ``syncline design``."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli

SPEC = """\
schema: syncline-design/1
workload: { collective: all_reduce, bytes: 1MB }
fabric: { shape: Ring(4)_Switch(2) }
budget: { rate_per_npu: 100GB/s }
"""


JOINT = """\
schema: syncline-joint/1
model: dlrm
servers: 8
degree: 3
link: 10Gb/s
"""


@pytest.mark.parametrize(("search", "spec"), [("bandwidth", SPEC), ("joint", JOINT)], ids=["bandwidth", "joint"])
@pytest.mark.parametrize(("command", "status"), [("check", 1), ("simulate", 2)])
def test_a_design_spec_is_refused_as_a_scenario(cli: Cli, command: str, status: int, search: str, spec: str) -> None:
    """There is one error, which names the right command, and none about keys that a scenario would need."""
    done = cli(command, cli.write("spec.yaml", spec))
    assert done.returncode == status
    assert done.stderr.count("error[") == 1
    assert "spec.yaml:1:9" in done.stderr
    assert f"syncline design {search} spec.yaml" in done.stderr


@pytest.fixture
def found(cli: Cli) -> str:
    """The folder of a finished search."""
    pytest.importorskip("cvxpy")
    assert cli("design", "bandwidth", cli.write("spec.yaml", SPEC), "--quiet").returncode == 0
    return "runs/design-spec"


@pytest.mark.parametrize("file", ["", "/design.json"])
def test_the_error_for_the_folder_of_a_search_names_its_run(cli: Cli, found: str, file: str) -> None:
    done = cli("explain", found + file)
    assert done.returncode == 3
    assert done.stderr.count("error[") == 1
    assert f"{found}/run\n" in done.stderr
    assert cli("explain", f"{found}/run").returncode == 0
    assert f"{found}/run\n" in cli("compare", found, f"{found}/run").stderr


def test_each_job_has_its_own_run(cli: Cli) -> None:
    pytest.importorskip("cvxpy")
    jobs = [{"name": name, "workload": {"collective": name, "bytes": "1MB"}} for name in ("all_reduce", "broadcast")]
    spec = {"jobs": jobs, "fabric": {"shape": "Ring(4)"}, "budget": {"rate_per_npu": "1GB/s"}}
    assert cli("design", "bandwidth", cli.write("jobs.json", json.dumps(spec)), "--quiet").returncode == 0
    told = " ".join(cli("explain", "runs/design-jobs").stderr.split())
    assert "runs/design-jobs/run-all_reduce and runs/design-jobs/run-broadcast" in told
